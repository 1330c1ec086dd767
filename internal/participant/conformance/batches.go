package conformance

import (
	"fmt"

	pb "giro/proto/giro/participant/v1"
)

var batchRules = []rule{
	{Rule: Rule{"batch-answers-in-order", "a batch answers each item on its own, in the order of the request", batches}, run: batchInOrder},
	{Rule: Rule{"batch-decides-in-order", "each item of a batch sees what the ones before it did", batches}, run: batchDecidesInOrder},
	{Rule: Rule{"batch-key-twice", "a key that stands twice in a batch is done once and answered twice", batches}, run: batchKeyTwice},
	{Rule: Rule{"batch-debit-refund-cancel", "debit, refund and cancel of one transfer in one batch follow each other", batches}, run: batchOneTransfer},
	{Rule: Rule{"batch-at-the-limit", "a batch of batch_size_max is answered", batches}, run: batchAtLimit},
	{Rule: Rule{"batch-beyond-the-limit", "a batch of one more is an error, and none of it is done", batches}, run: batchBeyondLimit},
}

// batchOf sends a batch and compares each answer with its item's.
func (c *check) batchOf(all []*pb.Operation, wants []want) []*pb.Answer {
	got := c.batch(all...)
	for i := range all {
		sent := fmt.Sprintf("item %d of %s", i+1, batchWords(all))
		if got[i].GetKey() != all[i].GetKey() {
			c.broken(sent, "an answer to key "+all[i].GetKey(), words(got[i]))
		}
		c.compare(sent, got[i], wants[i])
	}
	return got
}

func batchInOrder(c *check) {
	a := c.funded("alice", 100)
	malformed := with(c.debit(a, 1), func(o *pb.Operation) { o.Currency = "usd" })
	all := []*pb.Operation{c.debit(a, 10), malformed, c.credit(c.nobody(), 1), cancelOf(c.debit(a, 1)), c.debit(a, 1000), c.credit(a, 3)}
	c.batchOf(all, []want{{outcome: applied, moved: 10}, {outcome: invalid, fields: []string{"currency"}}, {outcome: refused, reason: accountNotFound},
		{outcome: cancelled}, {outcome: refused, reason: insufficientFunds}, {outcome: applied, moved: 3}})
	c.holds(a, 93, "a batch with a malformed and two refused items")
}

func batchDecidesInOrder(c *check) {
	a := c.funded("alice", 100)
	all := []*pb.Operation{c.debit(a, 60), c.debit(a, 60), c.credit(a, 20), c.debit(a, 60), c.debit(a, 1)}
	got := c.batchOf(all, []want{{outcome: applied, moved: 60}, {outcome: refused, reason: insufficientFunds}, {outcome: applied, moved: 20},
		{outcome: applied, moved: 60}, {outcome: refused, reason: insufficientFunds}})
	for i, balance := range map[int]int64{0: 40, 2: 60, 3: 0} {
		c.left(all[i], got[i], balance)
	}
	c.holds(a, 0, "a batch of four debits and a credit")
}

func batchKeyTwice(c *check) {
	a := c.funded("alice", 100)
	d := c.debit(a, 40)
	c.batchOf([]*pb.Operation{d, d, with(d, func(o *pb.Operation) { o.Amount = 41 })},
		[]want{{outcome: applied, moved: 40}, {outcome: applied, moved: 40}, {outcome: keyReused, fields: []string{"amount"}}})
	r := refundOf(d)
	c.batchOf([]*pb.Operation{r, r}, []want{{outcome: applied, moved: 40}, {outcome: applied, moved: 40}})
	c.holds(a, 100, "a debit and a refund that stand twice in a batch")
}

func batchOneTransfer(c *check) {
	a := c.funded("alice", 100)
	done, none := want{outcome: applied, moved: 40}, want{outcome: applied}
	dead := want{outcome: cancelled}
	d := c.debit(a, 40)
	c.batchOf([]*pb.Operation{d, refundOf(d), cancelOf(d)}, []want{done, done, done})
	d = c.debit(a, 40)
	c.batchOf([]*pb.Operation{refundOf(d), d, cancelOf(d)}, []want{none, dead, dead})
	d = c.debit(a, 40)
	c.batchOf([]*pb.Operation{cancelOf(d), d, refundOf(d)}, []want{dead, dead, none})
	d = c.debit(a, 40)
	c.batchOf([]*pb.Operation{d, refundOf(d), c.otherRefundOf(d)}, []want{done, done, {outcome: refused, reason: alreadyRefunded}})
	c.holds(a, 100, "batches of debit, refund and cancel of one transfer")
}

// debits makes n debits of 1.
func (c *check) debits(a account, n int) []*pb.Operation {
	var all []*pb.Operation
	for range n {
		all = append(all, c.debit(a, 1))
	}
	return all
}

// batchTried is the largest batch that is tried: it still fits a request.
const batchTried = 5000

// limit is the participant's batch limit.
func (c *check) limit() int {
	n := int(c.peer.describe.GetBatchSizeMax())
	if n > batchTried {
		c.notRun("batches of up to %d are tried, and Describe allows %d", batchTried, n)
	}
	return n
}

func batchAtLimit(c *check) {
	n := c.limit()
	a := c.funded("alice", int64(n)+5)
	all := c.debits(a, n)
	var wants []want
	for range all {
		wants = append(wants, want{outcome: applied, moved: 1})
	}
	c.batchOf(all, wants)
	c.holds(a, 5, fmt.Sprintf("a batch of %d debits of 1", n))
}

func batchBeyondLimit(c *check) {
	n := c.limit() + 1
	a := c.funded("alice", int64(n)+5)
	all := c.debits(a, n)
	if got, err := c.tryBatch(all...); err == nil {
		c.broken(batchWords(all), fmt.Sprintf("an error: Describe allows %d", n-1), fmt.Sprintf("%d answers", len(got)))
	}
	for _, o := range []*pb.Operation{all[0], all[n-1]} {
		c.compare("GetOperation after a batch that was too large: "+words(o), c.get(o), want{outcome: notFound})
	}
	c.holds(a, int64(n)+5, "a batch that was too large")
}
