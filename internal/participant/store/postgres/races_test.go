package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/stepkey"
)

// on makes an operation of tenant acme on account alice, in USD.
func on(kind book.Kind, key names.TransferKey, amount money.Minor) book.Operation {
	o := book.Operation{Kind: kind, Tenant: "acme", TransferKey: key, Step: kind.String(), Account: "alice",
		Amount: amount, Currency: "USD", Counterparty: "ledger/merchant"}
	switch kind {
	case book.Open:
		o.Amount, o.Counterparty = 0, ""
	case book.Deposit:
		o.Counterparty = "cash"
	case book.Refund:
		o.DebitKey = stepkey.Derive(stepkey.V1, "acme", key, stepkey.Debit)
	}
	o.Key = stepkey.Derive(stepkey.V1, "acme", key, o.Step)
	return o
}

// fund opens alice with 100.
func fund(t *testing.T, s *Store) {
	t.Helper()
	operations := []book.Operation{on(book.Open, "fund", 0), on(book.Deposit, "fund", 100)}
	answers, err := s.Apply(t.Context(), operations, book.DefaultLimits)
	if err != nil || answers[0].Outcome != book.Applied || answers[1].BalanceAfter != 100 {
		t.Fatalf("%+v, %v", answers, err)
	}
}

func wantBalance(t *testing.T, s *Store, want money.Minor) {
	t.Helper()
	a, err := s.Account(t.Context(), book.AccountID{Tenant: "acme", Account: "alice"})
	if err != nil || a.Balance != want {
		t.Fatalf("balance %d, want %d, %v", a.Balance, want, err)
	}
	sums, err := s.Sums(t.Context(), "")
	if err != nil || len(sums.Faults) != 0 || sums.Currencies[0].Total != "0" {
		t.Fatalf("%+v, %v", sums, err)
	}
}

