// Package batch is an adaptive queue: one request alone goes at once; while
// batches are under way, all that arrive wait and go together in the next one.
// So latency is one commit when it is quiet, and throughput is that of the disk
// and not of single commits when it is busy. Callers wait here, outside the
// database, and the queue is bounded.
package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// ErrFull is returned when too many requests wait. Nothing was started.
var ErrFull = errors.New("batch: queue is full")

// ErrClosed is returned after Close. Nothing was started.
var ErrClosed = errors.New("batch: queue is closed")

// Config bounds a queue.
type Config struct {
	// Workers is how many batches may be under way at once; at least 1.
	Workers int
	// WeightMax is the most weight of one batch; an item that is heavier by
	// itself goes alone.
	WeightMax int
	// WaitersMax is the most items that wait; those of one DoAll may go beyond it.
	WaitersMax int
}

// Queue gathers items into batches for run.
type Queue[T, R any] struct {
	config Config
	weigh  func(T) int
	keys   func(T) []uint64
	run    func([]T) ([]R, error)

	mu      sync.Mutex
	idle    sync.Cond
	waiting []*entry[T, R]
	// held are the keys of the batches that are under way.
	held    map[uint64]struct{}
	workers int
	closed  bool
}

type entry[T, R any] struct {
	*call
	item    T
	weight  int
	keys    []uint64
	outcome Outcome[R]
}

// call is one caller's wait.
type call struct {
	ctx context.Context
	// left counts the items that are not done.
	left atomic.Int64
	done chan struct{}
}

// Outcome is what became of one item.
type Outcome[R any] struct {
	Result R
	Err    error
}

// New makes a queue. run gets the items of one batch in the order they came and
// gives one result for each, or one error for all; it is called on goroutines of
// the queue's own, so that no caller's deadline cancels it. weigh may be nil:
// every item weighs 1.
func New[T, R any](config Config, weigh func(T) int, run func([]T) ([]R, error)) *Queue[T, R] {
	if weigh == nil {
		weigh = func(T) int { return 1 }
	}
	q := &Queue[T, R]{config: config, weigh: weigh, run: run}
	q.idle.L = &q.mu
	return q
}

// KeepApart makes sure that no two batches under way share a key. An item waits
// here for the batch that holds one of its keys, and not inside a database with a
// connection held, while others pass it by; those that share a key keep their
// order. It is called before the first Do. keys gives an item's keys; two that are
// equal by chance cost a wait and nothing else.
func (q *Queue[T, R]) KeepApart(keys func(T) []uint64) {
	q.keys, q.held = keys, map[uint64]struct{}{}
}

// Do waits for the item's result. When ctx ends first, Do returns its error: an
// item that was not yet taken is dropped, one that was goes on, and the caller
// only loses the answer.
func (q *Queue[T, R]) Do(ctx context.Context, item T) (R, error) {
	outcomes, err := q.DoAll(ctx, []T{item})
	if err != nil {
		var none R
		return none, err
	}
	return outcomes[0].Result, outcomes[0].Err
}

// DoAll waits for the results of several items, which are taken on together or not at
// all, in order. They may run in several batches: an item whose key is held keeps none
// of the others waiting. When ctx ends first, it is as with Do.
func (q *Queue[T, R]) DoAll(ctx context.Context, items []T) ([]Outcome[R], error) {
	if len(items) == 0 {
		return nil, nil
	}
	c := &call{ctx: ctx, done: make(chan struct{})}
	c.left.Store(int64(len(items)))
	entries := make([]entry[T, R], len(items))
	for i, item := range items {
		entries[i] = entry[T, R]{call: c, item: item, weight: q.weigh(item)}
		if q.keys != nil {
			entries[i].keys = q.keys(item)
		}
	}
	if err := q.enter(entries); err != nil {
		return nil, err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		q.leave(c)
		return nil, ctx.Err()
	}
	outcomes := make([]Outcome[R], len(items))
	for i := range entries {
		outcomes[i] = entries[i].outcome
	}
	return outcomes, nil
}

