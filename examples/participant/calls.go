package main

import (
	"cmp"
	"context"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setup "giro/proto/giro/conformance/v1"
	pb "giro/proto/giro/participant/v1"
)

// apply is the one way in for all that changes something.
func (b *books) apply(operations ...*pb.Operation) []*pb.Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	var answers []*pb.Answer
	for _, o := range operations {
		answers = append(answers, b.decide(o))
	}
	b.commit()
	return answers
}

func (b *books) single(kind pb.OperationKind, o *pb.Operation) *pb.Answer {
	o = proto.CloneOf(cmp.Or(o, &pb.Operation{}))
	o.Kind = cmp.Or(o.Kind, kind)
	if o.Kind != kind {
		o.Kind = local // never accepted
	}
	return b.apply(o)[0]
}

func (b *books) Debit(_ context.Context, r *pb.DebitRequest) (*pb.DebitResponse, error) {
	return &pb.DebitResponse{Answer: b.single(debit, r.Operation)}, nil
}

func (b *books) Credit(_ context.Context, r *pb.CreditRequest) (*pb.CreditResponse, error) {
	return &pb.CreditResponse{Answer: b.single(credit, r.Operation)}, nil
}

func (b *books) Refund(_ context.Context, r *pb.RefundRequest) (*pb.RefundResponse, error) {
	return &pb.RefundResponse{Answer: b.single(refund, r.Operation)}, nil
}

func (b *books) Cancel(_ context.Context, r *pb.CancelRequest) (*pb.CancelResponse, error) {
	return &pb.CancelResponse{Answer: b.single(cancel, r.Operation)}, nil
}

func (b *books) Apply(_ context.Context, r *pb.ApplyRequest) (*pb.ApplyResponse, error) {
	if len(r.Operations) > batchMax {
		return nil, status.Errorf(codes.InvalidArgument, "at most %d operations; nothing was done", batchMax)
	}
	return &pb.ApplyResponse{Answers: b.apply(r.Operations...)}, nil
}

func (b *books) GetOperation(_ context.Context, r *pb.GetOperationRequest) (*pb.GetOperationResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := proto.CloneOf(cmp.Or(r.Operation, &pb.Operation{}))
	if s := b.stored[id(o.Tenant, o.Key)]; s != nil {
		return &pb.GetOperationResponse{Answer: replay(s, o)}, nil
	}
	if o.Kind == cancel || o.Kind == 0 {
		o.Kind = kinds[o.Step]
	}
	a := &pb.Answer{Outcome: pb.Outcome_OUTCOME_NOT_FOUND, Key: o.Key, Amount: o.Amount}
	if a.Violations = violations(o, true); len(a.Violations) > 0 {
		a.Outcome = pb.Outcome_OUTCOME_INVALID
	}
	return &pb.GetOperationResponse{Answer: a}, nil
}

