package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/pgpool"
)

// Apply implements store.Store. Every code path locks in one order: the accounts
// that exist, sorted; the accounts to open, sorted; the keys, sorted, by one
// insert of final outcomes. So the second holder of a key waits, and no two
// batches wait for each other.
func (s *Store) Apply(ctx context.Context, operations []book.Operation, limits book.Limits) ([]book.Answer, error) {
	if len(operations) > book.BatchSizeMax {
		return nil, fmt.Errorf("postgres: %d operations in a batch of at most %d", len(operations), book.BatchSizeMax)
	}
	var answers []book.Answer
	err := s.hot.With(ctx, transactionSecondsMax*time.Second, func(ctx context.Context, c *pgpool.Conn) (err error) {
		answers, err = transact(ctx, c, operations, limits)
		return err
	})
	if err != nil {
		return nil, classify(err)
	}
	return answers, nil
}

func transact(ctx context.Context, c *pgpool.Conn, operations []book.Operation, limits book.Limits) ([]book.Answer, error) {
	v, err := begin(ctx, c.Conn, operations)
	if err != nil {
		return nil, fmt.Errorf("load operations: %w", err)
	}
	if err := lock(ctx, c.Conn, v, book.Accounts(operations, v.Operations)); err != nil {
		return nil, fmt.Errorf("lock accounts: %w", err)
	}
	answers, changes := book.Decide(v, operations, limits)
	if changes.Empty() {
		// Replays of committed rows are durable already; nothing to commit.
		_, err := c.Exec(ctx, "rollback")
		return answers, err
	}
	if err := save(ctx, c.Conn, v.Now, changes); err != nil {
		return nil, err
	}
	return answers, c.Commit()
}

// begin starts the transaction and loads what is stored under the batch's keys.
func begin(ctx context.Context, c *pgx.Conn, operations []book.Operation) (*book.View, error) {
	v := &book.View{
		Operations: map[book.ID]book.Stored{},
		Refunds:    map[book.ID]book.Stored{},
		Accounts:   map[book.AccountID]book.Account{},
	}
	batch := &pgx.Batch{}
	batch.Queue("begin isolation level read committed")
	batch.Queue(loadNow).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&v.Now)
		v.Now = v.Now.UTC()
		return err
	})
	load := func(statement string, ids []book.ID, put func(book.Stored)) {
		if len(ids) == 0 {
			return
		}
		tenants, keys := idColumns(ids)
		batch.Queue(statement, tenants, keys).Query(func(rows pgx.Rows) error {
			loaded, err := pgx.CollectRows(rows, scanOperation)
			for _, o := range loaded {
				put(o)
			}
			return err
		})
	}
	load(loadOperations, book.Keys(operations), func(o book.Stored) { v.Operations[o.ID()] = o })
	load(loadRefunds, book.Debits(operations), func(o book.Stored) { v.Refunds[o.DebitID()] = o })
	return v, c.SendBatch(ctx, batch).Close()
}

// lock locks and loads the accounts. It comes after the keys were looked up: what
// another batch has stored since then is met when the keys are inserted.
func lock(ctx context.Context, c *pgx.Conn, v *book.View, ids []book.AccountID) error {
	if len(ids) == 0 {
		return nil
	}
	tenants, accounts := make([]string, len(ids)), make([]string, len(ids))
	for i, id := range ids {
		tenants[i], accounts[i] = string(id.Tenant), string(id.Account)
	}
	rows, err := c.Query(ctx, lockAccounts, tenants, accounts)
	if err != nil {
		return err
	}
	loaded, err := pgx.CollectRows(rows, scanAccount)
	for _, a := range loaded {
		v.Accounts[a.AccountID] = a
	}
	return err
}

// save writes all changes in one round trip. The server runs the statements in
// order; the results are read in order too, so that a lost race is seen as such,
// whatever it makes of the statements after it.
func save(ctx context.Context, c *pgx.Conn, now time.Time, changes book.Changes) error {
	sortChanges(changes)
	batch := &pgx.Batch{}
	var expected []expectation
	queue := func(what, statement string, rows int, columns []any) {
		if rows > 0 {
			batch.Queue(statement, columns...)
			expected = append(expected, expectation{what, int64(rows)})
		}
	}
	queue("open accounts", openAccounts, len(changes.Opened), openColumns(changes.Opened))
	queue("add operations", addOperations, len(changes.Operations), operationValues(changes.Operations))
	queue("add lines", addLines, len(changes.Lines), lineColumns(changes.Lines))
	queue("add events", addEvents, len(changes.Events), eventColumns(changes.Events, now))
	queue("change accounts", changeAccounts, len(changes.Changed), changeColumns(changes.Changed))
	queue("raise the mark", raiseMark, 1, []any{rand.IntN(markSlots)})
	results := c.SendBatch(ctx, batch)
	var err error
	for _, e := range expected {
		if err = e.met(results); err != nil {
			break
		}
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	return err
}

// expectation is how many rows a statement must write.
type expectation struct {
	what string
	rows int64
}

func (e expectation) met(results pgx.BatchResults) error {
	tag, err := results.Exec()
	if err != nil {
		return fmt.Errorf("%s: %w", e.what, err)
	}
	if tag.RowsAffected() != e.rows {
		return fmt.Errorf("%w: %s: %d of %d rows, another batch was first", store.ErrTransient, e.what, tag.RowsAffected(), e.rows)
	}
	return nil
}

// sortChanges puts what is inserted into the one global order.
func sortChanges(changes book.Changes) {
	slices.SortFunc(changes.Operations, func(a, b book.Stored) int { return compareIDs(a.ID(), b.ID()) })
	slices.SortFunc(changes.Opened, compareAccounts)
	slices.SortFunc(changes.Changed, compareAccounts)
}

func compareIDs(a, b book.ID) int {
	if c := strings.Compare(string(a.Tenant), string(b.Tenant)); c != 0 {
		return c
	}
	return slices.Compare(a.Key[:], b.Key[:])
}

func compareAccounts(a, b book.Account) int {
	if c := strings.Compare(string(a.Tenant), string(b.Tenant)); c != 0 {
		return c
	}
	return strings.Compare(string(a.AccountID.Account), string(b.AccountID.Account))
}
