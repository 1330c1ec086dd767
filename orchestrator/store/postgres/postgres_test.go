package postgres

import (
	"context"
	"strings"
	"testing"

	"giro/internal/dbtest"
	"giro/orchestrator/store"
	"giro/orchestrator/store/storetest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func migrated(t *testing.T) string {
	t.Helper()
	url := dbtest.Postgres(t)
	if _, err := Migrate(context.Background(), url); err != nil {
		t.Fatal(err)
	}
	return url
}

func open(t *testing.T, url string) *Store {
	t.Helper()
	s, err := Open(context.Background(), url)
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

// emptied makes the database as it was when new, which is quicker than another.
func emptied(t *testing.T, s *Store) *Store {
	t.Helper()
	if _, err := s.pool.Exec(context.Background(), "truncate sagas, leases, events"); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	url := migrated(t)
	storetest.Run(t, func(t *testing.T) store.Store { return emptied(t, open(t, url)) })
}

// TestSharedDatabase: several stores, each with a pool of its own, as several
// replicas have.
func TestSharedDatabase(t *testing.T) {
	url := migrated(t)
	storetest.RunShared(t, func(t *testing.T) []store.Store {
		return []store.Store{emptied(t, open(t, url)), open(t, url), open(t, url)}
	})
}

func TestOpenRefusesASchemaItCannotServe(t *testing.T) {
	s, err := Open(context.Background(), dbtest.Postgres(t))
	if err == nil {
		_ = s.Close()
		t.Fatal("an empty database was served")
	}
	if !strings.Contains(err.Error(), "giro migrate up") {
		t.Errorf("the error does not say what to do: %v", err)
	}
}

func TestMigrate(t *testing.T) {
	ctx, url := context.Background(), dbtest.Postgres(t)
	pending, err := MigrationStatus(ctx, url)
	if err != nil || len(pending) == 0 || !pending[0].AppliedAt.IsZero() {
		t.Fatalf("status of an empty database: %v, %v", pending, err)
	}
	// The pool's own settings may stand in the URL.
	first, err := Migrate(ctx, url+separator(url)+"pool_max_conns=3")
	if err != nil || len(first) != len(pending) {
		t.Fatalf("the first run applied %v, %v", first, err)
	}
	if again, err := Migrate(ctx, url); err != nil || len(again) != 0 {
		t.Errorf("the second run applied %v, %v", again, err)
	}
	status, err := MigrationStatus(ctx, url)
	if err != nil || len(status) != len(first) || status[0].AppliedAt.IsZero() {
		t.Errorf("status: %v, %v", status, err)
	}
}

func separator(url string) string {
	if strings.Contains(url, "?") {
		return "&"
	}
	return "?"
}
