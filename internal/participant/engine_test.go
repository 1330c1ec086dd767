package participant

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/participant/store/mem"
	"giro/internal/stepkey"
)

// faulty decorates a store: apply runs in the store's place and may call it.
type faulty struct {
	store.Store
	apply func(next store.Store, ctx context.Context, operations []book.Operation, limits book.Limits) ([]book.Answer, error)
	calls atomic.Int32
}

func (f *faulty) Apply(ctx context.Context, operations []book.Operation, limits book.Limits) ([]book.Answer, error) {
	f.calls.Add(1)
	return f.apply(f.Store, ctx, operations, limits)
}

// debit makes a debit of 10 from alice.
func debit(key string) book.Operation {
	return book.Operation{Kind: book.Debit, Tenant: "acme", TransferKey: names.TransferKey(key), Step: stepkey.Debit,
		Key:     stepkey.Derive(stepkey.V1, "acme", names.TransferKey(key), stepkey.Debit),
		Account: "alice", Amount: 10, Currency: "USD", Counterparty: "ledger/merchant"}
}

// funded gives books in which alice has 1,000.
func funded(t *testing.T) *mem.Store {
	t.Helper()
	s := mem.New(time.Now)
	open := book.Operation{Kind: book.Open, Tenant: "acme", TransferKey: "fund", Step: "open",
		Key: stepkey.Derive(stepkey.V1, "acme", "fund", "open"), Account: "alice", Currency: "USD"}
	deposit := book.Operation{Kind: book.Deposit, Tenant: "acme", TransferKey: "fund", Step: "deposit",
		Key: stepkey.Derive(stepkey.V1, "acme", "fund", "deposit"), Account: "alice", Amount: 1000, Currency: "USD", Counterparty: "cash"}
	answers, err := s.Apply(t.Context(), []book.Operation{open, deposit}, book.DefaultLimits)
	if err != nil || answers[1].BalanceAfter != 1000 {
		t.Fatalf("%+v, %v", answers, err)
	}
	return s
}

func wantBalance(t *testing.T, s store.Store, want money.Minor) {
	t.Helper()
	a, err := s.Account(t.Context(), book.AccountID{Tenant: "acme", Account: "alice"})
	if err != nil || a.Balance != want {
		t.Fatalf("balance %d, want %d, %v", a.Balance, want, err)
	}
}

func engine(t *testing.T, s store.Store, config Config) *Engine {
	t.Helper()
	e := New(s, config)
	t.Cleanup(e.Close)
	return e
}

// C41: what is transient is run again, inside, and never told to the caller.
func TestC41TransientErrorsRepeat(t *testing.T) {
	f := &faulty{Store: funded(t)}
	f.apply = func(next store.Store, ctx context.Context, o []book.Operation, l book.Limits) ([]book.Answer, error) {
		if f.calls.Load() <= 3 {
			return nil, fmt.Errorf("%w: a deadlock", store.ErrTransient)
		}
		return next.Apply(ctx, o, l)
	}
	answers, err := engine(t, f, Config{}).Apply(t.Context(), []book.Operation{debit("t1")})
	if err != nil || answers[0].Outcome != book.Applied || answers[0].Replayed || f.calls.Load() != 4 {
		t.Fatalf("%+v, %v, %d calls", answers, err, f.calls.Load())
	}
	wantBalance(t, f, 990)
}

// What stays transient for too long is not known, and nothing was decided.
func TestTransientForTooLong(t *testing.T) {
	f := &faulty{Store: funded(t)}
	f.apply = func(store.Store, context.Context, []book.Operation, book.Limits) ([]book.Answer, error) {
		return nil, store.ErrTransient
	}
	answers, err := engine(t, f, Config{RepeatSecondsMax: 1}).Apply(t.Context(), []book.Operation{debit("t1")})
	if !errors.Is(err, store.ErrTransient) || answers != nil || f.calls.Load() < 2 {
		t.Fatalf("%+v, %v, %d calls", answers, err, f.calls.Load())
	}
	wantBalance(t, f, 1000)
}

