package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"giro/internal/names"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
	"giro/orchestrator/store/row"
)

func lookup(ctx context.Context, q querier, id saga.ID) (saga.Saga, error) {
	s, err := scan(q.QueryRow(ctx, lookupSQL, string(id.Tenant), string(id.Key)))
	if errors.Is(err, pgx.ErrNoRows) {
		return saga.Saga{}, store.ErrNotFound
	}
	return s, err
}

// Lookup implements store.Store.
func (s *Store) Lookup(ctx context.Context, id saga.ID) (saga.Saga, error) {
	var found saga.Saga
	err := s.view(ctx, func(ctx context.Context, q querier) (err error) {
		found, err = lookup(ctx, q, id)
		return err
	})
	return found, err
}

// Claim implements store.Store.
func (s *Store) Claim(ctx context.Context, owner string, limit int, strayAfter time.Duration) ([]saga.Saga, error) {
	limit = min(limit, row.ClaimSizeMax)
	if limit <= 0 {
		return nil, nil
	}
	var dead []string
	err := s.read(ctx, func(ctx context.Context, q querier) error {
		rows, err := q.Query(ctx, deadSQL, owner)
		if err != nil {
			return err
		}
		dead, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("dead owners: %w", err)
	}
	owners, ages := append(dead, owner), make([]int64, len(dead)+1)
	ages[len(dead)] = strayAfter.Microseconds()
	var taken []saga.Saga
	err = s.alone(ctx, func(ctx context.Context, q querier) (err error) {
		taken, err = query(ctx, q, claimSQL, owner, owners, ages, limit)
		return err
	})
	return taken, err
}

// CancelsAsked implements store.Store.
func (s *Store) CancelsAsked(ctx context.Context, owner string, limit int) ([]saga.Saga, error) {
	var list []saga.Saga
	err := s.read(ctx, func(ctx context.Context, q querier) (err error) {
		list, err = query(ctx, q, askedSQL, owner, max(0, limit))
		return err
	})
	return list, err
}

// lookupMany loads the sagas that are there.
func (s *Store) lookupMany(ctx context.Context, ids []saga.ID) (map[saga.ID]saga.Saga, error) {
	found := map[saga.ID]saga.Saga{}
	if len(ids) == 0 {
		return found, nil
	}
	tenants, keys := make([]string, len(ids)), make([]string, len(ids))
	for i, id := range ids {
		tenants[i], keys[i] = string(id.Tenant), string(id.Key)
	}
	err := s.read(ctx, func(ctx context.Context, q querier) error {
		list, err := query(ctx, q, lookupManySQL, tenants, keys)
		for _, one := range list {
			found[one.ID] = one
		}
		return err
	})
	return found, err
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, tenant names.Tenant, after saga.ID, limit int) ([]saga.Saga, error) {
	sql, arguments := listSQL, []any{string(after.Tenant), string(after.Key), max(0, limit)}
	if tenant != "" {
		sql, arguments = listTenantSQL, append(arguments, string(tenant))
	}
	var list []saga.Saga
	err := s.view(ctx, func(ctx context.Context, q querier) (err error) {
		list, err = query(ctx, q, sql, arguments...)
		return err
	})
	return list, err
}

// Unfinished implements store.Store.
func (s *Store) Unfinished(ctx context.Context, after names.TransferKey, limit int) ([]names.TransferKey, error) {
	return texts[names.TransferKey](ctx, s, unfinishedSQL, string(after), max(0, limit))
}

// Identity implements store.Store.
func (s *Store) Identity(ctx context.Context) (string, error) {
	found, err := texts[string](ctx, s, identitySQL)
	if err == nil && len(found) != 1 {
		err = errors.New("postgres: the database has no identity")
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// texts reads one column of text.
func texts[T ~string](ctx context.Context, s *Store, sql string, arguments ...any) ([]T, error) {
	var list []T
	err := s.read(ctx, func(ctx context.Context, q querier) error {
		rows, err := q.Query(ctx, sql, arguments...)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, pgx.RowTo[T])
		return err
	})
	return list, err
}

// FinalEvents implements store.Store.
func (s *Store) FinalEvents(ctx context.Context, tenant names.Tenant, after store.EventPlace, limit int) ([]store.FinalEvent, error) {
	sql, arguments := eventsSQL, []any{string(after.Tenant), [16]byte(after.ID), max(0, limit)}
	if tenant != "" {
		sql, arguments = eventsTenantSQL, append(arguments, string(tenant))
	}
	var list []store.FinalEvent
	err := s.view(ctx, func(ctx context.Context, q querier) error {
		rows, err := q.Query(ctx, sql, arguments...)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (store.FinalEvent, error) {
			var (
				event store.FinalEvent
				id    [16]byte
			)
			err := r.Scan(&event.Tenant, &id, &event.Key, &event.Type, &event.Time)
			event.ID, event.Time = id, row.Instant(event.Time)
			return event, err
		})
		return err
	})
	return list, err
}
