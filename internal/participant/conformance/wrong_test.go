package conformance_test

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"giro/internal/names"
	"giro/internal/participant"
	"giro/internal/participant/conformance"
	"giro/internal/participant/server"
	"giro/internal/participant/store/mem"
	"giro/internal/rpc/rpctest"
	"giro/internal/stepkey"
	conformancev1 "giro/proto/giro/conformance/v1"
	pb "giro/proto/giro/participant/v1"
)

const (
	applied   = pb.Outcome_OUTCOME_APPLIED
	refused   = pb.Outcome_OUTCOME_REFUSED
	cancelled = pb.Outcome_OUTCOME_CANCELLED
	keyReused = pb.Outcome_OUTCOME_KEY_REUSED
	invalid   = pb.Outcome_OUTCOME_INVALID
	notFound  = pb.Outcome_OUTCOME_NOT_FOUND

	isDebit  = pb.OperationKind_OPERATION_KIND_DEBIT
	isCredit = pb.OperationKind_OPERATION_KIND_CREDIT
	isRefund = pb.OperationKind_OPERATION_KIND_REFUND
	isCancel = pb.OperationKind_OPERATION_KIND_CANCEL
)

// participantUnderTest is a right participant whose calls all go through
// functions that a fault replaces. What a fault remembers is guarded by mu.
type participantUnderTest struct {
	*server.Server
	*server.Setup
	mu sync.Mutex

	// apply answers a batch; a single call is a batch of one.
	apply func(context.Context, []*pb.Operation) ([]*pb.Answer, error)
	// one, if set, answers the items of a batch one by one.
	one      func(context.Context, *pb.Operation) (*pb.Answer, error)
	lookup   func(context.Context, *pb.Operation) (*pb.Answer, error)
	list     func(context.Context, *pb.ListOperationsRequest) (*pb.ListOperationsResponse, error)
	sums     func(context.Context, *pb.SumsRequest) (*pb.SumsResponse, error)
	describe func(context.Context) (*pb.DescribeResponse, error)
	froze    func(tenant, account string)
	restart  func()
}

// right is one without a fault, whose books end with the test: its restart only
// calls what a fault does then.
func right(t *testing.T) *participantUnderTest {
	t.Helper()
	engine := participant.New(mem.New(time.Now), participant.Config{Name: "accounts"})
	t.Cleanup(engine.Close)
	p := &participantUnderTest{Server: server.New(engine), Setup: server.NewSetup(engine), froze: func(string, string) {}, restart: func() {}}
	p.apply = func(ctx context.Context, operations []*pb.Operation) ([]*pb.Answer, error) {
		r, err := p.Server.Apply(ctx, &pb.ApplyRequest{Operations: operations})
		return r.GetAnswers(), err
	}
	p.lookup = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
		r, err := p.Server.GetOperation(ctx, &pb.GetOperationRequest{Operation: o})
		return r.GetAnswer(), err
	}
	p.list, p.sums = p.Server.ListOperations, p.Server.Sums
	p.describe = func(ctx context.Context) (*pb.DescribeResponse, error) { return p.Server.Describe(ctx, nil) }
	return p
}

