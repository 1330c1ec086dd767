package conformance

import (
	pb "giro/proto/giro/participant/v1"
)

var contentsRules = []rule{
	{Rule: Rule{"contents-of-a-debit", "another content under a Debit's key is KEY_REUSED and names the field; nothing changes", contents}, run: contentsOfDebit},
	{Rule: Rule{"contents-of-a-credit", "the same of a Credit's", contents}, run: contentsOfCredit},
	{Rule: Rule{"contents-of-a-refund", "the same of a Refund's, the debit's key among them", contents}, run: contentsOfRefund},
	{Rule: Rule{"contents-of-a-refusal", "the same of a key that was REFUSED", contents}, run: contentsOfRefusal},
	{Rule: Rule{"contents-of-a-cancel", "a Cancel with other contents than the operation it names is KEY_REUSED", contents}, run: contentsOfCancel},
	{Rule: Rule{"contents-of-a-lookup", "a GetOperation with other contents than the operation it names is KEY_REUSED", contents}, run: contentsOfLookup},
	{Rule: Rule{"contents-of-the-debit-named", "a Refund with other contents than the debit it names is KEY_REUSED and moves nothing", contents}, run: contentsOfNamed},
	{Rule: Rule{"tombstone-takes-any-contents", "a tombstone matches any contents of the same transfer key and step, and no other", contents}, run: tombstoneContents},
	{Rule: Rule{"known-key-before-validity", "a known key is answered before its input is judged malformed", contents}, run: knownKeyFirst},
}

// change makes one difference in contents.
type change struct {
	field string
	make  func(*pb.Operation)
}

// differences changes each field to another good value.
func (c *check) differences() []change {
	return []change{
		{"account", func(o *pb.Operation) { o.Account = "carol" }},
		{"amount", func(o *pb.Operation) { o.Amount++ }},
		{"currency", func(o *pb.Operation) { o.Currency = c.otherCurrency() }},
		{"counterparty", func(o *pb.Operation) { o.Counterparty = elsewhere + "/other" }},
	}
}

// identities changes what says which operation it is.
func (c *check) identities() []change {
	return []change{
		{"transfer_key", func(o *pb.Operation) { o.TransferKey = c.newTransferKey() }},
		{"step", func(o *pb.Operation) {
			if o.GetStep() == "debit" {
				o.Step, o.Kind = "credit", sameOrCancel(o, kindCredit)
			} else {
				o.Step, o.Kind = "debit", sameOrCancel(o, kindDebit)
			}
		}},
	}
}

func sameOrCancel(o *pb.Operation, kind pb.OperationKind) pb.OperationKind {
	if o.GetKind() == kindCancel {
		return kindCancel
	}
	return kind
}

// differs makes each change alone, and then all but those of identity at once.
func (c *check) differs(o *pb.Operation, ask func(*pb.Operation) *pb.Answer, changes []change) {
	all, fields := o, []string(nil)
	for _, d := range changes {
		changed := with(o, d.make)
		c.compare("under a known key: "+words(changed), ask(changed), want{outcome: keyReused, fields: []string{d.field}})
		if d.field != "step" && d.field != "transfer_key" {
			all, fields = with(all, d.make), append(fields, d.field)
		}
	}
	if len(fields) > 1 {
		c.compare("under a known key: "+words(all), ask(all), want{outcome: keyReused, fields: fields})
	}
}

func contentsOfDebit(c *check) {
	a, carol := c.funded("alice", 100), c.funded("carol", 100)
	d := c.debit(a, 40)
	first := c.expect(d, want{outcome: applied, moved: 40})
	c.differs(d, c.ask, append(c.differences(), c.identities()...))
	c.repeats(d, first)
	c.holds(a, 60, "debits with other contents under a known key")
	c.holds(carol, 100, "debits with other contents under a known key")
}

func contentsOfCredit(c *check) {
	a, carol := c.funded("alice", 100), c.funded("carol", 100)
	o := c.credit(a, 40)
	first := c.expect(o, want{outcome: applied, moved: 40})
	c.differs(o, c.ask, append(c.differences(), c.identities()...))
	c.repeats(o, first)
	c.holds(a, 140, "credits with other contents under a known key")
	c.holds(carol, 100, "credits with other contents under a known key")
}

