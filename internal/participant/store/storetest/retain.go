package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/retention"
	"giro/internal/stepkey"
)

// retainTests are about keys that are forgotten.
var retainTests = []test{
	{"C45ExpiredKeys", testExpired},
	{"Reports", testReports},
	{"ArchivingIsBlocked", testBlocked},
	{"Archive", testArchive},
	{"ArchiveKeepsWhatIsNeeded", testArchiveNeeded},
	{"ArchiveWhoseCopyFails", testArchiveFails},
	{"ArchiveOfAllTenants", testArchiveTenants},
	{"StatementOverArchivedLines", testArchivedStatement},
	{"ArchiveWhileWorking", testArchiveWhileWorking},
}

const (
	day     = 24 * time.Hour
	horizon = 60 * day
)

// timed is a transfer key of that age: another one with each millisecond.
func timed(label string, age time.Duration) names.TransferKey {
	return timedAt(label, time.Now().Add(-age))
}

// timedAt is the transfer key of that instant.
func timedAt(label string, instant time.Time) names.TransferKey {
	at, sum := stepkey.From(instant), sha256.Sum256([]byte(label))
	k := stepkey.StepKey(sum[:16])
	copy(k[:6], at[:6])
	k[6], k[8] = k[6]&0x0f|0x70, k[8]&0x3f|0x80
	return names.TransferKey(k.String())
}

func (b *books) keepFor(horizon time.Duration) {
	b.t.Helper()
	if err := b.store.KeepFor(context.Background(), horizon); err != nil {
		b.t.Fatal(err)
	}
}

func (b *books) report(orchestrator string, oldest time.Time) {
	b.t.Helper()
	kept, err := b.store.Report(context.Background(), retention.Report{Orchestrator: orchestrator, Oldest: oldest})
	if err != nil {
		b.t.Fatal(err)
	}
	held, _, err := b.store.Retention(context.Background())
	if err != nil || held != kept {
		b.t.Fatalf("a report left %+v, and then there is %+v, %v", kept, held, err)
	}
}

// archive takes everything off the books that may be, a few at a time, and gives what
// was handed out. The books are sound after every batch.
func (b *books) archive(size int) map[book.ID]book.Stored {
	b.t.Helper()
	ctx := context.Background()
	if _, err := b.store.CommitHorizon(ctx); err != nil {
		b.t.Fatal(err)
	}
	all := map[book.ID]book.Stored{}
	for after := (book.ID{}); ; {
		handed := 0
		batch, err := b.store.Archive(ctx, after, size, func(operations []book.Stored) error {
			for _, o := range operations {
				if _, twice := all[o.ID()]; twice {
					b.t.Errorf("%s %s was archived twice", o.Kind, o.Key)
				}
				all[o.ID()] = o
			}
			handed = len(operations)
			return nil
		})
		if err != nil || batch.Taken != handed || handed > size {
			b.t.Fatalf("%+v with %d handed out: %v", batch, handed, err)
		}
		b.sound()
		if batch.Next == (book.ID{}) {
			return all
		}
		if compare(batch.Next, after) <= 0 {
			b.t.Fatalf("after %v comes %v", after, batch.Next)
		}
		after = batch.Next
	}
}

