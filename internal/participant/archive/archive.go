// Package archive takes operations that are older than the retention horizon off a
// participant's books, in small transactions beside its work, and keeps a copy of
// each in a file.
package archive

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"giro/internal/participant/book"
	"giro/internal/participant/store"
)

// Config is what a run works with.
type Config struct {
	Store store.Store
	// Keep is handed what is about to be deleted. When it returns, the copy must be
	// durable; when it fails, nothing of it is deleted.
	Keep func([]book.Stored) error
	// DryRun changes nothing, and commits no horizon: it counts what is old enough,
	// some of which may still be needed.
	DryRun bool
	// Progress, if set, is called after every batch.
	Progress func(Report)
}

// Report is what a run did.
type Report struct {
	// Before is the horizon: keys older than it are EXPIRED.
	Before time.Time
	// Seen counts the operations that were looked at; Archived those that were taken off
	// the books, or in a dry run would be at most.
	Seen, Archived int64
	// Batches counts the transactions that took any.
	Batches int64
}

// Run goes through the books once. It may be stopped anywhere, by whatever means, and
// run again, also beside itself: every batch is one transaction. What the store could
// not do for a while is tried again until ctx ends. An error says why it stopped; what
// the report counts is done.
func Run(ctx context.Context, config Config) (Report, error) {
	var report Report
	var err error
	if report.Before, err = horizon(ctx, config); err != nil {
		return report, err
	}
	for after := (book.ID{}); ; {
		var batch store.Archived
		err := again(ctx, func() (err error) {
			batch, err = one(ctx, config, after, report.Before)
			return err
		})
		if err != nil {
			return report, err
		}
		report.Seen += int64(batch.Seen)
		report.Archived += int64(batch.Taken)
		if batch.Taken > 0 {
			report.Batches++
		}
		if config.Progress != nil {
			config.Progress(report)
		}
		if after = batch.Next; after == (book.ID{}) {
			return report, nil
		}
	}
}

// horizon commits the horizon, before anything is deleted.
func horizon(ctx context.Context, config Config) (before time.Time, err error) {
	err = again(ctx, func() error {
		if !config.DryRun {
			before, err = config.Store.CommitHorizon(ctx)
			return err
		}
		kept, now, err := config.Store.Retention(ctx)
		if err == nil {
			before, err = kept.Next(now)
		}
		return err
	})
	return before, err
}

func one(ctx context.Context, config Config, after book.ID, before time.Time) (store.Archived, error) {
	if !config.DryRun {
		return config.Store.Archive(ctx, after, book.ArchiveBatchMax, config.Keep)
	}
	listed, err := config.Store.Operations(ctx, "", after, book.ArchiveBatchMax)
	if err != nil {
		return store.Archived{}, err
	}
	page := make([]book.Stored, len(listed))
	for i, l := range listed {
		page[i] = l.Stored
	}
	batch := store.PickBatch(page, book.ArchiveBatchMax, before)
	batch.Taken = len(batch.Old)
	return batch.Archived, nil
}

// again does what the store asks to be done again.
func again(ctx context.Context, do func() error) error {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := do()
		if !errors.Is(err, store.ErrTransient) {
			return errors.Join(err, ctx.Err())
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(rand.N(pause) + time.Millisecond):
		}
	}
}
