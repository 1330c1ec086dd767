package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
)

// concurrencyTests are about many callers at once.
var concurrencyTests = []test{
	{"TestLessonSameKey10", func(b *books) { testSameKey(b, 10) }},
	{"TestLessonSameKey100", func(b *books) { testSameKey(b, 100) }},
	{"TestC21NoOverdraft", testNoOverdraft},
	{"TestC88OppositeTransfersAndRings", testOppositeTransfers},
	{"TestC89DebitAgainstRefunds", testDebitAgainstRefunds},
	{"OpenInParallel", testOpenInParallel},
}

func testSameKey(b *books, callers int) {
	stores := make([]store.Store, callers)
	for i := range stores {
		stores[i] = b.store
	}
	SameKeyAtOnce(b.t, stores)
}

// SameKeyAtOnce is the lesson's exercise: the same debit from as many goroutines
// as there are stores, all of which are the same empty books. There must be one
// debit, one stored result, and the same answer for all.
func SameKeyAtOnce(t *testing.T, stores []store.Store) {
	t.Helper()
	b := &books{t: t, store: stores[0]}
	b.fund(tenant, "alice", 100_00)
	d := debit("lesson", "alice", 40_00)
	answers, errs := make([]book.Answer, len(stores)), make([]error, len(stores))
	start := make(chan struct{})
	var wait sync.WaitGroup
	for i, s := range stores {
		wait.Go(func() {
			<-start
			var got []book.Answer
			if got, errs[i] = applyAgain(s, []book.Operation{d}); errs[i] == nil {
				answers[i] = got[0]
			}
		})
	}
	close(start)
	wait.Wait()
	fresh := 0
	for i, a := range answers {
		if errs[i] != nil {
			t.Fatalf("caller %d: %v", i, errs[i])
		}
		if !a.Replayed {
			fresh++
		}
		if a.Stored != answers[0].Stored || a.Outcome != book.Applied || a.BalanceAfter != 60_00 {
			t.Fatalf("caller %d was told %+v, the first %+v", i, a, answers[0])
		}
	}
	if fresh != 1 {
		t.Fatalf("%d callers did it", fresh)
	}
	b.balance(tenant, "alice", 60_00)
	if all := b.all(); len(all) != 3 || len(b.lines(d)) != 2 {
		t.Fatalf("%d operations, lines %+v", len(all), b.lines(d))
	}
	b.sound()
}

func testNoOverdraft(b *books) {
	b.fund(tenant, "alice", 5000)
	outcomes := make([]book.Outcome, 6)
	var wait sync.WaitGroup
	for i := range outcomes {
		d := debit(names.TransferKey(fmt.Sprint("t", i)), "alice", 1000)
		wait.Go(func() {
			if got, err := applyAgain(b.store, []book.Operation{d}); err == nil {
				outcomes[i] = got[0].Outcome
			}
		})
	}
	wait.Wait()
	count := map[book.Outcome]int{}
	for _, o := range outcomes {
		count[o]++
	}
	if count[book.Applied] != 5 || count[book.Refused] != 1 {
		b.t.Fatalf("%v", outcomes)
	}
	b.balance(tenant, "alice", 0)
}

// Transfers both ways and in rings of three, each one batch that touches two
// accounts, over two engines that know nothing of each other: no error reaches a
// caller.
func testOppositeTransfers(b *books) {
	for _, a := range []names.Account{"a", "b", "c"} {
		b.fund(tenant, a, 1_000_000)
	}
	pairs := [][2]names.Account{{"a", "b"}, {"b", "a"}, {"b", "c"}, {"c", "a"}}
	engines := []*participant.Engine{
		participant.New(b.store, participant.Config{Name: "ledger", Workers: 4, RepeatSecondsMax: 60}),
		participant.New(b.store, participant.Config{Name: "ledger", Workers: 4, RepeatSecondsMax: 60}),
	}
	var wait sync.WaitGroup
	for i := range 200 {
		pair := pairs[i%len(pairs)]
		key := names.TransferKey(fmt.Sprint("t", i))
		batch := []book.Operation{debit(key, pair[0], 10), credit(key, pair[1], 10)}
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			answers, err := engines[i/4%2].Apply(ctx, batch)
			if err != nil {
				b.t.Errorf("transfer %d: %v", i, err)
				return
			}
			for _, a := range answers {
				if a.Outcome != book.Applied || a.AmountMoved != 10 {
					b.t.Errorf("transfer %d: %+v", i, a)
				}
			}
		})
	}
	wait.Wait()
	for _, e := range engines {
		e.Close()
	}
	b.balance(tenant, "a", 1_000_000-500+500+500)
	b.balance(tenant, "b", 1_000_000+500-500-500)
	b.balance(tenant, "c", 1_000_000)
}

// A debit and five refunds of it start together: whichever comes first, the
// account is whole, and all refunds say the same.
func testDebitAgainstRefunds(b *books) {
	const balance = money.Minor(100)
	b.fund(tenant, "alice", balance)
	for round := range 10 {
		key := names.TransferKey(fmt.Sprint("t", round))
		batch := []book.Operation{debit(key, "alice", 40)}
		for range 5 {
			batch = append(batch, refund(key, "alice", 40))
		}
		answers, errs := make([]book.Answer, len(batch)), make([]error, len(batch))
		var wait sync.WaitGroup
		for i, o := range batch {
			wait.Go(func() {
				var got []book.Answer
				if got, errs[i] = applyAgain(b.store, []book.Operation{o}); errs[i] == nil {
					answers[i] = got[0]
				}
			})
		}
		wait.Wait()
		for i, a := range answers {
			if errs[i] != nil {
				b.t.Fatalf("round %d: %v", round, errs[i])
			}
			if i > 0 && (a.Stored != answers[1].Stored || a.DebitOutcome != answers[0].Outcome || a.AmountMoved != answers[0].AmountMoved) {
				b.t.Fatalf("round %d: debit %+v, refund %+v, first refund %+v", round, answers[0], a, answers[1])
			}
		}
		b.balance(tenant, "alice", balance)
		b.sound()
	}
}

func testOpenInParallel(b *books) {
	answers, errs := make([]book.Answer, 10), make([]error, 10)
	var wait sync.WaitGroup
	for i := range answers {
		open := on(tenant, book.Open, names.TransferKey(fmt.Sprint("open", i)), "alice", 0)
		wait.Go(func() {
			var got []book.Answer
			if got, errs[i] = applyAgain(b.store, []book.Operation{open}); errs[i] == nil {
				answers[i] = got[0]
			}
		})
	}
	wait.Wait()
	applied := 0
	for i, a := range answers {
		switch {
		case errs[i] != nil:
			b.t.Fatal(errs[i])
		case a.Outcome == book.Applied:
			applied++
		case a.Reason != book.AccountExists:
			b.t.Fatalf("%+v", a)
		}
	}
	if applied != 1 {
		b.t.Fatalf("opened %d times", applied)
	}
}
