package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"giro/internal/dbtest"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/participant/store/sqlite"
	"giro/internal/participant/store/storetest"
	"giro/internal/stepkey"
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
	storetest.Run(t, func(t *testing.T) store.Store {
		path := file(t)
		t.Cleanup(func() { checkEvents(t, dbtest.OpenSQLite(t, path)) })
		return open(t, path)
	})
}

// checkEvents checks that every applied operation left one event, and that no
// event announces anything else. The lines of a journal entry (15) are the entry's, and a
// brought-forward line (17) is nothing new.
func checkEvents(t *testing.T, db *sql.DB) {
	t.Helper()
	var missing, extra int
	err := db.QueryRow(`select
		(select count(*) from operations o where outcome = 1 and kind not in (15, 17) and not exists (select 1 from events e where e.tenant = o.tenant
			and e.key = o.key and e.type = o.step and e.created_at = o.first_time)),
		(select count(*) from events) - (select count(*) from operations where outcome = 1 and kind not in (15, 17))`).Scan(&missing, &extra)
	if err != nil || missing != 0 || extra != 0 {
		t.Errorf("%d applied operations without their event, %d events too many, %v", missing, extra, err)
	}
}

// What the constraints refuse even where the book were wrong.
func TestC08Guards(t *testing.T) {
	path := file(t)
	s, db := open(t, path), dbtest.OpenSQLite(t, path)
	defer s.Close()
	insert := `insert into operations values ('acme', randomblob(16), 't', 's', %d, 'alice', %d, 'USD', '', %s, %d,
		0, 0, 0, 0, null, 0, 0, 0, '', '', 0, 0, '')`
	must := func(statement string) {
		t.Helper()
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	must(`insert into accounts values ('acme', 'alice', 'USD', 0, 0, 1, 0, 0, 0, 0, 0, '', 0, 0, '', '', 0, 0)`)
	must(fmt.Sprintf(insert, 3, 1, "x'01'", 1)) // the first refund of the debit
	must(fmt.Sprintf(insert, 3, 1, "x'01'", 2)) // a second one that was refused
	must(fmt.Sprintf(insert, 1, 0, "null", 3))  // a tombstone has no amount
	for what, statement := range map[string]string{
		"debit of 0":           fmt.Sprintf(insert, 1, 0, "null", 1),
		"credit of -1":         fmt.Sprintf(insert, 2, -1, "null", 1),
		"withdrawal of 0":      fmt.Sprintf(insert, 10, 0, "null", 1),
		"journal line of -1":   fmt.Sprintf(insert, 15, -1, "null", 1),
		"refused deposit of 0": fmt.Sprintf(insert, 6, 0, "null", 2),
		"second refund":        fmt.Sprintf(insert, 3, 1, "x'01'", 1),
		"below the floor":      `update accounts set balance = -1`,
	} {
		if _, err := db.Exec(statement); err == nil || !strings.Contains(err.Error(), "constraint") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Books that are not sound are found out, also where the sums carry.
func TestFaultsAreFound(t *testing.T) {
	path := file(t)
	s, db := open(t, path), dbtest.OpenSQLite(t, path)
	defer s.Close()
	insert := func(account string, balance int64, lines ...int64) {
		t.Helper()
		if _, err := db.Exec(`insert into accounts values ('acme', ?, 'USD', ?, ?, 1, ?, 0, 0, 0, 0, '', 0, 0, '', '', 0, 0)`, account, balance, balance, len(lines)); err != nil {
			t.Fatal(err)
		}
		for i, amount := range lines {
			if _, err := db.Exec(`insert into operations values ('acme', randomblob(16), 'k', 'credit', 2, ?1, 1, 'USD', '', null,
				1, 0, 1, 0, 0, null, 0, 0, 0, ?1, 'external:x', ?2, ?3, '')`, account, amount, i+1); err != nil {
				t.Fatal(err)
			}
		}
	}
	insert("carry", 1<<32, 1<<32-1, 1)
	insert("largest", math.MaxInt64, math.MaxInt64, math.MaxInt64, -math.MaxInt64)
	insert("negative", -5, -1<<40, 1<<40-5)
	insert("off-by-one", 101, 100)
	insert("wraps", 0, math.MinInt64, math.MinInt64) // 0 only in 64 bits
	sums, err := s.Sums(t.Context(), "acme")
	if err != nil || len(sums.Faults) != 2 {
		t.Fatalf("%+v, %v", sums.Faults, err)
	}
	first, second := sums.Faults[0], sums.Faults[1]
	if first.AccountID.Account != "off-by-one" || first.Balance != 101 || first.Lines != "100" ||
		second.AccountID.Account != "wraps" || second.Lines != "-18446744073709551616" {
		t.Fatalf("%+v", sums.Faults)
	}
}

// Another process holds the file's lock for longer than the wait: that is
// transient, and nothing was done; for a batch that waits for the one writer too.
func TestBusyIsTransient(t *testing.T) {
	path := file(t)
	s, db := open(t, path), dbtest.OpenSQLite(t, path)
	defer s.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "begin immediate"); err != nil {
		t.Fatal(err)
	}
	cancel := book.Operation{Kind: book.Cancel, Tenant: "acme", TransferKey: "t1", Step: stepkey.Debit, Key: stepkey.StepKey{1}}
	errs := make(chan error, 2)
	for range cap(errs) {
		go func() {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			_, err := s.Apply(ctx, []book.Operation{cancel}, book.DefaultLimits)
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; !errors.Is(err, store.ErrTransient) {
			t.Fatalf("%v", err)
		}
	}
	if _, err := conn.ExecContext(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	answers, err := s.Apply(t.Context(), []book.Operation{cancel}, book.DefaultLimits)
	if err != nil || answers[0].Outcome != book.Cancelled || answers[0].Replayed {
		t.Fatalf("%+v, %v", answers, err)
	}
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
	if list, err := sqlite.MigrationStatus(t.Context(), path); err != nil || len(list) != 2 {
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
