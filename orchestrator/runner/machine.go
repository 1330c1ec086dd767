// Package runner carries sagas out. Machine holds every decision as step
// functions, (now, event) -> effects, on one goroutine and without I/O, so that
// a simulator can drive the same code; Runner is the thin driver that carries the
// effects out.
package runner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"giro/internal/retention"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
)

// Settings bound a machine's waits. Zero fields stand for their defaults.
type Settings struct {
	// BackoffMin and BackoffMax bound the pause before a step is asked again:
	// full jitter over a doubling range; defaults 200 ms and 30 s.
	BackoffMin, BackoffMax time.Duration
	// AttentionAfter is how long a state may last before people are told;
	// default 2 minutes.
	AttentionAfter time.Duration
	// AgeMax is the age at which a saga is parked; default 30 days.
	AgeMax time.Duration
	// AgeOfKey counts a saga's age from its key's own time, where that has one: so no
	// loss of the saga table makes it younger.
	AgeOfKey bool
	// Lease is how long a replica that is not heard of keeps its sagas; default
	// 5 s. It is renewed four times in that time.
	Lease time.Duration
	// SweepEvery is how often sagas that nobody carries out are looked for;
	// default 1 s.
	SweepEvery time.Duration
	// StrayAfter is how long after it was due a saga of this replica's own, which
	// it does not know of, is taken up (the answer to its insert was lost); it
	// must be longer than a call may take; default 30 s.
	StrayAfter time.Duration
	// ClaimSizeMax is the most sagas of one claim; default 256.
	ClaimSizeMax int
	// FlightsMax is the most sagas that are asked or saved at once before claims
	// slow down to a trickle; default 20,000. Those that wait for their next attempt
	// do not count: a participant that is away must not keep the others' transfers
	// from being taken up.
	FlightsMax int
}

func (s Settings) withDefaults() Settings {
	duration := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	duration(&s.BackoffMin, 200*time.Millisecond)
	duration(&s.BackoffMax, 30*time.Second)
	duration(&s.AttentionAfter, 2*time.Minute)
	duration(&s.AgeMax, retention.SagaAgeMaxDefault)
	duration(&s.Lease, 5*time.Second)
	duration(&s.SweepEvery, time.Second)
	duration(&s.StrayAfter, 30*time.Second)
	if s.ClaimSizeMax == 0 {
		s.ClaimSizeMax = 256
	}
	if s.FlightsMax == 0 {
		s.FlightsMax = 20_000
	}
	return s
}

// Event is what happens to a machine. Every effect that asks for an answer gets
// one, unless the process dies.
type Event interface{ isEvent() }

// The events.
type (
	// Begin starts the machine: it takes its lease, then looks for sagas.
	Begin struct{}
	// Start hands over a saga whose row names this replica as its owner.
	Start struct{ Saga saga.Saga }
	// Answered ends a Call. An answer that never came is OutcomeUnknown.
	Answered struct {
		ID      saga.ID
		Attempt int64
		Answer  saga.Answer
	}
	// Saved ends a Save. With an error it is not known whether it was written.
	Saved struct {
		ID      saga.ID
		Attempt int64
		Result  store.Saved
		Err     error
	}
	// CancelSeen tells that a row was asked to stop; Saga is the row.
	CancelSeen struct{ Saga saga.Saga }
	// CancelsRead ends a ReadCancels.
	CancelsRead struct {
		Sagas []saga.Saga
		Err   error
	}
	// Claimed ends a Claim.
	Claimed struct {
		Sagas []saga.Saga
		Err   error
	}
	// Renewed ends a Renew.
	Renewed struct{ Err error }
	// Tick says that time has passed; see Next.
	Tick struct{}
)

func (Begin) isEvent()       {}
func (Start) isEvent()       {}
func (Answered) isEvent()    {}
func (Saved) isEvent()       {}
func (CancelSeen) isEvent()  {}
func (CancelsRead) isEvent() {}
func (Claimed) isEvent()     {}
func (Renewed) isEvent()     {}
func (Tick) isEvent()        {}