// C16: the work was done and the answer to COMMIT was lost, each time anew. There
// is one posting, and the caller hears APPLIED.
func TestC16DoneButNotHeard(t *testing.T) {
	f := &faulty{Store: funded(t)}
	f.apply = func(next store.Store, ctx context.Context, o []book.Operation, l book.Limits) ([]book.Answer, error) {
		answers, err := next.Apply(ctx, o, l)
		if err == nil && f.calls.Load() <= 2 {
			return nil, fmt.Errorf("commit: %w", store.ErrTransient)
		}
		return answers, err
	}
	e := engine(t, f, Config{})
	answers, err := e.Apply(t.Context(), []book.Operation{debit("t1")})
	if err != nil || answers[0].Outcome != book.Applied || !answers[0].Replayed || answers[0].BalanceAfter != 990 {
		t.Fatalf("%+v, %v", answers, err)
	}
	wantBalance(t, f, 990)
}

// gate lets the first batch wait until the others have queued up behind it.
type gate struct{ entered, leave chan struct{} }

func newGate() gate { return gate{make(chan struct{}), make(chan struct{})} }

// pass holds the first call.
func (g gate) pass(call int32) {
	if call == 1 {
		close(g.entered)
		<-g.leave
	}
}

// awaitDepth returns when n operations wait.
func awaitDepth(t *testing.T, e *Engine, n int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); e.queue.Depth() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d operations wait, not %d", e.queue.Depth(), n)
		}
	}
}

// applyAll starts one debit for each key.
func applyAll(e *Engine, keys []string) (results []chan error) {
	for _, key := range keys {
		done := make(chan error, 1)
		results = append(results, done)
		go func() {
			answers, err := e.Apply(context.Background(), []book.Operation{debit(key)})
			if err == nil && answers[0].Outcome != book.Applied {
				err = fmt.Errorf("%s: %+v", key, answers[0])
			}
			done <- err
		}()
	}
	return results
}

// A full queue says so before anything is stored.
func TestFullQueue(t *testing.T) {
	g := newGate()
	f := &faulty{Store: funded(t)}
	f.apply = func(next store.Store, ctx context.Context, o []book.Operation, l book.Limits) ([]book.Answer, error) {
		g.pass(f.calls.Load())
		return next.Apply(ctx, o, l)
	}
	// All are of one account, and who waits for one that is held has half the queue.
	e := engine(t, f, Config{Workers: 1, WaitersMax: 4})
	results := applyAll(e, []string{"first"})
	<-g.entered
	results = append(results, applyAll(e, []string{"a", "b"})...)
	awaitDepth(t, e, 2)
	refused := debit("refused")
	if _, err := e.Apply(t.Context(), []book.Operation{refused}); !errors.Is(err, ErrOverloaded) {
		t.Fatalf("%v", err)
	}
	close(g.leave)
	for _, r := range results {
		if err := <-r; err != nil {
			t.Fatal(err)
		}
	}
	if found, err := f.Lookup(t.Context(), refused); err != nil || found.Outcome != book.NotFound {
		t.Fatalf("%+v, %v", found, err)
	}
	wantBalance(t, f, 970)
}

// A caller that goes away while its batch runs loses the answer and nothing else.
func TestCallerGoneAway(t *testing.T) {
	g := newGate()
	f := &faulty{Store: funded(t)}
	f.apply = func(next store.Store, ctx context.Context, o []book.Operation, l book.Limits) ([]book.Answer, error) {
		g.pass(f.calls.Load())
		return next.Apply(ctx, o, l)
	}
	e := New(f, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := e.Apply(ctx, []book.Operation{debit("t1")})
		done <- err
	}()
	<-g.entered
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(g.leave)
	e.Close() // waits for what was taken
	wantBalance(t, f, 990)
	if _, err := e.Apply(t.Context(), []book.Operation{debit("t2")}); !errors.Is(err, ErrClosed) {
		t.Fatalf("after Close: %v", err)
	}
	wantBalance(t, f, 990)
}

