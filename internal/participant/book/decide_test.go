package book_test

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/stepkey"
)

// must applies a batch of sound books.
func must(t *testing.T, w *world, operations ...book.Operation) []book.Answer {
	t.Helper()
	answers, err := w.apply(operations...)
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

func one(t *testing.T, w *world, o book.Operation) book.Answer {
	t.Helper()
	return must(t, w, o)[0]
}

// want checks what decides; times and contents are checked elsewhere.
func want(t *testing.T, got book.Answer, outcome book.Outcome, reason book.Reason, moved money.Minor, replayed bool) {
	t.Helper()
	if got.Outcome != outcome || got.Reason != reason || got.AmountMoved != moved || got.Replayed != replayed {
		t.Fatalf("outcome %d, %s, moved %d, replayed %v; want %d, %s, moved %d, replayed %v: %+v",
			got.Outcome, got.Reason, got.AmountMoved, got.Replayed, outcome, reason, moved, replayed, got)
	}
}

func wantBalance(t *testing.T, w *world, name names.Account, balance money.Minor) {
	t.Helper()
	if got := w.sum(name); got != balance {
		t.Fatalf("%s holds %d, want %d", name, got, balance)
	}
}

func TestAppliedMovesOnceAndReplaysForEver(t *testing.T) {
	for _, c := range []struct {
		o     book.Operation
		delta money.Minor
		other names.Account
	}{
		{op(book.Debit, "k"), -4000, "clearing:q"},
		{op(book.Credit, "k"), 4000, "clearing:q"},
		{with(op(book.Deposit, "k"), func(o *book.Operation) { o.Counterparty = "till" }), 4000, "external:till"},
	} {
		t.Run(c.o.Kind.String(), func(t *testing.T) {
			w := newWorld(account("a", 10000))
			first := one(t, w, c.o)
			want(t, first, book.Applied, 0, 4000, false)
			if first.BalanceAfter != 10000+c.delta || !first.FirstTime.Equal(w.now) || first.Operation != c.o {
				t.Fatalf("first answer: %+v", first)
			}
			wantBalance(t, w, "a", 10000+c.delta)
			wantBalance(t, w, c.other, -c.delta)
			w.accounts[book.AccountID{Tenant: "t1", Account: "a"}] = in(book.StateFrozen, w.accounts[book.AccountID{Tenant: "t1", Account: "a"}])
			for range 3 {
				again := one(t, w, c.o)
				want(t, again, book.Applied, 0, 4000, true)
				if again.Stored != first.Stored {
					t.Fatalf("replay: %+v, first: %+v", again, first)
				}
			}
			wantBalance(t, w, "a", 10000+c.delta)
		})
	}
}

func TestRefusals(t *testing.T) {
	euro := account("a", 10000)
	euro.Currency = "EUR"
	floor := account("a", 10000)
	floor.Floor = 6001
	low := account("a", -1)
	low.Floor = math.MinInt64
	foreign := account("a", 10000)
	foreign.Tenant = "t2"
	full := account("a", math.MaxInt64-3999)
	deposit := with(op(book.Deposit, "k"), func(o *book.Operation) { o.Counterparty = "till" })
	for name, c := range map[string]struct {
		accounts []book.Account
		o        book.Operation
		reason   book.Reason
	}{
		"debit, no account":          {nil, op(book.Debit, "k"), book.AccountNotFound},
		"debit, another tenant's":    {[]book.Account{foreign}, op(book.Debit, "k"), book.AccountNotFound},
		"debit, frozen":              {[]book.Account{in(book.StateFrozen, account("a", 10000))}, op(book.Debit, "k"), book.AccountFrozen},
		"debit, closed":              {[]book.Account{in(book.StateClosed, account("a", 0))}, op(book.Debit, "k"), book.AccountClosed},
		"debit, currency":            {[]book.Account{euro}, op(book.Debit, "k"), book.CurrencyMismatch},
		"debit, one too little":      {[]book.Account{account("a", 3999)}, op(book.Debit, "k"), book.InsufficientFunds},
		"debit, one under its floor": {[]book.Account{floor}, op(book.Debit, "k"), book.InsufficientFunds},
		"debit, the whole range": {[]book.Account{func() book.Account { a := low; a.Balance = math.MinInt64 + 1; return a }()},
			op(book.Debit, "k"), book.InsufficientFunds},
		"credit, no account":    {nil, op(book.Credit, "k"), book.AccountNotFound},
		"credit, frozen":        {[]book.Account{in(book.StateFrozen, account("a", 0))}, op(book.Credit, "k"), book.AccountFrozen},
		"credit, closed":        {[]book.Account{in(book.StateClosed, account("a", 0))}, op(book.Credit, "k"), book.AccountClosed},
		"credit, currency":      {[]book.Account{euro}, op(book.Credit, "k"), book.CurrencyMismatch},
		"credit, overflow":      {[]book.Account{full}, op(book.Credit, "k"), book.BalanceOverflow},
		"deposit, overflow":     {[]book.Account{full}, deposit, book.BalanceOverflow},
		"deposit, frozen":       {[]book.Account{in(book.StateFrozen, account("a", 0))}, deposit, book.AccountFrozen},
		"open, there already":   {[]book.Account{account("a", 0)}, op(book.Open, "k"), book.AccountExists},
		"open, there as closed": {[]book.Account{in(book.StateClosed, account("a", 0))}, op(book.Open, "k"), book.AccountExists},
		"freeze, no account":    {nil, op(book.Freeze, "k"), book.AccountNotFound},
		"unfreeze, no account":  {nil, op(book.Unfreeze, "k"), book.AccountNotFound},
		"unfreeze, closed":      {[]book.Account{in(book.StateClosed, account("a", 0))}, op(book.Unfreeze, "k"), book.AccountClosed},
		"freeze, closed":        {[]book.Account{in(book.StateClosed, account("a", 0))}, op(book.Freeze, "k"), book.AccountClosed},
		"close, money in it":    {[]book.Account{account("a", 1)}, op(book.Close, "k"), book.BalanceNotZero},
		"close, debt in it":     {[]book.Account{low}, op(book.Close, "k"), book.BalanceNotZero},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(c.accounts...)
			first := one(t, w, c.o)
			want(t, first, book.Refused, c.reason, 0, false)
			// C42: the refusal sticks, whatever becomes of the account.
			better := newWorld(account("a", 10000))
			w.accounts, w.lines = better.accounts, better.lines
			again := one(t, w, c.o)
			want(t, again, book.Refused, c.reason, 0, true)
			if again.Stored != first.Stored || len(w.events) != 0 {
				t.Fatalf("first %+v, again %+v, events %v", first, again, w.events)
			}
		})
	}
}

