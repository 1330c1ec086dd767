package book_test

import (
	"fmt"
	"slices"
	"testing"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/stepkey"
)

func chart() *world {
	class := func(name names.Account, c book.Class) book.Account {
		a := account(name, 0)
		a.Class = c
		if !c.Floored() {
			a.Floor = -money.AmountMax
		}
		return a
	}
	return newWorld(class("cash", book.Asset), class("owed", book.Liability), class("fees", book.Income), class("rent", book.Expense), class("capital", book.Equity))
}

// entry posts lines given as account, delta, account, delta, ...
func entry(k names.TransferKey, lines ...any) book.Operation {
	o := op(book.Journal, k)
	o.Account, o.Amount, o.Counterparty = "", 0, ""
	var d book.Details
	for i := 0; i < len(lines); i += 2 {
		d.Lines = append(d.Lines, book.EntryLine{Account: names.Account(lines[i].(string)), Delta: money.Minor(lines[i+1].(int))})
	}
	o.Details = d.String()
	return o
}

func reversal(k names.TransferKey, of book.Operation, lines ...any) book.Operation {
	o := entry(k, lines...)
	o.Kind, o.Step = book.Reverse, book.Reverse.String()
	o.Key, o.DebitKey = key(k, o.Step), of.Key
	return o
}

func TestJournalEntries(t *testing.T) {
	w := chart()
	first := entry("1", "cash", -1000, "capital", 900, "fees", 100)
	wantEach(t, w,
		first, book.Applied,
		entry("2", "owed", -1, "cash", 1), book.InsufficientFunds, // what is owed cannot fall below zero
		entry("3", "rent", -300, "cash", 300), book.Applied,
		entry("4", "cash", -50, "owed", 50), book.Applied,
		entry("5", "owed", -50, "nobody", 50), book.AccountNotFound,
		entry("6", "owed", -50, "cash", 50), book.Applied,
	)
	for name, want := range map[names.Account]money.Minor{"cash": -700, "capital": 900, "fees": 100, "rent": -300, "owed": 0} {
		wantBalance(t, w, name, want)
	}
	if got := w.sum(book.JournalEntry); got != 0 {
		t.Errorf("the entries leave %d", got)
	}
	again := one(t, w, first)
	if !again.Replayed || again.AmountMoved != 1000 {
		t.Errorf("%+v", again)
	}
	if other := one(t, w, entry("1", "cash", -1000, "capital", 1000)); other.Outcome != book.KeyReused || !slices.Equal(other.Differing, []string{"lines"}) {
		t.Errorf("other lines under its key: %+v", other)
	}
}

func TestReversalsAreOnce(t *testing.T) {
	w := chart()
	first := entry("1", "cash", -1000, "owed", 900, "fees", 100)
	undo := []any{"cash", 1000, "owed", -900, "fees", -100}
	wantEach(t, w,
		reversal("r0", first, undo...), book.NoJournalEntry,
		first, book.Applied,
		reversal("r0", first, undo...), book.NoJournalEntry, // it sticks
		reversal("r1", first, "cash", 999, "owed", -899, "fees", -100), book.Invalid,
		reversal("r1", first, "cash", 1000, "owed", -900, "capital", -100), book.Invalid,
		reversal("r1", first, undo...), book.Applied,
		reversal("r1", first, undo...), book.Applied,
		reversal("r2", first, undo...), book.AlreadyReversed,
	)
	for _, name := range []names.Account{"cash", "owed", "fees"} {
		wantBalance(t, w, name, 0)
	}
	// What the protocol has moved cannot be reversed here, nor can a reversal.
	debit := op(book.Credit, "t")
	debit.Account = "owed"
	wantEach(t, w, debit, book.Applied,
		reversal("r3", debit, "cash", 1, "owed", -1), book.NoJournalEntry,
		reversal("r4", reversal("r1", first), undo...), book.NoJournalEntry)
}

func TestAReversalThatCannotBe(t *testing.T) {
	w := chart()
	first := entry("1", "cash", -1000, "owed", 1000)
	wantEach(t, w, first, book.Applied, entry("2", "owed", -1, "cash", 1), book.Applied,
		reversal("r", first, "cash", 1000, "owed", -1000), book.InsufficientFunds)
	wantBalance(t, w, "owed", 999)
	frozen := local(book.Freeze, "f", book.Details{})
	frozen.Account = "cash"
	wantEach(t, w, frozen, book.Applied, entry("3", "cash", -1, "owed", 1), book.AccountFrozen)
}

func TestEntriesThatCannotBe(t *testing.T) {
	many := []any{}
	for i := range book.EntryLinesMax + 1 {
		many = append(many, fmt.Sprint("a", i), 1)
	}
	for field, lines := range map[string][]any{
		"lines":            {"cash", -1, "fees", 2},
		"lines[1].amount":  {"cash", -1, "fees", 0, "owed", 1},
		"lines[0].account": {"clearing:x", -1, "fees", 1},
		"lines[1].account": {"cash", -1, "cash", 1},
	} {
		w := chart()
		a := one(t, w, entry("k", lines...))
		if a.Outcome != book.Invalid || a.Violations[0].Field != field || len(w.ops) != 0 {
			t.Errorf("%v: %d %v", lines, a.Outcome, a.Violations)
		}
	}
	for _, lines := range [][]any{{}, {"cash", -1}, many,
		{"cash", -1 << 62, "rent", -1 << 62, "owed", 1 << 62, "fees", 1 << 62}} {
		w := chart()
		if a := one(t, w, entry("k", lines...)); a.Outcome != book.Invalid || a.Violations[0].Field != "lines" || len(w.ops) != 0 {
			t.Errorf("%d lines: %d %v", len(lines)/2, a.Outcome, a.Violations)
		}
	}
}

// TestTheLargestEntryFitsIntoATransaction of 1,000 rows.
func TestTheLargestEntryFitsIntoATransaction(t *testing.T) {
	w := newWorld()
	var lines []any
	for i := range book.EntryLinesMax {
		a := account(names.Account(fmt.Sprint("a", i)), 100)
		w.accounts[a.AccountID] = a
		w.lines = append(w.lines, book.Line{Tenant: "t1", Account: a.AccountID.Account, Currency: "USD", Amount: 100},
			book.Line{Tenant: "t1", Account: book.External("start"), Currency: "USD", Amount: -100})
		lines = append(lines, fmt.Sprint("a", i), 1-i%2*2)
	}
	wantEach(t, w, entry("k", lines...), book.Applied)
	if weight := entry("k", lines...).Weight(); weight*3 > 1000 {
		t.Errorf("it weighs %d", weight)
	}
	// A key of a line that somebody took makes the whole entry somebody else's.
	stolen := op(book.Credit, "j")
	stolen.Account, stolen.Key = "a0", stepkey.Derive(stepkey.V1, "t1", "j", "journal-line-1")
	wantEach(t, w, stolen, book.Applied, entry("j", lines...), book.KeyReused)
}
