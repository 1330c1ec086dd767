package local

import (
	"context"

	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/rpc"
	"giro/internal/stepkey"
)

// Suspense gives a page of the tenant's refunds that went to suspense, with the
// next page's token.
func (b Books) Suspense(ctx context.Context, pageSize int32, pageToken string) ([]store.Suspended, string, error) {
	tenant := rpc.PrincipalFrom(ctx).Tenant
	limit, err := rpc.PageSize(pageSize)
	if err != nil {
		return nil, "", err
	}
	scope := "suspense/" + string(tenant)
	place, err := rpc.ParsePageToken(pageToken, scope, 1)
	if err != nil {
		return nil, "", err
	}
	var after stepkey.StepKey
	if pageToken != "" {
		if after, err = stepkey.Parse(place[0]); err != nil {
			return nil, "", rpc.InvalidPageToken()
		}
	}
	list, err := b.engine.Store().Suspended(ctx, tenant, after, limit)
	if err != nil {
		return nil, "", rpc.Unanswered(ctx, err)
	}
	if len(list) < limit {
		return list, "", nil
	}
	return list, rpc.PageToken(scope, list[limit-1].Key.String()), nil
}

// Release moves a suspended refund to an account.
func (b Books) Release(ctx context.Context, key, refundKey, account, reason string) (Change, error) {
	refund, err := stepkey.Parse(refundKey)
	if err != nil {
		return Change{}, rpc.InvalidArgument([]rpc.Violation{{Field: "refund_key", Description: "must be a UUID in canonical lower-case text"}})
	}
	return b.detailed(ctx, key, book.Operation{Kind: book.Release, Account: names.Account(account), DebitKey: refund},
		book.Details{Reason: reason, Actor: rpc.PrincipalFrom(ctx).Actor})
}
