package runner

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"giro/internal/batch"
	"giro/internal/names"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
)

// ErrOverloaded is returned when too many requests wait. Nothing was stored.
var ErrOverloaded = batch.ErrFull

// ErrClosed is returned once the runner is shutting down. Nothing was stored.
var ErrClosed = batch.ErrClosed

// Peer is a participant as the runner sees it. Call never fails: what brought no
// answer is OutcomeUnknown. It must return soon after ctx ends.
type Peer interface {
	Call(ctx context.Context, request saga.Request) saga.Answer
}

// Config is what a runner works with. Zero fields stand for their defaults.
type Config struct {
	// Owner names this replica's life: another one after every start.
	Owner string
	Store store.Store
	Peers map[names.Participant]Peer
	Settings
	// CallTimeout bounds one attempt of a step; default 10 s.
	CallTimeout time.Duration
	// StoreTimeout bounds one call to the store; default 10 s.
	StoreTimeout time.Duration
	// InsertSecondsMax is how long an insert that fails is tried again before
	// its caller is told that its outcome is not known; default 10.
	InsertSecondsMax int
	// WaitersMax is how many inserts may wait; default 10,000.
	WaitersMax int
	Logger     *slog.Logger
}

// Runner carries out the sagas that its replica owns. It runs on its own
// context: no client's deadline or hang-up stops it.
type Runner struct {
	config  Config
	clock   clock
	inserts *batch.Queue[insertion, outcome[store.Inserted]]
	saves   *batch.Queue[store.Write, outcome[store.Saved]]

	// mu guards machine and everything below.
	mu       sync.Mutex
	machine  *Machine
	watchers map[saga.ID][]chan saga.Saga
	empty    chan struct{} // closed when a draining machine waits for no answer
	draining bool

	wake    chan struct{} // the machine's Next may have changed
	muted   muted
	ctx     context.Context
	stop    context.CancelFunc
	working sync.WaitGroup
}

// New makes a runner. Start it before anything is inserted.
func New(config Config) *Runner {
	if config.CallTimeout == 0 {
		config.CallTimeout = 10 * time.Second
	}
	if config.StoreTimeout == 0 {
		config.StoreTimeout = 10 * time.Second
	}
	if config.InsertSecondsMax == 0 {
		config.InsertSecondsMax = 10
	}
	if config.WaitersMax == 0 {
		config.WaitersMax = 10_000
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.StrayAfter == 0 {
		config.StrayAfter = 2*config.CallTimeout + config.StoreTimeout
	}
	r := &Runner{config: config, machine: NewMachine(config.Settings, rand.Int64N),
		watchers: map[saga.ID][]chan saga.Saga{}, empty: make(chan struct{}), wake: make(chan struct{}, 1)}
	r.ctx, r.stop = context.WithCancel(context.Background())
	size := batch.Config{Workers: 2, WeightMax: 128, WaitersMax: config.WaitersMax}
	r.inserts = batch.New(size, nil, r.insertTogether)
	size.WaitersMax = 1 << 30 // bounded by the flights; a save is never refused
	r.saves = batch.New(size, nil, r.saveTogether)
	return r
}

// Start takes the lease, which proves that the store answers, and begins to
// carry out what nobody carries out. It fails if ctx ends first.
func (r *Runner) Start(ctx context.Context) error {
	now, err := r.config.Store.Renew(ctx, r.config.Owner, r.machine.Settings().Lease)
	if err != nil {
		return err
	}
	r.clock.set(now)
	r.working.Go(r.keepTime)
	r.step(Begin{})
	return nil
}

// Insert stores a transfer, or finds the one that is there; a new one is carried
// out from then on, whatever becomes of ctx. Where the store fails it is tried
// again for a while. An error means that it is not known whether it was stored,
// except ErrOverloaded and ErrClosed.
func (r *Runner) Insert(ctx context.Context, n store.New) (store.Inserted, error) {
	tried, err := r.InsertAll(ctx, []store.New{n})
	if err != nil {
		return store.Inserted{}, err
	}
	return tried[0].Inserted, tried[0].Err
}

// Tried is what became of one of several inserts. With an error it is not known
// whether it was stored.
type Tried struct {
	store.Inserted
	Err error
}

// InsertAll is Insert for several transfers under different keys, each of which is
// stored on its own, in no order. All are taken on or none: the error is
// ErrOverloaded or ErrClosed, and nothing was stored, or ctx has ended, and nothing is
// known.
func (r *Runner) InsertAll(ctx context.Context, news []store.New) ([]Tried, error) {
	giveUp := time.Now().Add(time.Duration(r.config.InsertSecondsMax) * time.Second)
	pause := 10 * time.Millisecond
	tried := make([]Tried, len(news))
	left := make([]int, len(news))
	for i := range left {
		left[i] = i
	}
	for again := false; ; again = true {
		insertions := make([]insertion, len(left))
		for i, n := range left {
			insertions[i] = insertion{New: news[n], again: again}
		}
		outcomes, err := r.inserts.DoAll(ctx, insertions)
		switch {
		case err != nil && again:
			return tried, nil // the first try may have stored them
		case err != nil:
			return nil, err
		}
		var failed []int
		for i, n := range left {
			result := outcomes[i].Result
			tried[n] = Tried{Inserted: result.result, Err: cmp.Or(outcomes[i].Err, result.err)}
			if tried[n].Err != nil {
				failed = append(failed, n)
			}
		}
		if left = failed; len(left) == 0 || time.Now().After(giveUp) {
			return tried, nil
		}
		select {
		case <-ctx.Done():
			return tried, nil
		case <-r.ctx.Done():
			return tried, nil
		case <-time.After(rand.N(pause) + time.Millisecond):
		}
		pause = min(2*pause, time.Second)
	}
}

// AskCancel asks a running saga to stop, whichever replica carries it out.
func (r *Runner) AskCancel(ctx context.Context, id saga.ID) (saga.Saga, error) {
	s, err := r.config.Store.AskCancel(ctx, id)
	if err == nil {
		r.step(CancelSeen{Saga: s})
	}
	return s, err
}

// Now is the database's clock, as far as this replica knows it.
func (r *Runner) Now() time.Time { return r.clock.now() }

// Watch gives a channel that gets each of the sagas once this replica has committed it
// as final or parked, and a function that ends the watch. One that is told more than
// once may keep another from being told: whoever watches several looks at the store too.
func (r *Runner) Watch(ids ...saga.ID) (settled <-chan saga.Saga, end func()) {
	c := make(chan saga.Saga, len(ids))
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		r.watchers[id] = append(r.watchers[id], c)
	}
	return c, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, id := range ids {
			r.unwatch(id, c)
		}
	}
}

