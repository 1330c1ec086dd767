package schema

import (
	"database/sql"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"giro/internal/dbtest"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(asMigrator); address != "" {
		os.Exit(migrate(address))
	}
	dbtest.Main(m)
}

// steps are n migrations, each of which would show if it were applied twice:
// the first makes a table, the others add a row to it.
func steps(n int) fstest.MapFS {
	files := fstest.MapFS{}
	for i := 1; i <= n; i++ {
		statement := fmt.Sprintf("insert into notes (n) values (%d);", i)
		if i == 1 {
			statement = "create table notes (n integer);"
		}
		files[fmt.Sprintf("%05d_step.sql", i)] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + statement + "\n")}
	}
	return files
}

// named are the same migrations as another set.
func named(set string, files fstest.MapFS) fstest.MapFS {
	renamed := fstest.MapFS{}
	for name, file := range files {
		renamed[strings.Replace(name, "step", set, 1)] = file
	}
	return renamed
}

// backend opens a new database and gives a function that opens it once more.
type backend struct {
	name    string
	dialect Dialect
	fresh   func(t *testing.T) (open func() *sql.DB)
}

var backends = []backend{
	{"postgres", Postgres, func(t *testing.T) func() *sql.DB {
		address := dbtest.Postgres(t)
		return func() *sql.DB { return dbtest.OpenPostgres(t, address) }
	}},
	{"sqlite", SQLite, func(t *testing.T) func() *sql.DB {
		path := dbtest.SQLite(t)
		return func() *sql.DB { return dbtest.OpenSQLite(t, path) }
	}},
}

func onBoth(t *testing.T, test func(t *testing.T, b backend, open func() *sql.DB)) {
	t.Helper()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) { test(t, b, b.fresh(t)) })
	}
}

func notes(t *testing.T, db *sql.DB) int {
	t.Helper()
	var n int
	if err := db.QueryRowContext(t.Context(), "select count(*) from notes").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestUpAppliesWhatIsMissingOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, b backend, open func() *sql.DB) {
		db := open()
		started := time.Now().Add(-2 * time.Second) // SQLite keeps whole seconds
		for _, c := range []struct{ files, want int }{{2, 2}, {2, 0}, {4, 2}, {4, 0}} {
			got, err := Up(t.Context(), db, b.dialect, steps(c.files))
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != c.want {
				t.Fatalf("with %d files: applied %v, want %d", c.files, got, c.want)
			}
			for _, a := range got {
				if a.Name != fmt.Sprintf("%05d_step.sql", a.Version) {
					t.Errorf("version %d is named %q", a.Version, a.Name)
				}
				if a.AppliedAt.Before(started) || a.AppliedAt.After(time.Now().Add(2*time.Second)) {
					t.Errorf("version %d applied at %v, now is %v", a.Version, a.AppliedAt, time.Now())
				}
			}
		}
		if n := notes(t, db); n != 3 {
			t.Errorf("%d rows, want 3", n)
		}
	})
}

func TestManyUpsAtOnce(t *testing.T) {
	const callers, files = 6, 8
	onBoth(t, func(t *testing.T, b backend, open func() *sql.DB) {
		applied := make([][]Applied, callers)
		errs := make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			db := open()
			wg.Go(func() { applied[i], errs[i] = Up(t.Context(), db, b.dialect, steps(files)) })
		}
		wg.Wait()
		seen := map[int64]int{}
		for i, err := range errs {
			if err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
			for _, a := range applied[i] {
				seen[a.Version]++
			}
		}
		for v := int64(1); v <= files; v++ {
			if seen[v] != 1 {
				t.Errorf("version %d was applied %d times", v, seen[v])
			}
		}
		db := open()
		if n := notes(t, db); n != files-1 {
			t.Errorf("%d rows, want %d", n, files-1)
		}
		if err := Require(t.Context(), db, b.dialect, steps(files)); err != nil {
			t.Error(err)
		}
	})
}

