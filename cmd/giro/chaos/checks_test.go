package chaos

import (
	"context"
	"slices"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"giro/internal/names"
	"giro/internal/stepkey"
	accountv1 "giro/proto/giro/account/v1"
	pb "giro/proto/giro/participant/v1"
)

// forEach runs do for every record, by many callers at once.
func forEach(replicas []*replica, all []*record, do func(*replica, *record)) {
	const callers = 64
	var wait sync.WaitGroup
	for c := range callers {
		wait.Go(func() {
			for i := c; i < len(all); i += callers {
				do(replicas[i%len(replicas)], all[i])
			}
		})
	}
	wait.Wait()
}

// settle asks again what is not known, once: now that nothing fails, every key has
// an outcome. It says how many were asked.
func settle(ctx context.Context, replicas []*replica, all []*record, f *faults) int {
	open := slices.DeleteFunc(slices.Clone(all), func(r *record) bool { return r.known() != nil })
	forEach(replicas, open, func(p *replica, r *record) {
		got, err := single(ctx, p.participant, r.asked)
		if err == nil {
			err = r.hear(got)
		}
		if err != nil {
			f.add("asked again: %v", err)
		}
	})
	return len(open)
}

// stillTrue asks for the outcome of every key given.
func stillTrue(ctx context.Context, replicas []*replica, all []*record, f *faults) {
	forEach(replicas, all, func(p *replica, r *record) {
		got, err := p.participant.GetOperation(ctx, &pb.GetOperationRequest{Operation: r.operation})
		if err == nil {
			err = r.hear(got.GetAnswer())
		}
		if err != nil {
			f.add("looked up: %v", err)
		}
	})
}

// books are the participant's, as it lists them.
type books struct {
	t *testing.T
	// stored is by key; local ones, such as deposits, are among them.
	stored map[string]*pb.StoredOperation
	// balances are the sums of the lines, by account.
	balances map[string]int64
}

func list(ctx context.Context, t *testing.T, p pb.ParticipantServiceClient) *books {
	t.Helper()
	b := &books{t: t, stored: map[string]*pb.StoredOperation{}, balances: map[string]int64{}}
	for request := (&pb.ListOperationsRequest{PageSize: 1000}); ; {
		page, err := p.ListOperations(ctx, request)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.GetOperations() {
			if b.stored[o.GetOperation().GetKey()] != nil {
				t.Errorf("listed twice: %v", o)
			}
			b.stored[o.GetOperation().GetKey()] = o
			for _, l := range o.GetLines() {
				b.balances[l.GetAccount()] += l.GetAmount()
			}
		}
		if request.PageToken = page.GetNextPageToken(); request.GetPageToken() == "" {
			return b
		}
	}
}

// hold checks each operation by itself: balanced, with lines that say what its
// outcome says.
func (b *books) hold(f *faults) {
	for _, s := range b.stored {
		sum, own := int64(0), int64(0)
		for _, l := range s.GetLines() {
			if sum += l.GetAmount(); l.GetAccount() == s.GetOperation().GetAccount() {
				own += l.GetAmount()
			}
			if l.GetCurrency() != currency {
				f.add("a line in another currency: %v", s)
			}
		}
		moved := int64(0)
		if s.GetAnswer().GetOutcome() == pb.Outcome_OUTCOME_APPLIED {
			moved = s.GetAnswer().GetAmountMoved()
		}
		if s.GetOperation().GetKind() == pb.OperationKind_OPERATION_KIND_DEBIT {
			moved = -moved
		}
		if sum != 0 || own != moved || moved != 0 && len(s.GetLines()) != 2 {
			f.add("the lines are not what was answered: %v", s)
		}
	}
}

