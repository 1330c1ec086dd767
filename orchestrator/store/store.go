// Package store is what the orchestrator asks of a database: sagas inserted once,
// written by compare-and-set, and claimed by one owner at a time. Three
// implementations run one suite. Any error means that it is not known whether the
// call was carried out; each call may be made again.
package store

import (
	"context"
	"errors"
	"time"

	"giro/internal/names"
	"giro/internal/stepkey"
	"giro/orchestrator/saga"
)

// ErrNotFound is returned where a saga does not exist.
var ErrNotFound = errors.New("store: not found")

// Store keeps the saga table. All methods are safe for concurrent use. Every
// instant that it sets or compares is the database's clock.
type Store interface {
	// Insert stores new sagas in one transaction, each keyed by (tenant, key),
	// and gives for each, in order, the saga as it then stands: the new one, or
	// the one that was there. A key that stands twice in a batch is created by
	// the first. It sets CreatedAt, ProgressAt, UpdatedAt and DueAt to now,
	// ExpiresAt to now plus Expiry (if any), Version and Epoch to 1, and Owner.
	Insert(ctx context.Context, owner string, sagas []New) ([]Inserted, error)

	// Lookup loads one saga, or ErrNotFound, from where writes are durable.
	Lookup(ctx context.Context, id saga.ID) (saga.Saga, error)

	// Save writes sagas in one transaction, each by compare-and-set on version,
	// epoch and creation time: it raises Version and sets UpdatedAt. A final state gets its event
	// row in the same transaction. An item that lost does not fail the others.
	Save(ctx context.Context, writes []Write) ([]Saved, error)

	// AskCancel sets CancelAsked on a running saga, whoever owns it, raising its
	// version, and gives the saga as it then stands, or ErrNotFound. A final one
	// is returned as it is, and so is one that was asked before.
	AskCancel(ctx context.Context, id saga.ID) (saga.Saga, error)

	// Claim takes up to limit running, unparked sagas that are due (DueAt <= now),
	// oldest due first, and that nobody carries out: their owner's lease has
	// ended or was never taken, or their owner is the claimer itself and they have
	// been due for longer than strayAfter (an insert or a claim whose answer was
	// lost). It sets Owner and raises Epoch and Version.
	Claim(ctx context.Context, owner string, limit int, strayAfter time.Duration) ([]saga.Saga, error)

	// CancelsAsked gives up to limit of the owner's unparked sagas that go forward
	// although they were asked to stop: another replica took the cancel.
	CancelsAsked(ctx context.Context, owner string, limit int) ([]saga.Saga, error)

	// Renew extends the owner's lease, taking it if it was never taken, and gives
	// the database's clock. It forgets leases that ended a day ago.
	Renew(ctx context.Context, owner string, lease time.Duration) (time.Time, error)

	// Release ends the owner's lease at once.
	Release(ctx context.Context, owner string) error

	// List gives sagas ordered by tenant and key, after the given one (zero: from
	// the start). Tenant empty: all tenants.
	List(ctx context.Context, tenant names.Tenant, after saga.ID, limit int) ([]saga.Saga, error)

	// Unfinished lists the keys of sagas that are not final, parked ones among them, of
	// all tenants, in order, after the given one.
	Unfinished(ctx context.Context, after names.TransferKey, limit int) ([]names.TransferKey, error)

	// Identity is a UUID of the database's own: one that was created anew has another.
	Identity(ctx context.Context) (string, error)

	// FinalEvents lists the events of final states, ordered by tenant and id.
	FinalEvents(ctx context.Context, tenant names.Tenant, after EventPlace, limit int) ([]FinalEvent, error)

	Close() error
}

// New is a saga to insert.
type New struct {
	saga.Saga
	// Expiry is counted from the first acceptance; zero: never.
	Expiry time.Duration
}

// Inserted is what became of an insert.
type Inserted struct {
	Saga saga.Saga
	// Created: it was not there before.
	Created bool
}

// Write replaces a saga whose row is still at FromVersion and FromEpoch, and is
// the one that was created at FromCreatedAt. Of
// Saga, the columns that never change (contents, memo, metadata, CreatedAt,
// ExpiresAt) are not written, nor are CancelAsked, Owner and Epoch.
type Write struct {
	Saga        saga.Saga
	FromVersion int64
	FromEpoch   int64
	// FromCreatedAt tells a row from one that was created anew, under the same key
	// and with the same first numbers, after the table was emptied.
	FromCreatedAt time.Time
}

// Saved is what became of a write.
type Saved struct {
	// OK: it was written; Saga has its new Version and UpdatedAt.
	OK bool
	// Saga is the row as it stands. When not OK, somebody else wrote it: another
	// owner (its Epoch differs) or a cancel (its Version differs).
	Saga saga.Saga
}

// EventPlace is a place in the list of events.
type EventPlace struct {
	Tenant names.Tenant
	ID     stepkey.StepKey
}

// FinalEvent announces one final state; its id is stepkey.FinalEvent.
type FinalEvent struct {
	EventPlace
	Key names.TransferKey
	// Type is the final state.
	Type string
	Time time.Time
}
