package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"giro/internal/participant/book"
	"giro/internal/participant/store"
)

const operationColumns = `tenant, key, transfer_key, step, kind, account, amount, currency, counterparty, debit_key,
	outcome, reason, amount_moved, balance_after, debit_outcome, first_refund_key, first_refund_moved, to_suspense, first_time,
	booked, against, delta, seq, details`

const accountColumns = `tenant, account, currency, balance, floor, state, seq, created_at, updated_at,
	debit_max, day_max, day_zone, spent_on, spent, state_reason, holder, class, day_from`

// Row by row: in one process a prepared statement costs microseconds, and the
// write lock is held already.
type writeStatements struct {
	operation, refund, account *sql.Stmt
	addOperation, addEvent     *sql.Stmt
	openAccount, changeAccount *sql.Stmt
	amendAccount               *sql.Stmt
	raiseMark, retention       *sql.Stmt
}

func (w *writeStatements) texts() []prepared {
	return []prepared{
		{&w.operation, `select ` + operationColumns + ` from operations where tenant = ? and key = ?`},
		{&w.refund, `select ` + operationColumns + ` from operations
			where tenant = ? and debit_key = ? and kind in (3, 13, 16) and outcome = 1`},
		{&w.account, `select ` + accountColumns + ` from accounts where tenant = ? and account = ?`},
		{&w.addOperation, `insert into operations (` + operationColumns + `)
			values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&w.addEvent, `insert into events (created_at, tenant, id, type, key) values (?, ?, ?, ?, ?)`},
		{&w.openAccount, `insert into accounts (` + accountColumns + `) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&w.changeAccount, `update accounts set balance = ?, seq = ?, updated_at = ? where tenant = ? and account = ?`},
		{&w.amendAccount, `update accounts set balance = ?, seq = ?, updated_at = ?, floor = ?, state = ?, debit_max = ?, day_max = ?,
			day_zone = ?, spent_on = ?, spent = ?, day_from = ?, state_reason = ?, holder = ? where tenant = ? and account = ?`},
		{&w.raiseMark, `update meta set batches = batches + 1 where id = 1`},
		{&w.retention, retentionOf},
	}
}

// Apply implements store.Store. ctx bounds the wait for the writer; what has
// begun is finished, bounded by the busy timeout.
func (s *Store) Apply(ctx context.Context, operations []book.Operation, limits book.Limits) ([]book.Answer, error) {
	if len(operations) > book.BatchSizeMax {
		return nil, fmt.Errorf("sqlite: %d operations in a batch of at most %d", len(operations), book.BatchSizeMax)
	}
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		// Nothing was begun, so no operation of the batch is to blame.
		return nil, fmt.Errorf("%w: wait for the writer: %w", store.ErrTransient, err)
	}
	defer conn.Close()
	ctx = context.WithoutCancel(ctx)
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("begin: %w", classify(err))
	}
	// After a panic too: the connection is given back only when no transaction is
	// open on it, and it is the only writer.
	defer func() { _ = tx.Rollback() }()
	answers, err := s.decide(ctx, tx, operations, limits)
	if err != nil {
		return nil, classify(err)
	}
	if err := tx.Commit(); err != nil {
		return nil, fmt.Errorf("commit: %w", classify(err))
	}
	return answers, nil
}

func (s *Store) decide(ctx context.Context, tx *sql.Tx, operations []book.Operation, limits book.Limits) ([]book.Answer, error) {
	// The write lock is held from here on: nobody else changes what is read.
	w := writeStatements{
		operation: tx.StmtContext(ctx, s.write.operation),
		refund:    tx.StmtContext(ctx, s.write.refund),
		account:   tx.StmtContext(ctx, s.write.account),
		retention: tx.StmtContext(ctx, s.write.retention),
	}
	v, err := w.view(ctx, operations)
	if err != nil {
		return nil, err
	}
	answers, changes := book.Decide(v, operations, limits)
	if changes.Empty() {
		return answers, nil
	}
	return answers, s.save(ctx, tx, changes)
}

