package dbtest_test

import (
	"os"
	"testing"

	"giro/internal/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func TestFreshDatabasesAreApart(t *testing.T) {
	a, b := dbtest.Postgres(t), dbtest.Postgres(t)
	for _, address := range []string{a, b} {
		db := dbtest.OpenPostgres(t, address)
		if _, err := db.ExecContext(t.Context(), "create table same_name (n int)"); err != nil {
			t.Error(err)
		}
	}
}

func TestDatabaseIsDroppedAtCleanup(t *testing.T) {
	var gone string
	t.Run("inner", func(t *testing.T) {
		gone = dbtest.Postgres(t)
		db := dbtest.OpenPostgres(t, gone)
		if err := db.PingContext(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if gone == "" {
		t.Skip("SKIPPED, NOT TESTED: no PostgreSQL, as the inner test says")
	}
	if err := dbtest.OpenPostgres(t, gone).PingContext(t.Context()); err == nil {
		t.Error("the database outlives its test")
	}
}

func TestKilledServerKeepsWhatWasCommitted(t *testing.T) {
	s := dbtest.NewServer(t)
	db := dbtest.OpenPostgres(t, s.URL(t))
	if _, err := db.ExecContext(t.Context(), "create table t (n int)"); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if err := db.PingContext(t.Context()); err == nil {
		t.Fatal("a killed server answers")
	}
	s.Start()
	if _, err := db.ExecContext(t.Context(), "insert into t values (1)"); err != nil {
		t.Error(err)
	}
}

func TestSQLiteFilesAreFresh(t *testing.T) {
	a, b := dbtest.SQLite(t), dbtest.SQLite(t)
	if a == b {
		t.Fatal("two tests would share a file")
	}
	if _, err := os.Stat(a); !os.IsNotExist(err) {
		t.Errorf("%s is there already: %v", a, err)
	}
	if _, err := dbtest.OpenSQLite(t, a).ExecContext(t.Context(), "create table t (n int)"); err != nil {
		t.Error(err)
	}
}
