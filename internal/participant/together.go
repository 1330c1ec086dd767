package participant

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"giro/internal/participant/book"
	"giro/internal/participant/store"
)

// result is what became of one operation: its answer, or why there is none.
type result struct {
	answer book.Answer
	err    error
}

// applyTogether runs the operations of several requests as one transaction, for at
// most RepeatSecondsMax. It runs on the engine's own context: a commit is never
// cancelled by a caller's deadline.
func (e *Engine) applyTogether(operations []book.Operation) ([]result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), e.repeatMax())
	defer cancel()
	return e.settle(ctx, operations), nil
}

// settle gets an answer to as many of the operations as it can. They run together
// first. If the store fails over them for good, or transiently for a quarter of
// the time, each runs by itself, so that one poisoned operation, or one row that
// somebody else holds, costs its own operations their answer and no others. If
// nothing at all gets through it is the database, and they run together again.
func (e *Engine) settle(ctx context.Context, operations []book.Operation) []result {
	bound := e.repeatMax() / 4
	if len(operations) == 1 {
		bound = e.repeatMax()
	}
	for {
		answers, err := e.repeat(ctx, operations, bound)
		if err != nil && len(operations) > 1 && ctx.Err() == nil {
			transient := errors.Is(err, store.ErrTransient)
			if results, some := e.apart(ctx, operations, transient); some || !transient {
				return results
			}
			continue
		}
		results := make([]result, len(operations))
		for i := range results {
			if results[i].err = err; err == nil {
				results[i].answer = answers[i]
			}
		}
		return results
	}
}

var (
	errNotTried = fmt.Errorf("%w: not tried by itself, since the database failed before its turn", store.ErrTransient)
	errHeld     = fmt.Errorf("%w: not tried by itself, since another operation on its account got no answer", store.ErrTransient)
)

// apart runs each operation by itself, in order, and says whether the store had a
// word on some. What is left out is decided as if it had not been there. A
// transient failure ends it, unless goOn is set: then those on the same account
// are left out, and the others go on.
func (e *Engine) apart(ctx context.Context, operations []book.Operation, goOn bool) (results []result, some bool) {
	results = make([]result, len(operations))
	held := map[book.AccountID]bool{}
	isHeld := func(id book.AccountID) bool { return held[id] }
	stopped := false
	for i := range operations {
		one := operations[i : i+1]
		accounts := book.Accounts(one, nil)
		switch {
		case stopped || ctx.Err() != nil:
			results[i].err = errNotTried
			continue
		case slices.ContainsFunc(accounts, isHeld):
			results[i].err = errHeld
			continue
		}
		answers, err := e.alone(ctx, one)
		switch {
		case err == nil:
			results[i].answer, some = answers[0], true
			continue
		case !errors.Is(err, store.ErrTransient):
			some = true
		case goOn:
			for _, id := range accounts {
				held[id] = true
			}
		default:
			stopped = true
		}
		results[i].err = err
	}
	return results, some
}

// alone gives one operation a tenth of the time.
func (e *Engine) alone(ctx context.Context, operation []book.Operation) ([]book.Answer, error) {
	bound := e.repeatMax() / 10
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return e.repeat(ctx, operation, bound)
}

// repeat runs the same operations until they are answered, fail for good, or still
// fail transiently when the bound has passed. The attempt under way then is not
// cut off: what it holds in the database ends with it.
func (e *Engine) repeat(ctx context.Context, operations []book.Operation, bound time.Duration) ([]book.Answer, error) {
	end := time.Now().Add(bound)
	pause := 2 * time.Millisecond
	for {
		answers, err := e.attempt(ctx, operations)
		if err == nil || !errors.Is(err, store.ErrTransient) || !time.Now().Before(end) {
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

// attempt runs the operations once. What fails over one by itself has found whom to
// blame.
func (e *Engine) attempt(ctx context.Context, operations []book.Operation) ([]book.Answer, error) {
	answers, err := e.guard(ctx, operations)
	if err == nil && len(answers) != len(operations) {
		err = fmt.Errorf("participant: the store gave %d answers to %d operations", len(answers), len(operations))
	}
	if err == nil {
		return answers, nil
	}
	if len(operations) == 1 && !errors.Is(err, store.ErrTransient) {
		e.config.Logger.Error("the store fails over an operation, which gets no answer",
			"transfer_key", operations[0].TransferKey, "step", operations[0].Step, "error", err)
	}
	return nil, err
}

// guard makes a panic an error that is not transient.
func (e *Engine) guard(ctx context.Context, operations []book.Operation) (answers []book.Answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			e.config.Logger.Error("the store panicked", "panic", fmt.Sprint(p), "operations", len(operations), "stack", string(debug.Stack()))
			err = fmt.Errorf("participant: the store panicked: %v", p)
		}
	}()
	return e.store.Apply(ctx, operations, e.config.Limits)
}

func (e *Engine) repeatMax() time.Duration {
	return time.Duration(e.config.RepeatSecondsMax) * time.Second
}