// view loads what the book may see.
func (w *writeStatements) view(ctx context.Context, operations []book.Operation) (*book.View, error) {
	v := &book.View{
		Now:        clock(),
		Zone:       store.Zone,
		Operations: map[book.ID]book.Stored{},
		Refunds:    map[book.ID]book.Stored{},
		Accounts:   map[book.AccountID]book.Account{},
	}
	var err error
	if v.Retention, err = scanRetention(w.retention.QueryRowContext(ctx)); err != nil {
		return nil, fmt.Errorf("load retention: %w", err)
	}
	load := func(statement *sql.Stmt, ids []book.ID, into map[book.ID]book.Stored) error {
		for _, id := range ids {
			stored, err := scanOperation(statement.QueryRowContext(ctx, id.Tenant, id.Key[:]))
			switch {
			case errors.Is(err, sql.ErrNoRows):
			case err != nil:
				return fmt.Errorf("load operation: %w", err)
			default:
				into[id] = stored
			}
		}
		return nil
	}
	if err := load(w.operation, book.Keys(operations), v.Operations); err != nil {
		return nil, err
	}
	if err := load(w.refund, book.Debits(operations), v.Refunds); err != nil {
		return nil, err
	}
	for _, id := range book.Accounts(operations, v.Operations) {
		account, err := scanAccount(w.account.QueryRowContext(ctx, id.Tenant, id.Account))
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return nil, fmt.Errorf("load account: %w", err)
		default:
			v.Accounts[id] = account
		}
	}
	return v, nil
}

func (s *Store) save(ctx context.Context, tx *sql.Tx, changes book.Changes) error {
	addOperation := tx.StmtContext(ctx, s.write.addOperation)
	for _, o := range changes.Operations {
		if _, err := addOperation.ExecContext(ctx, operationValues(o)...); err != nil {
			return fmt.Errorf("add operation: %w", err)
		}
	}
	addEvent := tx.StmtContext(ctx, s.write.addEvent)
	for _, e := range changes.Events {
		if _, err := addEvent.ExecContext(ctx, e.Time.UnixMicro(), e.Tenant, e.ID[:], e.Type, e.Key[:]); err != nil {
			return fmt.Errorf("add event: %w", err)
		}
	}
	if err := s.saveAccounts(ctx, tx, changes); err != nil {
		return err
	}
	if _, err := tx.StmtContext(ctx, s.write.raiseMark).ExecContext(ctx); err != nil {
		return fmt.Errorf("raise the mark: %w", err)
	}
	return nil
}

func (s *Store) saveAccounts(ctx context.Context, tx *sql.Tx, changes book.Changes) error {
	for _, part := range []struct {
		what      string
		statement *sql.Stmt
		accounts  []book.Account
		values    func(book.Account) []any
	}{
		{"open account", s.write.openAccount, changes.Opened, accountValues},
		{"change account", s.write.changeAccount, changes.Changed, func(a book.Account) []any {
			return []any{int64(a.Balance), a.Seq, a.UpdatedAt.UnixMicro(), a.Tenant, a.Account}
		}},
		{"amend account", s.write.amendAccount, changes.Amended, func(a book.Account) []any {
			return []any{int64(a.Balance), a.Seq, a.UpdatedAt.UnixMicro(), int64(a.Floor), a.State, int64(a.DebitMax), int64(a.DayMax),
				a.DayZone, a.SpentOn, int64(a.Spent), a.DayFrom, a.StateReason, a.Holder, a.Tenant, a.Account}
		}},
	} {
		statement := tx.StmtContext(ctx, part.statement)
		for _, a := range part.accounts {
			if _, err := statement.ExecContext(ctx, part.values(a)...); err != nil {
				return fmt.Errorf("%s: %w", part.what, err)
			}
		}
	}
	return nil
}