func (p *participantUnderTest) answer(ctx context.Context, operations []*pb.Operation) ([]*pb.Answer, error) {
	if p.one == nil {
		return p.apply(ctx, operations)
	}
	if limit := 128; len(operations) > limit {
		return p.apply(ctx, operations) // which refuses it
	}
	var answers []*pb.Answer
	for _, o := range operations {
		a, err := p.one(ctx, o)
		if err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// plain asks for one operation without the fault.
func (p *participantUnderTest) plain(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
	answers, err := p.apply(ctx, []*pb.Operation{o})
	if err != nil {
		return nil, err
	}
	return answers[0], nil
}

// each changes single answers.
func (p *participantUnderTest) each(change func(o *pb.Operation, a *pb.Answer) *pb.Answer) {
	p.one = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
		a, err := p.plain(ctx, o)
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		return change(o, a), nil
	}
}

func (p *participantUnderTest) single(ctx context.Context, kind pb.OperationKind, o *pb.Operation) (*pb.Answer, error) {
	o = proto.CloneOf(o)
	o.Kind = cmp.Or(o.GetKind(), kind)
	answers, err := p.answer(ctx, []*pb.Operation{o})
	if err != nil || len(answers) == 0 {
		return nil, err
	}
	return answers[0], nil
}

func (p *participantUnderTest) Debit(ctx context.Context, r *pb.DebitRequest) (*pb.DebitResponse, error) {
	a, err := p.single(ctx, isDebit, r.GetOperation())
	return &pb.DebitResponse{Answer: a}, err
}
func (p *participantUnderTest) Credit(ctx context.Context, r *pb.CreditRequest) (*pb.CreditResponse, error) {
	a, err := p.single(ctx, isCredit, r.GetOperation())
	return &pb.CreditResponse{Answer: a}, err
}
func (p *participantUnderTest) Refund(ctx context.Context, r *pb.RefundRequest) (*pb.RefundResponse, error) {
	a, err := p.single(ctx, isRefund, r.GetOperation())
	return &pb.RefundResponse{Answer: a}, err
}
func (p *participantUnderTest) Cancel(ctx context.Context, r *pb.CancelRequest) (*pb.CancelResponse, error) {
	a, err := p.single(ctx, isCancel, r.GetOperation())
	return &pb.CancelResponse{Answer: a}, err
}
func (p *participantUnderTest) Apply(ctx context.Context, r *pb.ApplyRequest) (*pb.ApplyResponse, error) {
	answers, err := p.answer(ctx, r.GetOperations())
	return &pb.ApplyResponse{Answers: answers}, err
}
func (p *participantUnderTest) GetOperation(ctx context.Context, r *pb.GetOperationRequest) (*pb.GetOperationResponse, error) {
	a, err := p.lookup(ctx, r.GetOperation())
	return &pb.GetOperationResponse{Answer: a}, err
}
func (p *participantUnderTest) ListOperations(ctx context.Context, r *pb.ListOperationsRequest) (*pb.ListOperationsResponse, error) {
	return p.list(ctx, r)
}
func (p *participantUnderTest) Sums(ctx context.Context, r *pb.SumsRequest) (*pb.SumsResponse, error) {
	return p.sums(ctx, r)
}
func (p *participantUnderTest) Describe(ctx context.Context, _ *pb.DescribeRequest) (*pb.DescribeResponse, error) {
	return p.describe(ctx)
}
func (p *participantUnderTest) FreezeAccount(ctx context.Context, r *conformancev1.FreezeAccountRequest) (*conformancev1.FreezeAccountResponse, error) {
	p.froze(r.GetTenant(), r.GetAccount())
	return p.Setup.FreezeAccount(ctx, r)
}

// examine runs the suite on a participant.
func examine(t *testing.T, p *participantUnderTest, chosen ...string) conformance.Report {
	t.Helper()
	target := rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
		pb.RegisterParticipantServiceServer(r, p)
		conformancev1.RegisterConformanceSetupServiceServer(r, p)
	})
	report, err := conformance.Run(t.Context(), conformance.Config{Target: target, Rules: chosen,
		Restart: func(context.Context) error { p.restart(); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// reworked asks for an operation under another key, as if the participant had
// never seen its own.
func reworked(p *participantUnderTest, ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
	other := proto.CloneOf(o)
	other.Key = newKey()
	a, err := p.plain(ctx, other)
	if a != nil {
		a.Key = o.GetKey()
	}
	return a, err
}

var keysDrawn atomic.Int64

func newKey() string {
	return stepkey.Derive(stepkey.V1, "any", names.TransferKey(strconv.FormatInt(keysDrawn.Add(1), 10)), "any").String()
}

// id names an operation's key.
func id(o *pb.Operation) string { return o.GetTenant() + " " + o.GetKey() }

func TestARightParticipantPasses(t *testing.T) {
	report := examine(t, right(t))
	for _, r := range report.Results {
		if r.Verdict != conformance.Passed {
			t.Errorf("%s: %s %s %+v", r.Name, r.Verdict, r.Reason, r.Failure)
		}
	}
	if len(report.Results) != len(conformance.Rules()) {
		t.Errorf("%d results of %d rules", len(report.Results), len(conformance.Rules()))
	}
}

// TestWrongParticipantsAreCaught breaks one thing at a time. by is the rule that
// must fail for it; also are those that cannot but fail with it, chance those that
// may; nothing else fails.
func TestWrongParticipantsAreCaught(t *testing.T) {
	if len(faults) < 15 {
		t.Fatalf("only %d faults", len(faults))
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			p := right(t)
			f.spoil(p)
			var failed []string
			for _, r := range examine(t, p).Results {
				if r.Verdict == conformance.NotRun {
					t.Errorf("%s was not run: %s", r.Name, r.Reason)
				}
				if r.Verdict != conformance.Failed {
					continue
				}
				failed = append(failed, r.Name)
				if r.Failure.Sent == "" || r.Failure.Expected == "" || r.Failure.Came == "" {
					t.Errorf("%s does not say what happened: %+v", r.Name, r.Failure)
				}
				if r.Name == f.by {
					t.Logf("sent %s\nexpected %s\ncame %s", r.Failure.Sent, r.Failure.Expected, r.Failure.Came)
				} else if !slices.Contains(f.also, r.Name) && !slices.Contains(f.chance, r.Name) {
					t.Errorf("an unrelated rule fails: %s: %+v", r.Name, r.Failure)
				}
			}
			for _, name := range append(f.also, f.by) {
				if !slices.Contains(failed, name) {
					t.Errorf("%s does not catch it", name)
				}
			}
		})
	}
}

// The table itself is whole: every fault is caught by a rule that there is.
func TestFaultsNameRulesThatThereAre(t *testing.T) {
	known := map[string]bool{}
	for _, r := range conformance.Rules() {
		if known[r.Name] || r.Name == "" || r.Demands == "" || r.Section == "" {
			t.Errorf("rule %+v", r)
		}
		known[r.Name] = true
	}
	for _, f := range faults {
		for _, name := range append(slices.Concat(f.also, f.chance), f.by) {
			if !known[name] {
				t.Errorf("%s: there is no rule %q", f.name, name)
			}
		}
	}
}

func TestUnknownRulesAndSilentTargets(t *testing.T) {
	if _, err := conformance.Run(t.Context(), conformance.Config{Target: "127.0.0.1:1", Rules: []string{"describe", "nonsense"}}); err == nil {
		t.Error("a rule that is not there is taken")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := conformance.Run(ctx, conformance.Config{Target: l.Addr().String()}); err == nil {
		t.Error("silence is taken for a participant")
	}
}
