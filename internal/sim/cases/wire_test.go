package cases

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	participantv1 "giro/proto/giro/participant/v1"
)

type kind = participantv1.OperationKind

// The kinds of operations, short.
const (
	debit  = participantv1.OperationKind_OPERATION_KIND_DEBIT
	credit = participantv1.OperationKind_OPERATION_KIND_CREDIT
	refund = participantv1.OperationKind_OPERATION_KIND_REFUND
	cancel = participantv1.OperationKind_OPERATION_KIND_CANCEL
)

const always = 0

// wire is the line to one participant, with faults. It counts every operation
// that the orchestrators send.
type wire struct {
	inner grpc.ClientConnInterface

	mu     sync.Mutex
	faults []*plannedFault
	sent   []*participantv1.Operation
}

// A fault does something with one Apply on its way.
type fault func(ctx context.Context, apply delivery) (*participantv1.ApplyResponse, error)

type plannedFault struct {
	kind  kind
	times int // left; always: no end
	fault fault
}

// delivery is one Apply; deliver carries it on, whatever became of its caller.
type delivery struct {
	request *participantv1.ApplyRequest
	deliver func() (*participantv1.ApplyResponse, error)
}

// on plans a fault for the next so many calls that hold an operation of a kind.
// The function takes it away.
func (w *wire) on(k kind, times int, f fault) (heal func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &plannedFault{kind: k, times: times, fault: f}
	w.faults = append(w.faults, p)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.faults = slices.DeleteFunc(w.faults, func(other *plannedFault) bool { return other == p })
	}
}

// count tells how many operations of a kind were sent.
func (w *wire) count(k kind) int {
	n := 0
	for _, o := range w.log() {
		if o.GetKind() == k {
			n++
		}
	}
	return n
}

// log lists the operations that were sent, oldest first.
func (w *wire) log() []*participantv1.Operation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sent)
}

func (w *wire) planned(request *participantv1.ApplyRequest) fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, request.GetOperations()...)
	for i, p := range w.faults {
		for _, o := range request.GetOperations() {
			if o.GetKind() != p.kind {
				continue
			}
			if p.times == 1 {
				w.faults = slices.Delete(w.faults, i, i+1)
			} else if p.times > 1 {
				p.times--
			}
			return p.fault
		}
	}
	return nil
}

// Invoke carries a call, with a fault if one is planned for it.
func (w *wire) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if !strings.HasSuffix(method, "/Apply") {
		return w.inner.Invoke(ctx, method, args, reply, opts...)
	}
	request := proto.Clone(args.(proto.Message)).(*participantv1.ApplyRequest)
	f := w.planned(request)
	if f == nil {
		return w.inner.Invoke(ctx, method, args, reply, opts...)
	}
	response, err := f(ctx, delivery{request: request, deliver: func() (*participantv1.ApplyResponse, error) {
		out := &participantv1.ApplyResponse{}
		err := w.inner.Invoke(context.WithoutCancel(ctx), method, request, out)
		return out, err
	}})
	if err != nil {
		return err
	}
	proto.Merge(reply.(proto.Message), response)
	return nil
}

// NewStream carries a stream; there are no faults on streams.
func (w *wire) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return w.inner.NewStream(ctx, desc, method, opts...)
}

// drop loses the request.
func drop(context.Context, delivery) (*participantv1.ApplyResponse, error) {
	return nil, status.Error(codes.Unavailable, "lost on the wire")
}

// failed answers with a code instead of asking.
func failed(code codes.Code) fault {
	return func(context.Context, delivery) (*participantv1.ApplyResponse, error) {
		return nil, status.Error(code, "planned")
	}
}

// doneBut delivers, and answers with a code all the same.
func doneBut(code codes.Code) fault {
	return func(_ context.Context, d delivery) (*participantv1.ApplyResponse, error) {
		if _, err := d.deliver(); err != nil {
			return nil, err
		}
		return nil, status.Error(code, "planned, after it was done")
	}
}

// twice delivers twice and gives the second answer.
func twice(_ context.Context, d delivery) (*participantv1.ApplyResponse, error) {
	if _, err := d.deliver(); err != nil {
		return nil, err
	}
	return d.deliver()
}

// doneThen delivers, lets something happen, and loses the answer.
func doneThen(happen func()) fault {
	return func(_ context.Context, d delivery) (*participantv1.ApplyResponse, error) {
		_, err := d.deliver()
		happen()
		if err != nil {
			return nil, err
		}
		return nil, status.Error(codes.Unavailable, "the answer was lost")
	}
}

// firstThen lets something happen before it is delivered.
func firstThen(happen func()) fault {
	return func(_ context.Context, d delivery) (*participantv1.ApplyResponse, error) {
		happen()
		return d.deliver()
	}
}

// changed delivers and changes each answer.
func changed(change func(*participantv1.Answer)) fault {
	return func(_ context.Context, d delivery) (*participantv1.ApplyResponse, error) {
		r, err := d.deliver()
		if err != nil {
			return nil, err
		}
		for _, a := range r.GetAnswers() {
			change(a)
		}
		return r, nil
	}
}

// invented never delivers and makes up each answer, with key and amount echoed.
func invented(change func(*participantv1.Answer)) fault {
	return func(_ context.Context, d delivery) (*participantv1.ApplyResponse, error) {
		r := &participantv1.ApplyResponse{}
		for _, o := range d.request.GetOperations() {
			a := &participantv1.Answer{Key: o.GetKey(), Amount: o.GetAmount()}
			change(a)
			r.Answers = append(r.Answers, a)
		}
		return r, nil
	}
}

// shelf keeps requests back until they are released, long after their callers
// have given them up.
type shelf struct {
	mu       sync.Mutex
	kept     []delivery
	released chan struct{}
}

func newShelf() *shelf { return &shelf{released: make(chan struct{})} }

// hold is the fault: the request waits on the shelf.
func (s *shelf) hold(ctx context.Context, d delivery) (*participantv1.ApplyResponse, error) {
	s.mu.Lock()
	s.kept = append(s.kept, d)
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	case <-s.released:
		return nil, status.Error(codes.Unavailable, "its answer comes too late")
	}
}

// holding tells how many requests wait.
func (s *shelf) holding() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kept)
}

// release delivers everything now, and gives the answers of all.
func (s *shelf) release() ([]*participantv1.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var answers []*participantv1.Answer
	for _, d := range s.kept {
		r, err := d.deliver()
		if err != nil {
			return nil, err
		}
		if len(r.GetAnswers()) != len(d.request.GetOperations()) {
			return nil, fmt.Errorf("%d answers to %d operations", len(r.GetAnswers()), len(d.request.GetOperations()))
		}
		answers = append(answers, r.GetAnswers()...)
	}
	close(s.released)
	return answers, nil
}

// clear forgets what was sent.
func (w *wire) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = nil
}

// Short names for faults written in place.
type (
	ctxt     = context.Context
	response = participantv1.ApplyResponse
)