// Effect is what a machine wants done. Effects of one step may be carried out in
// any order.
type Effect interface{ isEffect() }

// The effects.
type (
	// Call asks a participant; answered by Answered.
	Call struct {
		ID      saga.ID
		Attempt int64
		Request saga.Request
	}
	// Save writes a row; answered by Saved.
	Save struct {
		Attempt int64
		Write   store.Write
	}
	// Claim looks for sagas that nobody carries out; answered by Claimed.
	Claim struct {
		Limit      int
		StrayAfter time.Duration
	}
	// ReadCancels looks for sagas of this replica's own that another one was asked
	// to stop; answered by CancelsRead.
	ReadCancels struct{ Limit int }
	// Renew extends the lease; answered by Renewed.
	Renew struct{ Lease time.Duration }
	// Troubled tells that a saga is committed as needing attention.
	Troubled struct{ Saga saga.Saga }
	// Settled tells that a saga is committed as final, or parked.
	Settled struct{ Saga saga.Saga }
	// Lost tells that another replica carries the saga out.
	Lost struct{ ID saga.ID }
)

func (Call) isEffect()        {}
func (Save) isEffect()        {}
func (Claim) isEffect()       {}
func (ReadCancels) isEffect() {}
func (Troubled) isEffect()    {}
func (Renew) isEffect()       {}
func (Settled) isEffect()     {}
func (Lost) isEffect()        {}

// Machine carries out the sagas of one replica. It is not safe for concurrent
// use.
type Machine struct {
	settings Settings
	// random gives a number in [0, n).
	random func(n int64) int64
	// attempts numbers all calls and saves, so that a result never finds another
	// flight of the same saga.
	attempts int64
	flights  map[saga.ID]*flight
	timers   timers
	sweeps   sweeps
	// busy counts the flights that are calling or saving.
	busy int
	// at is the instant of the last step.
	at time.Time
	// drained: no more claims; see Drain.
	drained bool
	out     []Effect
}

// sweeps keeps the periodic jobs: at most one of each is under way.
type sweeps struct {
	renewAt, claimAt            time.Time
	renewing, claiming, reading bool
	// leased: the lease was taken at least once.
	leased bool
}

// flight is one saga being carried out. At most one of calling and saving is
// true.
type flight struct {
	// saga is what this replica knows: ahead of the row by what is being saved,
	// and by Crediting, which need not be. Version and Epoch are the row's.
	saga    saga.Saga
	calling bool
	saving  bool
	// attempt is the number of the call or save that is under way; the result of
	// an older one is dropped.
	attempt int64
	// failures counts unknown answers in a row; saveFailures failed saves.
	failures, saveFailures int
	// troubled: it was told that the saga needs attention.
	troubled bool
	// saveAt is when a failed save is tried again.
	saveAt time.Time
}

// NewMachine makes a machine. random gives a number in [0, n).
func NewMachine(settings Settings, random func(n int64) int64) *Machine {
	return &Machine{settings: settings.withDefaults(), random: random, flights: map[saga.ID]*flight{}}
}

// Settings are the machine's, with the defaults filled in.
func (m *Machine) Settings() Settings { return m.settings }

// Flights is how many sagas are being carried out.
func (m *Machine) Flights() int { return len(m.flights) }

// Busy is how many of them wait for an answer of a participant or the store; the
// others wait for their next attempt.
func (m *Machine) Busy() int { return m.busy }

// Carries says whether the machine carries a saga out.
func (m *Machine) Carries(id saga.ID) bool { return m.flights[id] != nil }

// Drain stops the machine from claiming; what it carries out goes on.
func (m *Machine) Drain() { m.drained = true }

// Next is when a Tick is wanted at the latest; zero: not before another event.
func (m *Machine) Next() time.Time {
	var next time.Time
	sooner := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if !m.sweeps.renewing {
		sooner(m.sweeps.renewAt)
	}
	if m.sweeps.leased && !m.drained {
		sooner(m.sweeps.claimAt)
	}
	if at, set := m.timers.next(); set {
		sooner(at)
	}
	return next
}

