package runner

import (
	"context"
	"sync"
	"time"

	"giro/orchestrator/saga"
	"giro/orchestrator/store"
)

// carryOut does one effect on a goroutine of its own and feeds the result back.
func (r *Runner) carryOut(effect Effect) {
	switch e := effect.(type) {
	case Call:
		r.spawn(func() { r.call(e) })
	case Save:
		r.spawn(func() { r.save(e) })
	case Claim:
		r.spawn(func() { r.claim(e) })
	case ReadCancels:
		r.spawn(func() { r.readCancels(e) })
	case Renew:
		r.spawn(func() { r.renew(e) })
	case Troubled:
		r.config.Logger.Warn("a transfer needs attention; it is tried on",
			"tenant", e.Saga.Tenant, "transfer_key", e.Saga.Key, "state", e.Saga.State, "reason", e.Saga.AttentionReason)
	case Settled:
		r.log(e.Saga)
	case Lost:
		r.config.Logger.Info("another replica carries the transfer out", "tenant", e.ID.Tenant, "transfer_key", e.ID.Key)
	}
}

// spawn starts a goroutine that Close waits for, unless the runner is shutting
// down: then another replica takes the saga up.
func (r *Runner) spawn(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() == nil {
		r.working.Go(do)
	}
}

func (r *Runner) call(e Call) {
	ctx, cancel := context.WithTimeout(r.ctx, r.config.CallTimeout)
	defer cancel()
	answer := saga.Answer{Error: errUnknownParticipant.Error()}
	if peer := r.config.Peers[e.Request.Participant]; peer != nil {
		answer = peer.Call(ctx, e.Request)
	}
	if r.ctx.Err() != nil {
		return // shutting down: another replica asks again
	}
	r.step(Answered{ID: e.ID, Attempt: e.Attempt, Answer: answer})
}

func (r *Runner) save(e Save) {
	saved, err := r.saves.Do(r.ctx, e.Write)
	if r.ctx.Err() != nil {
		return
	}
	if err == nil {
		err = saved.err
	}
	if err != nil {
		r.warn("a transfer's state could not be saved; it is tried again", err,
			"tenant", e.Write.Saga.Tenant, "transfer_key", e.Write.Saga.Key, "state", e.Write.Saga.State)
	}
	r.step(Saved{ID: e.Write.Saga.ID, Attempt: e.Attempt, Result: saved.result, Err: err})
}

func (r *Runner) claim(e Claim) {
	ctx, cancel := context.WithTimeout(r.ctx, r.config.StoreTimeout)
	defer cancel()
	sagas, err := r.config.Store.Claim(ctx, r.config.Owner, e.Limit, e.StrayAfter)
	if r.ctx.Err() != nil {
		return
	}
	if err != nil {
		r.warn("the sweep could not read the store; it is tried again", err)
	}
	if len(sagas) > 0 {
		r.config.Logger.Info("taking up transfers that nobody carries out", "count", len(sagas))
	}
	r.step(Claimed{Sagas: sagas, Err: err})
}

func (r *Runner) readCancels(e ReadCancels) {
	ctx, cancel := context.WithTimeout(r.ctx, r.config.StoreTimeout)
	defer cancel()
	sagas, err := r.config.Store.CancelsAsked(ctx, r.config.Owner, e.Limit)
	if r.ctx.Err() != nil {
		return
	}
	if err != nil {
		r.warn("the sweep could not read the store; it is tried again", err)
	}
	r.step(CancelsRead{Sagas: sagas, Err: err})
}

func (r *Runner) renew(e Renew) {
	ctx, cancel := context.WithTimeout(r.ctx, min(r.config.StoreTimeout, e.Lease))
	defer cancel()
	now, err := r.config.Store.Renew(ctx, r.config.Owner, e.Lease)
	if r.ctx.Err() != nil {
		return
	}
	if err == nil {
		r.clock.set(now)
	} else {
		r.warn("the lease could not be renewed; it is tried again", err)
	}
	r.step(Renewed{Err: err})
}

