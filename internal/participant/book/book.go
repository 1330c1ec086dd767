// Package book decides what one keyed operation does to the accounts that it
// touches: its outcome, its journal lines, the new balances. It is PURE: a store
// loads the rows, calls Decide, and saves what it says in one transaction.
package book

import (
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/stepkey"
)

// Kind says what an operation does.
type Kind uint8

// The kinds. Their numbers are stored. Debit, Credit, Refund and Cancel are the
// protocol's; the others are a participant's own, keyed in the same way.
const (
	Debit    Kind = 1
	Credit   Kind = 2
	Refund   Kind = 3
	Cancel   Kind = 4 // never stored: a tombstone is stored as the kind it names
	Open     Kind = 5
	Deposit  Kind = 6
	Freeze   Kind = 7
	Close    Kind = 8
	Unfreeze Kind = 9
	Withdraw Kind = 10
	// SetTerms and SetHolder replace what was agreed for an account, and what is
	// kept about its holder.
	SetTerms  Kind = 11
	SetHolder Kind = 12
	// Release moves a refund out of suspense, once.
	Release Kind = 13
	// Journal posts an entry of several lines, each of which is stored as an operation
	// of kind JournalLine. Reverse posts the opposite of one, once.
	Journal     Kind = 14
	JournalLine Kind = 15
	Reverse     Kind = 16
	// BroughtForward is an account's line that stands for those that were archived.
	// It is the one row that changes: it grows with every batch that is archived.
	BroughtForward Kind = 17
)

// String is the kind in lower case, which is also the name of its step.
func (k Kind) String() string {
	switch k {
	case Debit:
		return stepkey.Debit
	case Credit:
		return stepkey.Credit
	case Refund:
		return stepkey.Refund
	case Cancel:
		return "cancel"
	case Open:
		return "open"
	case Deposit:
		return "deposit"
	case Freeze:
		return "freeze"
	case Close:
		return "close"
	case Unfreeze:
		return "unfreeze"
	case Withdraw:
		return "withdraw"
	case SetTerms:
		return "terms"
	case SetHolder:
		return "holder"
	case Release:
		return "release"
	case Journal:
		return "journal"
	case JournalLine:
		return "journal-line"
	case Reverse:
		return "reverse"
	case BroughtForward:
		return "brought-forward"
	}
	return "unknown"
}

// Protocol says whether the kind is one of the protocol's stored kinds.
func (k Kind) Protocol() bool { return k == Debit || k == Credit || k == Refund }

// Once says whether the kind undoes another operation, which may be done once: the
// one that DebitKey names.
func (k Kind) Once() bool { return k == Refund || k == Release || k == Reverse }

// Operation is one keyed request. Every field is contents: the same key with
// another field is KeyReused, naming the field.
type Operation struct {
	Kind        Kind
	Tenant      names.Tenant
	TransferKey names.TransferKey
	// Step is the step's name; for Cancel, that of the step to cancel.
	Step string
	// Key is zero where the request held no well-formed key.
	Key     stepkey.StepKey
	Account names.Account
	// Amount is in minor units.
	Amount   money.Minor
	Currency money.Currency
	// Counterparty is the other side's account; for Deposit and Withdraw, the
	// external account's name.
	Counterparty names.AccountRef
	// DebitKey is the debit that a Refund gives back, the refund that a Release
	// takes out of suspense, or the entry that a Reverse undoes.
	DebitKey stepkey.StepKey
	// Details is the text of the Details that only some local kinds have.
	Details string
}

// ID names an operation: keys are unique within a tenant.
type ID struct {
	Tenant names.Tenant
	Key    stepkey.StepKey
}

// ID names the operation.
func (o Operation) ID() ID { return ID{o.Tenant, o.Key} }

// DebitID names the debit that a Refund gives back, or the refund that a Release
// takes out of suspense.
func (o Operation) DebitID() ID { return ID{o.Tenant, o.DebitKey} }

