package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"giro/internal/stepkey"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
	"giro/orchestrator/store/row"
)

const (
	lookupSQL = `select ` + columns + ` from sagas where tenant = ? and key = ?`

	insertSQL = `insert into sagas (` + columns + `)
		values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		on conflict (tenant, key) do nothing`

	saveSQL = `update sagas set state = ?, reason = ?, refund_to_suspense = ?, debit_applied = ?, parked = ?, park_reason = ?,
			attention = ?, attention_reason = ?, steps = ?, progress_at = ?, due_at = ?, updated_at = ?, version = version + 1
		where tenant = ? and key = ? and version = ? and epoch = ? and created_at = ? and ` + running + `
		returning ` + columns

	eventSQL = `insert into events (tenant, id, key, type, created_at) values (?, ?, ?, ?, ?)
		on conflict (tenant, id) do nothing`

	cancelSQL = `update sagas set cancel_asked = 1, version = version + 1, updated_at = ?
		where tenant = ? and key = ? and cancel_asked = 0 and ` + running

	renewSQL = `insert into leases (owner, lease_until) values (?, ?)
		on conflict (owner) do update set lease_until = excluded.lease_until`

	forgetSQL = `delete from leases where lease_until < ?`

	releaseSQL = `delete from leases where owner = ?`
)

// Insert implements store.Store.
func (s *Store) Insert(ctx context.Context, owner string, sagas []store.New) ([]store.Inserted, error) {
	results := make([]store.Inserted, 0, len(sagas))
	for part := range slices.Chunk(sagas, row.BatchSizeMax) {
		err := s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
			for _, item := range part {
				result, err := insert(ctx, tx, now, owner, item)
				if err != nil {
					return err
				}
				results = append(results, result)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

func insert(ctx context.Context, tx *sql.Tx, now time.Time, owner string, item store.New) (store.Inserted, error) {
	s := row.Normal(item.Saga)
	s.CreatedAt, s.ProgressAt, s.UpdatedAt, s.DueAt = now, now, now, now
	s.ExpiresAt = time.Time{}
	if item.Expiry > 0 {
		s.ExpiresAt = now.Add(item.Expiry.Truncate(time.Microsecond))
	}
	s.Owner, s.Epoch, s.Version = owner, 1, 1
	arguments, err := values(s)
	if err != nil {
		return store.Inserted{}, err
	}
	done, err := tx.ExecContext(ctx, insertSQL, arguments...)
	if err != nil {
		return store.Inserted{}, fmt.Errorf("insert %s: %w", s.ID.Key, err)
	}
	created, err := done.RowsAffected()
	if err != nil {
		return store.Inserted{}, fmt.Errorf("insert %s: %w", s.ID.Key, err)
	}
	if created == 0 {
		stored, err := lookup(ctx, tx, s.ID)
		return store.Inserted{Saga: stored}, err
	}
	return store.Inserted{Saga: s, Created: true}, announce(ctx, tx, now, s)
}

// announce stores the event of a final saga.
func announce(ctx context.Context, tx *sql.Tx, now time.Time, s saga.Saga) error {
	if !s.State.Final() {
		return nil
	}
	id := stepkey.FinalEvent(s.Tenant, s.ID.Key)
	_, err := tx.ExecContext(ctx, eventSQL, string(s.Tenant), id[:], string(s.ID.Key), string(s.State), now.UnixMicro())
	if err != nil {
		return fmt.Errorf("event of %s: %w", s.ID.Key, err)
	}
	return nil
}

// Save implements store.Store.
func (s *Store) Save(ctx context.Context, writes []store.Write) ([]store.Saved, error) {
	results := make([]store.Saved, 0, len(writes))
	for part := range slices.Chunk(writes, row.BatchSizeMax) {
		err := s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
			for _, w := range part {
				result, err := save(ctx, tx, now, w)
				if err != nil {
					return err
				}
				results = append(results, result)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

func save(ctx context.Context, tx *sql.Tx, now time.Time, w store.Write) (store.Saved, error) {
	s := row.Normal(w.Saga)
	_, steps, err := row.Texts(s)
	if err != nil {
		return store.Saved{}, err
	}
	stored, err := scan(tx.QueryRowContext(ctx, saveSQL, string(s.State), s.Reason, s.RefundToSuspense, s.DebitApplied,
		s.Parked, s.ParkReason, s.Attention, s.AttentionReason, steps, s.ProgressAt.UnixMicro(), s.DueAt.UnixMicro(),
		now.UnixMicro(), string(s.Tenant), string(s.ID.Key), w.FromVersion, w.FromEpoch, w.FromCreatedAt.UnixMicro()))
	if errors.Is(err, sql.ErrNoRows) {
		stored, err := lookup(ctx, tx, s.ID)
		if errors.Is(err, store.ErrNotFound) {
			return store.Saved{Saga: saga.Saga{ID: s.ID}}, nil
		}
		return store.Saved{Saga: stored}, err
	}
	if err != nil {
		return store.Saved{}, fmt.Errorf("save %s: %w", s.ID.Key, err)
	}
	return store.Saved{OK: true, Saga: stored}, announce(ctx, tx, now, stored)
}

// AskCancel implements store.Store.
func (s *Store) AskCancel(ctx context.Context, id saga.ID) (saga.Saga, error) {
	var stored saga.Saga
	err := s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		_, err := tx.ExecContext(ctx, cancelSQL, now.UnixMicro(), string(id.Tenant), string(id.Key))
		if err != nil {
			return fmt.Errorf("cancel %s: %w", id.Key, err)
		}
		stored, err = lookup(ctx, tx, id)
		return err
	})
	return stored, err
}

// Renew implements store.Store.
func (s *Store) Renew(ctx context.Context, owner string, lease time.Duration) (time.Time, error) {
	var at time.Time
	err := s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		at = now
		if _, err := tx.ExecContext(ctx, renewSQL, owner, now.Add(lease).UnixMicro()); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, forgetSQL, now.Add(-row.LeaseKept).UnixMicro())
		return err
	})
	return at, err
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, owner string) error {
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx, _ time.Time) error {
		_, err := tx.ExecContext(ctx, releaseSQL, owner)
		return err
	})
}
