package sim

import (
	"context"
	"fmt"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	participantstore "giro/internal/participant/store"
	"giro/internal/stepkey"
	"giro/orchestrator/runner"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
)

// auditor checks the invariants of docs/protocol.md by their own words. It asks
// neither the saga table nor the book what is right.
type auditor struct {
	// states is the last state seen in the table.
	states map[saga.ID]saga.Saga
	// finals is what clients were told, kept even when the table is lost.
	finals map[saga.ID]saga.State
}

func newAuditor() *auditor {
	return &auditor{states: map[saga.ID]saga.Saga{}, finals: map[saga.ID]saga.State{}}
}

// forget drops what was seen in a table that is lost.
func (a *auditor) forget() { a.states = map[saga.ID]saga.Saga{} }

func (a *auditor) told(id saga.ID, state saga.State) { a.finals[id] = state }

func (a *auditor) list(w *World) []saga.Saga {
	sagas, err := w.sagas.List(context.Background(), tenant, saga.ID{}, 1000)
	if err != nil {
		w.failure = err
	}
	return sagas
}

// moves restates the table of the protocol's section 3: where a stored state may
// go. Crediting need not be stored, so Debiting may skip it; and several moves
// may lie between two looks.
var moves = map[saga.State][]saga.State{
	saga.Debiting:   {saga.Crediting, saga.Refused, saga.Cancelled, saga.Cancelling, saga.Completed, saga.Refunding},
	saga.Crediting:  {saga.Completed, saga.Refunding, saga.Cancelling},
	saga.Cancelling: {saga.Completed, saga.Refunding},
	saga.Refunding:  {saga.Refunded, saga.Refused, saga.Cancelled},
}

func (a *auditor) afterStep(w *World) error {
	for _, p := range participants {
		if err := a.books(w, p); err != nil {
			return err
		}
	}
	transfers, err := a.transfers(w)
	if err != nil {
		return err
	}
	if err := a.clearing(w, transfers); err != nil {
		return err
	}
	return a.sagas(w, transfers)
}

// transfer is what the participants' rows say of one transfer.
type transfer struct {
	debit, credit, refund       book.Outcome
	debited, credited, refunded money.Minor
	suspense                    bool
}

// books checks 1 and 9: zero sums, balances that are the sum of their lines and
// not below their floor.
func (a *auditor) books(w *World, p names.Participant) error {
	balances := map[names.Account]money.Minor{}
	var total money.Minor
	listed, err := w.books[p].Operations(context.Background(), tenant, book.ID{}, 1000)
	if err != nil {
		return err
	}
	for _, o := range listed {
		var sum money.Minor
		for _, l := range o.Lines {
			balances[l.Account] += l.Amount
			sum += l.Amount
		}
		if sum != 0 || (len(o.Lines) > 0 && o.Outcome != book.Applied) {
			return fmt.Errorf("invariant 1: %s: the lines of %s %s sum to %d", p, o.Kind, o.TransferKey, sum)
		}
		total += sum
	}
	accounts, err := w.books[p].Accounts(context.Background(), tenant, "", 1000)
	if err != nil {
		return err
	}
	for _, account := range accounts {
		if account.Balance != balances[account.Account] {
			return fmt.Errorf("invariant 1: %s/%s holds %d, its lines %d", p, account.Account, account.Balance, balances[account.Account])
		}
		if account.Balance < account.Floor {
			return fmt.Errorf("invariant 9: %s/%s is at %d, below %d", p, account.Account, account.Balance, account.Floor)
		}
	}
	if total != 0 {
		return fmt.Errorf("invariant 1: %s sums to %d", p, total)
	}
	return nil
}