// undo checks that what a debit took came back once at the most, and that nothing
// that was cancelled was done.
func (b *books) undo(f *faults) {
	refunds := map[string]*pb.StoredOperation{}
	for _, s := range b.stored {
		a, debit := s.GetAnswer(), s.GetOperation().GetDebitKey()
		if s.GetOperation().GetKind() != pb.OperationKind_OPERATION_KIND_REFUND || a.GetOutcome() != pb.Outcome_OUTCOME_APPLIED {
			continue
		}
		if refunds[debit] != nil {
			f.add("refunded twice: %v and %v", refunds[debit], s)
		}
		refunds[debit] = s
		was := b.stored[debit].GetAnswer()
		if a.GetDebitOutcome() != was.GetOutcome() || a.GetAmountMoved() != was.GetAmountMoved() || a.GetRefundToSuspense() {
			f.add("the refund %v is not what its debit was: %v", s, was)
		}
	}
	for _, s := range b.stored {
		if s.GetAnswer().GetOutcome() == pb.Outcome_OUTCOME_CANCELLED && len(s.GetLines()) > 0 {
			f.add("cancelled and done: %v", s)
		}
	}
}

// match checks that the books hold what callers were told and nothing else.
func (b *books) match(all []*record, f *faults) {
	ours := 0
	for _, s := range b.stored {
		if s.GetOperation().GetKind() != pb.OperationKind_OPERATION_KIND_LOCAL {
			ours++
		}
	}
	if ours != len(all) {
		f.add("%d operations are listed, %d keys were sent", ours, len(all))
	}
	for _, r := range all {
		s := b.stored[r.operation.GetKey()]
		if s == nil {
			f.add("answered and not listed: %v, %v", r.operation, r.told)
			continue
		}
		if !proto.Equal(essence(s.GetAnswer()), r.told) {
			f.add("listed as\n%v, and answered\n%v", s, r.told)
		}
		if s.GetAnswer().GetOutcome() != pb.Outcome_OUTCOME_CANCELLED && !proto.Equal(s.GetOperation(), r.operation) {
			f.add("listed as\n%v, and sent as\n%v", s.GetOperation(), r.operation)
		}
	}
}

// sums asks the participant itself whether its books are sound.
func (b *books) sums(ctx context.Context, p pb.ParticipantServiceClient, f *faults) {
	sums, err := p.Sums(ctx, &pb.SumsRequest{})
	if err != nil {
		b.t.Fatal(err)
	}
	if len(sums.GetCurrencies()) != 1 || sums.GetCurrencies()[0].GetTotal() != "0" || len(sums.GetFaults()) != 0 ||
		sums.GetOperationCount() != int64(len(b.stored)) {
		f.add("%d operations listed, sums %v", len(b.stored), sums)
	}
}

// accounts checks every account against its lines: the balance, the floor, and a
// statement in which no number is missing and each balance follows from the last.
func (b *books) accounts(ctx context.Context, p accountv1.AccountServiceClient, f *faults) {
	for _, name := range everyAccount() {
		got, err := p.GetAccount(ctx, &accountv1.GetAccountRequest{Account: name})
		if err != nil {
			b.t.Fatal(err)
		}
		a := got.GetAccount()
		if a.GetBalance() != b.balances[name] || a.GetBalance() < a.GetFloor() {
			f.add("%v, and its lines add up to %d", a, b.balances[name])
		}
		number, balance := int64(0), int64(0)
		for request := (&accountv1.GetStatementRequest{Account: name, PageSize: 1000}); ; {
			page, err := p.GetStatement(ctx, request)
			if err != nil {
				b.t.Fatal(err)
			}
			for _, l := range page.GetLines() {
				number, balance = number+1, balance+l.GetAmount()
				if l.GetNumber() != number || l.GetBalanceAfter() != balance || balance < a.GetFloor() {
					f.add("%s: line %d comes to %d, after %v", name, number, balance, l)
				}
			}
			if request.PageToken = page.GetNextPageToken(); request.GetPageToken() == "" {
				break
			}
		}
		if balance != a.GetBalance() {
			f.add("%v, and its statement ends with %d", a, balance)
		}
	}
}

// everyAccount lists those that exist.
func everyAccount() []string {
	all := []string{hot}
	for i := range accounts {
		all = append(all, account(i))
	}
	return all
}

// deposits are the keys of the accounts' first money, which must be listed too.
func (b *books) deposits(f *faults) {
	for _, name := range everyAccount() {
		key := stepkey.Derive(stepkey.V1, names.Tenant(tenant), names.TransferKey("fund-"+name), "deposit").String()
		if b.stored[key].GetAnswer().GetOutcome() != pb.Outcome_OUTCOME_APPLIED {
			f.add("the first deposit of %s is not listed", name)
		}
	}
}
