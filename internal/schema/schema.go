// Package schema brings a database to the version that this binary serves, and
// refuses one that it does not serve. It is goose behind a narrow door: the
// migrations are plain SQL files, embedded by each store.
package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
)

// Dialect says which database it is. Nothing is translated between them: each
// has migrations of its own.
type Dialect string

// The supported databases.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
)

// Applied is one migration. AppliedAt is zero for one that is still to come.
type Applied struct {
	Version   int64
	Name      string // the file's name, empty if this binary does not have it
	AppliedAt time.Time
}

// limits bound how long Up waits for others.
type limits struct {
	// table is how long one statement waits for a lock on a table. A migration
	// that waits holds up every later user of the table behind it.
	table time.Duration
	// lease is how long a migrator that died keeps others out.
	lease time.Duration
	// turn is how long Up waits for another process's migrations.
	turn time.Duration
	poll time.Duration
}

var standard = limits{table: 5 * time.Second, lease: 15 * time.Second, turn: 60 * time.Second, poll: 250 * time.Millisecond}

// Up applies the migrations that are missing, in order, and returns those that
// this call applied. migrations holds files named VERSION_NAME.sql in goose's
// format at its root; the first one's NAME names the set, and a database that
// holds another set is refused before anything is changed. Several processes may call Up at once: each migration is
// applied once, and all return when it is there. On PostgreSQL the others wait
// up to a minute for their turn, and a statement up to five seconds for a table
// lock; then Up fails. A database ahead of the migrations is an error, as in
// Require.
//
// On PostgreSQL db must allow two connections or more. On SQLite a migration
// must not be marked NO TRANSACTION, since only the transaction keeps two from
// applying it.
func Up(ctx context.Context, db *sql.DB, dialect Dialect, migrations fs.FS) ([]Applied, error) {
	return up(ctx, db, dialect, migrations, standard)
}

func up(ctx context.Context, db *sql.DB, dialect Dialect, migrations fs.FS, lim limits) ([]Applied, error) {
	all, err := List(ctx, db, dialect, migrations)
	if err != nil {
		return nil, err
	}
	if err := refuseAhead(all); err != nil {
		return nil, err
	}
	var ours []Applied
	// Each failed round must have seen another process get further.
	for {
		before := countApplied(all)
		results, err := upOnce(ctx, db, dialect, migrations, lim)
		for _, r := range results {
			ours = append(ours, Applied{Version: r.Source.Version, Name: path.Base(r.Source.Path)})
		}
		if err == nil {
			break
		}
		now, listErr := List(ctx, db, dialect, migrations)
		var other otherSetError
		if errors.As(listErr, &other) {
			return nil, listErr // it was migrated meanwhile
		}
		if dialect != SQLite || listErr != nil || countApplied(now) <= before+len(results) {
			return nil, fmt.Errorf("schema: migrate: %w", err)
		}
		all = now
	}
	return stamp(ctx, db, dialect, migrations, ours)
}

// upOnce has goose apply what is missing, and returns what was applied even if
// a later migration failed.
func upOnce(ctx context.Context, db *sql.DB, dialect Dialect, migrations fs.FS, lim limits) ([]*goose.MigrationResult, error) {
	provider, err := newProvider(db, dialect, migrations, lim)
	if err != nil {
		return nil, err
	}
	results, err := provider.Up(ctx)
	var partial *goose.PartialError
	if errors.As(err, &partial) {
		results = partial.Applied
		err = fmt.Errorf("%s: %w", path.Base(partial.Failed.Source.Path), partial.Err)
	}
	return results, err
}

func newProvider(db *sql.DB, dialect Dialect, migrations fs.FS, lim limits) (*goose.Provider, error) {
	_, own, err := read(migrations)
	if err != nil {
		return nil, err
	}
	options := []goose.ProviderOption{
		goose.WithLogger(goose.NopLogger()),
		goose.WithDisableGlobalRegistry(true),
	}
	switch dialect {
	case Postgres:
		if db.Stats().MaxOpenConnections == 1 {
			return nil, errors.New("migrating PostgreSQL takes two connections, and the pool allows one")
		}
		locker, err := newTurn(db, lim)
		if err != nil {
			return nil, err
		}
		options = append(options, goose.WithSessionLocker(locker), goose.WithTableName(own.table()))
		return goose.NewProvider(goose.DialectPostgres, db, migrations, options...)
	case SQLite:
		store, err := database.NewStore(database.DialectSQLite3, own.table())
		if err != nil {
			return nil, err
		}
		options = append(options, goose.WithStore(onceStore{store}))
		return goose.NewProvider(goose.DialectCustom, db, migrations, options...)
	default:
		return nil, unknownDialect(dialect)
	}
}

