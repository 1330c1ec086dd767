package peer

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"giro/internal/fingerprint"
	"giro/orchestrator/saga"
	participantv1 "giro/proto/giro/participant/v1"
)

// wire is a connection that answers Apply as it is told. Without describe it is
// participant a, without limits.
type wire struct {
	grpc.ClientConnInterface
	answer   func(*participantv1.ApplyRequest) (*participantv1.ApplyResponse, error)
	describe func() (*participantv1.DescribeResponse, error)
}

func (w wire) Invoke(_ context.Context, _ string, request, response any, _ ...grpc.CallOption) error {
	if _, ok := request.(*participantv1.DescribeRequest); ok {
		if w.describe == nil {
			w.describe = func() (*participantv1.DescribeResponse, error) {
				return &participantv1.DescribeResponse{Participant: "a"}, nil
			}
		}
		described, err := w.describe()
		if err == nil {
			proto.Merge(response.(proto.Message), described)
		}
		return err
	}
	answer, err := w.answer(request.(*participantv1.ApplyRequest))
	if err == nil {
		response.(*participantv1.ApplyResponse).Answers = answer.GetAnswers()
	}
	return err
}

func transfer() saga.Saga {
	return saga.New(saga.ID{Tenant: "t", Key: "k"}, fingerprint.Contents{Source: "a/x", Destination: "b/y", Amount: 40, Currency: "USD"}, false)
}

// applied answers every operation with APPLIED.
func applied(r *participantv1.ApplyRequest) (*participantv1.ApplyResponse, error) {
	response := &participantv1.ApplyResponse{}
	for _, o := range r.GetOperations() {
		response.Answers = append(response.Answers, &participantv1.Answer{Outcome: participantv1.Outcome_OUTCOME_APPLIED,
			Key: o.GetKey(), Amount: o.GetAmount(), AmountMoved: o.GetAmount()})
	}
	return response, nil
}

