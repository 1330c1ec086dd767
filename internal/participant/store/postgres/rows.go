package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"giro/internal/participant/book"
	"giro/internal/retention"
	"giro/internal/stepkey"
)

// uuid is a key as the driver takes it; the zero key is NULL.
func uuid(k stepkey.StepKey) pgtype.UUID { return pgtype.UUID{Bytes: k, Valid: !k.IsZero()} }

// place is a key to compare with: here the zero key is the lowest UUID.
func place(k stepkey.StepKey) pgtype.UUID { return pgtype.UUID{Bytes: k, Valid: true} }

func scanOperation(row pgx.CollectableRow) (book.Stored, error) {
	var s book.Stored
	var key, debitKey, firstRefundKey pgtype.UUID
	err := row.Scan(&s.Tenant, &key, &s.TransferKey, &s.Step, &s.Kind, &s.Account, &s.Amount, &s.Currency,
		&s.Counterparty, &debitKey, &s.Outcome, &s.Reason, &s.AmountMoved, &s.BalanceAfter, &s.DebitOutcome,
		&firstRefundKey, &s.FirstRefundMoved, &s.ToSuspense, &s.FirstTime, &s.Booked, &s.Against, &s.Delta, &s.Seq, &s.Details)
	// The driver leaves the bytes of NULL at zero.
	s.Key, s.DebitKey, s.FirstRefundKey = key.Bytes, debitKey.Bytes, firstRefundKey.Bytes
	s.FirstTime = s.FirstTime.UTC()
	return s, err
}

// scanRetention reads the clock and what is held about forgetting.
func scanRetention(row pgx.Row) (time.Time, retention.Books, error) {
	var now time.Time
	var seconds int64
	var archived, unfinished pgtype.Timestamptz
	err := row.Scan(&now, &seconds, &archived, &unfinished)
	// The driver leaves the time of NULL at zero.
	return now.UTC(), retention.Books{Horizon: time.Duration(seconds) * time.Second,
		ArchivedBefore: archived.Time.UTC(), UnfinishedSince: unfinished.Time.UTC()}, err
}

func scanAccount(row pgx.CollectableRow) (book.Account, error) {
	var a book.Account
	err := row.Scan(&a.Tenant, &a.AccountID.Account, &a.Currency, &a.Balance, &a.Floor, &a.State, &a.Seq, &a.CreatedAt, &a.UpdatedAt,
		&a.DebitMax, &a.DayMax, &a.DayZone, &a.SpentOn, &a.Spent, &a.StateReason, &a.Holder, &a.Class, &a.DayFrom)
	a.CreatedAt, a.UpdatedAt = a.CreatedAt.UTC(), a.UpdatedAt.UTC()
	return a, err
}

// column gives one column of many rows as an array.
func column[R, C any](rows []R, of func(R) C) []C {
	values := make([]C, len(rows))
	for i, r := range rows {
		values[i] = of(r)
	}
	return values
}

func idColumns(ids []book.ID) (tenants []string, keys []pgtype.UUID) {
	return column(ids, func(id book.ID) string { return string(id.Tenant) }),
		column(ids, func(id book.ID) pgtype.UUID { return uuid(id.Key) })
}

// operationValues are in the order of operationColumns.
func operationValues(rows []book.Stored) []any {
	type o = book.Stored
	return []any{
		column(rows, func(r o) string { return string(r.Tenant) }),
		column(rows, func(r o) pgtype.UUID { return uuid(r.Key) }),
		column(rows, func(r o) string { return string(r.TransferKey) }),
		column(rows, func(r o) string { return r.Step }),
		column(rows, func(r o) int16 { return int16(r.Kind) }),
		column(rows, func(r o) string { return string(r.Account) }),
		column(rows, func(r o) int64 { return int64(r.Amount) }),
		column(rows, func(r o) string { return string(r.Currency) }),
		column(rows, func(r o) string { return string(r.Counterparty) }),
		column(rows, func(r o) pgtype.UUID { return uuid(r.DebitKey) }),
		column(rows, func(r o) int16 { return int16(r.Outcome) }),
		column(rows, func(r o) int16 { return int16(r.Reason) }),
		column(rows, func(r o) int64 { return int64(r.AmountMoved) }),
		column(rows, func(r o) int64 { return int64(r.BalanceAfter) }),
		column(rows, func(r o) int16 { return int16(r.DebitOutcome) }),
		column(rows, func(r o) pgtype.UUID { return uuid(r.FirstRefundKey) }),
		column(rows, func(r o) int64 { return int64(r.FirstRefundMoved) }),
		column(rows, func(r o) bool { return r.ToSuspense }),
		column(rows, func(r o) time.Time { return r.FirstTime }),
		column(rows, func(r o) string { return string(r.Booked) }),
		column(rows, func(r o) string { return string(r.Against) }),
		column(rows, func(r o) int64 { return int64(r.Delta) }),
		column(rows, func(r o) int64 { return r.Seq }),
	}
}

// detailedValues are in the order of detailedColumns.
func detailedValues(rows []book.Stored) []any {
	return append(operationValues(rows), column(rows, func(r book.Stored) string { return r.Details }))
}

func eventColumns(rows []book.Event) []any {
	return []any{
		column(rows, func(r book.Event) time.Time { return r.Time }),
		column(rows, func(r book.Event) string { return string(r.Tenant) }),
		column(rows, func(r book.Event) pgtype.UUID { return uuid(r.ID) }),
		column(rows, func(r book.Event) string { return r.Type }),
		column(rows, func(r book.Event) pgtype.UUID { return uuid(r.Key) }),
	}
}

// accountValues are in the order of accountColumns.
func accountValues(rows []book.Account) []any {
	type a = book.Account
	return []any{
		column(rows, func(r a) string { return string(r.Tenant) }),
		column(rows, func(r a) string { return string(r.Account) }),
		column(rows, func(r a) string { return string(r.Currency) }),
		column(rows, func(r a) int64 { return int64(r.Balance) }),
		column(rows, func(r a) int64 { return int64(r.Floor) }),
		column(rows, func(r a) int16 { return int16(r.State) }),
		column(rows, func(r a) int64 { return r.Seq }),
		column(rows, func(r a) time.Time { return r.CreatedAt }),
		column(rows, func(r a) time.Time { return r.UpdatedAt }),
		column(rows, func(r a) int64 { return int64(r.DebitMax) }),
		column(rows, func(r a) int64 { return int64(r.DayMax) }),
		column(rows, func(r a) string { return r.DayZone }),
		column(rows, func(r a) int64 { return r.SpentOn }),
		column(rows, func(r a) int64 { return int64(r.Spent) }),
		column(rows, func(r a) string { return r.StateReason }),
		column(rows, func(r a) string { return r.Holder }),
		column(rows, func(r a) int16 { return int16(r.Class) }),
		column(rows, func(r a) int64 { return r.DayFrom }),
	}
}

func changeColumns(rows []book.Account) []any {
	return []any{
		column(rows, func(r book.Account) string { return string(r.Tenant) }),
		column(rows, func(r book.Account) string { return string(r.Account) }),
		column(rows, func(r book.Account) int64 { return int64(r.Balance) }),
		column(rows, func(r book.Account) int64 { return r.Seq }),
		column(rows, func(r book.Account) time.Time { return r.UpdatedAt }),
	}
}
