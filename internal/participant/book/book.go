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
	}
	return "unknown"
}

// Protocol says whether the kind is one of the protocol's stored kinds.
func (k Kind) Protocol() bool { return k == Debit || k == Credit || k == Refund }

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
	// Counterparty is the other side's account; for Deposit, the external
	// account's name.
	Counterparty names.AccountRef
	// DebitKey is the debit that a Refund gives back.
	DebitKey stepkey.StepKey
}

// ID names an operation: keys are unique within a tenant.
type ID struct {
	Tenant names.Tenant
	Key    stepkey.StepKey
}

// ID names the operation.
func (o Operation) ID() ID { return ID{o.Tenant, o.Key} }

// DebitID names the debit that a Refund gives back.
func (o Operation) DebitID() ID { return ID{o.Tenant, o.DebitKey} }

// Outcome says what became of an operation.
type Outcome uint8

// The outcomes. Applied, Refused and Cancelled are stored, their numbers too;
// the others are answers that leave nothing behind.
const (
	Applied   Outcome = 1
	Refused   Outcome = 2
	Cancelled Outcome = 3
	KeyReused Outcome = 4
	Invalid   Outcome = 5
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
)

// String is the reason's name in the API's words.
func (r Reason) String() string {
	reasons := [...]string{"", "INSUFFICIENT_FUNDS", "LIMIT_EXCEEDED", "ACCOUNT_NOT_FOUND", "ACCOUNT_FROZEN",
		"ACCOUNT_CLOSED", "CURRENCY_MISMATCH", "BALANCE_OVERFLOW", "ALREADY_REFUNDED", "ACCOUNT_EXISTS", "BALANCE_NOT_ZERO"}
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return "UNKNOWN"
}

// Stored is an operation as it stands in the books: its contents and its
// outcome. It never changes. A tombstone (Cancelled) holds no contents but
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
	// FirstTime is the database's clock when the outcome was stored.
	FirstTime time.Time
	// DebitOutcome is what had become of a Refund's debit.
	DebitOutcome Outcome
	// FirstRefundKey and FirstRefundMoved are set when AlreadyRefunded.
	FirstRefundKey   stepkey.StepKey
	FirstRefundMoved money.Minor
	// ToSuspense says that a Refund's money went to the suspense account.
	ToSuspense bool
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
	Currency  money.Currency
	Balance   money.Minor
	Floor     money.Minor
	State     AccountState
	CreatedAt time.Time
	UpdatedAt time.Time
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
}