func testExpired(b *books) {
	b.fund(tenant, "alice", 100)
	known := debit(timed("known", 90*day), "alice", 10)
	first := b.expect(known, want{outcome: book.Applied, moved: 10, balance: 90})
	b.keepFor(horizon)
	before := len(b.all())
	for name, age := range map[string]time.Duration{"older than the horizon": horizon + time.Minute, "far ahead": -11 * time.Minute, "from the beginning": 50 * 365 * day} {
		d := debit(timed(name, age), "alice", 40)
		malformed, strange := d, d
		malformed.Amount, malformed.Currency = 0, "usd"
		strange.Step = "settle"
		for _, o := range []book.Operation{d, credit(d.TransferKey, "alice", 40), refund(d.TransferKey, "alice", 40), cancel(d), cancel(credit(d.TransferKey, "alice", 40)),
			on(tenant, book.Open, d.TransferKey, "bob", 0), on(tenant, book.Deposit, d.TransferKey, "alice", 5), malformed, strange} {
			b.expect(o, want{outcome: book.Expired})
			b.looks(o, book.Expired)
		}
	}
	if after := len(b.all()); after != before {
		b.t.Errorf("%d operations were stored under expired keys", after-before)
	}
	b.balance(tenant, "alice", 90)
	// What is known is answered, however old; what is young enough, and what has no
	// time of its own, is taken.
	if again := b.expect(known, want{outcome: book.Applied, moved: 10, balance: 90, replayed: true}); again.Stored != first.Stored {
		b.t.Errorf("%+v, then %+v", first, again)
	}
	b.looks(known, book.Applied)
	changed := known
	changed.Amount++
	if answer := b.one(changed); answer.Outcome != book.KeyReused {
		b.t.Errorf("a known key with other contents: %+v", answer)
	}
	young := debit(timed("young", horizon-time.Minute), "alice", 10)
	b.looks(young, book.NotFound)
	b.expect(young, want{outcome: book.Applied, moved: 10, balance: 80})
	b.expect(debit(timed("ahead", -9*time.Minute), "alice", 10), want{outcome: book.Applied, moved: 10, balance: 70})
	b.expect(debit("untimed", "alice", 10), want{outcome: book.Applied, moved: 10, balance: 60})
	// Nothing was archived: without a horizon, old keys are taken again.
	b.keepFor(0)
	b.expect(debit(timed("older than the horizon", horizon+time.Minute), "alice", 10), want{outcome: book.Applied, moved: 10, balance: 50})
}

// looks asks GetOperation.
func (b *books) looks(o book.Operation, outcome book.Outcome) {
	b.t.Helper()
	found, err := b.store.Lookup(context.Background(), o)
	if err != nil || found.Outcome != outcome {
		b.t.Fatalf("lookup %s %s: %d, want %d, %v", o.Kind, o.TransferKey, found.Outcome, outcome, err)
	}
}

func testReports(b *books) {
	ctx := context.Background()
	held := func(want time.Time) {
		b.t.Helper()
		kept, now, err := b.store.Retention(ctx)
		if err != nil || !kept.UnfinishedSince.Equal(want) || now.IsZero() {
			b.t.Fatalf("%+v at %s, want unfinished since %s, %v", kept, now, want, err)
		}
	}
	old, older := time.Now().Add(-70*day).UTC().Truncate(time.Millisecond), time.Now().Add(-80*day).UTC().Truncate(time.Millisecond)
	held(time.Time{})
	b.report("one", old)
	held(old)
	b.report("two", older)
	held(older)
	b.report("two", old.Add(day))
	held(old)
	b.report("three", time.Time{}) // it cannot tell
	held(time.Time{})
	list, err := b.store.Reports(ctx)
	if err != nil || len(list) != 3 || list[0].Orchestrator != "one" || !list[0].Oldest.Equal(old) || !list[1].Oldest.IsZero() ||
		list[0].ReportedAt.IsZero() || list[2].Orchestrator != "two" {
		b.t.Fatalf("%+v, %v", list, err)
	}
	for range 2 {
		if there, err := b.store.ForgetReport(ctx, "three"); err != nil || there != (len(list) == 3) {
			b.t.Fatalf("forgotten: %v, %v", there, err)
		}
		list = nil
	}
	held(old)
	// What is still asked for is not EXPIRED, however old.
	b.fund(tenant, "alice", 100)
	b.keepFor(horizon)
	b.report("one", older)
	b.expect(debit(timed("asked for", 79*day), "alice", 1), want{outcome: book.Applied, moved: 1, balance: 99})
	b.expect(debit(timed("not asked for", 81*day), "alice", 1), want{outcome: book.Expired})
	// Many at once leave what the last of them says.
	var reporting sync.WaitGroup
	for i := range 8 {
		reporting.Go(func() {
			r := retention.Report{Orchestrator: fmt.Sprint("many-", i), Oldest: older.Add(-time.Duration(i) * day)}
			for {
				if _, err := b.store.Report(ctx, r); err == nil || !errors.Is(err, store.ErrTransient) {
					return
				}
			}
		})
	}
	reporting.Wait()
	held(older.Add(-7 * day))
	// A caller that makes up names fills nothing.
	for i := range 2 * retention.ReportsMax {
		if _, err := b.store.Report(ctx, retention.Report{Orchestrator: fmt.Sprint("made-up-", i), Oldest: older.Add(-30 * day)}); err != nil && !errors.Is(err, retention.ErrReports) {
			b.t.Fatal(err)
		}
	}
	if list, err := b.store.Reports(ctx); err != nil || len(list) != retention.ReportsMax {
		b.t.Fatalf("%d reports, %v", len(list), err)
	}
	b.report("one", older.Add(-40*day)) // who is known still may
	held(older.Add(-40 * day))
}

