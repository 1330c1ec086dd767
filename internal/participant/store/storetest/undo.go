package storetest

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/stepkey"
)

// undoTests are about cancels and refunds.
var undoTests = []test{
	{"Refund", testRefund},
	{"CancelNeverSeen", testCancelNeverSeen},
	{"CancelKnown", testCancelKnown},
	{"TestC03LateDebitAfterRefund", testLateDebit},
	{"TestC04RefundOfNothing", testRefundOfNothing},
	{"TestC31LateCreditAfterCancel", testLateCredit},
	{"RefundOfRefusedAndCancelled", testRefundOfRefused},
	{"TestC06RefundOnceInSeries", testRefundInSeries},
	{"TestC06RefundOnceInParallel", testRefundInParallel},
	{"RefundWithOtherContents", testRefundOtherContents},
	{"TestC60FrozenTakesRefund", testFrozenRefund},
	{"TestC60ClosedToSuspense", testClosedRefund},
	{"TestC60OverflowToSuspense", testOverflowRefund},
	{"RefundOfUnstorableContents", testUnstorable},
}

func testRefund(b *books) {
	b.fund(tenant, "alice", 100)
	b.one(debit("t1", "alice", 40))
	r := refund("t1", "alice", 40)
	answer := b.expect(r, want{outcome: book.Applied, moved: 40, balance: 100})
	if answer.DebitOutcome != book.Applied || answer.ToSuspense {
		b.t.Fatalf("%+v", answer)
	}
	b.balance(tenant, "alice", 100)
	if got := b.lines(r); len(got) != 2 || got[0].Amount != 40 || got[1].Account != "clearing:ledger" || got[1].Amount != -40 {
		b.t.Fatalf("lines %+v", got)
	}
	if again := b.expect(r, want{outcome: book.Applied, moved: 40, balance: 100, replayed: true}); again.Stored != answer.Stored {
		b.t.Fatalf("replay %+v", again)
	}
}

func testCancelNeverSeen(b *books) {
	b.fund(tenant, "alice", 100)
	d := debit("t1", "alice", 40)
	first := b.expect(cancel(d), want{outcome: book.Cancelled})
	again := b.expect(cancel(d), want{outcome: book.Cancelled, replayed: true})
	late := b.expect(d, want{outcome: book.Cancelled, replayed: true})
	if again.Stored != first.Stored || late.Stored != first.Stored {
		b.t.Fatalf("first %+v\nagain %+v\nlate %+v", first, again, late)
	}
	// A tombstone matches any contents of its transfer key and step, no others.
	d.Amount, d.Account = 99, "somebody"
	b.expect(d, want{outcome: book.Cancelled, replayed: true})
	d.TransferKey = "t2"
	if answer := b.one(d); answer.Outcome != book.KeyReused {
		b.t.Fatalf("another transfer's: %+v", answer)
	}
	b.balance(tenant, "alice", 100)
}

func testCancelKnown(b *books) {
	b.fund(tenant, "alice", 100)
	d, tooMuch := debit("t1", "alice", 40), debit("t2", "alice", 400)
	b.one(d)
	b.one(tooMuch)
	b.expect(cancel(d), want{outcome: book.Applied, moved: 40, balance: 60, replayed: true})
	b.expect(cancel(tooMuch), want{outcome: book.Refused, reason: book.InsufficientFunds, replayed: true})
	b.balance(tenant, "alice", 60)
	r := refund("t1", "alice", 40)
	r.Kind = book.Cancel
	if answer := b.one(r); answer.Outcome != book.Invalid {
		b.t.Fatalf("a refund cannot be cancelled: %+v", answer)
	}
}

func testLateDebit(b *books) {
	b.fund(tenant, "alice", 100)
	answer := b.expect(refund("t1", "alice", 40), want{outcome: book.Applied})
	if answer.DebitOutcome != book.Cancelled {
		b.t.Fatalf("%+v", answer)
	}
	b.expect(debit("t1", "alice", 40), want{outcome: book.Cancelled, replayed: true})
	b.balance(tenant, "alice", 100)
}

func testRefundOfNothing(b *books) {
	b.fund(tenant, "alice", 100)
	r := refund("t1", "alice", 40)
	first := b.expect(r, want{outcome: book.Applied})
	for range 2 {
		if again := b.expect(r, want{outcome: book.Applied, replayed: true}); again.Stored != first.Stored {
			b.t.Fatalf("%+v", again)
		}
	}
	b.expect(debit("t1", "alice", 40), want{outcome: book.Cancelled, replayed: true})
	b.expect(cancel(debit("t1", "alice", 40)), want{outcome: book.Cancelled, replayed: true})
	b.balance(tenant, "alice", 100)
	if got := b.lines(r); len(got) != 0 {
		b.t.Fatalf("lines %+v", got)
	}
}

func testLateCredit(b *books) {
	b.fund(tenant, "bob", 5)
	c := credit("t1", "bob", 40)
	b.expect(cancel(c), want{outcome: book.Cancelled})
	b.expect(c, want{outcome: book.Cancelled, replayed: true})
	b.balance(tenant, "bob", 5)
}

func testRefundOfRefused(b *books) {
	b.fund(tenant, "alice", 10)
	b.one(debit("t1", "alice", 40))
	if answer := b.expect(refund("t1", "alice", 40), want{outcome: book.Applied}); answer.DebitOutcome != book.Refused {
		b.t.Fatalf("%+v", answer)
	}
	b.one(cancel(debit("t2", "alice", 1)))
	if answer := b.expect(refund("t2", "alice", 1), want{outcome: book.Applied}); answer.DebitOutcome != book.Cancelled {
		b.t.Fatalf("%+v", answer)
	}
	b.balance(tenant, "alice", 10)
}

