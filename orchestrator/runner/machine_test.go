package runner

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"giro/internal/fingerprint"
	"giro/internal/names"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// bench drives a machine by hand: it keeps the effects that wait for an answer.
type bench struct {
	t       *testing.T
	machine *Machine
	now     time.Time
	calls   []Call
	saves   []Save
	settled []saga.Saga
	lost    []saga.ID
	// troubled are those that people were told of.
	troubled []saga.Saga
}

func newBench(t *testing.T, settings Settings) *bench {
	// The longest pause is drawn, so that waits are known.
	return &bench{t: t, now: start, machine: NewMachine(settings, func(n int64) int64 { return n - 1 })}
}

func (b *bench) step(e Event) {
	b.t.Helper()
	for _, effect := range b.machine.Step(b.now, e) {
		switch e := effect.(type) {
		case Call:
			b.calls = append(b.calls, e)
		case Save:
			b.saves = append(b.saves, e)
		case Settled:
			b.settled = append(b.settled, e.Saga)
		case Lost:
			b.lost = append(b.lost, e.ID)
		case Troubled:
			b.troubled = append(b.troubled, e.Saga)
		}
	}
}

func (b *bench) pass(d time.Duration) {
	b.t.Helper()
	b.now = b.now.Add(d)
	b.step(Tick{})
}

// call takes the one call that is out, which must be for the step.
func (b *bench) call(step saga.StepName) Call {
	b.t.Helper()
	if len(b.calls) != 1 || b.calls[0].Request.Step != step {
		b.t.Fatalf("calls out: %+v, want one %s", b.calls, step)
	}
	c := b.calls[0]
	b.calls = nil
	return c
}

func (b *bench) save(state saga.State) Save {
	b.t.Helper()
	if len(b.saves) != 1 || b.saves[0].Write.Saga.State != state {
		b.t.Fatalf("saves out: %+v, want one %s", b.saves, state)
	}
	s := b.saves[0]
	b.saves = nil
	return s
}

func (b *bench) quiet() {
	b.t.Helper()
	if len(b.calls)+len(b.saves) != 0 {
		b.t.Fatalf("nothing should be out, but: %+v %+v", b.calls, b.saves)
	}
}

func (b *bench) answer(c Call, a saga.Answer) {
	b.t.Helper()
	if a.Outcome != saga.OutcomeUnknown {
		a.Key, a.Amount = c.Request.Key, c.Request.Amount
	}
	b.step(Answered{ID: c.ID, Attempt: c.Attempt, Answer: a})
}

// commit lets a save succeed.
func (b *bench) commit(s Save) saga.Saga {
	b.t.Helper()
	row := s.Write.Saga
	row.Version = s.Write.FromVersion + 1
	b.step(Saved{ID: row.ID, Attempt: s.Attempt, Result: store.Saved{OK: true, Saga: row}})
	return row
}

func row() saga.Saga {
	s := saga.New(saga.ID{Tenant: "t", Key: "k"}, fingerprint.Contents{
		Source: "a/x", Destination: "b/y", Amount: 40, Currency: "USD"}, false)
	s.CreatedAt, s.ProgressAt, s.DueAt = start, start, start
	s.Version, s.Epoch, s.Owner = 1, 1, "me"
	return s
}

var (
	applied = saga.Answer{Outcome: saga.OutcomeApplied, AmountMoved: 40}
	unknown = saga.Answer{Error: "no answer"}
)

func TestOnlyTheFinalStateIsSavedOnTheWay(t *testing.T) {
	b := newBench(t, Settings{})
	b.step(Start{Saga: row()})
	b.answer(b.call(saga.StepDebit), applied)
	b.answer(b.call(saga.StepCredit), applied)
	s := b.save(saga.Completed)
	if len(b.settled) != 0 {
		t.Fatal("told before it was committed")
	}
	b.commit(s)
	if len(b.settled) != 1 || b.settled[0].State != saga.Completed || b.machine.Flights() != 0 {
		t.Fatalf("settled: %+v", b.settled)
	}
}

