package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"giro/internal/batch"
)

// gate is a run function that tells of each batch and holds it until it is let
// go, so that a test says what is under way at each moment.
type gate struct {
	started chan []int
	release chan error
}

func newGate() *gate { return &gate{make(chan []int), make(chan error)} }

func (g *gate) run(items []int) ([]int, error) {
	g.started <- slices.Clone(items)
	if err := <-g.release; err != nil {
		return nil, err
	}
	results := make([]int, len(items))
	for i, item := range items {
		results[i] = 10 * item
	}
	return results, nil
}

type answer struct {
	result int
	err    error
}

// ask calls Do on a goroutine of its own and gives where the answer will be.
func ask(ctx context.Context, q *batch.Queue[int, int], item int) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		result, err := q.Do(ctx, item)
		c <- answer{result, err}
	}()
	return c
}

// askInOrder puts items into the queue, each before the next is asked.
func askInOrder(q *batch.Queue[int, int], items ...int) []<-chan answer {
	var answers []<-chan answer
	for _, item := range items {
		answers = append(answers, ask(context.Background(), q, item))
		synctest.Wait()
	}
	return answers
}

func wantStart(t *testing.T, g *gate, want ...int) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-g.started:
		if !slices.Equal(got, want) {
			t.Fatalf("the batch is %v, want %v", got, want)
		}
	default:
		t.Fatalf("nothing is under way, want %v", want)
	}
}

func wantNoStart(t *testing.T, g *gate) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-g.started:
		t.Fatalf("%v is under way, want nothing", got)
	default:
	}
}

func wantAnswer(t *testing.T, c <-chan answer, result int, err error) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-c:
		if got.result != result || !errors.Is(got.err, err) {
			t.Fatalf("the answer is %d, %v, want %d, %v", got.result, got.err, result, err)
		}
	default:
		t.Fatalf("no answer, want %d, %v", result, err)
	}
}

func wantNoAnswer(t *testing.T, c <-chan answer) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-c:
		t.Fatalf("the answer is %d, %v, want none yet", got.result, got.err)
	default:
	}
}

func TestOneAloneGoesAtOnceAndTheRestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := batch.New(batch.Config{Workers: 1, WeightMax: 100, WaitersMax: 100}, nil, g.run)
		first := askInOrder(q, 1)[0]
		wantStart(t, g, 1)
		rest := askInOrder(q, 2, 3, 4)
		wantNoStart(t, g)
		if q.Depth() != 3 {
			t.Errorf("%d wait, want 3", q.Depth())
		}
		wantNoAnswer(t, first)
		g.release <- nil
		wantAnswer(t, first, 10, nil)
		wantStart(t, g, 2, 3, 4)
		if q.Depth() != 0 {
			t.Errorf("%d wait, want 0", q.Depth())
		}
		g.release <- nil
		for i, c := range rest {
			wantAnswer(t, c, 10*(i+2), nil)
		}
		again := askInOrder(q, 5)[0] // quiet again: at once again
		wantStart(t, g, 5)
		g.release <- nil
		wantAnswer(t, again, 50, nil)
		q.Close()
	})
}

func TestWorkersBoundTheBatchesUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := batch.New(batch.Config{Workers: 2, WeightMax: 100, WaitersMax: 100}, nil, g.run)
		first := askInOrder(q, 1)[0]
		wantStart(t, g, 1)
		second := askInOrder(q, 2)[0]
		wantStart(t, g, 2)
		third := askInOrder(q, 3)[0]
		wantNoStart(t, g)
		g.release <- nil // one of the two
		wantStart(t, g, 3)
		g.release <- nil
		g.release <- nil
		wantAnswer(t, first, 10, nil)
		wantAnswer(t, second, 20, nil)
		wantAnswer(t, third, 30, nil)
		q.Close()
	})
}

// An item weighs what its number is. Batches keep the order and the limit; what
// is too heavy goes alone.
func TestWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := batch.New(batch.Config{Workers: 1, WeightMax: 10, WaitersMax: 100}, func(i int) int { return i }, g.run)
		askInOrder(q, 1)
		wantStart(t, g, 1)
		askInOrder(q, 4, 6, 1, 25, 9, 2, 10, 10)
		for _, want := range [][]int{{4, 6}, {1}, {25}, {9}, {2}, {10}, {10}} {
			g.release <- nil
			wantStart(t, g, want...)
		}
		g.release <- nil
		wantNoStart(t, g)
		q.Close()
	})
}

func TestFullQueueRefusesAndStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := batch.New(batch.Config{Workers: 1, WeightMax: 100, WaitersMax: 2}, nil, g.run)
		askInOrder(q, 1)
		wantStart(t, g, 1)
		waiting := askInOrder(q, 2, 3)
		wantAnswer(t, askInOrder(q, 4)[0], 0, batch.ErrFull)
		g.release <- nil
		wantStart(t, g, 2, 3)
		g.release <- nil
		for i, c := range waiting {
			wantAnswer(t, c, 10*(i+2), nil)
		}
		wantNoStart(t, g)
		q.Close()
	})
}

func TestCallerThatGoesAwayBeforeItIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := batch.New(batch.Config{Workers: 1, WeightMax: 100, WaitersMax: 100}, nil, g.run)
		askInOrder(q, 1)
		wantStart(t, g, 1)
		ctx, cancel := context.WithCancel(context.Background())
		gone := ask(ctx, q, 2)
		stays := askInOrder(q, 3)[0]
		cancel()
		wantAnswer(t, gone, 0, context.Canceled)
		g.release <- nil
		wantStart(t, g, 3)
		g.release <- nil
		wantAnswer(t, stays, 30, nil)
		wantNoStart(t, g)
		q.Close()
	})
}

func TestCallerThatHasGoneAlreadyStartsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	q := batch.New(batch.Config{Workers: 1, WeightMax: 100, WaitersMax: 100}, nil, func(items []int) ([]int, error) {
		t.Errorf("%v ran", items)
		return items, nil
	})
	for range 1000 {
		if _, err := q.Do(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	q.Close()
}

// Callers that have all gone must not leave the queue stuck or a worker behind.
func TestAllCallersGoAwayBeforeTheyAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := batch.New(batch.Config{Workers: 1, WeightMax: 100, WaitersMax: 100}, nil, g.run)
		askInOrder(q, 1)
		wantStart(t, g, 1)
		ctx, cancel := context.WithCancel(context.Background())
		a, b := ask(ctx, q, 2), ask(ctx, q, 3)
		synctest.Wait()
		cancel()
		wantAnswer(t, a, 0, context.Canceled)
		wantAnswer(t, b, 0, context.Canceled)
		g.release <- nil
		wantNoStart(t, g)
		next := askInOrder(q, 4)[0]
		wantStart(t, g, 4)
		g.release <- nil
		wantAnswer(t, next, 40, nil)
		q.Close()
	})
}

// Those who have gone do not wait any more: they must not keep others out while a
// slow batch is under way.
func TestCallersThatWentAwayLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := batch.New(batch.Config{Workers: 1, WeightMax: 100, WaitersMax: 2}, nil, g.run)
		askInOrder(q, 1)
		wantStart(t, g, 1)
		ctx, cancel := context.WithCancel(context.Background())
		a, b := ask(ctx, q, 2), ask(ctx, q, 3)
		synctest.Wait()
		cancel()
		wantAnswer(t, a, 0, context.Canceled)
		wantAnswer(t, b, 0, context.Canceled)
		if q.Depth() != 0 {
			t.Errorf("%d wait, want 0", q.Depth())
		}
		waiting := askInOrder(q, 4, 5)
		wantAnswer(t, askInOrder(q, 6)[0], 0, batch.ErrFull)
		g.release <- nil
		wantStart(t, g, 4, 5)
		g.release <- nil
		wantAnswer(t, waiting[0], 40, nil)
		wantAnswer(t, waiting[1], 50, nil)
		q.Close()
	})
}

func TestCallerThatGoesAwayAfterItWasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := batch.New(batch.Config{Workers: 1, WeightMax: 100, WaitersMax: 100}, nil, g.run)
		ctx, cancel := context.WithCancel(context.Background())
		gone := ask(ctx, q, 1)
		wantStart(t, g, 1)
		cancel()
		wantAnswer(t, gone, 0, context.Canceled)
		closed := make(chan struct{})
		go func() { q.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Fatal("Close came back before the batch had run")
		default:
		}
		g.release <- nil // it goes on
		<-closed
	})
}

func TestErrorAnswersAll(t *testing.T) {
	boom := errors.New("boom")
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := batch.New(batch.Config{Workers: 1, WeightMax: 100, WaitersMax: 100}, nil, g.run)
		first := askInOrder(q, 1)[0]
		wantStart(t, g, 1)
		rest := askInOrder(q, 2, 3)
		g.release <- boom
		wantAnswer(t, first, 0, boom)
		wantStart(t, g, 2, 3)
		g.release <- boom
		wantAnswer(t, rest[0], 0, boom)
		wantAnswer(t, rest[1], 0, boom)
		q.Close()
	})
}

