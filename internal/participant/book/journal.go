package book

import (
	"fmt"
	"math/big"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/stepkey"
)

// Class is an account's place in the chart of accounts. The numbers are stored.
type Class uint8

// The classes. An account of a bank's customer has none.
const (
	Unclassed Class = 0
	Asset     Class = 1
	Liability Class = 2
	Equity    Class = 3
	Income    Class = 4
	Expense   Class = 5
)

// DebitNormal says that the class grows on the debit side: an account of it is
// below zero when it holds something.
func (c Class) DebitNormal() bool { return c == Asset || c == Expense }

// Floored says whether an account of the class may not be overdrawn unless that was
// agreed. What is owed to others may not; the others measure, and go both ways.
func (c Class) Floored() bool { return c == Unclassed || c == Liability }

// EntryLine is one line of a journal entry. Delta is signed, minor units: positive
// is a credit, negative a debit.
type EntryLine struct {
	Account names.Account `json:"account"`
	Delta   money.Minor   `json:"delta"`
}

// EntryLinesMax is the most lines of one entry.
const EntryLinesMax = 100

// EntryLines gives the lines of a journal entry.
func (o Operation) EntryLines() ([]EntryLine, error) {
	lines := o.details().Lines
	if len(lines) == 0 {
		return nil, fmt.Errorf("book: %s %s has no lines", o.Kind, o.Key)
	}
	return lines, nil
}

// Weight is an operation's share of BatchSizeMax: by the rows that it writes.
func (o Operation) Weight() int {
	if o.Kind != Journal && o.Kind != Reverse {
		return 1
	}
	return 1 + len(o.details().Lines)*2/3 + 1
}

// validateLines judges a journal entry by itself: two lines or more, no account
// twice, nothing of zero, and all of it sums to zero.
func validateLines(lines []EntryLine) []Violation {
	if len(lines) < 2 || len(lines) > EntryLinesMax {
		return []Violation{{"lines", fmt.Sprintf("must be 2 to %d", EntryLinesMax)}}
	}
	var v []Violation
	sum, credits, seen := new(big.Int), new(big.Int), map[names.Account]bool{}
	for i, l := range lines {
		switch {
		case !l.Account.Valid():
			v = append(v, Violation{fmt.Sprintf("lines[%d].account", i), "must be " + names.PartGrammar})
		case seen[l.Account]:
			v = append(v, Violation{fmt.Sprintf("lines[%d].account", i), "must not stand twice in one entry"})
		}
		if l.Delta == 0 || l.Delta < -money.AmountMax || l.Delta > money.AmountMax {
			v = append(v, Violation{fmt.Sprintf("lines[%d].amount", i), "must be 1 to 2^62, in minor units"})
		}
		seen[l.Account] = true
		sum.Add(sum, big.NewInt(int64(l.Delta)))
		credits.Add(credits, big.NewInt(int64(max(l.Delta, 0))))
	}
	if credits.Cmp(big.NewInt(int64(money.AmountMax))) > 0 {
		v = append(v, Violation{"lines", "must move 2^62 at most together, in minor units"})
	}
	if sum.Sign() != 0 {
		v = append(v, Violation{"lines", "must balance: debits and credits differ by " + sum.Abs(sum).String() + " minor units"})
	}
	return v
}

// lineKey is the key under which a line of an entry is stored.
func lineKey(o Operation, line int) stepkey.StepKey {
	return stepkey.Derive(stepkey.V1, o.Tenant, o.TransferKey, fmt.Sprintf("%s-line-%d", o.Kind, line))
}

// lineKeys lists the keys of an entry's lines.
func lineKeys(o Operation) []ID {
	if o.Kind != Journal && o.Kind != Reverse {
		return nil
	}
	lines := o.details().Lines
	ids := make([]ID, 0, min(len(lines), EntryLinesMax))
	for i := range cap(ids) {
		ids = append(ids, ID{o.Tenant, lineKey(o, i)})
	}
	return ids
}

// journal posts an entry.
func (d *decision) journal(o Operation) Answer {
	lines := o.details().Lines
	for i, l := range lines {
		if _, taken := d.view.Operations[ID{o.Tenant, lineKey(o, i)}]; taken {
			return Answer{Stored: Stored{Operation: o, Outcome: KeyReused}, Differing: []string{"transfer_key"}}
		}
		account, exists := d.view.Accounts[AccountID{o.Tenant, l.Account}]
		if reason := judgeLine(o, l, account, exists); reason != 0 {
			return d.refuse(o, reason)
		}
	}
	at, moved := d.view.Now, money.Minor(0)
	for i, l := range lines {
		account := d.view.Accounts[AccountID{o.Tenant, l.Account}]
		entry := Entry{Against: JournalEntry, Delta: l.Delta}
		account = d.book(account, &entry)
		amount := max(l.Delta, -l.Delta)
		line := Operation{Kind: JournalLine, Tenant: o.Tenant, TransferKey: o.TransferKey, Step: JournalLine.String(),
			Key: lineKey(o, i), Account: l.Account, Amount: amount, Currency: o.Currency}
		d.store(account.UpdatedAt, Stored{Operation: line, Outcome: Applied, AmountMoved: amount, BalanceAfter: account.Balance, Entry: entry})
		if account.UpdatedAt.After(at) {
			at = account.UpdatedAt
		}
		if l.Delta > 0 {
			moved += l.Delta // at most AmountMax, which was judged before
		}
	}
	return Answer{Stored: d.apply(at, Stored{Operation: o, AmountMoved: moved})}
}

// judgeLine gives the reason for which a line is refused, and with it the entry.
func judgeLine(o Operation, l EntryLine, account Account, exists bool) Reason {
	switch {
	case !exists:
		return AccountNotFound
	case account.State == StateClosed:
		return AccountClosed
	case account.State == StateFrozen:
		return AccountFrozen
	case account.Currency != o.Currency:
		return CurrencyMismatch
	}
	after, fits := money.Add(account.Balance, l.Delta)
	switch {
	case !fits:
		return BalanceOverflow
	case after < account.Floor && !account.Class.Floored():
		return BalanceOverflow
	case after < account.Floor:
		return InsufficientFunds
	}
	return 0
}

// reverse posts the opposite of an entry.
func (d *decision) reverse(o Operation) Answer {
	entry, known := d.view.Operations[o.DebitID()]
	if !known || entry.Kind != Journal || entry.Outcome != Applied {
		return d.refuse(o, NoJournalEntry)
	}
	if first, reversed := d.view.Refunds[o.DebitID()]; reversed {
		return Answer{Stored: d.store(d.view.Now, Stored{Operation: o, Outcome: Refused, Reason: AlreadyReversed,
			FirstRefundKey: first.Key, FirstRefundMoved: first.AmountMoved})}
	}
	given, lines := o.details().Lines, entry.details().Lines
	same := len(given) == len(lines) && o.Currency == entry.Currency
	for i := 0; same && i < len(lines); i++ {
		same = given[i] == EntryLine{lines[i].Account, -lines[i].Delta}
	}
	if !same {
		return invalid(o, []Violation{{"lines", "must be the opposite of the entry's"}})
	}
	answer := d.journal(o)
	if answer.Outcome == Applied {
		d.view.Refunds[o.DebitID()] = answer.Stored
	}
	return answer
}
