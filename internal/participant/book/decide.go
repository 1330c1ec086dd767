package book

import (
	"slices"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/retention"
	"giro/internal/stepkey"
)

// BatchSizeMax is the most operations of one transaction. Each writes at most 3
// rows (a debit: operation, account, event; a refund of an unseen debit: two
// operations, an event), a transaction one more, and it may write 1,000 (a limit
// of the distributed engines).
const BatchSizeMax = 300

// View is what a store has loaded for one batch. Decide changes it as it goes,
// so that each operation sees what the ones before it did.
type View struct {
	// Now is the database's clock.
	Now time.Time
	// Retention is what the books hold about forgetting. It is read with Now, after
	// Operations: what is missing there because it was archived is EXPIRED by it.
	Retention retention.Books
	// Zone gives a time zone by its IANA name, or nil if it is not known here.
	Zone func(name string) *time.Location
	// Operations holds those of Keys that are stored.
	Operations map[ID]Stored
	// Refunds holds, for each of Debits that has one, the Applied refund or release.
	Refunds map[ID]Stored
	// Accounts holds those of Accounts that exist, locked.
	Accounts map[AccountID]Account
}

// Changes are the rows that a batch adds (Operations, Events), opens (Opened),
// moves money on (Changed: balance, seq, updated at) and changes otherwise too
// (Amended).
type Changes struct {
	Operations []Stored
	Opened     []Account
	Changed    []Account
	Amended    []Account
	Events     []Event
}

// Empty says that there is nothing to save.
func (c Changes) Empty() bool { return len(c.Operations) == 0 }

// distinct lists each once, in the order in which they came.
type distinct[T comparable] []T

// seen remembers them where they are many; few are looked through, which costs less.
func (distinct[T]) seen(count int) map[T]bool {
	if count <= 8 {
		return nil
	}
	return make(map[T]bool, count)
}

func (d *distinct[T]) add(one T, seen map[T]bool) {
	if seen == nil {
		if !slices.Contains(*d, one) {
			*d = append(*d, one)
		}
		return
	}
	if !seen[one] {
		seen[one] = true
		*d = append(*d, one)
	}
}

// Keys lists what a store must look up for the operations, each once: their own
// keys and the keys of the debits that refunds name.
func Keys(operations []Operation) []ID {
	ids := make(distinct[ID], 0, len(operations))
	seen := ids.seen(len(operations))
	add := func(id ID) {
		if id.Tenant.Valid() && !id.Key.IsZero() {
			ids.add(id, seen)
		}
	}
	for _, o := range operations {
		add(o.ID())
		if o.Kind.Once() {
			add(o.DebitID())
		}
		for _, id := range lineKeys(o) {
			add(id)
		}
	}
	return ids
}

// Debits lists what the operations undo: a store must look up whether that was done.
func Debits(operations []Operation) []ID {
	var ids distinct[ID]
	seen := ids.seen(len(operations))
	for _, o := range operations {
		if id := o.DebitID(); o.Kind.Once() && id.Tenant.Valid() && !o.DebitKey.IsZero() {
			ids.add(id, seen)
		}
	}
	return ids
}

// Accounts lists the accounts that a store must lock and load. Those of replays are
// left out, as far as it is given what is stored already; a store that locks before
// it looks gives nil, and locks those too.
func Accounts(operations []Operation, stored map[ID]Stored) []AccountID {
	ids := make(distinct[AccountID], 0, len(operations))
	seen := ids.seen(len(operations))
	add := func(id AccountID) {
		if id.Tenant.Valid() && id.Account.Valid() {
			ids.add(id, seen)
		}
	}
	for _, o := range operations {
		if _, known := stored[o.ID()]; known || o.Kind == Cancel {
			continue
		}
		// A refund's debit may stand earlier in the same batch; its account is
		// then that debit's, which is among the operations.
		if debit, known := stored[o.DebitID()]; o.Kind == Refund && known {
			add(AccountID{debit.Tenant, debit.Account})
			continue
		}
		if o.Kind == Journal || o.Kind == Reverse {
			for _, l := range o.details().Lines {
				add(AccountID{o.Tenant, l.Account})
			}
			continue
		}
		add(AccountID{o.Tenant, o.Account})
	}
	return ids
}

// Decide gives the answer to each operation, in order, and the rows to write.
func Decide(v *View, operations []Operation, limits Limits) ([]Answer, Changes) {
	d := decision{view: v, limits: limits, touched: map[AccountID]bool{}, opened: map[AccountID]bool{}, amended: map[AccountID]bool{}}
	answers := make([]Answer, len(operations))
	for i, o := range operations {
		answers[i] = d.answer(o)
	}
	for _, id := range d.order {
		switch {
		case d.opened[id]:
			d.changes.Opened = append(d.changes.Opened, v.Accounts[id])
		case d.amended[id]:
			d.changes.Amended = append(d.changes.Amended, v.Accounts[id])
		default:
			d.changes.Changed = append(d.changes.Changed, v.Accounts[id])
		}
	}
	return answers, d.changes
}

