package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"giro/internal/participant/archive"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/retention"
)

// ArchiveSettings are what an archiving run needs.
type ArchiveSettings struct {
	DatabaseURL string
	// Out is the file that is appended to; empty: no copy is kept.
	Out string
	// DryRun changes nothing.
	DryRun bool
	// Progress, if set, is called after every batch.
	Progress func(Archived)
}

// Archived is what an archiving run did so far.
type Archived = archive.Report

// Archive takes what is older than the horizon off a participant's books. Which
// service's they are makes no difference. An error says what stopped it; what Archived
// counts is done.
func Archive(ctx context.Context, s ArchiveSettings) (done Archived, err error) {
	config := archive.Config{DryRun: s.DryRun, Progress: s.Progress, Keep: func([]book.Stored) error { return nil }}
	if s.Out != "" && !s.DryRun {
		file, err := archive.OpenFile(s.Out)
		if err != nil {
			return done, fmt.Errorf("the archive file: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		config.Keep = file.Keep
	}
	err = withBooks(ctx, s.DatabaseURL, func(books store.Store) error {
		config.Store = books
		done, err = archive.Run(ctx, config)
		return err
	})
	return done, err
}

// Why nothing can be archived.
var (
	ErrNoHorizon  = retention.ErrNoHorizon
	ErrUnreported = retention.ErrUnreported
)

// withBooks opens a participant's books for one command.
func withBooks(ctx context.Context, databaseURL string, do func(store.Store) error) error {
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	books, err := openBooks(starting, databaseURL)
	if err != nil {
		return err
	}
	return errors.Join(do(books), books.Close())
}

// Kept is what a participant's books hold about forgetting.
type Kept struct {
	// Horizon is the age at which an unknown key is EXPIRED; zero: none is set.
	Horizon time.Duration
	// ArchivedBefore: operations under older keys may be gone; zero: none ever was.
	ArchivedBefore time.Time
	// Next is the horizon that the next run would commit; zero where Blocked says why
	// there is none.
	Next    time.Time
	Blocked error
	Reports []Report
}

// Report is the last report of one orchestrator's database.
type Report = retention.Report

// Retention tells what a participant's books hold about forgetting.
func Retention(ctx context.Context, databaseURL string) (Kept, error) {
	var kept Kept
	err := withBooks(ctx, databaseURL, func(books store.Store) error {
		held, now, err := books.Retention(ctx)
		if err != nil {
			return err
		}
		kept.Horizon, kept.ArchivedBefore = held.Horizon, held.ArchivedBefore
		kept.Next, kept.Blocked = held.Next(now)
		kept.Reports, err = books.Reports(ctx)
		return err
	})
	return kept, err
}

// ForgetReport ends that an orchestrator's last report counts, and says whether there
// was one.
func ForgetReport(ctx context.Context, databaseURL, orchestrator string) (there bool, err error) {
	err = withBooks(ctx, databaseURL, func(books store.Store) error {
		return again(ctx, func() error {
			there, err = books.ForgetReport(ctx, orchestrator)
			return err
		})
	})
	return there, err
}