func (r *Runner) unwatch(id saga.ID, c chan saga.Saga) {
	kept := slices.DeleteFunc(r.watchers[id], func(w chan saga.Saga) bool { return w == c })
	if len(kept) == 0 {
		delete(r.watchers, id)
	} else {
		r.watchers[id] = kept
	}
}

// Carries says whether this replica carries a saga out just now.
func (r *Runner) Carries(id saga.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.machine.Carries(id)
}

// Close stops taking on sagas, lets those under way go on until they are final, or
// wait for another attempt, or ctx ends, and gives the rest back for another
// replica to carry out.
func (r *Runner) Close(ctx context.Context) {
	inserted := make(chan struct{})
	go func() {
		r.inserts.Close()
		close(inserted)
	}()
	select {
	case <-inserted:
	case <-ctx.Done():
	}
	r.mu.Lock()
	r.draining = true
	r.machine.Drain()
	if r.machine.Busy() == 0 {
		r.closeEmpty()
	}
	r.mu.Unlock()
	select {
	case <-r.empty:
	case <-ctx.Done():
	}
	r.mu.Lock()
	r.stop()
	r.mu.Unlock()
	r.working.Wait()
	r.saves.Close()
	release, cancel := context.WithTimeout(context.Background(), r.config.StoreTimeout)
	defer cancel()
	if err := r.config.Store.Release(release, r.config.Owner); err != nil {
		r.config.Logger.Warn("the lease was not given back; it ends by itself", "error", err)
	}
}

func (r *Runner) closeEmpty() {
	select {
	case <-r.empty:
	default:
		close(r.empty)
	}
}

// step feeds one event to the machine and carries out what it says.
func (r *Runner) step(event Event) {
	r.mu.Lock()
	effects := r.machine.Step(r.clock.now(), event)
	for _, e := range effects {
		if settled, ok := e.(Settled); ok {
			r.tell(settled.Saga)
		}
	}
	if r.draining && r.machine.Busy() == 0 {
		r.closeEmpty()
	}
	r.mu.Unlock()
	for _, e := range effects {
		r.carryOut(e)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// tell hands a settled saga to those who watch it.
func (r *Runner) tell(s saga.Saga) {
	for _, c := range r.watchers[s.ID] {
		select {
		case c <- s:
		default: // it was told before
		}
	}
}

// keepTime sends the machine a Tick whenever it wants one.
func (r *Runner) keepTime() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-r.wake:
		case <-timer.C:
			r.step(Tick{})
		}
		r.mu.Lock()
		next, now := r.machine.Next(), r.clock.now()
		r.mu.Unlock()
		if next.IsZero() {
			timer.Stop()
			continue
		}
		timer.Reset(max(next.Sub(now), time.Millisecond))
	}
}

var errUnknownParticipant = errors.New("the participant is not registered with this orchestrator")
