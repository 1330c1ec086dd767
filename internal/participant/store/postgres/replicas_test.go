package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/rpc"
)

// named puts an operation on another account.
func named(account names.Account, o book.Operation) book.Operation {
	o.Account = account
	return o
}

// fundOther opens another account with 100.
func fundOther(t *testing.T, s *Store, account names.Account) {
	t.Helper()
	key := names.TransferKey("fund-" + account)
	answers, err := s.Apply(t.Context(), []book.Operation{
		named(account, on(book.Open, key, 0)), named(account, on(book.Deposit, key, 100))}, book.DefaultLimits)
	if err != nil || answers[1].BalanceAfter != 100 {
		t.Fatalf("%+v, %v", answers, err)
	}
}

// One account's row is held, and more callers ask for it than there are workers or
// connections. One session waits in the database and all others outside; work on
// other accounts passes them by, and theirs is done as soon as the row is free.
func TestC90HotAccountHoldsUpNoOthers(t *testing.T) {
	const waiters = 60
	address := migrated(t)
	s, holder, watcher := open(t, address), connect(t, address), connect(t, address)
	fund(t, s)
	fundOther(t, s, "bob")
	if _, err := holder.Exec(t.Context(), "begin; select from accounts where account = 'alice' for update"); err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, s, 2)
	pending := []<-chan result{applyLater(e, on(book.Debit, "hot", 1))}
	awaitBlocked(t, watcher, 1)
	for i := range waiters {
		pending = append(pending, applyLater(e, on(book.Debit, names.TransferKey(fmt.Sprint("hot", i)), 1)))
	}
	for i := range 50 {
		answers, err := e.Apply(t.Context(), []book.Operation{named("bob", on(book.Debit, names.TransferKey(fmt.Sprint("bob", i)), 1))})
		if err != nil || answers[0].Outcome != book.Applied {
			t.Fatalf("debit %d of another account: %+v, %v", i, answers, err)
		}
	}
	var waiting int
	err := watcher.QueryRow(t.Context(), `select count(*) from pg_stat_activity
		where datname = current_database() and wait_event_type = 'Lock'`).Scan(&waiting)
	if err != nil || waiting > 1 {
		t.Errorf("%d sessions wait for the one account, %v", waiting, err)
	}
	for i, p := range pending {
		select {
		case got := <-p:
			t.Fatalf("debit %d of the held account: %+v", i, got)
		default:
		}
	}
	if _, err := holder.Exec(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	for i, p := range pending {
		if got := <-p; got.err != nil || got.answer.Outcome != book.Applied {
			t.Fatalf("debit %d of the held account: %+v", i, got)
		}
	}
	wantBalance(t, s, 100-1-waiters)
}

// firsts asks one engine for the same operation as many times.
func firsts(e *participant.Engine, o book.Operation, callers int) (done []<-chan result) {
	for range callers {
		done = append(done, applyLater(e, o))
	}
	return done
}

// Fifty ask for one key at once, over five replicas, while somebody else's
// transaction that has it is held. Each replica waits with one session. All are
// told the same, and it is done once, by whoever it may be.
func TestC95FiftyFirstRequestsOnOneKey(t *testing.T) {
	const replicas = 5
	for end, wantFresh := range map[string]int{"commit": 0, "rollback": 1} {
		t.Run(end, func(t *testing.T) {
			address := migrated(t)
			s, holder, watcher := open(t, withParam(t, address, "pool_max_conns", "12")), connect(t, address), connect(t, address)
			fund(t, s)
			d := on(book.Debit, "t1", 40)
			hold(t, holder, d)
			var pending []<-chan result
			for range replicas {
				pending = append(pending, firsts(newEngine(t, s, 2), d, 10)...)
			}
			awaitBlocked(t, watcher, replicas)
			if _, err := holder.Exec(t.Context(), end); err != nil {
				t.Fatal(err)
			}
			fresh := 0
			for i, p := range pending {
				got := <-p
				if got.err != nil || got.answer.Outcome != book.Applied || got.answer.BalanceAfter != 60 {
					t.Fatalf("caller %d: %+v", i, got)
				}
				if !got.answer.Replayed {
					fresh++
				}
			}
			if fresh != wantFresh {
				t.Errorf("%d callers were the first, not %d", fresh, wantFresh)
			}
			wantBalance(t, s, 60)
		})
	}
}

