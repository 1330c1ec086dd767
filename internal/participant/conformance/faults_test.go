package conformance_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"giro/internal/participant"
	"giro/internal/participant/server"
	"giro/internal/participant/store/mem"
	"giro/internal/rpc"
	pb "giro/proto/giro/participant/v1"
)

// fault is one thing that a participant does wrong.
type fault struct {
	name  string
	spoil func(*participantUnderTest)
	by    string
	also  []string
	// chance are those that catch it too when calls happen to meet.
	chance []string
}

var faults = []fault{
	{name: "answers OK to a late debit after its refund", spoil: lateDebit, by: "refund-before-debit",
		also: []string{"batch-debit-refund-cancel", "restart-keeps-tombstones"}, chance: []string{"race-of-debit-and-refund"}},
	{name: "forgets refusals", spoil: forgetsRefusals, by: "refusal-sticks",
		also: []string{"refusal-sticks-any-reason", "repeat-is-marked", "repeat-keeps-first-time", "cancel-after", "restart-keeps-refusals"}},
	{name: "ignores contents", spoil: ignoresContents, by: "contents-of-a-debit",
		also: []string{"contents-of-a-cancel", "known-key-before-validity", "batch-key-twice", "race-of-contents"}},
	{name: "refunds twice under another key", spoil: refundsTwice, by: "refund-under-another-key",
		also: []string{"refund-to-closed-account", "refund-that-overflows", "batch-debit-refund-cancel", "race-of-refunds", "restart-keeps-outcomes"}},
	{name: "forgets tombstones after a restart", spoil: forgetsTombstones, by: "restart-keeps-tombstones"},
	{name: "forgets refusals after a restart", spoil: forgetsRefusalsLater, by: "restart-keeps-refusals"},
	{name: "forgets what was applied after a restart", spoil: forgetsOutcomes, by: "restart-keeps-outcomes", also: []string{"restart-under-load"}},
	{name: "takes another incarnation at a restart", spoil: newIncarnation, by: "restart-keeps-identity"},
	{name: "judges validity before the key", spoil: validityFirst, by: "known-key-before-validity"},
	{name: "replays without saying so", spoil: unmarkedReplays, by: "repeat-is-marked"},
	{name: "stamps replays anew", spoil: restamps, by: "repeat-keeps-first-time"},
	{name: "consumes a key on INVALID", spoil: consumesOnInvalid, by: "invalid-consumes-nothing"},
	{name: "names one violation only", spoil: firstViolation, by: "invalid-names-every-field"},
	{name: "answers malformed input with an error", spoil: errorsOnInvalid, by: "invalid-amount",
		also: []string{"amount-limit", "invalid-consumes-nothing"}},
	{name: "shares keys between tenants", spoil: sharesKeys, by: "tenants-have-their-own-keys"},
	{name: "goes below the floor when debits come at once", spoil: belowFloor, by: "floor-at-once"},
	{name: "does a key twice when repeats come at once", spoil: twiceAtOnce, by: "repeat-at-once"},
	{name: "answers a batch out of order", spoil: outOfOrder, by: "batch-answers-in-order"},
	{name: "drops the second of a key that stands twice in a batch", spoil: dropsSecond, by: "batch-key-twice"},
	{name: "decides a batch on the balances before it", spoil: oldBalances, by: "batch-decides-in-order"},
	{name: "takes batches beyond its limit", spoil: beyondLimit, by: "batch-beyond-the-limit"},
	{name: "refuses a refund to a frozen account", spoil: frozenRefund, by: "refund-to-frozen-account"},
	{name: "keeps quiet of suspense", spoil: quietSuspense, by: "refund-to-closed-account",
		also: []string{"refund-that-overflows"}},
	{name: "validates refunds", spoil: validatesRefunds, by: "refund-is-never-validated"},
	{name: "says CANCELLED of a key that was applied", spoil: cancelsApplied, by: "cancel-after"},
	{name: "cancels refunds", spoil: cancelsRefunds, by: "cancel-of-a-refund"},
	{name: "compares the contents of tombstones", spoil: strictTombstones, by: "tombstone-takes-any-contents"},
	{name: "judges the account before the key", spoil: accountFirst, by: "repeat-whatever-the-account"},
	{name: "leaves a tombstone when it is asked for a key", spoil: lookupTombstone, by: "lookup-leaves-nothing",
		also: []string{"invalid-consumes-nothing"}},
	{name: "loses an operation between pages", spoil: losesInPages, by: "list-holds-everything"},
	{name: "pages by counting", spoil: countsPages, by: "list-while-writing"},
	{name: "lists lines that do not balance", spoil: unbalancedLines, by: "list-lines-balance",
		also: []string{"conservation"}},
	{name: "adds up a clearing account wrongly", spoil: wrongClearing, by: "sums",
		also: []string{"conservation"}},
	{name: "raises the high-water mark for money alone", spoil: markOfMoney, by: "high-water-mark"},
	{name: "does not say where the first refund went", spoil: firstRefundUntold, by: "refund-to-closed-account", also: []string{"refund-that-overflows"}},
	{name: "lets the high-water mark fall", spoil: fallingMark, by: "high-water-mark",
		also: []string{"restart-keeps-identity"}},
	{name: "stores after it has answered", spoil: storesLate, by: "lost-answer",
		also: []string{"lost-answer-of-a-batch"}},
	{name: "loses its last commits in a crash", spoil: losesLast, by: "restart-under-load"},
	{name: "forgets the key of a caller that is in a hurry", spoil: hurries, by: "callers-that-leave"},
	{name: "lists nothing without a tenant", spoil: listsOneTenant, by: "list-of-all-tenants"},
	{name: "echoes no amount", spoil: noEcho, by: "answers-echo"},
}