func (b *books) ListOperations(_ context.Context, r *pb.ListOperationsRequest) (*pb.ListOperationsResponse, error) {
	if r.PageSize < 0 {
		return nil, status.Error(codes.InvalidArgument, "page_size must be at least 0")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out, size := &pb.ListOperationsResponse{}, min(int(cmp.Or(r.PageSize, 100)), 1000)
	for _, at := range slices.Sorted(maps.Keys(b.stored)) {
		s := b.stored[at]
		if at <= r.PageToken || (r.Tenant != "" && s.Operation.Tenant != r.Tenant) {
			continue
		}
		if len(out.Operations) == size {
			last := out.Operations[size-1].Operation
			out.NextPageToken = id(last.Tenant, last.Key)
			break
		}
		out.Operations = append(out.Operations, s)
	}
	return proto.CloneOf(out), nil
}

func (b *books) Sums(_ context.Context, r *pb.SumsRequest) (*pb.SumsResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	out, totals := &pb.SumsResponse{}, map[[3]string]*big.Int{}
	add := func(amount int64, names ...string) {
		at := [3]string(names)
		totals[at] = cmp.Or(totals[at], new(big.Int))
		totals[at].Add(totals[at], big.NewInt(amount))
	}
	for _, s := range b.stored {
		tenant := s.Operation.Tenant
		if r.Tenant != "" && tenant != r.Tenant {
			continue
		}
		out.OperationCount++
		for _, l := range s.Lines {
			add(l.Amount, tenant, l.Currency, "")
			if participant, is := strings.CutPrefix(l.Account, "clearing:"); is {
				add(l.Amount, tenant, l.Currency, participant)
			}
		}
	}
	for at, sum := range totals {
		if at[2] == "" {
			out.Currencies = append(out.Currencies, &pb.CurrencySum{Tenant: at[0], Currency: at[1], Total: sum.String()})
		} else {
			out.Clearing = append(out.Clearing, &pb.ClearingSum{Tenant: at[0], Currency: at[1], Participant: at[2], Balance: sum.String()})
		}
	}
	return out, nil
}

func (b *books) Describe(context.Context, *pb.DescribeRequest) (*pb.DescribeResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return &pb.DescribeResponse{ProtocolVersion: 1, Participant: "example", Currencies: currencies, AmountMax: amountMax,
		BatchSizeMax: batchMax, Incarnation: b.journal.incarnation, HighWaterMark: b.journal.rows}, nil
}

// change does a keyed operation of our own. Your participant has calls of its own
// for that; they are keyed like the protocol's, and live in the same books.
func (b *books) change(step, tenant, requestKey, name, currency string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := &pb.Operation{Kind: local, Tenant: tenant, TransferKey: requestKey, Step: step, Account: name, Currency: currency,
		Key: uuid.NewSHA1(uuid.Nil, []byte(tenant+" "+requestKey+" "+step)).String()}
	a := b.accounts[id(tenant, name)]
	if s := b.stored[id(tenant, o.Key)]; s != nil {
		if replay(s, o).Outcome == keyReused {
			return status.Error(codes.AlreadyExists, "the key stands for another request; nothing was done")
		}
		return nil
	}
	switch {
	case !part.MatchString(tenant) || !part.MatchString(name) || !transfer.MatchString(requestKey):
		return status.Error(codes.InvalidArgument, "tenant, key or account is malformed; nothing was done")
	case step == "open" && !slices.Contains(currencies, currency):
		return status.Error(codes.InvalidArgument, "the currency is not known; nothing was done")
	case (a == nil) != (step == "open"), a != nil && (a.state == "close" || step == "close" && a.balance != 0):
		return status.Error(codes.FailedPrecondition, "the account's state does not allow it; nothing was done")
	}
	b.store(o, &pb.Answer{Outcome: applied, Key: o.Key})
	b.commit()
	return nil
}

func (b *books) OpenAccount(_ context.Context, r *setup.OpenAccountRequest) (*setup.OpenAccountResponse, error) {
	return &setup.OpenAccountResponse{}, b.change("open", r.Tenant, r.Key, r.Account, r.Currency)
}

func (b *books) FreezeAccount(_ context.Context, r *setup.FreezeAccountRequest) (*setup.FreezeAccountResponse, error) {
	return &setup.FreezeAccountResponse{}, b.change("freeze", r.Tenant, r.Key, r.Account, "")
}

func (b *books) UnfreezeAccount(_ context.Context, r *setup.UnfreezeAccountRequest) (*setup.UnfreezeAccountResponse, error) {
	return &setup.UnfreezeAccountResponse{}, b.change("unfreeze", r.Tenant, r.Key, r.Account, "")
}

func (b *books) CloseAccount(_ context.Context, r *setup.CloseAccountRequest) (*setup.CloseAccountResponse, error) {
	return &setup.CloseAccountResponse{}, b.change("close", r.Tenant, r.Key, r.Account, "")
}
