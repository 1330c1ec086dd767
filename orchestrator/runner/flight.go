package runner

import (
	"fmt"
	"time"

	"giro/internal/stepkey"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
)

// start takes up a saga that this replica owns, unless it carries it out
// already.
func (m *Machine) start(now time.Time, s saga.Saga) {
	if f := m.flights[s.ID]; f != nil {
		if f.isOf(s) {
			return
		}
		m.end(s.ID) // the table was emptied, and the transfer created again
	}
	if s.State.Final() || s.Parked {
		m.emit(Settled{Saga: s})
		return
	}
	f := &flight{saga: s}
	m.flights[s.ID] = f
	if !s.ExpiresAt.IsZero() {
		m.wakeAt(f, s.ExpiresAt)
	}
	m.proceed(now, f)
}

// isOf says whether the row is the one that the flight carries out, in the same
// ownership: a row that was created anew begins with the same numbers.
func (f *flight) isOf(row saga.Saga) bool {
	return row.Epoch == f.saga.Epoch && row.CreatedAt.Equal(f.saga.CreatedAt)
}

// end forgets a flight.
func (m *Machine) end(id saga.ID) {
	if f := m.flights[id]; f != nil {
		m.set(f, false, false)
		delete(m.flights, id)
	}
}

// set says whether a call or a save is under way.
func (m *Machine) set(f *flight, calling, saving bool) {
	if f.calling || f.saving {
		m.busy--
	}
	f.calling, f.saving = calling, saving
	if calling || saving {
		m.busy++
	}
}

// proceed does what the saga's state calls for, when nothing is under way.
func (m *Machine) proceed(now time.Time, f *flight) {
	switch {
	case m.stop(now, f):
	case now.Before(f.saga.DueAt):
		m.wakeAt(f, f.saga.DueAt)
	default:
		m.call(now, f)
	}
}

// stop saves a change of direction, if the client asked for one, the expiry has
// passed or the saga is too old. What is under way is no longer waited for.
func (m *Machine) stop(now time.Time, f *flight) bool {
	s := f.saga
	next, then := s, saga.Then{Drop: true}
	if s.CancelAsked {
		next, then = saga.DecideStop(s, saga.ReasonCancelAsked, now)
	}
	if then.Drop && !s.ExpiresAt.IsZero() && !now.Before(s.ExpiresAt) {
		next, then = saga.DecideStop(s, saga.ReasonExpired, now)
	}
	if then.Drop && now.Sub(m.since(s)) >= m.settings.AgeMax {
		next, then = saga.DecideTooOld(s, fmt.Sprintf("not final after %s, the largest age", m.settings.AgeMax), now)
	}
	if then.Drop {
		return false
	}
	next.DueAt = now
	f.saga, f.failures = next, 0
	m.save(f)
	return true
}

// since is when the saga's age began.
func (m *Machine) since(s saga.Saga) time.Time {
	if at, ok := stepkey.Time(s.ID.Key); ok && m.settings.AgeOfKey {
		return at
	}
	return s.CreatedAt
}

func (m *Machine) call(now time.Time, f *flight) {
	step := f.saga.Awaits()
	record, _ := f.saga.Step(step)
	record.Name, record.Key = step, f.saga.StepKey(step)
	record.Attempts++
	if record.FirstSentAt.IsZero() {
		record.FirstSentAt = now
	}
	record.LastSentAt = now
	f.saga = f.saga.WithStep(record)
	m.set(f, true, false)
	f.attempt = m.nextAttempt()
	m.emit(Call{ID: f.saga.ID, Attempt: f.attempt, Request: f.saga.Request(step)})
}

func (m *Machine) nextAttempt() int64 {
	m.attempts++
	return m.attempts
}

func (m *Machine) answered(now time.Time, e Answered) {
	f := m.flights[e.ID]
	if f == nil || !f.calling || f.attempt != e.Attempt {
		return // no longer awaited
	}
	m.set(f, false, false)
	old := f.saga
	next, then := saga.Decide(old, old.Awaits(), e.Answer, now)
	switch {
	case then.Retry:
		next = m.backOff(now, f, next)
		f.saga = next
		m.save(f)
	case then.Drop:
		m.proceed(now, f)
	default:
		next.DueAt = now
		f.saga, f.failures = next, 0
		if saga.MustSaveBefore(old, next) {
			m.save(f)
			return
		}
		m.proceed(now, f)
	}
}