func testBlocked(b *books) {
	ctx := context.Background()
	commit := func(reason error) time.Time {
		b.t.Helper()
		before, err := b.store.CommitHorizon(ctx)
		if !errors.Is(err, reason) {
			b.t.Fatalf("%v, want %v", err, reason)
		}
		return before
	}
	commit(retention.ErrNoHorizon)
	b.keepFor(horizon)
	commit(retention.ErrUnreported)
	b.fund(tenant, "alice", 100)
	b.one(debit(timed("old", 90*day), "alice", 1)) // EXPIRED; nothing is there to archive
	old := time.Now().Add(-80 * day).UTC().Truncate(time.Millisecond)
	b.report("one", old)
	if before := commit(nil); !before.Equal(old) {
		b.t.Fatalf("committed %s, past a transfer of %s", before, old)
	}
	b.report("one", time.Now())
	first := commit(nil)
	if age := time.Since(first); age < horizon || age > horizon+time.Minute {
		b.t.Fatalf("committed %s, %s ago", first, age)
	}
	// It never falls, whatever is said or set later, and its keys stay EXPIRED.
	b.report("late", old)
	if before := commit(nil); before.Before(first) {
		b.t.Fatalf("%s, then %s", first, before)
	}
	b.report("late", time.Time{})
	commit(retention.ErrUnreported)
	b.keepFor(0)
	commit(retention.ErrNoHorizon)
	b.expect(debit(timed("below", horizon+day), "alice", 1), want{outcome: book.Expired})
	b.looks(debit(timed("below", horizon+day), "alice", 1), book.Expired)
}

// oldWork leaves operations of all kinds under keys of the age.
func (b *books) oldWork(account names.Account, age time.Duration) []book.Operation {
	b.t.Helper()
	instant := time.Now().Add(-age) // the same for all, so that a debit and its refund have one key
	key := func(label string) names.TransferKey { return timedAt(label+string(account)+age.String(), instant) }
	work := []book.Operation{
		on(tenant, book.Deposit, key("deposit"), account, 500),
		debit(key("paid"), account, 30),
		debit(key("given back"), account, 20),
		refund(key("given back"), account, 20),
		debit(key("too much"), account, 1_000_000),
		credit(key("received"), account, 7),
		cancel(credit(key("stopped"), account, 9)),
		refund(key("never taken"), account, 40),
		on(tenant, book.Withdraw, key("withdrawn"), account, 3),
	}
	for _, o := range work {
		b.one(o)
	}
	return work
}