// Outcome says what became of an operation.
type Outcome uint8

// The outcomes. Applied, Refused and Cancelled are stored, their numbers too;
// the others are answers that leave nothing behind. Unknown is no answer.
const (
	Unknown   Outcome = 0
	Applied   Outcome = 1
	Refused   Outcome = 2
	Cancelled Outcome = 3
	KeyReused Outcome = 4
	Invalid   Outcome = 5
	Expired   Outcome = 6
	NotFound  Outcome = 7
)

// Reason says why an operation was Refused. The numbers are stored.
type Reason uint8

// The protocol's reasons, then those of a participant's own operations.
const (
	InsufficientFunds Reason = 1
	LimitExceeded     Reason = 2
	AccountNotFound   Reason = 3
	AccountFrozen     Reason = 4
	AccountClosed     Reason = 5
	CurrencyMismatch  Reason = 6
	BalanceOverflow   Reason = 7
	AlreadyRefunded   Reason = 8
	AccountExists     Reason = 9
	BalanceNotZero    Reason = 10
	BalanceBelowFloor Reason = 11
	NotSuspended      Reason = 12
	AlreadyReleased   Reason = 13
	NoJournalEntry    Reason = 14
	AlreadyReversed   Reason = 15
)

// String is the reason's name in the API's words.
func (r Reason) String() string {
	reasons := [...]string{"", "INSUFFICIENT_FUNDS", "LIMIT_EXCEEDED", "ACCOUNT_NOT_FOUND", "ACCOUNT_FROZEN",
		"ACCOUNT_CLOSED", "CURRENCY_MISMATCH", "BALANCE_OVERFLOW", "ALREADY_REFUNDED", "ACCOUNT_EXISTS", "BALANCE_NOT_ZERO",
		"BALANCE_BELOW_FLOOR", "NOT_SUSPENDED", "ALREADY_RELEASED", "NO_JOURNAL_ENTRY", "ALREADY_REVERSED"}
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return "UNKNOWN"
}

// Stored is an operation as it stands in the books: its contents and its
// outcome. It never changes, but for a brought-forward line. A tombstone (Cancelled) holds no contents but
// tenant, transfer key, step, kind and key, and matches any.
type Stored struct {
	Operation
	Outcome Outcome
	// Reason is set when Refused.
	Reason Reason
	// AmountMoved is in minor units: the amount when Applied (0 for a refund of
	// a debit that took nothing), else 0.
	AmountMoved money.Minor
	// BalanceAfter is the account's, in minor units, when Applied.
	BalanceAfter money.Minor
	// FirstTime is the database's clock when the outcome was stored. Along the lines
	// of one account it never falls, even if the clock does.
	FirstTime time.Time
	// DebitOutcome is what had become of a Refund's debit.
	DebitOutcome Outcome
	// FirstRefundKey and FirstRefundMoved are set when AlreadyRefunded, and when
	// AlreadyReleased.
	FirstRefundKey   stepkey.StepKey
	FirstRefundMoved money.Minor
	// ToSuspense says that a Refund's money went to the suspense account; when
	// AlreadyRefunded, the first refund's.
	ToSuspense bool
	Entry
}

// Entry is the journal entry of an operation that moved money: its two sides. So
// an operation's row is its entry, and no entry can fail to balance.
type Entry struct {
	// Booked is the account that was changed; empty where nothing moved.
	Booked names.Account
	// Against is the other side, an account of the participant's own.
	Against names.Account
	// Delta is what Booked was changed by, minor units; Against by the opposite.
	Delta money.Minor
	// Seq numbers the lines of Booked from 1, in the order in which its balance
	// was changed; 0 where Booked is an account of the participant's own.
	Seq int64
}

