package storetest

import (
	"context"
	"math"
	"slices"
	"strings"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/stepkey"
)

// operationTests are about what one operation does.
var operationTests = []test{
	{"Debit", testDebit},
	{"Credit", testCredit},
	{"Deposit", testDeposit},
	{"Open", testOpen},
	{"Freeze", testFreeze},
	{"Unfreeze", testUnfreeze},
	{"Close", testClose},
	{"Refusals", testRefusals},
	{"Replay", testReplay},
	{"KeyReusedNamesEveryField", testKeyReused},
	{"KnownKeyBeforeAnythingElse", testKnownKeyFirst},
	{"TestC42RefusalSticks", testRefusalSticks},
	{"TestC08AmountsOutOfRange", testAmounts},
	{"Malformed", testMalformed},
	{"TestC46TenantsApart", testTenantsApart},
	{"OverflowRefused", testOverflow},
}

func testDebit(b *books) {
	b.fund(tenant, "alice", 100_00)
	d := debit("t1", "alice", 40_00)
	answer := b.expect(d, want{outcome: book.Applied, moved: 40_00, balance: 60_00})
	if answer.FirstTime.IsZero() || answer.FirstTime.Location().String() != "UTC" {
		b.t.Fatalf("first time %v", answer.FirstTime)
	}
	b.balance(tenant, "alice", 60_00)
	line := book.Line{Tenant: tenant, Key: d.Key, Account: "alice", Currency: usd, Amount: -40_00}
	against := book.Line{Tenant: tenant, Key: d.Key, Account: "clearing:ledger", Currency: usd, Amount: 40_00}
	if got := b.lines(d); !slices.Equal(got, []book.Line{line, against}) {
		b.t.Fatalf("lines %+v", got)
	}
}

func testCredit(b *books) {
	b.fund(tenant, "bob", 1)
	c := credit("t1", "bob", 40_00)
	b.expect(c, want{outcome: book.Applied, moved: 40_00, balance: 40_01})
	b.balance(tenant, "bob", 40_01)
	if got := b.lines(c); len(got) != 2 || got[0].Amount != 40_00 || got[1].Account != "clearing:ledger" || got[1].Amount != -40_00 {
		b.t.Fatalf("lines %+v", got)
	}
}

func testDeposit(b *books) {
	b.fund(tenant, "alice", 5)
	d := on(tenant, book.Deposit, "more", "alice", 7)
	b.expect(d, want{outcome: book.Applied, moved: 7, balance: 12})
	b.expect(d, want{outcome: book.Applied, moved: 7, balance: 12, replayed: true})
	if got := b.lines(d); len(got) != 2 || got[1].Account != "external:cash" || got[1].Amount != -7 {
		b.t.Fatalf("lines %+v", got)
	}
}

func testOpen(b *books) {
	o := on(tenant, book.Open, "o1", "alice", 0)
	first := b.expect(o, want{outcome: book.Applied})
	b.expect(o, want{outcome: book.Applied, replayed: true})
	b.expect(on(tenant, book.Open, "o2", "alice", 0), want{outcome: book.Refused, reason: book.AccountExists})
	account, err := b.store.Account(context.Background(), book.AccountID{Tenant: tenant, Account: "alice"})
	expected := book.Account{AccountID: book.AccountID{Tenant: tenant, Account: "alice"}, Currency: usd,
		State: book.StateOpen, CreatedAt: first.FirstTime, UpdatedAt: first.FirstTime}
	if err != nil || account != expected {
		b.t.Fatalf("account %+v, %v, want %+v", account, err, expected)
	}
}

func testFreeze(b *books) {
	b.fund(tenant, "alice", 10)
	b.expect(on(tenant, book.Freeze, "f1", "alice", 0), want{outcome: book.Applied, balance: 10})
	b.expect(debit("t1", "alice", 1), want{outcome: book.Refused, reason: book.AccountFrozen})
	b.expect(credit("t2", "alice", 1), want{outcome: book.Refused, reason: book.AccountFrozen})
	b.balance(tenant, "alice", 10)
}

func testUnfreeze(b *books) {
	b.fund(tenant, "alice", 10)
	b.one(on(tenant, book.Freeze, "f1", "alice", 0))
	b.expect(debit("t1", "alice", 1), want{outcome: book.Refused, reason: book.AccountFrozen})
	u := on(tenant, book.Unfreeze, "u1", "alice", 0)
	b.expect(u, want{outcome: book.Applied, balance: 10})
	b.expect(debit("t2", "alice", 1), want{outcome: book.Applied, moved: 1, balance: 9})
	before, _ := b.store.Account(context.Background(), book.AccountID{Tenant: tenant, Account: "alice"})
	b.expect(on(tenant, book.Unfreeze, "u2", "alice", 0), want{outcome: book.Applied, balance: 9})
	after, err := b.store.Account(context.Background(), book.AccountID{Tenant: tenant, Account: "alice"})
	if err != nil || after != before {
		b.t.Fatalf("an open account was changed by the thaw of nothing: %+v, then %+v, %v", before, after, err)
	}
	b.one(on(tenant, book.Freeze, "f2", "alice", 0))
	b.expect(u, want{outcome: book.Applied, balance: 10, replayed: true})
	b.expect(debit("t3", "alice", 1), want{outcome: book.Refused, reason: book.AccountFrozen})
}

