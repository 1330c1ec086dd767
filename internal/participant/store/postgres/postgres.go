// Package postgres keeps a participant's books in PostgreSQL. One batch is one
// READ COMMITTED transaction of two round trips.
package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"

	"giro/internal/participant/store"
	"giro/internal/pgpool"
	"giro/internal/schema"
)

const (
	// transactionSecondsMax bounds what comes before COMMIT.
	transactionSecondsMax = 15
	// readSecondsMax bounds one read by index. The server ends it, and is waited
	// for a little longer, so that the connection is kept.
	readSecondsMax = 5
	// reportSecondsMax bounds a report, which reads whole tables.
	reportSecondsMax = 120
	// applyConnsMin is enough for one engine's transactions and one more, whose
	// COMMIT is still waited for.
	applyConnsMin = store.WorkersDefault + 1
	// readConnsMin is how many connections reads have at the least.
	readConnsMin = 2
	// spanConnsMax is how many statements are begun at once, and spanLockMax how long
	// each waits for its account, in PostgreSQL's words.
	spanConnsMax = 2
	spanLockMax  = "500ms"
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

// Store is the books in one database. Each kind of work has connections of its
// own, so that no crowd of readers keeps the money waiting.
type Store struct {
	// hot serves Apply, by index alone.
	hot *pgpool.Pool
	// reads serves look-ups and lists, by index alone.
	reads *pgpool.Pool
	// spans serves Span, which waits for an account that somebody is changing: few
	// at a time, so that one account keeps no other reader waiting.
	spans *pgpool.Pool
	// reports serves Sums and TrialBalance, with whatever plan is best.
	reports *pgpool.Pool
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

// Open opens the books at a postgres:// URL. Its pool_max_conns bounds the
// connections for operations and reads together: reads have a quarter, at least
// 2, and operations the rest, at least one more than an engine's workers; less
// than 5 counts as 5. An engine with more workers than the default needs more.
// The beginning of statements, and reports, have 2 each beside those. Open refuses a schema that this binary cannot
// serve; no connection leads to a standby, or to a database whose commits are not
// durable.
func Open(ctx context.Context, url string) (*Store, error) {
	config, err := pgpool.Parse(url)
	if err != nil {
		return nil, err
	}
	db := config.DB()
	if err := errors.Join(schema.Require(ctx, db, schema.Postgres, migrations()), db.Close()); err != nil {
		return nil, fmt.Errorf("books in %s: %w", config.Name(), err)
	}
	apply, reads := split(config.Conns())
	s := &Store{}
	for _, kind := range []struct {
		pool     **pgpool.Pool
		size     int
		settings map[string]string
	}{
		{&s.hot, apply, hotSettings},
		{&s.reads, reads, bounded(hotSettings, readSecondsMax)},
		{&s.spans, spanConnsMax, waiting(bounded(hotSettings, readSecondsMax))},
		{&s.reports, reportConnsMax, bounded(nil, reportSecondsMax)},
	} {
		if *kind.pool, err = config.Open(ctx, kind.size, kind.settings); err != nil {
			return nil, errors.Join(fmt.Errorf("open books: %w", err), s.Close())
		}
	}
	return s, nil
}

// split shares the connections out.
func split(conns int) (apply, reads int) {
	reads = max(readConnsMin, conns/4)
	return max(applyConnsMin, conns-reads), reads
}

// bounded adds the time after which the server ends a statement. Never where
// something commits.
func bounded(settings map[string]string, seconds int) map[string]string {
	settings = maps.Clone(settings)
	if settings == nil {
		settings = map[string]string{}
	}
	settings["statement_timeout"] = fmt.Sprint(seconds * 1000)
	return settings
}

// waiting bounds the wait for a row.
func waiting(settings map[string]string) map[string]string {
	settings["lock_timeout"] = spanLockMax
	return settings
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
	config, err := pgpool.Parse(url)
	if err != nil {
		return nil, err
	}
	db := config.DB()
	list, err := run(db)
	return list, errors.Join(err, db.Close())
}

// Close implements store.Store. It waits for the transactions under way, but not
// for ever.
func (s *Store) Close() error {
	if err := pgpool.Close(s.hot, s.reads, s.spans, s.reports); err != nil {
		return fmt.Errorf("close books: %w", err)
	}
	return nil
}
