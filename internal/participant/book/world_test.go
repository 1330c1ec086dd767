package book_test

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/stepkey"
)

// world is the simplest store: it loads no more than the book asks for, saves
// what the book says, and complains where a database's constraints would.
type world struct {
	now      time.Time
	limits   book.Limits
	ops      map[book.ID]book.Stored
	refunds  map[book.ID]book.Stored
	accounts map[book.AccountID]book.Account
	lines    []book.Line
	events   map[stepkey.StepKey]book.Event
	// last is each account's last line.
	last map[book.AccountID]book.Stored
	zone func(string) *time.Location
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newWorld(accounts ...book.Account) *world {
	w := &world{now: start, limits: book.DefaultLimits, ops: map[book.ID]book.Stored{}, refunds: map[book.ID]book.Stored{},
		accounts: map[book.AccountID]book.Account{}, events: map[stepkey.StepKey]book.Event{},
		last: map[book.AccountID]book.Stored{}}
	for _, a := range accounts {
		w.accounts[a.AccountID] = a
		if a.Balance != 0 {
			w.lines = append(w.lines, book.Line{Tenant: a.Tenant, Account: a.Account, Currency: a.Currency, Amount: a.Balance},
				book.Line{Tenant: a.Tenant, Account: book.External("start"), Currency: a.Currency, Amount: -a.Balance})
		}
	}
	return w
}

// account is one of tenant t1, in USD.
func account(name names.Account, balance money.Minor) book.Account {
	return book.Account{AccountID: book.AccountID{Tenant: "t1", Account: name}, Currency: "USD", Balance: balance, State: book.StateOpen}
}

func in(state book.AccountState, a book.Account) book.Account {
	a.State = state
	return a
}

func (w *world) view(operations []book.Operation) *book.View {
	v := &book.View{Now: w.now, Zone: w.zone, Operations: map[book.ID]book.Stored{}, Refunds: map[book.ID]book.Stored{},
		Accounts: map[book.AccountID]book.Account{}}
	for _, id := range book.Keys(operations) {
		if s, ok := w.ops[id]; ok {
			v.Operations[id] = s
		}
	}
	for _, id := range book.Debits(operations) {
		if s, ok := w.refunds[id]; ok {
			v.Refunds[id] = s
		}
	}
	for _, id := range book.Accounts(operations, v.Operations) {
		if a, ok := w.accounts[id]; ok {
			v.Accounts[id] = a
		}
	}
	return v
}

// apply runs one batch as one transaction, a second after the last.
func (w *world) apply(operations ...book.Operation) ([]book.Answer, error) {
	w.now = w.now.Add(time.Second)
	answers, changes := book.Decide(w.view(operations), operations, w.limits)
	if len(answers) != len(operations) {
		return nil, fmt.Errorf("%d answers for %d operations", len(answers), len(operations))
	}
	if changes.Empty() && len(changes.Opened)+len(changes.Changed)+len(changes.Amended)+len(changes.Events) > 0 {
		return nil, fmt.Errorf("changes that say they are empty: %+v", changes)
	}
	weight := 0
	for _, o := range operations {
		weight += o.Weight()
	}
	if err := w.save(changes, weight); err != nil {
		return nil, err
	}
	return answers, w.check()
}

func (w *world) save(c book.Changes, weight int) error {
	if rows := len(c.Operations) + len(c.Opened) + len(c.Changed) + len(c.Amended) + len(c.Events); rows > 3*weight {
		return fmt.Errorf("%d rows for a weight of %d", rows, weight)
	}
	for _, s := range c.Operations {
		if err := w.saveOperation(s); err != nil {
			return err
		}
	}
	for _, a := range c.Opened {
		if _, exists := w.accounts[a.AccountID]; exists {
			return fmt.Errorf("%v is opened twice", a.AccountID)
		}
		w.accounts[a.AccountID] = a
	}
	for _, a := range c.Changed {
		old, exists := w.accounts[a.AccountID]
		if !exists {
			return fmt.Errorf("%v is changed but was never opened", a.AccountID)
		}
		// No more than this is written.
		old.Balance, old.Seq, old.UpdatedAt = a.Balance, a.Seq, a.UpdatedAt
		w.accounts[a.AccountID] = old
	}
	for _, a := range c.Amended {
		if _, exists := w.accounts[a.AccountID]; !exists {
			return fmt.Errorf("%v is amended but was never opened", a.AccountID)
		}
		w.accounts[a.AccountID] = a
	}
	for _, s := range c.Operations {
		if err := w.saveEntry(s); err != nil {
			return err
		}
	}
	for _, e := range c.Events {
		s, known := w.ops[book.ID{Tenant: e.Tenant, Key: e.Key}]
		if _, twice := w.events[e.ID]; twice || !known || s.Outcome != book.Applied || e.Type != s.Kind.String() ||
			e.ID != stepkey.Event(e.Tenant, e.Key) {
			return fmt.Errorf("event %+v of %+v", e, s)
		}
		w.events[e.ID] = e
	}
	return nil
}

func (w *world) saveOperation(s book.Stored) error {
	if old, known := w.ops[s.ID()]; known {
		return fmt.Errorf("stored twice: %+v, then %+v", old, s)
	}
	switch s.Outcome {
	case book.Applied, book.Refused, book.Cancelled:
	default:
		return fmt.Errorf("outcome %d is stored: %+v", s.Outcome, s)
	}
	if !s.Tenant.Valid() || s.Key.IsZero() || !s.TransferKey.Valid() || s.Kind == book.Cancel || s.Step != s.Kind.String() || s.FirstTime.Before(w.now) {
		return fmt.Errorf("stored under no proper identity: %+v", s)
	}
	if (s.Reason != 0) != (s.Outcome == book.Refused) || (s.AmountMoved != 0 && s.Outcome != book.Applied) {
		return fmt.Errorf("reason or amount moved do not belong to the outcome: %+v", s)
	}
	if s.Kind.Once() && s.Outcome == book.Applied {
		if first, twice := w.refunds[s.DebitID()]; twice {
			return fmt.Errorf("a second refund: %+v, then %+v", first, s)
		}
		w.refunds[s.DebitID()] = s
	}
	w.ops[s.ID()] = s
	return nil
}

// saveEntry: the lines of an account are numbered without a gap, at times that
// never fall, and each balance after is the one before and the line.
func (w *world) saveEntry(s book.Stored) error {
	moved := s.AmountMoved != 0 && s.Kind != book.Journal && s.Kind != book.Reverse // their lines have the entries
	if (s.Delta != 0) != moved || (s.Entry == book.Entry{}) == moved || len(s.Sides()) != 2 && moved {
		return fmt.Errorf("the entry does not belong to what moved: %+v", s)
	}
	w.lines = append(w.lines, s.Sides()...)
	if (s.Seq != 0) != s.Booked.Valid() {
		return fmt.Errorf("lines of the participant's own accounts alone have no number: %+v", s)
	}
	if s.Seq == 0 {
		return nil
	}
	id := book.AccountID{Tenant: s.Tenant, Account: s.Booked}
	last := w.last[id]
	if s.Seq != last.Seq+1 || s.FirstTime.Before(last.FirstTime) || s.Seq > 1 && s.BalanceAfter != last.BalanceAfter+s.Delta {
		return fmt.Errorf("line %d of %v comes after %+v: %+v", s.Seq, id, last, s)
	}
	w.last[id] = s
	return nil
}

// check proves the books: each operation's lines and each currency sum to zero,
// each balance is the sum of its lines and at its floor or above.
func (w *world) check() error {
	type currency struct {
		names.Tenant
		money.Currency
	}
	type balance struct {
		book.AccountID
		money.Currency
	}
	entries, sums, balances := map[book.ID]*big.Int{}, map[currency]*big.Int{}, map[balance]*big.Int{}
	for _, l := range w.lines {
		add(entries, book.ID{Tenant: l.Tenant, Key: l.Key}, l.Amount)
		add(sums, currency{l.Tenant, l.Currency}, l.Amount)
		add(balances, balance{book.AccountID{Tenant: l.Tenant, Account: l.Account}, l.Currency}, l.Amount)
	}
	for id, sum := range entries {
		if sum.Sign() != 0 {
			return fmt.Errorf("the lines of %v sum to %s", id, sum)
		}
	}
	for c, sum := range sums {
		if sum.Sign() != 0 {
			return fmt.Errorf("%v sums to %s", c, sum)
		}
	}
	for id, a := range w.accounts {
		sum := balances[balance{id, a.Currency}]
		if sum == nil {
			sum = new(big.Int)
		}
		delete(balances, balance{id, a.Currency})
		if sum.Cmp(big.NewInt(int64(a.Balance))) != 0 || a.AccountID != id {
			return fmt.Errorf("account %+v has lines of %s", a, sum)
		}
		if a.Balance < a.Floor {
			return fmt.Errorf("account %+v is below its floor", a)
		}
	}
	for id := range balances {
		if id.Account.Valid() {
			return fmt.Errorf("lines of an account that is not there: %+v", id)
		}
	}
	return nil
}

func add[K comparable](sums map[K]*big.Int, key K, amount money.Minor) {
	if sums[key] == nil {
		sums[key] = new(big.Int)
	}
	sums[key].Add(sums[key], big.NewInt(int64(amount)))
}

// copy is a world that goes its own way from here.
func (w *world) copy() *world {
	c := *w
	c.ops, c.refunds, c.accounts, c.events = maps.Clone(w.ops), maps.Clone(w.refunds), maps.Clone(w.accounts), maps.Clone(w.events)
	c.lines, c.last = slices.Clone(w.lines), maps.Clone(w.last)
	return &c
}

// sum adds up the lines of one account of t1, the participant's own among them.
func (w *world) sum(name names.Account) money.Minor {
	var total money.Minor
	for _, l := range w.lines {
		if l.Tenant == "t1" && l.Account == name {
			total += l.Amount
		}
	}
	return total
}

func key(k names.TransferKey, step string) stepkey.StepKey {
	return stepkey.Derive(stepkey.V1, "t1", k, step)
}

// op is an operation of t1 on account a, 40.00 USD, against q/x.
func op(kind book.Kind, k names.TransferKey) book.Operation {
	o := book.Operation{Kind: kind, Tenant: "t1", TransferKey: k, Step: kind.String(), Account: "a", Amount: 4000, Currency: "USD", Counterparty: "q/x"}
	o.Key = key(k, o.Step)
	if kind == book.Refund {
		o.DebitKey = key(k, stepkey.Debit)
	}
	return o
}

// cancel names the key of a step to cancel.
func cancel(step book.Kind, k names.TransferKey) book.Operation {
	o := op(step, k)
	o.Kind = book.Cancel
	return o
}

// with changes one field of an operation.
func with(o book.Operation, change func(*book.Operation)) book.Operation {
	change(&o)
	return o
}
