package server

import (
	"context"
	"errors"
	"fmt"

	"giro/internal/retention"
	"giro/internal/rpc"
	participantv1 "giro/proto/giro/participant/v1"
)

// ReasonTooManyOrchestrators is of a report by one orchestrator too many.
const ReasonTooManyOrchestrators = "TOO_MANY_ORCHESTRATORS"

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
	if errors.Is(err, retention.ErrReports) {
		return nil, rpc.FailedPrecondition(ReasonTooManyOrchestrators, fmt.Sprintf("%d orchestrators have reported here already; nothing was done, and nothing is archived "+
			"that those may need: forget the ones that are gone (giro archive forget), then report again", retention.ReportsMax))
	}
	if err != nil {
		return nil, rpc.Unanswered(ctx, err)
	}
	return &participantv1.ReportUnfinishedResponse{ArchivedBefore: instant(kept.ArchivedBefore)}, nil
}
