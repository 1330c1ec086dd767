package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"giro/internal/dbtest"
	"giro/internal/pgpool"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
)

// occupied takes all connections of a pool, until the test ends.
func occupied(t *testing.T, p *pgpool.Pool) {
	t.Helper()
	for range p.Config().MaxConns {
		conn, err := p.Acquire(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Release)
	}
}

// briefly is long enough for what has a connection, and ends the wait for one.
func briefly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// TestReadersHoldNothingUp: callers' reads, however many, take no connection from
// sagas; and no work at all takes one from the lease.
func TestReadersHoldNothingUp(t *testing.T) {
	s := open(t, migrated(t))
	in, err := insert(briefly(t), s, "K-1")
	if err != nil {
		t.Fatal(err)
	}
	occupied(t, s.views)
	reads := map[string]func() error{
		"lookup": func() error { _, err := s.Lookup(briefly(t), in.ID); return err },
		"list":   func() error { _, err := s.List(briefly(t), "", saga.ID{}, 10); return err },
		"events": func() error { _, err := s.FinalEvents(briefly(t), "", store.EventPlace{}, 10); return err },
	}
	for name, read := range reads {
		if err := read(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s used another's connection: %v", name, err)
		}
	}
	work := map[string]func() error{
		"insert":    func() error { _, err := s.Insert(briefly(t), owner, []store.New{fresh("K-2")}); return err },
		"again":     func() error { _, err := s.Insert(briefly(t), owner, []store.New{fresh("K-1")}); return err },
		"claim":     func() error { _, err := s.Claim(briefly(t), "replica-2", 1, time.Hour); return err },
		"asked":     func() error { _, err := s.CancelsAsked(briefly(t), owner, 10); return err },
		"cancel":    func() error { _, err := s.AskCancel(briefly(t), in.ID); return err },
		"lost save": func() error { _, err := s.Save(briefly(t), []store.Write{{Saga: in}}); return err },
	}
	for name, do := range work {
		if err := do(); err != nil {
			t.Errorf("%s beside the readers: %v", name, err)
		}
	}
	occupied(t, s.pool)
	for name, do := range work {
		if err := do(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s used another's connection: %v", name, err)
		}
	}
	if _, err := s.Renew(briefly(t), owner, time.Second); err != nil {
		t.Errorf("the lease is lost behind other work: %v", err)
	}
	if err := s.Release(briefly(t), owner); err != nil {
		t.Error(err)
	}
}

func TestSplit(t *testing.T) {
	for conns, want := range map[int][2]int{1: {5, 2}, 4: {5, 2}, 8: {6, 2}, 16: {12, 4}, 100: {75, 25}} {
		if work, views := split(conns); work != want[0] || views != want[1] {
			t.Errorf("%d: %d for sagas, %d for reads", conns, work, views)
		}
	}
}

// TestShortDeadlinesKeepConnections: a read whose caller's time is up costs no
// connection.
func TestShortDeadlinesKeepConnections(t *testing.T) {
	s := open(t, migrated(t))
	id := saga.ID{Tenant: "acme", Key: "K-1"}
	if _, err := s.Lookup(context.Background(), id); !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	before := s.views.Stat().NewConnsCount()
	for i := range 300 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(20+i)*time.Microsecond)
		_, _ = s.Lookup(ctx, id)
		_, _ = s.List(ctx, "", saga.ID{}, 10)
		cancel()
	}
	if opened := s.views.Stat().NewConnsCount() - before; opened > 1 { // the pool may grow to two
		t.Errorf("%d new connections", opened)
	}
}

// TestOnlyWhatAStandbyHasIsAnswered: a commit waits for a standby that is away. No
// write is answered, and no read sees it, until the standby has it.
func TestOnlyWhatAStandbyHasIsAnswered(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	server := dbtest.NewServer(t)
	s := open(t, migratedOn(t, server))
	in, err := insert(ctx, s, "K-1")
	if err != nil {
		t.Fatal(err)
	}
	server.LoseStandby()
	s.pool.AnswerMax, s.lease.AnswerMax = 300*time.Millisecond, 300*time.Millisecond
	final := in
	final.State = saga.Completed
	writes := map[string]func() error{
		"insert": func() error { _, err := s.Insert(ctx, owner, []store.New{fresh("K-2")}); return err },
		"save": func() error {
			_, err := s.Save(ctx, []store.Write{{Saga: final, FromVersion: in.Version, FromEpoch: in.Epoch, FromCreatedAt: in.CreatedAt}})
			return err
		},
		"renew": func() error { _, err := s.Renew(ctx, owner, time.Minute); return err },
	}
	for name, write := range writes {
		if err := write(); !errors.Is(err, pgpool.ErrUnanswered) {
			t.Errorf("%s was answered: %v", name, err)
		}
	}
	if found, err := s.Lookup(ctx, in.ID); err != nil || found.State != saga.Debiting {
		t.Errorf("a read answered %s, %v", found.State, err)
	}
	if _, err := s.Lookup(ctx, saga.ID{Tenant: "acme", Key: "K-2"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a read answered: %v", err)
	}
	server.ForgetStandby()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		found, err := s.Lookup(ctx, in.ID)
		if _, second := s.Lookup(ctx, saga.ID{Tenant: "acme", Key: "K-2"}); err == nil && second == nil && found.State == saga.Completed {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("afterwards: %s, %v", found.State, err)
		}
	}
}

// TestOpenRefusesWhatWouldNotSurvive: databases that would lose what was answered,
// and those that lag.
func TestOpenRefusesWhatWouldNotSurvive(t *testing.T) {
	server := dbtest.NewServer(t)
	url := migratedOn(t, server)
	refused := func(parameters, want string) {
		t.Helper()
		s, err := Open(context.Background(), url+separator(url)+parameters)
		if err == nil {
			_ = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want a refusal that says %q: %v", want, err)
		}
	}
	refused("target_session_attrs=read-only&default_transaction_read_only=on", "primary")
	refused("target_session_attrs=standby", "standby")
	refused("synchronous_commit=off", "synchronous_commit is off")
	server.LoseStandby()
	refused("synchronous_commit=local", "synchronous_commit is local")
	server.ForgetStandby()
	server.Set("fsync", "off")
	refused("application_name=test", "fsync is off")
}
