// Package postgres keeps the saga table in PostgreSQL, 15 or later. The
// database's clock is now(). Rows are taken in the order of (tenant, key), in
// every statement.
package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"

	"giro/internal/pgpool"
	"giro/internal/schema"
	"giro/orchestrator/store"
)

// session holds the hot path's settings. On tables that have no statistics yet
// the planner likes sequential scans and hash joins, and a plan once made for a
// small table is kept while it grows.
var session = map[string]string{
	"enable_seqscan":                "off",
	"enable_hashjoin":               "off",
	"enable_mergejoin":              "off",
	"enable_bitmapscan":             "off",
	"jit":                           "off",
	"plan_cache_mode":               "force_generic_plan",
	"default_transaction_isolation": "read committed",
	"application_name":              "giro-orchestrator",
}

const (
	// leaseConns renew the lease, behind nobody. The second is there while the first
	// has gone silent.
	leaseConns = 2
	// workConnsMin is enough for the runner: two batches to insert, two to save, and
	// a sweep.
	workConnsMin = 5
	// viewConnsMin is how many connections callers' reads have at the least.
	viewConnsMin = 2
)

//go:embed migrations/*.sql
var files embed.FS

func migrations() fs.FS {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return sub
}

// Store is a saga table in one database. Each kind of work has connections of its
// own: a lease must not be lost, and no transfer held up, because many callers
// list transfers.
type Store struct {
	// lease renews and releases the lease.
	lease *pgpool.Pool
	// pool carries sagas out: inserts, saves, cancels and claims, with the reads that
	// belong to them.
	pool *pgpool.Pool
	// views serves callers' reads.
	views *pgpool.Pool
}

var _ store.Store = (*Store)(nil)

// Open connects to the database at url (postgres://...). Its pool_max_conns bounds
// the connections for sagas and callers' reads together: reads have a quarter, at
// least 2, and sagas the rest, at least 5. The lease has 2 beside those. Open
// refuses a schema that it cannot serve; no connection leads to a standby, or to a
// database whose commits are not durable.
func Open(ctx context.Context, url string) (*Store, error) {
	config, err := pgpool.Parse(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	db := config.DB()
	err = errors.Join(schema.Require(ctx, db, schema.Postgres, migrations()), db.Close())
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	work, views := split(config.Conns())
	// The server ends a slow read, and the connection is kept.
	slow := maps.Clone(session)
	slow["statement_timeout"] = fmt.Sprint(readTimeout.Milliseconds())
	s := &Store{}
	for _, kind := range []struct {
		pool     **pgpool.Pool
		size     int
		settings map[string]string
	}{{&s.lease, leaseConns, session}, {&s.pool, work, session}, {&s.views, views, slow}} {
		if *kind.pool, err = config.Open(ctx, kind.size, kind.settings); err != nil {
			return nil, errors.Join(fmt.Errorf("postgres: %w", err), s.Close())
		}
	}
	return s, nil
}

// split shares the connections out.
func split(conns int) (work, views int) {
	views = max(viewConnsMin, conns/4)
	return max(workConnsMin, conns-views), views
}

// Migrate brings the schema up to date and lists what it applied.
func Migrate(ctx context.Context, url string) ([]schema.Applied, error) {
	return withDatabase(url, func(db *sql.DB) ([]schema.Applied, error) {
		return schema.Up(ctx, db, schema.Postgres, migrations())
	})
}

// MigrationStatus lists the migrations and when each was applied.
func MigrationStatus(ctx context.Context, url string) ([]schema.Applied, error) {
	return withDatabase(url, func(db *sql.DB) ([]schema.Applied, error) {
		return schema.List(ctx, db, schema.Postgres, migrations())
	})
}

func withDatabase(url string, do func(*sql.DB) ([]schema.Applied, error)) ([]schema.Applied, error) {
	config, err := pgpool.Parse(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	db := config.DB()
	list, err := do(db)
	return list, errors.Join(err, db.Close())
}

// Close ends the connections, after those in use are given back. It does not wait
// for ever.
func (s *Store) Close() error {
	if err := pgpool.Close(s.lease, s.pool, s.views); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	return nil
}
