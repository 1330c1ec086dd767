package conformance

import (
	"context"
	"fmt"
	"math"
	"slices"

	pb "giro/proto/giro/participant/v1"
)

// The sections of docs/participants.md.
const (
	operations = "Operations"
	answers    = "Answers"
	contents   = "Contents"
	undoing    = "Undoing"
	validity   = "Validity"
	batches    = "Batches"
	atomicity  = "Atomicity"
	durability = "Durability"
	reading    = "Reading"
	retention  = "Retention"
)

var describeRules = []rule{
	{Rule: Rule{"describe", "Describe tells protocol version 1, a name, currencies, limits and one incarnation", operations}, run: describe},
	{Rule: Rule{"high-water-mark", "the high-water mark rises with all that is stored, refusals and tombstones too, and never falls", durability}, run: highWaterMark},
}

func (c *check) describe() *pb.DescribeResponse {
	var d *pb.DescribeResponse
	_, err := again(c.ctx, func(ctx context.Context) (err error) {
		d, err = c.peer.client.Describe(ctx, &pb.DescribeRequest{})
		return err
	})
	if err != nil {
		c.broken("Describe", "OK", err.Error())
	}
	return d
}

func describe(c *check) {
	d := c.describe()
	for _, f := range []struct {
		ok       bool
		expected string
	}{
		{d.GetProtocolVersion() == 1, "protocol_version 1"},
		{part.MatchString(d.GetParticipant()), "participant: 1 to 63 characters of a-z 0-9 . _ -"},
		{len(d.GetCurrencies()) > 0 && !slices.ContainsFunc(d.GetCurrencies(), notACurrency), "currencies: ISO 4217 codes, upper case"},
		{d.GetAmountMax() > 0, "amount_max of at least 1"},
		{d.GetBatchSizeMax() > 0, "batch_size_max of at least 1"},
		{d.GetRetentionHorizonSeconds() >= 0, "retention_horizon_seconds of at least 0"},
		{d.GetIncarnation() != "", "an incarnation"},
	} {
		if !f.ok {
			c.broken("Describe", f.expected, words(d))
		}
	}
	if again := c.describe(); again.GetIncarnation() != d.GetIncarnation() {
		c.broken("Describe, twice", "the same incarnation: "+d.GetIncarnation(), again.GetIncarnation())
	}
}

func highWaterMark(c *check) {
	a := c.funded("alice", 10)
	mark := c.describe().GetHighWaterMark()
	for range 3 {
		for _, o := range []*pb.Operation{c.debit(a, 1), c.debit(a, 1000), cancelOf(c.debit(a, 1)), refundOf(c.debit(a, 1))} {
			got := c.ask(o)
			if after := c.describe().GetHighWaterMark(); after <= mark {
				c.broken("Describe, "+words(o)+", which is "+short(got.GetOutcome().String())+", Describe",
					fmt.Sprintf("a high_water_mark above %d", mark), fmt.Sprint(after))
			} else {
				mark = after
			}
			c.ask(o)
			c.get(c.debit(a, 1))
			if after := c.describe().GetHighWaterMark(); after < mark {
				c.broken("Describe, a repeat, GetOperation, Describe", fmt.Sprintf("a high_water_mark of at least %d", mark), fmt.Sprint(after))
			}
		}
	}
}

var outcomeRules = []rule{
	{Rule: Rule{"debit-takes", "a Debit takes its amount from the account, and says what it moved and left", operations}, run: debitTakes},
	{Rule: Rule{"credit-gives", "a Credit gives its amount to the account, and says what it moved and left", operations}, run: creditGives},
	{Rule: Rule{"refund-gives-back", "a Refund gives back what its debit took, and tells the debit's outcome", operations}, run: refundGivesBack},
	{Rule: Rule{"answers-echo", "every answer echoes the operation's key and amount, and what is stored has a time", answers}, run: answersEcho},
	{Rule: Rule{"amount-limit", "an amount beyond amount_max is a definite no, and the largest one within is none", answers}, run: amountLimit},
}

func (c *check) left(o *pb.Operation, a *pb.Answer, balance int64) {
	if a.GetBalanceAfter() != balance {
		c.broken(words(o), fmt.Sprintf("balance_after %d", balance), words(a))
	}
}

