package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
)

// readTests are about what can be read back.
var readTests = []test{
	{"OperationsByPage", testOperationPages},
	{"AccountsByPage", testAccountPages},
	{"NotFound", testNotFound},
	{"Sums", testSums},
	{"SumsBeyond64Bits", testHugeSums},
	{"TrialBalance", testTrialBalance},
	{"Identity", testIdentity},
	{"Claim", testClaim},
}

func testOperationPages(b *books) {
	b.fund(tenant, "alice", 1000)
	b.fund(other, "alice", 1000)
	for i := range 10 {
		key := names.TransferKey(fmt.Sprint("t", i))
		b.one(on(tenant, book.Debit, key, "alice", money.Minor(i+1)))
		b.one(on(other, book.Debit, key, "alice", 5000)) // refused: no lines
	}
	whole := b.all()
	if len(whole) != 24 || !slices.IsSortedFunc(whole, func(x, y store.Listed) int { return compare(x.ID(), y.ID()) }) {
		b.t.Fatalf("%d operations, or out of order", len(whole))
	}
	for _, of := range []names.Tenant{"", tenant, other, "nobody"} {
		var paged, expected []store.Listed
		for _, l := range whole {
			if of == "" || l.Tenant == of {
				expected = append(expected, l)
			}
		}
		after := book.ID{}
		for {
			page, err := b.store.Operations(context.Background(), of, after, 7)
			if err != nil || len(page) > 7 {
				b.t.Fatalf("page of %d: %v", len(page), err)
			}
			if len(page) == 0 {
				break
			}
			paged, after = append(paged, page...), page[len(page)-1].ID()
		}
		same := slices.EqualFunc(paged, expected, func(x, y store.Listed) bool {
			return x.Stored == y.Stored && slices.Equal(x.Lines, y.Lines)
		})
		if !same {
			b.t.Fatalf("tenant %q: pages give %d operations, want %d", of, len(paged), len(expected))
		}
	}
	// A place in another tenant, before and after this one.
	for after, want := range map[names.Tenant]int{"aaa": 12, tenant: 12, "bbb": 0} {
		page, err := b.store.Operations(context.Background(), tenant, book.ID{Tenant: after}, 100)
		if err != nil || len(page) != want {
			b.t.Fatalf("after tenant %s: %d operations, want %d, %v", after, len(page), want, err)
		}
	}
	if none, err := b.store.Operations(context.Background(), "", book.ID{}, 0); err != nil || len(none) != 0 {
		b.t.Fatalf("limit 0: %d, %v", len(none), err)
	}
}

func compare(x, y book.ID) int {
	switch {
	case x == y:
		return 0
	case x.Tenant < y.Tenant || x.Tenant == y.Tenant && x.Key.Less(y.Key):
		return -1
	}
	return 1
}

