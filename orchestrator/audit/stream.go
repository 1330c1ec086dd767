package audit

import (
	"context"
	"time"

	adminv1 "giro/proto/giro/admin/v1"
)

// progressMillisecondsMin is the least time between two progress messages.
const progressMillisecondsMin = 200

// Stream runs an audit and sends it as AdminService.Audit does: progress at most
// every 200 ms, one message for each check, one verdict last. cfg.Progress is
// called too. An error of send ends the audit and is returned as it is; so is an
// error of Run. Neither sends a verdict.
func Stream(ctx context.Context, cfg Config, send func(*adminv1.AuditResponse) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit, next := limiter{now: time.Now}, cfg.Progress
	var sendErr error
	cfg.Progress = func(source string, rows int64) {
		if next != nil {
			next(source, rows)
		}
		if sendErr != nil || !limit.allow() {
			return
		}
		progress := &adminv1.AuditProgress{Source: source, Rows: rows}
		sendErr = send(&adminv1.AuditResponse{Item: &adminv1.AuditResponse_Progress{Progress: progress}})
		if sendErr != nil {
			cancel(sendErr)
		}
	}
	report, err := Run(ctx, cfg)
	if sendErr != nil {
		return sendErr
	}
	if err != nil {
		return err
	}
	for _, response := range Responses(report) {
		if err := send(response); err != nil {
			return err
		}
	}
	return nil
}

// Responses gives the report's messages: the checks in order, then the verdict.
func Responses(r Report) []*adminv1.AuditResponse {
	responses := make([]*adminv1.AuditResponse, 0, len(r.Checks)+1)
	for _, c := range r.Checks {
		responses = append(responses, &adminv1.AuditResponse{Item: &adminv1.AuditResponse_Check{Check: &adminv1.AuditCheck{
			Number: int32(c.Number), Title: c.Title, Checked: c.Checked,
			Findings: c.Findings, FindingCount: c.FindingCount, Note: c.Note, Information: c.Information,
		}}})
	}
	inTransit := make(map[string]string, len(r.InTransit))
	for currency, sum := range r.InTransit {
		inTransit[string(currency)] = sum.String()
	}
	return append(responses, &adminv1.AuditResponse{Item: &adminv1.AuditResponse_Verdict{Verdict: &adminv1.AuditVerdict{
		Ok: r.OK, Transfers: r.Transfers, Operations: r.Operations, InTransit: inTransit, Pending: r.Pending,
	}}})
}

// limiter lets the first call through, and then one every
// progressMillisecondsMin.
type limiter struct {
	now  func() time.Time
	last time.Time
}

func (l *limiter) allow() bool {
	now := l.now()
	if !l.last.IsZero() && now.Sub(l.last) < progressMillisecondsMin*time.Millisecond {
		return false
	}
	l.last = now
	return true
}
