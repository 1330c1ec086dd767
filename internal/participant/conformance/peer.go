package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	conformancev1 "giro/proto/giro/conformance/v1"
	pb "giro/proto/giro/participant/v1"
)

// peer is the participant, as it is called.
type peer struct {
	client   pb.ParticipantServiceClient
	setup    conformancev1.ConformanceSetupServiceClient
	describe *pb.DescribeResponse
}

func newPeer(conn grpc.ClientConnInterface) *peer {
	return &peer{client: pb.NewParticipantServiceClient(conn), setup: conformancev1.NewConformanceSetupServiceClient(conn)}
}

// meet waits until the participant answers, and learns what it says of itself.
func (p *peer) meet(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := again(ctx, func(ctx context.Context) error {
		d, err := p.client.Describe(ctx, &pb.DescribeRequest{})
		if err == nil {
			p.describe = d
		}
		return err
	})
	return err
}

// again makes a call until it is answered, as an orchestrator does: an error
// that a busy participant may give says that nothing is known, and the same is
// asked again, for a while. It counts the attempts.
func again(ctx context.Context, call func(context.Context) error) (attempts int, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerSeconds*time.Second)
	defer cancel()
	pause := 20 * time.Millisecond
	for {
		attempts++
		err = once(ctx, call)
		switch status.Code(err) {
		case codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		default:
			return attempts, err
		}
		select {
		case <-ctx.Done():
			return attempts, err
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
	}
}

func once(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callSeconds*time.Second)
	defer cancel()
	return call(ctx)
}

// single makes the call of the operation's own kind.
func (p *peer) single(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
	var r interface{ GetAnswer() *pb.Answer }
	var err error
	switch o.GetKind() {
	case pb.OperationKind_OPERATION_KIND_DEBIT:
		r, err = p.client.Debit(ctx, &pb.DebitRequest{Operation: o})
	case pb.OperationKind_OPERATION_KIND_CREDIT:
		r, err = p.client.Credit(ctx, &pb.CreditRequest{Operation: o})
	case pb.OperationKind_OPERATION_KIND_REFUND:
		r, err = p.client.Refund(ctx, &pb.RefundRequest{Operation: o})
	case pb.OperationKind_OPERATION_KIND_CANCEL:
		r, err = p.client.Cancel(ctx, &pb.CancelRequest{Operation: o})
	default:
		return nil, fmt.Errorf("the suite has no call for kind %v", o.GetKind())
	}
	if err != nil {
		return nil, err
	}
	if r.GetAnswer() == nil {
		return nil, errNoAnswer
	}
	return r.GetAnswer(), nil
}

var errNoAnswer = errors.New("an OK response that holds no answer")