// Names are ordered byte for byte, whatever the database's locale thinks.
func testAccountPages(b *books) {
	accounts := []names.Account{"a-c", "a.b", "a_d", "ab", "a0", "0a", "b", "a-b", "aa"}
	for _, a := range accounts {
		b.one(on(tenant, book.Open, names.TransferKey("open-"+a), a, 0))
	}
	b.one(on(other, book.Open, "open", "elsewhere", 0))
	slices.Sort(accounts)
	var got []names.Account
	after := names.Account("")
	for {
		page, err := b.store.Accounts(context.Background(), tenant, after, 2)
		if err != nil {
			b.t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, a := range page {
			got, after = append(got, a.Account), a.Account
		}
	}
	if !slices.Equal(got, accounts) {
		b.t.Fatalf("got %q, want %q", got, accounts)
	}
	if none, err := b.store.Accounts(context.Background(), "", "", 10); err != nil || len(none) != 0 {
		b.t.Fatalf("no tenant: %d accounts, %v", len(none), err)
	}
}

func testNotFound(b *books) {
	b.fund(tenant, "alice", 1)
	for _, id := range []book.AccountID{{Tenant: tenant, Account: "nobody"}, {Tenant: other, Account: "alice"},
		{Tenant: tenant, Account: "external:cash"}, {Tenant: tenant, Account: "nul\x00"}, {}} {
		if _, err := b.store.Account(context.Background(), id); !errors.Is(err, store.ErrNotFound) {
			b.t.Fatalf("account %q: %v", id.Account, err)
		}
	}
	never := debit("never", "alice", 1)
	found, err := b.store.Lookup(context.Background(), never)
	if err != nil || found.Outcome != book.NotFound || found.Operation != never {
		b.t.Fatalf("lookup: %+v, %v", found, err)
	}
	b.expect(never, want{outcome: book.Applied, moved: 1}) // looking left nothing behind
	bad := book.Operation{Tenant: "nul\x00", Kind: book.Debit, Step: "debit"}
	if found, err = b.store.Lookup(context.Background(), bad); err != nil || found.Outcome != book.Invalid {
		b.t.Fatalf("lookup of what cannot be: %+v, %v", found, err)
	}
}

func testSums(b *books) {
	b.fund(tenant, "alice", 100)
	b.fund(tenant, "bob", 50)
	b.fund(other, "alice", 7)
	b.one(debit("t1", "alice", 40))
	to := credit("t2", "bob", 5)
	to.Counterparty = "bank/x"
	b.one(to)
	euro := on(tenant, book.Open, "euro", "euro", 0)
	euro.Currency = "EUR"
	b.one(euro)
	sums, err := b.store.Sums(context.Background(), "")
	if err != nil {
		b.t.Fatal(err)
	}
	currencies := []store.CurrencySum{
		{Tenant: tenant, Currency: "EUR", Total: "0", AccountCount: 1},
		{Tenant: tenant, Currency: usd, Total: "0", AccountCount: 2},
		{Tenant: other, Currency: usd, Total: "0", AccountCount: 1},
	}
	clearing := []store.ClearingSum{
		{Tenant: tenant, Currency: usd, Participant: "bank", Balance: "-5"},
		{Tenant: tenant, Currency: usd, Participant: "ledger", Balance: "40"},
	}
	if !slices.Equal(sums.Currencies, currencies) || !slices.Equal(sums.Clearing, clearing) ||
		len(sums.Faults) != 0 || sums.OperationCount != 9 {
		b.t.Fatalf("%+v", sums)
	}
}

// Three accounts near the largest balance: their sum, and the external
// account's, is beyond 64 bits.
func testHugeSums(b *books) {
	for _, a := range []names.Account{"a", "b", "c"} {
		b.fund(tenant, a, money.AmountMax)
	}
	balances, _, err := b.store.TrialBalance(context.Background(), tenant, time.Time{})
	huge := store.Balance{Account: "external:cash", Currency: usd, Balance: "-13835058055282163712"}
	if err != nil || len(balances) != 4 || balances[3] != huge {
		b.t.Fatalf("%+v, %v", balances, err)
	}
}

func testTrialBalance(b *books) {
	before := time.Now().Add(-time.Hour)
	b.fund(tenant, "alice", 100)
	b.fund(other, "zoe", 1)
	b.one(debit("t1", "alice", 40))
	b.one(on(tenant, book.Open, "empty", "empty", 0))
	euro := on(tenant, book.Open, "euro", "euro", 0)
	euro.Currency = "EUR"
	b.one(euro)
	balances, at, err := b.store.TrialBalance(context.Background(), tenant, time.Time{})
	expected := []store.Balance{{Account: "euro", Currency: "EUR", Balance: "0"},
		{Account: "alice", Currency: usd, Balance: "60"}, {Account: "clearing:ledger", Currency: usd, Balance: "40"},
		{Account: "empty", Currency: usd, Balance: "0"}, {Account: "external:cash", Currency: usd, Balance: "-100"}}
	if err != nil || !slices.Equal(balances, expected) || at.Before(before) || at.Location() != time.UTC {
		b.t.Fatalf("%+v at %v, %v", balances, at, err)
	}
	if none, _, err := b.store.TrialBalance(context.Background(), "", time.Time{}); err != nil || len(none) != 0 {
		b.t.Fatalf("no tenant: %+v, %v", none, err)
	}
}

// Everything that is stored moves the mark, so that a copy that lacks it is told
// from the store; what stores nothing does not.
func testIdentity(b *books) {
	identity := func() store.Identity {
		b.t.Helper()
		i, err := b.store.Identity(context.Background())
		if err != nil || i.Incarnation == "" {
			b.t.Fatalf("%+v, %v", i, err)
		}
		return i
	}
	first := identity()
	if first.HighWaterMark != 0 {
		b.t.Fatalf("empty books: %+v", first)
	}
	mark := int64(0)
	for _, step := range []struct {
		what string
		run  book.Operation
		want want
	}{
		{"open", on(tenant, book.Open, "k", "alice", 0), want{outcome: book.Applied}},
		{"deposit", on(tenant, book.Deposit, "k", "alice", 100), want{outcome: book.Applied, moved: 100, balance: 100}},
		{"debit", debit("t1", "alice", 100), want{outcome: book.Applied, moved: 100}},
		{"refused debit", debit("t2", "alice", 50), want{outcome: book.Refused, reason: book.InsufficientFunds}},
		{"tombstone", cancel(credit("t3", "alice", 1)), want{outcome: book.Cancelled}},
		{"refund of nothing", refund("t4", "alice", 1), want{outcome: book.Applied}},
		{"freeze", on(tenant, book.Freeze, "k", "alice", 0), want{outcome: book.Applied}},
		{"close", on(tenant, book.Close, "k", "alice", 0), want{outcome: book.Applied}},
		{"refused refund", otherRefund("t4", "x", 1), want{outcome: book.Refused, reason: book.AlreadyRefunded}},
	} {
		b.expect(step.run, step.want)
		now := identity()
		if now.HighWaterMark <= mark || now.Incarnation != first.Incarnation {
			b.t.Fatalf("%s: %+v, the mark was %d, the first %+v", step.what, now, mark, first)
		}
		mark = now.HighWaterMark
		replayed := step.want
		replayed.replayed = true
		b.expect(step.run, replayed)
		if again := identity(); again.HighWaterMark != mark {
			b.t.Fatalf("%s: its replay moved the mark from %d to %d", step.what, mark, again.HighWaterMark)
		}
	}
}

// Books are nobody's, then the first one's for ever, however many ask at once.
func testClaim(b *books) {
	owners := make([]names.Participant, 20)
	errs := make([]error, len(owners))
	var wait sync.WaitGroup
	for i := range owners {
		wait.Go(func() {
			owners[i], errs[i] = b.store.Claim(context.Background(), names.Participant(fmt.Sprint("p", i)))
		})
	}
	wait.Wait()
	for i, owner := range owners {
		if errs[i] != nil || owner == "" || owner != owners[0] {
			b.t.Fatalf("claim %d: %q, %v; the first was told %q", i, owner, errs[i], owners[0])
		}
	}
	if owner, err := b.store.Claim(context.Background(), owners[0]); err != nil || owner != owners[0] {
		b.t.Fatalf("the owner again: %q, %v", owner, err)
	}
}
