package sqlite_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"giro/internal/dbtest"
	"giro/internal/fingerprint"
	"giro/internal/names"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
	"giro/orchestrator/store/sqlite"
	"giro/orchestrator/store/storetest"
)

func migrated(t *testing.T, path string) string {
	t.Helper()
	if _, err := sqlite.Migrate(context.Background(), path); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, path string) store.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, migrated(t, dbtest.SQLite(t))) })
}

// TestSharedFile: several stores on one file, each with connections of its own,
// as several processes have.
func TestSharedFile(t *testing.T) {
	storetest.RunShared(t, func(t *testing.T) []store.Store {
		path := migrated(t, dbtest.SQLite(t))
		return []store.Store{open(t, path), open(t, path), open(t, path), open(t, path)}
	})
}

func TestOpenRefusesASchemaItCannotServe(t *testing.T) {
	path := dbtest.SQLite(t)
	if _, err := sqlite.Open(context.Background(), path); err == nil || !strings.Contains(err.Error(), "giro migrate up") {
		t.Errorf("Open of a file that is not there: %v", err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("it left a file behind: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(context.Background(), path); err == nil || !strings.Contains(err.Error(), "giro migrate up") {
		t.Errorf("Open of an empty database: %v", err)
	}
}

func TestMigrate(t *testing.T) {
	ctx, path := context.Background(), dbtest.SQLite(t)
	first, err := sqlite.Migrate(ctx, path)
	if err != nil || len(first) == 0 {
		t.Fatalf("the first run applied %v, %v", first, err)
	}
	if again, err := sqlite.Migrate(ctx, path); err != nil || len(again) != 0 {
		t.Errorf("the second run applied %v, %v", again, err)
	}
	status, err := sqlite.MigrationStatus(ctx, path)
	if err != nil || len(status) != len(first) {
		t.Errorf("status lists %v, %v; want %d", status, err, len(first))
	}
}

// TestHostilePath: characters that mean something in a file's address do not in
// a path.
func TestHostilePath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?c#d%20e&mode=ro;é'.db")
	open(t, migrated(t, path))
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// TestADamagedRowHoldsNobodyUp: not at a claim, nor in a list.
func TestADamagedRowHoldsNobodyUp(t *testing.T) {
	ctx := context.Background()
	path := migrated(t, dbtest.SQLite(t))
	s := open(t, path)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	execute := func(statement string) {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	contents := fingerprint.Contents{Source: "a/x", Destination: "b/y", Amount: 40, Currency: "USD"}
	for _, key := range []names.TransferKey{"k1", "k2", "k3", "k4"} {
		n := store.New{Saga: saga.New(saga.ID{Tenant: "t", Key: key}, contents, false)}
		if _, err := s.Insert(ctx, "gone", []store.New{n}); err != nil {
			t.Fatal(err)
		}
	}
	execute("update sagas set steps = '{' where key = 'k1'")
	execute("update sagas set metadata = '[1]' where key = 'k2'")
	execute("update sagas set fingerprint = x'00' where key = 'k3'")
	if list, err := s.List(ctx, "", saga.ID{}, 100); err != nil || len(list) != 4 {
		t.Errorf("%d listed, %v", len(list), err)
	}
	claimed, err := s.Claim(ctx, "me", 100, time.Hour)
	if err != nil || len(claimed) != 4 {
		t.Fatalf("%d claimed, %v", len(claimed), err)
	}
	for _, c := range claimed {
		if c.Attention != (c.ID.Key != "k4") || c.Contents != contents || c.Epoch != 2 {
			t.Errorf("%+v", c)
		}
		c.State = saga.Completed
		saved, err := s.Save(ctx, []store.Write{{Saga: c, FromVersion: c.Version, FromEpoch: c.Epoch, FromCreatedAt: c.CreatedAt}})
		if err != nil || !saved[0].OK {
			t.Errorf("%s: %+v, %v", c.ID.Key, saved, err)
		}
	}
}

// TestRenewForgetsLeasesOfTheDayBefore: every start has a name of its own.
func TestRenewForgetsLeasesOfTheDayBefore(t *testing.T) {
	ctx := context.Background()
	path := migrated(t, dbtest.SQLite(t))
	s := open(t, path)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	execute := func(statement string) {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	execute("insert into leases values ('long-gone', 1)")
	for _, owner := range []string{"me", "you"} {
		if _, err := s.Renew(ctx, owner, time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	var left int
	if err := db.QueryRowContext(ctx, "select count(*) from leases").Scan(&left); err != nil || left != 2 {
		t.Errorf("%d leases, %v", left, err)
	}
}