func testClose(b *books) {
	b.fund(tenant, "alice", 10)
	b.expect(on(tenant, book.Close, "c1", "alice", 0), want{outcome: book.Refused, reason: book.BalanceNotZero})
	b.expect(debit("t1", "alice", 10), want{outcome: book.Applied, moved: 10})
	b.expect(on(tenant, book.Close, "c2", "alice", 0), want{outcome: book.Applied})
	b.expect(credit("t2", "alice", 1), want{outcome: book.Refused, reason: book.AccountClosed})
	b.expect(on(tenant, book.Freeze, "f1", "alice", 0), want{outcome: book.Refused, reason: book.AccountClosed})
	b.expect(on(tenant, book.Unfreeze, "u1", "alice", 0), want{outcome: book.Refused, reason: book.AccountClosed})
}

func testRefusals(b *books) {
	b.fund(tenant, "alice", 10)
	b.expect(debit("t1", "alice", 11), want{outcome: book.Refused, reason: book.InsufficientFunds})
	b.expect(debit("t2", "nobody", 1), want{outcome: book.Refused, reason: book.AccountNotFound})
	euros := debit("t3", "alice", 1)
	euros.Currency = "EUR"
	b.expect(euros, want{outcome: book.Refused, reason: book.CurrencyMismatch})
	b.balance(tenant, "alice", 10)
	b.expect(debit("t4", "alice", 10), want{outcome: book.Applied, moved: 10})
}

func testReplay(b *books) {
	b.fund(tenant, "alice", 100)
	for _, o := range []book.Operation{debit("t1", "alice", 40), debit("t2", "alice", 400), credit("t1", "alice", 3)} {
		first := b.one(o)
		again := b.one(o)
		if first.Replayed || !again.Replayed || again.Stored != first.Stored {
			b.t.Fatalf("first %+v\nagain %+v", first, again)
		}
		found, err := b.store.Lookup(context.Background(), o)
		if err != nil || found.Stored != first.Stored || !found.Replayed {
			b.t.Fatalf("lookup %+v, %v", found, err)
		}
	}
	b.balance(tenant, "alice", 63)
}

func testKeyReused(b *books) {
	b.fund(tenant, "alice", 100)
	b.fund(tenant, "carol", 100)
	d, r := debit("t1", "alice", 40), refund("t1", "alice", 40)
	b.one(d)
	first := b.one(r)
	b.compare(first, want{outcome: book.Applied, moved: 40, balance: 100})
	changes := map[string]func(*book.Operation){
		"account":      func(o *book.Operation) { o.Account = "carol" },
		"amount":       func(o *book.Operation) { o.Amount = 41 },
		"currency":     func(o *book.Operation) { o.Currency = "EUR" },
		"counterparty": func(o *book.Operation) { o.Counterparty = "ledger/other" },
		"transfer_key": func(o *book.Operation) { o.TransferKey = "t9" },
		"debit_key":    func(o *book.Operation) { o.DebitKey = stepkey.StepKey{1, 2, 3} },
		"step,kind":    func(o *book.Operation) { o.Kind, o.Step = book.Credit, stepkey.Credit },
	}
	for fields, change := range changes {
		for _, original := range []book.Operation{d, r} {
			asked := original
			change(&asked)
			answer := b.one(asked)
			if answer.Outcome != book.KeyReused || strings.Join(answer.Differing, ",") != fields || answer.Replayed {
				b.t.Fatalf("%s with another %s: %+v", original.Kind, fields, answer)
			}
			found, err := b.store.Lookup(context.Background(), asked)
			if err != nil || found.Outcome != book.KeyReused || !slices.Equal(found.Differing, answer.Differing) {
				b.t.Fatalf("lookup of %s with another %s: %+v, %v", original.Kind, fields, found, err)
			}
		}
	}
	if again := b.one(r); again.Stored != first.Stored {
		b.t.Fatalf("changed to %+v", again)
	}
	b.balance(tenant, "alice", 100)
	b.balance(tenant, "carol", 100)
}

// A known key is answered before validation: a field that would be INVALID under
// a new key is named as differing under a known one.
func testKnownKeyFirst(b *books) {
	b.fund(tenant, "alice", 100)
	d := debit("t1", "alice", 40)
	b.one(d)
	d.Amount, d.Currency = -5, "nope"
	answer := b.one(d)
	if answer.Outcome != book.KeyReused || !slices.Equal(answer.Differing, []string{"amount", "currency"}) {
		b.t.Fatalf("%+v", answer)
	}
}