// Step takes one event at an instant of the database's clock, and gives what is
// to be done about it.
func (m *Machine) Step(now time.Time, event Event) []Effect {
	if now.Before(m.at) {
		m.setBack(now, m.at.Sub(now))
	}
	m.at = now
	switch e := event.(type) {
	case Begin:
		m.renew()
	case Start:
		m.start(now, e.Saga)
	case Answered:
		m.answered(now, e)
	case Saved:
		m.saved(now, e)
	case CancelSeen:
		m.cancelSeen(now, e.Saga)
	case CancelsRead:
		m.sweeps.reading = false
		for _, s := range e.Sagas {
			m.cancelSeen(now, s)
		}
	case Claimed:
		m.claimed(now, e)
	case Renewed:
		m.renewed(now, e)
	case Tick:
		m.tick(now)
	default:
		panic(fmt.Sprintf("runner: no such event: %T", event))
	}
	out := m.out
	m.out = nil
	return out
}

func (m *Machine) emit(e Effect) { m.out = append(m.out, e) }

func (m *Machine) renew() {
	m.sweeps.renewing = true
	m.emit(Renew{Lease: m.settings.Lease})
}

func (m *Machine) renewed(now time.Time, e Renewed) {
	m.sweeps.renewing = false
	m.sweeps.renewAt = now.Add(m.settings.Lease / 4)
	if e.Err == nil && !m.sweeps.leased {
		m.sweeps.leased = true
		m.sweep(now)
	}
}

// sweep looks for sagas that nobody carries out, and for cancels that other
// replicas took for this one's.
func (m *Machine) sweep(now time.Time) {
	m.sweeps.claimAt = now.Add(m.settings.SweepEvery)
	m.claim()
	if !m.sweeps.reading && len(m.flights) > 0 {
		m.sweeps.reading = true
		m.emit(ReadCancels{Limit: m.settings.ClaimSizeMax})
	}
}

func (m *Machine) claim() {
	if m.sweeps.claiming || m.drained {
		return
	}
	m.sweeps.claiming = true
	trickle := max(1, m.settings.FlightsMax/1000)
	room := max(trickle, m.settings.FlightsMax-m.busy)
	m.emit(Claim{Limit: min(m.settings.ClaimSizeMax, room), StrayAfter: m.settings.StrayAfter})
}

func (m *Machine) claimed(now time.Time, e Claimed) {
	m.sweeps.claiming = false
	for _, s := range e.Sagas {
		// A flight of an earlier ownership knows less than the row, which others
		// may have moved on: the row counts, and what was asked is asked again.
		m.end(s.ID)
		m.start(now, s)
	}
	if len(e.Sagas) == m.settings.ClaimSizeMax {
		m.claim() // there are more
	}
}

func (m *Machine) tick(now time.Time) {
	if !m.sweeps.renewing && !now.Before(m.sweeps.renewAt) {
		m.renew()
	}
	if m.sweeps.leased && !now.Before(m.sweeps.claimAt) {
		m.sweep(now)
	}
	for {
		id, due := m.timers.take(now)
		if !due {
			return
		}
		if f := m.flights[id]; f != nil {
			m.wake(now, f)
		}
	}
}

// setBack keeps every pause as long as it was when the database's clock has been
// set back, so that nothing waits for the old time to come again. An expiry stays
// where it is: it is the clock's own.
func (m *Machine) setBack(now time.Time, by time.Duration) {
	m.sweeps.renewAt, m.sweeps.claimAt = m.sweeps.renewAt.Add(-by), m.sweeps.claimAt.Add(-by)
	ids := slices.SortedFunc(maps.Keys(m.flights), func(a, b saga.ID) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Key, b.Key))
	})
	for _, id := range ids {
		f := m.flights[id]
		if f.saga.DueAt.After(now) {
			f.saga.DueAt = f.saga.DueAt.Add(-by)
			m.wakeAt(f, f.saga.DueAt)
		}
		if f.saveAt.After(now) {
			f.saveAt = f.saveAt.Add(-by)
			m.wakeAt(f, f.saveAt)
		}
	}
}
