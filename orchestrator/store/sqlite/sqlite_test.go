package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"giro/internal/dbtest"
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
