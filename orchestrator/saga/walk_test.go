package saga_test

import (
	"fmt"
	"testing"

	"giro/orchestrator/saga"
)

// truth is what the participants' books hold of one transfer: the outcome of each
// key, empty while it was never seen.
type truth struct{ debit, credit, refund saga.Outcome }

// replica is what one orchestrator has in memory. Only what decides is kept, so
// that equal situations are explored once.
type replica struct {
	alive        bool
	state        saga.State
	debitApplied bool
	cancelAsked  bool
	parked       bool
	reason       string
}

// situation is everything: the row, two replicas of which one owns it, the books,
// and the messages that are still on their way and may arrive at any time, again
// and again.
type situation struct {
	row      replica
	replicas [2]replica
	owner    int
	books    truth
	sent     [4]bool
}

func (r replica) saga() saga.Saga {
	s := at(r.state)
	s.DebitApplied, s.CancelAsked, s.Parked, s.Reason = r.debitApplied, r.cancelAsked, r.parked, r.reason
	return s
}

func memory(s saga.Saga) replica {
	return replica{true, s.State, s.DebitApplied, s.CancelAsked, s.Parked, s.Reason}
}

// deliver gives all that a participant may make of a message: the books
// afterwards and the answer. It keeps the contract; whether it refuses or finds
// the request malformed is its own affair.
func deliver(books truth, step saga.StepName) (results []struct {
	books  truth
	answer saga.Answer
}) {
	result := func(b truth, a saga.Answer) {
		a.Key, a.Amount = at(saga.Debiting).StepKey(step), amount
		results = append(results, struct {
			books  truth
			answer saga.Answer
		}{b, a})
	}
	said := func(outcome saga.Outcome) saga.Answer {
		a := saga.Answer{Outcome: outcome}
		if outcome == saga.OutcomeApplied {
			a.AmountMoved = amount
		}
		return a
	}
	first := func(known saga.Outcome, set func(*truth, saga.Outcome), may ...saga.Outcome) {
		if known != "" {
			may = []saga.Outcome{known}
		}
		for _, outcome := range may {
			b := books
			if outcome != saga.OutcomeInvalid {
				set(&b, outcome)
			}
			result(b, said(outcome))
		}
	}
	switch step {
	case saga.StepDebit:
		first(books.debit, func(b *truth, o saga.Outcome) { b.debit = o }, saga.OutcomeApplied, saga.OutcomeRefused, saga.OutcomeInvalid)
	case saga.StepCredit:
		first(books.credit, func(b *truth, o saga.Outcome) { b.credit = o }, saga.OutcomeApplied, saga.OutcomeRefused, saga.OutcomeInvalid)
	case saga.StepCancel:
		first(books.credit, func(b *truth, o saga.Outcome) { b.credit = o }, saga.OutcomeCancelled)
	case saga.StepRefund:
		b := books
		if b.debit == "" {
			b.debit = saga.OutcomeCancelled
		}
		b.refund = saga.OutcomeApplied
		a := saga.Answer{Outcome: saga.OutcomeApplied, DebitOutcome: b.debit}
		if b.debit == saga.OutcomeApplied {
			a.AmountMoved = amount
		}
		result(b, a)
	}
	return results
}

// next gives every situation that one event can lead to: a message sent, arriving,
// its answer coming back or getting lost, a stop, a crash, another owner.
func (w situation) next() []situation {
	var all []situation
	for who, r := range w.replicas {
		if !r.alive {
			continue
		}
		s := r.saga()
		if step := s.Awaits(); step != "" && !s.Parked {
			sent := w
			sent.sent[indexOf(step)] = true
			all = append(all, sent)
			after, _ := saga.Decide(s, step, saga.Answer{Error: "no route"}, now)
			all = append(all, w.decided(who, after)...)
		}
		for _, reason := range []string{saga.ReasonCancelAsked, saga.ReasonExpired} {
			if after, then := saga.DecideStop(s, reason, now); !then.Drop {
				all = append(all, w.decided(who, after)...)
			}
		}
	}
	for i, step := range allSteps {
		if !w.sent[i] {
			continue
		}
		for _, r := range deliver(w.books, step) {
			arrived := w
			arrived.books = r.books
			all = append(all, arrived) // and the answer is lost
			for who, mind := range w.replicas {
				if mind.alive {
					after, _ := saga.Decide(mind.saga(), step, r.answer, now)
					all = append(all, arrived.decided(who, after)...)
				}
			}
		}
	}
	other := w // the other replica takes the saga over; the first may sleep on
	other.owner = 1 - w.owner
	other.replicas[other.owner] = w.row
	all = append(all, other)
	other.replicas[w.owner] = replica{} // or it is dead
	return append(all, other)
}

