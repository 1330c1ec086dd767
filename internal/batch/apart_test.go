package batch_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"giro/internal/batch"
)

// lastDigit is an item's one key.
func lastDigit(item int) []uint64 { return []uint64{uint64(item % 10)} }

func TestItemsOfAKeyThatIsHeldWaitAndOthersPassThemBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := batch.New(batch.Config{Workers: 2, WeightMax: 3, WaitersMax: 100}, nil, g.run)
		q.KeepApart(lastDigit)
		askInOrder(q, 11)
		wantStart(t, g, 11)
		answers := askInOrder(q, 21, 31, 2)
		wantStart(t, g, 2) // by the other worker, past those of key 1
		answers = append(answers, askInOrder(q, 41, 3, 51)...)
		wantNoStart(t, g)
		g.release <- nil
		g.release <- nil
		synctest.Wait()
		var started [][]int
		for range 2 {
			started = append(started, <-g.started)
			synctest.Wait()
		}
		// Whoever is first takes key 1 in its order; the other one, key 3.
		slices.SortFunc(started, func(a, b []int) int { return a[0] - b[0] })
		if !slices.Equal(slices.Concat(started...), []int{3, 21, 31, 41}) && !slices.Equal(slices.Concat(started...), []int{21, 31, 41, 3}) {
			t.Errorf("started %v", started)
		}
		g.release <- nil
		g.release <- nil
		wantStart(t, g, 51)
		g.release <- nil
		for i, item := range []int{21, 31, 2, 41, 3, 51} {
			wantAnswer(t, answers[i], 10*item, nil)
		}
	})
}

// TestKeysAreNeverInTwoBatchesAtOnce, each key's items run in order, and all are
// answered, however they come.
func TestKeysAreNeverInTwoBatchesAtOnce(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 1))
		var mu sync.Mutex
		held, last, largest := map[uint64]bool{}, map[uint64]int{}, 0
		q := batch.New(batch.Config{Workers: 4, WeightMax: 8, WaitersMax: 10_000}, nil, func(items []int) ([]int, error) {
			mu.Lock()
			keys := map[uint64]bool{}
			for _, item := range items {
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
			largest = max(largest, len(items))
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
		for item := 1; item <= 2000; item++ {
			callers.Go(func() {
				if got, err := q.Do(context.Background(), item); err != nil || got != item {
					t.Errorf("%d: %d, %v", item, got, err)
				}
			})
			synctest.Wait() // so that they come in order
		}
		callers.Wait()
		q.Close()
		if largest < 2 {
			t.Error("nothing went together")
		}
	})
}

// twoKeys are of few, so that items meet.
func twoKeys(item int) []uint64 { return []uint64{uint64(item % 7), uint64(100 + item%5)} }

// TestWhoLeavesWakesWhoWaitedBehind: an item that shares nothing with what runs goes
// at once when the one before it has left.
func TestWhoLeavesWakesWhoWaitedBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := batch.New(batch.Config{Workers: 2, WeightMax: 10, WaitersMax: 100}, nil, g.run)
		q.KeepApart(func(item int) []uint64 {
			if item == 12 {
				return []uint64{1, 2}
			}
			return []uint64{uint64(item)}
		})
		askInOrder(q, 1)
		wantStart(t, g, 1)
		ctx, leave := context.WithCancel(context.Background())
		ask(ctx, q, 12) // waits for 1
		synctest.Wait()
		last := ask(context.Background(), q, 2) // behind 12
		wantNoStart(t, g)
		leave()
		wantStart(t, g, 2)
		g.release <- nil
		g.release <- nil
		wantAnswer(t, last, 20, nil)
	})
}

// TestOneKeyDoesNotFillTheQueue: those who wait for what is held have half of it.
func TestOneKeyDoesNotFillTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := batch.New(batch.Config{Workers: 2, WeightMax: 10, WaitersMax: 4}, nil, g.run)
		q.KeepApart(lastDigit)
		answers := askInOrder(q, 1, 11, 21)
		wantStart(t, g, 1)
		wantAnswer(t, askInOrder(q, 31)[0], 0, batch.ErrFull)
		other := askInOrder(q, 2)
		wantStart(t, g, 2)
		g.release <- nil
		g.release <- nil
		wantStart(t, g, 11, 21)
		g.release <- nil
		wantAnswer(t, answers[2], 210, nil)
		wantAnswer(t, other[0], 20, nil)
	})
}
