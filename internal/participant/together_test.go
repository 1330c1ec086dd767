package participant

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/stepkey"
)

var errPoison = errors.New("value out of range")

// poisons are the ways in which a store fails for good over one operation.
var poisons = map[string]func() ([]book.Answer, error){
	"error":       func() ([]book.Answer, error) { return nil, errPoison },
	"panic":       func() ([]book.Answer, error) { panic(errPoison) },
	"few answers": func() ([]book.Answer, error) { return nil, nil },
}

// isPoison says whether the operation is one that the tests' stores fail over.
func isPoison(o book.Operation) bool { return strings.HasPrefix(string(o.TransferKey), "poison") }

// on moves an operation to another account.
func on(account names.Account, o book.Operation) book.Operation {
	o.Account = account
	return o
}

// failing decorates a store: fail looks at each batch first.
func failing(s store.Store, fail func(operations []book.Operation) error) *faulty {
	return &faulty{Store: s, apply: func(next store.Store, ctx context.Context, o []book.Operation, l book.Limits) ([]book.Answer, error) {
		if err := fail(o); err != nil {
			return nil, err
		}
		return next.Apply(ctx, o, l)
	}}
}

// outcomes runs one request, whose answers must come in order.
func outcomes(t *testing.T, e *Engine, operations []book.Operation) []book.Outcome {
	t.Helper()
	answers, err := e.Apply(t.Context(), operations)
	if err != nil || len(answers) != len(operations) {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	var got []book.Outcome
	for i, a := range answers {
		if a.Key != operations[i].Key {
			t.Errorf("answer %d is that of another operation: %+v", i, a)
		}
		got = append(got, a.Outcome)
	}
	return got
}

// A request that the store fails over for good, in whatever way, gets no answer,
// and its neighbours theirs. The log says what happened.
func TestPoisonedRequestFailsAlone(t *testing.T) {
	for name, poison := range poisons {
		t.Run(name, func(t *testing.T) {
			g := newGate()
			f := &faulty{Store: funded(t)}
			var largest atomic.Int32
			f.apply = func(next store.Store, ctx context.Context, operations []book.Operation, l book.Limits) ([]book.Answer, error) {
				g.pass(f.calls.Load())
				largest.Store(max(largest.Load(), int32(len(operations))))
				for _, o := range operations {
					if isPoison(o) {
						return poison()
					}
				}
				return next.Apply(ctx, operations, l)
			}
			var log bytes.Buffer
			e := New(f, Config{Workers: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			first := applyAll(e, []string{"first"})
			<-g.entered
			keys := []string{"a", "b", "poison", "c", "d"}
			results := applyAll(e, keys)
			awaitDepth(t, e, len(keys))
			close(g.leave)
			if err := <-first[0]; err != nil {
				t.Fatal(err)
			}
			for i, key := range keys {
				if err := <-results[i]; (key == "poison") != (err != nil) || errors.Is(err, store.ErrTransient) {
					t.Errorf("%s: %v", key, err)
				}
			}
			if largest.Load() != int32(len(keys)) {
				t.Fatalf("the largest batch had %d: the test tests nothing", largest.Load())
			}
			e.Close()
			wantBalance(t, f, 950)
			if !strings.Contains(log.String(), "transfer_key=poison") ||
				name == "panic" && !strings.Contains(log.String(), "together_test.go") {
				t.Errorf("the log does not name the operation, or where it panicked:\n%s", &log)
			}
		})
	}
}

// One poisoned operation among many of one request: those before it are done,
// those after it are decided as if it had not been there, and it alone has no
// answer, each time it is asked.
func TestPoisonedOperationFailsAlone(t *testing.T) {
	for name, poison := range poisons {
		t.Run(name, func(t *testing.T) {
			f := &faulty{Store: funded(t)}
			f.apply = func(next store.Store, ctx context.Context, operations []book.Operation, l book.Limits) ([]book.Answer, error) {
				for _, o := range operations {
					if isPoison(o) {
						return poison()
					}
				}
				return next.Apply(ctx, operations, l)
			}
			deposit := book.Operation{Kind: book.Deposit, Tenant: "acme", TransferKey: "poison", Step: "deposit",
				Key: stepkey.Derive(stepkey.V1, "acme", "poison", "deposit"), Account: "alice", Amount: 1000, Currency: "USD", Counterparty: "cash"}
			needsIt := debit("needs-it")
			needsIt.Amount = 1500
			request := []book.Operation{debit("a"), deposit, needsIt, debit("b")}
			e := engine(t, f, Config{})
			want := []book.Outcome{book.Applied, book.Unknown, book.Refused, book.Applied}
			for range 2 {
				if got := outcomes(t, e, request); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%v, want %v", got, want)
				}
				wantBalance(t, f, 980)
			}
			if answers, err := e.Apply(t.Context(), []book.Operation{deposit}); err == nil {
				t.Fatalf("a request of nothing else: %+v", answers)
			}
		})
	}
}

// The database goes away while operations are tried apart: the first that meets it
// ends that, the rest is not tried, and all is over within the one bound.
func TestIsolationIsBounded(t *testing.T) {
	var mu sync.Mutex
	tried := map[names.TransferKey]bool{}
	f := failing(funded(t), func(operations []book.Operation) error {
		if len(operations) > 1 {
			return errPoison
		}
		mu.Lock()
		defer mu.Unlock()
		tried[operations[0].TransferKey] = true
		if len(tried) > 1 {
			return fmt.Errorf("%w: gone", store.ErrTransient)
		}
		return nil
	})
	request := []book.Operation{debit("a")}
	for i := range 20 {
		request = append(request, on(names.Account(fmt.Sprint("a", i)), debit(fmt.Sprint("gone", i))))
	}
	e := New(f, Config{RepeatSecondsMax: 2})
	start := time.Now()
	got := outcomes(t, e, request)
	e.Close()
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	for i, outcome := range got {
		if (outcome == book.Applied) != (i == 0) || (outcome == book.Unknown) != (i > 0) {
			t.Errorf("operation %d: %d", i, outcome)
		}
	}
	if len(tried) != 2 {
		t.Errorf("%d operations were tried, want the one that was done and the one that met the failure", len(tried))
	}
	wantBalance(t, f, 990)
}

// Somebody holds one account's row for as long as it lasts: what needs that
// account gets no answer, all else does, and in time for its callers.
func TestHeldAccountCostsNoOthers(t *testing.T) {
	var mu sync.Mutex
	alone := map[names.TransferKey]bool{}
	f := failing(funded(t), func(operations []book.Operation) error {
		mu.Lock()
		defer mu.Unlock()
		for _, o := range operations {
			if o.Account == "held" {
				alone[o.TransferKey] = alone[o.TransferKey] || len(operations) == 1
				return fmt.Errorf("%w: a lock was not had in time", store.ErrTransient)
			}
		}
		return nil
	})
	e := engine(t, f, Config{RepeatSecondsMax: 4})
	request := []book.Operation{debit("a"), on("held", debit("h1")), debit("b"), on("held", debit("h2")), debit("c")}
	start := time.Now()
	got := outcomes(t, e, request)
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("it took %v: too long for callers", took)
	}
	want := []book.Outcome{book.Applied, book.Unknown, book.Applied, book.Unknown, book.Applied}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	if !alone["h1"] || alone["h2"] {
		t.Errorf("tried by themselves: %v, want the account's first alone", alone)
	}
	wantBalance(t, f, 970)
}

// Where nothing at all gets through, no row is to blame: what was tried apart is
// tried together again, and done when the database is back.
func TestDatabaseBackInTime(t *testing.T) {
	var mu sync.Mutex
	apart, back := false, false
	f := failing(funded(t), func(operations []book.Operation) error {
		mu.Lock()
		defer mu.Unlock()
		apart = apart || len(operations) == 1
		back = back || apart && len(operations) > 1
		if back {
			return nil
		}
		return fmt.Errorf("%w: gone", store.ErrTransient)
	})
	got := outcomes(t, engine(t, f, Config{RepeatSecondsMax: 2}), []book.Operation{debit("a"), debit("b")})
	if got[0] != book.Applied || got[1] != book.Applied || !back {
		t.Fatalf("%v", got)
	}
	wantBalance(t, f, 980)
}
