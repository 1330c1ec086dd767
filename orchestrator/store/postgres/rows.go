package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"giro/orchestrator/saga"
	"giro/orchestrator/store/row"
)

// columns are in the order of scan.
const columns = `tenant, key, source, destination, amount, currency, fingerprint, memo, metadata, state, reason,
	refund_to_suspense, debit_applied, cancel_asked, parked, park_reason, attention, attention_reason, steps,
	created_at, expires_at, progress_at, updated_at, due_at, owner, epoch, version`

// running and unparked are word for word the condition of the index sagas_due.
const (
	running  = `state in ('DEBITING', 'CREDITING', 'CANCELLING', 'REFUNDING')`
	unparked = `not parked`
)

// forward is word for word the condition of the index sagas_cancel_asked.
const forward = `state in ('DEBITING', 'CREDITING')`

// scan reads one row of columns.
func scan(from pgx.Row) (saga.Saga, error) {
	var (
		s               saga.Saga
		fingerprint     []byte
		metadata, steps string
		expires         *time.Time
	)
	err := from.Scan(&s.Tenant, &s.ID.Key, &s.Source, &s.Destination, &s.Amount, &s.Currency, &fingerprint, &s.Memo,
		&metadata, &s.State, &s.Reason, &s.RefundToSuspense, &s.DebitApplied, &s.CancelAsked, &s.Parked, &s.ParkReason,
		&s.Attention, &s.AttentionReason, &steps, &s.CreatedAt, &expires, &s.ProgressAt, &s.UpdatedAt, &s.DueAt,
		&s.Owner, &s.Epoch, &s.Version)
	if err != nil {
		return saga.Saga{}, err
	}
	if expires != nil {
		s.ExpiresAt = *expires
	}
	row.Fill(&s, fingerprint, metadata, steps)
	return s, nil
}

// query reads all rows of columns that a statement gives.
func query(ctx context.Context, q querier, sql string, arguments ...any) ([]saga.Saga, error) {
	rows, err := q.Query(ctx, sql, arguments...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (saga.Saga, error) { return scan(r) })
}

func byID(list []saga.Saga) map[saga.ID]saga.Saga {
	found := make(map[saga.ID]saga.Saga, len(list))
	for _, s := range list {
		found[s.ID] = s
	}
	return found
}
