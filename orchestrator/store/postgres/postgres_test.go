package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"giro/internal/dbtest"
	"giro/internal/fingerprint"
	"giro/internal/names"
	"giro/orchestrator/saga"
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

// TestADamagedRowHoldsNobodyUp: not at a claim, nor in a list.
func TestADamagedRowHoldsNobodyUp(t *testing.T) {
	ctx := context.Background()
	s := open(t, migrated(t))
	execute := func(statement string) {
		if _, err := s.pool.Exec(ctx, statement); err != nil {
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
	execute("update sagas set fingerprint = '\\x00' where key = 'k3'")
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
	s := open(t, migrated(t))
	execute := func(statement string) {
		if _, err := s.pool.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	execute("insert into leases values ('long-gone', now() - interval '25 hours')")
	for _, owner := range []string{"me", "you"} {
		if _, err := s.Renew(ctx, owner, time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	var left int
	if err := s.pool.QueryRow(ctx, "select count(*) from leases").Scan(&left); err != nil || left != 2 {
		t.Errorf("%d leases, %v", left, err)
	}
}
