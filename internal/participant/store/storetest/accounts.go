package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/stepkey"
)

// accountTests are about what is agreed for an account, and its lines.
var accountTests = []test{
	{"TermsAndHolder", testTermsAndHolder},
	{"LimitsOfADay", testLimitsOfADay},
	{"LimitsOfADayAtOnce", testLimitsAtOnce},
	{"Statement", testStatement},
	{"StatementWhileLinesAreAdded", testStatementStable},
	{"Suspense", testSuspense},
	{"Journal", testJournal},
	{"TrialBalanceAsOf", testTrialBalanceAsOf},
}

func detailed(o book.Operation, d book.Details) book.Operation {
	o.Details = d.String()
	return o
}

func (b *books) account(account names.Account) book.Account {
	b.t.Helper()
	a, err := b.store.Account(context.Background(), book.AccountID{Tenant: tenant, Account: account})
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

func testTermsAndHolder(b *books) {
	agreed := book.Terms{Overdraft: 50, DebitMax: 60, DayMax: 70, DayZone: "Asia/Tokyo"}
	open := detailed(on(tenant, book.Open, "o", "alice", 0), book.Details{Terms: agreed, Holder: map[string]string{"name": "Alice"}})
	b.expect(open, want{outcome: book.Applied})
	b.expect(open, want{outcome: book.Applied, replayed: true})
	if a := b.account("alice"); a.TermsOf() != agreed || a.HolderOf()["name"] != "Alice" {
		b.t.Fatalf("%+v", a)
	}
	b.expect(on(tenant, book.Debit, "d1", "alice", 50), want{outcome: book.Applied, moved: 50, balance: -50})
	b.expect(on(tenant, book.Debit, "d2", "alice", 1), want{outcome: book.Refused, reason: book.InsufficientFunds})
	less := detailed(on(tenant, book.SetTerms, "t1", "alice", 0), book.Details{Terms: book.Terms{Overdraft: 49}})
	b.expect(less, want{outcome: book.Refused, reason: book.BalanceBelowFloor})
	b.expect(on(tenant, book.Deposit, "p", "alice", 51), want{outcome: book.Applied, moved: 51, balance: 1})
	b.expect(less, want{outcome: book.Refused, reason: book.BalanceBelowFloor, replayed: true})
	b.one(detailed(on(tenant, book.SetTerms, "t2", "alice", 0), book.Details{}))
	b.one(detailed(on(tenant, book.SetHolder, "h", "alice", 0), book.Details{Holder: map[string]string{"name": "Bob", "id": "7"}}))
	b.one(detailed(on(tenant, book.Freeze, "f", "alice", 0), book.Details{Reason: "lost card"}))
	a := b.account("alice")
	if a.TermsOf() != (book.Terms{}) || a.HolderOf()["id"] != "7" || a.State != book.StateFrozen || a.StateReason != "lost card" || a.Balance != 1 {
		b.t.Fatalf("%+v", a)
	}
	b.one(detailed(on(tenant, book.Unfreeze, "u", "alice", 0), book.Details{Reason: "found"}))
	b.expect(on(tenant, book.Withdraw, "w", "alice", 1), want{outcome: book.Applied, moved: 1})
	b.one(on(tenant, book.Close, "c", "alice", 0))
	if a := b.account("alice"); a.State != book.StateClosed || a.StateReason != "found" || a.Seq != 3 {
		b.t.Fatalf("%+v", a)
	}
	for _, listed := range b.all() {
		if listed.ID() == open.ID() && listed.Details != open.Details {
			b.t.Fatalf("the details came back as %q", listed.Details)
		}
	}
}

func testLimitsOfADay(b *books) {
	b.fund(tenant, "alice", 1000)
	b.one(detailed(on(tenant, book.SetTerms, "t", "alice", 0), book.Details{Terms: book.Terms{DayMax: 100}}))
	b.expect(on(tenant, book.Debit, "1", "alice", 70), want{outcome: book.Applied, moved: 70, balance: 930})
	b.expect(on(tenant, book.Withdraw, "2", "alice", 31), want{outcome: book.Refused, reason: book.LimitExceeded})
	b.one(on(tenant, book.Refund, "1", "alice", 70))
	answers := b.apply(on(tenant, book.Debit, "3", "alice", 60), on(tenant, book.Debit, "4", "alice", 60), on(tenant, book.Debit, "5", "alice", 40))
	// At midnight between two of them they all go through; that is no fault.
	if a := b.account("alice"); a.Spent > 100 || a.SpentOn == 0 || answers[0].Outcome != book.Applied {
		b.t.Fatalf("%+v, %+v", a, answers)
	}
}

func testLimitsAtOnce(b *books) {
	b.fund(tenant, "alice", 1000)
	b.one(detailed(on(tenant, book.SetTerms, "t", "alice", 0), book.Details{Terms: book.Terms{DayMax: 100}}))
	day := b.account("alice")
	var callers sync.WaitGroup
	var mu sync.Mutex
	applied := 0
	for i := range 20 {
		callers.Go(func() {
			answers, err := applyAgain(b.store, []book.Operation{on(tenant, book.Debit, names.TransferKey(fmt.Sprint(i)), "alice", 30)})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				b.t.Error(err)
			} else if answers[0].Outcome == book.Applied {
				applied++
			}
		})
	}
	callers.Wait()
	if after := b.account("alice"); applied != 3 && after.UpdatedAt.YearDay() == day.UpdatedAt.YearDay() {
		b.t.Errorf("%d debits of 30 went through, of 100 a day", applied)
	}
}

