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
	"giro/internal/retention"
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
	// bound), or ErrNotFound. Where lines were archived it is ErrArchived for a from or
	// a to up to the last of them, and without a from it begins after that one. What it says of them is never different later, unless
	// to lies ahead: no line is being added that would belong to them.
	Span(ctx context.Context, id book.AccountID, from, to time.Time) (Span, error)

	// Lines lists the operations behind an account's lines, in order, after the
	// given line and up to last. Where some were archived since, it is ErrArchived.
	Lines(ctx context.Context, id book.AccountID, after Place, last int64, limit int) ([]book.Stored, error)

	// Suspended lists a tenant's refunds that went to suspense, ordered by key, after
	// the given one.
	Suspended(ctx context.Context, tenant names.Tenant, after stepkey.StepKey, limit int) ([]Suspended, error)

	// TrialBalance gives the balance of every account of a tenant, the
	// participant's own included, in one snapshot, ordered by currency and
	// account, with the snapshot's time. With an instant it is as of then, that
	// instant's lines included; what is under way just now may still belong to an
	// instant of just now. It is ErrArchived for an instant before the last archived
	// line of the tenant.
	TrialBalance(ctx context.Context, tenant names.Tenant, asOf time.Time) ([]Balance, time.Time, error)

	// Identity tells the store's incarnation, new when it was created or
	// restored, and a mark that never falls while it is what it was: every batch
	// that stored anything has raised it.
	Identity(ctx context.Context) (Identity, error)

	// KeepFor sets the age at which an unknown key is EXPIRED, in whole seconds; zero:
	// never. It counts for every replica, from its commit on.
	KeepFor(ctx context.Context, horizon time.Duration) error

	// Retention tells what the books hold about forgetting, with the database's clock.
	Retention(ctx context.Context) (retention.Books, time.Time, error)

	// Report stores an orchestrator's report, in place of its last one, and gives what
	// the books then hold. ReportedAt is set by the database. Of more orchestrators than
	// retention.ReportsMax it takes none: retention.ErrReports.
	Report(ctx context.Context, report retention.Report) (retention.Books, error)

	// Reports lists the last report of each orchestrator, ordered by name.
	Reports(ctx context.Context) ([]retention.Report, error)

	// ForgetReport ends that an orchestrator's last report counts, and says whether
	// there was one.
	ForgetReport(ctx context.Context, orchestrator string) (bool, error)

	// CommitHorizon commits retention.Books.Next and gives it, or the reason why
	// nothing can be archived.
	CommitHorizon(ctx context.Context) (time.Time, error)

	// Archive takes operations off the books, in one transaction: of the limit (at most
	// book.ArchiveBatchMax) that follow the given one, by tenant and key, those that are
	// older than the committed horizon and needed no more. They are handed to keep
	// before they are deleted; where keep fails, or the process dies, all of them stay,
	// and may be handed out again.
	Archive(ctx context.Context, after book.ID, limit int, keep func([]book.Stored) error) (Archived, error)

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

// Archived is what became of one batch.
type Archived struct {
	// Next is where the next batch begins; the zero ID: there is none.
	Next book.ID
	// Seen counts the operations that were looked at, Taken those that were archived.
	Seen, Taken int
}

// ErrArchived is returned where lines were archived that would be needed. Its text is
// for the log.
type ErrArchived struct {
	// Until is the instant of the last of them: what begins later can be told.
	Until time.Time
}

func (e ErrArchived) Error() string {
	return "store: lines up to " + e.Until.Format(time.RFC3339Nano) + " were archived"
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
