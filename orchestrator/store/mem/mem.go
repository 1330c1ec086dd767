// Package mem keeps the saga table in memory, for the simulator and for tests.
// It is deterministic: it has no clock and no randomness of its own, and every
// answer is in a fixed order.
package mem

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"giro/internal/names"
	"giro/internal/stepkey"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
	"giro/orchestrator/store/row"
)

// Store is the saga table. All of it is lost with the process.
type Store struct {
	now func() time.Time

	mu sync.Mutex
	// identity is drawn from the clock and the lives before.
	identity string
	lives    int
	sagas    map[saga.ID]saga.Saga
	leases   map[string]time.Time
	events   map[store.EventPlace]store.FinalEvent
}

var _ store.Store = (*Store)(nil)

// New makes an empty table. now is the database's clock.
func New(now func() time.Time) *Store {
	s := &Store{now: now}
	s.Wipe()
	return s
}

// Wipe loses everything: sagas, leases and events.
func (s *Store) Wipe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lives++
	sum := sha256.Sum256(fmt.Appendf(nil, "giro/mem/%d/%d", s.now().UnixNano(), s.lives))
	s.identity = stepkey.StepKey(sum[:16]).String()
	s.sagas = map[saga.ID]saga.Saga{}
	s.leases = map[string]time.Time{}
	s.events = map[store.EventPlace]store.FinalEvent{}
}