func unknownDialect(dialect Dialect) error {
	return fmt.Errorf("schema: unknown dialect %q", dialect)
}

// turn makes processes migrate one after another by a row with a lease, since
// not every database that speaks PostgreSQL's protocol has advisory locks. It
// also bounds how long the migrating connection waits for a table.
type turn struct {
	db    *sql.DB
	table lock.Locker
	limit limits
}

func newTurn(db *sql.DB, lim limits) (*turn, error) {
	table, err := lock.NewPostgresTableLocker(
		lock.WithTableLeaseDuration(lim.lease),
		lock.WithTableHeartbeatInterval(lim.lease/5),
		lock.WithTableLockTimeout(lim.poll, uint64(lim.turn/lim.poll)), //nolint:gosec // both positive
		lock.WithTableUnlockTimeout(lim.poll, 20),
		lock.WithTableLogger(slog.New(slog.DiscardHandler)),
	)
	if err != nil {
		return nil, err
	}
	return &turn{db: db, table: table, limit: lim}, nil
}

// SessionLock waits for this process's turn.
func (t *turn) SessionLock(ctx context.Context, conn *sql.Conn) error {
	set := fmt.Sprintf("set lock_timeout = %d", t.limit.table.Milliseconds())
	if _, err := conn.ExecContext(ctx, set); err != nil {
		return err
	}
	if err := t.table.Lock(ctx, t.db); err != nil {
		return errors.Join(
			fmt.Errorf("another process holds the row in %s and has not finished within %v; see its locked_by, and run `giro migrate up` again: %w",
				lock.DefaultLockTableName, t.limit.turn, err),
			t.reset(ctx, conn))
	}
	return nil
}

// SessionUnlock passes the turn on.
func (t *turn) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	return errors.Join(t.table.Unlock(ctx, t.db), t.reset(ctx, conn))
}

func (t *turn) reset(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(context.WithoutCancel(ctx), "reset lock_timeout")
	return err
}

// onceStore records a migration only if nobody else has. SQLite lets one writer
// in at a time, and the record stands in the migration's transaction, so of two
// processes that apply the same one the second undoes its own and looks again.
type onceStore struct{ database.Store }

var errAppliedMeanwhile = errors.New("another process applied it meanwhile")

// Insert records one version.
func (s onceStore) Insert(ctx context.Context, db database.DBTxConn, req database.InsertRequest) error {
	result, err := db.ExecContext(ctx, `insert into `+s.Tablename()+` (version_id, is_applied)
		select ?1, 1 where not exists (select 1 from `+s.Tablename()+` where version_id = ?1)`, req.Version)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("migration %d: %w", req.Version, errAppliedMeanwhile)
	}
	return nil
}

// Require is nil if the database stands at exactly the version of the
// migrations. Otherwise its error names both versions and says what to do. It
// reads only.
func Require(ctx context.Context, db *sql.DB, dialect Dialect, migrations fs.FS) error {
	all, err := List(ctx, db, dialect, migrations)
	if err != nil {
		return err
	}
	if err := refuseAhead(all); err != nil {
		return err
	}
	var missing []string
	for _, a := range all {
		if a.AppliedAt.IsZero() {
			missing = append(missing, a.Name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	database, binary := versions(all)
	return fmt.Errorf("schema: the database is at version %d and this binary needs %d (missing: %s): run `giro migrate up`",
		database, binary, strings.Join(missing, ", "))
}

// refuseAhead is an error when the database has migrations that this binary
// does not know.
func refuseAhead(all []Applied) error {
	for _, a := range all {
		if a.Name == "" {
			database, binary := versions(all)
			return fmt.Errorf("schema: the database is at version %d, with migration %d, and this binary only knows up to %d: use a newer binary",
				database, a.Version, binary)
		}
	}
	return nil
}

// versions are the highest applied version and the highest known to the binary.
func versions(all []Applied) (database, binary int64) {
	for _, a := range all {
		if !a.AppliedAt.IsZero() {
			database = max(database, a.Version)
		}
		if a.Name != "" {
			binary = max(binary, a.Version)
		}
	}
	return database, binary
}

func countApplied(all []Applied) int {
	n := 0
	for _, a := range all {
		if !a.AppliedAt.IsZero() {
			n++
		}
	}
	return n
}
