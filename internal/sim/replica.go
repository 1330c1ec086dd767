package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"giro/internal/participant/book"
	"giro/orchestrator/runner"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
)

// callTimeout is shorter than what a late message takes.
const callTimeout = 10 * time.Second

var errStore = errors.New("the store did not answer")

// replica is one orchestrator process. Each life has its own owner name and
// machine; what belongs to an earlier life finds nobody.
type replica struct {
	name    string
	life    int
	machine *runner.Machine
	awakeAt time.Time
	tickAt  time.Time
}

func (r *replica) owner() string { return fmt.Sprintf("%s.%d", r.name, r.life) }

func (r *replica) boot(w *World) {
	r.life++
	r.machine = runner.NewMachine(runner.Settings{}, func(n int64) int64 { return w.random.Int64N(n) })
	w.note("%s boots", r.owner())
	r.step(w, r.life, runner.Begin{})
}

func (r *replica) crash(w *World) {
	if r.machine == nil {
		return
	}
	w.note("%s crashes", r.owner())
	w.struck("crash")
	r.machine, r.tickAt, r.awakeAt = nil, time.Time{}, time.Time{}
	w.after(time.Duration(w.random.Int64N(int64(15*time.Second))), func() {
		if r.machine == nil {
			r.boot(w)
		}
	})
}

// step hands an event to the machine of one life, if it is still that one, and
// carries out what it says. A sleeping replica gets it when it wakes.
func (r *replica) step(w *World, life int, e runner.Event) {
	if r.machine == nil || r.life != life {
		return
	}
	if w.now.Before(r.awakeAt) {
		w.after(r.awakeAt.Sub(w.now), func() { r.step(w, life, e) })
		return
	}
	effects := r.machine.Step(w.now, e)
	for _, effect := range effects {
		if w.strikes(1, "crash between two effects") {
			r.crash(w)
			return
		}
		r.carryOut(w, effect)
	}
	r.schedule(w)
}

// schedule sees that a Tick comes when the machine wants one.
func (r *replica) schedule(w *World) {
	next := r.machine.Next()
	if next.IsZero() || next.Equal(r.tickAt) {
		return
	}
	r.tickAt = next
	life := r.life
	w.after(max(next.Sub(w.now), 0), func() {
		if r.life == life && r.tickAt.Equal(next) {
			r.tickAt = time.Time{}
			r.step(w, life, runner.Tick{})
		}
	})
}

func (r *replica) carryOut(w *World, effect runner.Effect) {
	switch e := effect.(type) {
	case runner.Call:
		r.call(w, e)
	case runner.Save:
		id := e.Write.Saga.ID
		w.note("%s saves %s as %s", r.owner(), id.Key, e.Write.Saga.State)
		var saved store.Saved
		r.ask(w, func() error {
			results, err := w.sagas.Save(context.Background(), []store.Write{e.Write})
			if err == nil {
				saved = results[0]
			}
			return err
		}, func(err error) runner.Event { return runner.Saved{ID: id, Attempt: e.Attempt, Result: saved, Err: err} })
	case runner.Claim:
		var sagas []saga.Saga
		owner := r.owner()
		r.ask(w, func() (err error) {
			sagas, err = w.sagas.Claim(context.Background(), owner, e.Limit, e.StrayAfter)
			return err
		}, func(err error) runner.Event {
			if err != nil {
				sagas = nil
			}
			return runner.Claimed{Sagas: sagas, Err: err}
		})
	case runner.ReadCancels:
		var sagas []saga.Saga
		owner := r.owner()
		r.ask(w, func() (err error) {
			sagas, err = w.sagas.CancelsAsked(context.Background(), owner, e.Limit)
			return err
		}, func(err error) runner.Event {
			if err != nil {
				sagas = nil
			}
			return runner.CancelsRead{Sagas: sagas, Err: err}
		})
	case runner.Renew:
		owner := r.owner()
		r.ask(w, func() error {
			_, err := w.sagas.Renew(context.Background(), owner, e.Lease)
			return err
		}, func(err error) runner.Event { return runner.Renewed{Err: err} })
	case runner.Settled:
		w.note("%s settled %s as %s", r.owner(), e.Saga.Key, e.Saga.State)
	}
}

