// Package peer is a participant as the orchestrator sees it: over gRPC, with the
// calls that are made at the same time gathered into one Apply.
package peer

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"giro/internal/batch"
	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/retention"
	"giro/internal/stepkey"
	"giro/orchestrator/saga"
	participantv1 "giro/proto/giro/participant/v1"
)

// Config bounds a peer. Zero fields stand for their defaults.
type Config struct {
	// CallTimeout bounds one Apply; default 10 s.
	CallTimeout time.Duration
	// Workers is how many Apply calls may be under way at once; default 4.
	Workers int
	// BatchSizeMax is the most operations of one Apply; default 100, and never
	// more than the participant's Describe allows.
	BatchSizeMax int
	// Retention is the orchestrator's; a participant that forgets keys sooner than it
	// may need them is sent nothing.
	Retention retention.Settings
	// Logger is told when the participant stops answering and when it answers again.
	Logger *slog.Logger
}

// Peer asks one participant. It implements runner.Peer.
type Peer struct {
	name   names.Participant
	client participantv1.ParticipantServiceClient
	config Config
	queue  *batch.Queue[saga.Request, saga.Answer]
	hears  hearing

	// mu guards whom this peer has met: its batch limit, and until when it need not
	// be asked again. A zero time means that it has to be.
	mu         sync.Mutex
	limit      int
	knownUntil time.Time
}

// New makes a peer over a connection, which the caller closes.
func New(name names.Participant, connection grpc.ClientConnInterface, config Config) *Peer {
	if config.CallTimeout == 0 {
		config.CallTimeout = 10 * time.Second
	}
	if config.Workers == 0 {
		config.Workers = 4
	}
	if config.BatchSizeMax == 0 {
		config.BatchSizeMax = 100
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Peer{name: name, client: participantv1.NewParticipantServiceClient(connection), config: config,
		hears: hearing{logger: config.Logger.With("participant", name), now: time.Now}}
	p.queue = batch.New(
		batch.Config{Workers: config.Workers, WeightMax: config.BatchSizeMax, WaitersMax: 1 << 30}, // the flights bound it
		nil, p.callTogether)
	return p
}

// Call asks for one step. No answer, for whatever reason, is OutcomeUnknown: no
// proxy, interceptor or library can turn a doubt into a decision.
func (p *Peer) Call(ctx context.Context, request saga.Request) saga.Answer {
	answer, err := p.queue.Do(ctx, request)
	if err != nil {
		return saga.Answer{Error: reason(err)}
	}
	return answer
}

func (p *Peer) callTogether(requests []saga.Request) ([]saga.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), p.config.CallTimeout)
	defer cancel()
	answers, err := p.ask(ctx, requests)
	if err == nil {
		p.hears.answered()
		return answers, nil
	}
	p.hears.silent(err)
	p.forget()
	unknown := saga.Answer{Error: reason(err)}
	return append(answers, slices.Repeat([]saga.Answer{unknown}, len(requests)-len(answers))...), nil
}

// ask gives the answers up to the first failure.
func (p *Peer) ask(ctx context.Context, requests []saga.Request) ([]saga.Answer, error) {
	limit, err := p.meet(ctx)
	if err != nil {
		return nil, err
	}
	var answers []saga.Answer
	// Only a batch that was gathered before the limit was known has several parts.
	for part := range slices.Chunk(requests, limit) {
		answered, err := p.apply(ctx, part)
		if err != nil {
			return answers, err
		}
		answers = append(answers, answered...)
	}
	return answers, nil
}

// apply asks for some steps in one call.
func (p *Peer) apply(ctx context.Context, requests []saga.Request) ([]saga.Answer, error) {
	operations := make([]*participantv1.Operation, len(requests))
	for i, r := range requests {
		operations[i] = Operation(r)
	}
	response, err := p.client.Apply(ctx, &participantv1.ApplyRequest{Operations: operations})
	if err != nil {
		return nil, err
	}
	if len(response.GetAnswers()) != len(requests) {
		return nil, fmt.Errorf("%s gave %d answers to %d operations", p.name, len(response.GetAnswers()), len(requests))
	}
	answers := make([]saga.Answer, len(requests))
	for i, a := range response.GetAnswers() {
		answers[i] = Answer(a)
	}
	return answers, nil
}

