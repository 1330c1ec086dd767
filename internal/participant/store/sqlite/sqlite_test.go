package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"giro/internal/dbtest"
	"giro/internal/participant/store"
	"giro/internal/participant/store/sqlite"
	"giro/internal/participant/store/storetest"
)

// file gives a fresh file with the schema.
func file(t *testing.T) string {
	t.Helper()
	path := dbtest.SQLite(t)
	if _, err := sqlite.Migrate(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, file(t)) })
}

// The lesson's exercise: the same key from many goroutines, each with
// connections of its own to one file.
func TestLessonSeparateConnections(t *testing.T) {
	for _, callers := range []int{10, 100} {
		t.Run(fmt.Sprint(callers), func(t *testing.T) {
			path := file(t)
			stores := make([]store.Store, callers)
			var wait sync.WaitGroup
			for i := range stores {
				wait.Go(func() {
					s, err := sqlite.Open(t.Context(), path)
					if err != nil {
						t.Errorf("open %d: %v", i, err)
						return
					}
					stores[i] = s
				})
			}
			wait.Wait()
			if t.Failed() {
				return
			}
			storetest.SameKeyAtOnce(t, stores)
			for _, s := range stores {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Books survive closing, and keep their incarnation.
func TestReopen(t *testing.T) {
	path := file(t)
	first := open(t, path)
	before, err := first.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(t, path)
	defer second.Close()
	if after, err := second.Identity(t.Context()); err != nil || after != before {
		t.Fatalf("%+v, then %+v, %v", before, after, err)
	}
	if again, err := sqlite.Migrate(t.Context(), path); err != nil || len(again) != 0 {
		t.Fatalf("a second migration applied %+v, %v", again, err)
	}
	if list, err := sqlite.MigrationStatus(t.Context(), path); err != nil || len(list) != 1 {
		t.Fatalf("status %+v, %v", list, err)
	}
}

func TestOpenRefusesWhatItCannotServe(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.db")
	empty := dbtest.SQLite(t)
	db, err := sql.Open("sqlite", empty)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("create table something (id integer)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{missing, empty} {
		s, err := sqlite.Open(t.Context(), path)
		if err == nil {
			s.Close()
			t.Fatalf("%s was opened", path)
		}
		if !strings.Contains(err.Error(), "giro migrate up") {
			t.Fatalf("does not say what to do: %v", err)
		}
	}
	if s, err := sqlite.Open(t.Context(), ":memory:"); err == nil {
		s.Close()
		t.Fatal("a database in memory was opened")
	}
}

// The path is a path, whatever characters it holds.
func TestOddPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?c=1#d%20e.db")
	if _, err := sqlite.Migrate(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