func TestListAndRequireOnlyRead(t *testing.T) {
	onBoth(t, func(t *testing.T, b backend, open func() *sql.DB) {
		db := open()
		all, err := List(t.Context(), db, b.dialect, steps(2))
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != 2 || !all[0].AppliedAt.IsZero() || !all[1].AppliedAt.IsZero() {
			t.Errorf("a new database lists %v", all)
		}
		if err := Require(t.Context(), db, b.dialect, steps(2)); err == nil {
			t.Error("an empty database is good enough")
		}
		if made := tables(t, db, b.dialect); made != 0 {
			t.Errorf("looking made %d tables", made)
		}
	})
}

// tables counts them.
func tables(t *testing.T, db *sql.DB, dialect Dialect) (n int) {
	t.Helper()
	count := "select count(*) from information_schema.tables where table_schema = 'public'"
	if dialect == SQLite {
		count = "select count(*) from sqlite_master"
	}
	if err := db.QueryRowContext(t.Context(), count).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRequireNamesVersionsAndWhatToDo(t *testing.T) {
	onBoth(t, func(t *testing.T, b backend, open func() *sql.DB) {
		db := open()
		if _, err := Up(t.Context(), db, b.dialect, steps(3)); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			files int
			want  []string // empty: no error
		}{
			{3, nil},
			{5, []string{"version 3", "needs 5", "00004_step.sql", "00005_step.sql", "giro migrate up"}},
			{2, []string{"version 3", "up to 2", "newer binary"}},
		} {
			err := Require(t.Context(), db, b.dialect, steps(c.files))
			check(t, err, c.want)
		}
		_, err := Up(t.Context(), db, b.dialect, steps(2))
		check(t, err, []string{"version 3", "up to 2", "newer binary"})
	})
}

// Two sets at the same version in one database: a version alone would say that
// all is well. The second is refused, whatever it asks, and leaves no trace.
func TestAnotherSetIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, b backend, open func() *sql.DB) {
		db := open()
		if _, err := Up(t.Context(), db, b.dialect, named("books", steps(2))); err != nil {
			t.Fatal(err)
		}
		before := tables(t, db, b.dialect)
		sagas := named("sagas", steps(2))
		_, up := Up(t.Context(), db, b.dialect, sagas)
		_, list := List(t.Context(), db, b.dialect, sagas)
		for _, err := range []error{up, list, Require(t.Context(), db, b.dialect, sagas)} {
			check(t, err, []string{"books", "giro_books_version", "sagas", "of its own"})
		}
		if after := tables(t, db, b.dialect); after != before {
			t.Errorf("being refused made %d tables", after-before)
		}
		if err := Require(t.Context(), db, b.dialect, named("books", steps(2))); err != nil {
			t.Errorf("the first set: %v", err)
		}
	})
}

// Of two sets that are migrated at once one wins, and the other's attempt does
// not keep the winner from serving.
func TestTwoSetsAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, b backend, open func() *sql.DB) {
		sets := []fstest.MapFS{named("books", steps(1)), named("sagas", steps(1))}
		errs := make([]error, len(sets))
		var wg sync.WaitGroup
		for i, files := range sets {
			db := open()
			wg.Go(func() { _, errs[i] = Up(t.Context(), db, b.dialect, files) })
		}
		wg.Wait()
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		if errs[winner] != nil {
			t.Fatalf("nobody won: %v", errs)
		}
		check(t, errs[1-winner], []string{"another service", "of its own"})
		db := open()
		if err := Require(t.Context(), db, b.dialect, sets[winner]); err != nil {
			t.Errorf("the winner: %v", err)
		}
		if err := Require(t.Context(), db, b.dialect, sets[1-winner]); err == nil {
			t.Error("the other may serve too")
		}
	})
}

// Two sets in two schemas of one database know nothing of each other.
func TestSetsInSchemasOfTheirOwn(t *testing.T) {
	address := dbtest.Postgres(t)
	if _, err := dbtest.OpenPostgres(t, address).ExecContext(t.Context(), "create schema books; create schema sagas"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"books", "sagas"} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set("search_path", name)
		u.RawQuery = q.Encode()
		db := dbtest.OpenPostgres(t, u.String())
		if got, err := Up(t.Context(), db, Postgres, named(name, steps(2))); err != nil || len(got) != 2 {
			t.Fatalf("%s: %v, %v", name, got, err)
		}
		if err := Require(t.Context(), db, Postgres, named(name, steps(2))); err != nil {
			t.Error(err)
		}
	}
}

