package book_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/stepkey"
)

// wantDebit checks what a refund says of its debit.
func wantDebit(t *testing.T, got book.Answer, outcome book.Outcome) {
	t.Helper()
	if got.DebitOutcome != outcome {
		t.Fatalf("the debit is said to be %d, want %d: %+v", got.DebitOutcome, outcome, got)
	}
}

func TestRefundGivesBackOnce(t *testing.T) {
	w := newWorld(account("a", 10000))
	one(t, w, op(book.Debit, "k"))
	first := one(t, w, op(book.Refund, "k"))
	want(t, first, book.Applied, 0, 4000, false)
	wantDebit(t, first, book.Applied)
	if first.BalanceAfter != 10000 || first.ToSuspense {
		t.Fatalf("refund: %+v", first)
	}
	wantBalance(t, w, "a", 10000)
	wantBalance(t, w, "clearing:q", 0)
	want(t, one(t, w, op(book.Debit, "k")), book.Applied, 0, 4000, true)
}

func TestC06OneRefundWhateverTheKeys(t *testing.T) {
	w := newWorld(account("a", 10000))
	one(t, w, op(book.Debit, "k"))
	refund := op(book.Refund, "k")
	first := one(t, w, refund)
	for range 5 {
		again := one(t, w, refund)
		want(t, again, book.Applied, 0, 4000, true)
		if again.Stored != first.Stored {
			t.Fatalf("%+v, first %+v", again, first)
		}
	}
	other := with(refund, func(o *book.Operation) { o.Key = key("tool", "refund") })
	for i := range 2 {
		got := one(t, w, other)
		want(t, got, book.Refused, book.AlreadyRefunded, 0, i > 0)
		wantDebit(t, got, book.Applied)
		if got.FirstRefundKey != refund.Key || got.FirstRefundMoved != 4000 {
			t.Fatalf("the first is not named: %+v", got)
		}
	}
	wantBalance(t, w, "a", 10000)

	// The same within one batch, the debit included.
	w = newWorld(account("a", 10000))
	answers := must(t, w, op(book.Debit, "k"), other, refund, other, refund)
	want(t, answers[1], book.Applied, 0, 4000, false)
	want(t, answers[2], book.Refused, book.AlreadyRefunded, 0, false)
	want(t, answers[3], book.Applied, 0, 4000, true)
	want(t, answers[4], book.Refused, book.AlreadyRefunded, 0, true)
	if answers[2].FirstRefundKey != other.Key {
		t.Fatalf("the first is not named: %+v", answers[2])
	}
	wantBalance(t, w, "a", 10000)
}

// A second refund says of the first where its money went, at once and whenever it
// is asked again.
func TestSecondRefundTellsOfSuspense(t *testing.T) {
	for _, closed := range []bool{false, true} {
		w := newWorld(account("a", 4000))
		one(t, w, op(book.Debit, "k"))
		if closed {
			want(t, one(t, w, op(book.Close, "c")), book.Applied, 0, 0, false)
		}
		if first := one(t, w, op(book.Refund, "k")); first.ToSuspense != closed {
			t.Fatalf("closed %v: %+v", closed, first)
		}
		other := with(op(book.Refund, "k"), func(o *book.Operation) { o.Key = key("tool", "refund") })
		for i := range 2 {
			got := one(t, w, other)
			want(t, got, book.Refused, book.AlreadyRefunded, 0, i > 0)
			if got.ToSuspense != closed || got.FirstRefundMoved != 4000 {
				t.Errorf("closed %v: %+v", closed, got)
			}
		}
	}
}

