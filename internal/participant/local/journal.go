package local

import (
	"context"
	"errors"
	"fmt"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/rpc"
	"giro/internal/stepkey"
)

// Post books a journal entry of several lines.
func (b Books) Post(ctx context.Context, key, currency string, lines []book.EntryLine, reason string) (Change, error) {
	return b.entry(ctx, key, book.Operation{Kind: book.Journal, Currency: money.Currency(currency)}, book.Details{Lines: lines, Reason: reason})
}

// Reverse books the opposite of a journal entry, once.
func (b Books) Reverse(ctx context.Context, key, entryKey, reason string) (Change, error) {
	tenant := rpc.PrincipalFrom(ctx).Tenant
	id := book.ID{Tenant: tenant, Key: stepkey.Derive(stepkey.V1, tenant, names.TransferKey(entryKey), book.Journal.String())}
	// The entry never changes, so what is read now is what the book will find.
	entry, err := b.engine.Store().Operation(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return Change{}, rpc.NotFound(book.NoJournalEntry.String(), fmt.Sprintf("there is no journal entry under the key %q; nothing was done, and this key is not used up", entryKey))
	}
	if err != nil {
		return Change{}, rpc.Unanswered(ctx, err)
	}
	lines, err := entry.EntryLines()
	if err != nil {
		return Change{}, rpc.Unanswered(ctx, err)
	}
	for i := range lines {
		lines[i].Delta = -lines[i].Delta
	}
	return b.entry(ctx, key, book.Operation{Kind: book.Reverse, Currency: entry.Currency, DebitKey: id.Key}, book.Details{Lines: lines, Reason: reason})
}

// entry is change for what is not of one account.
func (b Books) entry(ctx context.Context, key string, o book.Operation, details book.Details) (Change, error) {
	o.Details = details.String()
	a, err := b.apply(ctx, key, &o)
	if err != nil {
		return Change{}, err
	}
	return Change{Moved: a.AmountMoved, Replayed: a.Replayed, FirstTime: a.FirstTime}, nil
}
