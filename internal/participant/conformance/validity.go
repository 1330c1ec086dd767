package conformance

import (
	"math"
	"regexp"
	"strings"
	"time"

	pb "giro/proto/giro/participant/v1"
)

var (
	part     = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	currency = regexp.MustCompile(`^[A-Z]{3}$`)
)

func notACurrency(code string) bool { return !currency.MatchString(code) }

var validityRules = []rule{
	{Rule: Rule{"invalid-amount", "an amount of 0 or less is INVALID", validity}, run: invalidAmount},
	{Rule: Rule{"invalid-currency", "an unknown currency, or one not written in upper case, is INVALID", validity}, run: invalidCurrency},
	{Rule: Rule{"invalid-names", "a tenant, transfer key, key, step, account or counterparty outside its grammar is INVALID", validity}, run: invalidNames},
	{Rule: Rule{"invalid-kind", "an Apply of a kind that is no Debit, Credit, Refund or Cancel is INVALID", validity}, run: invalidKind},
	{Rule: Rule{"own-accounts-have-no-name", "clearing, external and suspense accounts cannot be named", validity}, run: ownAccounts},
	{Rule: Rule{"invalid-names-every-field", "INVALID names every malformed field at once", validity}, run: invalidEverything},
	{Rule: Rule{"invalid-consumes-nothing", "INVALID stores nothing and leaves the key free", validity}, run: invalidConsumesNothing},
	{Rule: Rule{"names-at-their-limits", "names as long and as odd as their grammar allows are taken", validity}, run: namesAtLimits},
	{Rule: Rule{"keys-and-their-age", "a key beyond the retention horizon is EXPIRED; without a horizon no key is too old", retention}, run: keysAge},
}

// malformed makes the change to a debit and a credit that are good otherwise, and
// must get INVALID naming the field.
func (c *check) malformed(field string, change func(*pb.Operation)) {
	for _, o := range []*pb.Operation{c.debit(c.nobody(), 5), c.credit(c.nobody(), 5)} {
		c.expect(with(o, change), want{outcome: invalid, fields: []string{field}})
	}
}

func invalidAmount(c *check) {
	for _, amount := range []int64{0, -1, math.MinInt64} {
		c.malformed("amount", func(o *pb.Operation) { o.Amount = amount })
	}
}

func invalidCurrency(c *check) {
	for _, code := range []string{"", "XXX", "ZZZ", "nope", strings.ToLower(c.currency()), " " + c.currency(), c.currency() + " "} {
		c.malformed("currency", func(o *pb.Operation) { o.Currency = code })
	}
}

var badParts = []string{"", "A", "-a", ".a", "a b", "a\n", "a\x00", "é", "a/b", "a:b", strings.Repeat("a", 64)}

func invalidNames(c *check) {
	for _, bad := range badParts {
		c.malformed("tenant", func(o *pb.Operation) { o.Tenant = bad })
		c.malformed("account", func(o *pb.Operation) { o.Account = bad })
	}
	for _, bad := range []string{"", " ", "a b", "a\n", "a/b", "é", "a\x00", strings.Repeat("k", 129)} {
		c.malformed("transfer_key", func(o *pb.Operation) { o.TransferKey = bad })
	}
	for _, bad := range []string{"", "x", strings.ToUpper("a0000000-0000-8000-8000-00000000000a"), "a00000000000800080000000000000aa",
		"{a0000000-0000-8000-8000-00000000000a}", "a0000000-0000-8000-8000-00000000000a ", "g0000000-0000-8000-8000-00000000000a"} {
		c.malformed("key", func(o *pb.Operation) { o.Key = bad })
	}
	for _, bad := range []string{"", "refund", "settle", "Debit", "debit\x00"} {
		c.malformed("step", func(o *pb.Operation) { o.Step = bad })
	}
	for _, bad := range []string{"", "a", "a/", "/b", "a/b/c", "A/b", "a/B", "a /b", strings.Repeat("a", 64) + "/b"} {
		c.malformed("counterparty", func(o *pb.Operation) { o.Counterparty = bad })
	}
}

func invalidKind(c *check) {
	for _, kind := range []pb.OperationKind{0, kindLocal, 99} {
		o := with(c.debit(c.nobody(), 5), func(o *pb.Operation) { o.Kind = kind })
		c.inBatch(o, want{outcome: invalid, fields: []string{"kind"}})
	}
}

func ownAccounts(c *check) {
	for _, own := range []string{"clearing:" + elsewhere, "external:bank", "suspense:refund"} {
		c.malformed("account", func(o *pb.Operation) { o.Account = own })
		c.malformed("counterparty", func(o *pb.Operation) { o.Counterparty = elsewhere + "/" + own })
	}
}

func invalidEverything(c *check) {
	o := &pb.Operation{Kind: kindDebit, Tenant: "T", TransferKey: " ", Key: "x", Step: "x", Account: "A", Currency: "usd", Counterparty: "x"}
	all := []string{"tenant", "transfer_key", "key", "step", "account", "amount", "currency", "counterparty"}
	c.expect(o, want{outcome: invalid, fields: all})
	empty := &pb.Operation{Kind: kindCredit}
	c.expect(empty, want{outcome: invalid, fields: all})
	c.expect(&pb.Operation{Kind: kindCancel}, want{outcome: invalid, fields: []string{"tenant", "transfer_key", "key", "step"}})
	c.expect(&pb.Operation{Kind: kindRefund}, want{outcome: invalid, fields: []string{"tenant", "transfer_key", "key", "step", "debit_key"}})
}

