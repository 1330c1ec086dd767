package saga

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"giro/internal/money"
	"giro/internal/stepkey"
)

// Outcome is what a participant said of an operation, in the protocol's words.
type Outcome string

// The outcomes. OutcomeUnknown stands for no answer at all: a gRPC error, a
// time-out, a missing or undecodable response.
const (
	OutcomeUnknown   Outcome = ""
	OutcomeApplied   Outcome = "APPLIED"
	OutcomeRefused   Outcome = "REFUSED"
	OutcomeCancelled Outcome = "CANCELLED"
	OutcomeKeyReused Outcome = "KEY_REUSED"
	OutcomeInvalid   Outcome = "INVALID"
	OutcomeExpired   Outcome = "EXPIRED"
	OutcomeNotFound  Outcome = "NOT_FOUND"
)

// Answer is a participant's answer, as the saga judges it.
type Answer struct {
	Outcome Outcome
	// Key and Amount are what the participant echoed.
	Key         stepkey.StepKey
	Amount      money.Minor
	AmountMoved money.Minor
	Reason      string
	// DebitOutcome is what a Refund says had become of the debit.
	DebitOutcome     Outcome
	FirstRefundMoved money.Minor
	ToSuspense       bool
	// Replayed: the participant had stored the outcome before.
	Replayed bool
	// Detail holds differing fields or violations, for people.
	Detail string
	// Error says why there is no answer (OutcomeUnknown).
	Error string
}

const alreadyRefunded = "ALREADY_REFUNDED"

// Judge says what an answer to a step means to the saga, and, where it is
// Broken, why, in words. A parked saga awaits nothing until an operator unparks
// it; the step is then asked again and answered as before.
func (s Saga) Judge(step StepName, a Answer) (On, string) {
	switch {
	case s.Parked || s.Awaits() != step:
		return Stale, ""
	case a.Outcome == OutcomeUnknown:
		return Unknown, a.Error
	case a.Key != s.StepKey(step):
		return Broken, fmt.Sprintf("the answer to %s echoes another key, %s", step, a.Key)
	case a.Amount != s.Amount:
		return Broken, fmt.Sprintf("the answer to %s echoes another amount, %d", step, a.Amount)
	case a.Outcome != OutcomeApplied && a.AmountMoved != 0:
		// A no that moved money is no definite no.
		return Broken, fmt.Sprintf("%s was answered %s but moved %d", step, a.Outcome, a.AmountMoved)
	case a.Outcome == OutcomeInvalid:
		if s.State == Cancelling || s.State == Refunding {
			return Broken, fmt.Sprintf("%s was answered INVALID: %s", step, a.Detail)
		}
		return StepInvalid, ""
	case a.Outcome == OutcomeApplied && step != StepRefund && a.AmountMoved != s.Amount:
		return Broken, fmt.Sprintf("%s is APPLIED but moved %d instead of %d", step, a.AmountMoved, s.Amount)
	}
	if step == StepRefund {
		return s.judgeRefund(a)
	}
	if on, ok := plain[step][a.Outcome]; ok {
		return on, ""
	}
	return Broken, fmt.Sprintf("%s was answered %s: %s", step, a.Outcome, a.Detail)
}

var plain = map[StepName]map[Outcome]On{
	StepDebit:  {OutcomeApplied: DebitApplied, OutcomeRefused: DebitRefused, OutcomeCancelled: DebitCancelled},
	StepCredit: {OutcomeApplied: CreditApplied, OutcomeRefused: CreditRefused, OutcomeCancelled: CreditCancelled},
	StepCancel: {OutcomeApplied: CancelApplied, OutcomeRefused: CancelRefused, OutcomeCancelled: CancelCancelled},
}

