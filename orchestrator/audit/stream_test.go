package audit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"giro/orchestrator/saga"
	adminv1 "giro/proto/giro/admin/v1"
	participantv1 "giro/proto/giro/participant/v1"
)

// stuck names each page of its list as the next.
type stuck struct {
	participantv1.ParticipantServiceClient
}

func (s stuck) ListOperations(context.Context, *participantv1.ListOperationsRequest,
	...grpc.CallOption) (*participantv1.ListOperationsResponse, error) {
	return &participantv1.ListOperationsResponse{NextPageToken: "again"}, nil
}

func TestStreamSendsChecksThenOneVerdict(t *testing.T) {
	w := sound()
	w.debit(w.saga("running", saga.Crediting), applied)
	w.drop("completed-1", credit)
	var checks []*adminv1.AuditCheck
	var verdict *adminv1.AuditVerdict
	err := Stream(context.Background(), w.config(), func(r *adminv1.AuditResponse) error {
		switch {
		case verdict != nil:
			t.Error("something follows the verdict")
		case r.GetCheck() != nil:
			checks = append(checks, r.GetCheck())
		case r.GetVerdict() != nil:
			verdict = r.GetVerdict()
		case len(checks) > 0 || r.GetProgress().GetSource() == "":
			t.Errorf("an odd message: %v", r)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(checks) != 10 || verdict == nil {
		t.Fatalf("got %d checks and verdict %v", len(checks), verdict)
	}
	if c := checks[4]; c.Number != 5 || c.FindingCount != 1 || !strings.Contains(c.Findings[0], "completed-1") {
		t.Errorf("check 5 is %v", c)
	}
	if verdict.Ok || verdict.Transfers != 11 || verdict.Operations != 24 || verdict.Pending != 1 || verdict.InTransit["USD"] != "8000" {
		t.Errorf("the verdict is %v", verdict)
	}
}

func TestStreamEndsWhereNobodyListens(t *testing.T) {
	gone, sent := errors.New("gone"), 0
	err := Stream(context.Background(), sound().config(), func(*adminv1.AuditResponse) error { sent++; return gone })
	if !errors.Is(err, gone) || sent != 1 {
		t.Errorf("got %v after %d messages", err, sent)
	}
}

func TestStreamGivesNoVerdictOfWhatWasNotRead(t *testing.T) {
	w := sound()
	w.books[alpha].fail = errors.New("away")
	err := Stream(context.Background(), w.config(), func(r *adminv1.AuditResponse) error {
		if r.GetProgress() == nil {
			t.Errorf("sent %v", r)
		}
		return nil
	})
	if err == nil {
		t.Error("no error")
	}
}

func TestProgressIsLimited(t *testing.T) {
	now := epoch
	limit, allowed := limiter{now: func() time.Time { return now }}, 0
	for range 1000 { // ten seconds, in steps of 10 ms
		if limit.allow() {
			allowed++
		}
		now = now.Add(10 * time.Millisecond)
	}
	if allowed != 50 {
		t.Errorf("%d went through in ten seconds", allowed)
	}
}