// What run gets wrong is an error for every caller of that batch, never a hang, a
// crash or somebody else's answer; the next batch runs as if nothing had been.
func TestFaultyRunAnswersAll(t *testing.T) {
	for name, c := range map[string]struct {
		run  func([]int) ([]int, error)
		want string
	}{
		"panic":            {func([]int) ([]int, error) { panic("out of cheese") }, "out of cheese"},
		"panic with nil":   {func([]int) ([]int, error) { panic(any(nil)) }, "panic"},
		"panic with error": {func([]int) ([]int, error) { panic(errors.New("wrapped")) }, "wrapped"},
		"too few results":  {func(items []int) ([]int, error) { return items[:len(items)-1], nil }, "results for"},
		"too many results": {func(items []int) ([]int, error) { return append(items, 1), nil }, "results for"},
		"no results":       {func([]int) ([]int, error) { return nil, nil }, "results for"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				faulty, hold := true, make(chan struct{})
				q := batch.New(batch.Config{Workers: 1, WeightMax: 100, WaitersMax: 100}, nil, func(items []int) ([]int, error) {
					<-hold
					if faulty {
						return c.run(items)
					}
					return items, nil
				})
				answers := askInOrder(q, 1, 2, 3)
				hold <- struct{}{}
				hold <- struct{}{}
				for i, answers := range answers {
					synctest.Wait()
					if got := <-answers; got.err == nil || got.result != 0 || !strings.Contains(got.err.Error(), c.want) {
						t.Errorf("caller %d: %d, %v, want an error with %q", i, got.result, got.err, c.want)
					}
				}
				faulty = false
				after := askInOrder(q, 7)[0]
				hold <- struct{}{}
				wantAnswer(t, after, 7, nil)
				q.Close()
			})
		})
	}
}

func TestCloseDrainsAndRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		q := batch.New(batch.Config{Workers: 1, WeightMax: 100, WaitersMax: 100}, nil, g.run)
		first := askInOrder(q, 1)[0]
		wantStart(t, g, 1)
		second := askInOrder(q, 2)[0]
		closed := make(chan struct{})
		go func() { q.Close(); close(closed) }()
		synctest.Wait()
		wantAnswer(t, askInOrder(q, 3)[0], 0, batch.ErrClosed)
		g.release <- nil
		wantStart(t, g, 2)
		select {
		case <-closed:
			t.Fatal("Close came back before the last batch had run")
		default:
		}
		g.release <- nil
		<-closed
		wantAnswer(t, first, 10, nil)
		wantAnswer(t, second, 20, nil)
		q.Close() // again: nothing to wait for
		wantAnswer(t, askInOrder(q, 4)[0], 0, batch.ErrClosed)
	})
}

func TestCloseOfAQuietQueue(t *testing.T) {
	q := batch.New(batch.Config{Workers: 1, WeightMax: 1, WaitersMax: 1}, nil, func(items []int) ([]int, error) { return items, nil })
	q.Close()
	if _, err := q.Do(context.Background(), 1); !errors.Is(err, batch.ErrClosed) {
		t.Errorf("%v, want %v", err, batch.ErrClosed)
	}
}

// Many callers at once on several workers, some of whom have gone: each gets its
// own answer or its context's error, and each item runs at most once. Meant for
// the race detector.
func TestManyCallersEachGetTheirOwn(t *testing.T) {
	const callers, rounds = 16, 100
	var mu sync.Mutex
	ran := map[int]int{}
	q := batch.New(batch.Config{Workers: 3, WeightMax: 7, WaitersMax: callers}, nil, func(items []int) ([]string, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(items) == 0 || len(items) > 7 {
			return nil, fmt.Errorf("a batch of %d", len(items))
		}
		results := make([]string, len(items))
		for i, item := range items {
			ran[item]++
			results[i] = fmt.Sprint(item)
		}
		return results, nil
	})
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for round := range rounds {
				item := caller*rounds + round
				ctx, cancel := context.WithCancel(context.Background())
				if round%5 == 0 {
					go cancel()
				}
				got, err := q.Do(ctx, item)
				cancel()
				if err == nil && got != fmt.Sprint(item) || err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("item %d: %q, %v", item, got, err)
				}
				if err == nil && round%5 != 0 {
					mu.Lock()
					times := ran[item]
					mu.Unlock()
					if times != 1 {
						t.Errorf("item %d ran %d times", item, times)
					}
				}
			}
		})
	}
	all.Wait()
	q.Close()
	for item, times := range ran {
		if times > 1 {
			t.Errorf("item %d ran %d times", item, times)
		}
	}
	if q.Depth() != 0 {
		t.Errorf("%d still wait", q.Depth())
	}
}