// Insert implements store.Store.
func (s *Store) Insert(ctx context.Context, owner string, sagas []store.New) ([]store.Inserted, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, item := range sagas {
		if err := guard(item.Saga); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := row.Instant(s.now())
	results := make([]store.Inserted, len(sagas))
	for i, item := range sagas {
		stored, known := s.sagas[item.ID]
		if !known {
			stored = row.Normal(item.Saga)
			stored.CreatedAt, stored.ProgressAt, stored.UpdatedAt, stored.DueAt = now, now, now, now
			stored.ExpiresAt = time.Time{}
			if item.Expiry > 0 {
				stored.ExpiresAt = now.Add(item.Expiry.Truncate(time.Microsecond))
			}
			stored.Owner, stored.Epoch, stored.Version = owner, 1, 1
			s.put(stored, now)
		}
		results[i] = store.Inserted{Saga: row.Normal(stored), Created: !known}
	}
	return results, nil
}

// guard refuses what a database's constraints refuse, before anything is stored.
func guard(s saga.Saga) error {
	if s.Amount <= 0 {
		return fmt.Errorf("mem: saga %s has amount %d", s.ID.Key, s.Amount)
	}
	if !s.State.Final() && !slices.Contains(saga.Running, s.State) {
		return fmt.Errorf("mem: saga %s is in no state of the table: %q", s.ID.Key, s.State)
	}
	return nil
}

// put stores a saga, and the event of a final one.
func (s *Store) put(stored saga.Saga, now time.Time) {
	s.sagas[stored.ID] = stored
	if !stored.State.Final() {
		return
	}
	place := store.EventPlace{Tenant: stored.Tenant, ID: stepkey.FinalEvent(stored.Tenant, stored.Key)}
	if _, known := s.events[place]; !known {
		s.events[place] = store.FinalEvent{EventPlace: place, Key: stored.Key, Type: string(stored.State), Time: now}
	}
}

// Lookup implements store.Store.
func (s *Store) Lookup(ctx context.Context, id saga.ID) (saga.Saga, error) {
	if err := ctx.Err(); err != nil {
		return saga.Saga{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, known := s.sagas[id]
	if !known {
		return saga.Saga{}, store.ErrNotFound
	}
	return row.Normal(stored), nil
}

// Save implements store.Store.
func (s *Store) Save(ctx context.Context, writes []store.Write) ([]store.Saved, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, w := range writes {
		if err := guard(w.Saga); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := row.Instant(s.now())
	results := make([]store.Saved, len(writes))
	for i, w := range writes {
		stored, known := s.sagas[w.Saga.ID]
		switch {
		case !known:
			results[i] = store.Saved{Saga: saga.Saga{ID: w.Saga.ID}}
			continue
		case stored.Version != w.FromVersion, stored.Epoch != w.FromEpoch, stored.State.Final(),
			!stored.CreatedAt.Equal(row.Instant(w.FromCreatedAt)):
			results[i] = store.Saved{Saga: row.Normal(stored)}
			continue
		}
		stored = written(stored, row.Normal(w.Saga))
		stored.Version, stored.UpdatedAt = stored.Version+1, now
		s.put(stored, now)
		results[i] = store.Saved{OK: true, Saga: row.Normal(stored)}
	}
	return results, nil
}

// written is the stored row with the columns that a save writes.
func written(stored, w saga.Saga) saga.Saga {
	stored.State, stored.Reason = w.State, w.Reason
	stored.RefundToSuspense, stored.DebitApplied = w.RefundToSuspense, w.DebitApplied
	stored.Parked, stored.ParkReason = w.Parked, w.ParkReason
	stored.Attention, stored.AttentionReason = w.Attention, w.AttentionReason
	stored.Steps = w.Steps
	stored.ProgressAt, stored.DueAt = w.ProgressAt, w.DueAt
	return stored
}

// AskCancel implements store.Store.
func (s *Store) AskCancel(ctx context.Context, id saga.ID) (saga.Saga, error) {
	if err := ctx.Err(); err != nil {
		return saga.Saga{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, known := s.sagas[id]
	if !known {
		return saga.Saga{}, store.ErrNotFound
	}
	if !stored.State.Final() && !stored.CancelAsked {
		stored.CancelAsked = true
		stored.Version, stored.UpdatedAt = stored.Version+1, row.Instant(s.now())
		s.sagas[id] = stored
	}
	return row.Normal(stored), nil
}

// Claim implements store.Store.
func (s *Store) Claim(ctx context.Context, owner string, limit int, strayAfter time.Duration) ([]saga.Saga, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := row.Instant(s.now())
	var due []saga.Saga
	for _, stored := range s.sagas {
		if !stored.State.Final() && !stored.Parked && s.claimable(stored, owner, now, strayAfter) {
			due = append(due, stored)
		}
	}
	slices.SortFunc(due, func(a, b saga.Saga) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), row.Compare(a.ID, b.ID))
	})
	due = due[:max(0, min(limit, row.ClaimSizeMax, len(due)))]
	for i := range due {
		due[i].Owner, due[i].DueAt, due[i].UpdatedAt = owner, now, now
		due[i].Epoch++
		due[i].Version++
		s.sagas[due[i].ID] = due[i]
		due[i] = row.Normal(due[i])
	}
	return due, nil
}

func (s *Store) claimable(stored saga.Saga, claimer string, now time.Time, strayAfter time.Duration) bool {
	if stored.Owner == claimer {
		return !stored.DueAt.After(now.Add(-strayAfter))
	}
	return !stored.DueAt.After(now) && !s.leases[stored.Owner].After(now)
}

// CancelsAsked implements store.Store.
func (s *Store) CancelsAsked(ctx context.Context, owner string, limit int) ([]saga.Saga, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []saga.Saga
	for _, stored := range s.sagas {
		forward := stored.State == saga.Debiting || stored.State == saga.Crediting
		if stored.Owner == owner && stored.CancelAsked && forward && !stored.Parked {
			list = append(list, row.Normal(stored))
		}
	}
	slices.SortFunc(list, func(a, b saga.Saga) int { return row.Compare(a.ID, b.ID) })
	return list[:max(0, min(limit, len(list)))], nil
}

// Renew implements store.Store.
func (s *Store) Renew(ctx context.Context, owner string, lease time.Duration) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := row.Instant(s.now())
	s.leases[owner] = now.Add(lease)
	for other, until := range s.leases {
		if until.Before(now.Add(-row.LeaseKept)) {
			delete(s.leases, other)
		}
	}
	return now, nil
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, owner string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, owner)
	return nil
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, tenant names.Tenant, after saga.ID, limit int) ([]saga.Saga, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []saga.Saga
	for id, stored := range s.sagas {
		if (tenant == "" || id.Tenant == tenant) && row.Compare(id, after) > 0 {
			list = append(list, stored)
		}
	}
	slices.SortFunc(list, func(a, b saga.Saga) int { return row.Compare(a.ID, b.ID) })
	list = list[:max(0, min(limit, len(list)))]
	for i := range list {
		list[i] = row.Normal(list[i])
	}
	return list, nil
}

// FinalEvents implements store.Store.
func (s *Store) FinalEvents(ctx context.Context, tenant names.Tenant, after store.EventPlace, limit int) ([]store.FinalEvent, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []store.FinalEvent
	for place, event := range s.events {
		if (tenant == "" || place.Tenant == tenant) && comparePlaces(place, after) > 0 {
			list = append(list, event)
		}
	}
	slices.SortFunc(list, func(a, b store.FinalEvent) int { return comparePlaces(a.EventPlace, b.EventPlace) })
	return list[:max(0, min(limit, len(list)))], nil
}

func comparePlaces(a, b store.EventPlace) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), slices.Compare(a.ID[:], b.ID[:]))
}

// Close implements store.Store.
func (s *Store) Close() error { return nil }

// Unfinished implements store.Store.
func (s *Store) Unfinished(ctx context.Context, after names.TransferKey, limit int) ([]names.TransferKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []names.TransferKey
	for id, one := range s.sagas {
		if !one.State.Final() && id.Key > after {
			keys = append(keys, id.Key)
		}
	}
	slices.Sort(keys)
	return keys[:max(0, min(limit, len(keys)))], ctx.Err()
}

// Identity implements store.Store.
func (s *Store) Identity(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.identity, ctx.Err()
}
