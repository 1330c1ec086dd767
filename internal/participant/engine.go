// Package participant is the engine that accountsvc and ledgersvc share: keyed
// operations over a double-entry book, many in one transaction. One request
// alone goes at once; under load all that wait go together.
package participant

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"

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
	// WaitersMax is how many operations may wait; default 20,000. A request that is
	// taken on is so whole, and may go beyond it.
	WaitersMax int
	// RepeatSecondsMax is how long a batch is worked on, whatever fails, before
	// its callers are told what is not known; default 10.
	RepeatSecondsMax int
	// Logger gets what the store failed over; default none.
	Logger *slog.Logger
}

// Engine applies operations to one participant's books.
type Engine struct {
	store  store.Store
	config Config
	queue  *batch.Queue[book.Operation, result]
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
		config.WaitersMax = 20_000
	}
	if config.RepeatSecondsMax == 0 {
		config.RepeatSecondsMax = 10
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Engine{store: s, config: config}
	e.queue = batch.New(
		batch.Config{Workers: config.Workers, WeightMax: book.BatchSizeMax, WaitersMax: config.WaitersMax},
		book.Operation.Weight,
		e.applyTogether)
	seed := maphash.MakeSeed()
	e.queue.KeepApart(func(o book.Operation) []uint64 { return rowsOf(seed, o) })
	return e
}

// rowsOf names what the operation locks: its accounts, its keys, the key of a debit. So
// one replica's transactions never wait for each other in the database, and work on one
// account, however much, holds up no other.
func rowsOf(seed maphash.Seed, o book.Operation) []uint64 {
	operations := []book.Operation{o}
	var rows []uint64
	for _, id := range book.Accounts(operations, nil) {
		rows = append(rows, maphash.Comparable(seed, id))
	}
	for _, id := range book.Keys(operations) {
		rows = append(rows, maphash.Comparable(seed, id))
	}
	return rows
}

// Name is the participant's registered name.
func (e *Engine) Name() names.Participant { return e.config.Name }

// Limits are what the participant takes.
func (e *Engine) Limits() book.Limits { return e.config.Limits }

// Store is for reading; every change goes through Apply.
func (e *Engine) Store() store.Store { return e.store }

// Apply decides the operations (at most book.BatchSizeMax) and answers each on its own;
// those that share an account or a key are decided in order. They go together with
// whatever else waits, in as few transactions as can be: one whose account is being
// changed just then keeps the others from waiting with it. Where the store fails over
// several, each is tried by itself, and what got no answer is book.Unknown. An error
// means that nothing is known of any, except ErrOverloaded and ErrClosed: nothing was
// started. A caller that goes away loses the answers and nothing else.
func (e *Engine) Apply(ctx context.Context, operations []book.Operation) ([]book.Answer, error) {
	outcomes, err := e.queue.DoAll(ctx, operations)
	if err != nil {
		return nil, err
	}
	answers := make([]book.Answer, len(operations))
	unanswered, first := 0, error(nil)
	for i, o := range outcomes {
		answers[i] = o.Result.answer
		if failed := cmp.Or(o.Err, o.Result.err); failed != nil {
			unanswered, first = unanswered+1, cmp.Or(first, failed)
			answers[i] = book.Answer{Stored: book.Stored{Operation: operations[i], Outcome: book.Unknown}}
		}
	}
	if unanswered > 0 && unanswered == len(operations) {
		return nil, first
	}
	return answers, nil
}

// Close waits until what was taken has been answered.
func (e *Engine) Close() { e.queue.Close() }
