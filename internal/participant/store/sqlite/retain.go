package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/retention"
	"giro/internal/stepkey"
)

// change runs a transaction under the write lock, as Apply does.
func (s *Store) change(ctx context.Context, run func(ctx context.Context, tx *sql.Tx) error) error {
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return fmt.Errorf("%w: wait for the writer: %w", store.ErrTransient, err)
	}
	defer conn.Close()
	ctx = context.WithoutCancel(ctx)
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", classify(err))
	}
	defer func() { _ = tx.Rollback() }()
	if err := run(ctx, tx); err != nil {
		return classify(err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", classify(err))
	}
	return nil
}

func clock() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// KeepFor implements store.Store.
func (s *Store) KeepFor(ctx context.Context, horizon time.Duration) error {
	if _, err := s.writer.ExecContext(ctx, `update meta set retention_seconds = ? where id = 1`, int64(horizon/time.Second)); err != nil {
		return fmt.Errorf("retention: %w", classify(err))
	}
	return nil
}

// Retention implements store.Store.
func (s *Store) Retention(ctx context.Context) (retention.Books, time.Time, error) {
	now := clock()
	kept, err := scanRetention(s.read.retention.QueryRowContext(ctx))
	if err != nil {
		return kept, now, fmt.Errorf("retention: %w", classify(err))
	}
	return kept, now, nil
}

// Report implements store.Store.
func (s *Store) Report(ctx context.Context, r retention.Report) (retention.Books, error) {
	var after retention.Books
	err := s.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `insert into orchestrators (orchestrator, reported_at, oldest) values (?, ?, ?)
			on conflict (orchestrator) do update set reported_at = excluded.reported_at, oldest = excluded.oldest`,
			r.Orchestrator, clock().UnixMicro(), microsOrNull(r.Oldest))
		if err != nil {
			return err
		}
		if err := setUnfinished(ctx, tx); err != nil {
			return err
		}
		after, err = scanRetention(tx.QueryRowContext(ctx, retentionOf))
		return err
	})
	if err != nil {
		return retention.Books{}, fmt.Errorf("report: %w", err)
	}
	return after, nil
}

// setUnfinished keeps what every operation is judged by in the row that it reads.
func setUnfinished(ctx context.Context, tx *sql.Tx) error {
	reports, err := listReports(ctx, tx)
	if err != nil {
		return err
	}
	if len(reports) > retention.ReportsMax {
		return retention.ErrReports
	}
	_, err = tx.ExecContext(ctx, `update meta set unfinished_since = ? where id = 1`, microsOrNull(retention.Unfinished(reports)))
	return err
}

func microsOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// Reports implements store.Store.
func (s *Store) Reports(ctx context.Context) ([]retention.Report, error) {
	return listReports(ctx, s.readers)
}

// querier is a pool or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func listReports(ctx context.Context, q querier) ([]retention.Report, error) {
	rows, err := q.QueryContext(ctx, `select orchestrator, reported_at, oldest from orchestrators order by orchestrator`)
	return collect(rows, err, func(r row) (retention.Report, error) {
		var one retention.Report
		var reported int64
		var oldest sql.NullInt64
		err := r.Scan(&one.Orchestrator, &reported, &oldest)
		one.ReportedAt, one.Oldest = time.UnixMicro(reported).UTC(), instantOrZero(oldest)
		return one, err
	})
}

// ForgetReport implements store.Store.
func (s *Store) ForgetReport(ctx context.Context, orchestrator string) (bool, error) {
	there := false
	err := s.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, `delete from orchestrators where orchestrator = ?`, orchestrator)
		if err != nil {
			return err
		}
		deleted, err := result.RowsAffected()
		there = deleted > 0
		return errors.Join(err, setUnfinished(ctx, tx))
	})
	return there, err
}