func TestC03C04RefundBeforeItsDebit(t *testing.T) {
	w := newWorld(account("a", 10000))
	for i := range 3 {
		got := one(t, w, op(book.Refund, "k"))
		want(t, got, book.Applied, 0, 0, i > 0)
		wantDebit(t, got, book.Cancelled)
	}
	late := one(t, w, op(book.Debit, "k"))
	want(t, late, book.Cancelled, 0, 0, true)
	// A tombstone matches any contents of its transfer key and step, malformed
	// ones too.
	for _, change := range []func(*book.Operation){
		func(o *book.Operation) { o.Account, o.Amount = "b", 1 },
		func(o *book.Operation) { o.Currency, o.Counterparty = "EUR", "z/z" },
		func(o *book.Operation) {
			o.Account, o.Amount, o.Currency, o.Counterparty = "\x00", math.MinInt64, "", "/"
		},
		func(o *book.Operation) { o.DebitKey = key("z", "debit") },
	} {
		want(t, one(t, w, with(op(book.Debit, "k"), change)), book.Cancelled, 0, 0, true)
	}
	if got := one(t, w, with(op(book.Debit, "k"), func(o *book.Operation) { o.TransferKey = "k2" })); got.Outcome != book.KeyReused || !slices.Equal(got.Differing, []string{"transfer_key"}) {
		t.Errorf("another transfer's debit under a tombstone: %+v", got)
	}
	wantBalance(t, w, "a", 10000)

	// In one batch, late debit last.
	w = newWorld(account("a", 10000))
	answers := must(t, w, op(book.Refund, "k"), op(book.Debit, "k"), cancel(book.Debit, "k"))
	want(t, answers[0], book.Applied, 0, 0, false)
	want(t, answers[1], book.Cancelled, 0, 0, true)
	want(t, answers[2], book.Cancelled, 0, 0, true)
	if len(w.ops) != 2 || len(w.events) != 1 {
		t.Errorf("%d operations and %d events are stored, want 2 and 1", len(w.ops), len(w.events))
	}
}

func TestRefundOfARefusedDebit(t *testing.T) {
	w := newWorld(account("a", 3999))
	answers := must(t, w, op(book.Debit, "k"), op(book.Refund, "k"))
	want(t, answers[0], book.Refused, book.InsufficientFunds, 0, false)
	want(t, answers[1], book.Applied, 0, 0, false)
	wantDebit(t, answers[1], book.Refused)
	wantBalance(t, w, "a", 3999)
	second := one(t, w, with(op(book.Refund, "k"), func(o *book.Operation) { o.Key = key("tool", "refund") }))
	want(t, second, book.Refused, book.AlreadyRefunded, 0, false)
	wantDebit(t, second, book.Refused)
	if second.FirstRefundMoved != 0 {
		t.Errorf("the first moved nothing: %+v", second)
	}
}

func TestCancel(t *testing.T) {
	for _, kind := range []book.Kind{book.Debit, book.Credit} {
		w := newWorld(account("a", 10000))
		want(t, one(t, w, cancel(kind, "k")), book.Cancelled, 0, 0, false)
		want(t, one(t, w, cancel(kind, "k")), book.Cancelled, 0, 0, true)
		want(t, one(t, w, op(kind, "k")), book.Cancelled, 0, 0, true)
		wantBalance(t, w, "a", 10000)
		if len(w.events) != 0 {
			t.Errorf("a tombstone has an event: %v", w.events)
		}

		applied := one(t, w, op(kind, "k2"))
		got := one(t, w, cancel(kind, "k2"))
		want(t, got, book.Applied, 0, 4000, true)
		if got.Stored != applied.Stored {
			t.Errorf("cancel says %+v, the operation %+v", got, applied)
		}
		w.accounts[book.AccountID{Tenant: "t1", Account: "a"}] = in(book.StateFrozen, w.accounts[book.AccountID{Tenant: "t1", Account: "a"}])
		want(t, one(t, w, op(kind, "k3")), book.Refused, book.AccountFrozen, 0, false)
		want(t, one(t, w, cancel(kind, "k3")), book.Refused, book.AccountFrozen, 0, true)
		// Contents are compared, never validated.
		if got := one(t, w, with(cancel(kind, "k3"), func(o *book.Operation) { o.Amount = -1 })); got.Outcome != book.KeyReused || !slices.Equal(got.Differing, []string{"amount"}) {
			t.Errorf("cancel with another amount: %+v", got)
		}
		want(t, one(t, w, with(cancel(kind, "k4"), func(o *book.Operation) {
			o.Account, o.Amount, o.Currency, o.Counterparty = "\x00", math.MinInt64, "usd", ""
		})), book.Cancelled, 0, 0, false)
	}
	w := newWorld(account("a", 10000))
	answers := must(t, w, cancel(book.Debit, "k"), op(book.Refund, "k"), op(book.Debit, "k"))
	want(t, answers[1], book.Applied, 0, 0, false)
	wantDebit(t, answers[1], book.Cancelled)
	want(t, answers[2], book.Cancelled, 0, 0, true)
}