// Many callers share few transactions, and each gets its own answer.
func TestManyTogether(t *testing.T) {
	g := newGate()
	f := &faulty{Store: funded(t)}
	f.apply = func(next store.Store, ctx context.Context, o []book.Operation, l book.Limits) ([]book.Answer, error) {
		g.pass(f.calls.Load())
		return next.Apply(ctx, o, l)
	}
	e := engine(t, f, Config{Workers: 1})
	first := applyAll(e, []string{"first"})
	<-g.entered
	const callers = 90
	var wait sync.WaitGroup
	for i := range callers {
		key := fmt.Sprint("t", i/3) // each key three times
		wait.Go(func() {
			asked := debit(key)
			answers, err := e.Apply(context.Background(), []book.Operation{asked})
			if err != nil || answers[0].Outcome != book.Applied || answers[0].Operation != asked {
				t.Errorf("%s: %+v, %v", key, answers, err)
			}
		})
	}
	awaitDepth(t, e, callers)
	close(g.leave)
	wait.Wait()
	if err := <-first[0]; err != nil {
		t.Fatal(err)
	}
	if calls := f.calls.Load(); calls != 2 {
		t.Fatalf("%d transactions for %d requests", calls, callers+1)
	}
	wantBalance(t, f, 1000-10-callers/3*10)
}

// Of a request with many operations, one whose account is being changed just then waits,
// and the others do not wait with it: they are committed while it waits.
func TestOneHeldAccountDoesNotHoldBackTheRequest(t *testing.T) {
	g := newGate()
	f := &faulty{Store: funded(t)}
	f.apply = func(next store.Store, ctx context.Context, o []book.Operation, l book.Limits) ([]book.Answer, error) {
		if o[0].TransferKey == "first" {
			close(g.entered)
			<-g.leave
		}
		return next.Apply(ctx, o, l)
	}
	e := engine(t, f, Config{Workers: 2})
	first := applyAll(e, []string{"first"})
	<-g.entered // alice is held
	var operations []book.Operation
	for i, account := range []names.Account{"bob", "alice", "carol", "alice", "dave"} {
		o := debit(fmt.Sprint("t", i))
		o.Account = account
		if account != "alice" { // which is open
			o.Kind, o.Step, o.Amount, o.Counterparty = book.Open, "open", 0, ""
			o.Key = stepkey.Derive(stepkey.V1, "acme", o.TransferKey, "open")
		}
		operations = append(operations, o)
	}
	type reply struct {
		answers []book.Answer
		err     error
	}
	done := make(chan reply, 1)
	go func() {
		answers, err := e.Apply(context.Background(), operations)
		done <- reply{answers, err}
	}()
	for _, account := range []names.Account{"bob", "carol", "dave"} {
		deadline := time.Now().Add(30 * time.Second)
		for {
			_, err := f.Account(t.Context(), book.AccountID{Tenant: "acme", Account: account})
			if err == nil {
				break
			}
			if !errors.Is(err, store.ErrNotFound) || time.Now().After(deadline) {
				t.Fatalf("%s is not there while alice is held: %v", account, err)
			}
			time.Sleep(time.Millisecond)
		}
	}
	wantBalance(t, f, 1000)
	select {
	case r := <-done:
		t.Fatalf("answered before it was done: %+v, %v", r.answers, r.err)
	default:
	}
	close(g.leave)
	if err := <-first[0]; err != nil {
		t.Fatal(err)
	}
	r := <-done
	if r.err != nil || len(r.answers) != len(operations) {
		t.Fatalf("%+v, %v", r.answers, r.err)
	}
	for i, a := range r.answers {
		if a.Outcome != book.Applied || a.Operation != operations[i] {
			t.Errorf("operation %d: %+v", i, a)
		}
	}
	// Those that share an account are decided in the order in which they were asked.
	if r.answers[1].BalanceAfter != 980 || r.answers[3].BalanceAfter != 970 {
		t.Errorf("alice: %d and then %d", r.answers[1].BalanceAfter, r.answers[3].BalanceAfter)
	}
	wantBalance(t, f, 970)
}
