package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"giro/internal/stepkey"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
	"giro/orchestrator/store/row"
)

// errGone is returned where a row that was in the way is not there: somebody
// empties the table.
var errGone = errors.New("postgres: a saga that was there is gone; ask again")

// Insert implements store.Store.
func (s *Store) Insert(ctx context.Context, owner string, sagas []store.New) ([]store.Inserted, error) {
	results := make([]store.Inserted, 0, len(sagas))
	for part := range slices.Chunk(sagas, row.BatchSizeMax) {
		created, there, err := s.insert(ctx, owner, firsts(part))
		if err != nil {
			return nil, err
		}
		for _, item := range part {
			if stored, isNew := created[item.ID]; isNew {
				results = append(results, store.Inserted{Saga: stored, Created: true})
				delete(created, item.ID)
				there[item.ID] = stored // if the key stands twice
				continue
			}
			results = append(results, store.Inserted{Saga: row.Normal(there[item.ID])})
		}
	}
	return results, nil
}

// firsts gives the first item of each key, in the order of tenant and key.
func firsts(part []store.New) []store.New {
	batch := slices.Clone(part)
	slices.SortStableFunc(batch, func(a, b store.New) int { return row.Compare(a.ID, b.ID) })
	return slices.CompactFunc(batch, func(a, b store.New) bool { return a.ID == b.ID })
}

// insert stores what is new and gives it, and what was there. Where another
// transaction is inserting a key, the statement waits until that one has ended,
// and the look-up sees what it left.
func (s *Store) insert(ctx context.Context, owner string, batch []store.New) (created, there map[saga.ID]saga.Saga, err error) {
	arguments, err := insertArrays(owner, batch)
	if err != nil {
		return nil, nil, err
	}
	run := s.alone
	if slices.ContainsFunc(batch, func(n store.New) bool { return n.State.Final() }) {
		run = s.transact // with their events
	}
	err = run(ctx, func(ctx context.Context, q querier) error {
		list, err := query(ctx, q, insertSQL, arguments...)
		if err != nil {
			return fmt.Errorf("insert: %w", err)
		}
		created = byID(list)
		return announce(ctx, q, list)
	})
	if err != nil {
		return nil, nil, err
	}
	var others []saga.ID
	for _, item := range batch {
		if _, isNew := created[item.ID]; !isNew {
			others = append(others, item.ID)
		}
	}
	there, err = s.lookupMany(ctx, others)
	if err == nil && len(there) != len(others) {
		err = errGone
	}
	return created, there, err
}

func insertArrays(owner string, batch []store.New) ([]any, error) {
	n := len(batch)
	var (
		tenants, keys                     = make([]string, n), make([]string, n)
		sources, destinations, currencies = make([]string, n), make([]string, n), make([]string, n)
		amounts, expiries                 = make([]int64, n), make([]int64, n)
		fingerprints                      = make([][]byte, n)
		memos, metadatas, stepses         = make([]string, n), make([]string, n), make([]string, n)
		states, reasons                   = make([]string, n), make([]string, n)
		parkReasons, attentionReasons     = make([]string, n), make([]string, n)
		toSuspense, debitApplied, cancels = make([]bool, n), make([]bool, n), make([]bool, n)
		parked, attention                 = make([]bool, n), make([]bool, n)
	)
	for i, item := range batch {
		s := row.Normal(item.Saga)
		metadata, steps, err := row.Texts(s)
		if err != nil {
			return nil, err
		}
		tenants[i], keys[i] = string(s.Tenant), string(s.ID.Key)
		sources[i], destinations[i], currencies[i] = string(s.Source), string(s.Destination), string(s.Currency)
		amounts[i], expiries[i] = int64(s.Amount), item.Expiry.Microseconds()
		fingerprints[i], memos[i], metadatas[i], stepses[i] = s.Fingerprint[:], s.Memo, metadata, steps
		states[i], reasons[i] = string(s.State), s.Reason
		toSuspense[i], debitApplied[i], cancels[i] = s.RefundToSuspense, s.DebitApplied, s.CancelAsked
		parked[i], parkReasons[i] = s.Parked, s.ParkReason
		attention[i], attentionReasons[i] = s.Attention, s.AttentionReason
	}
	return []any{owner, tenants, keys, sources, destinations, amounts, currencies, fingerprints, memos, metadatas, states,
		reasons, toSuspense, debitApplied, cancels, parked, parkReasons, attention, attentionReasons, stepses, expiries}, nil
}

// announce stores the events of those sagas that are final.
func announce(ctx context.Context, q querier, sagas []saga.Saga) error {
	var (
		tenants, keys, types []string
		ids                  [][16]byte
	)
	for _, s := range sagas {
		if s.State.Final() {
			tenants, keys, types = append(tenants, string(s.Tenant)), append(keys, string(s.ID.Key)), append(types, string(s.State))
			ids = append(ids, stepkey.FinalEvent(s.Tenant, s.ID.Key))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	if _, err := q.Exec(ctx, eventSQL, tenants, ids, keys, types); err != nil {
		return fmt.Errorf("events: %w", err)
	}
	return nil
}

// AskCancel implements store.Store.
func (s *Store) AskCancel(ctx context.Context, id saga.ID) (saga.Saga, error) {
	var stored saga.Saga
	err := s.alone(ctx, func(ctx context.Context, q querier) (err error) {
		stored, err = scan(q.QueryRow(ctx, cancelSQL, string(id.Tenant), string(id.Key)))
		if errors.Is(err, pgx.ErrNoRows) {
			stored, err = lookup(ctx, q, id)
		}
		return err
	})
	return stored, err
}

// Renew implements store.Store.
func (s *Store) Renew(ctx context.Context, owner string, lease time.Duration) (time.Time, error) {
	var now time.Time
	err := s.leasing(ctx, func(ctx context.Context, q querier) error {
		return q.QueryRow(ctx, renewSQL, owner, lease.Microseconds(), row.LeaseKept.Microseconds()).Scan(&now)
	})
	return row.Instant(now), err
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, owner string) error {
	return s.leasing(ctx, func(ctx context.Context, q querier) error {
		_, err := q.Exec(ctx, releaseSQL, owner)
		return err
	})
}