// outcome is one item's share of a batch.
type outcome[R any] struct {
	result R
	err    error
}

// together runs items as one batch. If that fails, each runs alone, so that one
// which the store refuses keeps nobody else waiting; but when the first few fail
// alone too it is the store that is away, and the rest are not tried.
func together[T, R any](items []T, run func([]T) ([]R, error)) []outcome[R] {
	outcomes := make([]outcome[R], len(items))
	results, err := run(items)
	if err == nil {
		for i, r := range results {
			outcomes[i].result = r
		}
		return outcomes
	}
	const failuresMax = 3
	done, failures := false, 0
	for i := range items {
		if len(items) == 1 || (!done && failures == failuresMax) {
			outcomes[i].err = err
			continue
		}
		if results, err = run(items[i : i+1]); err != nil {
			outcomes[i].err = err
			failures++
			continue
		}
		outcomes[i].result, done = results[0], true
	}
	return outcomes
}

// saveTogether writes what waits in one transaction.
func (r *Runner) saveTogether(writes []store.Write) ([]outcome[store.Saved], error) {
	return together(writes, func(writes []store.Write) ([]store.Saved, error) {
		ctx, cancel := context.WithTimeout(context.Background(), r.config.StoreTimeout)
		defer cancel()
		return r.config.Store.Save(ctx, writes)
	}), nil
}

// insertion is one insert that waits.
type insertion struct {
	store.New
	// again: an earlier try failed, and may have stored it all the same.
	again bool
}

// insertTogether stores what waits in one transaction and starts what is new.
func (r *Runner) insertTogether(insertions []insertion) ([]outcome[store.Inserted], error) {
	news := make([]store.New, len(insertions))
	for i, one := range insertions {
		news[i] = one.New
	}
	outcomes := together(news, func(news []store.New) ([]store.Inserted, error) {
		ctx, cancel := context.WithTimeout(context.Background(), r.config.StoreTimeout)
		defer cancel()
		return r.config.Store.Insert(ctx, r.config.Owner, news)
	})
	for i, o := range outcomes {
		switch {
		case o.err != nil:
			r.warn("a transfer could not be stored; it is tried again", o.err,
				"tenant", news[i].Tenant, "transfer_key", news[i].ID.Key)
		// What an insert with a lost answer stored is found, not created, and
		// nobody else will start it. A row that is found otherwise may be older
		// than what this replica has made of it since.
		case o.result.Created, insertions[i].again && o.result.Saga.Owner == r.config.Owner:
			r.step(Start{Saga: o.result.Saga})
		}
	}
	return outcomes, nil
}

// warn logs a failure that will be tried again: once, and again while it lasts,
// but not at every try.
func (r *Runner) warn(message string, err error, with ...any) {
	suppressed, heard := r.muted.pass(message)
	if !heard {
		return
	}
	with = append(with, "error", err)
	if suppressed > 0 {
		with = append(with, "times_before", suppressed)
	}
	r.config.Logger.Warn(message, with...)
}

// mutedFor is how long a message is not repeated.
const mutedFor = 5 * time.Second

// muted keeps messages from being repeated too often.
type muted struct {
	mu    sync.Mutex
	until map[string]time.Time
	count map[string]int
}

func (m *muted) pass(message string) (suppressed int, heard bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if now.Before(m.until[message]) {
		m.count[message]++
		return 0, false
	}
	if m.until == nil {
		m.until, m.count = map[string]time.Time{}, map[string]int{}
	}
	suppressed = m.count[message]
	m.until[message], m.count[message] = now.Add(mutedFor), 0
	return suppressed, true
}

func (r *Runner) log(s saga.Saga) {
	if s.Parked {
		r.config.Logger.Error("a transfer is parked: its participant broke the contract, and nothing more is done without an operator",
			"tenant", s.Tenant, "transfer_key", s.Key, "state", s.State, "reason", s.ParkReason)
		return
	}
	r.config.Logger.Debug("final", "tenant", s.Tenant, "transfer_key", s.Key, "state", s.State, "reason", s.Reason)
}
