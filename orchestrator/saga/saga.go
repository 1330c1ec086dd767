// Package saga is the durable record of one transfer being carried out, and the
// table that says what each answer leads to. It is PURE: time is an argument,
// and nothing here calls or stores anything.
package saga

import (
	"time"

	"giro/internal/fingerprint"
	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/stepkey"
)

// State is where a saga stands. The names are stored.
type State string

// The running states, then the final ones. See Table.
const (
	// Debiting: the debit may or may not have happened; the credit may even have
	// been sent by a replica that is gone.
	Debiting State = "DEBITING"
	// Crediting: debited; the credit may or may not have happened.
	Crediting State = "CREDITING"
	// Cancelling: decided to stop, if the credit has not happened.
	Cancelling State = "CANCELLING"
	// Refunding: the credit definitely did not and will not happen; a refund is
	// owed.
	Refunding State = "REFUNDING"

	Completed State = "COMPLETED"
	Refused   State = "REFUSED"
	Refunded  State = "REFUNDED"
	Cancelled State = "CANCELLED"
	Resolved  State = "RESOLVED"
)

// Running and Final list the states, in the order of the table.
var (
	Running = []State{Debiting, Crediting, Cancelling, Refunding}
	Finals  = []State{Completed, Refused, Refunded, Cancelled, Resolved}
)

// Final says that the state never changes any more.
func (s State) Final() bool {
	switch s {
	case Completed, Refused, Refunded, Cancelled, Resolved:
		return true
	}
	return false
}

// ID names a saga.
type ID struct {
	Tenant names.Tenant
	Key    names.TransferKey
}

// Saga is one transfer being carried out: one row.
type Saga struct {
	ID
	fingerprint.Contents
	Fingerprint fingerprint.Sum
	// Memo and Metadata are the first request's; they decide nothing.
	Memo     string
	Metadata map[string]string

	State State
	// Reason says why the transfer did not complete, in the API's words.
	Reason string
	// RefundToSuspense: the source account could not take its refund.
	RefundToSuspense bool
	// DebitApplied: an answer said so. In Debiting it is never set in a row.
	DebitApplied bool
	// CancelAsked may be set by any replica; the owner acts on it.
	CancelAsked bool
	// Parked: the participant broke the contract in a running state; nothing
	// more is done without an operator.
	Parked     bool
	ParkReason string
	// Attention: it has been trying for too long, and goes on trying.
	Attention       bool
	AttentionReason string

	// Steps holds what is recorded of each step that was sent.
	Steps []Step

	// CreatedAt is when the transfer was first accepted, by the database's clock.
	CreatedAt time.Time
	// ExpiresAt is when forward steps stop; zero: never.
	ExpiresAt time.Time
	// ProgressAt is when the state last changed.
	ProgressAt time.Time
	UpdatedAt  time.Time
	// DueAt is when the next attempt may go out.
	DueAt time.Time

	// Owner is the replica that carries the saga out. Epoch is raised by every
	// change of owner, Version by every write; a write compares both.
	Owner   string
	Epoch   int64
	Version int64
}

// StepName names a step as operators see it. Cancel is the cancelling of the
// credit's key, so its key is the credit's.
type StepName string

// The steps.
const (
	StepDebit  StepName = "debit"
	StepCredit StepName = "credit"
	StepCancel StepName = "cancel"
	StepRefund StepName = "refund"
)

// Step records what was sent and answered. The participant's row is the truth.
type Step struct {
	Name     StepName        `json:"name"`
	Key      stepkey.StepKey `json:"-"`
	Attempts int64           `json:"attempts"`
	// FirstSentAt and LastSentAt are of the first and last attempt known.
	FirstSentAt time.Time   `json:"first_sent_at,omitzero"`
	LastSentAt  time.Time   `json:"last_sent_at,omitzero"`
	AnsweredAt  time.Time   `json:"answered_at,omitzero"`
	Outcome     string      `json:"outcome,omitempty"`
	Reason      string      `json:"reason,omitempty"`
	AmountMoved money.Minor `json:"amount_moved,omitempty"`
	// Replayed: the outcome was stored before the attempt that brought it.
	Replayed bool `json:"replayed,omitempty"`
	// LastError says why the last attempt brought no answer.
	LastError string `json:"last_error,omitempty"`
}

// New is a transfer that was asked for, or one that was cancelled before it was
// (then it starts in Cancelling, and the table decides).
func New(id ID, contents fingerprint.Contents, cancelled bool) Saga {
	s := Saga{ID: id, Contents: contents, Fingerprint: fingerprint.Of(contents), State: Debiting}
	if cancelled {
		s.State, s.CancelAsked, s.Reason = Cancelling, true, ReasonCancelAsked
	}
	return s
}

// Reasons that are the saga's own; the others are the participants'.
const (
	ReasonCancelAsked = "CANCEL_ASKED"
	ReasonExpired     = "EXPIRED"
	ReasonInvalid     = "INVALID"
)

// StepKey is the key of a step.
func (s Saga) StepKey(step StepName) stepkey.StepKey {
	if step == StepCancel {
		step = StepCredit
	}
	return stepkey.Derive(stepkey.V1, s.Tenant, s.Key, string(step))
}

// Participant is who is asked for a step.
func (s Saga) Participant(step StepName) names.Participant {
	if step == StepDebit || step == StepRefund {
		return s.Source.Participant()
	}
	return s.Destination.Participant()
}

// Awaits is the step that the saga's state calls for; empty when final.
func (s Saga) Awaits() StepName {
	switch s.State {
	case Debiting:
		return StepDebit
	case Crediting:
		return StepCredit
	case Cancelling:
		return StepCancel
	case Refunding:
		return StepRefund
	}
	return ""
}

// Step gives what is recorded of a step.
func (s Saga) Step(name StepName) (Step, bool) {
	for _, step := range s.Steps {
		if step.Name == name {
			return step, true
		}
	}
	return Step{}, false
}

// WithStep returns the saga with the step's record replaced or added. The
// receiver's own records stay as they are.
func (s Saga) WithStep(step Step) Saga {
	steps := make([]Step, 0, len(s.Steps)+1)
	found := false
	for _, old := range s.Steps {
		if old.Name == step.Name {
			old, found = step, true
		}
		steps = append(steps, old)
	}
	if !found {
		steps = append(steps, step)
	}
	s.Steps = steps
	return s
}
