package sqlite

import (
	"database/sql"
	"fmt"
	"time"

	"giro/orchestrator/saga"
	"giro/orchestrator/store/row"
)

// columns are in the order of scan and of values.
const columns = `tenant, key, source, destination, amount, currency, fingerprint, memo, metadata, state, reason,
	refund_to_suspense, debit_applied, cancel_asked, parked, park_reason, attention, attention_reason, steps,
	created_at, expires_at, progress_at, updated_at, due_at, owner, epoch, version`

// running is the word for word condition of the index sagas_due.
const running = `state in ('DEBITING', 'CREDITING', 'CANCELLING', 'REFUNDING')`

// forward is word for word the condition of the index sagas_cancel_asked.
const forward = `state in ('DEBITING', 'CREDITING')`

func values(s saga.Saga) ([]any, error) {
	metadata, steps, err := row.Texts(s)
	if err != nil {
		return nil, err
	}
	return []any{string(s.Tenant), string(s.ID.Key), string(s.Source), string(s.Destination), int64(s.Amount),
		string(s.Currency), s.Fingerprint[:], s.Memo, metadata, string(s.State), s.Reason,
		s.RefundToSuspense, s.DebitApplied, s.CancelAsked, s.Parked, s.ParkReason, s.Attention, s.AttentionReason, steps,
		s.CreatedAt.UnixMicro(), expiry(s.ExpiresAt), s.ProgressAt.UnixMicro(), s.UpdatedAt.UnixMicro(), s.DueAt.UnixMicro(),
		s.Owner, s.Epoch, s.Version}, nil
}

func expiry(at time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: at.UnixMicro(), Valid: !at.IsZero()}
}

func instant(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// scan reads one row of columns.
func scan(from interface{ Scan(...any) error }) (saga.Saga, error) {
	var (
		s                                 saga.Saga
		fingerprint                       []byte
		metadata, steps                   string
		created, progress, updated, dueAt int64
		expires                           sql.NullInt64
	)
	err := from.Scan(&s.Tenant, &s.ID.Key, &s.Source, &s.Destination, &s.Amount, &s.Currency, &fingerprint, &s.Memo,
		&metadata, &s.State, &s.Reason, &s.RefundToSuspense, &s.DebitApplied, &s.CancelAsked, &s.Parked, &s.ParkReason,
		&s.Attention, &s.AttentionReason, &steps, &created, &expires, &progress, &updated, &dueAt,
		&s.Owner, &s.Epoch, &s.Version)
	if err != nil {
		return saga.Saga{}, err
	}
	s.CreatedAt, s.ProgressAt, s.UpdatedAt, s.DueAt = instant(created), instant(progress), instant(updated), instant(dueAt)
	if expires.Valid {
		s.ExpiresAt = instant(expires.Int64)
	}
	row.Fill(&s, fingerprint, metadata, steps)
	return s, nil
}

func scanAll(rows *sql.Rows) ([]saga.Saga, error) {
	defer func() { _ = rows.Close() }()
	var list []saga.Saga
	for rows.Next() {
		s, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("sqlite: %w", err)
		}
		list = append(list, s)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	return list, nil
}
