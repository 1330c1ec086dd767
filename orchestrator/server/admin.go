package server

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"giro/internal/names"
	"giro/internal/rpc"
	"giro/orchestrator/audit"
	"giro/orchestrator/saga"
	adminv1 "giro/proto/giro/admin/v1"
	transferv1 "giro/proto/giro/transfer/v1"
)

// GetSaga shows how one transfer is being carried out.
func (s *Server) GetSaga(ctx context.Context, request *adminv1.GetSagaRequest) (*adminv1.GetSagaResponse, error) {
	id := saga.ID{Tenant: names.Tenant(request.GetTenant()), Key: names.TransferKey(request.GetKey())}
	if id.Tenant == "" {
		id.Tenant = rpc.PrincipalFrom(ctx).Tenant
	}
	found, err := s.lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	return &adminv1.GetSagaResponse{Saga: sagaOf(found)}, nil
}

// Audit checks the invariants between the saga table and the participants' books.
func (s *Server) Audit(request *adminv1.AuditRequest, stream grpc.ServerStreamingServer[adminv1.AuditResponse]) error {
	err := audit.Stream(stream.Context(), audit.Config{
		Store: s.config.Store, Participants: s.config.Participants, Tenant: names.Tenant(request.GetTenant()),
	}, stream.Send)
	var unreadable *audit.UnreadableError
	if errors.As(err, &unreadable) && stream.Context().Err() == nil {
		return rpc.ParticipantUnreadable(string(unreadable.Participant), err)
	}
	return err
}

var publicStates = map[saga.State]transferv1.State{
	saga.Debiting: transferv1.State_STATE_PENDING, saga.Crediting: transferv1.State_STATE_PENDING,
	saga.Cancelling: transferv1.State_STATE_PENDING, saga.Refunding: transferv1.State_STATE_PENDING,
	saga.Completed: transferv1.State_STATE_COMPLETED, saga.Refused: transferv1.State_STATE_REFUSED,
	saga.Refunded: transferv1.State_STATE_REFUNDED, saga.Cancelled: transferv1.State_STATE_CANCELLED,
	saga.Resolved: transferv1.State_STATE_RESOLVED,
}

func transferOf(s saga.Saga) *transferv1.Transfer {
	if s.State == saga.Cancelling {
		s.Reason = "" // the credit may have happened: it may still be completed
	}
	return &transferv1.Transfer{
		Key: string(s.ID.Key), Source: string(s.Source), Destination: string(s.Destination),
		Amount: int64(s.Amount), Currency: string(s.Currency), State: publicStates[s.State], Reason: s.Reason,
		Memo: s.Memo, Metadata: s.Metadata, Version: s.Version,
		CreateTime: timeOf(s.CreatedAt), UpdateTime: timeOf(s.UpdatedAt), ExpireTime: timeOf(s.ExpiresAt),
		RefundToSuspense: s.RefundToSuspense,
	}
}

func sagaOf(s saga.Saga) *adminv1.Saga {
	shown := &adminv1.Saga{
		Tenant: string(s.Tenant), Transfer: transferOf(s),
		State:  adminv1.SagaState(adminv1.SagaState_value["SAGA_STATE_"+string(s.State)]),
		Parked: s.Parked, ParkReason: s.ParkReason, NeedsAttention: s.Attention, AttentionReason: s.AttentionReason,
		CancelAsked: s.CancelAsked, Owner: s.Owner, Epoch: s.Epoch, Version: s.Version,
	}
	shown.Transfer.Reason = s.Reason
	if !s.State.Final() {
		shown.DueTime = timeOf(s.DueAt)
	}
	for _, step := range s.Steps {
		shown.Steps = append(shown.Steps, &adminv1.Step{
			Name: string(step.Name), Participant: string(s.Participant(step.Name)), Key: s.StepKey(step.Name).String(),
			Attempts: step.Attempts, FirstSentTime: timeOf(step.FirstSentAt), LastSentTime: timeOf(step.LastSentAt),
			AnswerTime: timeOf(step.AnsweredAt), Answer: step.Outcome, Reason: step.Reason,
			AmountMoved: int64(step.AmountMoved), LastError: step.LastError, Replayed: step.Replayed,
		})
	}
	return shown
}

// timeOf is an instant as it goes over the wire; unset if there is none.
func timeOf(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