// decided is what may follow a decision: it is saved, or, where it need not be,
// kept in mind alone. The owner alone can save; the other finds that it is not.
func (w situation) decided(who int, after saga.Saga) []situation {
	saved, kept := w, w
	saved.replicas[who], kept.replicas[who] = memory(after), memory(after)
	if who == w.owner {
		saved.row = memory(after)
	} else {
		saved.replicas[who] = replica{}
	}
	if saga.MustSaveBefore(w.replicas[who].saga(), after) {
		return []situation{saved}
	}
	return []situation{saved, kept}
}

func indexOf(step saga.StepName) int {
	for i, s := range allSteps {
		if s == step {
			return i
		}
	}
	panic("no such step: " + step)
}

// fault says which promise a situation breaks.
func (w situation) fault() string {
	b := w.books
	debited, credited := b.debit == saga.OutcomeApplied, b.credit == saga.OutcomeApplied
	returned := b.refund == saga.OutcomeApplied && debited
	never := b.credit == saga.OutcomeCancelled || b.credit == saga.OutcomeRefused
	switch {
	case credited && returned:
		return "credited and given back"
	case credited && !debited:
		return "credited but not debited"
	case w.sent[indexOf(saga.StepRefund)] && !never:
		return "a refund was sent while the credit can still happen"
	case w.row.parked:
		return "parked, though every participant kept the contract"
	}
	// The owner acts on a change of direction, and a client hears of an end, only
	// when the row says it too.
	if mind := w.replicas[w.owner]; mind.alive && mind.state != saga.Debiting && mind.state != saga.Crediting && mind.state != w.row.state {
		return fmt.Sprintf("the owner is in %s, the row in %s", mind.state, w.row.state)
	}
	switch w.row.state {
	case saga.Completed:
		if !debited || !credited || returned {
			return "COMPLETED, but not both debited and credited"
		}
	case saga.Refunded:
		if !debited || !returned || !never {
			return "REFUNDED, but not debited and given back"
		}
	case saga.Refused:
		if b.debit != saga.OutcomeRefused || credited {
			return "REFUSED, but something moved or may"
		}
	case saga.Cancelled:
		if b.debit != saga.OutcomeCancelled || credited {
			return "CANCELLED, but something moved or may"
		}
	}
	return ""
}

// settle drives the row on without faults, as a recovery does, and says where it
// ends.
func (w situation) settle() (saga.State, bool) {
	s, books := w.row.saga(), w.books
	for range 6 {
		step := s.Awaits()
		if step == "" {
			return s.State, true
		}
		result := deliver(books, step)[0]
		books = result.books
		s, _ = saga.Decide(s, step, result.answer, now)
	}
	return s.State, false
}

// Every order of events, without a bound on their number: the situations are
// finitely many, and each is visited.
func TestC02C18EveryOrderOfEventsKeepsThePromises(t *testing.T) {
	var todo []situation
	from := map[situation]situation{}
	for _, cancelled := range []bool{false, true} {
		r := memory(saga.New(id, contents, cancelled))
		first := situation{row: r, replicas: [2]replica{r, {}}}
		todo = append(todo, first)
		from[first] = first
	}
	ends := map[saga.State]int{}
	for len(todo) > 0 {
		w := todo[0]
		todo = todo[1:]
		if fault := w.fault(); fault != "" {
			t.Fatalf("%s:\n%s", fault, story(from, w))
		}
		if end, settled := w.settle(); !settled || w.row.state.Final() && end != w.row.state {
			t.Fatalf("it does not settle, but stays %s:\n%s", end, story(from, w))
		}
		ends[w.row.state]++
		for _, n := range w.next() {
			if w.row.state.Final() && n.row.state != w.row.state {
				t.Fatalf("final, then %s:\n%s", n.row.state, story(from, w))
			}
			if _, seen := from[n]; !seen {
				from[n] = w
				todo = append(todo, n)
			}
		}
	}
	for _, state := range allStates {
		if visited := ends[state] > 0; visited != (state != saga.Resolved) {
			t.Errorf("%s was visited %d times", state, ends[state])
		}
	}
	t.Logf("%d situations, by state of the row: %v", len(from), ends)
}

// story tells how a situation came about.
func story(from map[situation]situation, w situation) string {
	text := fmt.Sprintf("%+v", w)
	for from[w] != w {
		w = from[w]
		text = fmt.Sprintf("%+v\n%s", w, text)
	}
	return text
}
