package ledgersvc

import (
	"context"

	ledgerv1 "giro/proto/giro/ledger/v1"
)

// ListSuspense lists refunds whose account could not take them.
func (s *Service) ListSuspense(ctx context.Context, r *ledgerv1.ListSuspenseRequest) (*ledgerv1.ListSuspenseResponse, error) {
	list, next, err := s.books.Suspense(ctx, r.GetPageSize(), r.GetPageToken())
	if err != nil {
		return nil, err
	}
	out := &ledgerv1.ListSuspenseResponse{NextPageToken: next}
	for _, one := range list {
		out.Refunds = append(out.Refunds, &ledgerv1.SuspendedRefund{
			RefundKey: one.Key.String(), TransferKey: string(one.TransferKey), Account: string(one.Account),
			Amount: int64(one.AmountMoved), Currency: string(one.Currency), Time: instant(one.FirstTime),
			ReleasedTo: string(one.ReleasedTo),
		})
	}
	return out, nil
}

// ReleaseSuspense moves a suspended refund to an account, once.
func (s *Service) ReleaseSuspense(ctx context.Context, r *ledgerv1.ReleaseSuspenseRequest) (*ledgerv1.ReleaseSuspenseResponse, error) {
	c, err := s.books.Release(ctx, r.GetKey(), r.GetRefundKey(), r.GetAccount(), r.GetReason())
	if err != nil {
		return nil, err
	}
	return &ledgerv1.ReleaseSuspenseResponse{
		Amount: int64(c.Moved), BalanceAfter: int64(c.BalanceAfter), Replayed: c.Replayed, FirstTime: instant(c.FirstTime)}, nil
}
