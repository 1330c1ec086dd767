package batch_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"giro/internal/batch"
)

type answers struct {
	outcomes []batch.Outcome[int]
	err      error
}

// askAll calls DoAll on a goroutine of its own and gives where the answer will be.
func askAll(ctx context.Context, q *batch.Queue[int, int], items ...int) <-chan answers {
	c := make(chan answers, 1)
	go func() {
		outcomes, err := q.DoAll(ctx, items)
		c <- answers{outcomes, err}
	}()
	synctest.Wait()
	return c
}

// wantAll: every item has ten times itself for its result, in the order of asking.
func wantAll(t *testing.T, c <-chan answers, items ...int) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-c:
		if got.err != nil || len(got.outcomes) != len(items) {
			t.Fatalf("%d outcomes, %v, want those of %v", len(got.outcomes), got.err, items)
		}
		for i, o := range got.outcomes {
			if o.Err != nil || o.Result != 10*items[i] {
				t.Errorf("item %d: %d, %v", items[i], o.Result, o.Err)
			}
		}
	default:
		t.Fatalf("no answer for %v", items)
	}
}

func wantRefused(t *testing.T, c <-chan answers, err error) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-c:
		if got.outcomes != nil || !errors.Is(got.err, err) {
			t.Fatalf("%v, %v, want %v", got.outcomes, got.err, err)
		}
	default:
		t.Fatalf("no answer, want %v", err)
	}
}

// TestItemsOfOneCallWaitForNoMoreThanTheirOwn: one item's key is held; the others go,
// and so do those of other callers. The call is answered when the last one is done.
func TestItemsOfOneCallWaitForNoMoreThanTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := batch.New(batch.Config{Workers: 2, WeightMax: 100, WaitersMax: 100}, nil, g.run)
		q.KeepApart(lastDigit)
		first := askInOrder(q, 1)[0]
		wantStart(t, g, 1)
		all := askAll(t.Context(), q, 2, 11, 3, 21, 12)
		wantStart(t, g, 2, 3, 12)
		g.release <- nil // either of the two
		g.release <- nil
		wantAnswer(t, first, 10, nil)
		wantStart(t, g, 11, 21)
		select {
		case got := <-all:
			t.Fatalf("answered before it was done: %v", got)
		default:
		}
		g.release <- nil
		wantAll(t, all, 2, 11, 3, 21, 12)
		q.Close()
	})
}

// TestCallOfNoItems is answered with none, and runs nothing.
func TestCallOfNoItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := batch.New(batch.Config{Workers: 1, WeightMax: 100, WaitersMax: 100}, nil, g.run)
		wantAll(t, askAll(t.Context(), q))
		wantNoStart(t, g)
		q.Close()
	})
}

// TestCallIsTakenOnWholeOrNotAtAll: a queue that has room takes all items, beyond its
// bound if need be; one that has none takes none, and neither does one that is closed.
func TestCallIsTakenOnWholeOrNotAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := batch.New(batch.Config{Workers: 1, WeightMax: 100, WaitersMax: 2}, nil, g.run)
		askInOrder(q, 1)
		wantStart(t, g, 1)
		all := askAll(t.Context(), q, 2, 3, 4)
		if q.Depth() != 3 {
			t.Fatalf("%d wait, want 3", q.Depth())
		}
		wantRefused(t, askAll(t.Context(), q, 5, 6), batch.ErrFull)
		g.release <- nil
		wantStart(t, g, 2, 3, 4)
		g.release <- nil
		wantAll(t, all, 2, 3, 4)
		wantNoStart(t, g)
		q.Close()
		wantRefused(t, askAll(t.Context(), q, 7, 8), batch.ErrClosed)
	})
}

// TestHalfTheQueueIsForCallsThatWaitForNothingHeld holds for a call of which one item
// waits for what is held.
func TestHalfTheQueueIsForCallsThatWaitForNothingHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := batch.New(batch.Config{Workers: 2, WeightMax: 100, WaitersMax: 4}, nil, g.run)
		q.KeepApart(lastDigit)
		askInOrder(q, 1)
		wantStart(t, g, 1)
		waits := askInOrder(q, 11, 21)
		wantRefused(t, askAll(t.Context(), q, 2, 31), batch.ErrFull)
		wantNoStart(t, g)
		others := askAll(t.Context(), q, 2, 3)
		wantStart(t, g, 2, 3)
		g.release <- nil
		g.release <- nil
		wantAll(t, others, 2, 3)
		wantStart(t, g, 11, 21)
		g.release <- nil
		wantAnswer(t, waits[1], 210, nil)
		q.Close()
	})
}

