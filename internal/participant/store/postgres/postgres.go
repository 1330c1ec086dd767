// Package postgres keeps a participant's books in PostgreSQL. One batch is one
// READ COMMITTED transaction of at most four round trips.
package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"giro/internal/participant/store"
	"giro/internal/schema"
)

const (
	// acquireSecondsMax bounds the wait for a connection.
	acquireSecondsMax = 5
	// lockMillisecondsMax bounds the wait for one row; after it the batch is run
	// again. It is longer than the server's search for deadlocks (1 s).
	lockMillisecondsMax = 4000
	// transactionSecondsMax bounds what comes before COMMIT.
	transactionSecondsMax = 15
	// commitSecondsMax bounds the wait for COMMIT's answer.
	commitSecondsMax = 10
	// idleMillisecondsMax ends the transaction of a client that has gone away
	// without a word, so that its locks do not stay.
	idleMillisecondsMax = 30_000
	// reportConnsMax is how many reports run at once.
	reportConnsMax = 2
)

//go:embed migrations/*.sql
var embedded embed.FS

func migrations() fs.FS {
	sub, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return sub
}

// Store is the books in one database.
type Store struct {
	// hot serves operations, by index alone.
	hot *pgxpool.Pool
	// reports serves Sums and TrialBalance, with whatever plan is best.
	reports *pgxpool.Pool
}

var _ store.Store = (*Store)(nil)

// hotSettings keep the index plans where the planner knows no better: on tables
// without statistics it takes sequential scans and hash joins for a batch.
var hotSettings = map[string]string{
	"enable_seqscan":   "off",
	"enable_hashjoin":  "off",
	"enable_mergejoin": "off",
	"jit":              "off",
	"plan_cache_mode":  "force_generic_plan",
}

// Open opens the books at a postgres:// URL, on which pool_max_conns bounds the
// connections (pgxpool's settings). It refuses a schema that this binary cannot
// serve, and a database whose commits are not durable.
func Open(ctx context.Context, url string) (*Store, error) {
	hot, err := poolConfig(url)
	if err != nil {
		return nil, err
	}
	if err := check(ctx, hot); err != nil {
		return nil, fmt.Errorf("books in %s: %w", hot.ConnConfig.Database, err)
	}
	reports := hot.Copy()
	reports.MaxConns, reports.MinConns, reports.MinIdleConns = reportConnsMax, 0, 0
	for name, value := range hotSettings {
		hot.ConnConfig.RuntimeParams[name] = value
	}
	s := &Store{}
	if s.hot, err = pgxpool.NewWithConfig(ctx, hot); err != nil {
		return nil, fmt.Errorf("open books: %w", err)
	}
	if s.reports, err = pgxpool.NewWithConfig(ctx, reports); err != nil {
		return nil, errors.Join(fmt.Errorf("open books: %w", err), s.Close())
	}
	return s, nil
}

func poolConfig(url string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	params := config.ConnConfig.RuntimeParams
	params["lock_timeout"] = fmt.Sprint(lockMillisecondsMax)
	params["idle_in_transaction_session_timeout"] = fmt.Sprint(idleMillisecondsMax)
	if config.ConnConfig.ValidateConnect == nil {
		// Never a replica, which may lag: not even for reading.
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return config, nil
}

// check refuses a database that would break a promise.
func check(ctx context.Context, config *pgxpool.Config) error {
	db := stdlib.OpenDB(*config.ConnConfig.Copy())
	err := schema.Require(ctx, db, schema.Postgres, migrations())
	if err == nil {
		err = checkDurable(ctx, db)
	}
	return errors.Join(err, db.Close())
}

// checkDurable refuses a session that answers COMMIT before it is on the disk.
func checkDurable(ctx context.Context, db *sql.DB) error {
	var value string
	if err := db.QueryRowContext(ctx, "show synchronous_commit").Scan(&value); err != nil {
		return err
	}
	if value == "off" {
		return errors.New("synchronous_commit is off for this user or database: an answer could be lost after it was given; set it on")
	}
	return nil
}

// Migrate brings the schema up to date and lists what was applied.
func Migrate(ctx context.Context, url string) ([]schema.Applied, error) {
	return migration(url, func(db *sql.DB) ([]schema.Applied, error) {
		return schema.Up(ctx, db, schema.Postgres, migrations())
	})
}

// MigrationStatus lists the migrations and which of them the database has.
func MigrationStatus(ctx context.Context, url string) ([]schema.Applied, error) {
	return migration(url, func(db *sql.DB) ([]schema.Applied, error) {
		return schema.List(ctx, db, schema.Postgres, migrations())
	})
}

func migration(url string, run func(*sql.DB) ([]schema.Applied, error)) ([]schema.Applied, error) {
	// pgxpool's parser, so that pool settings on the URL do no harm here.
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	db := stdlib.OpenDB(*config.ConnConfig)
	list, err := run(db)
	return list, errors.Join(err, db.Close())
}

// Close implements store.Store. It waits for the transactions under way.
func (s *Store) Close() error {
	for _, pool := range []*pgxpool.Pool{s.hot, s.reports} {
		if pool != nil {
			pool.Close()
		}
	}
	return nil
}

// acquire takes a connection. Those who wait do so here, with a bound.
func acquire(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, acquireSecondsMax*time.Second)
	defer cancel()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire a connection: %w", classify(err))
	}
	return conn, nil
}