// TestC56OnlyAnAnswerInsideOKCounts: everything else is unknown, whatever it says.
func TestC56OnlyAnAnswerInsideOKCounts(t *testing.T) {
	for name, answer := range map[string]func(*participantv1.ApplyRequest) (*participantv1.ApplyResponse, error){
		"already exists": func(*participantv1.ApplyRequest) (*participantv1.ApplyResponse, error) {
			return nil, status.Error(codes.AlreadyExists, "there")
		},
		"failed precondition": func(*participantv1.ApplyRequest) (*participantv1.ApplyResponse, error) {
			return nil, status.Error(codes.FailedPrecondition, "INSUFFICIENT_FUNDS")
		},
		"no answers": func(*participantv1.ApplyRequest) (*participantv1.ApplyResponse, error) {
			return &participantv1.ApplyResponse{}, nil
		},
		"too many answers": func(r *participantv1.ApplyRequest) (*participantv1.ApplyResponse, error) {
			response, err := applied(r)
			response.Answers = append(response.Answers, response.Answers[0])
			return response, err
		},
		"an answer without an outcome": func(*participantv1.ApplyRequest) (*participantv1.ApplyResponse, error) {
			return &participantv1.ApplyResponse{Answers: []*participantv1.Answer{{}}}, nil
		},
		"an outcome of a later version": func(*participantv1.ApplyRequest) (*participantv1.ApplyResponse, error) {
			return &participantv1.ApplyResponse{Answers: []*participantv1.Answer{{Outcome: 99}}}, nil
		},
		"a nil answer": func(*participantv1.ApplyRequest) (*participantv1.ApplyResponse, error) {
			return &participantv1.ApplyResponse{Answers: []*participantv1.Answer{nil}}, nil
		},
	} {
		p := New("a", wire{answer: answer}, Config{})
		if got := p.Call(t.Context(), transfer().Request(saga.StepDebit)); got.Outcome != saga.OutcomeUnknown || got.Error == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestCallsAtTheSameTimeGoTogether(t *testing.T) {
	var mu sync.Mutex
	var sizes []int
	first, release := make(chan struct{}), make(chan struct{})
	p := New("a", wire{answer: func(r *participantv1.ApplyRequest) (*participantv1.ApplyResponse, error) {
		mu.Lock()
		sizes = append(sizes, len(r.GetOperations()))
		alone := len(sizes) == 1
		mu.Unlock()
		if alone {
			close(first)
			<-release
		}
		return applied(r)
	}}, Config{Workers: 1, BatchSizeMax: 4})
	var callers sync.WaitGroup
	call := func() {
		callers.Go(func() {
			s := transfer()
			if got := p.Call(context.Background(), s.Request(saga.StepCredit)); got.Outcome != saga.OutcomeApplied || got.Key != s.StepKey(saga.StepCredit) {
				t.Errorf("%+v", got)
			}
		})
	}
	call()
	<-first
	for range 8 {
		call()
	}
	for p.queue.Depth() < 8 {
		select {
		case <-t.Context().Done():
			t.Fatal("they do not arrive")
		default:
		}
	}
	close(release)
	callers.Wait()
	if len(sizes) != 3 || sizes[0] != 1 || sizes[1] != 4 || sizes[2] != 4 {
		t.Errorf("batches of %v, want 1, 4, 4", sizes)
	}
}

// TestTheRequestIsTheTransfers: a cancel names the credit, a refund the debit.
func TestTheRequestIsTheTransfers(t *testing.T) {
	s := transfer()
	cancel, refund := Operation(s.Request(saga.StepCancel)), Operation(s.Request(saga.StepRefund))
	if cancel.GetKind() != participantv1.OperationKind_OPERATION_KIND_CANCEL || cancel.GetStep() != "credit" ||
		cancel.GetKey() != s.StepKey(saga.StepCredit).String() || cancel.GetAccount() != "y" || cancel.GetCounterparty() != "a/x" {
		t.Errorf("cancel: %v", cancel)
	}
	if refund.GetKind() != participantv1.OperationKind_OPERATION_KIND_REFUND || refund.GetStep() != "refund" ||
		refund.GetDebitKey() != s.StepKey(saga.StepDebit).String() || refund.GetAccount() != "x" || refund.GetCounterparty() != "b/y" {
		t.Errorf("refund: %v", refund)
	}
}

// TestNothingIsSentToSomebodyElse: a swapped address books nothing; once it is
// mended, the same steps go through.
func TestNothingIsSentToSomebodyElse(t *testing.T) {
	for name, wrong := range map[string]*participantv1.DescribeResponse{
		"another participant": {Participant: "b"},
		"another protocol":    {Participant: "a", ProtocolVersion: 2},
	} {
		sent := 0
		described, failure := wrong, error(nil)
		p := New("a", wire{
			answer:   func(r *participantv1.ApplyRequest) (*participantv1.ApplyResponse, error) { sent++; return applied(r) },
			describe: func() (*participantv1.DescribeResponse, error) { return described, failure },
		}, Config{})
		request := transfer().Request(saga.StepDebit)
		if got := p.Call(t.Context(), request); got.Outcome != saga.OutcomeUnknown || !strings.Contains(got.Error, "nothing was sent") || sent != 0 {
			t.Errorf("%s: %d sent, %+v", name, sent, got)
		}
		failure = status.Error(codes.Unavailable, "away")
		if got := p.Call(t.Context(), request); got.Outcome != saga.OutcomeUnknown || sent != 0 {
			t.Errorf("%s, away: %d sent, %+v", name, sent, got)
		}
		described, failure = &participantv1.DescribeResponse{Participant: "a", ProtocolVersion: 1}, nil
		if got := p.Call(t.Context(), request); got.Outcome != saga.OutcomeApplied || sent != 1 {
			t.Errorf("%s, mended: %d sent, %+v", name, sent, got)
		}
	}
}

// TestTheParticipantIsAskedAgainAfterAFailure: whoever answers then may be
// another one, behind the same address.
func TestTheParticipantIsAskedAgainAfterAFailure(t *testing.T) {
	name, fail, sent := "a", false, 0
	p := New("a", wire{
		answer: func(r *participantv1.ApplyRequest) (*participantv1.ApplyResponse, error) {
			sent++
			if fail {
				return nil, status.Error(codes.Unavailable, "gone")
			}
			return applied(r)
		},
		describe: func() (*participantv1.DescribeResponse, error) {
			return &participantv1.DescribeResponse{Participant: name}, nil
		},
	}, Config{})
	request := transfer().Request(saga.StepDebit)
	p.Call(t.Context(), request)
	fail = true
	p.Call(t.Context(), request)
	fail, name = false, "b"
	if got := p.Call(t.Context(), request); got.Outcome != saga.OutcomeUnknown || sent != 2 {
		t.Errorf("%d sent, %+v", sent, got)
	}
}

// TestASmallerBatchLimitIsKept: a participant that takes few at once gets few.
func TestASmallerBatchLimitIsKept(t *testing.T) {
	largest := 0
	p := New("a", wire{
		answer: func(r *participantv1.ApplyRequest) (*participantv1.ApplyResponse, error) {
			largest = max(largest, len(r.GetOperations()))
			return applied(r)
		},
		describe: func() (*participantv1.DescribeResponse, error) {
			return &participantv1.DescribeResponse{Participant: "a", BatchSizeMax: 3}, nil
		},
	}, Config{})
	requests := slices.Repeat([]saga.Request{transfer().Request(saga.StepDebit)}, 10)
	answers, err := p.callTogether(requests)
	if err != nil || len(answers) != 10 || largest != 3 {
		t.Fatalf("%d answers, at most %d at once, %v", len(answers), largest, err)
	}
	for _, a := range answers {
		if a.Outcome != saga.OutcomeApplied {
			t.Errorf("%+v", a)
		}
	}
}

// TestABacklogForASmallLimitIsWorkedOff: the queue itself gathers no more than the
// participant takes, so that each call's answers come at once and not after all
// the others' time has run out.
func TestABacklogForASmallLimitIsWorkedOff(t *testing.T) {
	var operations atomic.Int64
	p := New("a", wire{
		answer: func(r *participantv1.ApplyRequest) (*participantv1.ApplyResponse, error) {
			operations.Add(int64(len(r.GetOperations())))
			<-time.After(3 * time.Millisecond)
			return applied(r)
		},
		describe: func() (*participantv1.DescribeResponse, error) {
			return &participantv1.DescribeResponse{Participant: "a", BatchSizeMax: 1}, nil
		},
	}, Config{CallTimeout: 150 * time.Millisecond})
	const backlog = 400
	var callers sync.WaitGroup
	for range backlog {
		callers.Go(func() {
			for {
				ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
				answer := p.Call(ctx, transfer().Request(saga.StepDebit))
				cancel()
				if answer.Outcome == saga.OutcomeApplied || t.Context().Err() != nil {
					return
				}
			}
		})
	}
	callers.Wait()
	if n := operations.Load(); n > 2*backlog {
		t.Errorf("%d operations for %d answers", n, backlog)
	}
}

// TestC45NothingIsSentToAParticipantThatForgetsTooSoon: a transfer could need a key
// that is not known any more.
func TestC45NothingIsSentToAParticipantThatForgetsTooSoon(t *testing.T) {
	const day = 24 * time.Hour
	for kept, serves := range map[time.Duration]bool{0: true, 37 * day: true, 37*day - time.Second: false, time.Hour: false, 400 * day: true} {
		sent := 0
		p := New("a", wire{
			answer: func(r *participantv1.ApplyRequest) (*participantv1.ApplyResponse, error) { sent++; return applied(r) },
			describe: func() (*participantv1.DescribeResponse, error) {
				return &participantv1.DescribeResponse{Participant: "a", RetentionHorizonSeconds: int64(kept / time.Second)}, nil
			},
		}, Config{})
		got := p.Call(t.Context(), transfer().Request(saga.StepDebit))
		if served := got.Outcome == saga.OutcomeApplied && sent == 1; served != serves {
			t.Errorf("it keeps keys for %s: %d sent, %+v", kept, sent, got)
		}
		if !serves && (!strings.Contains(got.Error, "nothing was sent") || !strings.Contains(got.Error, "--saga-age-max")) {
			t.Errorf("it keeps keys for %s: %s", kept, got.Error)
		}
	}
}