func check(t *testing.T, err error, want []string) {
	t.Helper()
	if (err == nil) != (want == nil) {
		t.Errorf("err = %v, want one with %q", err, want)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestFailedMigrationLeavesNothingAndIsTriedAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, b backend, open func() *sql.DB) {
		db := open()
		files := steps(3)
		good := files["00003_step.sql"]
		files["00003_step.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\ninsert into notes (n) values (9);\ninsert into nowhere values (1);\n")}
		if _, err := Up(t.Context(), db, b.dialect, files); err == nil || !strings.Contains(err.Error(), "00003_step.sql") {
			t.Fatalf("err = %v, want one that names the file", err)
		}
		if n := notes(t, db); n != 1 {
			t.Errorf("%d rows after the failure, want 1", n)
		}
		files["00003_step.sql"] = good
		got, err := Up(t.Context(), db, b.dialect, files)
		if err != nil || len(got) != 1 || got[0].Version != 3 {
			t.Errorf("applied %v, %v", got, err)
		}
	})
}

// A migration that must wait for a table gives up: start-up never hangs.
func TestLockedTableIsNotWaitedForEver(t *testing.T) {
	open := backends[0].fresh(t)
	db, other := open(), open()
	if _, err := Up(t.Context(), db, Postgres, steps(1)); err != nil {
		t.Fatal(err)
	}
	tx, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "lock table notes in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	lim := standard
	lim.table = 100 * time.Millisecond
	if _, err := up(t.Context(), db, Postgres, steps(2), lim); err == nil || !strings.Contains(err.Error(), "lock timeout") {
		t.Fatalf("err = %v, want a lock timeout", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if got, err := up(t.Context(), db, Postgres, steps(2), lim); err != nil || len(got) != 1 {
		t.Fatalf("applied %v, %v", got, err)
	}
	var setting string
	if err := db.QueryRowContext(t.Context(), "show lock_timeout").Scan(&setting); err != nil || setting != "0" {
		t.Errorf("lock_timeout = %s, %v: the pool's connections must come back as they were", setting, err)
	}
}

// A migrator that was killed keeps others out for its lease and no longer, and
// one that lives keeps them out for a bounded time, with an error that says so.
func TestTurn(t *testing.T) {
	open := backends[0].fresh(t)
	db := open()
	lim := limits{table: time.Second, lease: 2 * time.Second, turn: 300 * time.Millisecond, poll: 50 * time.Millisecond}
	dead, err := newTurn(db, limits{table: time.Second, lease: 2 * time.Second, turn: time.Second, poll: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := dead.SessionLock(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	_, err = up(t.Context(), open(), Postgres, steps(1), lim)
	check(t, err, []string{"goose_lock", "giro migrate up"})

	if err := dead.SessionUnlock(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "update goose_lock set locked = true, locked_by = 'the dead', lease_expires_at = now() + interval '1 second'"); err != nil {
		t.Fatal(err)
	}
	lim.turn = 20 * time.Second
	if got, err := up(t.Context(), open(), Postgres, steps(1), lim); err != nil || len(got) != 1 {
		t.Fatalf("applied %v, %v", got, err)
	}
}

func TestRefusesWhatItCannotServe(t *testing.T) {
	db := backends[1].fresh(t)()
	for name, c := range map[string]struct {
		dialect Dialect
		files   fs.FS
	}{
		"unknown dialect": {"oracle", steps(1)},
		"no migrations":   {SQLite, fstest.MapFS{}},
		"no version":      {SQLite, fstest.MapFS{"first.sql": &fstest.MapFile{}}},
		"no set's name":   {SQLite, fstest.MapFS{"1_Two-words.sql": &fstest.MapFile{}}},
	} {
		if _, err := Up(t.Context(), db, c.dialect, c.files); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	pg := backends[0].fresh(t)()
	pg.SetMaxOpenConns(1)
	if _, err := Up(t.Context(), pg, Postgres, steps(1)); err == nil {
		t.Error("a pool of one connection would wait for itself, and was taken")
	}
}