func contentsOfRefund(c *check) {
	a := c.funded("alice", 100)
	d, other := c.debit(a, 40), c.debit(a, 40)
	c.batch(d, other)
	r := refundOf(d)
	first := c.expect(r, want{outcome: applied, moved: 40})
	debitKey := change{"debit_key", func(o *pb.Operation) { o.DebitKey = other.GetKey() }}
	c.differs(r, c.ask, append(append(c.differences(), c.identities()...), debitKey))
	c.repeats(r, first)
	c.holds(a, 60, "refunds with other contents under a known key")
}

func contentsOfRefusal(c *check) {
	d := c.debit(c.nobody(), 40)
	first := c.expect(d, want{outcome: refused, reason: accountNotFound})
	c.differs(d, c.ask, append(c.differences(), c.identities()...))
	c.repeats(d, first)
}

func contentsOfCancel(c *check) {
	a := c.funded("alice", 100)
	d := c.debit(a, 40)
	first := c.expect(d, want{outcome: applied, moved: 40})
	c.differs(cancelOf(d), c.ask, append(c.differences(), c.identities()...))
	c.repeats(d, first)
}

func contentsOfLookup(c *check) {
	d := c.debit(c.nobody(), 40)
	first := c.ask(d)
	c.differs(d, c.get, append(c.differences(), c.identities()...))
	c.repeats(d, first)
}

// contentsOfNamed changes what a refund says of its debit, under keys of its own
// that nobody has seen.
func contentsOfNamed(c *check) {
	a := c.funded("alice", 100)
	d := c.debit(a, 40)
	c.expect(d, want{outcome: applied, moved: 40})
	c.differs(refundOf(d), c.ask, c.differences())
	credited := c.credit(a, 5)
	c.expect(credited, want{outcome: applied, moved: 5})
	r := refundOf(credited)
	if got := c.ask(r); got.GetOutcome() != keyReused {
		c.broken("a refund of what is no debit: "+words(r), "KEY_REUSED, naming step", words(got))
	}
	c.holds(a, 65, "refunds with other contents than their debit, and one of a credit")
	c.expect(refundOf(d), want{outcome: applied, moved: 40})
}

func tombstoneContents(c *check) {
	a := c.funded("alice", 100)
	for _, o := range []*pb.Operation{c.debit(a, 40), c.credit(a, 40)} {
		c.expect(cancelOf(o), want{outcome: cancelled})
		for _, d := range c.differences() {
			c.expect(with(o, d.make), want{outcome: cancelled})
			c.expect(cancelOf(with(o, d.make)), want{outcome: cancelled})
		}
		c.differs(o, c.ask, c.identities())
	}
	c.holds(a, 100, "operations under cancelled keys")
}

func knownKeyFirst(c *check) {
	a := c.funded("alice", 100)
	done, lost, dead := c.debit(a, 40), c.debit(a, 1000), c.credit(a, 5)
	c.expect(done, want{outcome: applied, moved: 40})
	c.expect(lost, want{outcome: refused, reason: insufficientFunds})
	c.expect(cancelOf(dead), want{outcome: cancelled})
	malformed := []change{
		{"amount", func(o *pb.Operation) { o.Amount = -5 }},
		{"currency", func(o *pb.Operation) { o.Currency = "nope" }},
		{"account", func(o *pb.Operation) { o.Account = "clearing:" + elsewhere }},
		{"counterparty", func(o *pb.Operation) { o.Counterparty = "" }},
	}
	c.differs(done, c.ask, append(malformed, change{"step", func(o *pb.Operation) { o.Step = "settle" }},
		change{"transfer_key", func(o *pb.Operation) { o.TransferKey = "no key" }}))
	c.differs(lost, c.ask, malformed)
	for _, kind := range []pb.OperationKind{kindLocal, 99} {
		c.inBatch(with(done, func(o *pb.Operation) { o.Kind = kind }), want{outcome: keyReused, fields: []string{"kind"}})
	}
	for _, m := range malformed {
		c.expect(with(dead, m.make), want{outcome: cancelled})
	}
	c.holds(a, 60, "malformed input under known keys")
}
