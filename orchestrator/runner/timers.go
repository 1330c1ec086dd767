package runner

import (
	"container/heap"
	"slices"
	"time"

	"giro/orchestrator/saga"
)

// timers keeps the instants at which flights want to be looked at. One that is no
// longer wanted does no harm: the flight is only looked at.
type timers struct {
	heap timerHeap
	// order numbers the timers.
	order int64
	// trimAt is the length at which timers of flights that have ended are dropped.
	// An expiry may lie weeks ahead, and the transfer was final in milliseconds.
	trimAt int
}

func (t *timers) set(at time.Time, id saga.ID) {
	t.order++
	heap.Push(&t.heap, timer{at: at, id: id, order: t.order})
}

func (t *timers) next() (time.Time, bool) {
	if len(t.heap) == 0 {
		return time.Time{}, false
	}
	return t.heap[0].at, true
}

// take removes the earliest timer, if it is due.
func (t *timers) take(now time.Time) (saga.ID, bool) {
	if len(t.heap) == 0 || now.Before(t.heap[0].at) {
		return saga.ID{}, false
	}
	return heap.Pop(&t.heap).(timer).id, true
}

// trim drops what is no longer wanted, whenever the heap has doubled since the
// last time: so it is bounded by the flights, at a constant cost for each timer.
func (t *timers) trim(wanted func(saga.ID) bool) {
	const lengthMin = 1024
	if len(t.heap) < max(t.trimAt, lengthMin) {
		return
	}
	t.heap = slices.DeleteFunc(t.heap, func(t timer) bool { return !wanted(t.id) })
	heap.Init(&t.heap)
	t.trimAt = 2 * len(t.heap)
}

type timer struct {
	at time.Time
	id saga.ID
	// order makes the heap's order total, so that a seed replays.
	order int64
}

type timerHeap []timer

func (t timerHeap) Len() int { return len(t) }
func (t timerHeap) Less(i, j int) bool {
	if !t[i].at.Equal(t[j].at) {
		return t[i].at.Before(t[j].at)
	}
	return t[i].order < t[j].order
}
func (t timerHeap) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *timerHeap) Push(x any)   { *t = append(*t, x.(timer)) }
func (t *timerHeap) Pop() any {
	old := *t
	last := old[len(old)-1]
	*t = old[:len(old)-1]
	return last
}
