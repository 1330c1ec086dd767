package conformance

import (
	"context"
	"fmt"
	"time"

	"giro/internal/rpc"
	pb "giro/proto/giro/participant/v1"
)

var lostRules = []rule{
	{Rule: Rule{"lost-answer", "what was answered is done though the answer is lost, and the repeat finds it", durability}, run: lostAnswer},
	{Rule: Rule{"lost-answer-of-a-batch", "the same of a batch", durability}, run: lostBatch},
}

// lose makes a call through a proxy that passes it on and loses the answer.
func (c *check) lose(sent string, call func(context.Context, *peer) error) {
	p, err := newProxy(c.suite.config.Target)
	if err != nil {
		c.notRun("the suite's own proxy cannot listen: %v", err)
	}
	defer p.close()
	conn, err := rpc.Dial(p.address())
	if err != nil {
		c.notRun("the suite's own proxy cannot be reached: %v", err)
	}
	defer conn.Close()
	through := newPeer(conn)
	if err := through.meet(c.ctx, answerSeconds*time.Second); err != nil {
		c.broken("Describe, through a proxy", "an answer", err.Error())
	}
	p.arm()
	if err := once(c.ctx, func(ctx context.Context) error { return call(ctx, through) }); err == nil || p.lost() == 0 {
		c.broken(sent+", through a proxy", "an answer, which the proxy then loses", fmt.Sprint(err))
	}
}

func lostAnswer(c *check) {
	a, all, wants := c.oneOfEach()
	for i, o := range all {
		c.lose(words(o), func(ctx context.Context, through *peer) error {
			_, err := through.single(ctx, o)
			return err
		})
		named := o
		if o.GetKind() == kindCancel {
			named = with(o, func(o *pb.Operation) { o.Kind = 0 })
		}
		found := c.get(named)
		c.compare("GetOperation, after it was answered and the answer was lost: "+words(o), found, wants[i])
		c.repeats(o, found)
	}
	c.holds(a, 107, "one of each operation, each answer lost and each asked again")
}

func lostBatch(c *check) {
	a := c.funded("alice", 100)
	d := c.debit(a, 40)
	all := []*pb.Operation{d, c.credit(a, 7), c.debit(a, 1000)}
	wants := []want{{outcome: applied, moved: 40}, {outcome: applied, moved: 7}, {outcome: refused, reason: insufficientFunds}}
	c.lose(batchWords(all), func(ctx context.Context, through *peer) error {
		_, err := through.client.Apply(ctx, &pb.ApplyRequest{Operations: all})
		return err
	})
	for i, o := range all {
		c.compare("GetOperation, after a batch was answered and the answer was lost: "+words(o), c.get(o), wants[i])
	}
	c.batchOf(all, wants)
	c.holds(a, 67, "a batch whose answer was lost, and that was asked again")
}

var restartRules = []rule{
	{Rule: Rule{"restart-keeps-outcomes", "after a restart what was APPLIED is found, and is not done again", durability}, over: restartOutcomes},
	{Rule: Rule{"restart-keeps-refusals", "after a restart what was REFUSED is still refused", durability}, over: restartRefusals},
	{Rule: Rule{"restart-keeps-tombstones", "after a restart what was CANCELLED is still dead", durability}, over: restartTombstones},
	{Rule: Rule{"restart-keeps-identity", "after a restart the incarnation is the same, and the high-water mark has not fallen", durability}, over: restartIdentity},
}

// after is what must still be answered after a restart, by the call and by a
// look-up.
func (c *check) after(all []*pb.Operation, firsts []*pb.Answer) {
	for i, o := range all {
		c.repeats(o, firsts[i])
		if found := c.get(o); !sameAnswer(found, firsts[i]) {
			c.broken("GetOperation after a restart: "+words(o), words(firsts[i]), words(found))
		}
	}
}

func restartOutcomes(c *check) func() {
	a := c.funded("alice", 100)
	d := c.debit(a, 40)
	all := []*pb.Operation{d, c.credit(a, 7), refundOf(d)}
	var firsts []*pb.Answer
	for i, moved := range []int64{40, 7, 40} {
		firsts = append(firsts, c.expect(all[i], want{outcome: applied, moved: moved}))
	}
	return func() {
		c.after(all, firsts)
		c.expect(c.otherRefundOf(d), want{outcome: refused, reason: alreadyRefunded})
		c.holds(a, 107, "a debit, a credit and a refund, asked again after a restart")
	}
}

func restartRefusals(c *check) func() {
	a := c.funded("alice", 10)
	d := c.debit(a, 40)
	first := c.expect(d, want{outcome: refused, reason: insufficientFunds})
	c.expect(c.credit(a, 90), want{outcome: applied, moved: 90})
	return func() {
		c.after([]*pb.Operation{d}, []*pb.Answer{first})
		c.holds(a, 100, "a refused debit, a top-up, a restart, the debit again")
	}
}

func restartTombstones(c *check) func() {
	a := c.funded("alice", 100)
	d, paid, late := c.debit(a, 40), c.credit(a, 40), c.debit(a, 40)
	c.expect(cancelOf(d), want{outcome: cancelled})
	c.expect(cancelOf(paid), want{outcome: cancelled})
	c.expect(refundOf(late), want{outcome: applied})
	return func() {
		for _, o := range []*pb.Operation{d, paid, late} {
			c.expect(o, want{outcome: cancelled})
		}
		c.holds(a, 100, "cancelled operations, a restart, the operations")
	}
}

func restartIdentity(c *check) func() {
	a := c.funded("alice", 10)
	c.expect(c.debit(a, 1), want{outcome: applied, moved: 1})
	before := c.describe()
	return func() {
		after := c.describe()
		if after.GetIncarnation() != before.GetIncarnation() || after.GetHighWaterMark() < before.GetHighWaterMark() {
			c.broken("Describe, a restart, Describe", fmt.Sprintf("incarnation %s and a high_water_mark of at least %d",
				before.GetIncarnation(), before.GetHighWaterMark()), words(after))
		}
	}
}