// transfers reads the operations of both participants and checks 3 and 4.
func (a *auditor) transfers(w *World) (map[names.TransferKey]transfer, error) {
	found := map[names.TransferKey]transfer{}
	for _, p := range participants {
		listed, err := w.books[p].Operations(context.Background(), tenant, book.ID{}, 1000)
		if err != nil {
			return nil, err
		}
		for _, o := range listed {
			if !o.Kind.Protocol() {
				continue
			}
			t := found[o.TransferKey]
			if err := t.add(o); err != nil {
				return nil, fmt.Errorf("%w: %s", err, o.TransferKey)
			}
			found[o.TransferKey] = t
		}
	}
	for key, t := range found {
		if t.credited != 0 && t.refunded != 0 {
			return nil, fmt.Errorf("invariant 4: %s was credited %d and refunded %d", key, t.credited, t.refunded)
		}
		if t.refunded > t.debited {
			return nil, fmt.Errorf("invariant 3: %s was debited %d and refunded %d", key, t.debited, t.refunded)
		}
	}
	return found, nil
}

func (t *transfer) add(o participantstore.Listed) error {
	outcome, moved := map[book.Kind]*book.Outcome{book.Debit: &t.debit, book.Credit: &t.credit, book.Refund: &t.refund}[o.Kind],
		map[book.Kind]*money.Minor{book.Debit: &t.debited, book.Credit: &t.credited, book.Refund: &t.refunded}[o.Kind]
	if *outcome != 0 {
		return fmt.Errorf("invariant 3: two %s operations", o.Kind)
	}
	*outcome, *moved = o.Outcome, o.AmountMoved
	t.suspense = t.suspense || o.ToSuspense
	if o.Key != stepkey.Derive(stepkey.V1, o.Tenant, o.TransferKey, o.Kind.String()) {
		return fmt.Errorf("a %s under another key than the derived one", o.Kind)
	}
	return nil
}

// clearing checks 2: what the clearing accounts hold together is in transit.
func (a *auditor) clearing(w *World, transfers map[names.TransferKey]transfer) error {
	var held, transit money.Minor
	for _, p := range participants {
		listed, err := w.books[p].Operations(context.Background(), tenant, book.ID{}, 1000)
		if err != nil {
			return err
		}
		for _, o := range listed {
			for _, l := range o.Lines {
				if _, ok := book.ClearingOf(l.Account); ok {
					held += l.Amount
				}
			}
		}
	}
	for _, t := range transfers {
		transit += t.debited - t.credited - t.refunded
	}
	if held != transit {
		return fmt.Errorf("invariant 2: clearing holds %d, in transit is %d", held, transit)
	}
	return nil
}

// sagas checks 5, 6 and 10.
func (a *auditor) sagas(w *World, transfers map[names.TransferKey]transfer) error {
	for _, s := range a.list(w) {
		before, known := a.states[s.ID]
		if known && before.State != s.State && !contains(moves[before.State], s.State) {
			return fmt.Errorf("invariant 6: %s went from %s to %s", s.ID.Key, before.State, s.State)
		}
		if known && s.Version < before.Version {
			return fmt.Errorf("invariant 6: %s went from version %d to %d", s.ID.Key, before.Version, s.Version)
		}
		a.states[s.ID] = s
		if s.Parked {
			return fmt.Errorf("%s is parked, and no participant broke the contract: %s", s.ID.Key, s.ParkReason)
		}
		if told, ok := a.finals[s.ID]; ok && s.State.Final() && told != s.State {
			return fmt.Errorf("invariant 7: a client was told that %s is %s, it is %s", s.ID.Key, told, s.State)
		}
		if err := agrees(s, transfers[s.ID.Key]); err != nil {
			return err
		}
	}
	return a.events(w)
}