func testRefusalSticks(b *books) {
	b.fund(tenant, "alice", 10)
	refused := want{outcome: book.Refused, reason: book.InsufficientFunds}
	b.expect(debit("t1", "alice", 40), refused)
	b.expect(on(tenant, book.Deposit, "top-up", "alice", 90), want{outcome: book.Applied, moved: 90, balance: 100})
	refused.replayed = true
	b.expect(debit("t1", "alice", 40), refused)
	b.balance(tenant, "alice", 100)
	b.expect(debit("t2", "alice", 40), want{outcome: book.Applied, moved: 40, balance: 60})
}

func testAmounts(b *books) {
	b.fund(tenant, "alice", 100)
	before := len(b.all())
	amounts := []money.Minor{0, -1, math.MinInt64, money.AmountMax + 1, math.MaxInt64}
	for _, kind := range []book.Kind{book.Debit, book.Credit, book.Deposit} {
		for _, amount := range amounts {
			o := on(tenant, kind, "t1", "alice", amount)
			answer := b.one(o)
			if answer.Outcome != book.Invalid || len(answer.Violations) != 1 || answer.Violations[0].Field != "amount" {
				b.t.Fatalf("%s of %d: %+v", kind, amount, answer)
			}
			if found, err := b.store.Lookup(context.Background(), o); err != nil || found.Outcome != book.NotFound {
				b.t.Fatalf("%s of %d consumed its key: %+v, %v", kind, amount, found, err)
			}
		}
	}
	if after := len(b.all()); after != before {
		b.t.Fatalf("%d operations became %d", before, after)
	}
	// The keys were not consumed.
	b.expect(debit("t1", "alice", 100), want{outcome: book.Applied, moved: 100})
	// What a refund carries beside its keys is compared, never validated.
	for i, amount := range amounts {
		key := names.TransferKey("never-" + string(rune('a'+i)))
		b.expect(refund(key, "alice", amount), want{outcome: book.Applied})
	}
}

func testMalformed(b *books) {
	b.fund(tenant, "alice", 100)
	before := len(b.all())
	breaks := map[string]func(*book.Operation){
		"tenant":       func(o *book.Operation) { o.Tenant = "No\x00" },
		"transfer_key": func(o *book.Operation) { o.TransferKey = names.TransferKey(strings.Repeat("k", 129)) },
		"key":          func(o *book.Operation) { o.Key = stepkey.StepKey{} },
		"step":         func(o *book.Operation) { o.Step = "debit\x00" },
		"kind":         func(o *book.Operation) { o.Kind = 99 },
		"account":      func(o *book.Operation) { o.Account = "clearing:ledger" },
		"currency":     func(o *book.Operation) { o.Currency = "usd" },
		"counterparty": func(o *book.Operation) { o.Counterparty = "ledger" },
		"debit_key":    func(o *book.Operation) { o.DebitKey = stepkey.StepKey{1} },
	}
	for field, change := range breaks {
		o := debit("t1", "alice", 1)
		change(&o)
		answer := b.one(o)
		if answer.Outcome != book.Invalid || len(answer.Violations) != 1 || answer.Violations[0].Field != field {
			b.t.Fatalf("bad %s: %+v", field, answer)
		}
	}
	if after := len(b.all()); after != before {
		b.t.Fatalf("%d operations became %d", before, after)
	}
}

func testTenantsApart(b *books) {
	b.fund(tenant, "alice", 100)
	b.fund(other, "alice", 7)
	b.expect(debit("1", "alice", 40), want{outcome: book.Applied, moved: 40, balance: 60})
	b.expect(on(other, book.Debit, "1", "alice", 3), want{outcome: book.Applied, moved: 3, balance: 4})
	b.fund(tenant, "only-here", 1)
	b.expect(on(other, book.Debit, "2", "only-here", 1), want{outcome: book.Refused, reason: book.AccountNotFound})
	// The very same key bytes under another tenant are another operation.
	stolen := debit("1", "alice", 40)
	stolen.Tenant = other
	found, err := b.store.Lookup(context.Background(), stolen)
	if err != nil || found.Outcome != book.NotFound || len(found.Differing) != 0 {
		b.t.Fatalf("lookup across tenants: %+v, %v", found, err)
	}
	theirs := on(other, book.Refund, "9", "alice", 40)
	theirs.DebitKey = stolen.Key
	b.expect(theirs, want{outcome: book.Applied}) // moves nothing: no such debit there
	b.balance(tenant, "alice", 60)
	b.balance(other, "alice", 4)
	sums, err := b.store.Sums(context.Background(), other)
	if err != nil || len(sums.Currencies) != 1 || sums.Currencies[0].Tenant != other || sums.OperationCount != 6 {
		b.t.Fatalf("sums of one tenant: %+v, %v", sums, err)
	}
}

func testOverflow(b *books) {
	b.fund(tenant, "rich", money.AmountMax)
	b.expect(credit("t1", "rich", money.AmountMax-1), want{outcome: book.Applied, moved: money.AmountMax - 1, balance: math.MaxInt64})
	b.expect(credit("t2", "rich", 1), want{outcome: book.Refused, reason: book.BalanceOverflow})
	b.balance(tenant, "rich", math.MaxInt64)
}