func lateDebit(p *participantUnderTest) {
	refunded := map[string]bool{}
	p.each(func(o *pb.Operation, a *pb.Answer) *pb.Answer {
		switch {
		case o.GetKind() == isRefund && a.GetDebitOutcome() == cancelled && !a.GetReplayed():
			refunded[o.GetTenant()+" "+o.GetDebitKey()] = true
		case o.GetKind() == isDebit && a.GetOutcome() == cancelled && refunded[id(o)]:
			a.Outcome, a.AmountMoved = applied, o.GetAmount()
		}
		return a
	})
}

// forgetting asks under a fresh key for what it has answered so before.
func forgetting(p *participantUnderTest, forgets func(o *pb.Operation, first *pb.Answer) bool) {
	forgotten := map[string]bool{}
	p.one = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
		a, err := p.plain(ctx, o)
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		again := forgotten[id(o)] && a.GetReplayed()
		forgotten[id(o)] = forgotten[id(o)] || (!a.GetReplayed() && forgets(o, a))
		p.mu.Unlock()
		if again {
			return reworked(p, ctx, o)
		}
		return a, nil
	}
}

func forgetsRefusals(p *participantUnderTest) {
	forgetting(p, func(o *pb.Operation, a *pb.Answer) bool { return o.GetKind() == isDebit && a.GetOutcome() == refused })
}

// afterRestart forgets nothing before the participant has been restarted.
func afterRestart(p *participantUnderTest, forgets func(o *pb.Operation, a *pb.Answer) bool) {
	restarted := false
	p.restart = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		restarted = true
	}
	known := map[string]bool{}
	p.one = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
		a, err := p.plain(ctx, o)
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		again := restarted && known[id(o)]
		known[id(o)] = known[id(o)] || (!restarted && forgets(o, a))
		p.mu.Unlock()
		if again {
			return reworked(p, ctx, o)
		}
		return a, nil
	}
}

func forgetsTombstones(p *participantUnderTest) {
	afterRestart(p, func(o *pb.Operation, a *pb.Answer) bool {
		return o.GetKind() == isCancel && a.GetOutcome() == cancelled
	})
}

func forgetsRefusalsLater(p *participantUnderTest) {
	afterRestart(p, func(o *pb.Operation, a *pb.Answer) bool { return o.GetKind() == isDebit && a.GetOutcome() == refused })
}

func forgetsOutcomes(p *participantUnderTest) {
	afterRestart(p, func(o *pb.Operation, a *pb.Answer) bool { return o.GetKind() == isCredit && a.GetOutcome() == applied })
}

func newIncarnation(p *participantUnderTest) {
	var restarts atomic.Int32
	p.restart = func() { restarts.Add(1) }
	inner := p.describe
	p.describe = func(ctx context.Context) (*pb.DescribeResponse, error) {
		d, err := inner(ctx)
		if err == nil {
			d.Incarnation += strconv.Itoa(int(restarts.Load()))
		}
		return d, err
	}
}