func TestC60RefundWhateverBecameOfTheAccount(t *testing.T) {
	id := book.AccountID{Tenant: "t1", Account: "a"}
	for name, c := range map[string]struct {
		before   money.Minor
		between  func(*testing.T, *world)
		suspense bool
		after    money.Minor
	}{
		"frozen":    {10000, func(_ *testing.T, w *world) { w.accounts[id] = in(book.StateFrozen, w.accounts[id]) }, false, 10000},
		"closed":    {4000, func(_ *testing.T, w *world) { w.accounts[id] = in(book.StateClosed, w.accounts[id]) }, true, 0},
		"just fits": {4000, fill(math.MaxInt64 - 4000), false, math.MaxInt64},
		"overflow":  {4000, fill(math.MaxInt64 - 3999), true, math.MaxInt64 - 3999},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(account("a", c.before))
			want(t, one(t, w, op(book.Debit, "k")), book.Applied, 0, 4000, false)
			c.between(t, w)
			for i := range 2 {
				got := one(t, w, op(book.Refund, "k"))
				want(t, got, book.Applied, 0, 4000, i > 0)
				wantDebit(t, got, book.Applied)
				if got.ToSuspense != c.suspense || got.BalanceAfter != c.after {
					t.Fatalf("to suspense %v, balance %d, want %v, %d", got.ToSuspense, got.BalanceAfter, c.suspense, c.after)
				}
			}
			wantBalance(t, w, "a", c.after)
			wantBalance(t, w, "clearing:q", 0)
			held := money.Minor(0)
			if c.suspense {
				held = 4000
			}
			wantBalance(t, w, book.Suspense, held)
		})
	}
}

// fill raises account a, which is empty, to a balance by deposits.
func fill(balance money.Minor) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		for i, part := range []money.Minor{money.AmountMax, balance - money.AmountMax} {
			k := names.TransferKey(rune('A' + i))
			o := with(op(book.Deposit, k), func(o *book.Operation) { o.Counterparty, o.Amount = "till", part })
			want(t, one(t, w, o), book.Applied, 0, part, false)
		}
	}
}

// Contents that no grammar allows neither stop a refund nor reach a database as
// they are; they are contents all the same.
func TestHostileRefundContents(t *testing.T) {
	for name, text := range map[string]string{
		"NUL": "a\x00b", "1 MB": strings.Repeat("x", 1<<20), "no UTF-8": "\xff\xfe", "half a rune": "\xe2\x82", "controls": "\x01\x1b[2J",
		"128 bytes": strings.Repeat("y", 128), "wide": strings.Repeat("\u20ac", 127), "empty": "", "quote": "'; drop table--",
	} {
		t.Run(name, func(t *testing.T) {
			hostile := func(o *book.Operation) {
				o.Account, o.Currency, o.Counterparty, o.Amount = names.Account(text), money.Currency(text), names.AccountRef(text), math.MinInt64
			}
			w := newWorld(account("a", 10000))
			refund := with(op(book.Refund, "k"), hostile)
			first := one(t, w, refund)
			want(t, first, book.Applied, 0, 0, false)
			wantDebit(t, first, book.Cancelled)
			again := one(t, w, refund)
			if !again.Replayed || again.Stored != first.Stored {
				t.Fatalf("%+v, first %+v", again, first)
			}
			if got := one(t, w, with(refund, func(o *book.Operation) { o.Account += "z" })); got.Outcome != book.KeyReused || !slices.Equal(got.Differing, []string{"account"}) {
				t.Fatalf("other hostile contents: %+v", got)
			}
			for _, s := range w.ops {
				for _, stored := range []string{string(s.Account), string(s.Currency), string(s.Counterparty)} {
					if len(stored) > 127 || strings.ContainsRune(stored, 0) || strings.ToValidUTF8(stored, "") != stored {
						t.Errorf("%q is stored", stored)
					}
				}
			}
			// Of an applied debit, they differ from what is stored.
			one(t, w, op(book.Debit, "d"))
			got := one(t, w, with(op(book.Refund, "d"), hostile))
			if got.Outcome != book.KeyReused || !slices.Equal(got.Differing, []string{"account", "amount", "currency", "counterparty"}) {
				t.Fatalf("refund of another debit: %+v", got)
			}
			want(t, one(t, w, op(book.Refund, "d")), book.Applied, 0, 4000, false)
		})
	}
}

