package book_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
)

// local is an operation of the participant's own on account a.
func local(kind book.Kind, k names.TransferKey, d book.Details) book.Operation {
	o := op(kind, k)
	o.Amount, o.Currency, o.Counterparty, o.Details = 0, "", "", d.String()
	if kind == book.Open {
		o.Currency = "USD"
	}
	if kind == book.Deposit || kind == book.Withdraw {
		o.Amount, o.Currency, o.Counterparty = 4000, "USD", "bank"
	}
	return o
}

func amountOf(o book.Operation, amount money.Minor) book.Operation {
	o.Amount = amount
	return o
}

func terms(k names.TransferKey, t book.Terms) book.Operation {
	return local(book.SetTerms, k, book.Details{Terms: t})
}

// wantEach applies operations one by one and compares their outcomes.
func wantEach(t *testing.T, w *world, each ...any) {
	t.Helper()
	for i := 0; i < len(each); i += 2 {
		o, want := each[i].(book.Operation), each[i+1]
		a := one(t, w, o)
		got := any(a.Outcome)
		if _, reason := want.(book.Reason); reason {
			got = a.Reason
		}
		if got != want {
			t.Fatalf("%d: %s of %d: %d %s, want %v", i/2, o.Kind, o.Amount, a.Outcome, a.Reason, want)
		}
	}
}

func TestNoOverdraftUnlessAgreed(t *testing.T) {
	w := newWorld(account("a", 100))
	wantEach(t, w,
		amountOf(op(book.Debit, "1"), 101), book.InsufficientFunds,
		terms("t1", book.Terms{Overdraft: 50}), book.Applied,
		amountOf(op(book.Debit, "2"), 150), book.Applied,
		amountOf(op(book.Debit, "3"), 1), book.InsufficientFunds,
		// What is owed already cannot be agreed away.
		terms("t2", book.Terms{Overdraft: 49}), book.BalanceBelowFloor,
		terms("t3", book.Terms{}), book.BalanceBelowFloor,
		amountOf(op(book.Credit, "4"), 50), book.Applied,
		terms("t4", book.Terms{}), book.Applied,
		amountOf(op(book.Debit, "5"), 1), book.InsufficientFunds,
	)
	wantBalance(t, w, "a", 0)
}

func TestWithdrawGoesToTheOutside(t *testing.T) {
	w := newWorld(account("a", 5000))
	wantEach(t, w,
		local(book.Withdraw, "1", book.Details{}), book.Applied,
		amountOf(local(book.Withdraw, "2", book.Details{}), 1001), book.InsufficientFunds,
		terms("t", book.Terms{DebitMax: 10, DayMax: 15}), book.Applied,
		amountOf(local(book.Withdraw, "3", book.Details{}), 11), book.LimitExceeded,
		amountOf(local(book.Withdraw, "4", book.Details{}), 10), book.Applied,
		amountOf(op(book.Debit, "5"), 6), book.LimitExceeded,
	)
	wantBalance(t, w, "a", 990)
	if got := w.sum(book.External("bank")); got != 4010 {
		t.Errorf("the outside has %d", got)
	}
}

// TestLimitsOfADay: the day is the zone's and the database's clock's; what is given
// back on its own day does not count; a refusal sticks the day after.
func TestLimitsOfADay(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(account("a", 1_000_000))
	w.zone = func(name string) *time.Location {
		if name != "Europe/Berlin" {
			t.Fatalf("zone %q is asked for", name)
		}
		return berlin
	}
	// Each batch is a second later. 22:30 UTC is 00:30 in Berlin, in summer.
	w.now = time.Date(2026, 6, 30, 21, 59, 50, 0, time.UTC)
	wantEach(t, w,
		terms("t", book.Terms{DayMax: 100, DayZone: "Europe/Berlin"}), book.Applied,
		amountOf(op(book.Debit, "1"), 60), book.Applied,
		amountOf(op(book.Debit, "2"), 41), book.LimitExceeded,
		amountOf(op(book.Debit, "3"), 40), book.Applied,
		amountOf(op(book.Debit, "4"), 1), book.LimitExceeded,
		amountOf(op(book.Refund, "3"), 40), book.Applied,
		amountOf(op(book.Debit, "5"), 40), book.Applied,
	)
	w.now = time.Date(2026, 6, 30, 22, 0, 0, 0, time.UTC)
	wantEach(t, w,
		amountOf(op(book.Debit, "6"), 100), book.Applied, // another day
		amountOf(op(book.Refund, "1"), 60), book.Applied, // of the day before
		amountOf(op(book.Debit, "7"), 1), book.LimitExceeded,
		amountOf(op(book.Debit, "4"), 1), book.LimitExceeded, // for ever
		// The limit is raised: what was taken today still counts.
		terms("u", book.Terms{DayMax: 110, DayZone: "Europe/Berlin"}), book.Applied,
		amountOf(op(book.Debit, "8"), 11), book.LimitExceeded,
		amountOf(op(book.Debit, "9"), 10), book.Applied,
	)
	w.now = time.Date(2026, 7, 1, 22, 0, 0, 0, time.UTC)
	wantEach(t, w, amountOf(op(book.Debit, "10"), 110), book.Applied)
	wantBalance(t, w, "a", 1_000_000-40-100-10-110)
}

