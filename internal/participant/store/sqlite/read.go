package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
)

type readStatements struct {
	operation, operations, operationsOf         *sql.Stmt
	account, accounts                           *sql.Stmt
	ownSums, accountSums, balances              *sql.Stmt
	faults, count, identity, retention          *sql.Stmt
	suspended, lastBefore, lastLine, linesAfter *sql.Stmt
	ownSumsAsOf, balancesAsOf, archivedUntil    *sql.Stmt
}

func (r *readStatements) texts() []prepared {
	return []prepared{
		{&r.operation, `select ` + operationColumns + ` from operations where tenant = ? and key = ?`},
		{&r.operations, `select ` + operationColumns + ` from operations
			where (tenant, key) > (?, ?) order by tenant, key limit ?`},
		{&r.operationsOf, `select ` + operationColumns + ` from operations
			where tenant = ? and key > ? order by key limit ?`},
		{&r.account, `select ` + accountColumns + ` from accounts where tenant = ? and account = ?`},
		{&r.accounts, `select ` + accountColumns + ` from accounts where tenant = ? and account > ? order by account limit ?`},
		{&r.lastBefore, `select first_time, seq, balance_after from operations
			where tenant = ? and booked = ? and seq > 0 and first_time < ? order by first_time desc, seq desc limit 1`},
		{&r.lastLine, `select first_time, seq, balance_after from operations
			where tenant = ? and booked = ? and seq > 0 order by first_time desc, seq desc limit 1`},
		{&r.linesAfter, `select ` + operationColumns + ` from operations
			where tenant = ? and booked = ? and seq > 0 and (first_time, seq) > (?, ?) order by first_time, seq limit ?`},
		{&r.suspended, `select ` + operationColumns + `, coalesce((select r.booked from operations r
				where r.tenant = o.tenant and r.debit_key = o.key and r.kind in (3, 13, 16) and r.outcome = 1), '')
			from operations o where tenant = ? and key > ? and to_suspense = 1 and kind = 3 and outcome = 1 order by key limit ?`},
		{&r.ownSums, ownSums},
		{&r.accountSums, accountSums},
		{&r.balances, `select account, class, currency, cast(balance as text) from accounts where tenant = ?`},
		{&r.ownSumsAsOf, ownSumsAsOf},
		{&r.balancesAsOf, balancesAsOf},
		{&r.faults, faults},
		{&r.count, `select count(*) from operations where ?1 = '' or tenant = ?1`},
		{&r.identity, `select incarnation, batches from meta where id = 1`},
		{&r.retention, retentionOf},
		{&r.archivedUntil, `select max(first_time) from operations where tenant = ? and kind = 17`},
	}
}

// Lookup implements store.Store.
func (s *Store) Lookup(ctx context.Context, operation book.Operation) (book.Answer, error) {
	v := &book.View{Operations: map[book.ID]book.Stored{}}
	stored, err := s.Operation(ctx, operation.ID())
	switch {
	case errors.Is(err, store.ErrNotFound):
		// After the key: the horizon was committed before anything was archived.
		if v.Retention, v.Now, err = s.Retention(ctx); err != nil {
			return book.Answer{}, err
		}
	case err != nil:
		return book.Answer{}, err
	default:
		v.Operations[operation.ID()] = stored
	}
	return book.Lookup(v, operation), nil
}

// Operation implements store.Store.
func (s *Store) Operation(ctx context.Context, id book.ID) (book.Stored, error) {
	stored, err := scanOperation(s.read.operation.QueryRowContext(ctx, id.Tenant, id.Key[:]))
	if errors.Is(err, sql.ErrNoRows) {
		return book.Stored{}, store.ErrNotFound
	}
	if err != nil {
		return book.Stored{}, fmt.Errorf("look up: %w", classify(err))
	}
	return stored, nil
}

// Operations implements store.Store.
func (s *Store) Operations(ctx context.Context, tenant names.Tenant, after book.ID, limit int) ([]store.Listed, error) {
	if limit <= 0 || (tenant != "" && after.Tenant > tenant) {
		return nil, nil
	}
	statement := s.read.operations
	if tenant != "" {
		if after.Tenant < tenant {
			after = book.ID{Tenant: tenant} // from the tenant's start
		}
		statement = s.read.operationsOf
	}
	rows, err := statement.QueryContext(ctx, after.Tenant, after.Key[:], limit)
	return collect(rows, err, func(r row) (store.Listed, error) {
		stored, err := scanOperation(r)
		return store.Listed{Stored: stored, Lines: stored.Sides()}, err
	})
}

// snapshot begins a transaction that sees one state of the file. The caller rolls
// it back.
func (s *Store) snapshot(ctx context.Context) (*sql.Tx, error) {
	tx, err := s.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("begin: %w", classify(err))
	}
	return tx, nil
}

// Account implements store.Store.
func (s *Store) Account(ctx context.Context, id book.AccountID) (book.Account, error) {
	account, err := scanAccount(s.read.account.QueryRowContext(ctx, id.Tenant, id.Account))
	if errors.Is(err, sql.ErrNoRows) {
		return book.Account{}, store.ErrNotFound
	}
	if err != nil {
		return book.Account{}, fmt.Errorf("account: %w", classify(err))
	}
	return account, nil
}

// Accounts implements store.Store.
func (s *Store) Accounts(ctx context.Context, tenant names.Tenant, after names.Account, limit int) ([]book.Account, error) {
	if limit <= 0 {
		return nil, nil
	}
	rows, err := s.read.accounts.QueryContext(ctx, tenant, after, limit)
	return collect(rows, err, scanAccount)
}

// Identity implements store.Store.
func (s *Store) Identity(ctx context.Context) (store.Identity, error) {
	var identity store.Identity
	err := s.read.identity.QueryRowContext(ctx).Scan(&identity.Incarnation, &identity.HighWaterMark)
	if err != nil {
		return store.Identity{}, fmt.Errorf("identity: %w", classify(err))
	}
	return identity, nil
}
