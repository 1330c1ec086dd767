package conformance_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"giro/internal/participant/conformance"
	"giro/internal/rpc"
	pb "giro/proto/giro/participant/v1"
)

// lie changes the answers for which it holds, and nothing in the books.
func lie(holds func(o *pb.Operation, a *pb.Answer) bool, change func(o *pb.Operation, a *pb.Answer)) func(*participantUnderTest) {
	return func(p *participantUnderTest) {
		p.each(func(o *pb.Operation, a *pb.Answer) *pb.Answer {
			if holds(o, a) {
				change(o, a)
			}
			return a
		})
	}
}

// lieOnLookup is lie for GetOperation.
func lieOnLookup(holds func(o *pb.Operation, a *pb.Answer) bool, change func(o *pb.Operation, a *pb.Answer)) func(*participantUnderTest) {
	return func(p *participantUnderTest) {
		inner := p.lookup
		p.lookup = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
			a, err := inner(ctx, o)
			if err == nil && holds(o, a) {
				change(o, a)
			}
			return a, err
		}
	}
}

func outcome(kind pb.OperationKind, outcome pb.Outcome) func(*pb.Operation, *pb.Answer) bool {
	return func(o *pb.Operation, a *pb.Answer) bool { return o.GetKind() == kind && a.GetOutcome() == outcome }
}

// reason holds for a refusal; instead gives it another reason.
func reason(r pb.RefusalReason) func(*pb.Operation, *pb.Answer) bool {
	return func(_ *pb.Operation, a *pb.Answer) bool { return a.GetReason() == r }
}

func instead(_ *pb.Operation, a *pb.Answer) {
	a.Reason = pb.RefusalReason_REFUSAL_REASON_LIMIT_EXCEEDED
}

// pardon says INVALID where nothing was malformed, or the other way round.
func pardon(field string) func(*participantUnderTest) {
	return lie(func(_ *pb.Operation, a *pb.Answer) bool {
		return len(a.GetViolations()) == 1 && a.GetViolations()[0].GetField() == field
	}, func(_ *pb.Operation, a *pb.Answer) { a.Outcome, a.Violations = applied, nil })
}

func say(o pb.Outcome) func(*pb.Operation, *pb.Answer) {
	return func(_ *pb.Operation, a *pb.Answer) { a.Outcome = o }
}

// renames loses a field's name from what differs.
func renames(kind pb.OperationKind, field string) func(*participantUnderTest) {
	return lie(outcome(kind, keyReused), func(_ *pb.Operation, a *pb.Answer) {
		for i, f := range a.GetDifferingFields() {
			if f == field {
				a.DifferingFields[i] = "contents"
			}
		}
	})
}

func onDescribe(change func(*pb.DescribeResponse)) func(*participantUnderTest) {
	return func(p *participantUnderTest) {
		inner := p.describe
		p.describe = func(ctx context.Context) (*pb.DescribeResponse, error) {
			d, err := inner(ctx)
			if err == nil {
				change(d)
			}
			return d, err
		}
	}
}

// batchesOf changes what becomes of batches.
func batchesOf(answer func(inner func() ([]*pb.Answer, error), operations []*pb.Operation) ([]*pb.Answer, error)) func(*participantUnderTest) {
	return func(p *participantUnderTest) {
		inner := p.apply
		p.apply = func(ctx context.Context, operations []*pb.Operation) ([]*pb.Answer, error) {
			return answer(func() ([]*pb.Answer, error) { return inner(ctx, operations) }, operations)
		}
	}
}

// forgetfulFor asks under another key for what is asked again.
func forgetfulFor(kind pb.OperationKind) func(*participantUnderTest) {
	return func(p *participantUnderTest) {
		p.one = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
			a, err := p.plain(ctx, o)
			if o.GetKind() == kind && a.GetReplayed() {
				return reworked(p, ctx, o)
			}
			return a, err
		}
	}
}

var (
	replayedOf = func(kind pb.OperationKind) func(*pb.Operation, *pb.Answer) bool {
		return func(o *pb.Operation, a *pb.Answer) bool { return o.GetKind() == kind && a.GetReplayed() }
	}
	moves = func(_ *pb.Operation, a *pb.Answer) { a.AmountMoved++ }
	left  = func(_ *pb.Operation, a *pb.Answer) { a.BalanceAfter++ }
)