// TestC97ADayDoesNotComeBack: the clock is set back over midnight. The account's day
// stays that of its last line, and what is given back counts for the line's day.
func TestC97ADayDoesNotComeBack(t *testing.T) {
	a := account("a", 1000)
	a.DayMax = 100
	w := newWorld(a)
	w.now = time.Date(2026, 7, 2, 9, 0, 0, 0, time.UTC)
	wantEach(t, w, amountOf(op(book.Debit, "1"), 60), book.Applied)
	w.now = time.Date(2026, 7, 1, 9, 0, 0, 0, time.UTC)
	wantEach(t, w,
		amountOf(op(book.Debit, "2"), 41), book.LimitExceeded,
		amountOf(op(book.Debit, "3"), 40), book.Applied,
		amountOf(op(book.Refund, "1"), 60), book.Applied,
		amountOf(op(book.Debit, "4"), 61), book.LimitExceeded,
		amountOf(op(book.Debit, "5"), 60), book.Applied,
	)
	wantBalance(t, w, "a", 900)
}

// TestLimitsWithinABatch: a limit holds between the operations of one batch.
func TestLimitsWithinABatch(t *testing.T) {
	a := account("a", 1000)
	a.DayMax = 100
	w := newWorld(a)
	var batch []book.Operation
	for i := range 5 {
		batch = append(batch, amountOf(op(book.Debit, names.TransferKey(fmt.Sprint(i))), 30))
	}
	applied := 0
	for _, answer := range must(t, w, batch...) {
		if answer.Outcome == book.Applied {
			applied++
		}
	}
	if applied != 3 {
		t.Errorf("%d of 30 went through, of 100", applied)
	}
	wantBalance(t, w, "a", 910)
}

func TestLimitsDoNotWrap(t *testing.T) {
	a := account("a", math.MaxInt64)
	a.DayMax = money.AmountMax
	w := newWorld(a)
	wantEach(t, w,
		amountOf(op(book.Debit, "1"), money.AmountMax), book.Applied,
		amountOf(op(book.Debit, "2"), money.AmountMax), book.LimitExceeded,
		amountOf(op(book.Debit, "3"), 1), book.LimitExceeded,
	)
}

func TestTermsAndHolderAreContents(t *testing.T) {
	w := newWorld()
	holder := map[string]string{"name": "Ada", "segment": "retail"}
	open := local(book.Open, "o", book.Details{Terms: book.Terms{Overdraft: 7, DebitMax: 8, DayMax: 9, DayZone: "UTC"}, Holder: holder})
	wantEach(t, w, open, book.Applied)
	a := w.accounts[book.AccountID{Tenant: "t1", Account: "a"}]
	if got := a.TermsOf(); got != (book.Terms{Overdraft: 7, DebitMax: 8, DayMax: 9, DayZone: "UTC"}) || fmt.Sprint(a.HolderOf()) != fmt.Sprint(holder) {
		t.Errorf("opened as %+v, %v", got, a.HolderOf())
	}
	other := local(book.Open, "o", book.Details{Terms: book.Terms{Overdraft: 6, DayMax: 9, DayZone: "UTC"}})
	if answer := one(t, w, other); answer.Outcome != book.KeyReused || !slices.Equal(answer.Differing, []string{"debit_max", "holder", "overdraft"}) {
		t.Errorf("other terms under its key: %d %v", answer.Outcome, answer.Differing)
	}
	replaced := map[string]string{"name": "Ada L."}
	wantEach(t, w,
		local(book.SetHolder, "h", book.Details{Holder: replaced}), book.Applied,
		local(book.Freeze, "f", book.Details{Reason: "a court's order"}), book.Applied,
	)
	a = w.accounts[a.AccountID]
	if fmt.Sprint(a.HolderOf()) != fmt.Sprint(replaced) || a.StateReason != "a court's order" || a.TermsOf().DebitMax != 8 {
		t.Errorf("%+v", a)
	}
	if answer := one(t, w, local(book.Freeze, "f", book.Details{Reason: "another"})); !slices.Equal(answer.Differing, []string{"reason"}) {
		t.Errorf("another reason under its key: %v", answer.Differing)
	}
}

