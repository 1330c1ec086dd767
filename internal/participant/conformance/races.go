package conformance

import (
	"fmt"
	"slices"

	pb "giro/proto/giro/participant/v1"
)

var raceRules = []rule{
	{Rule: Rule{"repeat-at-once", "100 repeats at the same time have one effect and one outcome", atomicity}, run: repeatAtOnce},
	{Rule: Rule{"race-of-contents", "of operations with other contents that race for a key one wins, and the others are KEY_REUSED", atomicity}, run: raceOfContents},
	{Rule: Rule{"race-of-debit-and-cancel", "a debit and a cancel at the same time agree on what became of the key", atomicity}, run: raceOfCancel},
	{Rule: Rule{"race-of-debit-and-refund", "a debit and its refund at the same time leave the account as it was", atomicity}, run: raceOfRefund},
	{Rule: Rule{"race-of-refunds", "of refunds of a debit under several keys at the same time one is APPLIED", atomicity}, run: raceOfRefunds},
	{Rule: Rule{"floor-at-once", "64 debits at the same time never take more than there is", atomicity}, run: floorAtOnce},
	{Rule: Rule{"batches-that-cross", "batches that take the same accounts in another order are all answered", atomicity}, run: batchesCross},
}

func repeatAtOnce(c *check) {
	a := c.funded("alice", 100)
	d, paid := c.debit(a, 40), c.credit(a, 7)
	got := c.atOnce(slices.Concat(slices.Repeat([]*pb.Operation{d}, 100), slices.Repeat([]*pb.Operation{paid}, 100))...)
	for _, answer := range got[:100] {
		c.compare("100 times at once: "+words(d), answer, want{outcome: applied, moved: 40})
	}
	for _, answer := range got[100:] {
		c.compare("100 times at once: "+words(paid), answer, want{outcome: applied, moved: 7})
	}
	c.holds(a, 67, "a debit of 40 and a credit of 7 from 100, each 100 times at once")
}

func raceOfContents(c *check) {
	a := c.funded("alice", 1000)
	d := c.debit(a, 0)
	var all []*pb.Operation
	for i := range 20 {
		all = append(all, with(d, func(o *pb.Operation) { o.Amount = int64(i%5) + 1 }))
	}
	var won int64
	for i, answer := range c.atOnce(all...) {
		if answer.GetOutcome() == applied && (won == 0 || won == all[i].GetAmount()) {
			won = all[i].GetAmount()
			continue
		}
		c.compare("one of 20 that race for a key: "+words(all[i]), answer, want{outcome: keyReused, fields: []string{"amount"}})
	}
	if won == 0 {
		c.broken("20 debits that race for one key", "one of them APPLIED", "none")
	}
	c.holds(a, 1000-won, "20 debits that race for one key")
}

func raceOfCancel(c *check) {
	a := c.funded("alice", 100)
	var all []*pb.Operation
	for range 10 {
		d := c.debit(a, 1)
		all = append(all, d, cancelOf(d), d, cancelOf(d))
	}
	left := int64(100)
	got := c.atOnce(all...)
	for i := 0; i < len(got); i += 4 {
		for _, other := range got[i+1 : i+4] {
			if other.GetOutcome() != got[i].GetOutcome() || (got[i].GetOutcome() != applied && got[i].GetOutcome() != cancelled) {
				c.broken("debits and cancels at once: "+words(all[i]), "one outcome, APPLIED or CANCELLED", words(got[i])+" and "+words(other))
			}
		}
		left -= got[i].GetAmountMoved()
	}
	c.holds(a, left, "debits and their cancels at the same time")
}

func raceOfRefund(c *check) {
	a := c.funded("alice", 100)
	var all []*pb.Operation
	for range 10 {
		d := c.debit(a, 1)
		all = append(all, d, refundOf(d))
	}
	got := c.atOnce(all...)
	for i := 0; i < len(got); i += 2 {
		d, r := got[i], got[i+1]
		if r.GetOutcome() != applied || r.GetDebitOutcome() != d.GetOutcome() || r.GetAmountMoved() != d.GetAmountMoved() {
			c.broken("a debit and its refund at once: "+words(all[i]), "a refund of what the debit took, which is "+words(d), words(r))
		}
	}
	c.holds(a, 100, "debits and their refunds at the same time")
}

func raceOfRefunds(c *check) {
	a, d := c.debited()
	all := slices.Repeat([]*pb.Operation{refundOf(d)}, 20)
	for range 10 {
		all = append(all, c.otherRefundOf(d))
	}
	got := c.atOnce(all...)
	first := ""
	for i, answer := range got {
		if answer.GetOutcome() == applied && (first == "" || first == all[i].GetKey()) {
			first = all[i].GetKey()
			continue
		}
		c.compare("one of 30 refunds of a debit at once: "+words(all[i]), answer, want{outcome: refused, reason: alreadyRefunded})
	}
	for i, answer := range got {
		if answer.GetOutcome() == refused && answer.GetFirstRefundKey() != first {
			c.broken("one of 30 refunds of a debit at once: "+words(all[i]), "first_refund_key "+first, words(answer))
		}
	}
	c.holds(a, 100, "30 refunds of one debit at the same time")
}

func floorAtOnce(c *check) {
	a := c.funded("alice", 10)
	done := 0
	for i, answer := range c.atOnce(c.debits(a, 64)...) {
		if answer.GetOutcome() == applied {
			done++
			if answer.GetBalanceAfter() < 0 {
				c.broken(fmt.Sprintf("debit %d of 64 of 1 at once from 10", i+1), "a balance of at least 0", words(answer))
			}
			continue
		}
		c.compare("one of 64 debits of 1 at once from 10", answer, want{outcome: refused, reason: insufficientFunds})
	}
	if done != 10 {
		c.broken("64 debits of 1 at once from 10", "10 are APPLIED", fmt.Sprintf("%d are", done))
	}
	c.holds(a, 0, "64 debits of 1 at once from 10")
}

func batchesCross(c *check) {
	a, b := c.funded("alice", 1000), c.funded("bob", 1000)
	var calls [][]*pb.Operation
	for range 20 {
		calls = append(calls, []*pb.Operation{c.debit(a, 1), c.credit(b, 1)}, []*pb.Operation{c.debit(b, 1), c.credit(a, 1)})
	}
	if c.peer.describe.GetBatchSizeMax() < 2 {
		c.notRun("it needs batches of 2, and Describe allows none")
	}
	failures := make([]error, len(calls))
	got := make([][]*pb.Answer, len(calls))
	c.together(len(calls), func(i int) { got[i], failures[i] = c.tryBatch(calls[i]...) })
	for i := range calls {
		if failures[i] != nil {
			c.broken(fmt.Sprintf("one of %d at once: %s", len(calls), batchWords(calls[i])), "answers in an OK response", failures[i].Error())
		}
		for j, answer := range got[i] {
			c.compare(words(calls[i][j]), answer, want{outcome: applied, moved: 1})
		}
	}
	c.holds(a, 1000, "batches that cross")
	c.holds(b, 1000, "batches that cross")
}