func TestADirectionIsSavedBeforeItsOperation(t *testing.T) {
	b := newBench(t, Settings{})
	b.step(Start{Saga: row()})
	b.answer(b.call(saga.StepDebit), applied)
	b.answer(b.call(saga.StepCredit), saga.Answer{Outcome: saga.OutcomeRefused, Reason: "ACCOUNT_CLOSED"})
	s := b.save(saga.Refunding)
	b.quiet()
	b.commit(s)
	refund := b.call(saga.StepRefund)
	if refund.Request.DebitKey != row().StepKey(saga.StepDebit) {
		t.Fatalf("the refund names %s", refund.Request.DebitKey)
	}
}

func TestUnknownIsAskedAgainWithTheSameKeyAfterAGrowingPause(t *testing.T) {
	b := newBench(t, Settings{})
	b.step(Start{Saga: row()})
	first := b.call(saga.StepDebit)
	b.answer(first, unknown)
	ceilings := []time.Duration{200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000}
	for i, ceiling := range ceilings {
		s := b.save(saga.Debiting)
		b.commit(s)
		wait := s.Write.Saga.DueAt.Sub(b.now)
		if wait <= 0 || wait > ceiling*time.Millisecond+time.Millisecond {
			t.Fatalf("pause %d is %s, the ceiling %s", i, wait, ceiling*time.Millisecond)
		}
		b.pass(wait - time.Microsecond)
		b.quiet()
		b.pass(time.Microsecond)
		again := b.call(saga.StepDebit)
		if again.Request != first.Request {
			t.Fatalf("another request: %+v, first %+v", again.Request, first.Request)
		}
		b.answer(again, unknown)
	}
	if s := b.save(saga.Debiting); s.Write.Saga.Attention == (b.now.Sub(start) < 2*time.Minute) {
		t.Fatalf("after %s, needs attention: %v", b.now.Sub(start), s.Write.Saga.Attention)
	}
}

func TestNeedsAttentionInWords(t *testing.T) {
	b := newBench(t, Settings{AttentionAfter: time.Second})
	b.step(Start{Saga: row()})
	b.now = b.now.Add(time.Second)
	b.answer(b.call(saga.StepDebit), unknown)
	s := b.save(saga.Debiting).Write.Saga
	if want := "k has been DEBITING for 1s; debit at a brought no answer in 1 attempts, the last: no answer"; !s.Attention || s.AttentionReason != want {
		t.Fatalf("attention %v: %q", s.Attention, s.AttentionReason)
	}
}

// TestExpiryInDebiting: a credit may have been sent by a replica that is gone, so
// the credit's key is cancelled before anything is given back.
func TestExpiryInDebiting(t *testing.T) {
	s := row()
	s.ExpiresAt = start.Add(time.Minute)
	b := newBench(t, Settings{})
	b.step(Start{Saga: s})
	late := b.call(saga.StepDebit)
	b.pass(time.Minute)
	b.commit(b.save(saga.Cancelling))
	b.answer(late, applied) // no longer awaited
	cancel := b.call(saga.StepCancel)
	if cancel.Request.Key != s.StepKey(saga.StepCredit) {
		t.Fatalf("cancels %s", cancel.Request.Key)
	}
	b.answer(cancel, applied)
	if done := b.commit(b.save(saga.Completed)); done.Reason != "" {
		t.Fatalf("completed, with reason %q", done.Reason)
	}
}

func TestExpiryAndCancelDoNotStopARefund(t *testing.T) {
	s := row()
	s.State, s.ExpiresAt, s.CancelAsked = saga.Refunding, start.Add(time.Second), true
	b := newBench(t, Settings{})
	b.step(Start{Saga: s})
	refund := b.call(saga.StepRefund)
	b.pass(time.Hour)
	b.step(CancelSeen{Saga: s})
	b.quiet()
	b.answer(refund, unknown)
	b.commit(b.save(saga.Refunding))
	b.pass(time.Minute)
	b.answer(b.call(saga.StepRefund), saga.Answer{Outcome: saga.OutcomeApplied, AmountMoved: 40, DebitOutcome: saga.OutcomeApplied})
	b.commit(b.save(saga.Refunded))
}