// ignoresContents answers whatever comes under a known key with what was stored
// for the first.
func ignoresContents(p *participantUnderTest) {
	firsts := map[string]*pb.Operation{}
	p.one = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
		a, err := p.plain(ctx, o)
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		first := firsts[id(o)]
		if first == nil && a.GetOutcome() == applied && o.GetKind() == isDebit {
			firsts[id(o)] = o
		}
		p.mu.Unlock()
		if a.GetOutcome() != keyReused || first == nil {
			return a, nil
		}
		a, err = p.plain(ctx, first)
		return a, err
	}
}

func refundsTwice(p *participantUnderTest) {
	p.each(func(o *pb.Operation, a *pb.Answer) *pb.Answer {
		if a.GetReason() == pb.RefusalReason_REFUSAL_REASON_ALREADY_REFUNDED {
			a.Outcome, a.Reason, a.AmountMoved = applied, 0, a.GetFirstRefundAmount()
		}
		return a
	})
}

func validityFirst(p *participantUnderTest) {
	p.one = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
		if (o.GetKind() == isDebit || o.GetKind() == isCredit) && o.GetAmount() < 0 {
			return &pb.Answer{Outcome: invalid, Key: o.GetKey(), Amount: o.GetAmount(), Violations: []*pb.Violation{{Field: "amount"}}}, nil
		}
		return p.plain(ctx, o)
	}
}

func unmarkedReplays(p *participantUnderTest) {
	p.each(func(_ *pb.Operation, a *pb.Answer) *pb.Answer { a.Replayed = false; return a })
}

func restamps(p *participantUnderTest) {
	p.each(func(_ *pb.Operation, a *pb.Answer) *pb.Answer {
		if a.GetReplayed() {
			a.FirstTime = timestamppb.New(time.Now())
		}
		return a
	})
}

func consumesOnInvalid(p *participantUnderTest) {
	consumed := map[string]*pb.Answer{}
	p.each(func(o *pb.Operation, a *pb.Answer) *pb.Answer {
		if a.GetOutcome() == invalid && o.GetAmount() == 0 {
			consumed[id(o)] = a
		}
		if first := consumed[id(o)]; first != nil {
			return proto.CloneOf(first)
		}
		return a
	})
}

func firstViolation(p *participantUnderTest) {
	p.each(func(_ *pb.Operation, a *pb.Answer) *pb.Answer {
		if len(a.GetViolations()) > 1 {
			a.Violations = a.GetViolations()[:1]
		}
		return a
	})
}

func errorsOnInvalid(p *participantUnderTest) {
	p.one = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
		a, err := p.plain(ctx, o)
		if a.GetOutcome() == invalid && a.GetViolations()[0].GetField() == "amount" {
			return nil, rpc.InvalidArgument([]rpc.Violation{{Field: "amount", Description: "must be at least 1"}})
		}
		return a, err
	}
}

func sharesKeys(p *participantUnderTest) {
	owners := map[string]string{}
	p.one = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
		p.mu.Lock()
		owner := owners[o.GetKey()]
		if owner == "" && o.GetKind() == isDebit && len(o.GetKey()) == 36 {
			owners[o.GetKey()] = o.GetTenant()
		}
		p.mu.Unlock()
		if owner != "" && owner != o.GetTenant() {
			return &pb.Answer{Outcome: keyReused, Key: o.GetKey(), Amount: o.GetAmount(), DifferingFields: []string{"tenant"}}, nil
		}
		return p.plain(ctx, o)
	}
}

// crowd makes calls by one name meet: the first waits a moment for the next. It
// asks crowded for those that come while another is under way.
func crowd(p *participantUnderTest, moment time.Duration, name func(*pb.Operation) string, crowded func(context.Context, *pb.Operation) (*pb.Answer, error)) {
	underWay := map[string]int{}
	met := map[string]chan struct{}{}
	p.one = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
		n := name(o)
		if n == "" {
			return p.plain(ctx, o)
		}
		p.mu.Lock()
		underWay[n]++
		others := underWay[n] > 1
		next := make(chan struct{})
		if waiting := met[n]; waiting != nil {
			close(waiting)
		}
		met[n] = next
		p.mu.Unlock()
		select {
		case <-next:
		case <-time.After(moment):
		}
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			underWay[n]--
			if met[n] == next {
				delete(met, n)
			}
		}()
		if others {
			return crowded(ctx, o)
		}
		return p.plain(ctx, o)
	}
}

