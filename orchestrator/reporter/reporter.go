// Package reporter tells the participants which keys this orchestrator may still ask
// for, so that those which forget old keys keep all that it needs.
package reporter

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"giro/internal/names"
	"giro/internal/retention"
	"giro/internal/stepkey"
	"giro/orchestrator/store"
	participantv1 "giro/proto/giro/participant/v1"
)

const (
	// every is how often each participant is told.
	every = time.Minute
	// timeout bounds one report.
	timeout = 10 * time.Second
	// margin is how long a transfer that was judged young enough may take until its
	// row is seen: far longer than any call lives.
	margin = time.Hour
	// pageSize is how many keys are looked at in one reading.
	pageSize = 1000
)

// Config is what a reporter works with.
type Config struct {
	Store        store.Store
	Participants map[names.Participant]grpc.ClientConnInterface
	// Retention is the edge's: no new key older than its horizon is accepted.
	Retention retention.Settings
	// Now is the database's clock.
	Now    func() time.Time
	Logger *slog.Logger
}

// Reporter reports until it is stopped. Every replica does: the reports of one
// database are the same, whoever sends them.
type Reporter struct {
	config Config
	// told is what was last said in the log of each participant.
	told map[names.Participant]string
}

// New makes a reporter.
func New(config Config) *Reporter {
	return &Reporter{config: config, told: map[names.Participant]string{}}
}

// Run reports at once, and then once a minute, until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		r.report(ctx)
		timer.Reset(every)
	}
}

// report tells every participant, side by side: one that hangs keeps no other from
// hearing.
func (r *Reporter) report(ctx context.Context) {
	request, err := r.Request(ctx)
	if err != nil {
		if ctx.Err() == nil {
			r.config.Logger.Warn("the oldest unfinished transfer could not be read, so participants were not told; they keep what they were told last", "error", err)
		}
		return
	}
	answers := make(map[names.Participant]error, len(r.config.Participants))
	late := map[names.Participant]time.Time{}
	var mu sync.Mutex
	var telling sync.WaitGroup
	for name, connection := range r.config.Participants {
		telling.Go(func() {
			bounded, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			response, err := participantv1.NewRetentionServiceClient(connection).ReportUnfinished(bounded, request)
			mu.Lock()
			defer mu.Unlock()
			answers[name] = err
			if at := response.GetArchivedBefore(); at != nil && request.GetOldestTime() != nil && at.AsTime().After(request.GetOldestTime().AsTime()) {
				late[name] = at.AsTime()
			}
		})
	}
	telling.Wait()
	if ctx.Err() != nil {
		return
	}
	for name, err := range answers {
		r.tell(name, err, late[name], request)
	}
}

// tell logs what changed: not every minute the same.
func (r *Reporter) tell(name names.Participant, err error, late time.Time, request *participantv1.ReportUnfinishedRequest) {
	said := ""
	switch {
	case status.Code(err) == codes.Unimplemented: // it forgets nothing, and need not be told
	case err != nil:
		said = "silent"
	case !late.IsZero():
		said = "late"
	}
	if said == r.told[name] {
		return
	}
	r.told[name] = said
	switch said {
	case "silent":
		r.config.Logger.Warn("a participant could not be told which keys are still needed; it keeps what it was told last",
			"participant", name, "code", status.Code(err).String())
	case "late":
		r.config.Logger.Warn("a participant has archived keys that this orchestrator may still ask for: steps under them are answered EXPIRED, and their transfers park",
			"participant", name, "archived_before", late, "oldest", request.GetOldestTime().AsTime())
	default:
		r.config.Logger.Info("a participant was told again which keys are still needed", "participant", name)
	}
}

// Request is the report as of now. Without a horizon keys of any age are accepted, and
// it tells of none.
func (r *Reporter) Request(ctx context.Context) (*participantv1.ReportUnfinishedRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	identity, err := r.config.Store.Identity(ctx)
	if err != nil {
		return nil, err
	}
	request := &participantv1.ReportUnfinishedRequest{Orchestrator: identity}
	if r.config.Retention.Horizon == 0 {
		return request, nil
	}
	// Read before the table: what is inserted after it is younger than this.
	oldest := r.config.Now().Add(-r.config.Retention.Horizon - margin)
	for after := names.TransferKey(""); ; {
		keys, err := r.config.Store.Unfinished(ctx, after, pageSize)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			// In the order of their text, keys with a time are in the order of their times.
			if at, timed := stepkey.Time(key); timed {
				if at.Before(oldest) {
					oldest = at
				}
				request.OldestTime = timestamppb.New(oldest)
				return request, nil
			}
		}
		if len(keys) < pageSize {
			request.OldestTime = timestamppb.New(oldest)
			return request, nil
		}
		after = keys[len(keys)-1]
	}
}
