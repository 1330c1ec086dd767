// Package server is the orchestrator's gRPC edge: it validates, creates or
// returns, and waits. What it answers about a transfer is always committed.
package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"giro/internal/fingerprint"
	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/retention"
	"giro/internal/rpc"
	"giro/internal/stepkey"
	"giro/orchestrator/runner"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
	adminv1 "giro/proto/giro/admin/v1"
	participantv1 "giro/proto/giro/participant/v1"
	transferv1 "giro/proto/giro/transfer/v1"
)

// The reasons of this edge's errors.
const (
	ReasonTransferKeyReused = "TRANSFER_KEY_REUSED"
	ReasonTransferNotFound  = "TRANSFER_NOT_FOUND"
)

// Config is what the edge works with.
type Config struct {
	Runner *runner.Runner
	Store  store.Store
	// Participants are those registered, with a client each for the audit.
	Participants map[names.Participant]participantv1.ParticipantServiceClient
	// Retention says how long keys are kept.
	Retention retention.Settings
	// Stopping is closed when calls that wait are to be answered at once, with the
	// transfer as it stands.
	Stopping <-chan struct{}
}

// Server implements TransferService and AdminService.
type Server struct {
	transferv1.UnimplementedTransferServiceServer
	adminv1.UnimplementedAdminServiceServer
	config Config
}

// New makes a server over a runner that was started.
func New(config Config) *Server { return &Server{config: config} }

// Register adds the services to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	transferv1.RegisterTransferServiceServer(r, s)
	adminv1.RegisterAdminServiceServer(r, s)
}

// CreateTransfer stores the transfer, or finds the one under this key, and waits
// for its final state.
func (s *Server) CreateTransfer(ctx context.Context, request *transferv1.CreateTransferRequest) (*transferv1.CreateTransferResponse, error) {
	id := saga.ID{Tenant: rpc.PrincipalFrom(ctx).Tenant, Key: names.TransferKey(request.GetKey())}
	contents := contentsOf(request)
	settled, end := s.config.Runner.Watch(id)
	defer end()
	// A known key is answered before anything else is judged.
	if no := s.notNew(id.Key, s.FurtherViolations(request)); no != nil {
		known, err := s.config.Store.Lookup(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, no
		case err != nil:
			return nil, rpc.Unanswered(ctx, err)
		}
		return s.created(ctx, store.Inserted{Saga: known}, contents, settled)
	}
	inserted, err := s.config.Runner.Insert(ctx, newTransfer(id, request))
	if err != nil {
		return nil, rpc.Unanswered(ctx, err)
	}
	return s.created(ctx, inserted, contents, settled)
}

func newTransfer(id saga.ID, request *transferv1.CreateTransferRequest) store.New {
	transfer := saga.New(id, contentsOf(request), false)
	transfer.Memo, transfer.Metadata = request.GetMemo(), request.GetMetadata()
	return store.New{Saga: transfer, Expiry: request.GetExpiry().AsDuration()}
}

// notNew says why a key that is not stored yet cannot become a transfer, if so.
func (s *Server) notNew(key names.TransferKey, violations []rpc.Violation) error {
	if len(violations) > 0 {
		return rpc.InvalidArgument(violations)
	}
	kept, now := s.config.Retention, s.config.Runner.Now()
	switch {
	case kept.TooOld(key, now):
		return rpc.FailedPrecondition(rpc.ReasonKeyExpired, fmt.Sprintf("no transfer is stored under this key, and it is older than keys are kept (%s); nothing was done by this call. "+
			"What became of it is not known any more: do not pay again under another key without looking", kept.Horizon))
	case kept.TooNew(key, now):
		return rpc.FailedPrecondition(rpc.ReasonKeyExpired, fmt.Sprintf("this key's own time lies more than %s ahead of the clock here; nothing was done, and no transfer is stored under it. "+
			"Mend the clock that draws the keys, and do not pay again under another key without looking: this one is accepted once its time has come", retention.AheadMaxEdge))
	}
	return nil
}