// The same for longer than the service repeats: all are told that they may ask
// again, and nothing is half done.
func TestC95HeldForTooLong(t *testing.T) {
	address := migrated(t)
	s, holder := open(t, address), connect(t, address)
	fund(t, s)
	for _, conn := range s.hot.AcquireAllIdle(t.Context()) {
		if _, err := conn.Exec(t.Context(), "set lock_timeout = '50ms'"); err != nil {
			t.Fatal(err)
		}
		conn.Release()
	}
	d := on(book.Debit, "t1", 40)
	hold(t, holder, d)
	e := participant.New(s, participant.Config{Name: "wallet", Workers: 1, RepeatSecondsMax: 1})
	t.Cleanup(e.Close)
	for i, p := range firsts(e, d, 50) {
		got := <-p
		err := rpc.Unanswered(t.Context(), got.err)
		if _, again := rpc.RetryAfter(err); !errors.Is(got.err, store.ErrTransient) || status.Code(err) != codes.Unavailable || !again {
			t.Fatalf("caller %d: %+v, told %v", i, got, err)
		}
	}
	if found, err := s.Lookup(t.Context(), d); err != nil || found.Outcome != book.NotFound {
		t.Fatalf("%+v, %v", found, err)
	}
	wantBalance(t, s, 100)
	if _, err := holder.Exec(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	if got := <-applyLater(e, d); got.err != nil || got.answer.Outcome != book.Applied || got.answer.Replayed {
		t.Fatalf("%+v", got)
	}
	wantBalance(t, s, 60)
}

// The database's clock stands days from the replicas', and is set on and back. What
// they say, and the day that a limit counts for, follow it alone; on an account no
// line is older than the one before it, and each counts for the day that it bears.
func TestC97OnlyTheDatabasesClockCounts(t *testing.T) {
	address := migrated(t)
	c := connect(t, address)
	_, err := c.Exec(t.Context(), `create schema other; create table other.clock as select timestamptz '2000-01-01 12:00Z' as instant;
		create function other.clock_timestamp() returns timestamptz language sql as 'select instant from other.clock'`)
	if err != nil {
		t.Fatal(err)
	}
	shown := withParam(t, address, "search_path", "public,other,pg_catalog")
	replicas := []*Store{open(t, shown), open(t, shown)}
	opened := on(book.Open, "fund", 0)
	opened.Details = book.Details{Terms: book.Terms{DayMax: 50}}.String()
	ask := func(replica int, o book.Operation) book.Answer {
		t.Helper()
		answers, err := replicas[replica].Apply(t.Context(), []book.Operation{o}, book.DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		return answers[0]
	}
	ask(0, opened)
	ask(1, on(book.Deposit, "fund", 1000))
	const morning, next = "2030-01-01T09:00:00Z", "2030-01-02T09:00:00Z"
	for i, step := range []struct {
		clock, time string
		kind        book.Kind
		of          string
		amount      money.Minor
		want        book.Reason // 0: Applied
	}{
		{morning, morning, book.Debit, "a", 40, 0},
		{morning, morning, book.Debit, "b", 20, book.LimitExceeded},
		{next, next, book.Debit, "c", 40, 0},
		// Set back: the account's day is still the later one.
		{morning, morning, book.Debit, "d", 20, book.LimitExceeded},
		{"1999-01-01T09:00:00Z", next, book.Debit, "e", 10, 0},
		{morning, next, book.Refund, "c", 40, 0},
		{morning, next, book.Debit, "f", 40, 0},
		{next, next, book.Debit, "g", 1, book.LimitExceeded},
	} {
		if _, err := c.Exec(t.Context(), "update other.clock set instant = $1", step.clock); err != nil {
			t.Fatal(err)
		}
		got := ask(i%2, on(step.kind, names.TransferKey(step.of), step.amount))
		if got.Reason != step.want || got.FirstTime.Format(time.RFC3339) != step.time {
			t.Errorf("step %d: %+v", i, got)
		}
	}
	wantBalance(t, replicas[0], 1000-40-40-10+40-40)
}

// Somebody reads from an old snapshot for as long as the test lasts, and has read
// rows that change under it. Operations turn over beside it, none fails or waits,
// and it sees what it saw at first.
func TestC104AnOldSnapshotStopsNothing(t *testing.T) {
	const rounds, each = 20, 50
	address := migrated(t)
	s, reader := open(t, address), connect(t, address)
	fund(t, s)
	fundOther(t, s, "bob")
	seen := func() (operations, balance, batches int64) {
		t.Helper()
		err := reader.QueryRow(t.Context(), `select (select count(*) from operations),
			(select sum(balance) from accounts)::bigint, (select sum(batches) from marks)::bigint`).Scan(&operations, &balance, &batches)
		if err != nil {
			t.Fatal(err)
		}
		return operations, balance, batches
	}
	if _, err := reader.Exec(t.Context(), "begin isolation level repeatable read"); err != nil {
		t.Fatal(err)
	}
	operations, balance, batches := seen()
	for i := range rounds {
		var batch []book.Operation
		for j := range each {
			key := names.TransferKey(fmt.Sprintf("t%d-%d", i, j))
			batch = append(batch, on(book.Debit, key, 1), named("bob", on(book.Credit, key, 1)), on(book.Refund, key, 1))
		}
		// The store tries once: whatever failed would be seen.
		answers, err := s.Apply(t.Context(), batch, book.DefaultLimits)
		if err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		for _, a := range answers {
			if a.Outcome != book.Applied {
				t.Fatalf("round %d: %+v", i, a)
			}
		}
	}
	wantBalance(t, s, 100)
	if o, b, m := seen(); o != operations || b != balance || m != batches {
		t.Errorf("the snapshot has moved: %d operations, balance %d, mark %d", o, b, m)
	}
	if _, err := reader.Exec(context.WithoutCancel(t.Context()), "commit"); err != nil {
		t.Fatal(err)
	}
	if o, b, _ := seen(); o != operations+3*rounds*each || b != balance+rounds*each {
		t.Errorf("afterwards: %d operations, balance %d", o, b)
	}
}
