package conformance

import (
	"context"
	"fmt"
	"sync"
	"time"

	"giro/internal/rpc"
	pb "giro/proto/giro/participant/v1"
)

var lostRules = []rule{
	{Rule: Rule{"lost-answer", "what was answered is done though the answer is lost, and the repeat finds it", durability}, run: lostAnswer},
	{Rule: Rule{"lost-answer-of-a-batch", "the same of a batch", durability}, run: lostBatch},
	{Rule: Rule{"callers-that-leave", "a call whose caller leaves is done whole or not at all, and the repeat says which", durability}, run: callersThatLeave},
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

// callersThatLeave gives calls so little time that some leave before the answer,
// some while it is being done, and some before they were heard.
func callersThatLeave(c *check) {
	a := c.funded("alice", 1000)
	all := c.debits(a, 60)
	c.together(len(all), func(i int) {
		ctx, cancel := context.WithTimeout(c.ctx, time.Millisecond/2<<(i%8))
		defer cancel()
		_, _ = c.peer.single(ctx, all[i]) // whatever became of it
	})
	for _, o := range all {
		c.expect(o, want{outcome: applied, moved: 1})
	}
	c.holds(a, 1000-int64(len(all)), fmt.Sprintf("%d debits of 1 whose callers left, each asked again", len(all)))
}

var restartRules = []rule{
	{Rule: Rule{"restart-keeps-outcomes", "after a restart what was APPLIED is found, and is not done again", durability}, over: restartOutcomes},
	{Rule: Rule{"restart-keeps-refusals", "after a restart what was REFUSED is still refused", durability}, over: restartRefusals},
	{Rule: Rule{"restart-keeps-tombstones", "after a restart what was CANCELLED is still dead", durability}, over: restartTombstones},
	{Rule: Rule{"restart-keeps-identity", "after a restart the incarnation is the same, and the high-water mark has not fallen", durability}, over: restartIdentity},
	{Rule: Rule{"restart-under-load", "a restart amid calls loses nothing that was answered, and does nothing twice", durability}, over: restartUnderLoad},
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

// load is what writers sent, and what they were told.
type load struct {
	mu       sync.Mutex
	sent     []*pb.Operation
	answered map[string]*pb.Answer
}

// write sends credits of 1, one after the other, until ctx ends, and lets the last
// call have its answer: one left alone could move money after the end. It does not
// ask again: that is left for after the restart.
func (l *load) write(ctx context.Context, c *check, a account) {
	for ctx.Err() == nil {
		o := c.credit(a, 1)
		l.mu.Lock()
		l.sent = append(l.sent, o)
		full := len(l.sent) >= loadMax
		l.mu.Unlock()
		var answer *pb.Answer
		err := once(c.ctx, func(ctx context.Context) (err error) {
			answer, err = c.peer.single(ctx, o)
			return err
		})
		if err == nil {
			l.mu.Lock()
			l.answered[o.GetKey()] = answer
			l.mu.Unlock()
		}
		if err != nil || full {
			select { // nobody may be there now
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}

// known counts the answers so far.
func (l *load) known() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.answered)
}

// loadMax is how many credits are sent before the writers go slowly.
const loadMax = 500

func restartUnderLoad(c *check) func() {
	a := c.funded("alice", 1)
	l := &load{answered: map[string]*pb.Answer{}}
	ctx, stop := context.WithCancel(c.ctx)
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() { l.write(ctx, c, a) })
	}
	c.end = func() {
		stop()
		writers.Wait()
	}
	for deadline := time.Now().Add(callSeconds * time.Second); l.known() < 20 && time.Now().Before(deadline); {
		c.describe() // a call's time passes
	}
	return func() {
		c.end()
		for _, o := range l.sent {
			if first := l.answered[o.GetKey()]; first != nil {
				c.repeats(o, first)
			} else {
				c.expect(o, want{outcome: applied, moved: 1})
			}
		}
		c.holds(a, int64(len(l.sent))+1, fmt.Sprintf("%d credits of 1 around a restart, each asked again", len(l.sent)))
	}
}
