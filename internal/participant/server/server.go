// Package server is a participant's gRPC edge: PROTOCOL section 1 over an engine.
// What can be decided about an item is an answer inside an OK response. A gRPC
// error says that nothing is known of any item.
package server

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/grpc"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant"
	"giro/internal/participant/book"
	"giro/internal/rpc"
	"giro/internal/stepkey"
	participantv1 "giro/proto/giro/participant/v1"
)

// protocolVersion is the version of the protocol that this edge speaks.
const protocolVersion = 1

// Server answers the participant's calls. The operations name their tenant: it is
// the orchestrator that asks, for all of them.
type Server struct {
	participantv1.UnimplementedParticipantServiceServer
	participantv1.UnimplementedRetentionServiceServer
	engine *participant.Engine
}

// New makes a server over an engine.
func New(engine *participant.Engine) *Server { return &Server{engine: engine} }

// Register registers the participant's services.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	participantv1.RegisterRetentionServiceServer(r, s)
	participantv1.RegisterParticipantServiceServer(r, s)
}

// Debit takes the amount from the account.
func (s *Server) Debit(ctx context.Context, r *participantv1.DebitRequest) (*participantv1.DebitResponse, error) {
	answer, err := s.single(ctx, book.Debit, r.GetOperation())
	return &participantv1.DebitResponse{Answer: answer}, err
}

// Credit gives the amount to the account.
func (s *Server) Credit(ctx context.Context, r *participantv1.CreditRequest) (*participantv1.CreditResponse, error) {
	answer, err := s.single(ctx, book.Credit, r.GetOperation())
	return &participantv1.CreditResponse{Answer: answer}, err
}

// Refund gives back what a debit took, once.
func (s *Server) Refund(ctx context.Context, r *participantv1.RefundRequest) (*participantv1.RefundResponse, error) {
	answer, err := s.single(ctx, book.Refund, r.GetOperation())
	return &participantv1.RefundResponse{Answer: answer}, err
}

// Cancel makes a key that was never seen CANCELLED for ever.
func (s *Server) Cancel(ctx context.Context, r *participantv1.CancelRequest) (*participantv1.CancelResponse, error) {
	answer, err := s.single(ctx, book.Cancel, r.GetOperation())
	return &participantv1.CancelResponse{Answer: answer}, err
}

// single carries out one operation of the call's own kind.
func (s *Server) single(ctx context.Context, kind book.Kind, o *participantv1.Operation) (*participantv1.Answer, error) {
	if given := kindOf(o.GetKind()); given != 0 && given != kind {
		kind = noKind
	}
	answers, err := s.apply(ctx, []*participantv1.Operation{o}, []book.Kind{kind})
	if err != nil {
		return nil, err
	}
	return answers[0], nil
}

// Apply carries out a batch and answers each item on its own.
func (s *Server) Apply(ctx context.Context, r *participantv1.ApplyRequest) (*participantv1.ApplyResponse, error) {
	if n := len(r.GetOperations()); n > book.BatchSizeMax {
		return nil, rpc.InvalidArgument([]rpc.Violation{{Field: "operations",
			Description: "must hold at most " + strconv.Itoa(book.BatchSizeMax) + " items, and holds " + strconv.Itoa(n)}})
	}
	kinds := make([]book.Kind, len(r.GetOperations()))
	for i, o := range r.GetOperations() {
		kinds[i] = kindOf(o.GetKind())
	}
	answers, err := s.apply(ctx, r.GetOperations(), kinds)
	if err != nil {
		return nil, err
	}
	return &participantv1.ApplyResponse{Answers: answers}, nil
}

// apply answers at most book.BatchSizeMax operations. What the engine does not know
// of one is an answer without an outcome; of all, an error.
func (s *Server) apply(ctx context.Context, asked []*participantv1.Operation, kinds []book.Kind) ([]*participantv1.Answer, error) {
	out := make([]*participantv1.Answer, len(asked))
	var operations []book.Operation
	var places []int
	for i, o := range asked {
		if o == nil {
			out[i] = noOperation()
			continue
		}
		operations = append(operations, fromProto(kinds[i], o))
		places = append(places, i)
	}
	if len(operations) == 0 {
		return out, nil
	}
	answers, err := s.engine.Apply(ctx, operations)
	if err != nil {
		return nil, rpc.Unanswered(ctx, err)
	}
	for i, a := range answers {
		out[places[i]] = answerTo(asked[places[i]], a)
	}
	return out, nil
}