func TestC42TopUpDoesNotChangeARefusal(t *testing.T) {
	w := newWorld(account("a", 3999))
	want(t, one(t, w, op(book.Debit, "k")), book.Refused, book.InsufficientFunds, 0, false)
	want(t, one(t, w, with(op(book.Deposit, "d"), func(o *book.Operation) { o.Counterparty = "till" })), book.Applied, 0, 4000, false)
	want(t, one(t, w, op(book.Debit, "k")), book.Refused, book.InsufficientFunds, 0, true)
	want(t, one(t, w, op(book.Debit, "k2")), book.Applied, 0, 4000, false)
	wantBalance(t, w, "a", 3999)
}

func TestC21ABatchCannotOverdraw(t *testing.T) {
	w := newWorld(account("a", 5000))
	var batch []book.Operation
	for _, k := range []names.TransferKey{"1", "2", "3", "4", "5", "6"} {
		batch = append(batch, with(op(book.Debit, k), func(o *book.Operation) { o.Amount = 1000 }))
	}
	answers := must(t, w, batch...)
	for i, a := range answers[:5] {
		want(t, a, book.Applied, 0, 1000, false)
		if after := money.Minor(4000 - 1000*i); a.BalanceAfter != after {
			t.Errorf("debit %d: balance %d, want %d", i, a.BalanceAfter, after)
		}
	}
	want(t, answers[5], book.Refused, book.InsufficientFunds, 0, false)
	wantBalance(t, w, "a", 0)
}

