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

func operationIDs(ids []book.ID) (tenants []string, keys []pgtype.UUID) {
	return array(ids, func(id book.ID) string { return string(id.Tenant) }),
		array(ids, func(id book.ID) pgtype.UUID { return uuid(id.Key) })
}

func accountIDs(ids []book.AccountID) (tenants, accounts []string) {
	return array(ids, func(id book.AccountID) string { return string(id.Tenant) }),
		array(ids, func(id book.AccountID) string { return string(id.Account) })
}
