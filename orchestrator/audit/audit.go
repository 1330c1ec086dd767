// Package audit checks the invariants of docs/invariants.md between the saga
// table and every participant's books. It shares no deciding code with what it
// judges: it knows a participant by its gRPC service alone, derives step keys
// anew, and judges by the invariants' own words, not by the transition table.
//
// What is read while transfers run is no snapshot, so the order of reading
// matters: first every participant's sums, then the sagas, then the operations,
// then the final events, then again those sagas that something spoke of and that
// were missing or not final yet, and the sums once more.
//
//   - A saga that was final when it was read had all its operations and its event
//     stored by then: it is judged in full, whatever runs meanwhile.
//   - A running saga, and one that became final since, is judged by what holds at
//     any moment: its operations' contents, one APPLIED operation per key, no
//     credit beside a refund. Its money is in transit, which is no fault.
//   - Clearing balances can be compared with the operations only if no operation
//     was stored between the two readings of the sums. Otherwise everything is
//     read again, AttemptsMax times in all; if the books never stood still, the
//     report says "books moved while they were read", and leaves the balances out
//     of check 2. Amounts in transit are then approximate. A participant's own
//     sums come from one snapshot and are always checked.
//   - A transfer older than what one of its participants has archived is not compared
//     with operations that are not listed any more; the report counts them. The lines
//     that were brought forward for them stand in the clearing balances.
//
// Limits: all transfers are joined in memory, about one kilobyte for each. Of
// invariants 6 and 7 one reading shows nothing; the report says so.
package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"giro/internal/names"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
	participantv1 "giro/proto/giro/participant/v1"
)

// AttemptsMax is how often all is read, in the hope that the books stand still.
const AttemptsMax = 3

// pageSize is how many rows are asked for at once.
const pageSize = 1000

// Config says what to audit.
type Config struct {
	Store        store.Store
	Participants map[names.Participant]participantv1.ParticipantServiceClient
	// Tenant empty: all tenants.
	Tenant names.Tenant
	// Progress, if any, is called after each page, on Run's own goroutine, with
	// the rows of that source so far. Source is "sagas", "events" or a
	// participant's name. Where all is read again, it starts again.
	Progress func(source string, rows int64)
}

// Run reads everything and judges it. An error means that something could not be
// read, and names it; what breaks an invariant is in the report.
func Run(ctx context.Context, cfg Config) (Report, error) {
	r := reader{Config: cfg, participants: slices.Sorted(maps.Keys(cfg.Participants))}
	for attempt := 1; ; attempt++ {
		books, err := r.read(ctx)
		if err != nil {
			return Report{}, fmt.Errorf("audit: %w", err)
		}
		if !books.Moved() || attempt == AttemptsMax {
			return books.Report(), nil
		}
	}
}

type reader struct {
	Config
	participants []names.Participant
}

func (r reader) read(ctx context.Context) (*Books, error) {
	b := NewBooks(r.participants)
	described, err := r.describe(ctx)
	if err != nil {
		return nil, err
	}
	before, err := r.sums(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.sagas(ctx, b); err != nil {
		return nil, fmt.Errorf("the saga table could not be read: %w", err)
	}
	for _, p := range r.participants {
		if err := r.operations(ctx, b, p); err != nil {
			return nil, unreadable(p, err)
		}
	}
	if err := r.events(ctx, b); err != nil {
		return nil, fmt.Errorf("the final events could not be read: %w", err)
	}
	if err := r.lookUp(ctx, b); err != nil {
		return nil, fmt.Errorf("the saga table could not be read: %w", err)
	}
	after, err := r.sums(ctx)
	if err != nil {
		return nil, err
	}
	describedAgain, err := r.describe(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range r.participants {
		b.AddSums(p, before[p], after[p])
		b.AddDescriptions(p, described[p], describedAgain[p])
	}
	return b, nil
}

// describe asks each participant for its mark and for what it has archived. One that
// cannot tell has archived nothing.
func (r reader) describe(ctx context.Context) (map[names.Participant]*participantv1.DescribeResponse, error) {
	described := make(map[names.Participant]*participantv1.DescribeResponse, len(r.participants))
	for _, p := range r.participants {
		d, err := r.Participants[p].Describe(ctx, &participantv1.DescribeRequest{})
		if err != nil && status.Code(err) != codes.Unimplemented {
			return nil, unreadable(p, err)
		}
		described[p] = d
	}
	return described, nil
}

// UnreadableError says that a participant's books could not be read, so that
// nothing can be said of the whole.
type UnreadableError struct {
	Participant names.Participant
	cause       error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("participant %s could not be read: %v", e.Participant, e.cause)
}

// Unwrap is what stopped the reading.
func (e *UnreadableError) Unwrap() error { return e.cause }

func unreadable(p names.Participant, err error) error {
	return &UnreadableError{Participant: p, cause: err}
}

func (r reader) sums(ctx context.Context) (map[names.Participant]*participantv1.SumsResponse, error) {
	sums := make(map[names.Participant]*participantv1.SumsResponse, len(r.participants))
	for _, p := range r.participants {
		s, err := r.Participants[p].Sums(ctx, &participantv1.SumsRequest{Tenant: string(r.Tenant)})
		if err != nil {
			return nil, unreadable(p, err)
		}
		sums[p] = s
	}
	return sums, nil
}

func (r reader) sagas(ctx context.Context, b *Books) error {
	var after saga.ID
	for rows := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		page, err := r.Store.List(ctx, r.Tenant, after, pageSize)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		for _, s := range page {
			b.AddSaga(s, false)
		}
		rows, after = rows+int64(len(page)), page[len(page)-1].ID
		r.progress("sagas", rows)
	}
}

func (r reader) operations(ctx context.Context, b *Books, p names.Participant) error {
	request := &participantv1.ListOperationsRequest{Tenant: string(r.Tenant), PageSize: pageSize}
	for rows := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		page, err := r.Participants[p].ListOperations(ctx, request)
		if err != nil {
			return err
		}
		for _, o := range page.GetOperations() {
			b.AddOperation(p, o)
		}
		rows += int64(len(page.GetOperations()))
		r.progress(string(p), rows)
		next := page.GetNextPageToken()
		if next == "" {
			return nil
		}
		if next == request.GetPageToken() {
			return errors.New("its list of operations does not go on: a page names itself as the next")
		}
		request.PageToken = next
	}
}

func (r reader) events(ctx context.Context, b *Books) error {
	var after store.EventPlace
	for rows := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		page, err := r.Store.FinalEvents(ctx, r.Tenant, after, pageSize)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		for _, e := range page {
			b.AddEvent(e)
		}
		rows, after = rows+int64(len(page)), page[len(page)-1].EventPlace
		r.progress("events", rows)
	}
}

// lookUp asks again for the sagas that something spoke of and that were missing
// or still running.
func (r reader) lookUp(ctx context.Context, b *Books) error {
	for _, id := range b.Unexplained() {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, err := r.Store.Lookup(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return err
		default:
			b.AddSaga(s, true)
		}
	}
	return nil
}

func (r reader) progress(source string, rows int64) {
	if r.Progress != nil {
		r.Progress(source, rows)
	}
}
