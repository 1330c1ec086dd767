// Package storetest is the suite that every store of a participant's books
// passes. A change of behaviour starts here.
package storetest

import (
	"context"
	"errors"
	"math/big"
	"slices"
	"testing"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/stepkey"
)

// The names that the tests use.
const (
	tenant = names.Tenant("acme")
	other  = names.Tenant("zeta")
	usd    = money.Currency("USD")
	payee  = names.AccountRef("ledger/merchant")
)

// Run runs the suite; open gives an empty store that the suite closes.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, test := range slices.Concat(operationTests, undoTests, readTests, accountTests, batchTests, retainTests, concurrencyTests) {
		t.Run(test.name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			b := &books{t: t, store: s}
			test.run(b)
			b.sound()
		})
	}
}

type test struct {
	name string
	run  func(*books)
}

// books is a store under test.
type books struct {
	t     *testing.T
	store store.Store
}

// apply runs one batch, again as long as the store asks for it.
func (b *books) apply(operations ...book.Operation) []book.Answer {
	b.t.Helper()
	answers, err := applyAgain(b.store, operations)
	if err != nil {
		b.t.Fatalf("apply: %v", err)
	}
	if len(answers) != len(operations) {
		b.t.Fatalf("apply: %d answers to %d operations", len(answers), len(operations))
	}
	b.sound()
	return answers
}

// one runs one operation by itself.
func (b *books) one(operation book.Operation) book.Answer {
	b.t.Helper()
	return b.apply(operation)[0]
}

// applyAgain is what the engine does, without its queue.
func applyAgain(s store.Store, operations []book.Operation) ([]book.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		answers, err := s.Apply(ctx, operations, book.DefaultLimits)
		if err == nil || !errors.Is(err, store.ErrTransient) || ctx.Err() != nil {
			return answers, err
		}
	}
}

// want is what a test expects of one answer.
type want struct {
	outcome  book.Outcome
	reason   book.Reason
	moved    money.Minor
	balance  money.Minor
	replayed bool
}

// expect runs one operation and compares its answer.
func (b *books) expect(operation book.Operation, w want) book.Answer {
	b.t.Helper()
	answer := b.one(operation)
	b.compare(answer, w)
	return answer
}

func (b *books) compare(answer book.Answer, w want) {
	b.t.Helper()
	got := want{answer.Outcome, answer.Reason, answer.AmountMoved, answer.BalanceAfter, answer.Replayed}
	if got != w {
		b.t.Fatalf("%s %s: got %+v, want %+v (%+v)", answer.Kind, answer.TransferKey, got, w, answer)
	}
}

// fund opens an account that holds the amount.
func (b *books) fund(of names.Tenant, account names.Account, amount money.Minor) {
	b.t.Helper()
	key := names.TransferKey("fund-" + account)
	answers := b.apply(on(of, book.Open, key, account, 0), on(of, book.Deposit, key, account, amount))
	b.compare(answers[0], want{outcome: book.Applied})
	b.compare(answers[1], want{outcome: book.Applied, moved: amount, balance: amount})
}

// balance checks what an account holds.
func (b *books) balance(of names.Tenant, account names.Account, want money.Minor) {
	b.t.Helper()
	a, err := b.store.Account(context.Background(), book.AccountID{Tenant: of, Account: account})
	if err != nil {
		b.t.Fatalf("account %s: %v", account, err)
	}
	if a.Balance != want {
		b.t.Fatalf("account %s: balance %d, want %d", account, a.Balance, want)
	}
}

// all lists every stored operation.
func (b *books) all() []store.Listed {
	b.t.Helper()
	listed, err := b.store.Operations(context.Background(), "", book.ID{}, 1_000_000)
	if err != nil {
		b.t.Fatalf("operations: %v", err)
	}
	return listed
}

// lines gives those of one operation.
func (b *books) lines(o book.Operation) []book.Line {
	b.t.Helper()
	for _, listed := range b.all() {
		if listed.ID() == o.ID() {
			return listed.Lines
		}
	}
	return nil
}

// sound checks what holds at every commit: the books sum to zero, every balance
// is the sum of its lines, every entry balances, and only Applied has lines.
func (b *books) sound() {
	b.t.Helper()
	sums, err := b.store.Sums(context.Background(), "")
	if err != nil {
		b.t.Fatalf("sums: %v", err)
	}
	for _, c := range sums.Currencies {
		if c.Total != "0" {
			b.t.Fatalf("%s %s sums to %s", c.Tenant, c.Currency, c.Total)
		}
	}
	for _, f := range sums.Faults {
		b.t.Fatalf("account %s: balance %d, floor %d, lines %s", f.Account.Account, f.Balance, f.Floor, f.Lines)
	}
	listed := b.all()
	if int(sums.OperationCount) != len(listed) {
		b.t.Fatalf("sums count %d operations, the list has %d", sums.OperationCount, len(listed))
	}
	for _, l := range listed {
		entry := new(big.Int)
		for _, line := range l.Lines {
			entry.Add(entry, big.NewInt(int64(line.Amount)))
		}
		// A journal entry's lines are operations beside it.
		own := l.AmountMoved > 0 && l.Kind != book.Journal && l.Kind != book.Reverse
		if entry.Sign() != 0 || (len(l.Lines) > 0) != own || (l.AmountMoved > 0 && l.Outcome != book.Applied) {
			b.t.Fatalf("operation %s: outcome %d, moved %d, lines %+v", l.Key, l.Outcome, l.AmountMoved, l.Lines)
		}
	}
}

// on makes an operation whose key is derived as the orchestrator derives it.
func on(of names.Tenant, kind book.Kind, key names.TransferKey, account names.Account, amount money.Minor) book.Operation {
	o := book.Operation{Kind: kind, Tenant: of, TransferKey: key, Step: kind.String(), Account: account}
	switch kind {
	case book.Open:
		o.Currency = usd
	case book.Deposit, book.Withdraw:
		o.Amount, o.Currency, o.Counterparty = amount, usd, "cash"
	case book.Debit, book.Credit:
		o.Amount, o.Currency, o.Counterparty = amount, usd, payee
	case book.Refund:
		o.Amount, o.Currency, o.Counterparty = amount, usd, payee
		o.DebitKey = stepkey.Derive(stepkey.V1, of, key, stepkey.Debit)
	}
	o.Key = stepkey.Derive(stepkey.V1, of, key, o.Step)
	return o
}

func debit(key names.TransferKey, account names.Account, amount money.Minor) book.Operation {
	return on(tenant, book.Debit, key, account, amount)
}

func credit(key names.TransferKey, account names.Account, amount money.Minor) book.Operation {
	return on(tenant, book.Credit, key, account, amount)
}

func refund(key names.TransferKey, account names.Account, amount money.Minor) book.Operation {
	return on(tenant, book.Refund, key, account, amount)
}

// cancel names the step that it cancels, with its contents.
func cancel(o book.Operation) book.Operation {
	o.Kind = book.Cancel
	return o
}