// Sides are the two lines of the operation's entry, ordered by account; none
// where nothing moved.
func (s Stored) Sides() []Line {
	if s.Delta == 0 {
		return nil
	}
	lines := []Line{
		{Tenant: s.Tenant, Key: s.Key, Account: s.Booked, Currency: s.Currency, Amount: s.Delta},
		{Tenant: s.Tenant, Key: s.Key, Account: s.Against, Currency: s.Currency, Amount: -s.Delta},
	}
	if lines[0].Account > lines[1].Account {
		lines[0], lines[1] = lines[1], lines[0]
	}
	return lines
}

// Answer is what the participant says of one operation.
type Answer struct {
	Stored
	Replayed bool
	// Differing names the fields that differ when KeyReused.
	Differing []string
	// Violations are set when Invalid.
	Violations []Violation
}

// Violation names one malformed field.
type Violation struct{ Field, Description string }

// AccountState says what an account takes. The numbers are stored.
type AccountState uint8

// The states of an account.
const (
	StateOpen   AccountState = 1
	StateFrozen AccountState = 2
	StateClosed AccountState = 3
)

// AccountID names an account within the participant.
type AccountID struct {
	Tenant  names.Tenant
	Account names.Account
}

// Account is a client's account, whose balance is kept in a row and checked and
// changed under one lock. Balance and Floor are minor units; Balance >= Floor
// and Balance = the sum of the account's lines, at every commit.
type Account struct {
	AccountID
	Currency money.Currency
	Balance  money.Minor
	Floor    money.Minor
	State    AccountState
	// Seq is the number of its last line.
	Seq       int64
	CreatedAt time.Time
	UpdatedAt time.Time
	// DebitMax, DayMax and DayZone are Terms'.
	DebitMax, DayMax money.Minor
	DayZone          string
	// SpentOn is the day, in DayZone, on which Spent was taken; see DayMax.
	SpentOn int64
	Spent   money.Minor
	// DayFrom is the number of the last line that Spent does not count: what was
	// taken before a limit was agreed.
	DayFrom int64
	// StateReason says why it is frozen, or was unfrozen.
	StateReason string
	// Holder is what is kept about the holder, as the text of Details.
	Holder string
	// Class is its place in the chart of accounts.
	Class Class
}

// Line is one side of a journal entry. The lines of one operation sum to zero.
type Line struct {
	Tenant   names.Tenant
	Key      stepkey.StepKey
	Account  names.Account
	Currency money.Currency
	// Amount is signed, minor units; positive raises the account.
	Amount money.Minor
}

// The participant's own accounts. They have no row and no floor: their balance is
// the sum of their lines, so no two operations wait for each other there. The
// colon keeps clients from naming them.
const (
	clearingPrefix = "clearing:"
	externalPrefix = "external:"
	// Suspense takes refunds that their account cannot.
	Suspense names.Account = "suspense:refund"
	// JournalEntry is the other side of each line of a journal entry. The lines of an
	// entry sum to zero, and so it always holds nothing.
	JournalEntry names.Account = "journal:entry"
)

// Clearing is the account kept for the counterparty's participant. What it and
// its opposite there hold together is in transit.
func Clearing(p names.Participant) names.Account { return names.Account(clearingPrefix + string(p)) }

// ClearingOf is the participant that a clearing account is kept for, and false
// for any other account.
func ClearingOf(a names.Account) (names.Participant, bool) {
	if len(a) <= len(clearingPrefix) || a[:len(clearingPrefix)] != clearingPrefix {
		return "", false
	}
	return names.Participant(a[len(clearingPrefix):]), true
}

// External is the account that deposits come from.
func External(name names.Account) names.Account { return externalPrefix + name }

// Event announces one applied operation. Its row is written in the operation's
// own transaction; what it says is read from the operation, which never changes.
type Event struct {
	Tenant names.Tenant
	// ID is a pure function of tenant and key.
	ID stepkey.StepKey
	// Type is the operation's kind.
	Type string
	Key  stepkey.StepKey
	// Time is the operation's.
	Time time.Time
}
