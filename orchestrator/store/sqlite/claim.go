package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"giro/orchestrator/saga"
	"giro/orchestrator/store/row"
)

const (
	// deadSQL steps from owner to owner through the index, whatever number of rows
	// each has, and keeps those whose lease has ended or is missing.
	deadSQL = `with recursive owners(owner) as (
			select (select min(owner) from sagas where ` + running + ` and parked = 0)
			union all
			select (select min(s.owner) from sagas s where s.owner > o.owner and s.` + running + ` and s.parked = 0)
			from owners o where o.owner is not null)
		select o.owner from owners o left join leases l on l.owner = o.owner
		where o.owner is not null and o.owner <> ? and coalesce(l.lease_until, 0) <= ?`

	dueSQL = `select tenant, key, due_at from sagas
		where owner = ? and due_at <= ? and ` + running + ` and parked = 0
		order by due_at limit ?`

	// takeSQL sets due_at too: a saga that was taken is due from now, or the claimer
	// would take its own longest-waiting ones again with every sweep.
	takeSQL = `update sagas set owner = ?, due_at = ?, updated_at = ?, epoch = epoch + 1, version = version + 1
		where tenant = ? and key = ? returning ` + columns

	askedSQL = `select ` + columns + ` from sagas where owner = ? and cancel_asked = 1 and ` + forward + ` and parked = 0 limit ?`
)

// Claim implements store.Store.
func (s *Store) Claim(ctx context.Context, owner string, limit int, strayAfter time.Duration) ([]saga.Saga, error) {
	limit = max(0, min(limit, row.ClaimSizeMax))
	found, err := s.anyDue(ctx, owner, strayAfter)
	if err != nil || !found || limit == 0 {
		return nil, err
	}
	var taken []saga.Saga
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now time.Time) error {
		due, err := claimable(ctx, tx, owner, now, strayAfter, limit)
		if err != nil {
			return err
		}
		for _, id := range due {
			stored, err := scan(tx.QueryRowContext(ctx, takeSQL, owner, now.UnixMicro(), now.UnixMicro(),
				string(id.Tenant), string(id.Key)))
			if err != nil {
				return fmt.Errorf("claim %s: %w", id.Key, err)
			}
			taken = append(taken, stored)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// anyDue looks before the one writer is taken: nearly every sweep finds nothing.
func (s *Store) anyDue(ctx context.Context, owner string, strayAfter time.Duration) (bool, error) {
	tx, err := s.reader.BeginTx(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("sqlite: begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // it only read
	due, err := claimable(ctx, tx, owner, row.Instant(time.Now()), strayAfter, 1)
	if err != nil {
		return false, fmt.Errorf("sqlite: %w", err)
	}
	return len(due) > 0, nil
}

// CancelsAsked implements store.Store.
func (s *Store) CancelsAsked(ctx context.Context, owner string, limit int) ([]saga.Saga, error) {
	rows, err := s.reader.QueryContext(ctx, askedSQL, owner, max(0, limit))
	if err != nil {
		return nil, fmt.Errorf("sqlite: cancels: %w", err)
	}
	return scanAll(rows)
}