func TestDetailsThatCannotBe(t *testing.T) {
	many := map[string]string{}
	for i := range book.HolderPairsMax + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for field, d := range map[string]book.Details{
		"overdraft": {Terms: book.Terms{Overdraft: -1}},
		"debit_max": {Terms: book.Terms{DebitMax: money.AmountMax + 1}},
		"day_max":   {Terms: book.Terms{DayMax: math.MinInt64}},
		"day_zone":  {Terms: book.Terms{DayZone: strings.Repeat("z", 65)}},
		"reason":    {Reason: "a\x00b"},
		"holder":    {Holder: many},
	} {
		w := newWorld(account("a", 100))
		for _, kind := range []book.Kind{book.Open, book.SetTerms, book.SetHolder, book.Freeze} {
			a := one(t, w, local(kind, "k", d))
			if a.Outcome != book.Invalid || len(a.Violations) != 1 || a.Violations[0].Field != field {
				t.Errorf("%s with a wrong %s: %d %v", kind, field, a.Outcome, a.Violations)
			}
		}
		if len(w.ops) != 0 {
			t.Errorf("%s: the key is used up", field)
		}
	}
	w := newWorld(account("a", 100))
	odd := local(book.SetTerms, "k", book.Details{})
	odd.Details = `{"terms": {"overdraft": 1}}` // not its one text
	if a := one(t, w, odd); a.Outcome != book.Invalid {
		t.Errorf("%+v", a)
	}
}

// TestWhatADaysLimitDidNotCountGivesNoRoom: a debit from before the limit, or from
// before its zone was changed, was never counted.
func TestWhatADaysLimitDidNotCountGivesNoRoom(t *testing.T) {
	w := newWorld(account("a", 1000))
	wantEach(t, w,
		amountOf(op(book.Debit, "1"), 100), book.Applied,
		terms("t", book.Terms{DayMax: 50}), book.Applied,
		amountOf(op(book.Debit, "2"), 50), book.Applied,
		amountOf(op(book.Refund, "1"), 100), book.Applied,
		amountOf(op(book.Debit, "3"), 1), book.LimitExceeded,
		terms("u", book.Terms{DayMax: 50, DayZone: "Asia/Tokyo"}), book.Applied,
		amountOf(op(book.Debit, "4"), 50), book.Applied,
		amountOf(op(book.Refund, "2"), 50), book.Applied,
		amountOf(op(book.Debit, "5"), 1), book.LimitExceeded,
		amountOf(op(book.Refund, "4"), 50), book.Applied,
		amountOf(op(book.Debit, "6"), 50), book.Applied,
	)
}

// TestAClockSetBackOverMidnightBeginsNoDayAnew.
func TestAClockSetBackOverMidnightBeginsNoDayAnew(t *testing.T) {
	w := newWorld(account("a", 1000))
	midnight := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) { w.now = midnight.Add(d - time.Second) } // a batch is a second later
	at(-20 * time.Second)
	wantEach(t, w, terms("t", book.Terms{DayMax: 50}), book.Applied, amountOf(op(book.Debit, "1"), 50), book.Applied)
	at(2 * time.Second)
	wantEach(t, w, amountOf(op(book.Debit, "2"), 50), book.Applied)
	at(-6 * time.Second)
	wantEach(t, w, amountOf(op(book.Debit, "3"), 1), book.LimitExceeded)
	at(10 * time.Second)
	wantEach(t, w, amountOf(op(book.Debit, "4"), 1), book.LimitExceeded)
}
