package audit

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/stepkey"
	participantv1 "giro/proto/giro/participant/v1"
)

// Report judges all that was added. Call it once, last.
func (b *Books) Report() Report {
	r := Report{Operations: b.operations, InTransit: map[money.Currency]*big.Int{}, Moved: b.moved}
	resolved := map[string]*big.Int{}
	b.judgeDoubles()
	for _, t := range b.sorted() {
		if t.saga != nil {
			r.Transfers++
			if !t.saga.state.Final() {
				r.Pending++
			}
		}
		b.judgeBoth(t)
		b.judgeRefunds(t)
		b.judgeTransit(t, r.InTransit, resolved)
		b.judgeState(t)
		b.judgePending(t)
		b.judgeEvents(t)
	}
	b.judgeClearing()
	b.checks[8].note("one reading cannot tell slow from stuck; running %d, of them parked %d, in need of attention %d",
		r.Pending, b.parked, b.attention)
	if b.checks[9].Checked > 0 {
		b.checks[9].note("balances as they stand; inside a batch the book's own tests check it")
	}
	if b.archived > 0 {
		b.checks[5].note("%d transfers are older than what a participant has archived, and were not compared", b.archived)
	}
	for _, currency := range sortedKeys(resolved) {
		b.checks[2].note("RESOLVED sagas, settled apart, left %s minor units of %s in clearing", resolved[currency], currency)
	}
	for currency, sum := range r.InTransit {
		if sum.Sign() == 0 {
			delete(r.InTransit, currency)
		}
	}
	r.OK = true
	for _, check := range b.checks[1:] {
		r.OK = r.OK && check.FindingCount == 0
		r.Checks = append(r.Checks, check)
	}
	return r
}

// String names the transfer in findings.
func (t *transfer) String() string {
	return fmt.Sprintf("tenant %s, transfer %s:", t.id.Tenant, t.id.Key)
}

// compareContents compares a stored operation with the saga that it belongs to
// (5). A tombstone holds no contents, so only its place is compared.
func (b *Books) compareContents(t *transfer, o operation, contents *participantv1.Operation) {
	if !o.derived && o.moved == 0 {
		return // not the saga's own; judgeStrays names it
	}
	s := t.saga
	own, other := s.source, s.destination
	if o.kind == credit {
		own, other = s.destination, s.source
	}
	var differing []string
	differ := func(field, want, got string) {
		if want != got {
			differing = append(differing, fmt.Sprintf("%s should be %s, but is %q", field, want, got))
		}
	}
	differ("participant", string(own.Participant()), string(o.participant))
	differ("step", steps[o.kind], contents.GetStep())
	if o.outcome != cancelled {
		differ("account", string(own.Account()), contents.GetAccount())
		differ("amount", amount(s.amount, s.currency), amount(contents.GetAmount(), contents.GetCurrency()))
		differ("counterparty", string(other), contents.GetCounterparty())
	}
	if o.kind == refund {
		differ("debit key", t.stepKey(debit).String(), o.debitKey.String())
	}
	b.checks[5].Checked++
	if len(differing) > 0 {
		b.checks[5].find("%s its %s at %s differs from the saga: %s",
			t, steps[o.kind], o.participant, strings.Join(differing, ", "))
	}
}

func (t *transfer) stepKey(kind participantv1.OperationKind) stepkey.StepKey {
	return stepkey.Derive(stepkey.V1, t.id.Tenant, t.id.Key, steps[kind])
}

// judgeDoubles counts the step keys that were suspected (3).
func (b *Books) judgeDoubles() {
	check := &b.checks[3]
	type place struct {
		transfer names.TransferKey
		o        operation
	}
	places := map[operationID][]place{}
	var order []operationID
	for _, t := range b.sorted() {
		for _, o := range t.operations {
			check.Checked++
			id := operationID{t.id.Tenant, o.key}
			if o.outcome != applied || !b.suspects[id] {
				continue
			}
			if len(places[id]) == 1 {
				order = append(order, id)
			}
			places[id] = append(places[id], place{t.id.Key, o})
		}
	}
	for _, id := range order {
		var where []string
		for _, p := range places[id] {
			where = append(where, fmt.Sprintf("as %s of transfer %s at %s", steps[p.o.kind], p.transfer, p.o.participant))
		}
		check.find("tenant %s, transfer %s: step key %s should be APPLIED once, but is APPLIED %d times: %s",
			id.tenant, places[id][0].transfer, id.key, len(where), strings.Join(where, ", "))
	}
}