// backOff sets when a step whose answer is unknown is asked again, and tells
// people when it has been so for too long.
func (m *Machine) backOff(now time.Time, f *flight, s saga.Saga) saga.Saga {
	f.failures++
	s.DueAt = now.Add(m.pause(f.failures, m.settings.BackoffMin, m.settings.BackoffMax))
	if lasted := now.Sub(s.ProgressAt); lasted >= m.settings.AttentionAfter {
		step := s.Awaits()
		record, _ := s.Step(step)
		s.Attention = true
		s.AttentionReason = fmt.Sprintf("%s has been %s for %s; %s at %s brought no answer in %d attempts, the last: %s",
			s.ID.Key, s.State, lasted.Round(time.Second), step, s.Participant(step), record.Attempts, record.LastError)
	}
	return s
}

// pause draws a pause: full jitter over a range that doubles with each failure,
// at least a millisecond, at most longest.
func (m *Machine) pause(failures int, shortest, longest time.Duration) time.Duration {
	ceiling := longest
	if shift := failures - 1; shift < 62 && shortest <= longest>>shift {
		ceiling = shortest << shift
	}
	return time.Millisecond + time.Duration(m.random(int64(ceiling)))
}

// save writes what is known of the saga. Whatever was being asked is no longer
// waited for.
func (m *Machine) save(f *flight) {
	m.set(f, false, true)
	f.attempt = m.nextAttempt()
	f.saveAt = time.Time{}
	m.emit(Save{Attempt: f.attempt, Write: store.Write{
		Saga: f.saga, FromVersion: f.saga.Version, FromEpoch: f.saga.Epoch, FromCreatedAt: f.saga.CreatedAt}})
}

func (m *Machine) saved(now time.Time, e Saved) {
	f := m.flights[e.ID]
	if f == nil || !f.saving || f.attempt != e.Attempt {
		return // no longer awaited
	}
	m.set(f, false, false)
	row := e.Result.Saga
	switch {
	case e.Err != nil:
		// It may have been written: the next save then loses to it, and finds it.
		f.saveFailures++
		f.saveAt = now.Add(m.pause(f.saveFailures, 50*time.Millisecond, 5*time.Second))
		m.wakeAt(f, f.saveAt)
	case e.Result.OK:
		f.saveFailures = 0
		f.saga.Version, f.saga.UpdatedAt = row.Version, row.UpdatedAt
		if f.saga.Attention && !f.troubled {
			m.emit(Troubled{Saga: f.saga})
		}
		f.troubled = f.saga.Attention
		m.goOn(now, f)
	case row.State.Final() || row.Parked:
		f.saga = row
		m.goOn(now, f)
	case !f.isOf(row):
		m.end(e.ID)
		m.emit(Lost{ID: e.ID})
	default:
		// The same owner: a cancel was asked, or it was our own write.
		f.saveFailures = 0
		f.rebase(row)
		m.save(f)
	}
}

// goOn ends a flight whose row is final or parked, and goes on with any other.
func (m *Machine) goOn(now time.Time, f *flight) {
	if f.saga.State.Final() || f.saga.Parked {
		m.end(f.saga.ID)
		m.emit(Settled{Saga: f.saga})
		return
	}
	m.proceed(now, f)
}

// rebase keeps what is known of the saga, on the row as it now stands.
func (f *flight) rebase(row saga.Saga) {
	f.saga.Version, f.saga.Epoch, f.saga.Owner = row.Version, row.Epoch, row.Owner
	f.saga.CancelAsked = f.saga.CancelAsked || row.CancelAsked
}

func (m *Machine) cancelSeen(now time.Time, row saga.Saga) {
	f := m.flights[row.ID]
	if f == nil || !f.isOf(row) || f.saga.CancelAsked {
		return
	}
	f.saga.CancelAsked = true
	if f.saving {
		return // the save that is under way loses, or the next one does
	}
	f.saga.Version = max(f.saga.Version, row.Version)
	m.stop(now, f)
}

// wake looks at a flight whose timer has run out.
func (m *Machine) wake(now time.Time, f *flight) {
	switch {
	case f.saving:
	case !f.saveAt.IsZero():
		if !now.Before(f.saveAt) {
			m.save(f)
		}
	case f.calling:
		m.stop(now, f)
	case !now.Before(f.saga.DueAt):
		m.proceed(now, f)
	default:
		m.stop(now, f)
	}
}

func (m *Machine) wakeAt(f *flight, at time.Time) {
	m.timers.set(at, f.saga.ID)
	m.timers.trim(func(id saga.ID) bool { return m.flights[id] != nil })
}
