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

// Apply implements store.Store, in two round trips. Every code path locks in one
// order: the accounts that exist, sorted; the accounts to open, sorted; the keys,
// sorted, by one insert of final outcomes. So the second holder of a key waits,
// and no two batches wait for each other.
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
		return nil, fmt.Errorf("lock and load: %w", err)
	}
	answers, changes := book.Decide(v, operations, limits)
	if changes.Empty() {
		// Replays of committed rows are durable already; nothing to commit.
		_, err := c.Exec(ctx, "rollback")
		return answers, err
	}
	return answers, c.CommitBatch(saving(changes))
}

// begin starts the transaction, locks and loads the accounts, and loads what is
// stored under the batch's keys. The keys come after the locks, so that what
// another batch has done on the same accounts is seen; what one on other accounts
// stores meanwhile is met when the keys are inserted. So does the clock, or a line
// could be older than the one before it; and last the horizon, which was committed
// before anything was archived: a key that is missing for that reason is EXPIRED.
func begin(ctx context.Context, c *pgx.Conn, operations []book.Operation) (*book.View, error) {
	v := &book.View{
		Zone:       store.Zone,
		Operations: map[book.ID]book.Stored{},
		Refunds:    map[book.ID]book.Stored{},
		Accounts:   map[book.AccountID]book.Account{},
	}
	batch := &pgx.Batch{}
	batch.Queue("begin isolation level read committed")
	tenants, accounts := accountIDs(book.Accounts(operations, nil))
	load(batch, lockAccounts, tenants, accounts, scanAccount, func(a book.Account) { v.Accounts[a.AccountID] = a })
	tenants, keys := operationIDs(book.Keys(operations))
	load(batch, loadOperations, tenants, keys, scanOperation, func(o book.Stored) { v.Operations[o.ID()] = o })
	tenants, keys = operationIDs(book.Debits(operations))
	load(batch, loadRefunds, tenants, keys, scanOperation, func(o book.Stored) { v.Refunds[o.DebitID()] = o })
	batch.Queue(loadNow).QueryRow(func(row pgx.Row) (err error) {
		v.Now, v.Retention, err = scanRetention(row)
		return err
	})
	return v, c.SendBatch(ctx, batch).Close()
}

// load queues what finds rows by their IDs, and what is done with each.
func load[K, R any](batch *pgx.Batch, l loading, tenants []string, keys []K, scan pgx.RowToFunc[R], put func(R)) {
	if len(keys) == 0 {
		return
	}
	statement, arguments := by(l, tenants, keys)
	batch.Queue(statement, arguments...).Query(func(rows pgx.Rows) error {
		loaded, err := pgx.CollectRows(rows, scan)
		for _, one := range loaded {
			put(one)
		}
		return err
	})
}

// by gives the statement that finds rows by their IDs, of which there is one at least.
func by[K any](l loading, tenants []string, keys []K) (statement string, arguments []any) {
	if len(keys) == 1 {
		return l.one, []any{tenants[0], keys[0]}
	}
	return l.many, []any{tenants, keys}
}

// saving gives the statements that write the changes. The server runs them in
// order, and what follows one that failed is not run, COMMIT among it.
func saving(changes book.Changes) *pgx.Batch {
	sortChanges(changes)
	batch := &pgx.Batch{}
	openAccounts.queue(batch, changes.Opened)
	if slices.ContainsFunc(changes.Operations, func(o book.Stored) bool { return o.Details != "" }) {
		addDetailed.queue(batch, changes.Operations)
	} else {
		addOperations.queue(batch, changes.Operations)
	}
	addEvents.queue(batch, changes.Events)
	changeAccounts.queue(batch, changes.Changed)
	amendAccounts.queue(batch, changes.Amended)
	batch.Queue(raiseMark, rand.IntN(markSlots))
	return batch
}

// sortChanges puts what is inserted into the one global order.
func sortChanges(changes book.Changes) {
	slices.SortFunc(changes.Operations, func(a, b book.Stored) int { return compareIDs(a.ID(), b.ID()) })
	slices.SortFunc(changes.Opened, compareAccounts)
	slices.SortFunc(changes.Changed, compareAccounts)
	slices.SortFunc(changes.Amended, compareAccounts)
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