// Lookup gives the answer to GetOperation: like Cancel, but it leaves nothing
// behind. It reads Operations, Now and Retention.
func Lookup(v *View, o Operation) Answer {
	if o.Kind == Cancel || o.Kind == 0 {
		o.Kind = KindOfStep(o.Step)
	}
	if stored, known := v.Operations[o.ID()]; known {
		if !stored.Kind.Protocol() {
			o.Details = stored.Details // which the protocol has no field for
		}
		return replay(stored, o)
	}
	if v.Retention.Expired(o.TransferKey, v.Now) {
		return Answer{Stored: Stored{Operation: o, Outcome: Expired}}
	}
	if violations := ValidateIdentity(o); len(violations) > 0 {
		return invalid(o, violations)
	}
	return Answer{Stored: Stored{Operation: o, Outcome: NotFound}}
}

type decision struct {
	view    *View
	limits  Limits
	changes Changes
	touched map[AccountID]bool
	opened  map[AccountID]bool
	amended map[AccountID]bool
	order   []AccountID
}

func (d *decision) answer(o Operation) Answer {
	// A known key is answered before anything else is judged.
	if stored, known := d.view.Operations[o.ID()]; known {
		return replay(stored, o)
	}
	// What became of an expired key is not known any more: whatever it asks for, it
	// leaves nothing behind.
	if d.view.Retention.Expired(o.TransferKey, d.view.Now) {
		return Answer{Stored: Stored{Operation: o, Outcome: Expired}}
	}
	// Malformed is what giro can never move; a participant's own limit is a
	// definite no, which is stored.
	violations := append(ValidateIdentity(o), ValidateContents(o, DefaultLimits)...)
	if len(violations) > 0 {
		return invalid(o, violations)
	}
	switch o.Kind {
	case Cancel:
		return Answer{Stored: d.tombstone(o, KindOfStep(o.Step), o.Key)}
	case Refund:
		return d.refund(o)
	case Open:
		return d.open(o)
	case Journal:
		return d.journal(o)
	case Reverse:
		return d.reverse(o)
	}
	account, exists := d.view.Accounts[AccountID{o.Tenant, o.Account}]
	if reason := d.judge(o, account, exists); reason != 0 {
		return d.refuse(o, reason)
	}
	switch o.Kind {
	case Debit:
		return d.take(o, account, Clearing(o.Counterparty.Participant()))
	case Credit:
		return d.move(o, account, o.Amount, Clearing(o.Counterparty.Participant()))
	case Deposit:
		return d.move(o, account, o.Amount, External(names.Account(o.Counterparty)))
	case Withdraw:
		return d.take(o, account, External(names.Account(o.Counterparty)))
	case Release:
		return d.release(o, account)
	}
	at := d.view.Now
	if amended := amend(account, o); amended != account {
		at = d.amend(amended).UpdatedAt
	}
	return Answer{Stored: d.apply(at, Stored{Operation: o, BalanceAfter: account.Balance})}
}

// judge gives the reason for which an operation on an account is refused, or 0.
func (d *decision) judge(o Operation, account Account, exists bool) Reason {
	switch {
	case !exists:
		return AccountNotFound
	case account.State == StateClosed:
		return AccountClosed
	case o.Kind == Freeze || o.Kind == Unfreeze || o.Kind == SetHolder:
		return 0
	case o.Kind == SetTerms:
		if account.Balance < -o.details().Terms.Overdraft {
			return BalanceBelowFloor
		}
		return 0
	case o.Kind == Close:
		if account.Balance != 0 {
			return BalanceNotZero
		}
		return 0
	case account.State == StateFrozen:
		return AccountFrozen
	case o.Kind == Release:
		return 0
	case account.Currency != o.Currency:
		return CurrencyMismatch
	case o.Amount > d.limits.AmountMax:
		return LimitExceeded
	}
	if o.Kind == Debit || o.Kind == Withdraw {
		if account.DebitMax > 0 && o.Amount > account.DebitMax || d.overDayMax(account, o.Amount) {
			return LimitExceeded
		}
		// Both sides are within 2^62 of zero or the sum says so: no wrap.
		after, ok := money.Add(account.Balance, -o.Amount)
		if !ok || after < account.Floor {
			return InsufficientFunds
		}
		return 0
	}
	if _, ok := money.Add(account.Balance, o.Amount); !ok {
		return BalanceOverflow
	}
	return 0
}

