package peer

import (
	"context"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"giro/internal/fingerprint"
	"giro/orchestrator/saga"
	participantv1 "giro/proto/giro/participant/v1"
)

// wire is a connection that answers Apply as it is told.
type wire struct {
	grpc.ClientConnInterface
	answer func(*participantv1.ApplyRequest) (*participantv1.ApplyResponse, error)
}

func (w wire) Invoke(_ context.Context, _ string, request, response any, _ ...grpc.CallOption) error {
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