func TestExactlyToTheFloorAndTheCeiling(t *testing.T) {
	a := account("a", 0)
	a.Floor = -4000
	w := newWorld(a)
	want(t, one(t, w, op(book.Debit, "k")), book.Applied, 0, 4000, false)
	wantBalance(t, w, "a", -4000)

	w = newWorld(account("a", math.MaxInt64-4000))
	want(t, one(t, w, op(book.Credit, "k")), book.Applied, 0, 4000, false)
	wantBalance(t, w, "a", math.MaxInt64)
	most := func(o *book.Operation) { o.Amount = money.AmountMax }
	want(t, one(t, w, with(op(book.Debit, "k1"), most)), book.Applied, 0, money.AmountMax, false)
	want(t, one(t, w, with(op(book.Debit, "k2"), most)), book.Refused, book.InsufficientFunds, 0, false)
}

func TestC08InvalidStoresNothing(t *testing.T) {
	type field struct {
		name   string
		change func(*book.Operation)
	}
	identity := []field{
		{"tenant", func(o *book.Operation) { o.Tenant = "" }},
		{"tenant", func(o *book.Operation) { o.Tenant = "T1" }},
		{"transfer_key", func(o *book.Operation) { o.TransferKey = "" }},
		{"transfer_key", func(o *book.Operation) { o.TransferKey = "a b" }},
		{"key", func(o *book.Operation) { o.Key = stepkey.StepKey{} }},
		{"step", func(o *book.Operation) { o.Step = "" }},
		{"step", func(o *book.Operation) { o.Step = "DEBIT" }},
		{"step", func(o *book.Operation) { o.Step = "cancel" }},
	}
	contents := []field{
		{"account", func(o *book.Operation) { o.Account = "" }},
		{"account", func(o *book.Operation) { o.Account = "clearing:q" }},
		{"account", func(o *book.Operation) { o.Account = "external:till" }},
		{"account", func(o *book.Operation) { o.Account = book.Suspense }},
		{"amount", func(o *book.Operation) { o.Amount = 0 }},
		{"amount", func(o *book.Operation) { o.Amount = -1 }},
		{"amount", func(o *book.Operation) { o.Amount = math.MinInt64 }},
		{"amount", func(o *book.Operation) { o.Amount = math.MaxInt64 }},
		{"amount", func(o *book.Operation) { o.Amount = money.AmountMax + 1 }},
		{"currency", func(o *book.Operation) { o.Currency = "" }},
		{"currency", func(o *book.Operation) { o.Currency = "usd" }},
		{"currency", func(o *book.Operation) { o.Currency = " USD" }},
		{"currency", func(o *book.Operation) { o.Currency = "XXX" }},
		{"counterparty", func(o *book.Operation) { o.Counterparty = "" }},
		{"counterparty", func(o *book.Operation) { o.Counterparty = "q" }},
		{"counterparty", func(o *book.Operation) { o.Counterparty = "clearing:q/x" }},
		{"debit_key", func(o *book.Operation) { o.DebitKey = key("k", stepkey.Credit) }},
	}
	refund := []field{
		{"debit_key", func(o *book.Operation) { o.DebitKey = stepkey.StepKey{} }},
		{"debit_key", func(o *book.Operation) { o.DebitKey = o.Key }},
	}
	check := func(o book.Operation, fields []field) {
		for _, f := range fields {
			w := newWorld(account("a", 10000))
			got := one(t, w, with(o, f.change))
			if got.Outcome != book.Invalid || len(got.Violations) != 1 || got.Violations[0].Field != f.name || got.Violations[0].Description == "" {
				t.Errorf("%s with a bad %s: %+v", o.Kind, f.name, got)
			}
			if len(w.ops) != 0 || len(w.events) != 0 {
				t.Errorf("%s with a bad %s is stored", o.Kind, f.name)
			}
			if first := one(t, w, o); first.Outcome != book.Applied && first.Outcome != book.Cancelled || first.Replayed {
				t.Errorf("%s after a bad %s: %+v: the key was consumed", o.Kind, f.name, first)
			}
		}
	}
	for _, kind := range []book.Kind{book.Debit, book.Credit} {
		check(op(kind, "k"), append(slices.Clone(identity), contents...))
	}
	check(op(book.Refund, "k"), append(slices.Clone(identity), refund...))
	check(cancel(book.Debit, "k"), identity[:5])
}

