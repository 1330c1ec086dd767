package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/stepkey"
)

// Span implements store.Store.
func (s *Store) Span(ctx context.Context, id book.AccountID, from, to time.Time) (store.Span, error) {
	if err := s.waitForWriter(ctx); err != nil {
		return store.Span{}, err
	}
	tx, err := s.snapshot(ctx)
	if err != nil {
		return store.Span{}, err
	}
	defer func() { _ = tx.Rollback() }() // it only read
	var span store.Span
	span.Account, err = scanAccount(tx.StmtContext(ctx, s.read.account).QueryRowContext(ctx, id.Tenant, id.Account))
	if errors.Is(err, sql.ErrNoRows) {
		return span, store.ErrNotFound
	}
	if err != nil {
		return span, fmt.Errorf("account: %w", classify(err))
	}
	forward, err := s.forwarded(ctx, tx, span.Account)
	if err != nil {
		return span, err
	}
	if store.Unsayable(forward, from, to) {
		return span, store.ErrArchived{Until: forward.FirstTime}
	}
	span.Before, span.Opening = store.Place{Time: forward.FirstTime, Seq: forward.Seq}, forward.BalanceAfter
	if !from.IsZero() {
		if span.Before, span.Opening, err = s.lastOf(ctx, tx, s.read.lastBefore, id, from.UnixMicro()); err != nil {
			return span, err
		}
	}
	var last store.Place
	if to.IsZero() {
		last, span.Closing, err = s.lastOf(ctx, tx, s.read.lastLine, id)
	} else {
		last, span.Closing, err = s.lastOf(ctx, tx, s.read.lastBefore, id, to.UnixMicro())
	}
	span.Last = last.Seq
	return span, err
}

// waitForWriter waits until whoever is writing has ended: who begins after that
// reads a later clock.
func (s *Store) waitForWriter(ctx context.Context) error {
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return fmt.Errorf("%w: wait for the writer: %w", store.ErrTransient, err)
	}
	defer conn.Close()
	tx, err := conn.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return fmt.Errorf("begin: %w", classify(err))
	}
	return tx.Rollback()
}

// lastOf reads one line's place and balance, zero where there is none.
func (s *Store) lastOf(ctx context.Context, tx *sql.Tx, statement *sql.Stmt, id book.AccountID, more ...any) (store.Place, money.Minor, error) {
	var place store.Place
	var balance money.Minor
	var at int64
	arguments := append([]any{id.Tenant, id.Account}, more...)
	err := tx.StmtContext(ctx, statement).QueryRowContext(ctx, arguments...).Scan(&at, &place.Seq, &balance)
	if errors.Is(err, sql.ErrNoRows) {
		return store.Place{}, 0, nil
	}
	if err != nil {
		return place, 0, fmt.Errorf("statement: %w", classify(err))
	}
	place.Time = time.UnixMicro(at).UTC()
	return place, balance, nil
}

// Lines implements store.Store.
func (s *Store) Lines(ctx context.Context, id book.AccountID, after store.Place, last int64, limit int) ([]book.Stored, error) {
	limit = int(min(int64(limit), last-after.Seq)) // numbers have no gaps
	if limit <= 0 {
		return nil, nil
	}
	tx, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // it only read
	rows, err := tx.StmtContext(ctx, s.read.linesAfter).QueryContext(ctx, id.Tenant, id.Account, after.Time.UnixMicro(), after.Seq, limit)
	lines, err := collect(rows, err, scanOperation)
	if err != nil || store.Complete(lines, after, last, limit) {
		return lines, err
	}
	account, err := scanAccount(tx.StmtContext(ctx, s.read.account).QueryRowContext(ctx, id.Tenant, id.Account))
	if errors.Is(err, sql.ErrNoRows) {
		return lines, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lines: %w", classify(err))
	}
	forward, err := s.forwarded(ctx, tx, account)
	if err == nil && forward.Seq > after.Seq {
		return nil, store.ErrArchived{Until: forward.FirstTime}
	}
	return lines, err
}

// forwarded reads an account's brought-forward line; the zero value if it has none.
func (s *Store) forwarded(ctx context.Context, tx *sql.Tx, a book.Account) (book.Stored, error) {
	id := book.ForwardOf(a.AccountID, a.Currency)
	line, err := scanOperation(tx.StmtContext(ctx, s.read.operation).QueryRowContext(ctx, id.Tenant, id.Key[:]))
	if errors.Is(err, sql.ErrNoRows) {
		return book.Stored{}, nil
	}
	if err != nil {
		return book.Stored{}, fmt.Errorf("brought forward: %w", classify(err))
	}
	return line, nil
}

// Suspended implements store.Store.
func (s *Store) Suspended(ctx context.Context, tenant names.Tenant, after stepkey.StepKey, limit int) ([]store.Suspended, error) {
	rows, err := s.read.suspended.QueryContext(ctx, tenant, after[:], max(0, limit))
	return collect(rows, err, func(r row) (store.Suspended, error) {
		var one store.Suspended
		var err error
		one.Stored, err = scanOperation(withMore{r, []any{&one.ReleasedTo}})
		return one, err
	})
}

// withMore scans columns after those that are asked for.
type withMore struct {
	row
	more []any
}

func (w withMore) Scan(into ...any) error { return w.row.Scan(append(into, w.more...)...) }
