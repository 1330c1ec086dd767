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
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"giro/internal/schema"
	"giro/orchestrator/store"
)

// session holds the hot path's settings. On tables that have no statistics yet
// the planner likes sequential scans and hash joins, and a plan once made for a
// small table is kept while it grows. Commits are as durable as the server is set
// to make them.
var session = map[string]string{
	"enable_seqscan":                      "off",
	"enable_hashjoin":                     "off",
	"enable_mergejoin":                    "off",
	"enable_bitmapscan":                   "off",
	"jit":                                 "off",
	"plan_cache_mode":                     "force_generic_plan",
	"default_transaction_isolation":       "read committed",
	"idle_in_transaction_session_timeout": "30s",
	"application_name":                    "giro-orchestrator",
}

// acquireTimeout bounds the wait for a connection.
const acquireTimeout = 10 * time.Second

//go:embed migrations/*.sql
var files embed.FS

func migrations() fs.FS {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return sub
}

// Store is a saga table in one database.
type Store struct {
	pool *pgxpool.Pool
}

var _ store.Store = (*Store)(nil)

// Open connects to the database at url (postgres://...; pool_max_conns and its
// like are taken). It refuses a schema that it cannot serve.
func Open(ctx context.Context, url string) (*Store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	db := stdlib.OpenDB(*config.ConnConfig.Copy())
	err = errors.Join(schema.Require(ctx, db, schema.Postgres, migrations()), db.Close())
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	for name, value := range session {
		config.ConnConfig.RuntimeParams[name] = value
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return &Store{pool: pool}, nil
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
	// Through the pool's parser, which takes its own settings out of the URL.
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	db := stdlib.OpenDB(*config.ConnConfig)
	list, err := do(db)
	return list, errors.Join(err, db.Close())
}

// Close ends the connections, after those in use are given back.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}
