// Package sqlite keeps a participant's books in one SQLite file. Several
// processes may use the file at once: each transaction that writes takes the
// file's write lock before it reads.
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

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"giro/internal/participant/store"
	"giro/internal/schema"
)

const (
	// busyMillisecondsMax bounds how long a transaction waits for another
	// process's; after it the batch is run again.
	busyMillisecondsMax = 5000
	// readersMax is how many reads run beside the one writer.
	readersMax = 4
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

// Store is the books in one file.
type Store struct {
	// writer has one connection: SQLite takes one writer at a time, and those who
	// wait do so in Go, where a wait costs nothing.
	writer  *sql.DB
	readers *sql.DB
	write   writeStatements
	read    readStatements
}

var _ store.Store = (*Store)(nil)

// Open opens the books in the file. It refuses a file that is not there and a
// schema that this binary cannot serve.
func Open(ctx context.Context, path string) (*Store, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("open books: %w; run giro migrate up first", err)
	}
	writer, err := open(path, "rw")
	if err != nil {
		return nil, err
	}
	s := &Store{writer: writer}
	if err := s.prepare(ctx, path); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) prepare(ctx context.Context, path string) error {
	if err := schema.Require(ctx, s.writer, schema.SQLite, migrations()); err != nil {
		return fmt.Errorf("books in %s: %w", path, err)
	}
	readers, err := open(path, "ro")
	if err != nil {
		return err
	}
	s.readers = readers
	if err := prepareAll(ctx, s.writer, s.write.texts()); err != nil {
		return err
	}
	return prepareAll(ctx, s.readers, s.read.texts())
}

// open makes a pool on the file; mode is SQLite's: ro, rw or rwc (create it).
func open(path, mode string) (*sql.DB, error) {
	if path == "" || path == ":memory:" {
		return nil, errors.New("sqlite books need a file: every connection to a database in memory has its own")
	}
	q := url.Values{"mode": {mode}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyMillisecondsMax), "foreign_keys(1)"}}
	conns := readersMax
	if mode != "ro" {
		// FULL: a commit is on the disk before it is answered.
		q["_pragma"] = append(q["_pragma"], "journal_mode(wal)", "synchronous(full)")
		q.Set("_txlock", "immediate")
		conns = 1
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// Migrate brings the schema of the file up to date, creating the file if need
// be, and lists what was applied.
func Migrate(ctx context.Context, path string) ([]schema.Applied, error) {
	db, err := open(path, "rwc")
	if err != nil {
		return nil, err
	}
	applied, err := schema.Up(ctx, db, schema.SQLite, migrations())
	return applied, errors.Join(err, db.Close())
}

// MigrationStatus lists the migrations and which of them the file has.
func MigrationStatus(ctx context.Context, path string) ([]schema.Applied, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("migration status: %w; run giro migrate up first", err)
	}
	db, err := open(path, "rw")
	if err != nil {
		return nil, err
	}
	list, err := schema.List(ctx, db, schema.SQLite, migrations())
	return list, errors.Join(err, db.Close())
}

// Close implements store.Store.
func (s *Store) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.readers, s.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// classify marks the errors after which the batch is run again: the file was
// locked by another process for longer than the wait.
func classify(err error) error {
	var e *driver.Error
	if errors.As(err, &e) {
		// The low byte is the primary code; the rest says more of the same.
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
			return fmt.Errorf("%w: %w", store.ErrTransient, err)
		}
	}
	return err
}

type prepared struct {
	statement **sql.Stmt
	text      string
}

func prepareAll(ctx context.Context, db *sql.DB, list []prepared) error {
	for _, p := range list {
		statement, err := db.PrepareContext(ctx, p.text)
		if err != nil {
			return fmt.Errorf("prepare %q: %w", p.text, err)
		}
		*p.statement = statement
	}
	return nil
}
