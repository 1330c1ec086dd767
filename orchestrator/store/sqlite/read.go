package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"giro/internal/names"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
)

const (
	listSQL = `select ` + columns + ` from sagas where (tenant, key) > (?, ?) order by tenant, key limit ?`

	listTenantSQL = `select ` + columns + ` from sagas where tenant = ? and (tenant, key) > (?, ?) order by tenant, key limit ?`

	// The condition is word for word that of the index sagas_unfinished.
	unfinishedSQL = `select key from sagas where state in ('DEBITING', 'CREDITING', 'CANCELLING', 'REFUNDING') and key > ? order by key limit ?`

	eventsSQL = `select tenant, id, key, type, created_at from events where (tenant, id) > (?, ?) order by tenant, id limit ?`

	eventsTenantSQL = `select tenant, id, key, type, created_at from events
		where tenant = ? and (tenant, id) > (?, ?) order by tenant, id limit ?`
)

// querier is a transaction or the pool of readers.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func lookup(ctx context.Context, q querier, id saga.ID) (saga.Saga, error) {
	s, err := scan(q.QueryRowContext(ctx, lookupSQL, string(id.Tenant), string(id.Key)))
	if errors.Is(err, sql.ErrNoRows) {
		return saga.Saga{}, store.ErrNotFound
	}
	if err != nil {
		return saga.Saga{}, fmt.Errorf("look up %s: %w", id.Key, err)
	}
	return s, nil
}

// Lookup implements store.Store.
func (s *Store) Lookup(ctx context.Context, id saga.ID) (saga.Saga, error) {
	found, err := lookup(ctx, s.reader, id)
	if err != nil {
		return saga.Saga{}, fmt.Errorf("sqlite: %w", err)
	}
	return found, nil
}

// candidate is a saga that may be claimed.
type candidate struct {
	saga.ID
	dueAt int64
}

// claimable gives what the owner may claim, oldest due first.
func claimable(ctx context.Context, q querier, owner string, now time.Time, strayAfter time.Duration, limit int) ([]candidate, error) {
	dead, err := texts(q.QueryContext(ctx, deadSQL, owner, now.UnixMicro()))
	if err != nil {
		return nil, fmt.Errorf("dead owners: %w", err)
	}
	due, err := dueOf(ctx, q, owner, now.Add(-strayAfter), limit)
	if err != nil {
		return nil, err
	}
	for _, gone := range dead {
		more, err := dueOf(ctx, q, gone, now, limit)
		if err != nil {
			return nil, err
		}
		due = append(due, more...)
	}
	slices.SortStableFunc(due, func(a, b candidate) int { return cmp.Compare(a.dueAt, b.dueAt) })
	return due[:min(limit, len(due))], nil
}

func dueOf(ctx context.Context, q querier, owner string, before time.Time, limit int) ([]candidate, error) {
	rows, err := q.QueryContext(ctx, dueSQL, owner, before.UnixMicro(), limit)
	if err != nil {
		return nil, fmt.Errorf("due sagas: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var due []candidate
	for rows.Next() {
		var c candidate
		if err := rows.Scan(&c.Tenant, &c.Key, &c.dueAt); err != nil {
			return nil, fmt.Errorf("due sagas: %w", err)
		}
		due = append(due, c)
	}
	return due, rows.Err()
}

func texts(rows *sql.Rows, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var list []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, rows.Err()
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, tenant names.Tenant, after saga.ID, limit int) ([]saga.Saga, error) {
	query, arguments := listSQL, []any{string(after.Tenant), string(after.Key), max(0, limit)}
	if tenant != "" {
		query, arguments = listTenantSQL, append([]any{string(tenant)}, arguments...)
	}
	rows, err := s.reader.QueryContext(ctx, query, arguments...)
	if err != nil {
		return nil, fmt.Errorf("sqlite: list: %w", err)
	}
	return scanAll(rows)
}

// FinalEvents implements store.Store.
func (s *Store) FinalEvents(ctx context.Context, tenant names.Tenant, after store.EventPlace, limit int) ([]store.FinalEvent, error) {
	query, arguments := eventsSQL, []any{string(after.Tenant), after.ID[:], max(0, limit)}
	if tenant != "" {
		query, arguments = eventsTenantSQL, append([]any{string(tenant)}, arguments...)
	}
	rows, err := s.reader.QueryContext(ctx, query, arguments...)
	if err != nil {
		return nil, fmt.Errorf("sqlite: events: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var list []store.FinalEvent
	for rows.Next() {
		var (
			event   store.FinalEvent
			id      []byte
			created int64
		)
		if err := rows.Scan(&event.Tenant, &id, &event.Key, &event.Type, &created); err != nil {
			return nil, fmt.Errorf("sqlite: events: %w", err)
		}
		if len(id) != len(event.ID) {
			return nil, fmt.Errorf("sqlite: event of %s has an id of %d bytes", event.Key, len(id))
		}
		copy(event.ID[:], id)
		event.Time = instant(created)
		list = append(list, event)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("sqlite: events: %w", err)
	}
	return list, nil
}

// Unfinished implements store.Store.
func (s *Store) Unfinished(ctx context.Context, after names.TransferKey, limit int) ([]names.TransferKey, error) {
	rows, err := s.reader.QueryContext(ctx, unfinishedSQL, string(after), max(0, limit))
	if err != nil {
		return nil, fmt.Errorf("sqlite: unfinished: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var keys []names.TransferKey
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			return nil, fmt.Errorf("sqlite: unfinished: %w", err)
		}
		keys = append(keys, names.TransferKey(key))
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("sqlite: unfinished: %w", err)
	}
	return keys, nil
}

// Identity implements store.Store.
func (s *Store) Identity(ctx context.Context) (string, error) {
	var identity string
	if err := s.reader.QueryRowContext(ctx, `select identity from meta where id = 1`).Scan(&identity); err != nil {
		return "", fmt.Errorf("sqlite: identity: %w", err)
	}
	return identity, nil
}
