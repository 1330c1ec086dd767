package book_test

import (
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/stepkey"
)

// operations draws from few tenants, keys and accounts, so that they meet. Most
// are well formed; some differ in one field from what the key was first used
// for, or hold nonsense.
func operations() *rapid.Generator[book.Operation] {
	return rapid.Custom(func(t *rapid.T) book.Operation {
		kind := rapid.SampledFrom([]book.Kind{book.Debit, book.Debit, book.Debit, book.Credit, book.Credit, book.Refund, book.Refund,
			book.Refund, book.Cancel, book.Deposit, book.Open, book.Freeze, book.Unfreeze, book.Close}).Draw(t, "kind")
		n := rapid.IntRange(0, 5).Draw(t, "transfer")
		step := kind
		if kind == book.Cancel {
			step = rapid.SampledFrom([]book.Kind{book.Debit, book.Credit}).Draw(t, "cancelled")
		}
		// Contents hang on the transfer, so that most repetitions are replays.
		o := book.Operation{Kind: kind, Step: step.String(), Tenant: []names.Tenant{"t1", "t1", "t1", "t2"}[n%4],
			TransferKey: names.TransferKey(rune('0' + n)), Account: []names.Account{"a", "b", "c"}[n%3],
			Amount: []money.Minor{10, 30, 60, 100, 7, 50}[n], Currency: []money.Currency{"USD", "USD", "USD", "EUR", "USD", "USD"}[n], Counterparty: "q/x"}
		switch kind {
		case book.Deposit:
			o.Counterparty = "till"
		case book.Refund:
			o.DebitKey = stepkey.Derive(stepkey.V1, o.Tenant, o.TransferKey, stepkey.Debit)
		}
		o.Key = stepkey.Derive(stepkey.V1, o.Tenant, o.TransferKey, o.Step)
		if kind == book.Refund && rapid.Bool().Draw(t, "by a tool") {
			o.Key = stepkey.Derive(stepkey.V1, o.Tenant, o.TransferKey, "tool")
		}
		if rapid.IntRange(0, 3).Draw(t, "odd") == 0 {
			spoil(t, &o)
		}
		return o
	})
}

var oddTexts = []string{"", "a", "b", "none", "A", "clearing:q", "suspense:refund", "a\x00", "q/x", "q/a", "z/z", "till", "USD", "EUR", "usd"}

func spoil(t *rapid.T, o *book.Operation) {
	text := rapid.SampledFrom(oddTexts).Draw(t, "text")
	someKey := rapid.SampledFrom([]stepkey.StepKey{{}, {1}, stepkey.Derive(stepkey.V1, "t1", "0", stepkey.Debit),
		stepkey.Derive(stepkey.V1, "t1", "1", stepkey.Credit), stepkey.Derive(stepkey.V1, "t1", "2", stepkey.Refund),
		stepkey.Derive(stepkey.V1, "t1", "0", "tool")}).Draw(t, "some key")
	switch rapid.IntRange(0, 9).Draw(t, "field") {
	case 0:
		o.Tenant = rapid.SampledFrom([]names.Tenant{"t1", "t2", "", "T"}).Draw(t, "tenant")
	case 1:
		o.TransferKey = rapid.SampledFrom([]names.TransferKey{"0", "1", "", " "}).Draw(t, "transfer key")
	case 2:
		o.Step = rapid.SampledFrom([]string{"debit", "credit", "refund", "open", "", "x"}).Draw(t, "step")
	case 3, 4:
		o.Key = someKey
	case 5:
		o.Account = names.Account(text)
	case 6:
		o.Amount = rapid.SampledFrom([]money.Minor{math.MinInt64, -1, 0, 1, 61, money.AmountMax, money.AmountMax + 1, math.MaxInt64}).Draw(t, "amount")
	case 7:
		o.Currency = money.Currency(text)
	case 8:
		o.Counterparty = names.AccountRef(text)
	case 9:
		o.DebitKey = someKey
	}
}

func startAccounts() []book.Account {
	overdraft := account("b", 0)
	overdraft.Floor = -45
	other, full := account("a", 100), account("c", math.MaxInt64-50)
	other.Tenant = "t2"
	return []book.Account{account("a", 100), overdraft, full, other}
}