// TestCallerOfSeveralThatGoesAway: what was taken goes on, the rest is dropped and
// leaves its room to others.
func TestCallerOfSeveralThatGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := batch.New(batch.Config{Workers: 1, WeightMax: 2, WaitersMax: 100}, nil, g.run)
		ctx, leave := context.WithCancel(t.Context())
		gone := askAll(ctx, q, 1, 2, 3, 4)
		wantStart(t, g, 1, 2)
		stays := askInOrder(q, 5)[0]
		leave()
		wantRefused(t, gone, context.Canceled)
		if q.Depth() != 1 {
			t.Errorf("%d wait, want 1", q.Depth())
		}
		g.release <- nil // to its end, though nobody hears of it
		wantStart(t, g, 5)
		g.release <- nil
		wantAnswer(t, stays, 50, nil)
		wantNoStart(t, g)
		q.Close()
	})
}

// TestWhatFailsOfACallIsTold, each item on its own: the batches they were in differ.
func TestWhatFailsOfACallIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := batch.New(batch.Config{Workers: 1, WeightMax: 2, WaitersMax: 100}, nil, g.run)
		all := askAll(t.Context(), q, 1, 2, 3)
		wantStart(t, g, 1, 2)
		failed := errors.New("the first batch")
		g.release <- failed
		wantStart(t, g, 3)
		g.release <- nil
		synctest.Wait()
		got := <-all
		if got.err != nil || len(got.outcomes) != 3 {
			t.Fatalf("%v, %v", got.outcomes, got.err)
		}
		for i, want := range []batch.Outcome[int]{{Err: failed}, {Err: failed}, {Result: 30}} {
			if got.outcomes[i] != want {
				t.Errorf("item %d: %v, want %v", i+1, got.outcomes[i], want)
			}
		}
		q.Close()
	})
}

// TestCallsOfManyItemsKeepTheOrderOfEachKey, whatever else goes on: items of one key run
// in the order in which they were asked, across calls and within them, never two batches
// at once, and none is lost when callers leave.
func TestCallsOfManyItemsKeepTheOrderOfEachKey(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 2))
		var mu sync.Mutex
		held, last, ran := map[uint64]bool{}, map[uint64]int{}, map[int]int{}
		q := batch.New(batch.Config{Workers: 4, WeightMax: 8, WaitersMax: 100_000}, nil, func(items []int) ([]int, error) {
			mu.Lock()
			keys := map[uint64]bool{}
			for _, item := range items {
				ran[item]++
				for _, k := range twoKeys(item) {
					if held[k] {
						t.Errorf("key %d is in two batches at once", k)
					}
					if item < last[k] {
						t.Errorf("%d of key %d runs after %d", item, k, last[k])
					}
					keys[k], last[k] = true, item
				}
			}
			for k := range keys {
				held[k] = true
			}
			pause := time.Duration(random.IntN(5)) * time.Millisecond
			mu.Unlock()
			<-time.After(pause)
			mu.Lock()
			defer mu.Unlock()
			for k := range keys {
				delete(held, k)
			}
			return items, nil
		})
		q.KeepApart(twoKeys)
		var callers sync.WaitGroup
		next, stayed := 1, []int{}
		for range 200 {
			mu.Lock()
			items := make([]int, 1+random.IntN(12))
			leaves := random.IntN(4) == 0
			mu.Unlock()
			for i := range items {
				items[i] = next
				next++
			}
			ctx, leave := context.WithCancel(t.Context())
			if leaves {
				time.AfterFunc(time.Millisecond, leave)
			} else {
				stayed = append(stayed, items...)
			}
			callers.Go(func() {
				defer leave()
				outcomes, err := q.DoAll(ctx, items)
				if leaves && errors.Is(err, context.Canceled) {
					return
				}
				if err != nil {
					t.Errorf("%v: %v", items, err)
					return
				}
				got := make([]int, len(outcomes))
				for i, o := range outcomes {
					got[i] = o.Result
				}
				if !slices.Equal(got, items) {
					t.Errorf("asked %v, got %v", items, got)
				}
			})
			synctest.Wait() // so that they come in order
		}
		callers.Wait()
		q.Close()
		for item, times := range ran {
			if times != 1 {
				t.Errorf("%d ran %d times", item, times)
			}
		}
		for _, item := range stayed {
			if ran[item] == 0 {
				t.Errorf("%d never ran", item)
			}
		}
	})
}
