package postgres

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"giro/internal/dbtest"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/participant/store/storetest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// migrated gives the URL of a fresh database with the schema.
func migrated(t *testing.T) string {
	t.Helper()
	address := dbtest.Postgres(t)
	if _, err := Migrate(t.Context(), address); err != nil {
		t.Fatal(err)
	}
	return address
}

// open opens books that are closed with the test.
func open(t *testing.T, address string) *Store {
	t.Helper()
	s, err := Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// connect gives a connection of the test's own.
func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(t.Context()) })
	return c
}

// One database for the whole suite, emptied before each test: to make one takes
// far longer than to test with it.
func TestStore(t *testing.T) {
	address := migrated(t)
	c := connect(t, address)
	storetest.Run(t, func(t *testing.T) store.Store {
		for _, statement := range []string{"delete from operations", "delete from accounts",
			"delete from events", "update marks set batches = 0", "delete from orchestrators",
			"update meta set participant = null, retention_seconds = 0, archived_before = null, unfinished_since = null"} {
			if _, err := c.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { checkEvents(t, c) })
		return open(t, address)
	})
}

// checkEvents checks that every applied operation left one event, and that no
// event announces anything else. The lines of a journal entry (15) are the entry's, and a
// brought-forward line (17) is nothing new.
func checkEvents(t *testing.T, c *pgx.Conn) {
	t.Helper()
	var kinds []string
	for kind := book.Debit; kind.String() != "unknown"; kind++ {
		kinds = append(kinds, kind.String())
	}
	var missing, extra int
	err := c.QueryRow(context.Background(), `select
		(select count(*) from operations o where outcome = 1 and kind not in (15, 17) and not exists (select from events e where e.tenant = o.tenant
			and e.key = o.key and e.type = ($1::text[])[o.kind] and e.created_at = o.first_time)),
		(select count(*) from events) - (select count(*) from operations where outcome = 1 and kind not in (15, 17))`, kinds).Scan(&missing, &extra)
	if err != nil || missing != 0 || extra != 0 {
		t.Errorf("%d applied operations without their event, %d events too many, %v", missing, extra, err)
	}
}

// The lesson's exercise with pools that know nothing of each other, as several
// processes have them.
func TestLessonSeparatePools(t *testing.T) {
	for _, callers := range []int{10, 100} {
		t.Run(fmt.Sprint(callers), func(t *testing.T) {
			address := migrated(t)
			pools := make([]store.Store, 5)
			for i := range pools {
				pools[i] = open(t, withParam(t, address, "pool_max_conns", "10"))
			}
			stores := make([]store.Store, callers)
			for i := range stores {
				stores[i] = pools[i%len(pools)]
			}
			storetest.SameKeyAtOnce(t, stores)
		})
	}
}

func withParam(t *testing.T, address, name, value string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

func TestOpenRefusesWhatItCannotServe(t *testing.T) {
	empty := dbtest.Postgres(t)
	s, err := Open(t.Context(), empty)
	if err == nil {
		s.Close()
		t.Fatal("a database without the schema was opened")
	}
	if !strings.Contains(err.Error(), "giro migrate up") {
		t.Fatalf("does not say what to do: %v", err)
	}
}

// A COMMIT that is answered before it is on the disk breaks every promise.
func TestOpenRefusesLooseCommits(t *testing.T) {
	address := withParam(t, migrated(t), "synchronous_commit", "off")
	s, err := Open(t.Context(), address)
	if err == nil {
		s.Close()
		t.Fatal("opened with synchronous_commit off")
	}
	if !strings.Contains(err.Error(), "synchronous_commit") {
		t.Fatal(err)
	}
}

func TestMigrateTwice(t *testing.T) {
	address := migrated(t)
	if again, err := Migrate(t.Context(), withParam(t, address, "pool_max_conns", "3")); err != nil || len(again) != 0 {
		t.Fatalf("a second migration applied %+v, %v", again, err)
	}
	if list, err := MigrationStatus(t.Context(), address); err != nil || len(list) != 2 {
		t.Fatalf("status %+v, %v", list, err)
	}
}
