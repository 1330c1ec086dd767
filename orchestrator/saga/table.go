package saga

import (
	"fmt"
	"strings"
)

// On is what may happen to a saga, after an event has been judged against the
// saga's own contents.
type On string

// Everything that may happen. The words are printed in docs/invariants.md.
const (
	DebitApplied    On = "debit APPLIED"
	DebitRefused    On = "debit REFUSED"
	DebitCancelled  On = "debit CANCELLED"
	CreditApplied   On = "credit APPLIED"
	CreditRefused   On = "credit REFUSED"
	CreditCancelled On = "credit CANCELLED"
	// What Cancel(credit key) says of the credit.
	CancelApplied   On = "cancel says APPLIED"
	CancelRefused   On = "cancel says REFUSED"
	CancelCancelled On = "cancel says CANCELLED"
	RefundMoved     On = "refund APPLIED, amount moved"
	RefundOfRefused On = "refund APPLIED, nothing moved, the debit was REFUSED"
	RefundOfNothing On = "refund APPLIED, nothing moved, the debit is CANCELLED"
	RefundedBefore  On = "refund REFUSED, ALREADY_REFUNDED, and the first moved the debit's amount"
	StepInvalid     On = "INVALID"
	Stop            On = "cancel asked or expired"
	Unknown         On = "unknown"
	Stale           On = "an answer to a step that the saga no longer awaits"
	Broken          On = "KEY_REUSED, EXPIRED, another key or amount echoed, anything else"
	TooOld          On = "older than the largest age"
	Unpark          On = "an operator unparks"
)

// Happenings lists everything that may happen, in the order of the printed table.
var Happenings = []On{DebitApplied, DebitRefused, DebitCancelled, CreditApplied, CreditRefused, CreditCancelled,
	CancelApplied, CancelRefused, CancelCancelled, RefundMoved, RefundOfRefused, RefundOfNothing, RefundedBefore,
	StepInvalid, Stop, Unknown, Stale, Broken, TooOld, Unpark}

// Then is what a happening leads to.
type Then struct {
	// Next is the state afterwards.
	Next State
	// Park sets the flag, Unpark takes it away; the state stays.
	Park, Unpark bool
	// Drop: nothing changes and nothing is recorded.
	Drop bool
	// Retry: the same step is asked again with the same key, after a backoff.
	Retry bool
}

// Table gives, for each state, what each happening leads to. It is total: what
// no row names parks a running saga and is dropped by a final one.
func Table(state State, on On) Then {
	stay := Then{Next: state, Drop: true}
	if state.Final() {
		return stay
	}
	switch on {
	case Stale:
		return stay
	case Unknown:
		return Then{Next: state, Retry: true}
	case Unpark:
		return Then{Next: state, Unpark: true}
	case Broken, TooOld:
		return Then{Next: state, Park: true}
	}
	for _, row := range rows {
		if row.state == state && row.on == on {
			return Then{Next: row.next, Drop: row.next == state}
		}
	}
	return Then{Next: state, Park: true}
}

var rows = []struct {
	state State
	on    On
	next  State
}{
	{Debiting, DebitApplied, Crediting},
	{Debiting, DebitRefused, Refused},
	{Debiting, DebitCancelled, Cancelled},
	{Debiting, Stop, Cancelling},
	{Debiting, StepInvalid, Cancelling},

	{Crediting, CreditApplied, Completed},
	{Crediting, CreditRefused, Refunding},
	{Crediting, CreditCancelled, Refunding},
	{Crediting, Stop, Cancelling},
	{Crediting, StepInvalid, Cancelling},

	{Cancelling, CancelApplied, Completed},
	{Cancelling, CancelRefused, Refunding},
	{Cancelling, CancelCancelled, Refunding},
	{Cancelling, Stop, Cancelling},

	{Refunding, RefundMoved, Refunded},
	{Refunding, RefundOfRefused, Refused},
	{Refunding, RefundOfNothing, Cancelled},
	{Refunding, RefundedBefore, Refunded},
	{Refunding, Stop, Refunding},
}

// Markdown prints the whole table, every state with every happening, for
// docs/invariants.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| state | on | next |\n| --- | --- | --- |\n")
	for _, state := range append(append([]State{}, Running...), Finals...) {
		for _, on := range Happenings {
			then := Table(state, on)
			next := string(then.Next)
			switch {
			case then.Drop:
				next = "no change"
			case then.Retry:
				next = "the same state, the same key, after a backoff"
			case then.Park:
				next = "parked, in " + string(then.Next)
			case then.Unpark:
				next = "the same state, tried again"
			case then.Next.Final():
				next += ", final"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", state, on, next)
		}
	}
	return b.String()
}