func (s *Server) created(ctx context.Context, inserted store.Inserted, contents fingerprint.Contents, settled <-chan saga.Saga) (*transferv1.CreateTransferResponse, error) {
	if err := sameTransfer(inserted.Saga, contents); err != nil {
		return nil, err
	}
	now, err := s.wait(ctx, inserted.Saga, settled)
	if err != nil {
		return nil, err
	}
	return &transferv1.CreateTransferResponse{
		Transfer: transferOf(now), Replayed: !inserted.Created, FirstTime: timeOf(now.CreatedAt),
	}, nil
}

// GetTransfer answers with the transfer as it now stands.
func (s *Server) GetTransfer(ctx context.Context, request *transferv1.GetTransferRequest) (*transferv1.GetTransferResponse, error) {
	id := saga.ID{Tenant: rpc.PrincipalFrom(ctx).Tenant, Key: names.TransferKey(request.GetKey())}
	found, err := s.lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	return &transferv1.GetTransferResponse{Transfer: transferOf(found)}, nil
}

func (s *Server) lookup(ctx context.Context, id saga.ID) (saga.Saga, error) {
	found, err := s.config.Store.Lookup(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return found, rpc.NotFound(ReasonTransferNotFound,
			"no transfer is stored under this key; one that was sent may still arrive: ask again, or create it with the same key")
	}
	return found, rpc.Unanswered(ctx, err)
}

// CancelTransfer asks a running transfer to stop, and waits for what becomes of
// it.
func (s *Server) CancelTransfer(ctx context.Context, request *transferv1.CancelTransferRequest) (*transferv1.CancelTransferResponse, error) {
	id := saga.ID{Tenant: rpc.PrincipalFrom(ctx).Tenant, Key: names.TransferKey(request.GetKey())}
	settled, end := s.config.Runner.Watch(id)
	defer end()
	asked, err := s.cancel(ctx, id, request.GetContents())
	if err != nil {
		return nil, err
	}
	now, err := s.wait(ctx, asked, settled)
	if err != nil {
		return nil, err
	}
	return &transferv1.CancelTransferResponse{Transfer: transferOf(now)}, nil
}

func (s *Server) cancel(ctx context.Context, id saga.ID, given *transferv1.TransferContents) (saga.Saga, error) {
	known, err := s.config.Store.Lookup(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		if given == nil {
			return known, rpc.NotFound(ReasonTransferNotFound,
				"no transfer is stored under this key, so nothing was cancelled, and one that is on its way may still arrive: "+
					"cancel with its contents, and it is stored as cancelled")
		}
		return s.cancelUnknown(ctx, id, contentsOf(given))
	}
	if err != nil {
		return known, rpc.Unanswered(ctx, err)
	}
	if given != nil {
		if err := sameTransfer(known, contentsOf(given)); err != nil {
			return known, err
		}
	}
	if known.State.Final() {
		return known, nil
	}
	asked, err := s.config.Runner.AskCancel(ctx, id)
	return asked, rpc.Unanswered(ctx, err)
}

// cancelUnknown stores a transfer that nobody asked for yet as cancelled: the
// table sees to it that it can never be carried out.
func (s *Server) cancelUnknown(ctx context.Context, id saga.ID, contents fingerprint.Contents) (saga.Saga, error) {
	violations := append(s.keyViolations(id.Key), s.unknownParticipants("contents.", contents)...)
	if no := s.notNew(id.Key, violations); no != nil {
		return saga.Saga{}, no
	}
	inserted, err := s.config.Runner.Insert(ctx, store.New{Saga: saga.New(id, contents, true)})
	if err != nil {
		return saga.Saga{}, rpc.Unanswered(ctx, err)
	}
	if inserted.Created {
		return inserted.Saga, nil
	}
	// Its Create came in between.
	if err := sameTransfer(inserted.Saga, contents); err != nil {
		return saga.Saga{}, err
	}
	asked, err := s.config.Runner.AskCancel(ctx, id)
	return asked, rpc.Unanswered(ctx, err)
}

// pollEvery bounds how often the store is asked for a saga that another replica
// carries out.
const (
	pollMin = 100 * time.Millisecond
	pollMax = 2 * time.Second
)