// ask makes one store call: it may fail before it is done or after, and the
// replica may be gone when it lands or when its answer does.
func (r *replica) ask(w *World, do func() error, event func(error) runner.Event) {
	life := r.life
	w.after(w.delay(), func() {
		var err error
		if w.strikes(3, "store failed before") {
			err = errStore
		} else {
			w.dirty = true
			err = do()
			if w.strikes(3, "store failed after it was done") {
				err = errStore
			}
		}
		answer := event(err)
		w.after(w.delay(), func() { r.step(w, life, answer) })
	})
}

// call sends a request: it may be lost, late or doubled, and so may its answer.
// The replica waits for callTimeout.
func (r *replica) call(w *World, e runner.Call) {
	life := r.life
	if err := w.audit.durable(w, e); err != nil && w.failure == nil {
		w.failure = err
	}
	w.note("%s sends %s %s to %s", r.owner(), e.Request.Step, e.ID.Key, e.Request.Participant)
	w.after(callTimeout, func() {
		r.step(w, life, runner.Answered{ID: e.ID, Attempt: e.Attempt, Answer: saga.Answer{Error: "time-out"}})
	})
	copies := 1
	switch {
	case w.strikes(8, "request lost"):
		copies = 0
	case w.strikes(5, "request doubled"):
		copies = 2
	}
	for range copies {
		w.after(w.delay(), func() {
			if w.strikes(3, "participant failed before") {
				return
			}
			answer := w.apply(e.Request)
			if w.strikes(8, "answer lost") {
				w.note("the answer to %s %s is lost", e.Request.Step, e.ID.Key)
				return
			}
			w.after(w.delay(), func() {
				r.step(w, life, runner.Answered{ID: e.ID, Attempt: e.Attempt, Answer: answer})
			})
		})
	}
}

var kinds = map[saga.StepName]book.Kind{
	saga.StepDebit: book.Debit, saga.StepCredit: book.Credit, saga.StepCancel: book.Cancel, saga.StepRefund: book.Refund,
}

var outcomes = map[book.Outcome]saga.Outcome{
	book.Applied: saga.OutcomeApplied, book.Refused: saga.OutcomeRefused, book.Cancelled: saga.OutcomeCancelled,
	book.KeyReused: saga.OutcomeKeyReused, book.Invalid: saga.OutcomeInvalid, book.NotFound: saga.OutcomeNotFound,
}

// apply is a request's arrival at its participant.
func (w *World) apply(r saga.Request) saga.Answer {
	o := book.Operation{Kind: kinds[r.Step], Tenant: r.Tenant, TransferKey: r.TransferKey, Step: r.OperationStep,
		Key: r.Key, Account: r.Account, Amount: r.Amount, Currency: r.Currency, Counterparty: r.Counterparty, DebitKey: r.DebitKey}
	w.dirty = true
	answers, err := w.books[r.Participant].Apply(context.Background(), []book.Operation{o}, book.DefaultLimits)
	if err != nil {
		return saga.Answer{Error: err.Error()}
	}
	a := answers[0]
	w.note("%s answers %s %s: %s %s, moved %d, replayed %v", r.Participant, r.Step, r.TransferKey,
		outcomes[a.Outcome], a.Reason, a.AmountMoved, a.Replayed)
	answer := saga.Answer{Outcome: outcomes[a.Outcome], Key: r.Key, Amount: r.Amount, AmountMoved: a.AmountMoved,
		DebitOutcome: outcomes[a.DebitOutcome], FirstRefundMoved: a.FirstRefundMoved, ToSuspense: a.ToSuspense}
	if a.Outcome == book.Refused {
		answer.Reason = a.Reason.String()
	}
	if a.Outcome == book.KeyReused {
		answer.Detail = fmt.Sprint(a.Differing)
	}
	return answer
}