// span reads a span and all of its lines, page by page.
func (b *books) span(account names.Account, from, to time.Time, size int) (store.Span, []book.Stored) {
	b.t.Helper()
	id := book.AccountID{Tenant: tenant, Account: account}
	span, err := b.store.Span(context.Background(), id, from, to)
	if err != nil {
		b.t.Fatal(err)
	}
	return span, b.linesOf(id, span, size)
}

func (b *books) linesOf(id book.AccountID, span store.Span, size int) []book.Stored {
	b.t.Helper()
	var all []book.Stored
	for after := span.Before; ; {
		page, err := b.store.Lines(context.Background(), id, after, span.Last, size)
		if err != nil {
			b.t.Fatal(err)
		}
		if len(page) > size {
			b.t.Fatalf("a page of %d holds %d", size, len(page))
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		after = store.Place{Time: page[len(page)-1].FirstTime, Seq: page[len(page)-1].Seq}
	}
}

// wantLines checks that the lines lead from the opening to the closing balance.
func (b *books) wantLines(span store.Span, lines []book.Stored, count int) {
	b.t.Helper()
	balance, number := span.Opening, span.Before.Seq
	for _, l := range lines {
		balance, number = balance+l.Delta, number+1
		if l.BalanceAfter != balance || l.Seq != number || l.Booked != span.Account.AccountID.Account {
			b.t.Fatalf("line %d: balance %d, want %d: %+v", number, l.BalanceAfter, balance, l)
		}
	}
	if balance != span.Closing || len(lines) != count || number != span.Last {
		b.t.Fatalf("%d lines, want %d; they end at %d, and the closing balance is %d", len(lines), count, balance, span.Closing)
	}
}

func testStatement(b *books) {
	b.fund(tenant, "alice", 1000)
	b.fund(other, "alice", 77)
	var times []time.Time
	for i := range 9 {
		key := names.TransferKey(fmt.Sprint("t", i))
		times = append(times, b.one(on(tenant, book.Debit, key, "alice", money.Minor(i+1))).FirstTime)
		if i%3 == 0 {
			b.one(on(tenant, book.Refund, key, "alice", money.Minor(i+1)))
		}
		b.one(on(tenant, book.Debit, key+"x", "alice", 5000)) // refused: no line
	}
	none := time.Time{}
	span, lines := b.span("alice", none, none, 4)
	b.wantLines(span, lines, 13)
	if span.Opening != 0 || span.Closing != b.account("alice").Balance {
		b.t.Fatalf("%+v", span)
	}
	for i := 1; i < len(times); i++ {
		if !times[i].After(times[i-1]) {
			return // the clock is too coarse to tell the halves
		}
	}
	first, firstLines := b.span("alice", none, times[4], 3)
	second, secondLines := b.span("alice", times[4], none, 3)
	b.wantLines(first, firstLines, len(firstLines))
	b.wantLines(second, secondLines, len(secondLines))
	if first.Closing != second.Opening || second.Closing != span.Closing || len(firstLines)+len(secondLines) != 13 ||
		!secondLines[0].FirstTime.Equal(times[4]) {
		b.t.Fatalf("the halves do not meet: %+v, %+v", first, second)
	}
	before, nothing := b.span("alice", none, times[0].Add(-time.Hour), 3)
	b.wantLines(before, nothing, 0)
	after, nothing := b.span("alice", times[8].Add(time.Hour), none, 3)
	b.wantLines(after, nothing, 0)
	if after.Opening != span.Closing {
		b.t.Fatalf("%+v", after)
	}
	for _, id := range []book.AccountID{{Tenant: tenant, Account: "nobody"}, {Tenant: "nobody", Account: "alice"}, {}} {
		if _, err := b.store.Span(context.Background(), id, none, none); !errors.Is(err, store.ErrNotFound) {
			b.t.Fatalf("%v: %v", id, err)
		}
	}
}

// testStatementStable: while lines are added, every span that ends before now is
// the same each time that it is read, and each is sound.
func testStatementStable(b *books) {
	b.fund(tenant, "alice", 100_000)
	// So many lines may be added while one round reads, and no more: writers that
	// outrun a slow reader would give it ever more to read.
	const rounds, eachRound = 20, 50
	allowed := make(chan struct{}, rounds*eachRound)
	var adding sync.WaitGroup
	for w := range 4 {
		adding.Go(func() {
			i := 0
			for range allowed {
				key := names.TransferKey(fmt.Sprintf("t-%d-%d", w, i))
				if _, err := applyAgain(b.store, []book.Operation{on(tenant, book.Debit, key, "alice", 1)}); err != nil {
					b.t.Error(err)
					return
				}
				i++
			}
		})
	}
	id := book.AccountID{Tenant: tenant, Account: "alice"}
	for range rounds {
		for range eachRound {
			allowed <- struct{}{}
		}
		now := b.account("alice").UpdatedAt.Add(time.Microsecond)
		first, lines := b.span("alice", time.Time{}, now, 50)
		b.wantLines(first, lines, len(lines))
		again, err := b.store.Span(context.Background(), id, time.Time{}, now)
		if err != nil {
			b.t.Fatal(err)
		}
		if later := b.linesOf(id, again, 1000); again.Closing != first.Closing || again.Last != first.Last || !slices.Equal(later, lines) {
			b.t.Fatalf("up to %s: %d lines to %d, then %d lines to %d", now, len(lines), first.Closing, len(later), again.Closing)
		}
	}
	close(allowed)
	adding.Wait()
}

// testSuspense: what is in suspense is listed, and leaves it once, for an account of
// the same tenant and currency.
func testSuspense(b *books) {
	ctx := context.Background()
	var refunds []book.Operation
	for i, account := range []names.Account{"a", "b", "c"} {
		key := names.TransferKey(account)
		b.fund(tenant, account, 10)
		b.one(on(tenant, book.Debit, key, account, 10))
		b.one(on(tenant, book.Close, "close-"+key, account, 0))
		refund := on(tenant, book.Refund, key, account, 10)
		if i == 2 {
			refund = on(tenant, book.Refund, "none", account, 10) // of nothing: not in suspense
		}
		b.one(refund)
		refunds = append(refunds, refund)
	}
	b.fund(tenant, "alice", 5)
	b.fund(other, "alice", 5)
	list := func() []store.Suspended {
		b.t.Helper()
		var all []store.Suspended
		var after stepkey.StepKey
		for {
			page, err := b.store.Suspended(ctx, tenant, after, 1)
			if err != nil {
				b.t.Fatal(err)
			}
			if len(page) == 0 {
				return all
			}
			all = append(all, page...)
			after = page[len(page)-1].Key
		}
	}
	if got := list(); len(got) != 2 || got[0].ReleasedTo != "" || got[1].ReleasedTo != "" || got[0].AmountMoved != 10 {
		b.t.Fatalf("%+v", got)
	}
	release := func(of names.Tenant, key names.TransferKey, account names.Account, refund book.Operation) book.Operation {
		o := detailed(on(of, book.Release, key, account, 0), book.Details{Reason: "found her", Actor: "eve"})
		o.DebitKey = refund.Key
		return o
	}
	first := release(tenant, "r1", "alice", refunds[0])
	b.expect(release(tenant, "r0", "b", refunds[0]), want{outcome: book.Refused, reason: book.AccountClosed})
	b.expect(release(other, "r1", "alice", refunds[0]), want{outcome: book.Refused, reason: book.NotSuspended})
	b.expect(release(tenant, "r2", "alice", refunds[2]), want{outcome: book.Refused, reason: book.NotSuspended})
	b.expect(first, want{outcome: book.Applied, moved: 10, balance: 15})
	again := first
	again.Details = book.Details{Reason: "found her", Actor: "mallory"}.String()
	b.expect(again, want{outcome: book.Applied, moved: 10, balance: 15, replayed: true})
	second := b.expect(release(tenant, "r3", "alice", refunds[0]), want{outcome: book.Refused, reason: book.AlreadyReleased})
	if second.FirstRefundKey != first.Key || second.FirstRefundMoved != 10 {
		b.t.Fatalf("%+v", second)
	}
	answers := b.apply(release(tenant, "r4", "alice", refunds[1]), release(tenant, "r5", "alice", refunds[1]))
	b.compare(answers[0], want{outcome: book.Applied, moved: 10, balance: 25})
	b.compare(answers[1], want{outcome: book.Refused, reason: book.AlreadyReleased})
	if got := list(); len(got) != 2 || got[0].ReleasedTo != "alice" || got[1].ReleasedTo != "alice" {
		b.t.Fatalf("%+v", got)
	}
	if got, err := b.store.Suspended(ctx, other, stepkey.StepKey{}, 10); err != nil || len(got) != 0 {
		b.t.Fatalf("another tenant's: %+v, %v", got, err)
	}
}

// entry posts lines given as account, delta, ...
func entry(kind book.Kind, key names.TransferKey, lines ...book.EntryLine) book.Operation {
	o := detailed(on(tenant, kind, key, "", 0), book.Details{Lines: lines})
	o.Currency = usd
	return o
}

// chart opens accounts of each class.
func (b *books) chart() {
	b.t.Helper()
	for account, class := range map[names.Account]book.Class{"cash": book.Asset, "owed": book.Liability, "fees": book.Income} {
		b.one(detailed(on(tenant, book.Open, names.TransferKey("open-"+account), account, 0), book.Details{Class: class}))
	}
}

func testJournal(b *books) {
	b.chart()
	first := entry(book.Journal, "1", book.EntryLine{Account: "cash", Delta: -100}, book.EntryLine{Account: "owed", Delta: 90},
		book.EntryLine{Account: "fees", Delta: 10})
	b.expect(first, want{outcome: book.Applied, moved: 100})
	b.expect(first, want{outcome: book.Applied, moved: 100, replayed: true})
	b.balance(tenant, "cash", -100)
	undo := entry(book.Reverse, "2", book.EntryLine{Account: "cash", Delta: 100}, book.EntryLine{Account: "owed", Delta: -90},
		book.EntryLine{Account: "fees", Delta: -10})
	undo.DebitKey = first.Key
	second := undo
	second.TransferKey = "3"
	second.Key = stepkey.Derive(stepkey.V1, tenant, "3", second.Step)
	answers := b.apply(undo, second, entry(book.Journal, "4", book.EntryLine{Account: "owed", Delta: -1}, book.EntryLine{Account: "cash", Delta: 1}))
	b.compare(answers[0], want{outcome: book.Applied, moved: 100})
	b.compare(answers[1], want{outcome: book.Refused, reason: book.AlreadyReversed})
	b.compare(answers[2], want{outcome: book.Refused, reason: book.InsufficientFunds})
	b.expect(second, want{outcome: book.Refused, reason: book.AlreadyReversed, replayed: true})
	for _, account := range []names.Account{"cash", "owed", "fees"} {
		b.balance(tenant, account, 0)
		span, lines := b.span(account, time.Time{}, time.Time{}, 10)
		b.wantLines(span, lines, 2)
	}
	if a := b.account("cash"); a.Class != book.Asset || a.Floor >= 0 {
		b.t.Fatalf("%+v", a)
	}
}

func testTrialBalanceAsOf(b *books) {
	b.chart()
	at := func(asOf time.Time) map[names.Account]string {
		b.t.Helper()
		balances, _, err := b.store.TrialBalance(context.Background(), tenant, asOf)
		if err != nil {
			b.t.Fatal(err)
		}
		got := map[names.Account]string{}
		for _, one := range balances {
			got[one.Account] = one.Balance
		}
		return got
	}
	var times []time.Time
	for i := range 3 {
		o := entry(book.Journal, names.TransferKey(fmt.Sprint(i)), book.EntryLine{Account: "cash", Delta: -10}, book.EntryLine{Account: "owed", Delta: 10})
		times = append(times, b.one(o).FirstTime)
		b.one(on(tenant, book.Credit, names.TransferKey(fmt.Sprint("t", i)), "owed", 1))
	}
	b.one(detailed(on(tenant, book.Open, "late", "late", 0), book.Details{Class: book.Equity}))
	if !times[1].After(times[0]) || !times[2].After(times[1]) {
		return // the clock is too coarse
	}
	now := at(time.Time{})
	if now["cash"] != "-30" || now["owed"] != "33" || now["clearing:ledger"] != "-3" || now["late"] != "0" {
		b.t.Fatalf("now: %v", now)
	}
	then := at(times[1])
	if _, opened := then["late"]; then["cash"] != "-20" || then["owed"] != "21" || then["clearing:ledger"] != "-1" || opened {
		b.t.Fatalf("as of the second entry: %v", then)
	}
	if before := at(times[0].Add(-time.Hour)); len(before) != 0 {
		b.t.Fatalf("before all: %v", before)
	}
}