// hold does a batch's work by the store's own code, all but the COMMIT.
func hold(t *testing.T, c *pgx.Conn, operations ...book.Operation) {
	t.Helper()
	v, err := begin(t.Context(), c, operations)
	if err == nil {
		_, changes := book.Decide(v, operations, book.DefaultLimits)
		err = c.SendBatch(t.Context(), saving(changes)).Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// awaitBlocked returns when n sessions of the database wait for a lock.
func awaitBlocked(t *testing.T, c *pgx.Conn, n int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		var waiting int
		err := c.QueryRow(t.Context(), `select count(*) from pg_stat_activity
			where datname = current_database() and wait_event_type = 'Lock'`).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
		if waiting >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions wait for a lock, not %d", waiting, n)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func newEngine(t *testing.T, s store.Store, workers int) *participant.Engine {
	t.Helper()
	e := participant.New(s, participant.Config{Name: "wallet", Workers: workers, RepeatSecondsMax: 60})
	t.Cleanup(e.Close)
	return e
}

type result struct {
	answer book.Answer
	err    error
}

func applyLater(e *participant.Engine, o book.Operation) <-chan result {
	done := make(chan result, 1)
	go func() {
		answers, err := e.Apply(context.Background(), []book.Operation{o})
		if err != nil {
			done <- result{err: err}
			return
		}
		done <- result{answer: answers[0]}
	}()
	return done
}

// The first debit's transaction is held open: the second waits, reads again and
// replays, and so does a cancel of it, which waits at the key alone.
func TestC53SecondWaitsAndReplays(t *testing.T) {
	for _, end := range []string{"commit", "rollback"} {
		t.Run(end, func(t *testing.T) {
			address := migrated(t)
			s, holder, watcher := open(t, address), connect(t, address), connect(t, address)
			fund(t, s)
			// Two replicas: one would keep them apart before the database sees them.
			e, another := newEngine(t, s, 1), newEngine(t, s, 1)
			d := on(book.Debit, "t1", 40)
			stop := d
			stop.Kind = book.Cancel
			hold(t, holder, d)
			second := applyLater(e, d)
			awaitBlocked(t, watcher, 1)
			cancel := applyLater(another, stop)
			awaitBlocked(t, watcher, 2)
			if _, err := holder.Exec(t.Context(), end); err != nil {
				t.Fatal(err)
			}
			got, stopped := <-second, <-cancel
			if got.err != nil || stopped.err != nil {
				t.Fatalf("%v, %v", got.err, stopped.err)
			}
			if end == "commit" && (got.answer.Outcome != book.Applied || !got.answer.Replayed) {
				t.Fatalf("the second: %+v", got.answer)
			}
			if stopped.answer.Stored != got.answer.Stored {
				t.Fatalf("the cancel: %+v, the second: %+v", stopped.answer, got.answer)
			}
			if got.answer.Outcome == book.Applied {
				wantBalance(t, s, 60)
			} else {
				wantBalance(t, s, 100)
			}
		})
	}
}

// Any other failure of the insert aborts the step, and is no lost race.
func TestC53OtherFailureAborts(t *testing.T) {
	address := migrated(t)
	s, c := open(t, address), connect(t, address)
	fund(t, s)
	if _, err := c.Exec(t.Context(), "alter table operations add constraint no_debits check (kind <> 1)"); err != nil {
		t.Fatal(err)
	}
	d := on(book.Debit, "t1", 40)
	_, err := s.Apply(t.Context(), []book.Operation{d}, book.DefaultLimits)
	if err == nil || errors.Is(err, store.ErrTransient) || !strings.Contains(err.Error(), "no_debits") {
		t.Fatalf("%v", err)
	}
	if found, err := s.Lookup(t.Context(), d); err != nil || found.Outcome != book.NotFound {
		t.Fatalf("%+v, %v", found, err)
	}
	wantBalance(t, s, 100)
	if _, err := c.Exec(t.Context(), "alter table operations drop constraint no_debits"); err != nil {
		t.Fatal(err)
	}
	answers, err := s.Apply(t.Context(), []book.Operation{d}, book.DefaultLimits)
	if err != nil || answers[0].Outcome != book.Applied || answers[0].Replayed {
		t.Fatalf("%+v, %v", answers, err)
	}
	wantBalance(t, s, 60)
}

// A debit is held open while five refunds of it arrive: no deadlock surfaces,
// there is one refund, and one tombstone if the debit never was.
func TestC89DebitHeldOpen(t *testing.T) {
	for _, end := range []string{"commit", "rollback"} {
		t.Run(end, func(t *testing.T) {
			address := migrated(t)
			s, holder, watcher := open(t, withParam(t, address, "pool_max_conns", "8")), connect(t, address), connect(t, address)
			fund(t, s)
			hold(t, holder, on(book.Debit, "t1", 40))
			var refunds []<-chan result
			for range 5 {
				refunds = append(refunds, applyLater(newEngine(t, s, 1), on(book.Refund, "t1", 40)))
			}
			awaitBlocked(t, watcher, 5)
			if _, err := holder.Exec(t.Context(), end); err != nil {
				t.Fatal(err)
			}
			var first book.Answer
			fresh := 0
			for i, r := range refunds {
				got := <-r
				if got.err != nil {
					t.Fatal(got.err)
				}
				if i == 0 {
					first = got.answer
				}
				if !got.answer.Replayed {
					fresh++
				}
				if got.answer.Stored != first.Stored {
					t.Fatalf("%+v\n%+v", first, got.answer)
				}
			}
			moved, outcome := money.Minor(40), book.Applied
			if end == "rollback" {
				moved, outcome = 0, book.Cancelled
			}
			if fresh != 1 || first.Outcome != book.Applied || first.AmountMoved != moved || first.DebitOutcome != outcome {
				t.Fatalf("%d fresh, %+v", fresh, first)
			}
			wantBalance(t, s, 100)
		})
	}
}

// Another session holds one account's row for longer than a batch waits: debits of
// other accounts in the same request are done, and the held one is when it is free.
func TestHeldRowCostsNoOthers(t *testing.T) {
	address := migrated(t)
	s, holder := open(t, address), connect(t, address)
	fund(t, s)
	bob := func(kind book.Kind, key names.TransferKey, amount money.Minor) book.Operation {
		o := on(kind, key, amount)
		o.Account = "bob"
		return o
	}
	if _, err := s.Apply(t.Context(), []book.Operation{bob(book.Open, "bob", 0), bob(book.Deposit, "bob", 100)}, book.DefaultLimits); err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "begin; select from accounts where account = 'bob' for update"); err != nil {
		t.Fatal(err)
	}
	e := participant.New(s, participant.Config{Name: "wallet"})
	defer e.Close()
	request := []book.Operation{bob(book.Debit, "t1", 40), on(book.Debit, "t2", 40), bob(book.Debit, "t3", 40)}
	answers, err := e.Apply(t.Context(), request)
	if err != nil || answers[0].Outcome != book.Unknown || answers[1].Outcome != book.Applied || answers[2].Outcome != book.Unknown {
		t.Fatalf("%+v, %v", answers, err)
	}
	if _, err := holder.Exec(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	answers, err = e.Apply(t.Context(), request)
	if err != nil || answers[0].BalanceAfter != 60 || !answers[1].Replayed || answers[2].BalanceAfter != 20 {
		t.Fatalf("%+v, %v", answers, err)
	}
	wantBalance(t, s, 60)
}

// Of two batches at once the later one commits first: each commit moves the mark.
// A copy taken between the two is told from the store.
func TestMarkMovesWithEveryCommit(t *testing.T) {
	address := migrated(t)
	s, holder := open(t, address), connect(t, address)
	mark := func() int64 {
		i, err := s.Identity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return i.HighWaterMark
	}
	tombstone := func(key names.TransferKey) book.Operation {
		o := on(book.Credit, key, 1)
		o.Kind = book.Cancel
		return o
	}
	hold(t, holder, tombstone("t1"))
	if got := <-applyLater(newEngine(t, s, 1), tombstone("t2")); got.err != nil || mark() != 1 {
		t.Fatalf("%+v, mark %d", got, mark())
	}
	if _, err := holder.Exec(t.Context(), "commit"); err != nil {
		t.Fatal(err)
	}
	if mark() != 2 {
		t.Fatalf("mark %d after two commits", mark())
	}
}

// Every counter that a batch may pick is there: without its row nothing commits.
func TestMarkSlots(t *testing.T) {
	var slots, least, largest int
	err := connect(t, migrated(t)).QueryRow(t.Context(), "select count(*), min(slot), max(slot) from marks").Scan(&slots, &least, &largest)
	if err != nil || slots != markSlots || least != 0 || largest != markSlots-1 {
		t.Fatalf("%d slots from %d to %d, %v", slots, least, largest, err)
	}
}

// What the constraints refuse even where the book were wrong.
func TestC08Guards(t *testing.T) {
	address := migrated(t)
	s, c := open(t, address), connect(t, address)
	fund(t, s)
	insert := `insert into operations select 'acme', gen_random_uuid(), 't', 's', %s, 'alice', %s, 'USD', '', %s, %s,
		0, 0, 0, 0, null, 0, false, now(), '', '', 0, 0`
	debit := "'00000000-0000-8000-8000-000000000001'::uuid"
	refused := map[string]string{
		"debit of 0":           fmt.Sprintf(insert, "1", "0", "null", "1"),
		"credit of -1":         fmt.Sprintf(insert, "2", "-1", "null", "1"),
		"withdrawal of 0":      fmt.Sprintf(insert, "10", "0", "null", "1"),
		"journal line of -1":   fmt.Sprintf(insert, "15", "-1", "null", "1"),
		"refused deposit of 0": fmt.Sprintf(insert, "6", "0", "null", "2"),
		"second refund": fmt.Sprintf(insert, "3", "1", debit, "1") + "; " +
			fmt.Sprintf(insert, "3", "1", debit, "1"),
		"below the floor": "update accounts set balance = -1",
	}
	for what, statement := range refused {
		_, err := c.Exec(t.Context(), statement)
		if err == nil || !strings.Contains(err.Error(), "SQLSTATE 23") {
			t.Errorf("%s: %v", what, err)
		}
	}
	// A tombstone has no amount.
	if _, err := c.Exec(t.Context(), fmt.Sprintf(insert, "1", "0", "null", "3")); err != nil {
		t.Error(err)
	}
	wantBalance(t, s, 100)
}

// Books that are not sound are found out.
func TestFaultsAreFound(t *testing.T) {
	address := migrated(t)
	s, c := open(t, address), connect(t, address)
	fund(t, s)
	if _, err := c.Exec(t.Context(), "update accounts set balance = balance + 1"); err != nil {
		t.Fatal(err)
	}
	sums, err := s.Sums(t.Context(), "acme")
	if err != nil || len(sums.Faults) != 1 || sums.Faults[0].Balance != 101 || sums.Faults[0].Lines != "100" || sums.Currencies[0].Total != "1" {
		t.Fatalf("%+v, %v", sums, err)
	}
}
