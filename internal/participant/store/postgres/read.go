package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/pgpool"
)

// query runs one hot statement and collects its rows.
func query[T any](ctx context.Context, s *Store, scan pgx.RowToFunc[T], statement string, arguments ...any) ([]T, error) {
	var all []T
	err := s.reads.With(ctx, (readSecondsMax+1)*time.Second, func(ctx context.Context, c *pgpool.Conn) (err error) {
		all, err = collect(ctx, c, scan, statement, arguments...)
		return err
	})
	if err != nil {
		return nil, classify(err)
	}
	return all, nil
}

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, arguments ...any) (pgx.Rows, error)
}

func collect[T any](ctx context.Context, q querier, scan pgx.RowToFunc[T], statement string, arguments ...any) ([]T, error) {
	rows, err := q.Query(ctx, statement, arguments...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

// Lookup implements store.Store.
func (s *Store) Lookup(ctx context.Context, operation book.Operation) (book.Answer, error) {
	v := &book.View{Operations: map[book.ID]book.Stored{}}
	stored, err := s.Operation(ctx, operation.ID())
	switch {
	case errors.Is(err, store.ErrNotFound):
		// After the key, as in Apply.
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
	if !id.Tenant.Valid() {
		return book.Stored{}, store.ErrNotFound
	}
	stored, err := query(ctx, s, scanOperation, lookupOperation, string(id.Tenant), place(id.Key))
	if err != nil {
		return book.Stored{}, fmt.Errorf("look up: %w", err)
	}
	if len(stored) == 0 {
		return book.Stored{}, store.ErrNotFound
	}
	return stored[0], nil
}

// Operations implements store.Store.
func (s *Store) Operations(ctx context.Context, tenant names.Tenant, after book.ID, limit int) ([]store.Listed, error) {
	if limit <= 0 {
		return nil, nil
	}
	statement := listOperations
	if tenant != "" {
		if after.Tenant > tenant {
			return nil, nil
		}
		if after.Tenant < tenant {
			after = book.ID{Tenant: tenant} // from the tenant's start
		}
		statement = listOperationsOf
	}
	listed, err := query(ctx, s, scanListed, statement, string(after.Tenant), place(after.Key), int64(limit))
	if err != nil {
		return nil, fmt.Errorf("operations: %w", err)
	}
	return listed, nil
}

func scanListed(row pgx.CollectableRow) (store.Listed, error) {
	stored, err := scanOperation(row)
	return store.Listed{Stored: stored, Lines: stored.Sides()}, err
}

// Account implements store.Store.
func (s *Store) Account(ctx context.Context, id book.AccountID) (book.Account, error) {
	if !id.Tenant.Valid() || !id.Account.Valid() {
		return book.Account{}, store.ErrNotFound
	}
	found, err := query(ctx, s, scanAccount, loadAccount, string(id.Tenant), string(id.Account))
	if err != nil {
		return book.Account{}, fmt.Errorf("account: %w", err)
	}
	if len(found) == 0 {
		return book.Account{}, store.ErrNotFound
	}
	return found[0], nil
}

// Accounts implements store.Store.
func (s *Store) Accounts(ctx context.Context, tenant names.Tenant, after names.Account, limit int) ([]book.Account, error) {
	if limit <= 0 {
		return nil, nil
	}
	accounts, err := query(ctx, s, scanAccount, listAccounts, string(tenant), string(after), int64(limit))
	if err != nil {
		return nil, fmt.Errorf("accounts: %w", err)
	}
	return accounts, nil
}

// Identity implements store.Store.
func (s *Store) Identity(ctx context.Context) (store.Identity, error) {
	found, err := query(ctx, s, func(row pgx.CollectableRow) (store.Identity, error) {
		var i store.Identity
		err := row.Scan(&i.Incarnation, &i.HighWaterMark)
		return i, err
	}, identity)
	if err != nil {
		return store.Identity{}, fmt.Errorf("identity: %w", err)
	}
	if len(found) != 1 {
		return store.Identity{}, errors.New("identity: the books have no incarnation")
	}
	return found[0], nil
}

// report runs several statements in one snapshot. A caller that goes away does
// not end it: it is not begun again and again by those who do not wait.
func (s *Store) report(ctx context.Context, run func(context.Context, pgx.Tx) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return classify(s.reports.With(ctx, (reportSecondsMax+1)*time.Second, func(ctx context.Context, c *pgpool.Conn) error {
		return pgx.BeginTxFunc(ctx, c, options, func(tx pgx.Tx) error { return run(ctx, tx) })
	}))
}

func scanBalance(row pgx.CollectableRow) (tenantBalance, error) {
	var b tenantBalance
	err := row.Scan(&b.tenant, &b.Account, &b.Class, &b.Currency, &b.Balance.Balance)
	return b, err
}

type tenantBalance struct {
	tenant names.Tenant
	store.Balance
}

// Sums implements store.Store.
func (s *Store) Sums(ctx context.Context, tenant names.Tenant) (store.Sums, error) {
	var sums store.Sums
	err := s.report(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if sums.Currencies, err = collect(ctx, tx, scanCurrency, sumCurrencies, string(tenant)); err != nil {
			return err
		}
		own, err := collect(ctx, tx, scanBalance, ownBalances, string(tenant))
		if err != nil {
			return err
		}
		for _, b := range own {
			if p, is := book.ClearingOf(b.Account); is {
				sums.Clearing = append(sums.Clearing, store.ClearingSum{
					Tenant: b.tenant, Currency: b.Currency, Participant: p, Balance: b.Balance.Balance})
			}
		}
		if sums.Faults, err = collect(ctx, tx, scanFault, findFaults, string(tenant), store.FaultsMax); err != nil {
			return err
		}
		return tx.QueryRow(ctx, countOperations, string(tenant)).Scan(&sums.OperationCount)
	})
	if err != nil {
		return store.Sums{}, fmt.Errorf("sums: %w", err)
	}
	return sums, nil
}

func scanCurrency(row pgx.CollectableRow) (store.CurrencySum, error) {
	var c store.CurrencySum
	err := row.Scan(&c.Tenant, &c.Currency, &c.Total, &c.AccountCount)
	return c, err
}

func scanFault(row pgx.CollectableRow) (store.AccountFault, error) {
	var f store.AccountFault
	err := row.Scan(&f.Tenant, &f.AccountID.Account, &f.Currency, &f.Balance, &f.Floor, &f.State, &f.CreatedAt, &f.UpdatedAt, &f.Lines)
	f.CreatedAt, f.UpdatedAt = f.CreatedAt.UTC(), f.UpdatedAt.UTC()
	return f, err
}

// TrialBalance implements store.Store.
func (s *Store) TrialBalance(ctx context.Context, tenant names.Tenant, asOf time.Time) ([]store.Balance, time.Time, error) {
	var now time.Time
	var balances []store.Balance
	err := s.report(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, snapshotTime).Scan(&now); err != nil || tenant == "" {
			return err
		}
		statements, arguments := []string{ownBalances, accountBalances}, []any{string(tenant)}
		if !asOf.IsZero() {
			var until pgtype.Timestamptz
			if err := tx.QueryRow(ctx, archivedUntil, string(tenant)).Scan(&until); err != nil {
				return err
			}
			if until.Valid && asOf.Before(until.Time) {
				return store.ErrArchived{Until: until.Time.UTC()}
			}
			statements, arguments = []string{ownBalancesAsOf, accountBalancesAsOf}, append(arguments, asOf)
		}
		for _, statement := range statements {
			some, err := collect(ctx, tx, scanBalance, statement, arguments...)
			if err != nil {
				return err
			}
			balances = append(balances, array(some, func(b tenantBalance) store.Balance { return b.Balance })...)
		}
		return nil
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("trial balance: %w", err)
	}
	slices.SortFunc(balances, func(a, b store.Balance) int {
		if c := strings.Compare(string(a.Currency), string(b.Currency)); c != 0 {
			return c
		}
		return strings.Compare(string(a.Account), string(b.Account))
	})
	return balances, now.UTC(), nil
}