// belowFloor lets a debit through that came while another was under way.
func belowFloor(p *participantUnderTest) {
	crowd(p, 10*time.Millisecond, func(o *pb.Operation) string {
		if o.GetKind() != isDebit || o.GetAmount() != 1 {
			return ""
		}
		return o.GetTenant() + " " + o.GetAccount()
	}, func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
		a, err := p.plain(ctx, o)
		if a.GetReason() == pb.RefusalReason_REFUSAL_REASON_INSUFFICIENT_FUNDS {
			a.Outcome, a.Reason, a.AmountMoved, a.BalanceAfter = applied, 0, o.GetAmount(), -1
		}
		return a, err
	})
}

// twiceAtOnce looks for a key first and does it then, with nothing in between to
// keep another from doing the same.
func twiceAtOnce(p *participantUnderTest) {
	crowd(p, 50*time.Millisecond, func(o *pb.Operation) string {
		if o.GetKind() != isCredit || o.GetAmount() != 7 {
			return ""
		}
		return id(o)
	}, func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) { return reworked(p, ctx, o) })
}

func outOfOrder(p *participantUnderTest) {
	inner := p.apply
	p.apply = func(ctx context.Context, operations []*pb.Operation) ([]*pb.Answer, error) {
		answers, err := inner(ctx, operations)
		if len(answers) == 6 {
			slices.Reverse(answers)
		}
		return answers, err
	}
}

func dropsSecond(p *participantUnderTest) {
	inner := p.apply
	p.apply = func(ctx context.Context, operations []*pb.Operation) ([]*pb.Answer, error) {
		answers, err := inner(ctx, operations)
		for i := range answers {
			if i > 0 && operations[i].GetKey() == operations[i-1].GetKey() && operations[i].GetKind() == operations[i-1].GetKind() {
				answers[i] = &pb.Answer{}
			}
		}
		return answers, err
	}
}

// oldBalances judges what would be refused in a batch as if it stood alone before
// it.
func oldBalances(p *participantUnderTest) {
	inner := p.apply
	p.apply = func(ctx context.Context, operations []*pb.Operation) ([]*pb.Answer, error) {
		answers, err := inner(ctx, operations)
		for i, a := range answers {
			if len(operations) == 5 && a.GetReason() == pb.RefusalReason_REFUSAL_REASON_INSUFFICIENT_FUNDS {
				a.Outcome, a.Reason, a.AmountMoved = applied, 0, operations[i].GetAmount()
			}
		}
		return answers, err
	}
}

func beyondLimit(p *participantUnderTest) {
	inner := p.apply
	p.apply = func(ctx context.Context, operations []*pb.Operation) ([]*pb.Answer, error) {
		var all []*pb.Answer
		for part := range slices.Chunk(operations, 100) {
			answers, err := inner(ctx, part)
			if err != nil {
				return nil, err
			}
			all = append(all, answers...)
		}
		return all, nil
	}
}

func frozenRefund(p *participantUnderTest) {
	frozen := map[string]bool{}
	p.froze = func(tenant, account string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		frozen[tenant+" "+account] = true
	}
	p.one = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
		p.mu.Lock()
		no := frozen[o.GetTenant()+" "+o.GetAccount()] && o.GetKind() == isRefund
		p.mu.Unlock()
		if no {
			return &pb.Answer{Outcome: refused, Reason: pb.RefusalReason_REFUSAL_REASON_ACCOUNT_FROZEN, Key: o.GetKey(), Amount: o.GetAmount()}, nil
		}
		return p.plain(ctx, o)
	}
}

func quietSuspense(p *participantUnderTest) {
	p.each(func(_ *pb.Operation, a *pb.Answer) *pb.Answer { a.RefundToSuspense = false; return a })
}

func validatesRefunds(p *participantUnderTest) {
	p.one = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
		if o.GetKind() == isRefund && o.GetAmount() < 0 {
			return &pb.Answer{Outcome: invalid, Key: o.GetKey(), Amount: o.GetAmount(), Violations: []*pb.Violation{{Field: "amount"}}}, nil
		}
		return p.plain(ctx, o)
	}
}

func cancelsApplied(p *participantUnderTest) {
	p.each(func(o *pb.Operation, a *pb.Answer) *pb.Answer {
		if o.GetKind() == isCancel && a.GetOutcome() == applied && o.GetStep() == "credit" {
			return &pb.Answer{Outcome: cancelled, Key: o.GetKey(), Amount: o.GetAmount(), FirstTime: a.GetFirstTime(), Replayed: true}
		}
		return a
	})
}

