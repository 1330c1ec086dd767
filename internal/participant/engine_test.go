package participant_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/participant/store/mem"
	"giro/internal/stepkey"
)

func op(kind book.Kind, key names.TransferKey, amount money.Minor) book.Operation {
	o := book.Operation{Kind: kind, Tenant: "t", TransferKey: key, Step: kind.String(),
		Key: stepkey.Derive(stepkey.V1, "t", key, kind.String()), Account: "a", Currency: "USD", Amount: amount, Counterparty: "q/b"}
	if kind == book.Deposit {
		o.Counterparty = "bank"
	}
	return o
}

// faulty is a store whose Apply fails as it is told.
type faulty struct {
	store.Store
	apply func(next func() ([]book.Answer, error), operations []book.Operation) ([]book.Answer, error)
}

func (f *faulty) Apply(ctx context.Context, operations []book.Operation, limits book.Limits) ([]book.Answer, error) {
	return f.apply(func() ([]book.Answer, error) { return f.Store.Apply(ctx, operations, limits) }, operations)
}

func funded(t *testing.T) *mem.Store {
	t.Helper()
	s := mem.New(time.Now)
	open := op(book.Open, "open", 0)
	open.Counterparty = ""
	if _, err := s.Apply(t.Context(), []book.Operation{open, op(book.Deposit, "fund", 100)}, book.DefaultLimits); err != nil {
		t.Fatal(err)
	}
	return s
}

func balance(t *testing.T, s store.Store) money.Minor {
	t.Helper()
	a, err := s.Account(t.Context(), book.AccountID{Tenant: "t", Account: "a"})
	if err != nil {
		t.Fatal(err)
	}
	return a.Balance
}

func TestTransientErrorsRepeatTheBatch(t *testing.T) {
	s := funded(t)
	left := 3
	e := participant.New(&faulty{s, func(next func() ([]book.Answer, error), _ []book.Operation) ([]book.Answer, error) {
		if left--; left >= 0 {
			return nil, store.ErrTransient
		}
		return next()
	}}, participant.Config{})
	defer e.Close()
	answers, err := e.Apply(t.Context(), []book.Operation{op(book.Debit, "k", 40)})
	if err != nil || answers[0].Outcome != book.Applied || balance(t, s) != 60 {
		t.Fatalf("%+v, %v, balance %d", answers, err, balance(t, s))
	}
}

// TestC16ALostCommitAnswerPostsOnce: it was done, but the engine saw an error.
func TestC16ALostCommitAnswerPostsOnce(t *testing.T) {
	s := funded(t)
	var lost atomic.Bool
	e := participant.New(&faulty{s, func(next func() ([]book.Answer, error), _ []book.Operation) ([]book.Answer, error) {
		answers, err := next()
		if err == nil && lost.CompareAndSwap(false, true) {
			return nil, store.ErrTransient
		}
		return answers, err
	}}, participant.Config{})
	defer e.Close()
	answers, err := e.Apply(t.Context(), []book.Operation{op(book.Debit, "k", 40)})
	if err != nil || answers[0].Outcome != book.Applied || !answers[0].Replayed || balance(t, s) != 60 {
		t.Fatalf("%+v, %v, balance %d", answers, err, balance(t, s))
	}
}

// TestAPoisonedRequestFailsAlone: its neighbours in the batch are answered.
func TestAPoisonedRequestFailsAlone(t *testing.T) {
	s := funded(t)
	poisoned := op(book.Debit, "poison", 1)
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	e := participant.New(&faulty{s, func(next func() ([]book.Answer, error), operations []book.Operation) ([]book.Answer, error) {
		once.Do(func() { close(entered); <-release }) // holds the first, so that the rest wait together
		for _, o := range operations {
			if o.Key == poisoned.Key {
				return nil, errors.New("a constraint that nobody foresaw")
			}
		}
		return next()
	}}, participant.Config{Workers: 1})
	defer e.Close()
	results := map[names.TransferKey]error{}
	var mu sync.Mutex
	var callers sync.WaitGroup
	ask := func(o book.Operation) {
		callers.Go(func() {
			_, err := e.Apply(context.Background(), []book.Operation{o})
			mu.Lock()
			defer mu.Unlock()
			results[o.TransferKey] = err
		})
	}
	ask(op(book.Debit, "first", 1))
	<-entered
	for _, o := range []book.Operation{op(book.Debit, "k1", 1), poisoned, op(book.Debit, "k2", 1)} {
		ask(o)
	}
	close(release)
	callers.Wait()
	for key, err := range results {
		if (err != nil) != (key == poisoned.TransferKey) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if balance(t, s) != 97 {
		t.Errorf("balance %d, want 97", balance(t, s))
	}
}

func TestAFullQueueRefusesBeforeAnythingIsStored(t *testing.T) {
	s := funded(t)
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	e := participant.New(&faulty{s, func(next func() ([]book.Answer, error), _ []book.Operation) ([]book.Answer, error) {
		once.Do(func() { close(entered); <-release })
		return next()
	}}, participant.Config{Workers: 1, WaitersMax: 1})
	defer e.Close()
	var callers sync.WaitGroup
	callers.Go(func() { _, _ = e.Apply(context.Background(), []book.Operation{op(book.Debit, "held", 1)}) })
	<-entered
	// One may wait; of the next two, at least one finds the queue full.
	errs := make(chan error, 2)
	for _, key := range []names.TransferKey{"k1", "k2"} {
		callers.Go(func() {
			_, err := e.Apply(context.Background(), []book.Operation{op(book.Debit, key, 10)})
			errs <- err
		})
	}
	if err := <-errs; !errors.Is(err, participant.ErrOverloaded) {
		t.Fatalf("got %v", err)
	}
	close(release)
	callers.Wait()
	if err := <-errs; err != nil {
		t.Fatal(err)
	}
	if balance(t, s) != 89 {
		t.Errorf("balance %d, want 89", balance(t, s))
	}
}

// TestACommitOutlivesItsCaller: a caller that goes away loses the answer alone.
func TestACommitOutlivesItsCaller(t *testing.T) {
	s := funded(t)
	entered, release := make(chan struct{}), make(chan struct{})
	e := participant.New(&faulty{s, func(next func() ([]book.Answer, error), _ []book.Operation) ([]book.Answer, error) {
		close(entered)
		<-release
		return next()
	}}, participant.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	var caller sync.WaitGroup
	caller.Go(func() {
		if _, err := e.Apply(ctx, []book.Operation{op(book.Debit, "k", 40)}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	<-entered
	cancel()
	caller.Wait()
	close(release)
	e.Close() // waits for what was taken
	if balance(t, s) != 60 {
		t.Errorf("balance %d, want 60", balance(t, s))
	}
}
