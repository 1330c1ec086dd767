package book

import (
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/stepkey"
)

// BatchSizeMax is the most operations of one transaction. Each writes at most 6
// rows (a refund: two operations, two lines, an account, an event), and a transaction
// may write 1,000 (a limit of the distributed engines).
const BatchSizeMax = 128

// View is what a store has loaded for one batch. Decide changes it as it goes,
// so that each operation sees what the ones before it did.
type View struct {
	// Now is the database's clock.
	Now time.Time
	// Operations holds those of Keys that are stored.
	Operations map[ID]Stored
	// Refunds holds the Applied refund of each of Debits that has one.
	Refunds map[ID]Stored
	// Accounts holds those of Accounts that exist, locked.
	Accounts map[AccountID]Account
}

// Changes are the rows that a batch adds (Operations, Lines, Events), opens
// (Opened) and changes (Changed: balance, state, updated at).
type Changes struct {
	Operations []Stored
	Lines      []Line
	Opened     []Account
	Changed    []Account
	Events     []Event
}

// Empty says that there is nothing to save.
func (c Changes) Empty() bool { return len(c.Operations) == 0 }

// Keys lists what a store must look up for the operations, each once: their own
// keys and the keys of the debits that refunds name.
func Keys(operations []Operation) []ID {
	seen := make(map[ID]bool, len(operations))
	var ids []ID
	add := func(id ID) {
		if id.Tenant.Valid() && !id.Key.IsZero() && !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	for _, o := range operations {
		add(o.ID())
		if o.Kind == Refund {
			add(o.DebitID())
		}
	}
	return ids
}

// Debits lists the debits whose refund, if any, a store must look up.
func Debits(operations []Operation) []ID {
	seen := map[ID]bool{}
	var ids []ID
	for _, o := range operations {
		if id := o.DebitID(); o.Kind == Refund && id.Tenant.Valid() && !o.DebitKey.IsZero() && !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

// Accounts lists the accounts that a store must lock and load, given the
// operations that are stored already: replays lock nothing.
func Accounts(operations []Operation, stored map[ID]Stored) []AccountID {
	seen := map[AccountID]bool{}
	var ids []AccountID
	add := func(id AccountID) {
		if id.Tenant.Valid() && id.Account.Valid() && !seen[id] {
			seen[id] = true
			ids = append(ids, id)
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
		add(AccountID{o.Tenant, o.Account})
	}
	return ids
}

// Decide gives the answer to each operation, in order, and the rows to write.
func Decide(v *View, operations []Operation, limits Limits) ([]Answer, Changes) {
	d := decision{view: v, limits: limits, touched: map[AccountID]bool{}, opened: map[AccountID]bool{}}
	answers := make([]Answer, len(operations))
	for i, o := range operations {
		answers[i] = d.answer(o)
	}
	for _, id := range d.order {
		if d.opened[id] {
			d.changes.Opened = append(d.changes.Opened, v.Accounts[id])
		} else {
			d.changes.Changed = append(d.changes.Changed, v.Accounts[id])
		}
	}
	return answers, d.changes
}

// Lookup gives the answer to GetOperation: like Cancel, but it leaves nothing
// behind.
func Lookup(v *View, o Operation) Answer {
	if o.Kind == Cancel || o.Kind == 0 {
		o.Kind = kindOfStep(o.Step)
	}
	if stored, known := v.Operations[o.ID()]; known {
		return replay(stored, o)
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
	order   []AccountID
}

func (d *decision) answer(o Operation) Answer {
	// A known key is answered before anything else is judged.
	if stored, known := d.view.Operations[o.ID()]; known {
		return replay(stored, o)
	}
	// Malformed is what giro can never move; a participant's own limit is a
	// definite no, which is stored.
	violations := append(ValidateIdentity(o), ValidateContents(o, DefaultLimits)...)
	if len(violations) > 0 {
		return invalid(o, violations)
	}
	switch o.Kind {
	case Cancel:
		return Answer{Stored: d.tombstone(o, kindOfStep(o.Step), o.Key)}
	case Refund:
		return d.refund(o)
	case Open:
		return d.open(o)
	}
	account, exists := d.view.Accounts[AccountID{o.Tenant, o.Account}]
	if reason := d.judge(o, account, exists); reason != 0 {
		return d.refuse(o, reason)
	}
	was := account.State
	switch o.Kind {
	case Debit:
		return d.move(o, account, -o.Amount, Clearing(o.Counterparty.Participant()))
	case Credit:
		return d.move(o, account, o.Amount, Clearing(o.Counterparty.Participant()))
	case Deposit:
		return d.move(o, account, o.Amount, External(names.Account(o.Counterparty)))
	case Freeze:
		account.State = StateFrozen
	case Unfreeze:
		account.State = StateOpen
	case Close:
		account.State = StateClosed
	}
	if account.State != was {
		d.put(account)
	}
	return Answer{Stored: d.apply(Stored{Operation: o, BalanceAfter: account.Balance})}
}

// judge gives the reason for which an operation on an account is refused, or 0.
func (d *decision) judge(o Operation, account Account, exists bool) Reason {
	switch {
	case !exists:
		return AccountNotFound
	case account.State == StateClosed:
		return AccountClosed
	case o.Kind == Freeze || o.Kind == Unfreeze:
		return 0
	case o.Kind == Close:
		if account.Balance != 0 {
			return BalanceNotZero
		}
		return 0
	case account.State == StateFrozen:
		return AccountFrozen
	case account.Currency != o.Currency:
		return CurrencyMismatch
	case o.Amount > d.limits.AmountMax:
		return LimitExceeded
	}
	if o.Kind == Debit {
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
		return Answer{Stored: d.store(Stored{Operation: o, Outcome: Refused, Reason: AlreadyRefunded,
			DebitOutcome: first.DebitOutcome, FirstRefundKey: first.Key, FirstRefundMoved: first.AmountMoved})}
	}
	if !known {
		debit = d.tombstone(o, Debit, o.DebitKey)
	}
	refund := Stored{Operation: o, DebitOutcome: debit.Outcome}
	if debit.Outcome == Applied {
		id := AccountID{debit.Tenant, debit.Account}
		account := d.view.Accounts[id]
		after, fits := money.Add(account.Balance, debit.AmountMoved)
		to := debit.Account
		if account.State == StateClosed || !fits {
			to, refund.ToSuspense = Suspense, true
		} else {
			account.Balance = after
			d.put(account)
		}
		refund.AmountMoved, refund.BalanceAfter = debit.AmountMoved, account.Balance
		d.lines(o.Key, debit.Operation, to, debit.AmountMoved, Clearing(debit.Counterparty.Participant()))
	}
	refund = d.apply(refund)
	d.view.Refunds[o.DebitID()] = refund
	return Answer{Stored: refund}
}

func (d *decision) open(o Operation) Answer {
	id := AccountID{o.Tenant, o.Account}
	if _, exists := d.view.Accounts[id]; exists {
		return d.refuse(o, AccountExists)
	}
	d.opened[id] = true
	d.put(Account{AccountID: id, Currency: o.Currency, State: StateOpen, CreatedAt: d.view.Now})
	return Answer{Stored: d.apply(Stored{Operation: o})}
}

// move applies an operation that changes the account by delta, against another
// account, within the participant.
func (d *decision) move(o Operation, account Account, delta money.Minor, against names.Account) Answer {
	account.Balance += delta // judged before: it cannot wrap
	d.put(account)
	d.lines(o.Key, o, o.Account, delta, against)
	return Answer{Stored: d.apply(Stored{Operation: o, AmountMoved: o.Amount, BalanceAfter: account.Balance})}
}

// lines adds an entry of two sides that sum to zero.
func (d *decision) lines(key stepkey.StepKey, o Operation, account names.Account, delta money.Minor, against names.Account) {
	line := Line{Tenant: o.Tenant, Key: key, Account: account, Currency: o.Currency, Amount: delta}
	other := line
	other.Account, other.Amount = against, -delta
	d.changes.Lines = append(d.changes.Lines, line, other)
}

// put changes an account, or opens it if it is marked as opened.
func (d *decision) put(account Account) {
	account.UpdatedAt = d.view.Now
	d.view.Accounts[account.AccountID] = account
	if !d.touched[account.AccountID] {
		d.touched[account.AccountID] = true
		d.order = append(d.order, account.AccountID)
	}
}

func (d *decision) refuse(o Operation, reason Reason) Answer {
	return Answer{Stored: d.store(Stored{Operation: o, Outcome: Refused, Reason: reason})}
}

func (d *decision) apply(s Stored) Stored {
	s.Outcome = Applied
	s = d.store(s)
	d.changes.Events = append(d.changes.Events, Event{
		Tenant: s.Tenant, ID: stepkey.Event(s.Tenant, s.Key), Type: s.Kind.String(), Key: s.Key})
	return s
}

// tombstone makes a key that was never seen Cancelled for ever.
func (d *decision) tombstone(o Operation, kind Kind, key stepkey.StepKey) Stored {
	return d.store(Stored{Outcome: Cancelled, Operation: Operation{
		Kind: kind, Tenant: o.Tenant, TransferKey: o.TransferKey, Step: kind.String(), Key: key}})
}

func (d *decision) store(s Stored) Stored {
	s.Operation = storable(s.Operation)
	s.FirstTime = d.view.Now
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
