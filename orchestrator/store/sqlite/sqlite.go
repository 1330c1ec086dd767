// Package sqlite keeps the saga table in a SQLite file. The database's clock is
// the host's, read inside the transaction. Several processes of one host may
// share the file.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"giro/internal/schema"
	"giro/orchestrator/store"
	"giro/orchestrator/store/row"
)

// readersMax is the most reads at once; one write at a time is SQLite's own limit.
const readersMax = 4

// busyMilliseconds is how long a writer waits for another process's.
const busyMilliseconds = 10_000

//go:embed migrations/*.sql
var files embed.FS

func migrations() fs.FS {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return sub
}

// Store is a saga table in one file.
type Store struct {
	// writer has one connection: writers queue here and not in the file's lock.
	writer *sql.DB
	reader *sql.DB
}

var _ store.Store = (*Store)(nil)

// Open opens the file. It refuses a schema that it cannot serve.
func Open(ctx context.Context, path string) (*Store, error) {
	writer, err := open(path, "rw", false)
	if err != nil {
		return nil, err
	}
	if err := schema.Require(ctx, writer, schema.SQLite, migrations()); err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: %s: %w", path, err), writer.Close())
	}
	reader, err := open(path, "rw", true)
	if err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	return &Store{writer: writer, reader: reader}, nil
}

// Migrate brings the file's schema up to date, creating the file if need be, and
// lists what it applied.
func Migrate(ctx context.Context, path string) ([]schema.Applied, error) {
	return withFile(path, "rwc", func(db *sql.DB) ([]schema.Applied, error) {
		return schema.Up(ctx, db, schema.SQLite, migrations())
	})
}

// MigrationStatus lists the migrations and when each was applied.
func MigrationStatus(ctx context.Context, path string) ([]schema.Applied, error) {
	return withFile(path, "rw", func(db *sql.DB) ([]schema.Applied, error) {
		return schema.List(ctx, db, schema.SQLite, migrations())
	})
}

func withFile(path, mode string, do func(*sql.DB) ([]schema.Applied, error)) ([]schema.Applied, error) {
	db, err := open(path, mode, false)
	if err != nil {
		return nil, err
	}
	list, err := do(db)
	return list, errors.Join(err, db.Close())
}

// open prepares the connections. Only mode rwc creates a file: looking for one
// must not leave one behind.
func open(path, mode string, readOnly bool) (*sql.DB, error) {
	if _, err := os.Stat(path); mode != "rwc" && err != nil {
		return nil, fmt.Errorf("sqlite: %w: run `giro migrate up`", err)
	}
	query := url.Values{
		"mode":    {mode},
		"_txlock": {"immediate"},
		"_pragma": {fmt.Sprintf("busy_timeout(%d)", busyMilliseconds), "journal_mode(WAL)", "synchronous(FULL)"},
	}
	connections := 1
	if readOnly {
		query["_txlock"] = []string{"deferred"}
		query["_pragma"] = append(query["_pragma"], "query_only(1)")
		connections = readersMax
	}
	name := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %s: %w", path, err)
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// Close closes the file.
func (s *Store) Close() error { return errors.Join(s.writer.Close(), s.reader.Close()) }

// write runs do in one transaction. The caller's deadline bounds the wait for the
// writer; once begun, the transaction is not cancelled by it.
func (s *Store) write(ctx context.Context, do func(ctx context.Context, tx *sql.Tx, now time.Time) error) error {
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	defer func() { _ = conn.Close() }() // gives it back; the transaction has ended
	ctx = context.WithoutCancel(ctx)
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("sqlite: begin: %w", err)
	}
	// After a panic too: the connection is given back only when no transaction is
	// open on it, and it is the only writer.
	defer func() { _ = tx.Rollback() }()
	if err := do(ctx, tx, row.Instant(time.Now())); err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	if err := tx.Commit(); err != nil {
		// A commit that was refused leaves the transaction open.
		return fmt.Errorf("sqlite: commit: %w", errors.Join(err, end(ctx, conn)))
	}
	return nil
}

// end makes sure that no transaction stays open on the one connection.
func end(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "rollback")
	if err != nil {
		return fmt.Errorf("rollback: %w", err)
	}
	return nil
}