func cancelsRefunds(p *participantUnderTest) {
	p.one = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
		if o.GetKind() == isCancel && o.GetStep() == "refund" && o.GetTransferKey() != "" && len(o.GetKey()) == 36 {
			return &pb.Answer{Outcome: cancelled, Key: o.GetKey(), Amount: o.GetAmount(), FirstTime: timestamppb.Now()}, nil
		}
		return p.plain(ctx, o)
	}
}

func strictTombstones(p *participantUnderTest) {
	amounts := map[string]int64{}
	p.each(func(o *pb.Operation, a *pb.Answer) *pb.Answer {
		if a.GetOutcome() != cancelled {
			return a
		}
		if first, known := amounts[id(o)]; known && first != o.GetAmount() && o.GetAmount() > 0 && first > 0 {
			return &pb.Answer{Outcome: keyReused, Key: o.GetKey(), Amount: o.GetAmount(), DifferingFields: []string{"amount"}}
		}
		amounts[id(o)] = o.GetAmount()
		return a
	})
}

func accountFirst(p *participantUnderTest) {
	frozen := map[string]bool{}
	p.froze = func(tenant, account string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		frozen[tenant+" "+account] = true
	}
	p.each(func(o *pb.Operation, a *pb.Answer) *pb.Answer {
		if o.GetKind() == isDebit && a.GetOutcome() == applied && a.GetReplayed() && frozen[o.GetTenant()+" "+o.GetAccount()] {
			return &pb.Answer{Outcome: refused, Reason: pb.RefusalReason_REFUSAL_REASON_ACCOUNT_FROZEN, Key: o.GetKey(), Amount: o.GetAmount(),
				FirstTime: timestamppb.Now()}
		}
		return a
	})
}

func lookupTombstone(p *participantUnderTest) {
	inner := p.lookup
	p.lookup = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
		a, err := inner(ctx, o)
		if a.GetOutcome() == notFound && o.GetStep() == "credit" {
			tombstone := proto.CloneOf(o)
			tombstone.Kind = isCancel
			_, err = p.plain(ctx, tombstone)
		}
		return a, err
	}
}

// losesInPages skips the operation at the seam of two pages.
func losesInPages(p *participantUnderTest) {
	inner := p.list
	p.list = func(ctx context.Context, r *pb.ListOperationsRequest) (*pb.ListOperationsResponse, error) {
		page, err := inner(ctx, r)
		if r.GetPageToken() != "" && r.GetPageSize() == 3 && len(page.GetOperations()) > 0 {
			page.Operations = page.GetOperations()[1:]
		}
		return page, err
	}
}

// countsPages takes up a walk at a number instead of at a key.
func countsPages(p *participantUnderTest) {
	inner := p.list
	p.list = func(ctx context.Context, r *pb.ListOperationsRequest) (*pb.ListOperationsResponse, error) {
		if r.GetPageSize() != 5 {
			return inner(ctx, r)
		}
		var all []*pb.StoredOperation
		for token := ""; ; {
			page, err := inner(ctx, &pb.ListOperationsRequest{Tenant: r.GetTenant(), PageSize: 1000, PageToken: token})
			if err != nil {
				return nil, err
			}
			all = append(all, page.GetOperations()...)
			if token = page.GetNextPageToken(); token == "" {
				break
			}
		}
		from, _ := strconv.Atoi(r.GetPageToken())
		to := min(from+5, len(all))
		out := &pb.ListOperationsResponse{Operations: all[min(from, to):to]}
		if to < len(all) {
			out.NextPageToken = strconv.Itoa(to)
		}
		return out, nil
	}
}

func unbalancedLines(p *participantUnderTest) {
	inner := p.list
	p.list = func(ctx context.Context, r *pb.ListOperationsRequest) (*pb.ListOperationsResponse, error) {
		page, err := inner(ctx, r)
		for _, s := range page.GetOperations() {
			if s.GetOperation().GetKind() == isRefund && len(s.GetLines()) > 0 {
				s.Lines = s.GetLines()[:1]
			}
		}
		return page, err
	}
}

func wrongClearing(p *participantUnderTest) {
	inner := p.sums
	p.sums = func(ctx context.Context, r *pb.SumsRequest) (*pb.SumsResponse, error) {
		sums, err := inner(ctx, r)
		for _, s := range sums.GetClearing() {
			s.Balance += "0"
		}
		return sums, err
	}
}

