package mem

import (
	"cmp"
	"context"
	"slices"
	"time"

	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/stepkey"
)

// Span implements store.Store.
func (s *Store) Span(ctx context.Context, id book.AccountID, from, to time.Time) (store.Span, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return store.Span{}, err
	}
	account, exists := s.accounts[id]
	if !exists {
		return store.Span{}, store.ErrNotFound
	}
	span := store.Span{Account: account}
	forward := s.forwarded(account)
	if store.Unsayable(forward, from, to) {
		return store.Span{}, store.ErrArchived{Until: forward.FirstTime}
	}
	for _, o := range s.linesOf(id) {
		switch {
		case o.Seq <= forward.Seq:
			span.Opening, span.Closing = forward.BalanceAfter, forward.BalanceAfter
			span.Before, span.Last = store.Place{Time: forward.FirstTime, Seq: forward.Seq}, forward.Seq
		case o.FirstTime.Before(from):
			span.Opening, span.Closing = o.BalanceAfter, o.BalanceAfter
			span.Before, span.Last = store.Place{Time: o.FirstTime, Seq: o.Seq}, o.Seq
		case to.IsZero() || o.FirstTime.Before(to):
			span.Closing, span.Last = o.BalanceAfter, o.Seq
		}
	}
	return span, nil
}

// Lines implements store.Store.
func (s *Store) Lines(ctx context.Context, id book.AccountID, after store.Place, last int64, limit int) ([]book.Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	lines := slices.DeleteFunc(s.linesOf(id), func(o book.Stored) bool { return o.Seq <= after.Seq || o.Seq > last })
	lines = lines[:max(0, min(limit, len(lines)))]
	if forward := s.forwarded(s.accounts[id]); forward.Seq > after.Seq && !store.Complete(lines, after, last, limit) {
		return nil, store.ErrArchived{Until: forward.FirstTime}
	}
	return lines, nil
}

// Suspended implements store.Store.
func (s *Store) Suspended(ctx context.Context, tenant names.Tenant, after stepkey.StepKey, limit int) ([]store.Suspended, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var list []store.Suspended
	for id, o := range s.operations {
		if id.Tenant == tenant && slices.Compare(id.Key[:], after[:]) > 0 && o.Kind == book.Refund && o.Outcome == book.Applied && o.ToSuspense {
			list = append(list, store.Suspended{Stored: o, ReleasedTo: s.refunds[id].Booked})
		}
	}
	slices.SortFunc(list, func(a, b store.Suspended) int { return slices.Compare(a.Key[:], b.Key[:]) })
	return list[:max(0, min(limit, len(list)))], nil
}

// linesOf gives the operations behind an account's lines, in order.
func (s *Store) linesOf(id book.AccountID) []book.Stored {
	var lines []book.Stored
	for _, o := range s.operations {
		if o.Tenant == id.Tenant && o.Booked == id.Account && o.Seq > 0 {
			lines = append(lines, o)
		}
	}
	slices.SortFunc(lines, func(a, b book.Stored) int { return cmp.Compare(a.Seq, b.Seq) })
	return lines
}