func TestACancelFromAnotherReplicaIsFoundByTheNextSave(t *testing.T) {
	b := newBench(t, Settings{})
	b.step(Start{Saga: row()})
	b.answer(b.call(saga.StepDebit), unknown)
	s := b.save(saga.Debiting)
	asked := row()
	asked.Version, asked.CancelAsked = 2, true
	b.step(Saved{ID: asked.ID, Attempt: s.Attempt, Result: store.Saved{Saga: asked}})
	b.commit(b.save(saga.Debiting))
	b.commit(b.save(saga.Cancelling))
	b.call(saga.StepCancel)
}

func TestASaveWhoseAnswerIsLostIsTriedAgain(t *testing.T) {
	b := newBench(t, Settings{})
	b.step(Start{Saga: row()})
	b.answer(b.call(saga.StepDebit), saga.Answer{Outcome: saga.OutcomeRefused, Reason: "INSUFFICIENT_FUNDS"})
	first := b.save(saga.Refused)
	b.step(Saved{ID: row().ID, Attempt: first.Attempt, Err: errors.New("connection lost")})
	if len(b.settled) != 0 {
		t.Fatal("told what may not be committed")
	}
	b.pass(10 * time.Second)
	again := b.save(saga.Refused)
	done := first.Write.Saga // it had been written
	done.Version = 2
	b.step(Saved{ID: done.ID, Attempt: again.Attempt, Result: store.Saved{Saga: done}})
	if len(b.settled) != 1 || b.settled[0].Version != 2 || b.machine.Flights() != 0 {
		t.Fatalf("settled: %+v", b.settled)
	}
}

func TestALostOwnershipEndsTheFlight(t *testing.T) {
	b := newBench(t, Settings{})
	b.step(Start{Saga: row()})
	b.answer(b.call(saga.StepDebit), unknown)
	s := b.save(saga.Debiting)
	taken := row()
	taken.Version, taken.Epoch, taken.Owner = 2, 2, "other"
	b.step(Saved{ID: taken.ID, Attempt: s.Attempt, Result: store.Saved{Saga: taken}})
	if len(b.lost) != 1 || b.machine.Flights() != 0 {
		t.Fatalf("lost: %v, flights %d", b.lost, b.machine.Flights())
	}
	b.pass(time.Hour)
	b.quiet()
}

// TestAClaimBringsTheRow: what an earlier ownership knew is older than the row.
// The simulator found a state written back by it.
func TestAClaimBringsTheRow(t *testing.T) {
	b := newBench(t, Settings{})
	b.step(Start{Saga: row()})
	old := b.call(saga.StepDebit)
	moved := row()
	moved.State, moved.Version, moved.Epoch = saga.Refunding, 9, 3
	b.step(Claimed{Sagas: []saga.Saga{moved}})
	b.answer(old, applied)
	b.answer(b.call(saga.StepRefund), unknown)
	if s := b.save(saga.Refunding); s.Write.FromVersion != 9 || s.Write.FromEpoch != 3 {
		t.Fatalf("writes from version %d, epoch %d", s.Write.FromVersion, s.Write.FromEpoch)
	}
}

func TestTheLargestAgeParks(t *testing.T) {
	b := newBench(t, Settings{AgeMax: time.Hour})
	b.now = start.Add(time.Hour)
	b.step(Start{Saga: row()})
	parked := b.save(saga.Debiting)
	if !parked.Write.Saga.Parked || parked.Write.Saga.ParkReason == "" {
		t.Fatalf("%+v", parked.Write.Saga)
	}
	b.commit(parked)
	b.pass(time.Hour)
	b.quiet()
	if b.machine.Flights() != 0 {
		t.Fatal("a parked saga is still carried out")
	}
}

// TestTheAgeIsTheKeysOwn: where keys are kept for a limited time, a saga that was
// created anew, after its row was lost, is as old as its key.
func TestTheAgeIsTheKeysOwn(t *testing.T) {
	for _, ofKey := range []bool{false, true} {
		for _, key := range []names.TransferKey{"k", "0199c0de-0000-7000-8000-000000000000"} { // October 2025
			b := newBench(t, Settings{AgeMax: 30 * 24 * time.Hour, AgeOfKey: ofKey})
			s := row()
			s.ID.Key = key
			b.step(Start{Saga: s})
			if ofKey && key != "k" {
				if parked := b.save(saga.Debiting); !parked.Write.Saga.Parked || len(b.calls) != 0 {
					t.Errorf("%s is carried out: %+v", key, parked.Write.Saga)
				}
				continue
			}
			b.call(saga.StepDebit)
		}
	}
}

