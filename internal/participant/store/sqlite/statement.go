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
	rows, err := s.read.linesAfter.QueryContext(ctx, id.Tenant, id.Account, after.Time.UnixMicro(), after.Seq, limit)
	return collect(rows, err, scanOperation)
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