func TestRefundOfWhatIsNoDebitOfItsTransfer(t *testing.T) {
	w := newWorld(account("a", 10000))
	must(t, w, op(book.Debit, "k"), op(book.Credit, "k"), op(book.Refund, "r"))
	for name, c := range map[string]struct {
		change func(*book.Operation)
		fields []string
	}{
		"a credit":                  {func(o *book.Operation) { o.DebitKey = key("k", "credit") }, []string{"step", "kind"}},
		"another transfer's debit":  {func(o *book.Operation) { o.TransferKey = "other" }, []string{"transfer_key"}},
		"a tombstone of another's":  {func(o *book.Operation) { o.DebitKey = key("r", "debit") }, []string{"transfer_key"}},
		"another amount":            {func(o *book.Operation) { o.Amount = 4001 }, []string{"amount"}},
		"another account":           {func(o *book.Operation) { o.Account = "b" }, []string{"account"}},
		"a refund (of another key)": {func(o *book.Operation) { o.DebitKey = key("r", "refund") }, []string{"transfer_key", "step", "kind"}},
	} {
		before := len(w.ops)
		o := with(op(book.Refund, "k"), c.change)
		got := one(t, w, o)
		if got.Outcome != book.KeyReused || !slices.Equal(got.Differing, c.fields) || len(w.ops) != before {
			t.Errorf("%s: %+v", name, got)
		}
	}
	want(t, one(t, w, op(book.Refund, "k")), book.Applied, 0, 4000, false)
}

func TestLookup(t *testing.T) {
	w := newWorld(account("a", 10000))
	ask := func(o book.Operation) book.Answer {
		before := len(w.ops)
		got := book.Lookup(w.view([]book.Operation{o}), o)
		if len(w.ops) != before {
			t.Fatalf("a lookup stored something")
		}
		return got
	}
	for _, o := range []book.Operation{op(book.Debit, "k"), cancel(book.Debit, "k"), op(book.Refund, "k"), op(0, "k"),
		with(op(book.Debit, "k"), func(o *book.Operation) { o.Account, o.Amount, o.Currency = "\x00", math.MinInt64, "" })} {
		if o.Kind == 0 {
			o.Step = stepkey.Debit
			o.Key = key("k", o.Step)
		}
		want(t, ask(o), book.NotFound, 0, 0, false)
	}
	stored := one(t, w, op(book.Debit, "k"))
	for _, kind := range []book.Kind{book.Debit, book.Cancel, 0} {
		got := ask(with(op(book.Debit, "k"), func(o *book.Operation) { o.Kind = kind }))
		if !got.Replayed || got.Stored != stored.Stored {
			t.Errorf("looked up as %d: %+v", kind, got)
		}
	}
	if got := ask(with(op(book.Debit, "k"), func(o *book.Operation) { o.Amount = 1 })); got.Outcome != book.KeyReused || !slices.Equal(got.Differing, []string{"amount"}) {
		t.Errorf("another amount: %+v", got)
	}
	for field, change := range map[string]func(*book.Operation){
		"tenant":       func(o *book.Operation) { o.Tenant = "" },
		"transfer_key": func(o *book.Operation) { o.TransferKey = " " },
		"key":          func(o *book.Operation) { o.Key = stepkey.StepKey{} },
		"step":         func(o *book.Operation) { o.Step = "x" },
	} {
		got := ask(with(op(book.Debit, "unknown"), change))
		if got.Outcome != book.Invalid || len(got.Violations) != 1 || got.Violations[0].Field != field {
			t.Errorf("a bad %s: %+v", field, got)
		}
	}
	one(t, w, op(book.Refund, "late"))
	want(t, ask(op(book.Debit, "late")), book.Cancelled, 0, 0, true)
}
