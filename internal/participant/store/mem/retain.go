package mem

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/retention"
	"giro/internal/stepkey"
)

// KeepFor implements store.Store.
func (s *Store) KeepFor(ctx context.Context, horizon time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	s.retention.Horizon = horizon
	return nil
}

// Retention implements store.Store.
func (s *Store) Retention(ctx context.Context) (retention.Books, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.retention, s.clock(), ctx.Err()
}

// Report implements store.Store.
func (s *Store) Report(ctx context.Context, report retention.Report) (retention.Books, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return retention.Books{}, err
	}
	if _, there := s.reports[report.Orchestrator]; !there && len(s.reports) >= retention.ReportsMax {
		return retention.Books{}, retention.ErrReports
	}
	report.ReportedAt = s.clock()
	s.reports[report.Orchestrator] = report
	s.retention.UnfinishedSince = retention.Unfinished(s.sortedReports())
	return s.retention, nil
}

// Reports implements store.Store.
func (s *Store) Reports(ctx context.Context) ([]retention.Report, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sortedReports(), ctx.Err()
}

func (s *Store) sortedReports() []retention.Report {
	return slices.SortedFunc(maps.Values(s.reports), func(a, b retention.Report) int { return cmp.Compare(a.Orchestrator, b.Orchestrator) })
}

// ForgetReport implements store.Store.
func (s *Store) ForgetReport(ctx context.Context, orchestrator string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	_, there := s.reports[orchestrator]
	delete(s.reports, orchestrator)
	s.retention.UnfinishedSince = retention.Unfinished(s.sortedReports())
	return there, nil
}

// CommitHorizon implements store.Store.
func (s *Store) CommitHorizon(ctx context.Context) (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	before, err := s.retention.Next(s.clock())
	if err == nil {
		s.retention.ArchivedBefore = before
	}
	return before, err
}

// Archive implements store.Store.
func (s *Store) Archive(ctx context.Context, after book.ID, limit int, keep func([]book.Stored) error) (store.Archived, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return store.Archived{}, err
	}
	var page []book.Stored
	for _, id := range s.idsAfter("", after, min(limit, book.ArchiveBatchMax)) {
		page = append(page, s.operations[id])
	}
	batch := store.PickBatch(page, limit, s.retention.ArchivedBefore)
	operations := slices.DeleteFunc(batch.Old, func(o book.Stored) bool {
		_, named := s.operations[o.DebitID()]
		_, released := s.refunds[o.ID()]
		return o.NeedsNamed() && named || o.InSuspense() && !released
	})
	forward, taken := book.BringForward(s.operations, operations)
	if len(taken) == 0 {
		return batch.Archived, nil
	}
	if err := keep(taken); err != nil {
		return store.Archived{}, err
	}
	events := map[stepkey.StepKey]bool{}
	for _, o := range taken {
		delete(s.operations, o.ID())
		if appliedRefund(o) {
			delete(s.refunds, o.DebitID())
		}
		events[stepkey.Event(o.Tenant, o.Key)] = true
	}
	s.events = slices.DeleteFunc(s.events, func(e book.Event) bool { return events[e.ID] })
	for _, o := range forward {
		s.operations[o.ID()] = o
	}
	s.batches++
	batch.Taken = len(taken)
	return batch.Archived, nil
}

// forwarded is the account's brought-forward line.
func (s *Store) forwarded(a book.Account) book.Stored {
	return s.operations[book.ForwardOf(a.AccountID, a.Currency)]
}

// archivedUntil is the instant of the tenant's last archived line; zero: none was.
func (s *Store) archivedUntil(tenant names.Tenant) time.Time {
	var last time.Time
	for id, o := range s.operations {
		if id.Tenant == tenant && o.Kind == book.BroughtForward && o.FirstTime.After(last) {
			last = o.FirstTime
		}
	}
	return last
}
