package conformance

import (
	"strings"

	pb "giro/proto/giro/participant/v1"
)

var refundRules = []rule{
	{Rule: Rule{"refund-once", "a Refund asked again gives nothing back again", undoing}, run: refundOnce},
	{Rule: Rule{"refund-under-another-key", "a second Refund of a debit is REFUSED, ALREADY_REFUNDED, naming the first", undoing}, run: refundOtherKey},
	{Rule: Rule{"refund-before-debit", "a Refund of a debit never seen moves nothing, and the late debit is CANCELLED", undoing}, run: refundBeforeDebit},
	{Rule: Rule{"refund-of-refused-debit", "a Refund of a debit that was REFUSED moves nothing and says so", undoing}, run: refundOfRefused},
	{Rule: Rule{"refund-of-cancelled-debit", "a Refund of a debit that was CANCELLED moves nothing and says so", undoing}, run: refundOfCancelled},
	{Rule: Rule{"refund-to-frozen-account", "a frozen account takes a Refund", undoing}, run: refundToFrozen},
	{Rule: Rule{"refund-to-closed-account", "a Refund to a closed account goes to suspense, and says so", undoing}, run: refundToClosed},
	{Rule: Rule{"refund-that-overflows", "a Refund that the balance cannot hold goes to suspense, and says so", undoing}, run: refundOverflows},
	{Rule: Rule{"refund-is-never-validated", "what a Refund says of a debit never seen is compared, never judged", undoing}, run: refundNeverValidated},
	{Rule: Rule{"refund-needs-its-debit", "a Refund without a well-formed debit_key is INVALID", undoing}, run: refundNeedsDebit},
}

// debited gives an account that held 100 and its debit of 40.
func (c *check) debited() (account, *pb.Operation) {
	a := c.funded("alice", 100)
	d := c.debit(a, 40)
	c.expect(d, want{outcome: applied, moved: 40})
	return a, d
}

func refundOnce(c *check) {
	a, d := c.debited()
	r := refundOf(d)
	first := c.expect(r, want{outcome: applied, moved: 40})
	for range 4 {
		c.repeats(r, first)
	}
	c.holds(a, 100, "a refund asked five times")
}

func refundOtherKey(c *check) {
	a, d := c.debited()
	first := refundOf(d)
	c.expect(first, want{outcome: applied, moved: 40})
	second := c.otherRefundOf(d)
	for range 2 {
		got := c.expect(second, want{outcome: refused, reason: alreadyRefunded})
		if got.GetFirstRefundKey() != first.GetKey() || got.GetFirstRefundAmount() != 40 {
			c.broken(words(second), "first_refund_key "+first.GetKey()+", first_refund_amount 40", words(got))
		}
		if got.GetRefundToSuspense() {
			c.broken(words(second), "refund_to_suspense is not set: the first went to the account", words(got))
		}
	}
	c.expect(c.otherRefundOf(d), want{outcome: refused, reason: alreadyRefunded})
	c.holds(a, 100, "three refunds of one debit under three keys")
	// One that moved nothing is the only one too.
	never := c.debit(a, 5)
	c.expect(refundOf(never), want{outcome: applied})
	c.expect(c.otherRefundOf(never), want{outcome: refused, reason: alreadyRefunded})
}

func refundBeforeDebit(c *check) {
	a := c.funded("alice", 100)
	d := c.debit(a, 40)
	r := refundOf(d)
	got := c.expect(r, want{outcome: applied})
	c.debitOutcome(r, got, cancelled)
	c.expect(d, want{outcome: cancelled})
	if found := c.get(d); found.GetOutcome() != cancelled {
		c.broken("GetOperation of the late "+words(d), "CANCELLED", words(found))
	}
	c.repeats(r, got)
	c.holds(a, 100, "a refund, and then its debit")
}