// judgeRefunds counts the refunds of each debit (3), those of one key as one:
// judgeDoubles has named that.
func (b *Books) judgeRefunds(t *transfer) {
	var order []stepkey.StepKey
	keys := map[stepkey.StepKey][]string{}
	for _, o := range t.operations {
		if o.kind != refund || o.outcome != applied {
			continue
		}
		if keys[o.debitKey] == nil {
			order = append(order, o.debitKey)
		}
		if !slices.Contains(keys[o.debitKey], o.key.String()) {
			keys[o.debitKey] = append(keys[o.debitKey], o.key.String())
		}
	}
	for _, debitKey := range order {
		if n := len(keys[debitKey]); n > 1 {
			b.checks[3].find("%s its debit %s should be refunded at most once, but has %d refunds: %s",
				t, debitKey, n, strings.Join(keys[debitKey], ", "))
		}
	}
}

// judgeBoth looks for a credit and a refund of one transfer (4). It holds at any
// moment: what is APPLIED stays so.
func (b *Books) judgeBoth(t *transfer) {
	b.checks[4].Checked++
	c, credited := t.lookup(credit, func(o operation) bool { return o.outcome == applied })
	r, refunded := t.lookup(refund, func(o operation) bool { return o.moved != 0 })
	if credited && refunded {
		b.checks[4].find("%s credited %s at %s and refunded %s at %s; it should be one of them at most",
			t, amount(c.moved, c.currency), c.participant, amount(r.moved, r.currency), r.participant)
	}
}

// lookup gives the first operation of a kind that fits.
func (t *transfer) lookup(kind participantv1.OperationKind, fits func(operation) bool) (operation, bool) {
	for _, o := range t.operations {
		if o.kind == kind && fits(o) {
			return o, true
		}
	}
	return operation{}, false
}

// judgePending tells of sagas that are under way (8). None of it is a finding:
// one reading cannot tell slow from stuck.
func (b *Books) judgePending(t *transfer) {
	if t.saga == nil || t.saga.state.Final() {
		return
	}
	check := &b.checks[8]
	check.Checked++
	switch {
	case t.saga.parked:
		b.parked++
		check.inform("%s parked in %s: %s", t, t.saga.state, t.saga.parkReason)
	case t.saga.attention:
		b.attention++
		check.inform("%s needs attention in %s: %s", t, t.saga.state, t.saga.attentionReason)
	}
}

// judgeEvents compares a transfer's events with its state (10).
func (b *Books) judgeEvents(t *transfer) {
	check := &b.checks[10]
	check.Checked += int64(len(t.events))
	want := stepkey.FinalEvent(t.id.Tenant, t.id.Key)
	state := "not in the saga table"
	if t.saga != nil {
		state = string(t.saga.state)
	}
	final := t.saga != nil && t.saga.state.Final()
	for _, e := range t.events {
		switch {
		case !final:
			check.find("%s has a final event %s of type %s, but is %s", t, e.id, e.typ, state)
		case e.id != want:
			check.find("%s has a final event with id %s; it should be %s", t, e.id, want)
		case e.typ != state:
			check.find("%s has a final event of type %s, but is %s", t, e.typ, state)
		}
	}
	// The events are read after the sagas: one that was final then has its own.
	if final && len(t.events) != 1 && (len(t.events) > 1 || !t.late) {
		check.find("%s is %s and should have one final event, but has %d", t, state, len(t.events))
	}
}

func (b *Books) sorted() []*transfer {
	return slices.SortedFunc(maps.Values(b.transfers), func(x, y *transfer) int {
		return cmp.Or(cmp.Compare(x.id.Tenant, y.id.Tenant), cmp.Compare(x.id.Key, y.id.Key))
	})
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