func invalidConsumesNothing(c *check) {
	a := c.funded("alice", 100)
	for _, o := range []*pb.Operation{c.debit(a, 40), c.credit(a, 40)} {
		for _, bad := range []func(*pb.Operation){
			func(o *pb.Operation) { o.Amount = 0 },
			func(o *pb.Operation) { o.Currency = "usd" },
			func(o *pb.Operation) { o.Account = "A" },
			func(o *pb.Operation) { o.Counterparty = "x" },
			func(o *pb.Operation) { o.Step = "settle" },
			func(o *pb.Operation) { o.TransferKey = " " },
		} {
			if got := c.ask(with(o, bad)); got.GetOutcome() != invalid {
				c.broken(words(with(o, bad)), "INVALID", words(got))
			}
			c.compare("GetOperation after INVALID: "+words(o), c.get(o), want{outcome: notFound})
		}
		c.expect(o, want{outcome: applied, moved: 40})
	}
	c.holds(a, 100, "malformed operations and then good ones under their keys")
}

func namesAtLimits(c *check) {
	c.tenant = (c.newTenant() + strings.Repeat("._-", 63))[:63]
	c.suite.tenants[len(c.suite.tenants)-1] = c.tenant
	a := c.open(("0" + randomText() + strings.Repeat("._-", 63))[:63], c.currency())
	o := c.credit(a, 5)
	o.Counterparty = strings.Repeat("a", 63) + "/" + strings.Repeat("b", 63)
	if c.peer.describe.GetRetentionHorizonSeconds() == 0 { // otherwise keys are UUIDs
		o = under(o, (randomText() + strings.Repeat("Az09._~:-", 16))[:128])
	}
	first := c.expect(o, want{outcome: applied, moved: 5})
	c.repeats(o, first)
	for _, code := range c.currencies() {
		other := account{c.tenant, "nobody", code}
		c.expect(c.debit(other, 1), want{outcome: refused, reason: accountNotFound})
	}
}

func keysAge(c *check) {
	horizon := time.Duration(c.peer.describe.GetRetentionHorizonSeconds()) * time.Second
	a := c.funded("alice", 100)
	if horizon == 0 {
		old := under(c.debit(a, 5), transferKeyOf(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)))
		c.compare("GetOperation of an old key: "+words(old), c.get(old), want{outcome: notFound})
		c.expect(old, want{outcome: applied, moved: 5})
		return
	}
	for _, at := range []time.Time{time.Now().Add(-horizon - 24*time.Hour), time.Now().Add(time.Hour)} {
		o := under(c.debit(a, 5), transferKeyOf(at))
		for _, asked := range []*pb.Operation{o, under(c.credit(a, 5), o.GetTransferKey()), refundOf(o), cancelOf(o)} {
			c.expect(asked, want{outcome: expired})
		}
		c.compare("GetOperation "+words(o), c.get(o), want{outcome: expired})
	}
	c.holds(a, 100, "operations under keys that are too old")
}

var tenantRules = []rule{
	{Rule: Rule{"tenants-have-their-own-keys", "the same keys in two tenants are two operations", operations}, run: tenantKeys},
	{Rule: Rule{"tenants-have-their-own-accounts", "another tenant's account is ACCOUNT_NOT_FOUND", operations}, run: tenantAccounts},
	{Rule: Rule{"tenants-do-not-see-each-other", "another tenant's key is NOT_FOUND, and a Refund of its debit moves nothing", operations}, run: tenantsApart},
}

// another is a check of a tenant of its own.
func (c *check) another() *check {
	other := &check{suite: c.suite, ctx: c.ctx, peer: c.peer}
	other.tenant = other.newTenant()
	return other
}

func tenantKeys(c *check) {
	other := c.another()
	a, b := c.funded("alice", 100), other.funded("alice", 7)
	d := c.debit(a, 40)
	theirs := with(d, func(o *pb.Operation) { o.Tenant, o.Amount = b.tenant, 3 })
	c.expect(d, want{outcome: applied, moved: 40})
	c.expect(theirs, want{outcome: applied, moved: 3})
	c.holds(a, 60, "the same key in two tenants")
	other.holds(b, 4, "the same key in two tenants")
}

func tenantAccounts(c *check) {
	c.funded("alice", 100)
	other := c.another()
	for _, o := range []*pb.Operation{other.debit(other.account("alice"), 1), other.credit(other.account("alice"), 1)} {
		c.expect(o, want{outcome: refused, reason: accountNotFound})
	}
}

// account is one of the tenant's that may not be there.
func (c *check) account(name string) account { return account{c.tenant, name, c.currency()} }

func tenantsApart(c *check) {
	a := c.funded("alice", 100)
	d := c.debit(a, 40)
	c.expect(d, want{outcome: applied, moved: 40})
	other := c.another()
	b := other.funded("alice", 7)
	stolen := with(d, func(o *pb.Operation) { o.Tenant = b.tenant })
	c.compare("GetOperation by another tenant: "+words(stolen), c.get(stolen), want{outcome: notFound})
	c.expect(refundOf(stolen), want{outcome: applied})
	other.holds(b, 7, "a refund of another tenant's debit")
	c.expect(refundOf(d), want{outcome: applied, moved: 40})
	c.holds(a, 100, "a refund, after another tenant tried")
}