func refundOfRefused(c *check) {
	a := c.funded("alice", 10)
	d := c.debit(a, 40)
	c.expect(d, want{outcome: refused, reason: insufficientFunds})
	r := refundOf(d)
	c.debitOutcome(r, c.expect(r, want{outcome: applied}), refused)
	c.expect(d, want{outcome: refused, reason: insufficientFunds})
	c.holds(a, 10, "a refund of a refused debit")
}

func refundOfCancelled(c *check) {
	a := c.funded("alice", 100)
	d := c.debit(a, 40)
	c.expect(cancelOf(d), want{outcome: cancelled})
	r := refundOf(d)
	c.debitOutcome(r, c.expect(r, want{outcome: applied}), cancelled)
	c.holds(a, 100, "a refund of a cancelled debit")
}

func refundToFrozen(c *check) {
	a, d := c.debited()
	c.freeze(a)
	r := refundOf(d)
	got := c.expect(r, want{outcome: applied, moved: 40})
	c.left(r, got, 100)
	if got.GetRefundToSuspense() {
		c.broken(words(r), "the money on the account, which is frozen", words(got))
	}
	c.unfreeze(a)
	c.holds(a, 100, "a refund to a frozen account")
}

// toSuspense refunds and must be told that the money is in suspense.
func (c *check) toSuspense(d *pb.Operation, moved int64) {
	r := refundOf(d)
	got := c.expect(r, want{outcome: applied, moved: moved})
	if !got.GetRefundToSuspense() {
		c.broken(words(r), "refund_to_suspense is set", words(got))
	}
	c.repeats(r, got)
	other := c.otherRefundOf(d)
	if second := c.expect(other, want{outcome: refused, reason: alreadyRefunded}); !second.GetRefundToSuspense() {
		c.broken("after a refund that went to suspense: "+words(other), "refund_to_suspense is set: it is said of the first", words(second))
	}
}

func refundToClosed(c *check) {
	a := c.funded("alice", 40)
	d := c.debit(a, 40)
	c.expect(d, want{outcome: applied, moved: 40})
	c.close(a)
	c.toSuspense(d, 40)
}

func refundOverflows(c *check) {
	a := c.full("alice")
	d := c.debit(a, 40)
	c.expect(d, want{outcome: applied, moved: 40})
	c.expect(c.credit(a, 39), want{outcome: applied, moved: 39})
	c.toSuspense(d, 40)
}

// nonsense is contents that no account could have.
func nonsense(o *pb.Operation) *pb.Operation {
	return with(o, func(o *pb.Operation) {
		o.Account, o.Amount, o.Currency, o.Counterparty = "clearing:"+strings.Repeat("x", 300), -5, "nope", "no reference"
	})
}

func refundNeverValidated(c *check) {
	for _, r := range []*pb.Operation{
		nonsense(refundOf(c.debit(c.nobody(), 5))),
		with(refundOf(c.debit(c.nobody(), 5)), func(o *pb.Operation) { o.Account, o.Amount, o.Currency, o.Counterparty = "", 0, "", "" }),
	} {
		got := c.expect(r, want{outcome: applied})
		c.debitOutcome(r, got, cancelled)
		c.repeats(r, got)
	}
}

func refundNeedsDebit(c *check) {
	for _, bad := range []string{"", "x", "A0000000-0000-8000-8000-00000000000A"} {
		r := with(refundOf(c.debit(c.nobody(), 5)), func(o *pb.Operation) { o.DebitKey = bad })
		c.expect(r, want{outcome: invalid, fields: []string{"debit_key"}})
	}
}

var cancelRules = []rule{
	{Rule: Rule{"cancel-before", "a Cancel of a key never seen makes it CANCELLED for ever", undoing}, run: cancelBefore},
	{Rule: Rule{"cancel-after", "a Cancel of a known key changes nothing and answers with its outcome", undoing}, run: cancelAfter},
	{Rule: Rule{"cancel-of-a-refund", "a Cancel of a refund is INVALID, and the refund can still be done", undoing}, run: cancelOfRefund},
	{Rule: Rule{"cancel-is-never-validated", "what a Cancel says of an operation never seen is not judged", undoing}, run: cancelNeverValidated},
}

