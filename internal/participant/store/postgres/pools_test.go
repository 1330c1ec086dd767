package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"giro/internal/dbtest"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/pgpool"
)

// occupied takes all connections of a pool, until the test ends.
func occupied(t *testing.T, p *pgpool.Pool) {
	t.Helper()
	for range p.Config().MaxConns {
		conn, err := p.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Release)
	}
}

// briefly is long enough for what has a connection, and ends the wait for one.
func briefly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// Readers, however many, take no connection from operations.
func TestReadersDoNotKeepMoneyWaiting(t *testing.T) {
	s := open(t, migrated(t))
	fund(t, s)
	occupied(t, s.reads)
	occupied(t, s.reports)
	d := on(book.Debit, "t1", 40)
	reads := map[string]func() error{
		"lookup":     func() error { _, err := s.Lookup(briefly(t), d); return err },
		"operations": func() error { _, err := s.Operations(briefly(t), "", book.ID{}, 10); return err },
		"account": func() error {
			_, err := s.Account(briefly(t), book.AccountID{Tenant: "acme", Account: "alice"})
			return err
		},
		"accounts":      func() error { _, err := s.Accounts(briefly(t), "acme", "", 10); return err },
		"identity":      func() error { _, err := s.Identity(briefly(t)); return err },
		"sums":          func() error { _, err := s.Sums(briefly(t), ""); return err },
		"trial balance": func() error { _, _, err := s.TrialBalance(briefly(t), "acme", time.Time{}); return err },
	}
	for name, read := range reads {
		if err := read(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s used a connection of Apply's: %v", name, err)
		}
	}
	answers, err := s.Apply(briefly(t), []book.Operation{d}, book.DefaultLimits)
	if err != nil || answers[0].Outcome != book.Applied {
		t.Errorf("beside them: %+v, %v", answers, err)
	}
}

func TestSplit(t *testing.T) {
	for conns, want := range map[int][2]int{1: {3, 2}, 4: {3, 2}, 5: {3, 2}, 8: {6, 2}, 16: {12, 4}, 100: {75, 25}} {
		if apply, reads := split(conns); apply != want[0] || reads != want[1] {
			t.Errorf("%d: %d for operations, %d for reads", conns, apply, reads)
		}
	}
}

// A read whose caller's time is up costs no connection.
func TestShortDeadlinesKeepConnections(t *testing.T) {
	s := open(t, migrated(t))
	o := on(book.Debit, "t1", 40)
	if _, err := s.Lookup(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	before := s.reads.Stat().NewConnsCount()
	for i := range 300 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+i)*time.Microsecond)
		_, _ = s.Lookup(ctx, o)
		_, _ = s.Operations(ctx, "", book.ID{}, 10)
		cancel()
	}
	if opened := s.reads.Stat().NewConnsCount() - before; opened > 1 { // the pool may grow to two
		t.Errorf("%d new connections", opened)
	}
}

// A COMMIT waits for a standby that is away. It is not answered, by this call, by
// the next, or by a read, until the standby has it.
func TestOnlyWhatAStandbyHasIsAnswered(t *testing.T) {
	server := dbtest.NewServer(t)
	address := server.URL(t)
	if _, err := Migrate(t.Context(), address); err != nil {
		t.Fatal(err)
	}
	s := open(t, address)
	fund(t, s)
	server.LoseStandby()
	s.hot.AnswerMax = 300 * time.Millisecond
	d := on(book.Debit, "t1", 40)
	for range 2 {
		answers, err := s.Apply(t.Context(), []book.Operation{d}, book.DefaultLimits)
		if !errors.Is(err, store.ErrTransient) {
			t.Fatalf("answered %+v, %v", answers, err)
		}
		if found, err := s.Lookup(t.Context(), d); err != nil || found.Outcome != book.NotFound {
			t.Fatalf("a read answered %+v, %v", found, err)
		}
	}
	if s.hot.Stat().NewConnsCount() > 2 {
		t.Errorf("%d connections: those that wait must not be replaced", s.hot.Stat().NewConnsCount())
	}
	s.hot.AnswerMax = 10 * time.Second
	server.ForgetStandby()
	answers, err := newEngine(t, s, 1).Apply(t.Context(), []book.Operation{d})
	if err != nil || answers[0].Outcome != book.Applied || !answers[0].Replayed {
		t.Fatalf("afterwards: %+v, %v", answers, err)
	}
	wantBalance(t, s, 60)
}

// Databases that would lose what was answered, and those that lag.
func TestOpenRefusesWhatWouldNotSurvive(t *testing.T) {
	server := dbtest.NewServer(t)
	address := server.URL(t)
	if _, err := Migrate(t.Context(), address); err != nil {
		t.Fatal(err)
	}
	refused := func(address, want string) {
		t.Helper()
		s, err := Open(t.Context(), address)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want a refusal that says %q: %v", want, err)
		}
	}
	refused(withParam(t, withParam(t, address, "target_session_attrs", "read-only"), "default_transaction_read_only", "on"), "primary")
	refused(withParam(t, address, "target_session_attrs", "standby"), "standby")
	server.LoseStandby()
	refused(withParam(t, address, "synchronous_commit", "local"), "synchronous_commit is local")
	server.ForgetStandby()
	server.Set("fsync", "off")
	refused(address, "fsync is off")
}