// wait gives the saga once it is final or parked, or as it stands when the
// caller's deadline is near.
func (s *Server) wait(ctx context.Context, known saga.Saga, settled <-chan saga.Saga) (saga.Saga, error) {
	if ended(known) {
		return known, nil
	}
	near := time.NewTimer(patience(ctx))
	defer near.Stop()
	pause := pollMin
	poll := time.NewTimer(pause)
	defer poll.Stop()
	for {
		select {
		case now := <-settled:
			return now, nil
		case <-ctx.Done():
			return known, rpc.Unanswered(ctx, ctx.Err())
		case <-s.config.Stopping:
			return s.asItStands(ctx, known)
		case <-near.C:
			return s.asItStands(ctx, known)
		case <-poll.C:
			pause = min(2*pause, pollMax)
			poll.Reset(pause)
			if s.config.Runner.Carries(known.ID) {
				continue // it will tell
			}
			if now, err := s.config.Store.Lookup(ctx, known.ID); err == nil && ended(now) {
				return now, nil
			}
		}
	}
}

// asItStands gives a stored saga at the end of a wait.
func (s *Server) asItStands(ctx context.Context, known saga.Saga) (saga.Saga, error) {
	now, err := s.config.Store.Lookup(ctx, known.ID)
	switch {
	case err == nil:
		return now, nil
	case errors.Is(err, store.ErrNotFound):
		// Somebody empties the table: there is no row to vouch for an OK.
		return known, rpc.Unanswered(ctx, err)
	}
	return known, nil // it is stored: that much is certain
}

// patience is how long to wait so that an answer still arrives in time.
func patience(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 30 * time.Second
	}
	left := time.Until(deadline)
	return left - min(max(left/10, 10*time.Millisecond), 500*time.Millisecond)
}

// sameTransfer refuses a key that stands for another transfer. It tells which
// fields differ, and nothing of what is stored.
func sameTransfer(stored saga.Saga, asked fingerprint.Contents) error {
	if stored.Fingerprint == fingerprint.Of(asked) {
		return nil
	}
	fields := fingerprint.Differing(stored.Contents, asked)
	if len(fields) == 0 {
		return nil // an older encoding of the same contents
	}
	text := "this key was used for another transfer, which stands as it is; nothing moved for this request. It differs in " +
		strings.Join(fields, ", ") + ". For another transfer draw a new key"
	return rpc.AlreadyExists(ReasonTransferKeyReused, text, fields)
}

// keyViolations judges a new key's form: with a horizon it must have a time of its own.
func (s *Server) keyViolations(key names.TransferKey) []rpc.Violation {
	if _, timed := stepkey.Time(key); timed || s.config.Retention.Horizon == 0 || !key.Valid() {
		return nil
	}
	return []rpc.Violation{{Field: "key", Description: "must be a UUIDv7 in canonical lower-case text, since keys are kept for a limited time here"}}
}

// FurtherViolations lists the accounts of a request whose participant is not
// registered, and a key that a new transfer cannot have; see rpc.Judge.
func (s *Server) FurtherViolations(message proto.Message) []rpc.Violation {
	switch m := message.(type) {
	case *transferv1.CreateTransferRequest:
		return append(s.keyViolations(names.TransferKey(m.GetKey())), s.unknownParticipants("", contentsOf(m))...)
	case *transferv1.CancelTransferRequest:
		if m.GetContents() != nil {
			return append(s.keyViolations(names.TransferKey(m.GetKey())), s.unknownParticipants("contents.", contentsOf(m.GetContents()))...)
		}
	}
	return nil
}

func (s *Server) unknownParticipants(prefix string, c fingerprint.Contents) []rpc.Violation {
	var violations []rpc.Violation
	for _, side := range []struct {
		field string
		ref   names.AccountRef
	}{{"source", c.Source}, {"destination", c.Destination}} {
		if _, registered := s.config.Participants[side.ref.Participant()]; !registered && side.ref.Valid() {
			violations = append(violations, rpc.Violation{Field: prefix + side.field,
				Description: "must name a registered participant; " + string(side.ref.Participant()) + " is none"})
		}
	}
	return violations
}

func contentsOf(c interface {
	GetSource() string
	GetDestination() string
	GetAmount() int64
	GetCurrency() string
}) fingerprint.Contents {
	return fingerprint.Contents{Source: names.AccountRef(c.GetSource()), Destination: names.AccountRef(c.GetDestination()),
		Amount: money.Minor(c.GetAmount()), Currency: money.Currency(c.GetCurrency())}
}