func debitTakes(c *check) {
	a := c.funded("alice", 100)
	d := c.debit(a, 40)
	c.left(d, c.expect(d, want{outcome: applied, moved: 40}), 60)
	rest := c.debit(a, 60)
	c.left(rest, c.expect(rest, want{outcome: applied, moved: 60}), 0)
}

func creditGives(c *check) {
	a := c.funded("alice", 100)
	o := c.credit(a, 40)
	c.left(o, c.expect(o, want{outcome: applied, moved: 40}), 140)
}

func refundGivesBack(c *check) {
	a := c.funded("alice", 100)
	d := c.debit(a, 40)
	c.expect(d, want{outcome: applied, moved: 40})
	r := refundOf(d)
	got := c.expect(r, want{outcome: applied, moved: 40})
	c.left(r, got, 100)
	c.debitOutcome(r, got, applied)
	if got.GetRefundToSuspense() {
		c.broken(words(r), "the money on the account, which is open", words(got))
	}
}

func (c *check) debitOutcome(o *pb.Operation, a *pb.Answer, outcome pb.Outcome) {
	if a.GetDebitOutcome() != outcome {
		c.broken(words(o), "debit_outcome "+short(outcome.String()), words(a))
	}
}

func answersEcho(c *check) {
	a := c.nobody()
	for _, o := range []*pb.Operation{c.debit(a, 40), c.credit(a, 40), refundOf(c.debit(a, 40)), cancelOf(c.credit(a, 40)),
		with(c.debit(a, 40), func(o *pb.Operation) { o.Currency = "usd" })} {
		for range 2 {
			got := c.ask(o)
			if got.GetKey() != o.GetKey() || got.GetAmount() != o.GetAmount() {
				c.broken(words(o), "its own key and amount in the answer", words(got))
			}
			if stored := got.GetOutcome() <= cancelled; stored && !got.GetFirstTime().IsValid() {
				c.broken(words(o), "first_time in an answer that is stored", words(got))
			}
		}
	}
}

// amountLimit asks on an account without money, so that what is within the limit
// is refused for another reason.
func amountLimit(c *check) {
	a, limit := c.open("alice", c.currency()), c.peer.describe.GetAmountMax()
	for _, over := range []int64{limit + 1, math.MaxInt64} {
		if over <= limit {
			continue
		}
		o := c.debit(a, over)
		got := c.ask(o)
		if got.GetOutcome() != invalid && (got.GetOutcome() != refused || got.GetReason() != limitExceeded) {
			c.broken(words(o), "REFUSED, LIMIT_EXCEEDED, or INVALID", words(got))
		}
	}
	o := c.debit(a, limit)
	if got := c.ask(o); got.GetOutcome() != refused || got.GetReason() != insufficientFunds {
		c.broken(words(o), "REFUSED, INSUFFICIENT_FUNDS", words(got))
	}
}

var repeatRules = []rule{
	{Rule: Rule{"repeat-same-outcome", "the same key with the same contents gives the same outcome, and is done once", answers}, run: repeatSame},
	{Rule: Rule{"repeat-is-marked", "a repeat is marked replayed, and a first is not", answers}, run: repeatMarked},
	{Rule: Rule{"repeat-keeps-first-time", "a repeat tells the time of the first", answers}, run: repeatFirstTime},
	{Rule: Rule{"repeat-whatever-the-account", "a key that was APPLIED is answered so when its account is frozen or closed", answers}, run: repeatWhatever},
	{Rule: Rule{"refusal-sticks", "a refusal is the answer for ever, when its cause is gone too", answers}, run: refusalSticks},
	{Rule: Rule{"refusal-sticks-any-reason", "the same of accounts that were missing, frozen and thawed, or closed", answers}, run: refusalSticksAny},
	{Rule: Rule{"apply-is-the-single-call", "Apply and the single calls are the same thing", batches}, run: applyIsSingle},
}

// oneOfEach gives an operation of each kind with what it must be answered.
func (c *check) oneOfEach() (account, []*pb.Operation, []want) {
	a := c.funded("alice", 100)
	d, lost := c.debit(a, 40), c.debit(a, 1000)
	return a, []*pb.Operation{d, c.credit(a, 7), lost, refundOf(d), refundOf(lost), cancelOf(c.debit(a, 3)), cancelOf(c.credit(a, 3))},
		[]want{{outcome: applied, moved: 40}, {outcome: applied, moved: 7}, {outcome: refused, reason: insufficientFunds}, {outcome: applied, moved: 40},
			{outcome: applied}, {outcome: cancelled}, {outcome: cancelled}}
}