// agrees checks 5 for one saga.
func agrees(s saga.Saga, t transfer) error {
	ok := true
	switch s.State {
	case saga.Completed:
		ok = t.debited == s.Amount && t.credited == s.Amount && t.refunded == 0
	case saga.Refunded:
		ok = t.debited == s.Amount && t.credited == 0 && t.refunded == s.Amount && t.suspense == s.RefundToSuspense
	case saga.Refused:
		ok = t.debit == book.Refused && t.credited == 0 && t.refunded == 0
	case saga.Cancelled:
		ok = t.debit == book.Cancelled && t.credited == 0 && t.refunded == 0
	}
	if !ok {
		return fmt.Errorf("invariant 5: %s is %s of %d, but the books say %+v", s.ID.Key, s.State, s.Amount, t)
	}
	return nil
}

func (a *auditor) events(w *World) error {
	events, err := w.sagas.FinalEvents(context.Background(), tenant, store.EventPlace{}, 1000)
	if err != nil {
		return err
	}
	announced := map[names.TransferKey]int{}
	for _, e := range events {
		announced[e.Key]++
		if s := a.states[saga.ID{Tenant: tenant, Key: e.Key}]; string(s.State) != e.Type || e.ID != stepkey.FinalEvent(tenant, e.Key) {
			return fmt.Errorf("invariant 10: the event of %s says %s, the saga %s", e.Key, e.Type, s.State)
		}
	}
	for id, s := range a.states {
		want := 0
		if s.State.Final() {
			want = 1
		}
		if announced[id.Key] != want {
			return fmt.Errorf("invariant 10: %s is %s and has %d final events", id.Key, s.State, announced[id.Key])
		}
	}
	return nil
}

// durable checks what must be committed before an operation goes out: the saga
// itself, and the change of direction that a cancel or a refund belongs to.
func (a *auditor) durable(w *World, call runner.Call) error {
	row, err := w.sagas.Lookup(context.Background(), call.ID)
	if err != nil {
		return fmt.Errorf("%s of %s was sent before its saga was stored: %w", call.Request.Step, call.ID.Key, err)
	}
	turned := row.State != saga.Debiting && row.State != saga.Crediting
	if (call.Request.Step == saga.StepCancel || call.Request.Step == saga.StepRefund) && !turned {
		return fmt.Errorf("%s of %s was sent while its row says %s", call.Request.Step, call.ID.Key, row.State)
	}
	if call.Request.Step == saga.StepRefund && row.State == saga.Cancelling {
		return fmt.Errorf("refund of %s was sent while its row says %s", call.ID.Key, row.State)
	}
	return nil
}

// atEnd checks 7 and 8 once faults have stopped.
func (a *auditor) atEnd(w *World) error {
	stored := map[saga.ID]saga.Saga{}
	for _, s := range a.list(w) {
		stored[s.ID] = s
		if !s.State.Final() {
			return fmt.Errorf("invariant 8: %s is still %s, %s after the last fault", s.ID.Key, s.State, w.now.Sub(w.quietAt))
		}
	}
	transfers, err := a.transfers(w)
	if err != nil {
		return err
	}
	for _, c := range w.clients {
		if !c.done() {
			return fmt.Errorf("invariant 8: the client of %s has not heard the end", c.id.Key)
		}
		told, ok := a.finals[c.id]
		row, found := stored[c.id]
		switch {
		case !ok:
		case found && row.State != told, !found && !w.wiped:
			return fmt.Errorf("invariant 7: %s was told %s, stored is %q", c.id.Key, told, row.State)
		case !found:
			// The row was lost and its client, who knew the end, did not ask again:
			// the books must still say so.
			row = saga.Saga{ID: c.id, Contents: c.contents, State: told}
			row.RefundToSuspense = transfers[c.id.Key].suspense
			if err := agrees(row, transfers[c.id.Key]); err != nil {
				return err
			}
		}
	}
	for key, t := range transfers {
		if t.debited != t.credited+t.refunded {
			return fmt.Errorf("invariant 2: %s is in transit for ever: %+v", key, t)
		}
	}
	return nil
}

func contains(states []saga.State, s saga.State) bool {
	for _, x := range states {
		if x == s {
			return true
		}
	}
	return false
}