func TestInvalidNamesEveryViolation(t *testing.T) {
	w := newWorld()
	got := one(t, w, book.Operation{Kind: book.Debit, DebitKey: key("k", "debit")})
	var fields []string
	for _, v := range got.Violations {
		fields = append(fields, v.Field)
	}
	if all := []string{"tenant", "transfer_key", "key", "step", "account", "currency", "amount", "counterparty", "debit_key"}; !slices.Equal(fields, all) {
		t.Errorf("%v, want %v", fields, all)
	}
	for _, kind := range []book.Kind{0, 10, 255} {
		if got := one(t, w, op(kind, "k")); got.Outcome != book.Invalid {
			t.Errorf("kind %d: %+v", kind, got)
		}
	}
	for _, step := range []string{"refund", "cancel", "open", "deposit", "", "unknown"} {
		o := cancel(book.Debit, "k")
		o.Step = step
		if got := one(t, w, o); got.Outcome != book.Invalid || len(w.ops) != 0 {
			t.Errorf("cancelling a %q: %+v", step, got)
		}
	}
}

// Every field is contents: another value is KeyReused, names that field alone,
// and changes nothing; also where the value is malformed, since a known key is
// answered before anything else is judged.
func TestC35KeyReusedNamesTheFieldAndChangesNothing(t *testing.T) {
	changes := map[string][]func(*book.Operation){
		"transfer_key": {func(o *book.Operation) { o.TransferKey = "other" }, func(o *book.Operation) { o.TransferKey = "" }},
		"account":      {func(o *book.Operation) { o.Account = "b" }, func(o *book.Operation) { o.Account = "A\x00" }},
		"amount":       {func(o *book.Operation) { o.Amount = 9999 }, func(o *book.Operation) { o.Amount = math.MinInt64 }},
		"currency":     {func(o *book.Operation) { o.Currency = "EUR" }, func(o *book.Operation) { o.Currency = "usd" }},
		"counterparty": {func(o *book.Operation) { o.Counterparty = "q/y" }, func(o *book.Operation) { o.Counterparty = "" }},
		"debit_key":    {func(o *book.Operation) { o.DebitKey = key("z", "debit") }},
		"step":         {func(o *book.Operation) { o.Step = "other" }},
	}
	for _, first := range []book.Operation{op(book.Debit, "k"), op(book.Credit, "k"), op(book.Refund, "k"), op(book.Debit, "refused")} {
		for field, list := range changes {
			for _, change := range list {
				w := newWorld(account("a", 10000), account("b", 10000))
				if first.TransferKey == "refused" {
					w = newWorld(account("a", 1), account("b", 10000))
				}
				stored := one(t, w, first)
				before := w.copy()
				got := one(t, w, with(first, change))
				if got.Outcome != book.KeyReused || !slices.Equal(got.Differing, []string{field}) || got.Replayed || got.AmountMoved != 0 {
					t.Errorf("%s with another %s: %+v", first.Kind, field, got)
				}
				if !reflect.DeepEqual(before.ops, w.ops) || !reflect.DeepEqual(before.accounts, w.accounts) || len(before.lines) != len(w.lines) || len(before.events) != len(w.events) {
					t.Errorf("%s with another %s changed something", first.Kind, field)
				}
				if again := one(t, w, first); !again.Replayed || again.Stored != stored.Stored {
					t.Errorf("%s after another %s: %+v", first.Kind, field, again)
				}
			}
		}
	}
	w := newWorld(account("a", 10000))
	one(t, w, op(book.Debit, "k"))
	if got := one(t, w, with(op(book.Credit, "k"), func(o *book.Operation) { o.Key = key("k", "debit") })); !slices.Equal(got.Differing, []string{"step", "kind"}) {
		t.Errorf("a credit under the debit's key: %+v", got)
	}
}

func TestLimitIsARefusalAndSticks(t *testing.T) {
	for _, kind := range []book.Kind{book.Debit, book.Credit, book.Deposit} {
		w := newWorld(account("a", 10000))
		w.limits = book.Limits{AmountMax: 3999}
		o := op(kind, "k")
		if kind == book.Deposit {
			o.Counterparty = "till"
		}
		want(t, one(t, w, o), book.Refused, book.LimitExceeded, 0, false)
		w.limits = book.DefaultLimits
		want(t, one(t, w, o), book.Refused, book.LimitExceeded, 0, true)
		w.limits = book.Limits{AmountMax: 4000}
		o.TransferKey, o.Key = "k2", key("k2", o.Step)
		want(t, one(t, w, o), book.Applied, 0, 4000, false)
		w.limits = book.Limits{AmountMax: 1}
		want(t, one(t, w, o), book.Applied, 0, 4000, true)
	}
}