// narrow are faults that are tried on their rule alone: they show that it can
// fail. Each rule stands here or in faults.
var narrow = []struct {
	rule  string
	spoil func(*participantUnderTest)
}{
	{"describe", onDescribe(func(d *pb.DescribeResponse) { d.Incarnation = "" })},
	{"debit-takes", lie(outcome(isDebit, applied), left)},
	{"credit-gives", lie(outcome(isCredit, applied), left)},
	{"refund-gives-back", lie(outcome(isRefund, applied), func(_ *pb.Operation, a *pb.Answer) { a.DebitOutcome = 0 })},
	{"repeat-same-outcome", lie(replayedOf(isDebit), moves)},
	{"apply-is-the-single-call", forgetfulFor(isDebit)},
	{"contents-of-a-credit", renames(isCredit, "amount")},
	{"contents-of-a-refund", renames(isRefund, "debit_key")},
	{"contents-of-a-refusal", renames(isDebit, "counterparty")},
	{"contents-of-a-lookup", lieOnLookup(func(_ *pb.Operation, a *pb.Answer) bool { return a.GetOutcome() == keyReused }, say(refused))},
	{"contents-of-the-debit-named", lie(outcome(isRefund, keyReused), say(applied))},
	{"refuses-insufficient-funds", lie(reason(pb.RefusalReason_REFUSAL_REASON_INSUFFICIENT_FUNDS), instead)},
	{"refuses-unknown-account", lie(reason(pb.RefusalReason_REFUSAL_REASON_ACCOUNT_NOT_FOUND), instead)},
	{"refuses-frozen-account", lie(reason(pb.RefusalReason_REFUSAL_REASON_ACCOUNT_FROZEN), instead)},
	{"refuses-closed-account", lie(reason(pb.RefusalReason_REFUSAL_REASON_ACCOUNT_CLOSED), instead)},
	{"refuses-another-currency", lie(reason(pb.RefusalReason_REFUSAL_REASON_CURRENCY_MISMATCH), instead)},
	{"refuses-overflow", lie(reason(pb.RefusalReason_REFUSAL_REASON_BALANCE_OVERFLOW), instead)},
	{"refusal-moves-nothing", lieOnLookup(func(_ *pb.Operation, a *pb.Answer) bool { return a.GetOutcome() == refused }, say(notFound))},
	{"refund-once", func(p *participantUnderTest) {
		p.one = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
			a, err := p.plain(ctx, o)
			if a.GetReplayed() && o.GetKind() == isRefund {
				back := proto.CloneOf(o)
				back.Kind, back.Step, back.Key, back.DebitKey = isCredit, "credit", newKey(), ""
				_, err = p.plain(ctx, back)
			}
			return a, err
		}
	}},
	{"refund-of-refused-debit", lie(func(_ *pb.Operation, a *pb.Answer) bool { return a.GetDebitOutcome() == refused }, moves)},
	{"refund-of-cancelled-debit", lie(func(_ *pb.Operation, a *pb.Answer) bool { return a.GetDebitOutcome() == cancelled }, moves)},
	{"refund-needs-its-debit", pardon("debit_key")},
	{"cancel-before", func(p *participantUnderTest) {
		p.one = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
			if o.GetKind() == isCancel {
				return &pb.Answer{Outcome: cancelled, Key: o.GetKey(), Amount: o.GetAmount()}, nil
			}
			return p.plain(ctx, o)
		}
	}},
	{"cancel-is-never-validated", lie(func(o *pb.Operation, _ *pb.Answer) bool { return o.GetKind() == isCancel && o.GetAmount() < 0 }, say(invalid))},
	{"lookup-finds", lieOnLookup(func(_ *pb.Operation, a *pb.Answer) bool { return a.GetOutcome() == cancelled }, say(notFound))},
	{"lookup-is-never-validated", lieOnLookup(func(o *pb.Operation, _ *pb.Answer) bool { return o.GetAmount() < 0 }, say(invalid))},
	{"batch-at-the-limit", batchesOf(func(inner func() ([]*pb.Answer, error), operations []*pb.Operation) ([]*pb.Answer, error) {
		answers, err := inner()
		if len(operations) > 100 {
			answers = answers[:100]
		}
		return answers, err
	})},
	{"invalid-currency", pardon("currency")},
	{"invalid-names", pardon("tenant")},
	{"invalid-kind", pardon("kind")},
	{"own-accounts-have-no-name", pardon("account")},
	{"names-at-their-limits", lie(func(o *pb.Operation, _ *pb.Answer) bool { return len(o.GetAccount()) > 32 }, say(invalid))},
	{"keys-and-their-age", lie(func(o *pb.Operation, _ *pb.Answer) bool { return strings.HasPrefix(o.GetTransferKey(), "00e") },
		say(pb.Outcome_OUTCOME_EXPIRED))},
	{"tenants-have-their-own-accounts", lie(reason(pb.RefusalReason_REFUSAL_REASON_ACCOUNT_NOT_FOUND),
		func(_ *pb.Operation, a *pb.Answer) { a.Outcome, a.Reason = applied, 0 })},
	{"tenants-do-not-see-each-other", lieOnLookup(func(_ *pb.Operation, a *pb.Answer) bool { return a.GetOutcome() == notFound }, say(keyReused))},
	{"race-of-debit-and-cancel", lie(func(_ *pb.Operation, a *pb.Answer) bool { return a.GetReplayed() }, func(_ *pb.Operation, a *pb.Answer) {
		a.Outcome = applied + cancelled - a.GetOutcome()
	})},
	{"batches-that-cross", batchesOf(func(inner func() ([]*pb.Answer, error), operations []*pb.Operation) ([]*pb.Answer, error) {
		if len(operations) == 2 {
			return nil, rpc.FailedPrecondition("DEADLOCK", "two batches waited for each other")
		}
		return inner()
	})},
	{"list-pages", func(p *participantUnderTest) {
		inner := p.list
		p.list = func(ctx context.Context, r *pb.ListOperationsRequest) (*pb.ListOperationsResponse, error) {
			r = proto.CloneOf(r)
			r.PageSize = max(r.GetPageSize(), 0)
			return inner(ctx, r)
		}
	}},
}

// TestEveryRuleCanFail shows for each rule a participant that breaks it.
func TestEveryRuleCanFail(t *testing.T) {
	shown := map[string]bool{}
	for _, f := range faults {
		shown[f.by] = true
		for _, name := range append(f.also, f.chance...) {
			shown[name] = true
		}
	}
	for _, n := range narrow {
		shown[n.rule] = true
		t.Run(n.rule, func(t *testing.T) {
			p := right(t)
			n.spoil(p)
			for _, r := range examine(t, p, n.rule).Results {
				if r.Verdict != conformance.Failed {
					t.Errorf("%s %s", r.Verdict, r.Reason)
				}
			}
		})
	}
	for _, r := range conformance.Rules() {
		if !shown[r.Name] {
			t.Errorf("nothing shows that %s can fail", r.Name)
		}
	}
}
