// Package local holds the calls that a service makes on its own books, in the way
// of the protocol: every change has a key, a refusal sticks, a replay is answered
// again. Services share it; their APIs have own messages.
package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/rpc"
	"giro/internal/stepkey"
)

// ReasonKeyReused is the reason of an error that names the fields in which a
// request differs from the one that its key stands for.
const ReasonKeyReused = "OPERATION_KEY_REUSED"

// Books are one participant's, for its own calls. All methods take the tenant from
// the caller's principal and give errors of package rpc.
type Books struct{ engine *participant.Engine }

// New makes books over an engine.
func New(engine *participant.Engine) Books { return Books{engine: engine} }

// Change is what a keyed call did.
type Change struct {
	// Account as it now stands, which for a replay may be later than the change.
	Account book.Account
	// BalanceAfter is the account's right after the change, and Moved what moved,
	// minor units.
	BalanceAfter, Moved money.Minor
	// Replayed says that the change was made by an earlier call.
	Replayed bool
	// FirstTime is when it was made, by the database's clock.
	FirstTime time.Time
}

// Open opens an account, with terms and a holder if details give them.
func (b Books) Open(ctx context.Context, key, account, currency string, details book.Details) (Change, error) {
	return b.detailed(ctx, key, book.Operation{Kind: book.Open, Account: names.Account(account), Currency: money.Currency(currency)}, details)
}

// Deposit brings amount, minor units, in from an external account.
func (b Books) Deposit(ctx context.Context, key, account string, amount int64, currency, external string) (Change, error) {
	return b.change(ctx, key, book.Operation{Kind: book.Deposit, Account: names.Account(account),
		Amount: money.Minor(amount), Currency: money.Currency(currency), Counterparty: names.AccountRef(external)})
}

// Withdraw pays amount, minor units, out to an external account.
func (b Books) Withdraw(ctx context.Context, key, account string, amount int64, currency, external string) (Change, error) {
	return b.change(ctx, key, book.Operation{Kind: book.Withdraw, Account: names.Account(account),
		Amount: money.Minor(amount), Currency: money.Currency(currency), Counterparty: names.AccountRef(external)})
}

// SetTerms replaces what was agreed for an account.
func (b Books) SetTerms(ctx context.Context, key, account string, terms book.Terms) (Change, error) {
	return b.detailed(ctx, key, book.Operation{Kind: book.SetTerms, Account: names.Account(account)}, book.Details{Terms: terms})
}

// SetHolder replaces what is kept about an account's holder.
func (b Books) SetHolder(ctx context.Context, key, account string, holder map[string]string) (Change, error) {
	return b.detailed(ctx, key, book.Operation{Kind: book.SetHolder, Account: names.Account(account)}, book.Details{Holder: holder})
}

// Freeze stops debits and credits; refunds still arrive.
func (b Books) Freeze(ctx context.Context, key, account, reason string) (Change, error) {
	return b.detailed(ctx, key, book.Operation{Kind: book.Freeze, Account: names.Account(account)}, book.Details{Reason: reason})
}

// Unfreeze ends a freeze.
func (b Books) Unfreeze(ctx context.Context, key, account, reason string) (Change, error) {
	return b.detailed(ctx, key, book.Operation{Kind: book.Unfreeze, Account: names.Account(account)}, book.Details{Reason: reason})
}

// Close ends an account whose balance is zero.
func (b Books) Close(ctx context.Context, key, account string) (Change, error) {
	return b.change(ctx, key, book.Operation{Kind: book.Close, Account: names.Account(account)})
}

// Get loads one account.
func (b Books) Get(ctx context.Context, account string) (book.Account, error) {
	return b.load(ctx, book.AccountID{Tenant: rpc.PrincipalFrom(ctx).Tenant, Account: names.Account(account)})
}

// List gives a page of the tenant's accounts by name, with the next page's token.
func (b Books) List(ctx context.Context, pageSize int32, pageToken string) ([]book.Account, string, error) {
	tenant := rpc.PrincipalFrom(ctx).Tenant
	limit, err := rpc.PageSize(pageSize)
	if err != nil {
		return nil, "", err
	}
	scope := "accounts/" + string(tenant)
	place, err := rpc.ParsePageToken(pageToken, scope, 1)
	if err != nil {
		return nil, "", err
	}
	after := names.Account(place[0])
	if pageToken != "" && !after.Valid() {
		return nil, "", rpc.InvalidPageToken()
	}
	accounts, err := b.engine.Store().Accounts(ctx, tenant, after, limit)
	if err != nil {
		return nil, "", rpc.Unanswered(ctx, err)
	}
	if len(accounts) < limit {
		return accounts, "", nil
	}
	return accounts, rpc.PageToken(scope, string(accounts[limit-1].Account)), nil
}

// detailed is change for an operation with details. A zone that does not exist is
// refused here, since the book knows no zones.
func (b Books) detailed(ctx context.Context, key string, o book.Operation, details book.Details) (Change, error) {
	if zone := details.Terms.DayZone; zone != "" && store.Zone(zone) == nil {
		return Change{}, rpc.InvalidArgument([]rpc.Violation{{Field: "terms.day_zone", Description: "must be the IANA name of a time zone, such as Europe/Berlin"}})
	}
	o.Details = details.String()
	return b.change(ctx, key, o)
}

// change carries out one operation of the service's own on one account.
func (b Books) change(ctx context.Context, key string, o book.Operation) (Change, error) {
	a, err := b.apply(ctx, key, &o)
	if err != nil {
		return Change{}, err
	}
	account, err := b.load(ctx, book.AccountID{Tenant: o.Tenant, Account: o.Account})
	if err != nil {
		return Change{}, err
	}
	return Change{Account: account, BalanceAfter: a.BalanceAfter, Moved: a.AmountMoved, Replayed: a.Replayed, FirstTime: a.FirstTime}, nil
}

