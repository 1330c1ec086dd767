package audit

import (
	"fmt"
	"math/big"

	"giro/internal/names"
	"giro/orchestrator/saga"
	participantv1 "giro/proto/giro/participant/v1"
)

// judgeState compares a transfer's state with its operations (5).
func (b *Books) judgeState(t *transfer) {
	b.judgeStrays(t)
	if b.gone(t) {
		b.archived++
		if !t.saga.state.Final() {
			b.checks[5].inform("%s is %s and not final, but so old that a participant may have archived its operations: its steps are then answered EXPIRED", t, t.saga.state)
		}
		return
	}
	if t.saga == nil || !t.saga.state.Final() || !t.comparable(b.moved) {
		return
	}
	check := &b.checks[5]
	check.Checked++
	switch t.saga.state {
	case saga.Completed:
		b.expect(t, debit, applied)
		b.expect(t, credit, applied)
	case saga.Refunded:
		b.expect(t, debit, applied)
		b.judgeGivenBack(t)
	case saga.Refused:
		b.expect(t, debit, refused)
		b.judgeNothingMoved(t)
	case saga.Cancelled:
		b.expect(t, debit, cancelled)
		b.judgeNothingMoved(t)
	case saga.Resolved:
		b.judgeResolved(t)
	}
}

// expect names a final saga whose step did not end as its state says: the saga
// is ahead of its participant, or the other way round.
func (b *Books) expect(t *transfer, kind participantv1.OperationKind, want participantv1.Outcome) {
	if _, found := t.own(kind, want); !found {
		b.checks[5].find("%s is %s, so its %s should be %s; found %s",
			t, t.saga.state, steps[kind], word(want), b.found(t, kind))
	}
}

// own gives the operation under the transfer's step key with one of the
// outcomes, at the participant that the saga names.
func (t *transfer) own(kind participantv1.OperationKind, outcomes ...participantv1.Outcome) (operation, bool) {
	return t.lookup(kind, func(o operation) bool {
		for _, outcome := range outcomes {
			if o.derived && o.participant == t.at(kind) && o.outcome == outcome {
				return true
			}
		}
		return false
	})
}

// at is the participant that a step of the saga goes to.
func (t *transfer) at(kind participantv1.OperationKind) names.Participant {
	if kind == credit {
		return t.saga.destination.Participant()
	}
	return t.saga.source.Participant()
}

// found says in words what is stored of a step.
func (b *Books) found(t *transfer, kind participantv1.OperationKind) string {
	if p := t.at(kind); !b.registered[p] {
		return fmt.Sprintf("nothing, for %s is not registered and its books were not read", p)
	}
	if o, any := t.lookup(kind, func(operation) bool { return true }); any {
		return fmt.Sprintf("it %s at %s under key %s", word(o.outcome), o.participant, o.key)
	}
	return fmt.Sprintf("nothing stored at %s", t.at(kind))
}

// judgeGivenBack looks at a REFUNDED transfer: its debit was given back, under
// whatever key (an ALREADY_REFUNDED that moved the amount ends so too), and its
// credit can never happen any more.
func (b *Books) judgeGivenBack(t *transfer) {
	check := &b.checks[5]
	back := new(big.Int)
	for _, o := range t.operations {
		if o.kind == refund && o.currency == t.saga.currency && o.debitKey == t.stepKey(debit) {
			back.Add(back, big.NewInt(o.moved))
		}
	}
	if back.Cmp(big.NewInt(t.saga.amount)) != 0 {
		check.find("%s is REFUNDED, so %s should have been given back; found %s minor units (refund: %s)",
			t, amount(t.saga.amount, t.saga.currency), back, b.found(t, refund))
	}
	if _, settled := t.own(credit, refused, cancelled); !settled {
		check.find("%s is REFUNDED, so its credit should be REFUSED or CANCELLED for ever; found %s", t, b.found(t, credit))
	}
	if o, own := t.own(refund, applied); own && o.suspense != t.saga.suspense {
		check.find("%s its refund at %s says refund_to_suspense = %t, the saga %t", t, o.participant, o.suspense, t.saga.suspense)
	}
}

func (b *Books) judgeNothingMoved(t *transfer) {
	for _, o := range t.operations {
		if o.moved != 0 {
			b.checks[5].find("%s is %s, so nothing should have moved; its %s at %s moved %s",
				t, t.saga.state, steps[o.kind], o.participant, amount(o.moved, o.currency))
		}
	}
}

// judgeResolved lists a RESOLVED transfer apart. Only a line that was written
// after people settled it is a fault. Two databases' clocks are compared here,
// which a resolution, made by people days later, outlasts.
func (b *Books) judgeResolved(t *transfer) {
	check := &b.checks[5]
	check.inform("%s RESOLVED by an operator; debit: %s; credit: %s", t, b.found(t, debit), b.found(t, credit))
	for _, o := range t.operations {
		if o.moved != 0 && o.at.After(t.saga.progressAt) {
			check.find("%s is RESOLVED, so nothing should have moved after it; its %s at %s moved %s later",
				t, steps[o.kind], o.participant, amount(o.moved, o.currency))
		}
	}
}

// judgeStrays names operations that no saga can have sent: those without a saga,
// and those under keys that the transfer does not derive. Where they moved money
// it is a finding; a refund under another key may have been the first, which the
// protocol allows.
func (b *Books) judgeStrays(t *transfer) {
	check := &b.checks[5]
	for _, o := range t.operations {
		switch {
		case t.saga == nil && o.moved != 0:
			check.find("%s has no saga, but its %s at %s moved %s",
				t, steps[o.kind], o.participant, amount(o.moved, o.currency))
		case t.saga == nil:
			check.inform("%s has no saga; its %s at %s is %s and moved nothing", t, steps[o.kind], o.participant, word(o.outcome))
		case !o.derived && o.moved != 0 && o.kind != refund:
			check.find("%s its %s at %s moved %s under key %s; the step's key is %s",
				t, steps[o.kind], o.participant, amount(o.moved, o.currency), o.key, t.stepKey(o.kind))
		case !o.derived:
			check.inform("%s a %s at %s stands under key %s, which is not the step's; it is %s and moved %s",
				t, steps[o.kind], o.participant, o.key, word(o.outcome), amount(o.moved, o.currency))
		}
	}
}
