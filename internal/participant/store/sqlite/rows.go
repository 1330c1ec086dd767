package sqlite

import (
	"database/sql"
	"fmt"
	"time"

	"giro/internal/participant/book"
	"giro/internal/retention"
	"giro/internal/stepkey"
)

// row is *sql.Row or *sql.Rows.
type row interface{ Scan(...any) error }

func scanOperation(r row) (book.Stored, error) {
	var s book.Stored
	var key, debitKey, firstRefundKey []byte
	var firstTime int64
	if err := r.Scan(&s.Tenant, &key, &s.TransferKey, &s.Step, &s.Kind, &s.Account, &s.Amount, &s.Currency,
		&s.Counterparty, &debitKey, &s.Outcome, &s.Reason, &s.AmountMoved, &s.BalanceAfter, &s.DebitOutcome,
		&firstRefundKey, &s.FirstRefundMoved, &s.ToSuspense, &firstTime,
		&s.Booked, &s.Against, &s.Delta, &s.Seq, &s.Details); err != nil {
		return book.Stored{}, err
	}
	s.FirstTime = time.UnixMicro(firstTime).UTC()
	for _, k := range []struct {
		to   *stepkey.StepKey
		from []byte
	}{{&s.Key, key}, {&s.DebitKey, debitKey}, {&s.FirstRefundKey, firstRefundKey}} {
		if err := scanKey(k.to, k.from); err != nil {
			return book.Stored{}, err
		}
	}
	return s, nil
}

// retentionOf reads what is held about forgetting.
const retentionOf = `select retention_seconds, archived_before, unfinished_since from meta where id = 1`

func scanRetention(r row) (retention.Books, error) {
	var seconds int64
	var archived, unfinished sql.NullInt64
	err := r.Scan(&seconds, &archived, &unfinished)
	return retention.Books{Horizon: time.Duration(seconds) * time.Second,
		ArchivedBefore: instantOrZero(archived), UnfinishedSince: instantOrZero(unfinished)}, err
}

func instantOrZero(micros sql.NullInt64) time.Time {
	if !micros.Valid {
		return time.Time{}
	}
	return time.UnixMicro(micros.Int64).UTC()
}

// scanKey reads a key; NULL is the zero key.
func scanKey(to *stepkey.StepKey, from []byte) error {
	if from == nil {
		return nil
	}
	if len(from) != len(to) {
		return fmt.Errorf("a key of %d bytes", len(from))
	}
	copy(to[:], from)
	return nil
}

// operationValues are in the order of operationColumns.
func operationValues(o book.Stored) []any {
	return []any{o.Tenant, o.Key[:], o.TransferKey, o.Step, o.Kind, o.Account, int64(o.Amount), o.Currency, o.Counterparty,
		keyOrNull(o.DebitKey), o.Outcome, o.Reason, int64(o.AmountMoved), int64(o.BalanceAfter), o.DebitOutcome,
		keyOrNull(o.FirstRefundKey), int64(o.FirstRefundMoved), o.ToSuspense, o.FirstTime.UnixMicro(),
		o.Booked, o.Against, int64(o.Delta), o.Seq, o.Details}
}

func keyOrNull(k stepkey.StepKey) any {
	if k.IsZero() {
		return nil
	}
	return k[:]
}

// accountValues are in the order of accountColumns.
func accountValues(a book.Account) []any {
	return []any{a.Tenant, a.Account, a.Currency, int64(a.Balance), int64(a.Floor), a.State, a.Seq, a.CreatedAt.UnixMicro(),
		a.UpdatedAt.UnixMicro(), int64(a.DebitMax), int64(a.DayMax), a.DayZone, a.SpentOn, int64(a.Spent), a.StateReason, a.Holder, a.Class, a.DayFrom}
}

func scanAccount(r row) (book.Account, error) {
	var a book.Account
	var created, updated int64
	if err := r.Scan(&a.Tenant, &a.Account, &a.Currency, &a.Balance, &a.Floor, &a.State, &a.Seq, &created, &updated,
		&a.DebitMax, &a.DayMax, &a.DayZone, &a.SpentOn, &a.Spent, &a.StateReason, &a.Holder, &a.Class, &a.DayFrom); err != nil {
		return book.Account{}, err
	}
	a.CreatedAt, a.UpdatedAt = time.UnixMicro(created).UTC(), time.UnixMicro(updated).UTC()
	return a, nil
}

// collect scans all rows. It is given what a query returned.
func collect[T any](rows *sql.Rows, err error, scan func(row) (T, error)) ([]T, error) {
	if err != nil {
		return nil, classify(err)
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, classify(err)
		}
		all = append(all, one)
	}
	return all, classify(rows.Err())
}