func repeatSame(c *check) {
	a, all, wants := c.oneOfEach()
	for i, o := range all {
		first := c.expect(o, wants[i])
		for range 3 {
			c.repeats(o, first)
		}
	}
	c.holds(a, 107, "one of each operation, each asked four times")
}

func repeatMarked(c *check) {
	_, all, _ := c.oneOfEach()
	for _, o := range all {
		var answer *pb.Answer
		attempts, err := again(c.ctx, func(ctx context.Context) (err error) {
			answer, err = c.peer.single(ctx, o)
			return err
		})
		if err != nil {
			c.broken(words(o), "an answer in an OK response", err.Error())
		}
		if answer.GetReplayed() && attempts == 1 {
			c.broken(words(o), "replayed is not set: it is the first", words(answer))
		}
		if second := c.ask(o); !second.GetReplayed() {
			c.broken("again: "+words(o), "replayed is set", words(second))
		}
	}
}

func repeatFirstTime(c *check) {
	_, all, _ := c.oneOfEach()
	for _, o := range all {
		first := c.ask(o).GetFirstTime()
		for range 2 {
			if second := c.ask(o).GetFirstTime(); !second.AsTime().Equal(first.AsTime()) {
				c.broken("again: "+words(o), "first_time "+words(first), words(second))
			}
		}
	}
}

func repeatWhatever(c *check) {
	a := c.funded("alice", 40)
	d := c.debit(a, 30)
	first := c.expect(d, want{outcome: applied, moved: 30})
	c.freeze(a)
	c.repeats(d, first)
	b := c.funded("bob", 5)
	all := c.debit(b, 5)
	emptied := c.expect(all, want{outcome: applied, moved: 5})
	c.close(b)
	c.repeats(all, emptied)
}

func refusalSticks(c *check) {
	a := c.funded("alice", 10)
	d := c.debit(a, 40)
	first := c.expect(d, want{outcome: refused, reason: insufficientFunds})
	c.expect(c.credit(a, 90), want{outcome: applied, moved: 90})
	c.repeats(d, first)
	c.repeats(d, first)
	c.expect(under(d, c.newTransferKey()), want{outcome: applied, moved: 40})
	c.holds(a, 60, "a refused debit, a top-up, the debit again, and another one")
}

func refusalSticksAny(c *check) {
	late := account{c.tenant, "late", c.currency()}
	missing := c.credit(late, 5)
	c.expect(missing, want{outcome: refused, reason: accountNotFound})
	c.open("late", late.currency)
	c.expect(missing, want{outcome: refused, reason: accountNotFound})
	c.expect(c.credit(late, 5), want{outcome: applied, moved: 5})
	c.freeze(late)
	frozen := c.debit(late, 5)
	c.expect(frozen, want{outcome: refused, reason: accountFrozen})
	c.unfreeze(late)
	c.expect(frozen, want{outcome: refused, reason: accountFrozen})
	c.expect(c.debit(late, 5), want{outcome: applied, moved: 5})
	c.close(late)
	closed := c.credit(late, 5)
	c.expect(closed, want{outcome: refused, reason: accountClosed})
	c.expect(frozen, want{outcome: refused, reason: accountFrozen})
	c.expect(closed, want{outcome: refused, reason: accountClosed})
}

// applyIsSingle asks each key once by either call, first the one and then the
// other.
func applyIsSingle(c *check) {
	a, all, wants := c.oneOfEach()
	for i, o := range all {
		if i%2 == 0 {
			c.repeats(o, c.inBatch(o, wants[i]))
			continue
		}
		first := c.expect(o, wants[i])
		if got := c.batch(o)[0]; !sameAnswer(got, first) {
			c.broken("by Apply, after its own call: "+words(o), words(first), words(got))
		}
	}
	c.holds(a, 107, "one of each operation, each by Apply and by its own call")
}

func (c *check) inBatch(o *pb.Operation, w want) *pb.Answer {
	answer := c.batch(o)[0]
	c.compare("Apply of "+words(o), answer, w)
	return answer
}
