package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/pgpool"
	"giro/internal/retention"
	"giro/internal/stepkey"
)

// KeepFor implements store.Store.
func (s *Store) KeepFor(ctx context.Context, horizon time.Duration) error {
	return s.change(ctx, func(ctx context.Context, c *pgpool.Conn, held held) error {
		if held.Horizon == horizon {
			return nil
		}
		_, err := c.Exec(ctx, keepFor, int64(horizon/time.Second))
		return err
	})
}

// held is what the books hold about forgetting, with the database's clock.
type held struct {
	retention.Books
	now time.Time
}

func scanHeld(row pgx.CollectableRow) (h held, err error) {
	h.now, h.Books, err = scanRetention(row)
	return h, err
}

func oneHeld(found []held, err error) (held, error) {
	if err == nil && len(found) != 1 {
		err = errors.New("the books have no row of their own")
	}
	if err != nil {
		return held{}, fmt.Errorf("retention: %w", err)
	}
	return found[0], nil
}

// change runs a transaction over what the books hold about forgetting: one after the
// other.
func (s *Store) change(ctx context.Context, run func(ctx context.Context, c *pgpool.Conn, held held) error) error {
	err := s.hot.With(ctx, transactionSecondsMax*time.Second, func(ctx context.Context, c *pgpool.Conn) error {
		if err := c.Begin(ctx); err != nil {
			return err
		}
		held, err := oneHeld(collect(ctx, c, scanHeld, lockMeta))
		if err == nil {
			err = run(ctx, c, held)
		}
		if err != nil {
			return err
		}
		return c.Commit()
	})
	return classify(err)
}

// Retention implements store.Store.
func (s *Store) Retention(ctx context.Context) (retention.Books, time.Time, error) {
	h, err := oneHeld(query(ctx, s, scanHeld, loadNow))
	return h.Books, h.now, err
}

// Report implements store.Store.
func (s *Store) Report(ctx context.Context, r retention.Report) (retention.Books, error) {
	var after retention.Books
	err := s.change(ctx, func(ctx context.Context, c *pgpool.Conn, held held) error {
		if _, err := c.Exec(ctx, report, r.Orchestrator, timeOrNull(r.Oldest)); err != nil {
			return err
		}
		var err error
		after = held.Books
		after.UnfinishedSince, err = setUnfinishedSince(ctx, c)
		return err
	})
	return after, err
}

// setUnfinishedSince keeps what every operation is judged by in the row that it reads.
func setUnfinishedSince(ctx context.Context, c *pgpool.Conn) (time.Time, error) {
	reports, err := collect(ctx, c, scanReport, listReports)
	if err != nil {
		return time.Time{}, err
	}
	if len(reports) > retention.ReportsMax {
		return time.Time{}, retention.ErrReports
	}
	oldest := retention.Unfinished(reports)
	_, err = c.Exec(ctx, setUnfinished, timeOrNull(oldest))
	return oldest, err
}

// Reports implements store.Store.
func (s *Store) Reports(ctx context.Context) ([]retention.Report, error) {
	return query(ctx, s, scanReport, listReports)
}

func scanReport(row pgx.CollectableRow) (retention.Report, error) {
	var r retention.Report
	var oldest pgtype.Timestamptz
	err := row.Scan(&r.Orchestrator, &r.ReportedAt, &oldest)
	r.ReportedAt, r.Oldest = r.ReportedAt.UTC(), oldest.Time.UTC()
	return r, err
}

func timeOrNull(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}

// ForgetReport implements store.Store.
func (s *Store) ForgetReport(ctx context.Context, orchestrator string) (bool, error) {
	there := false
	err := s.change(ctx, func(ctx context.Context, c *pgpool.Conn, _ held) error {
		tag, err := c.Exec(ctx, forgetReport, orchestrator)
		if err != nil {
			return err
		}
		there = tag.RowsAffected() > 0
		_, err = setUnfinishedSince(ctx, c)
		return err
	})
	return there, err
}

// CommitHorizon implements store.Store.
func (s *Store) CommitHorizon(ctx context.Context) (time.Time, error) {
	var before time.Time
	err := s.change(ctx, func(ctx context.Context, c *pgpool.Conn, held held) (err error) {
		if before, err = held.Next(held.now); err != nil {
			return err
		}
		_, err = c.Exec(ctx, commitHorizon, before)
		return err
	})
	return before, err
}