// TestClaimsSlowDownWhenThereIsNoRoom: to a trickle, so that nothing waits for ever
// behind a participant that hangs.
func TestClaimsSlowDownWhenThereIsNoRoom(t *testing.T) {
	m := NewMachine(Settings{FlightsMax: 2}, func(int64) int64 { return 0 })
	m.Step(start, Begin{})
	limits := func(effects []Effect) (limits []int) {
		for _, e := range effects {
			if c, ok := e.(Claim); ok {
				limits = append(limits, c.Limit)
			}
		}
		return limits
	}
	if got := limits(m.Step(start, Renewed{})); len(got) != 1 || got[0] != 2 {
		t.Fatalf("claims %v", got)
	}
	var sagas []saga.Saga
	for _, key := range []names.TransferKey{"1", "2"} {
		s := row()
		s.ID.Key = key
		sagas = append(sagas, s)
	}
	var calls []Call
	for _, e := range m.Step(start, Claimed{Sagas: sagas}) {
		calls = append(calls, e.(Call))
	}
	if got := limits(m.Step(start.Add(time.Minute), Tick{})); len(got) != 1 || got[0] != 1 {
		t.Fatalf("claims %v without room", got)
	}
	m.Step(start.Add(time.Minute), Claimed{})
	// Those that wait for their next attempt take no room.
	now := start.Add(time.Minute)
	for _, c := range calls {
		save := m.Step(now, Answered{ID: c.ID, Attempt: c.Attempt, Answer: unknown})[0].(Save)
		row := save.Write.Saga
		row.Version++
		m.Step(now, Saved{ID: c.ID, Attempt: save.Attempt, Result: store.Saved{OK: true, Saga: row}})
	}
	m.settings.BackoffMin = time.Hour
	if got := limits(m.Step(now.Add(m.settings.SweepEvery), Tick{})); len(got) != 1 || got[0] == 0 {
		t.Fatalf("claims %v though both wait", got)
	}
}

// TestTimersOfEndedTransfersAreDropped: an expiry far ahead costs no memory once
// the transfer is final.
func TestTimersOfEndedTransfersAreDropped(t *testing.T) {
	b := newBench(t, Settings{})
	waiting := row()
	waiting.Key, waiting.ExpiresAt = "waiting", start.Add(time.Hour)
	b.step(Start{Saga: waiting})
	held := b.call(saga.StepDebit)
	for i := range 20_000 {
		s := row()
		s.Key, s.ExpiresAt = names.TransferKey(fmt.Sprintf("k%d", i)), start.Add(30*24*time.Hour)
		b.step(Start{Saga: s})
		b.answer(b.call(saga.StepDebit), applied)
		b.answer(b.call(saga.StepCredit), applied)
		b.commit(b.save(saga.Completed))
	}
	if length := len(b.machine.timers.heap); length > 2048 {
		t.Errorf("%d timers for one transfer under way", length)
	}
	b.pass(time.Hour) // the one that waits still expires
	if s := b.save(saga.Cancelling); s.Write.Saga.ID != held.ID {
		t.Errorf("%v was stopped", s.Write.Saga.ID)
	}
}

// TestPausesAreNeverNegative, whatever the settings and however long it lasts.
func TestPausesAreNeverNegative(t *testing.T) {
	for _, shortest := range []time.Duration{1, 200 * time.Millisecond, 20 * time.Second, 24 * time.Hour, 1 << 61} {
		m := NewMachine(Settings{}, func(n int64) int64 {
			if n <= 0 {
				t.Fatalf("a number in [0, %d) was asked for", n)
			}
			return n - 1
		})
		longest := max(shortest, 30*time.Second)
		last := time.Duration(0)
		for failures := 1; failures < 100; failures++ {
			pause := m.pause(failures, shortest, longest)
			if pause < last || pause > longest+time.Millisecond {
				t.Fatalf("from %s to %s, failure %d: %s after %s", shortest, longest, failures, pause, last)
			}
			last = pause
		}
	}
}

