package server

import (
	"context"

	"giro/internal/retention"
	"giro/internal/rpc"
	participantv1 "giro/proto/giro/participant/v1"
)

// ReportUnfinished stores what an orchestrator says of the keys that it may still ask
// for. It has no key of its own: a later report takes the place of an earlier one, and
// the same one again changes nothing.
func (s *Server) ReportUnfinished(ctx context.Context, r *participantv1.ReportUnfinishedRequest) (*participantv1.ReportUnfinishedResponse, error) {
	report := retention.Report{Orchestrator: r.GetOrchestrator()}
	if at := r.GetOldestTime(); at != nil {
		if report.Oldest = at.AsTime(); at.CheckValid() != nil || report.Oldest.Year() < 1970 || report.Oldest.Year() > 9999 {
			return nil, rpc.InvalidArgument([]rpc.Violation{{Field: "oldest_time", Description: "must be an instant from 1970 on, or left out"}})
		}
	}
	kept, err := s.engine.Store().Report(ctx, report)
	if err != nil {
		return nil, rpc.Unanswered(ctx, err)
	}
	return &participantv1.ReportUnfinishedResponse{ArchivedBefore: instant(kept.ArchivedBefore)}, nil
}