// Archive implements store.Store. The page is read outside the transaction: what it
// holds never changes, but for the brought-forward lines, which are left alone.
func (s *Store) Archive(ctx context.Context, after book.ID, limit int, keep func([]book.Stored) error) (store.Archived, error) {
	limit = min(limit, book.ArchiveBatchMax)
	page, err := query(ctx, s, scanOperation, listOperations, string(after.Tenant), place(after.Key), int64(max(0, limit)))
	if err != nil {
		return store.Archived{}, fmt.Errorf("archive: %w", err)
	}
	kept, _, err := s.Retention(ctx)
	if err != nil {
		return store.Archived{}, err
	}
	batch := store.PickBatch(page, limit, kept.ArchivedBefore)
	if len(batch.Old) == 0 {
		return batch.Archived, nil
	}
	var failed error
	err = s.change(ctx, func(ctx context.Context, c *pgpool.Conn, _ held) error {
		forward, taken, err := settle(ctx, c, batch.Old)
		if err != nil || len(taken) == 0 {
			return err
		}
		if failed = keep(taken); failed != nil {
			return failed
		}
		batch.Taken = len(taken)
		return takeOff(ctx, c, forward, taken)
	})
	if failed != nil {
		err = failed // not the database's
	}
	if err != nil {
		return store.Archived{}, fmt.Errorf("archive: %w", err)
	}
	return batch.Archived, nil
}

// settle leaves out what is still needed, or was taken off the books meanwhile, and
// gives the lines that stand for the rest.
func settle(ctx context.Context, c *pgpool.Conn, old []book.Stored) (forward, taken []book.Stored, err error) {
	var own, named, suspended []book.ID
	for _, o := range old {
		own = append(own, o.ID())
		if o.NeedsNamed() {
			named = append(named, o.DebitID())
		}
		if o.InSuspense() {
			suspended = append(suspended, o.ID())
		}
	}
	there, err := byID(ctx, c, loadOperations, append(own, named...), book.Stored.ID)
	if err != nil {
		return nil, nil, err
	}
	released, err := byID(ctx, c, loadRefunds, suspended, book.Stored.DebitID)
	if err != nil {
		return nil, nil, err
	}
	var free []book.Stored
	for _, o := range old {
		_, still := there[o.ID()]
		_, needed := there[o.DebitID()]
		_, done := released[o.ID()]
		if still && !(o.NeedsNamed() && needed) && (!o.InSuspense() || done) {
			free = append(free, o)
		}
	}
	lines, err := byID(ctx, c, loadOperations, book.ForwardIDs(free), book.Stored.ID)
	if err != nil {
		return nil, nil, err
	}
	forward, taken = book.BringForward(lines, free)
	return forward, taken, nil
}

func byID(ctx context.Context, c *pgpool.Conn, l loading, ids []book.ID, id func(book.Stored) book.ID) (map[book.ID]book.Stored, error) {
	found := map[book.ID]book.Stored{}
	if len(ids) == 0 {
		return found, nil
	}
	tenants, keys := operationIDs(ids)
	statement, arguments := by(l, tenants, keys)
	rows, err := collect(ctx, c, scanOperation, statement, arguments...)
	for _, o := range rows {
		found[id(o)] = o
	}
	return found, err
}

// takeOff deletes operations with their events, and writes the lines that stand for
// them.
func takeOff(ctx context.Context, c *pgpool.Conn, forward, taken []book.Stored) error {
	tenants, keys := operationIDs(array(taken, book.Stored.ID))
	tag, err := c.Exec(ctx, deleteOperations, tenants, keys)
	if err != nil {
		return err
	}
	if tag.RowsAffected() != int64(len(taken)) {
		return fmt.Errorf("%d of %d operations were deleted: nothing is archived", tag.RowsAffected(), len(taken))
	}
	batch := &pgx.Batch{}
	batch.Queue(deleteEvents,
		array(taken, func(o book.Stored) time.Time { return o.FirstTime }),
		tenants,
		array(taken, func(o book.Stored) pgtype.UUID { return uuid(stepkey.Event(o.Tenant, o.Key)) }))
	if len(forward) > 0 {
		batch.Queue(bringForward, addDetailed.ofMany(forward)...)
	}
	batch.Queue(raiseMark, rand.IntN(markSlots))
	return c.SendBatch(ctx, batch).Close()
}

// forwarded reads an account's brought-forward line; the zero value if it has none.
func forwarded(ctx context.Context, q querier, a book.Account) (book.Stored, error) {
	id := book.ForwardOf(a.AccountID, a.Currency)
	found, err := collect(ctx, q, scanOperation, lookupOperation, string(id.Tenant), place(id.Key))
	if err != nil || len(found) == 0 {
		return book.Stored{}, err
	}
	return found[0], nil
}