func (q *Queue[T, R]) enter(entries []entry[T, R]) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return ErrClosed
	case len(q.waiting) >= q.config.WaitersMax, len(q.waiting) >= q.config.WaitersMax/2 && q.holdsAny(entries):
		// The second half is for those who do not wait for what is held: one key must
		// not keep all others out.
		return ErrFull
	}
	for i := range entries {
		q.waiting = append(q.waiting, &entries[i])
	}
	q.hire()
	return nil
}

func (q *Queue[T, R]) holdsAny(entries []entry[T, R]) bool {
	for i := range entries {
		if anyIn(entries[i].keys, q.held) {
			return true
		}
	}
	return false
}

// leave drops what was not yet taken of a call, so that those who have gone keep
// nobody out of a queue that is stuck behind a slow batch.
func (q *Queue[T, R]) leave(c *call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := len(q.waiting)
	q.waiting = slices.DeleteFunc(q.waiting, func(e *entry[T, R]) bool { return e.call == c })
	if len(q.waiting) < waiting && q.keys != nil {
		q.hire() // somebody may have waited behind it
	}
}

// Limit sets the most weight of the batches to come, at least 1.
func (q *Queue[T, R]) Limit(weightMax int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.config.WeightMax = weightMax
}

// Depth is how many items wait.
func (q *Queue[T, R]) Depth() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// Close refuses new items and waits until all that were taken have run.
func (q *Queue[T, R]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for q.workers > 0 {
		q.idle.Wait()
	}
}

// hire starts another worker, if one may.
func (q *Queue[T, R]) hire() {
	if q.workers < q.config.Workers {
		q.workers++
		go q.work()
	}
}

func (q *Queue[T, R]) work() {
	var taken []*entry[T, R]
	for {
		taken = q.take(taken)
		if len(taken) == 0 {
			return
		}
		items := make([]T, len(taken))
		for i, e := range taken {
			items[i] = e.item
		}
		results, err := q.guard(items)
		for i, e := range taken {
			if e.outcome.Err = err; err == nil {
				e.outcome.Result = results[i]
			}
			if e.left.Add(-1) == 0 {
				close(e.done)
			}
		}
	}
}

// guard keeps the promise of one result for each item, whatever run does.
func (q *Queue[T, R]) guard(items []T) (results []R, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("batch: panic: %v", p)
		}
	}()
	results, err = q.run(items)
	if err == nil && len(results) != len(items) {
		err = fmt.Errorf("batch: %d results for %d items", len(results), len(items))
	}
	return results, err
}

// take gives back what was taken before, and removes the next batch from the
// queue; the worker ends when there is none. What it passes by is taken by
// whoever gives back the key that it waits for.
func (q *Queue[T, R]) take(before []*entry[T, R]) []*entry[T, R] {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range before {
		for _, k := range e.keys {
			delete(q.held, k)
		}
	}
	taken, full := q.pick()
	for _, e := range taken {
		for _, k := range e.keys {
			q.held[k] = struct{}{}
		}
	}
	switch {
	case len(taken) == 0:
		q.workers--
		q.idle.Broadcast()
	case full:
		q.hire() // for what was left
	}
	return taken
}

// pick chooses the next batch, and says whether it is full, so that there may be
// another one.
func (q *Queue[T, R]) pick() (taken []*entry[T, R], full bool) {
	weight := 0
	var kept []*entry[T, R]
	passed := map[uint64]struct{}{} // keys of those that were passed by
	for i, e := range q.waiting {
		if e.ctx.Err() != nil {
			continue // its caller has gone, and nothing was started
		}
		if anyIn(e.keys, q.held) || anyIn(e.keys, passed) {
			for _, k := range e.keys {
				passed[k] = struct{}{}
			}
			kept = append(kept, e)
			continue
		}
		if len(taken) > 0 && weight+e.weight > q.config.WeightMax {
			kept, full = append(kept, q.waiting[i:]...), true
			break
		}
		taken, weight = append(taken, e), weight+e.weight
	}
	q.waiting = kept
	return taken, full
}

func anyIn(keys []uint64, in map[uint64]struct{}) bool {
	if len(in) == 0 {
		return false
	}
	for _, k := range keys {
		if _, is := in[k]; is {
			return true
		}
	}
	return false
}