// meet asks who answers at this address, unless that is known, and gives the most
// operations that it takes at once. A wrong address would book on the wrong
// books, so nothing is sent to a participant that calls itself by another name.
func (p *Peer) meet(ctx context.Context) (int, error) {
	p.mu.Lock()
	limit, known := p.limit, time.Now().Before(p.knownUntil)
	p.mu.Unlock()
	if known {
		return limit, nil
	}
	d, err := p.client.Describe(ctx, &participantv1.DescribeRequest{})
	switch {
	case status.Code(err) == codes.Unimplemented:
		d = &participantv1.DescribeResponse{} // it does not say; nothing contradicts
	case err != nil:
		return 0, err
	}
	if name := d.GetParticipant(); name != "" && name != string(p.name) {
		return 0, fmt.Errorf("at the address of %s answers %.64q: nothing was sent; mend the address or the name", p.name, name)
	}
	if version := d.GetProtocolVersion(); version != 0 && version != protocolVersion {
		return 0, fmt.Errorf("%s speaks protocol version %d, this is %d: nothing was sent", p.name, version, protocolVersion)
	}
	if kept := time.Duration(d.GetRetentionHorizonSeconds()) * time.Second; !p.config.Retention.Serves(kept) {
		own := p.config.Retention.WithDefaults()
		return 0, fmt.Errorf("%s keeps keys for %s, and transfers here may need them for %s (--saga-age-max %s and --operator-window %s): "+
			"nothing was sent; lengthen its --retention-horizon, or shorten these", p.name, kept, own.SagaAgeMax+own.OperatorWindow, own.SagaAgeMax, own.OperatorWindow)
	}
	limit = p.config.BatchSizeMax
	if theirs := int(d.GetBatchSizeMax()); theirs > 0 {
		limit = min(limit, theirs)
	}
	p.queue.Limit(limit)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit, p.knownUntil = limit, time.Now().Add(acquaintance)
	return limit, nil
}

// forget makes the next call ask who answers: it may be another one.
func (p *Peer) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.knownUntil = time.Time{}
}

// acquaintance is how long a participant that was met need not be asked again who
// it is: a connection may be made anew without a call that fails.
const acquaintance = 10 * time.Second

// protocolVersion is docs/protocol.md's.
const protocolVersion = 1

// reason says in a few words why there is no answer.
func reason(err error) string {
	text := err.Error()
	if s, ok := status.FromError(err); ok {
		text = s.Code().String() + ": " + s.Message()
	}
	return text
}

var kinds = map[saga.StepName]participantv1.OperationKind{
	saga.StepDebit:  participantv1.OperationKind_OPERATION_KIND_DEBIT,
	saga.StepCredit: participantv1.OperationKind_OPERATION_KIND_CREDIT,
	saga.StepCancel: participantv1.OperationKind_OPERATION_KIND_CANCEL,
	saga.StepRefund: participantv1.OperationKind_OPERATION_KIND_REFUND,
}

// Operation is a request as it goes over the wire.
func Operation(r saga.Request) *participantv1.Operation {
	o := &participantv1.Operation{
		Kind: kinds[r.Step], Tenant: string(r.Tenant), TransferKey: string(r.TransferKey), Step: r.OperationStep,
		Key: r.Key.String(), Account: string(r.Account), Amount: int64(r.Amount), Currency: string(r.Currency),
		Counterparty: string(r.Counterparty),
	}
	if !r.DebitKey.IsZero() {
		o.DebitKey = r.DebitKey.String()
	}
	return o
}

var outcomes = map[participantv1.Outcome]saga.Outcome{
	participantv1.Outcome_OUTCOME_APPLIED:    saga.OutcomeApplied,
	participantv1.Outcome_OUTCOME_REFUSED:    saga.OutcomeRefused,
	participantv1.Outcome_OUTCOME_CANCELLED:  saga.OutcomeCancelled,
	participantv1.Outcome_OUTCOME_KEY_REUSED: saga.OutcomeKeyReused,
	participantv1.Outcome_OUTCOME_INVALID:    saga.OutcomeInvalid,
	participantv1.Outcome_OUTCOME_EXPIRED:    saga.OutcomeExpired,
	participantv1.Outcome_OUTCOME_NOT_FOUND:  saga.OutcomeNotFound,
}

// Answer reads what came over the wire. An outcome that is missing or that this
// version does not know is no answer.
func Answer(a *participantv1.Answer) saga.Answer {
	outcome, known := outcomes[a.GetOutcome()]
	if !known {
		return saga.Answer{Error: fmt.Sprintf("the response holds no answer (outcome %s)", a.GetOutcome())}
	}
	key, err := stepkey.Parse(a.GetKey())
	if err != nil {
		key = stepkey.StepKey{} // echoes another key: the saga parks
	}
	answer := saga.Answer{
		Outcome: outcome, Key: key, Amount: money.Minor(a.GetAmount()), AmountMoved: money.Minor(a.GetAmountMoved()),
		DebitOutcome: outcomes[a.GetDebitOutcome()], FirstRefundMoved: money.Minor(a.GetFirstRefundAmount()),
		ToSuspense: a.GetRefundToSuspense(), Replayed: a.GetReplayed(), Detail: detail(a),
	}
	if outcome == saga.OutcomeRefused {
		answer.Reason = Reason(a.GetReason())
	}
	return answer
}

const reasonPrefix = "REFUSAL_REASON_"

// Reason is a refusal's reason in the API's words, one that this version does not
// know as UNSPECIFIED.
func Reason(r participantv1.RefusalReason) string {
	name, known := participantv1.RefusalReason_name[int32(r)]
	if !known {
		name = participantv1.RefusalReason_REFUSAL_REASON_UNSPECIFIED.String()
	}
	return name[len(reasonPrefix):]
}

func detail(a *participantv1.Answer) string {
	text := ""
	for _, f := range a.GetDifferingFields() {
		text += " " + f + " differs;"
	}
	for _, v := range a.GetViolations() {
		text += " " + v.GetField() + " " + v.GetDescription() + ";"
	}
	return text
}