// TestACancelTakenElsewhereIsReadByTheSweep: before the step that waits for its
// next attempt is asked again.
func TestACancelTakenElsewhereIsReadByTheSweep(t *testing.T) {
	b := newBench(t, Settings{})
	b.step(Begin{})
	b.step(Renewed{})
	b.step(Start{Saga: row()})
	b.answer(b.call(saga.StepDebit), unknown)
	saved := b.commit(b.save(saga.Debiting))
	asked := saved
	asked.Version, asked.CancelAsked = saved.Version+1, true
	reads := 0
	for _, e := range b.machine.Step(b.now.Add(b.machine.Settings().SweepEvery), Tick{}) {
		if _, read := e.(ReadCancels); read {
			reads++
		}
	}
	if reads != 1 {
		t.Fatalf("%d reads with a sweep", reads)
	}
	b.step(CancelsRead{Sagas: []saga.Saga{asked}})
	if s := b.save(saga.Cancelling); s.Write.FromVersion != asked.Version {
		t.Fatalf("writes from version %d", s.Write.FromVersion)
	}
}

// TestAClockThatIsSetBackStopsNothing: pauses stay as long as they were, and the
// lease is renewed.
func TestAClockThatIsSetBackStopsNothing(t *testing.T) {
	b := newBench(t, Settings{})
	b.step(Begin{})
	b.step(Renewed{})
	b.step(Start{Saga: row()})
	b.answer(b.call(saga.StepDebit), unknown)
	b.commit(b.save(saga.Debiting))
	b.now = b.now.Add(-24 * time.Hour)
	b.step(Tick{})
	b.quiet()
	b.now = b.now.Add(b.machine.Settings().BackoffMin + time.Millisecond)
	b.step(Tick{})
	b.call(saga.StepDebit)
	renews := 0
	for _, e := range b.machine.Step(b.now.Add(b.machine.Settings().Lease/4), Tick{}) {
		if _, renew := e.(Renew); renew {
			renews++
		}
	}
	if renews != 1 {
		t.Fatalf("the lease was renewed %d times", renews)
	}
}

// TestExpiryComesBeforeTheLargestAge: a client's wish to stop is kept even where
// both are due.
func TestExpiryComesBeforeTheLargestAge(t *testing.T) {
	s := row()
	s.ExpiresAt = start.Add(time.Hour)
	b := newBench(t, Settings{AgeMax: time.Hour})
	b.now = start.Add(time.Hour)
	b.step(Start{Saga: s})
	if saved := b.save(saga.Cancelling).Write.Saga; saved.Parked || saved.Reason != saga.ReasonExpired {
		t.Fatalf("%+v", saved)
	}
}

// TestARowThatWasCreatedAnew, after the table was emptied under a replica, is
// carried out, and what is known of the former one is not written over it.
func TestARowThatWasCreatedAnew(t *testing.T) {
	b := newBench(t, Settings{})
	b.step(Start{Saga: row()})
	former := b.call(saga.StepDebit)
	anew := row()
	anew.CreatedAt, anew.Amount = start.Add(time.Second), 41
	b.step(Start{Saga: anew})
	b.answer(former, applied)
	if c := b.call(saga.StepDebit); c.Request.Amount != 41 {
		t.Fatalf("it asks for %d", c.Request.Amount)
	}

	other := newBench(t, Settings{})
	other.step(Start{Saga: row()})
	other.answer(other.call(saga.StepDebit), saga.Answer{Outcome: saga.OutcomeRefused, Reason: "ACCOUNT_CLOSED"})
	saved := other.save(saga.Refused)
	other.step(Saved{ID: anew.ID, Attempt: saved.Attempt, Result: store.Saved{Saga: anew}})
	other.quiet()
	if len(other.lost) != 1 || len(other.settled) != 0 {
		t.Fatalf("lost %v, settled %v", other.lost, other.settled)
	}
}

func TestPeopleAreToldOnceThatASagaNeedsAttention(t *testing.T) {
	b := newBench(t, Settings{AttentionAfter: time.Second})
	b.step(Start{Saga: row()})
	b.now = b.now.Add(time.Second)
	for range 3 {
		b.answer(b.call(saga.StepDebit), unknown)
		b.commit(b.save(saga.Debiting))
		b.pass(time.Minute)
	}
	if len(b.troubled) != 1 || b.troubled[0].AttentionReason == "" {
		t.Fatalf("told of %+v", b.troubled)
	}
}
