package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"giro/internal/rpc"
	pb "giro/proto/giro/participant/v1"
)

// patience bounds one call. No call takes so long: a replica that dies breaks the
// connection, and one that lives answers within the engine's own bound.
const patience = time.Minute

// tally counts what has happened.
type tally struct {
	asked, first, duplicates, answered, unknown, broken, reused, kills atomic.Int64
}

// caller asks one replica, and others when that one does not answer.
type caller struct {
	writer
	own      int
	replicas []*replica
	tally    *tally
	faults   *faults
}

// run asks until the storm is over.
func (c *caller) run(storm <-chan struct{}) {
	for {
		select {
		case <-storm:
			return
		default:
		}
		switch {
		case c.chance(20): // a tenth of the operations: a transfer has more than one
			c.repeat(c.duplicate())
		case c.chance(5):
			c.batch()
		default:
			asks, together := c.transfer()
			c.tally.first.Add(int64(len(asks)))
			c.transferred(asks, together)
		}
	}
}

// repeat sends a duplicate, a third of the time to several replicas at once.
func (c *caller) repeat(asks []ask) {
	if len(asks) == 0 {
		return
	}
	places := []int{c.random.IntN(len(c.replicas))}
	if asks[0].field == "" && c.chance(33) {
		places = []int{c.own, c.own, (c.own + 1) % len(c.replicas)}
	}
	c.tally.duplicates.Add(int64(len(places)))
	c.atOnce(places, slices.Repeat([][]ask{asks}, len(places)))
}

// batch sends the operations of many transfers in one Apply, some of them twice.
func (c *caller) batch() {
	var asks []ask
	for len(asks) < 20 {
		more, _ := c.transfer()
		c.tally.first.Add(int64(len(more)))
		asks = append(asks, more...)
		if c.chance(10) {
			asks = append(asks, more[0])
			c.tally.duplicates.Add(1)
		}
	}
	c.insist(c.own, asks)
}

// transferred sends the operations of one transfer: all in one Apply, all at once
// to different replicas, or one after another.
func (c *caller) transferred(asks []ask, together bool) {
	switch {
	case together:
		var places []int
		var each [][]ask
		for i := range asks {
			places, each = append(places, (c.own+i)%len(c.replicas)), append(each, asks[i:i+1])
		}
		c.atOnce(places, each)
	case c.chance(20):
		c.insist(c.own, asks)
	default:
		for i := range asks {
			place := c.own
			if c.chance(20) {
				place = c.random.IntN(len(c.replicas))
			}
			c.insist(place, asks[i:i+1])
		}
	}
}

// atOnce sends several requests at the same time.
func (c *caller) atOnce(places []int, requests [][]ask) {
	var wait sync.WaitGroup
	left := make([][]ask, len(requests))
	for i, asks := range requests {
		limit := c.limit()
		wait.Go(func() { left[i] = c.send(places[i], asks, limit) })
	}
	wait.Wait()
	for _, asks := range left {
		c.insistOn(asks)
	}
}

// insist sends a request, and what is not known of it again.
func (c *caller) insist(place int, asks []ask) { c.insistOn(c.send(place, asks, c.limit())) }

// insistOn asks again, more often than not, as an orchestrator does. Of the rest it
// is found out at the end.
func (c *caller) insistOn(asks []ask) {
	for range 5 {
		if len(asks) == 0 || c.chance(30) {
			return
		}
		<-time.After(time.Duration(5+c.random.IntN(60)) * time.Millisecond)
		asks = c.send(c.random.IntN(len(c.replicas)), asks, patience)
	}
}

// limit is how long a caller waits; some leave early.
func (c *caller) limit() time.Duration {
	if c.chance(3) {
		return time.Duration(1+c.random.IntN(30)) * time.Millisecond
	}
	return patience
}

// send makes one call, judges its answers, and gives what is not known.
func (c *caller) send(place int, asks []ask, limit time.Duration) (left []ask) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for _, a := range asks {
		if a.field == "" {
			a.record.mu.Lock()
			a.record.asked = a.operation
			a.record.mu.Unlock()
		}
	}
	c.tally.asked.Add(int64(len(asks)))
	got, err := call(ctx, c.replicas[place].participant, asks)
	if err != nil {
		c.tally.unknown.Add(int64(len(asks)))
		c.judgeError(err, limit < patience)
		return asks
	}
	if len(got) != len(asks) {
		c.faults.add("%d answers to %d operations", len(got), len(asks))
		return asks
	}
	for i, a := range asks {
		if got[i].GetOutcome() == pb.Outcome_OUTCOME_UNSPECIFIED {
			c.tally.unknown.Add(1)
			left = append(left, a)
			continue
		}
		c.tally.answered.Add(1)
		if err := c.judge(a, got[i]); err != nil {
			c.faults.add("%v", err)
		}
	}
	return left
}

// judge judges an answer. Other contents under a known key are KEY_REUSED, except
// that a tombstone matches any.
func (c *caller) judge(a ask, got *pb.Answer) error {
	if got.GetKey() != a.operation.GetKey() || got.GetAmount() != a.operation.GetAmount() {
		return fmt.Errorf("%v was answered for another: %v", a.operation, got)
	}
	if a.field == "" || a.record.known().GetOutcome() == pb.Outcome_OUTCOME_CANCELLED {
		return a.record.hear(got)
	}
	c.tally.reused.Add(1)
	if got.GetOutcome() != pb.Outcome_OUTCOME_KEY_REUSED || !slices.Equal(got.GetDifferingFields(), []string{a.field}) {
		return fmt.Errorf("%v differs in %s from %v and was answered %v", a.operation, a.field, a.record.operation, got)
	}
	return nil
}

// judgeError takes errors of giro's own, and connections that broke; nothing else
// may end a call.
func (c *caller) judgeError(err error, impatient bool) {
	code := status.Code(err)
	switch {
	case code == codes.Internal || code == codes.Unknown:
		c.faults.add("a caller was told %v", err)
	case rpc.Reason(err) != "" || impatient && code == codes.DeadlineExceeded:
	case code == codes.Unavailable:
		c.tally.broken.Add(1)
	default:
		c.faults.add("neither an error of giro's nor a broken connection: %v", err)
	}
}

// call sends one operation by the call of its kind, and several by Apply.
func call(ctx context.Context, p pb.ParticipantServiceClient, asks []ask) ([]*pb.Answer, error) {
	if len(asks) > 1 {
		request := &pb.ApplyRequest{}
		for _, a := range asks {
			request.Operations = append(request.Operations, a.operation)
		}
		got, err := p.Apply(ctx, request)
		return got.GetAnswers(), err
	}
	one, err := single(ctx, p, proto.CloneOf(asks[0].operation))
	return []*pb.Answer{one}, err
}

func single(ctx context.Context, p pb.ParticipantServiceClient, o *pb.Operation) (*pb.Answer, error) {
	switch o.GetKind() {
	case pb.OperationKind_OPERATION_KIND_DEBIT:
		got, err := p.Debit(ctx, &pb.DebitRequest{Operation: o})
		return got.GetAnswer(), err
	case pb.OperationKind_OPERATION_KIND_CREDIT:
		got, err := p.Credit(ctx, &pb.CreditRequest{Operation: o})
		return got.GetAnswer(), err
	case pb.OperationKind_OPERATION_KIND_REFUND:
		got, err := p.Refund(ctx, &pb.RefundRequest{Operation: o})
		return got.GetAnswer(), err
	}
	got, err := p.Cancel(ctx, &pb.CancelRequest{Operation: o})
	return got.GetAnswer(), err
}