// otherRefund is a refund of the transfer's debit from alice under a key of its own.
func otherRefund(of, key names.TransferKey, amount money.Minor) book.Operation {
	r := refund(of, "alice", amount)
	r.Key = stepkey.Derive(stepkey.V1, tenant, key, "tool")
	return r
}

func testRefundInSeries(b *books) {
	b.fund(tenant, "alice", 100)
	b.one(debit("t1", "alice", 40))
	r := refund("t1", "alice", 40)
	first := b.expect(r, want{outcome: book.Applied, moved: 40, balance: 100})
	for range 4 {
		if again := b.one(r); !again.Replayed || again.Stored != first.Stored {
			b.t.Fatalf("%+v", again)
		}
	}
	second := otherRefund("t1", "admin", 40)
	refused := b.expect(second, want{outcome: book.Refused, reason: book.AlreadyRefunded})
	if refused.FirstRefundKey != r.Key || refused.FirstRefundMoved != 40 || refused.DebitOutcome != book.Applied {
		b.t.Fatalf("%+v", refused)
	}
	if again := b.one(second); !again.Replayed || again.Stored != refused.Stored {
		b.t.Fatalf("%+v", again)
	}
	b.balance(tenant, "alice", 100)
}

func testRefundInParallel(b *books) {
	b.fund(tenant, "alice", 100)
	b.one(debit("t1", "alice", 40))
	r := refund("t1", "alice", 40)
	answers := make([]book.Answer, 60)
	errs := make([]error, len(answers))
	var wait sync.WaitGroup
	for i := range answers {
		asked := r
		if i >= 50 {
			asked = otherRefund("t1", names.TransferKey(fmt.Sprint("admin", i)), 40)
		}
		wait.Go(func() {
			var got []book.Answer
			if got, errs[i] = applyAgain(b.store, []book.Operation{asked}); errs[i] == nil {
				answers[i] = got[0]
			}
		})
	}
	wait.Wait()
	applied := 0
	for i, a := range answers {
		switch {
		case errs[i] != nil:
			b.t.Fatalf("refund %d: %v", i, errs[i])
		case a.Outcome == book.Applied && !a.Replayed:
			applied++
		case a.Outcome == book.Applied:
		case a.Reason != book.AlreadyRefunded || a.FirstRefundKey.IsZero() || a.FirstRefundMoved != 40:
			b.t.Fatalf("refund %d: %+v", i, a)
		}
	}
	if applied != 1 {
		b.t.Fatalf("%d refunds applied", applied)
	}
	b.balance(tenant, "alice", 100)
}

func testRefundOtherContents(b *books) {
	b.fund(tenant, "alice", 100)
	b.one(debit("t1", "alice", 40))
	answer := b.one(refund("t1", "alice", 41))
	if answer.Outcome != book.KeyReused || strings.Join(answer.Differing, ",") != "amount" {
		b.t.Fatalf("%+v", answer)
	}
	b.balance(tenant, "alice", 60)
	b.expect(refund("t1", "alice", 40), want{outcome: book.Applied, moved: 40, balance: 100})
}

func testFrozenRefund(b *books) {
	b.fund(tenant, "alice", 100)
	b.one(debit("t1", "alice", 40))
	b.one(on(tenant, book.Freeze, "f", "alice", 0))
	if a := b.expect(refund("t1", "alice", 40), want{outcome: book.Applied, moved: 40, balance: 100}); a.ToSuspense {
		b.t.Fatalf("%+v", a)
	}
	b.balance(tenant, "alice", 100)
}

func testClosedRefund(b *books) {
	b.fund(tenant, "alice", 40)
	b.one(debit("t1", "alice", 40))
	b.expect(on(tenant, book.Close, "c", "alice", 0), want{outcome: book.Applied})
	r := refund("t1", "alice", 40)
	answer := b.expect(r, want{outcome: book.Applied, moved: 40})
	if again := b.one(r); !answer.ToSuspense || again.Stored != answer.Stored {
		b.t.Fatalf("%+v\n%+v", answer, again)
	}
	second := otherRefund("t1", "admin", 40)
	refused := b.expect(second, want{outcome: book.Refused, reason: book.AlreadyRefunded})
	if again := b.one(second); !refused.ToSuspense || again.Stored != refused.Stored {
		b.t.Fatalf("%+v\n%+v", refused, again)
	}
	b.balance(tenant, "alice", 0)
	if got := b.lines(r); len(got) != 2 || got[1].Account != book.Suspense || got[1].Amount != 40 {
		b.t.Fatalf("lines %+v", got)
	}
}

func testOverflowRefund(b *books) {
	b.fund(tenant, "rich", money.AmountMax)
	b.one(debit("t1", "rich", 40))
	b.one(credit("t2", "rich", money.AmountMax-1))
	b.expect(credit("t3", "rich", 40), want{outcome: book.Applied, moved: 40, balance: math.MaxInt64})
	answer := b.expect(refund("t1", "rich", 40), want{outcome: book.Applied, moved: 40, balance: math.MaxInt64})
	if !answer.ToSuspense {
		b.t.Fatalf("%+v", answer)
	}
	b.balance(tenant, "rich", math.MaxInt64)
}

// A refund's contents are never validated, so what no database can hold must
// still be undone, and replay.
func testUnstorable(b *books) {
	for i, account := range []string{"nul\x00", strings.Repeat("long", 10_000), "Ünïcödé and 'quotes'"} {
		r := refund(names.TransferKey(fmt.Sprint("t", i)), names.Account(account), -1)
		r.Currency, r.Counterparty = money.Currency(account), names.AccountRef(account)
		first := b.expect(r, want{outcome: book.Applied})
		if again := b.one(r); !again.Replayed || again.Stored != first.Stored {
			b.t.Fatalf("%+v", again)
		}
	}
}
