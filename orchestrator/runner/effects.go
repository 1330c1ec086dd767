package runner

import (
	"context"
	"math/rand/v2"
	"time"

	"giro/orchestrator/saga"
	"giro/orchestrator/store"
)

// carryOut does one effect on a goroutine of its own and feeds the result back.
func (r *Runner) carryOut(effect Effect) {
	if r.ctx.Err() != nil {
		return // shutting down: another replica takes it up
	}
	switch e := effect.(type) {
	case Call:
		r.working.Go(func() { r.call(e) })
	case Save:
		r.working.Go(func() { r.save(e) })
	case Claim:
		r.working.Go(func() { r.claim(e) })
	case Renew:
		r.working.Go(func() { r.renew(e) })
	case Settled:
		r.log(e.Saga)
	case Lost:
		r.config.Logger.Info("another replica carries the transfer out", "tenant", e.ID.Tenant, "transfer_key", e.ID.Key)
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
		r.config.Logger.Warn("a transfer's state could not be saved; it is tried again",
			"tenant", e.Write.Saga.Tenant, "transfer_key", e.Write.Saga.Key, "state", e.Write.Saga.State, "error", err)
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
		r.config.Logger.Warn("the sweep could not read the store; it is tried again", "error", err)
	}
	if len(sagas) > 0 {
		r.config.Logger.Info("taking up transfers that nobody carries out", "count", len(sagas))
	}
	r.step(Claimed{Sagas: sagas, Err: err})
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
		r.config.Logger.Warn("the lease could not be renewed; it is tried again", "error", err)
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

// insertTogether stores what waits in one transaction and starts what is new.
// Where the answer is lost it asks again, and finds what the first try stored.
func (r *Runner) insertTogether(news []store.New) ([]outcome[store.Inserted], error) {
	giveUp := time.Now().Add(time.Duration(r.config.InsertSecondsMax) * time.Second)
	outcomes := make([]outcome[store.Inserted], len(news))
	left := make([]int, len(news)) // the places of those not stored yet
	for i := range left {
		left[i] = i
	}
	pause := 10 * time.Millisecond
	for {
		left = r.insertSome(news, left, outcomes)
		if len(left) == 0 || time.Now().After(giveUp) {
			return outcomes, nil
		}
		select {
		case <-r.ctx.Done():
			return outcomes, nil
		case <-time.After(rand.N(pause) + time.Millisecond):
		}
		pause = min(2*pause, time.Second)
	}
}

// insertSome tries those that are left, once, and gives those that still are.
func (r *Runner) insertSome(news []store.New, left []int, outcomes []outcome[store.Inserted]) []int {
	items := make([]store.New, len(left))
	for i, place := range left {
		items[i] = news[place]
	}
	tried := together(items, func(items []store.New) ([]store.Inserted, error) {
		ctx, cancel := context.WithTimeout(context.Background(), r.config.StoreTimeout)
		defer cancel()
		return r.config.Store.Insert(ctx, r.config.Owner, items)
	})
	var still []int
	for i, place := range left {
		outcomes[place] = tried[i]
		if err := tried[i].err; err != nil {
			still = append(still, place)
			continue
		}
		// What an insert with a lost answer stored is found, not created, and
		// nobody else will start it.
		if in := tried[i].result; in.Created || in.Saga.Owner == r.config.Owner {
			r.step(Start{Saga: in.Saga})
		}
	}
	if len(still) > 0 {
		r.config.Logger.Warn("transfers could not be stored; it is tried again", "count", len(still), "error", outcomes[still[0]].err)
	}
	return still
}

func (r *Runner) log(s saga.Saga) {
	if s.Parked {
		r.config.Logger.Error("a transfer is parked: its participant broke the contract, and nothing more is done without an operator",
			"tenant", s.Tenant, "transfer_key", s.Key, "state", s.State, "reason", s.ParkReason)
		return
	}
	r.config.Logger.Debug("final", "tenant", s.Tenant, "transfer_key", s.Key, "state", s.State, "reason", s.Reason)
}
