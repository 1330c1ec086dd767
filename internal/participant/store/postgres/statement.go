package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/pgpool"
	"giro/internal/stepkey"
)

// never lies after every line.
var never = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// Span implements store.Store.
func (s *Store) Span(ctx context.Context, id book.AccountID, from, to time.Time) (store.Span, error) {
	var span store.Span
	if !id.Tenant.Valid() || !id.Account.Valid() {
		return span, store.ErrNotFound
	}
	if to.IsZero() {
		to = never
	}
	err := s.spans.With(ctx, (readSecondsMax+1)*time.Second, func(ctx context.Context, c *pgpool.Conn) (err error) {
		if err := c.Begin(ctx); err != nil {
			return err
		}
		if span, err = spanOf(ctx, c, id, from, to); err != nil {
			return err
		}
		// Nothing was changed: a COMMIT would only hold the account for longer.
		_, err = c.Exec(ctx, "rollback")
		return err
	})
	if archived := (store.ErrArchived{}); err != nil && !errors.Is(err, store.ErrNotFound) && !errors.As(err, &archived) {
		err = fmt.Errorf("statement: %w", classify(err))
	}
	return span, err
}

func spanOf(ctx context.Context, tx *pgpool.Conn, id book.AccountID, from, to time.Time) (store.Span, error) {
	var span store.Span
	// What begins once the account is locked has a later time. Readers that share a
	// lock would go past a writer that waits, and keep it waiting.
	accounts, err := collect(ctx, tx, scanAccount, lockAccount, string(id.Tenant), string(id.Account))
	if err != nil {
		return span, err
	}
	if len(accounts) == 0 {
		return span, store.ErrNotFound
	}
	span.Account = accounts[0]
	forward, err := forwarded(ctx, tx, span.Account)
	if err != nil {
		return span, err
	}
	if store.Unsayable(forward, from, to) {
		return span, store.ErrArchived{Until: forward.FirstTime}
	}
	span.Before, span.Opening = store.Place{Time: forward.FirstTime, Seq: forward.Seq}, forward.BalanceAfter
	if !from.IsZero() {
		if span.Before, span.Opening, err = lastOf(ctx, tx, id, from); err != nil {
			return span, err
		}
	}
	last, closing, err := lastOf(ctx, tx, id, to)
	span.Last, span.Closing = last.Seq, closing
	return span, err
}

// lastOf reads the last line before an instant, zero where there is none.
func lastOf(ctx context.Context, tx *pgpool.Conn, id book.AccountID, before time.Time) (store.Place, money.Minor, error) {
	var place store.Place
	var balance money.Minor
	err := tx.QueryRow(ctx, lastBefore, string(id.Tenant), string(id.Account), before).Scan(&place.Time, &place.Seq, &balance)
	if errors.Is(err, pgx.ErrNoRows) {
		return store.Place{}, 0, nil
	}
	place.Time = place.Time.UTC()
	return place, balance, err
}

// Lines implements store.Store.
func (s *Store) Lines(ctx context.Context, id book.AccountID, after store.Place, last int64, limit int) ([]book.Stored, error) {
	limit = int(min(int64(limit), last-after.Seq)) // numbers have no gaps
	if limit <= 0 {
		return nil, nil
	}
	lines, err := query(ctx, s, scanOperation, linesAfter, string(id.Tenant), string(id.Account), after.Time, after.Seq, int64(limit))
	if err != nil {
		return nil, fmt.Errorf("lines: %w", err)
	}
	if store.Complete(lines, after, last, limit) {
		return lines, nil
	}
	account, err := s.Account(ctx, id)
	if err == nil {
		var forward book.Stored
		forward, err = s.Operation(ctx, book.ForwardOf(id, account.Currency))
		if err == nil && forward.Seq > after.Seq {
			return nil, store.ErrArchived{Until: forward.FirstTime}
		}
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	return lines, nil
}

// Suspended implements store.Store.
func (s *Store) Suspended(ctx context.Context, tenant names.Tenant, after stepkey.StepKey, limit int) ([]store.Suspended, error) {
	if limit <= 0 {
		return nil, nil
	}
	list, err := query(ctx, s, scanSuspended, listSuspended, string(tenant), place(after), int64(limit))
	if err != nil {
		return nil, fmt.Errorf("suspended: %w", err)
	}
	return list, nil
}

func scanSuspended(row pgx.CollectableRow) (store.Suspended, error) {
	var one store.Suspended
	var err error
	one.Stored, err = scanOperation(withMore{row, []any{&one.ReleasedTo}})
	return one, err
}

// withMore scans columns after those that are asked for.
type withMore struct {
	pgx.CollectableRow
	more []any
}

func (w withMore) Scan(into ...any) error { return w.CollectableRow.Scan(append(into, w.more...)...) }