func cancelBefore(c *check) {
	a := c.funded("alice", 100)
	for _, o := range []*pb.Operation{c.debit(a, 40), c.credit(a, 40)} {
		c.expect(cancelOf(o), want{outcome: cancelled})
		c.expect(o, want{outcome: cancelled})
		c.expect(cancelOf(o), want{outcome: cancelled})
		if found := c.get(o); found.GetOutcome() != cancelled {
			c.broken("GetOperation of the cancelled "+words(o), "CANCELLED", words(found))
		}
	}
	c.holds(a, 100, "a debit and a credit under cancelled keys")
}

func cancelAfter(c *check) {
	a := c.funded("alice", 100)
	d, lost, paid := c.debit(a, 40), c.debit(a, 1000), c.credit(a, 5)
	for _, o := range []*pb.Operation{d, lost, paid} {
		first := c.ask(o)
		got := c.ask(cancelOf(o))
		if !sameAnswer(first, got) {
			c.broken(words(cancelOf(o)), "the operation's outcome: "+words(first), words(got))
		}
		c.repeats(o, first)
	}
	c.holds(a, 65, "cancels of what was done")
}

func cancelOfRefund(c *check) {
	a, d := c.debited()
	r := refundOf(d)
	c.expect(cancelOf(r), want{outcome: invalid, fields: []string{"step"}})
	c.expect(r, want{outcome: applied, moved: 40})
	c.holds(a, 100, "a cancel of a refund, and the refund")
}

func cancelNeverValidated(c *check) {
	for _, o := range []*pb.Operation{c.debit(c.nobody(), 5), c.credit(c.nobody(), 5)} {
		c.expect(cancelOf(nonsense(o)), want{outcome: cancelled})
		c.expect(o, want{outcome: cancelled})
	}
}

var lookupRules = []rule{
	{Rule: Rule{"lookup-finds", "GetOperation answers with the outcome that is stored, whatever it is", reading}, run: lookupFinds},
	{Rule: Rule{"lookup-leaves-nothing", "GetOperation of a key never seen is NOT_FOUND, and leaves the key free", reading}, run: lookupLeavesNothing},
	{Rule: Rule{"lookup-is-never-validated", "of what GetOperation names only tenant, transfer key, step and key are judged", reading}, run: lookupNeverValidated},
}

func lookupFinds(c *check) {
	_, all, wants := c.oneOfEach()
	for i, o := range all {
		first := c.expect(o, wants[i])
		named := o
		if o.GetKind() == kindCancel {
			named = with(o, func(o *pb.Operation) { o.Kind = 0 })
		}
		if found := c.get(named); !sameAnswer(first, found) {
			c.broken("GetOperation "+words(named), words(first), words(found))
		}
	}
}

func lookupLeavesNothing(c *check) {
	a := c.funded("alice", 100)
	d, paid := c.debit(a, 40), c.credit(a, 5)
	for _, o := range []*pb.Operation{d, paid, refundOf(d)} {
		for range 2 {
			c.compare("GetOperation "+words(o), c.get(o), want{outcome: notFound})
		}
	}
	c.expect(d, want{outcome: applied, moved: 40})
	c.expect(paid, want{outcome: applied, moved: 5})
	c.expect(refundOf(d), want{outcome: applied, moved: 40})
}

func lookupNeverValidated(c *check) {
	d := c.debit(c.nobody(), 5)
	c.compare("GetOperation "+words(nonsense(d)), c.get(nonsense(d)), want{outcome: notFound})
	for field, bad := range map[string]*pb.Operation{
		"tenant":       with(d, func(o *pb.Operation) { o.Tenant = "T" }),
		"transfer_key": with(d, func(o *pb.Operation) { o.TransferKey = "" }),
		"key":          with(d, func(o *pb.Operation) { o.Key = "x" }),
		"step":         with(d, func(o *pb.Operation) { o.Step = "settle" }),
	} {
		c.compare("GetOperation "+words(bad), c.get(bad), want{outcome: invalid, fields: []string{field}})
	}
}