func (d *decision) refund(o Operation) Answer {
	debit, known := d.view.Operations[o.DebitID()]
	if known {
		if fields := differingDebit(debit, o); len(fields) > 0 {
			return Answer{Stored: Stored{Operation: o, Outcome: KeyReused}, Differing: fields}
		}
	}
	if first, refunded := d.view.Refunds[o.DebitID()]; refunded {
		return Answer{Stored: d.store(d.view.Now, Stored{Operation: o, Outcome: Refused, Reason: AlreadyRefunded,
			DebitOutcome: first.DebitOutcome, FirstRefundKey: first.Key, FirstRefundMoved: first.AmountMoved,
			ToSuspense: first.ToSuspense})}
	}
	if !known {
		debit = d.tombstone(o, Debit, o.DebitKey)
	}
	refund, at := Stored{Operation: o, DebitOutcome: debit.Outcome}, d.view.Now
	if debit.Outcome == Applied {
		account := d.view.Accounts[AccountID{debit.Tenant, debit.Account}]
		refund.AmountMoved = debit.AmountMoved
		refund.Entry = Entry{Booked: Suspense, Against: Clearing(debit.Counterparty.Participant()), Delta: debit.AmountMoved}
		if _, fits := money.Add(account.Balance, debit.AmountMoved); account.State == StateClosed || !fits {
			refund.ToSuspense = true
		} else {
			account = d.giveBack(account, debit)
			account = d.book(account, &refund.Entry)
			at = account.UpdatedAt
		}
		refund.BalanceAfter = account.Balance
	}
	refund = d.apply(at, refund)
	d.view.Refunds[o.DebitID()] = refund
	return Answer{Stored: refund}
}

func (d *decision) open(o Operation) Answer {
	id := AccountID{o.Tenant, o.Account}
	if _, exists := d.view.Accounts[id]; exists {
		return d.refuse(o, AccountExists)
	}
	d.opened[id] = true
	details := o.details()
	account := Account{AccountID: id, Currency: o.Currency, State: StateOpen, CreatedAt: d.view.Now,
		Holder: Details{Holder: details.Holder}.String(), Class: details.Class}
	account.agree(details.Terms)
	account = d.put(account)
	return Answer{Stored: d.apply(account.UpdatedAt, Stored{Operation: o})}
}

// move applies an operation that changes the account by delta, against another
// account, within the participant.
func (d *decision) move(o Operation, account Account, delta money.Minor, against names.Account) Answer {
	entry := Entry{Against: against, Delta: delta}
	account = d.book(account, &entry)
	return Answer{Stored: d.apply(account.UpdatedAt,
		Stored{Operation: o, AmountMoved: o.Amount, BalanceAfter: account.Balance, Entry: entry})}
}

// book adds an entry's line to the account. That it fits was judged before.
func (d *decision) book(account Account, entry *Entry) Account {
	account.Balance += entry.Delta
	account.Seq++
	entry.Booked, entry.Seq = account.Account, account.Seq
	return d.put(account)
}

// put changes an account, or opens it if it is marked as opened.
func (d *decision) put(account Account) Account {
	if d.view.Now.After(account.UpdatedAt) {
		account.UpdatedAt = d.view.Now
	}
	d.view.Accounts[account.AccountID] = account
	if !d.touched[account.AccountID] {
		d.touched[account.AccountID] = true
		d.order = append(d.order, account.AccountID)
	}
	return account
}

func (d *decision) refuse(o Operation, reason Reason) Answer {
	return Answer{Stored: d.store(d.view.Now, Stored{Operation: o, Outcome: Refused, Reason: reason})}
}

func (d *decision) apply(at time.Time, s Stored) Stored {
	s.Outcome = Applied
	s = d.store(at, s)
	d.changes.Events = append(d.changes.Events, Event{
		Tenant: s.Tenant, ID: stepkey.Event(s.Tenant, s.Key), Type: s.Kind.String(), Key: s.Key, Time: s.FirstTime})
	return s
}

// tombstone makes a key that was never seen Cancelled for ever.
func (d *decision) tombstone(o Operation, kind Kind, key stepkey.StepKey) Stored {
	return d.store(d.view.Now, Stored{Outcome: Cancelled, Operation: Operation{
		Kind: kind, Tenant: o.Tenant, TransferKey: o.TransferKey, Step: kind.String(), Key: key}})
}

func (d *decision) store(at time.Time, s Stored) Stored {
	s.Operation = storable(s.Operation)
	s.FirstTime = at
	d.view.Operations[s.ID()] = s
	d.changes.Operations = append(d.changes.Operations, s)
	return s
}

func replay(stored Stored, asked Operation) Answer {
	if fields := Differing(stored, asked); len(fields) > 0 {
		return Answer{Stored: Stored{Operation: asked, Outcome: KeyReused}, Differing: fields}
	}
	return Answer{Stored: stored, Replayed: true}
}

func invalid(o Operation, violations []Violation) Answer {
	return Answer{Stored: Stored{Operation: o, Outcome: Invalid}, Violations: violations}
}
