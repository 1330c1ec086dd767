package runner

import (
	"context"
	"errors"
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
	result, err := r.saves.Do(r.ctx, e.Write)
	if r.ctx.Err() != nil {
		return
	}
	if err != nil {
		r.config.Logger.Warn("a transfer's state could not be saved; it is tried again",
			"tenant", e.Write.Saga.Tenant, "transfer_key", e.Write.Saga.Key, "state", e.Write.Saga.State, "error", err)
	}
	r.step(Saved{ID: e.Write.Saga.ID, Attempt: e.Attempt, Result: result, Err: err})
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

// saveTogether writes what waits in one transaction.
func (r *Runner) saveTogether(writes []store.Write) ([]store.Saved, error) {
	ctx, cancel := context.WithTimeout(context.Background(), r.config.StoreTimeout)
	defer cancel()
	return r.config.Store.Save(ctx, writes)
}

// insertTogether stores what waits in one transaction and starts what is new. If
// the answer is lost it asks again, and finds what the first try stored.
func (r *Runner) insertTogether(news []store.New) ([]store.Inserted, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.config.InsertSecondsMax)*time.Second)
	defer cancel()
	inserted, err := r.insertUntil(ctx, news)
	if err != nil {
		return nil, err
	}
	for _, in := range inserted {
		// What an insert with a lost answer stored is found, not created, and
		// nobody else will start it.
		if in.Created || in.Saga.Owner == r.config.Owner {
			r.step(Start{Saga: in.Saga})
		}
	}
	return inserted, nil
}

func (r *Runner) insertUntil(ctx context.Context, news []store.New) ([]store.Inserted, error) {
	pause := 10 * time.Millisecond
	for {
		attempt, cancel := context.WithTimeout(ctx, r.config.StoreTimeout)
		inserted, err := r.config.Store.Insert(attempt, r.config.Owner, news)
		cancel()
		if err == nil {
			return inserted, nil
		}
		r.config.Logger.Warn("transfers could not be stored; it is tried again", "count", len(news), "error", err)
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-r.ctx.Done():
			return nil, err
		case <-time.After(rand.N(pause) + time.Millisecond):
		}
		pause = min(2*pause, time.Second)
	}
}

func (r *Runner) log(s saga.Saga) {
	if s.Parked {
		r.config.Logger.Error("a transfer is parked: its participant broke the contract, and nothing more is done without an operator",
			"tenant", s.Tenant, "transfer_key", s.Key, "state", s.State, "reason", s.ParkReason)
		return
	}
	r.config.Logger.Debug("final", "tenant", s.Tenant, "transfer_key", s.Key, "state", s.State, "reason", s.Reason)
}