// noOperation answers what the book has no words for.
func noOperation() *participantv1.Answer {
	return &participantv1.Answer{Outcome: participantv1.Outcome_OUTCOME_INVALID,
		Violations: []*participantv1.Violation{{Field: "operation", Description: "must be given"}}}
}

// GetOperation answers with the stored outcome of a key. Unlike the calls that
// change something it takes the participant's own operations too.
func (s *Server) GetOperation(ctx context.Context, r *participantv1.GetOperationRequest) (*participantv1.GetOperationResponse, error) {
	o := r.GetOperation()
	if o == nil {
		return &participantv1.GetOperationResponse{Answer: noOperation()}, nil
	}
	kind := kindOf(o.GetKind())
	if o.GetKind() == participantv1.OperationKind_OPERATION_KIND_LOCAL {
		kind = localKind(o.GetStep())
	}
	answer, err := s.engine.Store().Lookup(ctx, fromProto(kind, o))
	if err != nil {
		return nil, rpc.Unanswered(ctx, err)
	}
	return &participantv1.GetOperationResponse{Answer: answerTo(o, answer)}, nil
}

// localKind is the participant's own operation that a step names.
func localKind(step string) book.Kind {
	if kind := book.KindOfStep(step); kind != 0 && !kind.Protocol() {
		return kind
	}
	return noKind
}

// ListOperations lists everything stored, ordered by tenant and key.
func (s *Server) ListOperations(ctx context.Context, r *participantv1.ListOperationsRequest) (*participantv1.ListOperationsResponse, error) {
	if err := checkTenant(r.GetTenant()); err != nil {
		return nil, err
	}
	limit, err := rpc.PageSize(r.GetPageSize())
	if err != nil {
		return nil, err
	}
	scope := "operations/" + r.GetTenant()
	place, err := rpc.ParsePageToken(r.GetPageToken(), scope, 2)
	if err != nil {
		return nil, err
	}
	after := book.ID{Tenant: names.Tenant(place[0])}
	if r.GetPageToken() != "" {
		if after.Key, err = stepkey.Parse(place[1]); err != nil || !after.Tenant.Valid() {
			return nil, rpc.InvalidPageToken()
		}
	}
	listed, err := s.engine.Store().Operations(ctx, names.Tenant(r.GetTenant()), after, limit)
	if err != nil {
		return nil, rpc.Unanswered(ctx, err)
	}
	out := &participantv1.ListOperationsResponse{}
	for _, l := range listed {
		out.Operations = append(out.Operations, listedOperation(l))
	}
	if len(listed) == limit {
		last := listed[limit-1]
		out.NextPageToken = rpc.PageToken(scope, string(last.Tenant), last.Key.String())
	}
	return out, nil
}

// Sums adds up the books, in one snapshot.
func (s *Server) Sums(ctx context.Context, r *participantv1.SumsRequest) (*participantv1.SumsResponse, error) {
	if err := checkTenant(r.GetTenant()); err != nil {
		return nil, err
	}
	sums, err := s.engine.Store().Sums(ctx, names.Tenant(r.GetTenant()))
	if err != nil {
		return nil, rpc.Unanswered(ctx, err)
	}
	return sumsResponse(sums), nil
}

// checkTenant judges a filter; empty is all tenants.
func checkTenant(tenant string) error {
	if tenant == "" || names.Tenant(tenant).Valid() {
		return nil
	}
	return rpc.InvalidArgument([]rpc.Violation{{Field: "tenant", Description: "must be empty, or " + names.PartGrammar}})
}

// Describe tells the participant's limits and identity.
func (s *Server) Describe(ctx context.Context, _ *participantv1.DescribeRequest) (*participantv1.DescribeResponse, error) {
	identity, err := s.engine.Store().Identity(ctx)
	if err != nil {
		return nil, rpc.Unanswered(ctx, err)
	}
	kept, now, err := s.engine.Store().Retention(ctx)
	if err != nil {
		return nil, rpc.Unanswered(ctx, err)
	}
	out := &participantv1.DescribeResponse{
		ProtocolVersion: protocolVersion,
		Participant:     string(s.engine.Name()),
		AmountMax:       int64(s.engine.Limits().AmountMax),
		BatchSizeMax:    book.BatchSizeMax,
		Incarnation:     identity.Incarnation,
		HighWaterMark:   identity.HighWaterMark,

		RetentionHorizonSeconds: int64(kept.AgeMax(now) / time.Second),
		ArchivedBefore:          instant(kept.ArchivedBefore),
	}
	for _, c := range money.Currencies() {
		out.Currencies = append(out.Currencies, string(c))
	}
	return out, nil
}