func TestC46TenantsDoNotSeeEachOther(t *testing.T) {
	other := account("a", 500)
	other.Tenant = "t2"
	w := newWorld(account("a", 10000), other)
	want(t, one(t, w, op(book.Debit, "1")), book.Applied, 0, 4000, false)
	// The same key of another tenant is another operation, not a replay.
	second := with(op(book.Debit, "1"), func(o *book.Operation) { o.Tenant, o.Amount = "t2", 100 })
	want(t, one(t, w, second), book.Applied, 0, 100, false)
	// Another tenant's refund cannot reach the debit; it makes a tombstone of its own.
	refund := with(op(book.Refund, "2"), func(o *book.Operation) { o.Tenant, o.DebitKey = "t2", key("2", "debit") })
	want(t, one(t, w, op(book.Debit, "2")), book.Applied, 0, 4000, false)
	want(t, one(t, w, refund), book.Applied, 0, 0, false)
	want(t, one(t, w, op(book.Debit, "2")), book.Applied, 0, 4000, true)
	wantBalance(t, w, "a", 2000)
}

func TestAccountsOpenFreezeUnfreezeClose(t *testing.T) {
	w := newWorld()
	open := book.Operation{Kind: book.Open, Tenant: "t1", TransferKey: "o", Step: "open", Key: key("o", "open"), Account: "a", Currency: "USD"}
	credit := op(book.Credit, "c")
	answers := must(t, w, open, credit, open, with(open, func(o *book.Operation) { o.Key, o.TransferKey = key("o2", "open"), "o2" }), op(book.Debit, "d"))
	want(t, answers[0], book.Applied, 0, 0, false)
	want(t, answers[1], book.Applied, 0, 4000, false)
	want(t, answers[2], book.Applied, 0, 0, true)
	want(t, answers[3], book.Refused, book.AccountExists, 0, false)
	want(t, answers[4], book.Applied, 0, 4000, false)
	a := w.accounts[book.AccountID{Tenant: "t1", Account: "a"}]
	if a.State != book.StateOpen || a.Currency != "USD" || a.Floor != 0 || !a.CreatedAt.Equal(w.now) || !a.UpdatedAt.Equal(w.now) {
		t.Fatalf("opened: %+v", a)
	}
	freeze := with(open, func(o *book.Operation) {
		o.Kind, o.Step, o.Key, o.TransferKey, o.Currency = book.Freeze, "freeze", key("f", "freeze"), "f", ""
	})
	want(t, one(t, w, freeze), book.Applied, 0, 0, false)
	want(t, one(t, w, op(book.Credit, "c2")), book.Refused, book.AccountFrozen, 0, false)
	thaw := with(freeze, func(o *book.Operation) {
		o.Kind, o.Step, o.Key, o.TransferKey = book.Unfreeze, "unfreeze", key("u", "unfreeze"), "u"
	})
	want(t, one(t, w, thaw), book.Applied, 0, 0, false)
	want(t, one(t, w, op(book.Credit, "c2b")), book.Applied, 0, 4000, false)
	want(t, one(t, w, op(book.Debit, "d2b")), book.Applied, 0, 4000, false)
	changed := w.accounts[a.AccountID]
	again := with(thaw, func(o *book.Operation) { o.Key, o.TransferKey = key("u2", "unfreeze"), "u2" })
	want(t, one(t, w, again), book.Applied, 0, 0, false)
	if w.accounts[a.AccountID] != changed {
		t.Fatalf("an open account was changed: %+v, then %+v", changed, w.accounts[a.AccountID])
	}
	want(t, one(t, w, freeze), book.Applied, 0, 0, true)
	want(t, one(t, w, op(book.Credit, "c2c")), book.Applied, 0, 4000, false)
	want(t, one(t, w, op(book.Debit, "d2c")), book.Applied, 0, 4000, false)
	shut := with(freeze, func(o *book.Operation) {
		o.Kind, o.Step, o.Key, o.TransferKey = book.Close, "close", key("x", "close"), "x"
	})
	want(t, one(t, w, shut), book.Applied, 0, 0, false)
	want(t, one(t, w, op(book.Credit, "c3")), book.Refused, book.AccountClosed, 0, false)
	want(t, one(t, w, op(book.Debit, "d")), book.Applied, 0, 4000, true)
}