// apply asks the book. The operation's key is derived like a transfer's steps, from
// the client's key and the step's name alone.
func (b Books) apply(ctx context.Context, key string, o *book.Operation) (book.Answer, error) {
	o.Tenant = rpc.PrincipalFrom(ctx).Tenant
	o.TransferKey = names.TransferKey(key)
	o.Step = o.Kind.String()
	o.Key = stepkey.Derive(stepkey.V1, o.Tenant, o.TransferKey, o.Step)
	answers, err := b.engine.Apply(ctx, []book.Operation{*o})
	if err != nil {
		return book.Answer{}, rpc.Unanswered(ctx, err)
	}
	if answers[0].Outcome != book.Applied {
		return book.Answer{}, b.refusal(*o, answers[0])
	}
	return answers[0], nil
}

func (b Books) load(ctx context.Context, id book.AccountID) (book.Account, error) {
	account, err := b.engine.Store().Account(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return book.Account{}, notFound(id.Account, "")
	}
	if err != nil {
		return book.Account{}, rpc.Unanswered(ctx, err)
	}
	return account, nil
}

func notFound(account names.Account, hint string) error {
	return rpc.NotFound(book.AccountNotFound.String(), fmt.Sprintf("there is no account %q; nothing was done%s", account, hint))
}

// sticks tells the caller of a refusal what to do next.
const sticks = ". This key keeps this answer: when the reason is gone, try again with a new key"

// refusal gives the error for an answer that is not Applied.
func (b Books) refusal(o book.Operation, a book.Answer) error {
	switch a.Outcome {
	case book.Invalid:
		var list []rpc.Violation
		for _, v := range a.Violations {
			list = append(list, rpc.Violation{Field: field(o.Kind, v.Field), Description: v.Description})
		}
		return rpc.InvalidArgument(list)
	case book.KeyReused:
		var fields []string
		for _, f := range a.Differing {
			fields = append(fields, field(o.Kind, f))
		}
		slices.Sort(fields)
		fields = slices.Compact(fields)
		return rpc.AlreadyExists(ReasonKeyReused, fmt.Sprintf("this key stands for another request, which differs in %s; nothing was done. "+
			"Send the first request again to see its answer, or take a new key for this one", strings.Join(fields, ", ")), fields)
	case book.Refused:
		return refused(o, a.Reason)
	case book.Expired:
		return rpc.FailedPrecondition(rpc.ReasonKeyExpired, "this key's own time is older than keys are kept here, or lies ahead of the clock; nothing was done by this call. "+
			"What became of an old key is not known any more: look at the account before anything is done under another key")
	}
	// A tombstone: somebody cancelled this very key at the participant's own edge.
	return rpc.FailedPrecondition("CANCELLED", "this key was cancelled; nothing was done and nothing ever will be under it: take a new key")
}

func refused(o book.Operation, reason book.Reason) error {
	account := fmt.Sprintf("account %q", o.Account)
	if o.Kind == book.Journal || o.Kind == book.Reverse {
		account = "an account of the entry"
	}
	var words string
	switch reason {
	case book.AccountExists:
		return rpc.AlreadyExists(reason.String(), account+" exists already; nothing was done"+sticks, nil)
	case book.AccountNotFound:
		if o.Account == "" {
			return rpc.NotFound(reason.String(), "an account of the entry does not exist; nothing was done"+sticks)
		}
		return notFound(o.Account, sticks)
	case book.AccountFrozen:
		words = " is frozen"
	case book.AccountClosed:
		words = " is closed"
	case book.BalanceNotZero:
		words = " is open and its balance is not zero: move the money out before it is closed"
	case book.CurrencyMismatch:
		if o.Currency == "" {
			words = " is kept in another currency"
			break
		}
		words = " is kept in a currency other than " + string(o.Currency)
	case book.BalanceOverflow:
		words = " would hold more than a balance can"
	case book.LimitExceeded:
		words = " does not allow such an amount at once, or not on this day any more"
	case book.InsufficientFunds:
		words = " has not enough money"
	case book.BalanceBelowFloor:
		words = " owes more than that overdraft would allow"
	case book.NotSuspended:
		return rpc.FailedPrecondition(reason.String(), "there is no suspended refund under this refund key; nothing was done"+sticks)
	case book.NoJournalEntry:
		return rpc.FailedPrecondition(reason.String(), "there is no such journal entry, or it was refused; nothing was done"+sticks)
	case book.AlreadyReversed:
		return rpc.FailedPrecondition(reason.String(), "this journal entry was reversed before; nothing was done"+sticks)
	case book.AlreadyReleased:
		return rpc.FailedPrecondition(reason.String(), "this refund was released from suspense before; nothing was done"+sticks)
	default:
		words = " does not allow it (" + reason.String() + ")"
	}
	return rpc.FailedPrecondition(reason.String(), account+words+"; nothing was done"+sticks)
}

// field is what the services' APIs call a field of the book.
func field(kind book.Kind, name string) string {
	switch {
	case name == "transfer_key" || name == "step" || name == "kind":
		return "key"
	case name == "counterparty" && (kind == book.Deposit || kind == book.Withdraw):
		return "external"
	case name == "debit_key" && kind == book.Reverse:
		return "entry_key"
	case name == "debit_key":
		return "refund_key"
	case name == "class":
		return "type"
	case name == "overdraft" || name == "debit_max" || name == "day_max" || name == "day_zone":
		return "terms." + name
	}
	return name
}