func fallingMark(p *participantUnderTest) {
	inner := p.describe
	p.describe = func(ctx context.Context) (*pb.DescribeResponse, error) {
		d, err := inner(ctx)
		if err == nil {
			d.HighWaterMark = -d.GetHighWaterMark()
		}
		return d, err
	}
}

func markOfMoney(p *participantUnderTest) {
	mark := int64(0)
	p.each(func(_ *pb.Operation, a *pb.Answer) *pb.Answer {
		if a.GetAmountMoved() > 0 && !a.GetReplayed() {
			mark++
		}
		return a
	})
	inner := p.describe
	p.describe = func(ctx context.Context) (*pb.DescribeResponse, error) {
		d, err := inner(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		if err == nil {
			d.HighWaterMark = mark
		}
		return d, err
	}
}

func firstRefundUntold(p *participantUnderTest) {
	p.each(func(_ *pb.Operation, a *pb.Answer) *pb.Answer {
		if a.GetOutcome() == refused {
			a.RefundToSuspense = false
		}
		return a
	})
}

// storesLate answers from a copy, and stores for itself only when the caller is
// seen to be still there: by its next call on the same connection.
func storesLate(p *participantUnderTest) {
	engine := participant.New(mem.New(time.Now), participant.Config{Name: "copy"})
	copyOf := server.New(engine)
	pending := map[string][]*pb.Operation{}
	caller := func(ctx context.Context) string {
		from, _ := peer.FromContext(ctx)
		return fmt.Sprint(from.Addr)
	}
	main := ""
	flush := func(ctx context.Context) error {
		p.mu.Lock()
		waiting := pending[caller(ctx)]
		delete(pending, caller(ctx))
		p.mu.Unlock()
		for _, o := range waiting {
			if _, err := p.plain(ctx, o); err != nil {
				return err
			}
		}
		return nil
	}
	described := p.describe
	p.describe = func(ctx context.Context) (*pb.DescribeResponse, error) {
		p.mu.Lock()
		if main == "" {
			main = caller(ctx) // the suite's own connection, which it never cuts
		}
		p.mu.Unlock()
		return described(ctx)
	}
	p.one = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
		p.mu.Lock()
		stays := caller(ctx) == main
		p.mu.Unlock()
		if err := flush(ctx); err != nil || stays {
			if err != nil {
				return nil, err
			}
			return p.plain(ctx, o)
		}
		p.mu.Lock()
		pending[caller(ctx)] = append(pending[caller(ctx)], o)
		p.mu.Unlock()
		r, err := copyOf.Apply(ctx, &pb.ApplyRequest{Operations: []*pb.Operation{o}})
		if err != nil {
			return nil, err
		}
		return r.GetAnswers()[0], nil
	}
}

// losesLast has forgotten, after a restart, the last ten credits before it.
func losesLast(p *participantUnderTest) {
	var last []string
	lost := map[string]bool{}
	p.restart = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, name := range last[max(0, len(last)-10):] {
			lost[name] = true
		}
	}
	p.one = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
		a, err := p.plain(ctx, o)
		p.mu.Lock()
		again := lost[id(o)]
		if o.GetKind() == isCredit && a.GetOutcome() == applied && !a.GetReplayed() {
			last = append(last, id(o))
		}
		p.mu.Unlock()
		if again {
			return reworked(p, ctx, o)
		}
		return a, err
	}
}

// hurries does what it is asked when there is little time, and stores the key of
// it elsewhere.
func hurries(p *participantUnderTest) {
	p.one = func(ctx context.Context, o *pb.Operation) (*pb.Answer, error) {
		if end, given := ctx.Deadline(); given && time.Until(end) < 500*time.Millisecond {
			return reworked(p, context.WithoutCancel(ctx), o)
		}
		return p.plain(ctx, o)
	}
}

func listsOneTenant(p *participantUnderTest) {
	inner := p.list
	p.list = func(ctx context.Context, r *pb.ListOperationsRequest) (*pb.ListOperationsResponse, error) {
		if r.GetTenant() == "" {
			return &pb.ListOperationsResponse{}, nil
		}
		return inner(ctx, r)
	}
}

func noEcho(p *participantUnderTest) {
	p.each(func(_ *pb.Operation, a *pb.Answer) *pb.Answer { a.Amount = 0; return a })
}