// Batches give what one by one gives, for every way of cutting the sequence: the
// same answers, the same books. Every other promise is checked on the way.
func TestBatchesAreTheSameAsOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := rapid.SampledFrom([]int{1, 10, 40}).Draw(t, "least") // short ones to read, long ones to meet
		sequence := rapid.SliceOfN(operations(), least, 60).Draw(t, "operations")
		together, single := newWorld(startAccounts()...), newWorld(startAccounts()...)
		together.limits.AmountMax = 1 << 61
		single.limits = together.limits
		given := history{}
		for len(sequence) > 0 {
			size := min(rapid.SampledFrom([]int{1, 2, 3, 9, 40}).Draw(t, "size"), len(sequence))
			batch := sequence[:size]
			sequence = sequence[size:]
			now := single.now
			answers, err := together.apply(batch...)
			if err != nil {
				t.Fatalf("together: %v", err)
			}
			for i, o := range batch {
				single.now = now // one time for what is one batch
				before := single.copy()
				alone, err := single.apply(o)
				if err != nil {
					t.Fatalf("one by one: %v", err)
				}
				if !reflect.DeepEqual(alone[0], answers[i]) {
					t.Fatalf("%+v\nalone:    %+v\ntogether: %+v", o, alone[0], answers[i])
				}
				given.check(t, before, single, o, alone[0])
			}
		}
		if !reflect.DeepEqual(together.ops, single.ops) || !reflect.DeepEqual(together.accounts, single.accounts) ||
			!reflect.DeepEqual(together.lines, single.lines) || !reflect.DeepEqual(together.events, single.events) {
			t.Fatalf("the books differ:\n%+v\n%+v", together, single)
		}
	})
}

// history holds the first answer that was given to each key.
type history map[book.ID]book.Answer

func (h history) check(t *rapid.T, before, after *world, o book.Operation, got book.Answer) {
	stored, known := before.ops[o.ID()]
	switch got.Outcome {
	case book.Applied, book.Refused, book.Cancelled:
		if got.Replayed != known {
			t.Fatalf("%+v: replayed %v, but known before %v", o, got.Replayed, known)
		}
		if first, answered := h[o.ID()]; answered && got.Stored != first.Stored {
			t.Fatalf("%+v was answered %+v, now %+v", o, first, got)
		}
		if known && got.Stored != stored {
			t.Fatalf("%+v is stored as %+v, answered %+v", o, stored, got)
		}
		if after.ops[o.ID()] != got.Stored || got.TransferKey != o.TransferKey || got.Step != o.Step {
			t.Fatalf("%+v was answered %+v, stored %+v", o, got, after.ops[o.ID()])
		}
		if _, answered := h[o.ID()]; !answered {
			h[o.ID()] = got
		}
	case book.KeyReused:
		if len(got.Differing) == 0 || got.Replayed || len(after.ops) != len(before.ops) {
			t.Fatalf("%+v: %+v", o, got)
		}
	case book.Invalid:
		if known || len(got.Violations) == 0 || got.Replayed || len(after.ops) != len(before.ops) {
			t.Fatalf("%+v, known %v: %+v", o, known, got)
		}
	default:
		t.Fatalf("%+v: outcome %d", o, got.Outcome)
	}
	if known && len(after.lines) != len(before.lines) {
		t.Fatalf("%+v was known and moved money", o)
	}
	moved := len(after.lines)-len(before.lines) == 2
	if moved != (got.AmountMoved != 0 && !got.Replayed) {
		t.Fatalf("%+v: lines %v, answered %+v", o, moved, got)
	}
}

// A copy of an operation anywhere later in the sequence replays, whatever else
// happens in between.
func TestEveryStoredAnswerIsGivenForEver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(startAccounts()...)
		type pair struct {
			o      book.Operation
			answer book.Answer
		}
		var all []pair
		for _, o := range rapid.SliceOfN(operations(), 1, 40).Draw(t, "operations") {
			answers, err := w.apply(o)
			if err != nil {
				t.Fatal(err)
			}
			if _, stored := w.ops[o.ID()]; stored && answers[0].Outcome <= book.Cancelled {
				all = append(all, pair{o, answers[0]})
			}
		}
		lines := len(w.lines)
		for _, p := range all {
			answers, err := w.apply(p.o)
			if err != nil {
				t.Fatal(err)
			}
			if !answers[0].Replayed || answers[0].Stored != p.answer.Stored {
				t.Fatalf("%+v was answered %+v, now %+v", p.o, p.answer, answers[0])
			}
			found := book.Lookup(w.view([]book.Operation{p.o}), p.o)
			if !reflect.DeepEqual(found, answers[0]) {
				t.Fatalf("looked up: %+v, asked: %+v", found, answers[0])
			}
		}
		if len(w.lines) != lines {
			t.Fatal("replays moved money")
		}
	})
}
