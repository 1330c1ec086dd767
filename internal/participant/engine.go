// Package participant is the engine that accountsvc and ledgersvc share: keyed
// operations over a double-entry book, many in one transaction. One request
// alone goes at once; under load all that wait go together.
package participant

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"giro/internal/batch"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
)

// ErrOverloaded is returned when too many requests wait. Nothing was started.
var ErrOverloaded = batch.ErrFull

// ErrClosed is returned after Close. Nothing was started.
var ErrClosed = batch.ErrClosed

// Config bounds an engine. The zero value of a field stands for its default.
type Config struct {
	// Name is the participant's registered name.
	Name names.Participant
	// Limits default to book.DefaultLimits.
	Limits book.Limits
	// Workers is how many transactions may be under way at once; default
	// store.WorkersDefault.
	Workers int
	// WaitersMax is how many requests may wait; default 10,000.
	WaitersMax int
	// RepeatSecondsMax is how long a batch that fails transiently is run again
	// before its callers are told that its outcome is not known; default 10.
	RepeatSecondsMax int
}

// Engine applies operations to one participant's books.
type Engine struct {
	store  store.Store
	config Config
	queue  *batch.Queue[[]book.Operation, reply]
}

// New makes an engine over a store. The caller closes the engine, then the store.
func New(s store.Store, config Config) *Engine {
	if config.Limits == (book.Limits{}) {
		config.Limits = book.DefaultLimits
	}
	if config.Workers == 0 {
		config.Workers = store.WorkersDefault
	}
	if config.WaitersMax == 0 {
		config.WaitersMax = 10_000
	}
	if config.RepeatSecondsMax == 0 {
		config.RepeatSecondsMax = 10
	}
	e := &Engine{store: s, config: config}
	e.queue = batch.New(
		batch.Config{Workers: config.Workers, WeightMax: book.BatchSizeMax, WaitersMax: config.WaitersMax},
		func(operations []book.Operation) int { return len(operations) },
		e.applyTogether)
	return e
}

// Name is the participant's registered name.
func (e *Engine) Name() names.Participant { return e.config.Name }

// Limits are what the participant takes.
func (e *Engine) Limits() book.Limits { return e.config.Limits }

// Store is for reading; every change goes through Apply.
func (e *Engine) Store() store.Store { return e.store }

// Apply decides the operations (at most book.BatchSizeMax) in order, in one
// transaction, and answers each on its own. An error means that their outcome is
// not known, except ErrOverloaded and ErrClosed: nothing was started. A caller
// that goes away loses the answer and nothing else.
func (e *Engine) Apply(ctx context.Context, operations []book.Operation) ([]book.Answer, error) {
	r, err := e.queue.Do(ctx, operations)
	if err != nil {
		return nil, err
	}
	return r.answers, r.err
}

// Close waits until what was taken has been answered.
func (e *Engine) Close() { e.queue.Close() }

// reply is one request's share of a batch.
type reply struct {
	answers []book.Answer
	err     error
}

// applyTogether runs several requests as one transaction. If that fails for a
// reason that is not transient, each runs alone, so that a poisoned one fails by
// itself and not its neighbours.
func (e *Engine) applyTogether(requests [][]book.Operation) ([]reply, error) {
	var all []book.Operation
	for _, operations := range requests {
		all = append(all, operations...)
	}
	answers, err := e.repeat(all)
	replies := make([]reply, len(requests))
	for i, operations := range requests {
		switch {
		case err == nil:
			replies[i].answers, answers = answers[:len(operations)], answers[len(operations):]
		case errors.Is(err, store.ErrTransient) || len(requests) == 1:
			replies[i].err = err
		default:
			replies[i].answers, replies[i].err = e.repeat(operations)
		}
	}
	return replies, nil
}

// repeat runs the same batch until it is answered, fails for good, or has failed
// transiently for too long. It runs on the engine's own context: a commit is
// never cancelled by a caller's deadline.
func (e *Engine) repeat(operations []book.Operation) ([]book.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(e.config.RepeatSecondsMax)*time.Second)
	defer cancel()
	pause := 2 * time.Millisecond
	for {
		answers, err := e.store.Apply(ctx, operations, e.config.Limits)
		if err == nil || !errors.Is(err, store.ErrTransient) {
			return answers, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(rand.N(pause) + time.Millisecond):
		}
		pause = min(2*pause, 250*time.Millisecond)
	}
}