// CommitHorizon implements store.Store.
func (s *Store) CommitHorizon(ctx context.Context) (time.Time, error) {
	var before time.Time
	err := s.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		kept, err := scanRetention(tx.QueryRowContext(ctx, retentionOf))
		if err != nil {
			return err
		}
		if before, err = kept.Next(clock()); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `update meta set archived_before = ? where id = 1`, before.UnixMicro())
		return err
	})
	return before, err
}

// Archive implements store.Store.
func (s *Store) Archive(ctx context.Context, after book.ID, limit int, keep func([]book.Stored) error) (store.Archived, error) {
	limit = min(limit, book.ArchiveBatchMax)
	var batch store.Batch
	err := s.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		kept, err := scanRetention(tx.QueryRowContext(ctx, retentionOf))
		if err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, `select `+operationColumns+` from operations
			where (tenant, key) > (?, ?) order by tenant, key limit ?`, after.Tenant, after.Key[:], limit)
		page, err := collect(rows, err, scanOperation)
		if err != nil {
			return err
		}
		batch = store.PickBatch(page, limit, kept.ArchivedBefore)
		a := archiving{s, tx}
		forward, taken, err := a.settle(ctx, batch.Old)
		if err != nil || len(taken) == 0 {
			return err
		}
		if err := keep(taken); err != nil {
			return err
		}
		batch.Taken = len(taken)
		return a.takeOff(ctx, forward, taken)
	})
	if err != nil {
		return store.Archived{}, fmt.Errorf("archive: %w", err)
	}
	return batch.Archived, nil
}

// archiving is one batch's transaction.
type archiving struct {
	*Store
	tx *sql.Tx
}

// find reads one operation; false if it is not there.
func (a archiving) find(ctx context.Context, statement *sql.Stmt, id book.ID) (book.Stored, bool, error) {
	found, err := scanOperation(a.tx.StmtContext(ctx, statement).QueryRowContext(ctx, id.Tenant, id.Key[:]))
	if errors.Is(err, sql.ErrNoRows) {
		return book.Stored{}, false, nil
	}
	return found, err == nil, err
}

// settle leaves out what is still needed, and gives the lines that stand for the rest.
func (a archiving) settle(ctx context.Context, old []book.Stored) (forward, taken []book.Stored, err error) {
	var free []book.Stored
	for _, o := range old {
		needed, done := false, true
		if o.NeedsNamed() {
			_, needed, err = a.find(ctx, a.write.operation, o.DebitID())
		}
		if o.InSuspense() && err == nil {
			_, done, err = a.find(ctx, a.write.refund, o.ID())
		}
		if err != nil {
			return nil, nil, err
		}
		if !needed && done {
			free = append(free, o)
		}
	}
	lines := map[book.ID]book.Stored{}
	for _, id := range book.ForwardIDs(free) {
		line, there, err := a.find(ctx, a.write.operation, id)
		if err != nil {
			return nil, nil, err
		}
		if there {
			lines[id] = line
		}
	}
	forward, taken = book.BringForward(lines, free)
	return forward, taken, nil
}

// takeOff deletes operations with their events, and writes the lines that stand for
// them.
func (a archiving) takeOff(ctx context.Context, forward, taken []book.Stored) error {
	for _, o := range taken {
		event := stepkey.Event(o.Tenant, o.Key)
		if _, err := a.tx.ExecContext(ctx, `delete from operations where tenant = ? and key = ?`, o.Tenant, o.Key[:]); err != nil {
			return err
		}
		if _, err := a.tx.ExecContext(ctx, `delete from events where created_at = ? and tenant = ? and id = ?`,
			o.FirstTime.UnixMicro(), o.Tenant, event[:]); err != nil {
			return err
		}
	}
	for _, o := range forward {
		if _, err := a.tx.ExecContext(ctx, `delete from operations where tenant = ? and key = ?`, o.Tenant, o.Key[:]); err != nil {
			return err
		}
		if _, err := a.tx.StmtContext(ctx, a.write.addOperation).ExecContext(ctx, operationValues(o)...); err != nil {
			return err
		}
	}
	_, err := a.tx.StmtContext(ctx, a.write.raiseMark).ExecContext(ctx)
	return err
}
