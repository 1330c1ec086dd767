// Package store is what a participant asks of a database: load, let the book
// decide, save, in one transaction. Three implementations run one suite.
package store

import (
	"context"
	"errors"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/stepkey"
)

// ErrTransient marks errors after which the same batch is run again: lost races,
// serialization failures, deadlocks, lost connections, and a COMMIT whose answer
// was lost. Running it again is always safe: what was done replays.
var ErrTransient = errors.New("store: run the batch again")

// ErrNotFound is returned where an account or an operation does not exist.
var ErrNotFound = errors.New("store: not found")

// WorkersDefault is how many transactions one engine has under way unless it is
// told otherwise. A store keeps a connection for each of them, and one more.
const WorkersDefault = 2

// Store keeps one participant's books. All methods are safe for concurrent use.
type Store interface {
	// Apply runs one batch of at most book.BatchSizeMax operations as one
	// transaction: it loads what book.Keys, book.Debits and book.Accounts name,
	// lets book.Decide answer, and saves the changes with their events. It tries
	// once; see ErrTransient. Where ctx ends before anything was begun, that is
	// transient too. An answer is given only after COMMIT.
	Apply(ctx context.Context, operations []book.Operation, limits book.Limits) ([]book.Answer, error)

	// Lookup answers GetOperation (book.Lookup), from where writes are durable.
	Lookup(ctx context.Context, operation book.Operation) (book.Answer, error)

	// Operation loads what is stored under a key, or ErrNotFound.
	Operation(ctx context.Context, id book.ID) (book.Stored, error)

	// Operations lists what is stored, ordered by tenant and key, after the given
	// place (zero: from the start). Tenant empty: all tenants.
	Operations(ctx context.Context, tenant names.Tenant, after book.ID, limit int) ([]Listed, error)

	// Sums adds up the books in one snapshot. Tenant empty: all tenants.
	Sums(ctx context.Context, tenant names.Tenant) (Sums, error)

	// Account loads one account, or ErrNotFound.
	Account(ctx context.Context, id book.AccountID) (book.Account, error)

	// Accounts lists a tenant's accounts by name, after the given one.
	Accounts(ctx context.Context, tenant names.Tenant, after names.Account, limit int) ([]book.Account, error)

	// Span finds the lines of an account whose time is from <= time < to (zero: no
	// bound), or ErrNotFound. What it says of them is never different later, unless
	// to lies ahead: no line is being added that would belong to them.
	Span(ctx context.Context, id book.AccountID, from, to time.Time) (Span, error)

	// Lines lists the operations behind an account's lines, in order, after the
	// given line and up to last.
	Lines(ctx context.Context, id book.AccountID, after Place, last int64, limit int) ([]book.Stored, error)

	// Suspended lists a tenant's refunds that went to suspense, ordered by key, after
	// the given one.
	Suspended(ctx context.Context, tenant names.Tenant, after stepkey.StepKey, limit int) ([]Suspended, error)

	// TrialBalance gives the balance of every account of a tenant, the
	// participant's own included, in one snapshot, ordered by currency and
	// account, with the snapshot's time. With an instant it is as of then, that
	// instant's lines included; what is under way just now may still belong to an
	// instant of just now.
	TrialBalance(ctx context.Context, tenant names.Tenant, asOf time.Time) ([]Balance, time.Time, error)

	// Identity tells the store's incarnation, new when it was created or
	// restored, and a mark that never falls while it is what it was: every batch
	// that stored anything has raised it.
	Identity(ctx context.Context) (Identity, error)

	// Claim makes the books the participant's if they are nobody's yet, and tells
	// whose they are. They never change hands.
	Claim(ctx context.Context, name names.Participant) (names.Participant, error)

	Close() error
}

// Listed is a stored operation with its journal lines.
type Listed struct {
	book.Stored
	Lines []book.Line
}

// Suspended is a refund in suspense.
type Suspended struct {
	book.Stored
	// ReleasedTo is the account that it was moved to; empty while it is there.
	ReleasedTo names.Account
}

// Span is a run of an account's lines.
type Span struct {
	Account book.Account
	// Opening is the balance before the first line, Closing that after the last,
	// minor units; both are the same where there is none.
	Opening, Closing money.Minor
	// Before is the line before the first, Last the number of the last; Last is
	// Before.Seq where there is none.
	Before Place
	Last   int64
}

// Place is that of a line within its account's. Time and number grow together.
type Place struct {
	Time time.Time
	Seq  int64
}

// Identity tells one store from an older copy of it.
type Identity struct {
	Incarnation   string
	HighWaterMark int64
}

// Sums are the books added up. Totals are decimal text in minor units: a sum of
// many 64-bit amounts may not fit 64 bits.
type Sums struct {
	// Currencies is ordered by tenant and currency.
	Currencies []CurrencySum
	// Clearing is ordered by tenant, currency and participant.
	Clearing []ClearingSum
	// Faults holds at most FaultsMax accounts whose balance is not the sum of
	// their lines or is below their floor.
	Faults         []AccountFault
	OperationCount int64
}

// FaultsMax bounds Sums.Faults.
const FaultsMax = 100

// CurrencySum is zero in sound books.
type CurrencySum struct {
	Tenant   names.Tenant
	Currency money.Currency
	// Total adds the balances of the accounts that have a row and the lines of
	// those that have none.
	Total string
	// AccountCount counts the accounts that have a row.
	AccountCount int64
}

// ClearingSum is one clearing account's balance.
type ClearingSum struct {
	Tenant      names.Tenant
	Currency    money.Currency
	Participant names.Participant
	Balance     string
}

// AccountFault is an account that breaks an invariant.
type AccountFault struct {
	book.Account
	Lines string
}

// Balance is one account in a trial balance, decimal text, signed.
type Balance struct {
	Account names.Account
	// Class is the account's; Unclassed for those of the participant's own.
	Class    book.Class
	Currency money.Currency
	Balance  string
}