func testArchive(b *books) {
	b.fund(tenant, "alice", 1000)
	b.fund(tenant, "bob", 1000)
	old := append(b.oldWork("alice", 90*day), b.oldWork("bob", 61*day)...)
	young := b.oldWork("alice", 59*day)
	alice, bob := b.account("alice"), b.account("bob")
	clearing := b.clearing()
	whole := map[book.ID]book.Stored{}
	for _, l := range b.all() {
		whole[l.ID()] = l.Stored
	}
	b.keepFor(horizon)
	b.report("one", time.Now())
	mark := b.mark()
	archived := b.archive(3)
	for _, o := range old {
		got, taken := archived[o.ID()]
		if !taken || got != whole[o.ID()] {
			b.t.Errorf("%s %s was archived as %+v, and was %+v", o.Kind, o.TransferKey, got, whole[o.ID()])
		}
		b.expect(o, want{outcome: book.Expired})
		b.looks(o, book.Expired)
		other := o
		other.Amount++
		b.expect(other, want{outcome: book.Expired})
	}
	// Each refund of an unseen debit left its tombstone.
	if len(archived) != len(old)+2 {
		b.t.Errorf("%d were archived, want %d", len(archived), len(old)+2)
	}
	for _, o := range young {
		if answer := b.one(o); !answer.Replayed {
			b.t.Errorf("%s %s is gone: %+v", o.Kind, o.TransferKey, answer)
		}
	}
	if a := b.account("alice"); a != alice {
		b.t.Errorf("%+v, then %+v", alice, a)
	}
	if a := b.account("bob"); a != bob {
		b.t.Errorf("%+v, then %+v", bob, a)
	}
	if now := b.clearing(); !maps.Equal(now, clearing) {
		b.t.Errorf("clearing held %v, then %v", clearing, now)
	}
	if b.mark() <= mark {
		b.t.Error("a copy from before is not told apart")
	}
	forward := 0
	for _, l := range b.all() {
		if l.Kind == book.BroughtForward {
			forward++
		}
	}
	// alice, bob, the clearing account and the external one.
	if forward != 4 {
		b.t.Errorf("%d lines were brought forward", forward)
	}
	if again := b.archive(200); len(again) != 0 {
		b.t.Errorf("%d more were archived", len(again))
	}
	// It goes on where it was: another line for the same accounts.
	b.keepFor(50 * day)
	if more := b.archive(2); len(more) != len(young)+1 {
		b.t.Errorf("%d were archived after that, want %d", len(more), len(young)+1)
	}
	b.balance(tenant, "alice", alice.Balance)
	b.expect(debit("next", "alice", 1), want{outcome: book.Applied, moved: 1, balance: alice.Balance - 1})
}

func (b *books) clearing() map[names.Participant]string {
	b.t.Helper()
	sums, err := b.store.Sums(context.Background(), tenant)
	if err != nil {
		b.t.Fatal(err)
	}
	held := map[names.Participant]string{}
	for _, c := range sums.Clearing {
		held[c.Participant] = c.Balance
	}
	return held
}