func (s Saga) judgeRefund(a Answer) (On, string) {
	switch {
	case a.Outcome == OutcomeApplied && a.AmountMoved == s.Amount && a.DebitOutcome == OutcomeApplied:
		return RefundMoved, ""
	case a.Outcome == OutcomeApplied && a.AmountMoved == 0 && s.DebitApplied:
		return Broken, fmt.Sprintf("the refund moved nothing (the debit is %s), but the debit was answered APPLIED", a.DebitOutcome)
	case a.Outcome == OutcomeApplied && a.AmountMoved == 0 && a.DebitOutcome == OutcomeRefused:
		return RefundOfRefused, ""
	case a.Outcome == OutcomeApplied && a.AmountMoved == 0 && a.DebitOutcome == OutcomeCancelled:
		return RefundOfNothing, ""
	case a.Outcome == OutcomeRefused && a.Reason == alreadyRefunded && a.FirstRefundMoved == s.Amount:
		return RefundedBefore, ""
	}
	return Broken, fmt.Sprintf("the refund was answered %s %s, moved %d, debit %s, first refund moved %d: %s",
		a.Outcome, a.Reason, a.AmountMoved, a.DebitOutcome, a.FirstRefundMoved, a.Detail)
}

// Decide gives the saga after an answer to a step, and what it led to. The
// step's record is kept up, except where the answer is dropped.
func Decide(s Saga, step StepName, a Answer, now time.Time) (Saga, Then) {
	a.Error, a.Detail, a.Reason = plainText(a.Error), plainText(a.Detail), plainText(a.Reason)
	on, why := s.Judge(step, a)
	then := Table(s.State, on)
	if then.Drop {
		return s, then
	}
	record, _ := s.Step(step)
	record.Name, record.Key = step, s.StepKey(step)
	if a.Outcome == OutcomeUnknown {
		record.LastError = a.Error
	} else {
		record.AnsweredAt, record.LastError = now, ""
		record.Outcome, record.Reason, record.AmountMoved = string(a.Outcome), a.Reason, a.AmountMoved
		record.Replayed = a.Replayed
		if record.Reason == "" {
			record.Reason = a.Detail
		}
	}
	s = s.WithStep(record)
	switch on {
	case DebitApplied:
		s.DebitApplied = true
	case DebitRefused, CreditRefused, CancelRefused:
		s.Reason = a.Reason
	case StepInvalid:
		s.Reason = ReasonInvalid
	case CreditCancelled, DebitCancelled:
		if s.Reason == "" {
			s.Reason = ReasonCancelAsked
		}
	case RefundMoved, RefundedBefore:
		s.RefundToSuspense = a.ToSuspense
	case CreditApplied, CancelApplied:
		s.Reason = "" // it completed after all
	}
	return s.move(then, why, now), then
}

// textBytesMax bounds what is kept of a participant's words.
const textBytesMax = 300

// plainText makes somebody else's words fit to be stored and shown: valid UTF-8
// without control characters, bounded. One text that a database refuses would
// otherwise keep its saga, and those saved with it, from ever being saved.
func plainText(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > textBytesMax {
		text = strings.ToValidUTF8(text[:textBytesMax], "") + "..."
	}
	return strings.TrimSpace(text)
}

// DecideStop gives the saga after its client asked to stop it or its expiry
// passed. reason is ReasonCancelAsked or ReasonExpired.
func DecideStop(s Saga, reason string, now time.Time) (Saga, Then) {
	then := Table(s.State, Stop)
	if then.Drop || s.Parked {
		then.Drop = true
		return s, then
	}
	s.Reason = reason
	return s.move(then, "", now), then
}

// DecideTooOld parks a saga that is older than the largest age.
func DecideTooOld(s Saga, why string, now time.Time) (Saga, Then) {
	then := Table(s.State, TooOld)
	if then.Drop || s.Parked {
		then.Drop = true
		return s, then
	}
	return s.move(then, why, now), then
}

func (s Saga) move(then Then, why string, now time.Time) Saga {
	if then.Next != s.State {
		s.State, s.ProgressAt = then.Next, now
		s.Attention, s.AttentionReason = false, ""
	}
	if then.Park {
		s.Parked, s.ParkReason = true, why
	}
	if s.State.Final() {
		s.Parked, s.ParkReason = false, ""
	}
	return s
}

// MustSaveBefore says that the step from old to next must be committed before
// anything is done about it: a change of direction before the operation that it
// calls for, a final state before anybody hears of it, a parked flag. Debiting to
// Crediting need not be: a crash asks the debit again and gets the stored answer.
func MustSaveBefore(old, next Saga) bool {
	if old.Parked != next.Parked {
		return true
	}
	return old.State != next.State && (old.State != Debiting || next.State != Crediting)
}
