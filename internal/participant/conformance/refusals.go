package conformance

import (
	"math"

	pb "giro/proto/giro/participant/v1"
)

var refusalRules = []rule{
	{Rule: Rule{"refuses-insufficient-funds", "a Debit of more than the account holds is REFUSED, INSUFFICIENT_FUNDS", answers}, run: refusesFunds},
	{Rule: Rule{"refuses-unknown-account", "a Debit or Credit of an account that is not there is REFUSED, ACCOUNT_NOT_FOUND", answers}, run: refusesUnknown},
	{Rule: Rule{"refuses-frozen-account", "a Debit or Credit of a frozen account is REFUSED, ACCOUNT_FROZEN", answers}, run: refusesFrozen},
	{Rule: Rule{"refuses-closed-account", "a Debit or Credit of a closed account is REFUSED, ACCOUNT_CLOSED", answers}, run: refusesClosed},
	{Rule: Rule{"refuses-another-currency", "a Debit or Credit in another currency is REFUSED, CURRENCY_MISMATCH", answers}, run: refusesCurrency},
	{Rule: Rule{"refuses-overflow", "a Credit that no balance can hold is REFUSED, BALANCE_OVERFLOW", answers}, run: refusesOverflow},
	{Rule: Rule{"refusal-moves-nothing", "after a refusal the account is as it was, and the key is found REFUSED", answers}, run: refusalMovesNothing},
}

// refuses asks a debit and a credit and must get the reason for both, twice.
func (c *check) refuses(a account, reason pb.RefusalReason) {
	for _, o := range []*pb.Operation{c.debit(a, 1), c.credit(a, 1)} {
		first := c.expect(o, want{outcome: refused, reason: reason})
		c.repeats(o, first)
	}
}

func refusesFunds(c *check) {
	a := c.funded("alice", 10)
	d := c.debit(a, 11)
	c.repeats(d, c.expect(d, want{outcome: refused, reason: insufficientFunds}))
	c.expect(c.debit(a, 10), want{outcome: applied, moved: 10})
	c.expect(c.debit(a, 1), want{outcome: refused, reason: insufficientFunds})
}

func refusesUnknown(c *check) { c.refuses(c.nobody(), accountNotFound) }

func refusesFrozen(c *check) {
	a := c.funded("alice", 10)
	c.freeze(a)
	c.refuses(a, accountFrozen)
	c.unfreeze(a)
	c.holds(a, 10, "operations on a frozen account")
}

func refusesClosed(c *check) {
	a := c.open("alice", c.currency())
	c.close(a)
	c.refuses(a, accountClosed)
}

func refusesCurrency(c *check) {
	a := c.funded("alice", 10)
	wrong := a
	wrong.currency = c.otherCurrency()
	c.refuses(wrong, currencyMismatch)
	c.holds(a, 10, "operations in another currency")
}

// full opens an account that holds the most that a balance can.
func (c *check) full(name string) account {
	limit := c.peer.describe.GetAmountMax()
	if limit < math.MaxInt64/1000 {
		c.notRun("amounts of at most %d would take too many credits to fill a balance", limit)
	}
	a := c.open(name, c.currency())
	for left := int64(math.MaxInt64); left > 0; {
		amount := min(left, limit)
		c.expect(c.credit(a, amount), want{outcome: applied, moved: amount})
		left -= amount
	}
	return a
}

func refusesOverflow(c *check) {
	a := c.full("alice")
	o := c.credit(a, 1)
	c.repeats(o, c.expect(o, want{outcome: refused, reason: balanceOverflow}))
	c.expect(c.debit(a, 1), want{outcome: applied, moved: 1})
	c.expect(o, want{outcome: refused, reason: balanceOverflow})
	c.expect(c.credit(a, 1), want{outcome: applied, moved: 1})
}

func refusalMovesNothing(c *check) {
	a := c.funded("alice", 10)
	d := c.debit(a, 11)
	first := c.expect(d, want{outcome: refused, reason: insufficientFunds})
	if found := c.get(d); !sameAnswer(first, found) {
		c.broken("GetOperation "+words(d), words(first), words(found))
	}
	c.holds(a, 10, "a refused debit")
}