func (b *books) mark() int64 {
	b.t.Helper()
	identity, err := b.store.Identity(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	return identity.HighWaterMark
}

// testArchiveNeeded: what tells that something was undone stays as long as what it
// undid, and a refund in suspense until it is released.
func testArchiveNeeded(b *books) {
	b.fund(tenant, "alice", 100)
	b.fund(tenant, "bob", 0+1)
	d := debit(timed("d", 90*day), "alice", 40)
	r := refund(d.TransferKey, "alice", 40)
	b.one(d)
	b.one(on(tenant, book.Withdraw, "empty", "alice", 60))
	b.one(on(tenant, book.Close, "close", "alice", 0))
	if answer := b.one(r); !answer.ToSuspense {
		b.t.Fatalf("%+v", answer)
	}
	lines := []book.EntryLine{{Account: "bob", Delta: -1}, {Account: "carol", Delta: 1}}
	b.one(on(tenant, book.Open, "open-carol", "carol", 0))
	entry := detailed(on(tenant, book.Journal, "entry", "", 0), book.Details{Lines: lines, Reason: "fee"})
	entry.Currency = usd
	back := detailed(on(tenant, book.Reverse, timed("back", 90*day), "", 0), book.Details{
		Lines: []book.EntryLine{{Account: "bob", Delta: 1}, {Account: "carol", Delta: -1}}, Reason: "wrong"})
	back.Currency, back.DebitKey = usd, entry.Key
	b.expect(entry, want{outcome: book.Applied, moved: 1})
	b.expect(back, want{outcome: book.Applied, moved: 1})
	b.keepFor(horizon)
	b.report("one", time.Now())

	archived := b.archive(2)
	if _, taken := archived[d.ID()]; !taken {
		b.t.Errorf("the debit was not archived: %+v", archived)
	}
	for name, o := range map[string]book.Operation{"a refund in suspense": r, "the reversal of an entry that is there": back} {
		if _, taken := archived[o.ID()]; taken {
			b.t.Errorf("%s was archived", name)
		}
	}
	again := back
	again.TransferKey = "again"
	again.Key = stepkey.Derive(stepkey.V1, tenant, again.TransferKey, again.Step)
	b.expect(again, want{outcome: book.Refused, reason: book.AlreadyReversed})

	// Released under a key without a time: the refund may go, and the release stays.
	release := detailed(on(tenant, book.Release, "release", "bob", 0), book.Details{Reason: "found"})
	release.DebitKey, release.Currency = r.Key, ""
	b.expect(release, want{outcome: book.Applied, moved: 40, balance: 41})
	archived = b.archive(2)
	if _, taken := archived[r.ID()]; !taken {
		b.t.Errorf("the released refund was not archived: %+v", archived)
	}
	twice := release
	twice.TransferKey = "twice"
	twice.Key = stepkey.Derive(stepkey.V1, tenant, twice.TransferKey, twice.Step)
	if answer := b.one(twice); answer.Outcome != book.Refused {
		b.t.Fatalf("released twice: %+v", answer)
	}
	b.balance(tenant, "bob", 41)
	if list, err := b.store.Suspended(context.Background(), tenant, stepkey.StepKey{}, 10); err != nil || len(list) != 0 {
		b.t.Errorf("in suspense: %+v, %v", list, err)
	}
}

func testArchiveFails(b *books) {
	b.fund(tenant, "alice", 1000)
	b.oldWork("alice", 90*day)
	before := b.all()
	b.keepFor(horizon)
	b.report("one", time.Now())
	ctx := context.Background()
	if _, err := b.store.CommitHorizon(ctx); err != nil {
		b.t.Fatal(err)
	}
	full := errors.New("the disk is full")
	for range 2 {
		if _, err := b.store.Archive(ctx, book.ID{}, 200, func([]book.Stored) error { return full }); !errors.Is(err, full) {
			b.t.Fatalf("%v", err)
		}
	}
	same := slices.EqualFunc(b.all(), before, func(x, y store.Listed) bool { return x.Stored == y.Stored })
	if !same {
		b.t.Error("something was archived whose copy was not kept")
	}
	b.sound()
	if archived := b.archive(200); len(archived) != 10 {
		b.t.Errorf("%d were archived then", len(archived))
	}
	if batch, err := b.store.Archive(ctx, book.ID{}, 0, nil); err != nil || batch.Taken != 0 {
		b.t.Errorf("a batch of none: %+v, %v", batch, err)
	}
}

// testArchiveTenants: young keys of one tenant do not hide old ones of the next.
func testArchiveTenants(b *books) {
	old := 0
	for _, of := range []names.Tenant{"aaa", tenant, other} {
		b.fund(of, "alice", 1000)
		for i := range 7 {
			b.one(on(of, book.Debit, timed(fmt.Sprint("old", i), 90*day), "alice", 1))
			b.one(on(of, book.Debit, timed(fmt.Sprint("young", i), day), "alice", 1))
			b.one(on(of, book.Debit, names.TransferKey(fmt.Sprint("untimed", i)), "alice", 1))
			old++
		}
	}
	b.keepFor(horizon)
	b.report("one", time.Now())
	for _, size := range []int{1, 5, 200} {
		if archived := b.archive(size); len(archived) != old {
			b.t.Errorf("%d were archived in batches of %d, want %d", len(archived), size, old)
		}
		old = 0
	}
	for _, of := range []names.Tenant{"aaa", tenant, other} {
		b.balance(of, "alice", 1000-21)
	}
}

func testArchivedStatement(b *books) {
	ctx := context.Background()
	id := book.AccountID{Tenant: tenant, Account: "alice"}
	b.fund(tenant, "alice", 100)
	b.one(debit(timed("one", 90*day), "alice", 1))
	b.one(debit("kept", "alice", 2))
	last := b.one(debit(timed("two", 90*day), "alice", 3))
	for then := time.Now(); time.Since(then) < 2*time.Microsecond; {
		continue // the databases' clocks count microseconds
	}
	next := b.one(debit(timed("young", day), "alice", 4))
	b.one(debit("next", "alice", 5))
	span, err := b.store.Span(ctx, id, time.Time{}, time.Time{})
	if err != nil || span.Opening != 0 || span.Closing != 85 || span.Last != 6 {
		b.t.Fatalf("before: %+v, %v", span, err)
	}
	b.keepFor(horizon)
	b.report("one", time.Now())
	b.archive(200)

	var archived store.ErrArchived
	// A statement that was begun before is not made whole by other lines.
	if lines, err := b.store.Lines(ctx, id, span.Before, span.Last, 100); !errors.As(err, &archived) || !archived.Until.Equal(last.FirstTime) {
		b.t.Errorf("lines of a statement that was begun before: %d, %v", len(lines), err)
	}
	if lines, err := b.store.Lines(ctx, id, store.Place{Time: last.FirstTime, Seq: last.Seq}, span.Last, 100); err != nil || len(lines) != 2 {
		b.t.Errorf("the rest of it: %d, %v", len(lines), err)
	}
	for name, times := range map[string][2]time.Time{
		"from before":         {last.FirstTime.Add(-time.Hour)},
		"from the very last":  {last.FirstTime},
		"to before":           {{}, last.FirstTime.Add(-time.Hour)},
		"to the very last":    {{}, last.FirstTime},
		"around the archived": {last.FirstTime.Add(-time.Hour), last.FirstTime.Add(time.Hour)},
	} {
		if span, err := b.store.Span(ctx, id, times[0], times[1]); !errors.As(err, &archived) || !archived.Until.Equal(last.FirstTime) {
			b.t.Errorf("%s: %+v, %v", name, span, err)
		}
	}
	for name, c := range map[string]struct {
		from, to         time.Time
		opening, closing money.Minor
		lines            int
	}{
		"all that can be told": {time.Time{}, time.Time{}, 94, 85, 2},
		"from just after":      {last.FirstTime.Add(time.Microsecond), time.Time{}, 94, 85, 2},
		"to a later one":       {time.Time{}, next.FirstTime.Add(time.Microsecond), 94, 90, 1},
		"from a later one":     {next.FirstTime.Add(time.Microsecond), time.Time{}, 90, 85, 1},
	} {
		span, err := b.store.Span(ctx, id, c.from, c.to)
		if err != nil || span.Opening != c.opening || span.Closing != c.closing {
			b.t.Errorf("%s: %+v, %v", name, span, err)
		}
		lines, err := b.store.Lines(ctx, id, span.Before, span.Last, 100)
		if err != nil || len(lines) != c.lines {
			b.t.Errorf("%s: %d lines, %v", name, len(lines), err)
		}
	}
	b.archivedTrialBalance(last.FirstTime)
}

// archivedTrialBalance checks what can be told as of the last archived line and before.
func (b *books) archivedTrialBalance(last time.Time) {
	b.t.Helper()
	ctx := context.Background()
	var archived store.ErrArchived
	if _, _, err := b.store.TrialBalance(ctx, tenant, last.Add(-time.Microsecond)); !errors.As(err, &archived) || !archived.Until.Equal(last) {
		b.t.Errorf("a trial balance of before: %v", err)
	}
	balances, _, err := b.store.TrialBalance(ctx, tenant, last)
	if err != nil {
		b.t.Fatal(err)
	}
	sum, held := 0, map[names.Account]string{}
	for _, a := range balances {
		n := 0
		if _, err := fmt.Sscan(a.Balance, &n); err != nil {
			b.t.Fatal(err)
		}
		sum += n
		held[a.Account] = a.Balance
	}
	if sum != 0 || held["alice"] != "94" || held["clearing:ledger"] != "6" || held["external:cash"] != "-100" || held[book.Archived] != "0" {
		b.t.Errorf("a trial balance of just then: %v, which sum to %d", held, sum)
	}
	if none, _, err := b.store.TrialBalance(ctx, other, last.Add(-time.Hour)); err != nil || len(none) != 0 {
		b.t.Errorf("another tenant's: %v, %v", none, err)
	}
}

// testArchiveWhileWorking: two archive at once, beside work on the same accounts, and
// callers that repeat what is being archived. Nothing happens twice, and at every
// instant the books are sound.
func testArchiveWhileWorking(b *books) {
	ctx := context.Background()
	b.fund(tenant, "alice", 100_000)
	b.fund(tenant, "bob", 100_000)
	var old []book.Operation
	for i := range 120 {
		account := []names.Account{"alice", "bob"}[i%2]
		old = append(old, debit(timed(fmt.Sprint("old", i), 90*day), account, 1))
	}
	for chunk := range slices.Chunk(old, 40) {
		b.apply(chunk...)
	}
	b.keepFor(horizon)
	b.report("one", time.Now())
	if _, err := b.store.CommitHorizon(ctx); err != nil {
		b.t.Fatal(err)
	}
	var working, archiving sync.WaitGroup
	var ended atomic.Bool
	var fresh, taken atomic.Int64
	for w := range 3 {
		working.Go(func() {
			for i := 0; !ended.Load(); i++ {
				account := []names.Account{"alice", "bob"}[i%2]
				o := debit(names.TransferKey(fmt.Sprintf("new-%d-%d", w, i)), account, 1)
				repeated := old[(i*7+w)%len(old)]
				answers, err := applyAgain(b.store, []book.Operation{o, repeated})
				if err != nil {
					b.t.Error(err)
					return
				}
				if answers[0].Outcome == book.Applied {
					fresh.Add(1)
				}
				if again := answers[1]; again.Outcome != book.Expired && !again.Replayed {
					b.t.Errorf("an old debit was answered %+v", again)
				}
			}
		})
	}
	for range 2 {
		archiving.Go(func() {
			for after := (book.ID{}); ; {
				batch, err := b.store.Archive(ctx, after, 7, func([]book.Stored) error { return nil })
				if errors.Is(err, store.ErrTransient) {
					continue
				}
				if err != nil {
					b.t.Error(err)
					return
				}
				taken.Add(int64(batch.Taken))
				if after = batch.Next; after == (book.ID{}) {
					return
				}
				sums, err := b.store.Sums(ctx, "")
				if err != nil || len(sums.Faults) > 0 || len(sums.Currencies) != 1 || sums.Currencies[0].Total != "0" {
					b.t.Errorf("in the middle: %+v, %v", sums, err)
					return
				}
			}
		})
	}
	archiving.Wait()
	ended.Store(true)
	working.Wait()
	if taken.Load() != int64(len(old)) {
		b.t.Errorf("%d were archived of %d", taken.Load(), len(old))
	}
	for _, o := range old {
		b.expect(o, want{outcome: book.Expired})
	}
	alice, bob := b.account("alice"), b.account("bob")
	if spent := 200_000 - alice.Balance - bob.Balance; int64(spent) != int64(len(old))+fresh.Load() {
		b.t.Errorf("%d were taken, by %d old debits and %d new ones", spent, len(old), fresh.Load())
	}
}
