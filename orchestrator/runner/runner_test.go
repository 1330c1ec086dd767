package runner_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"giro/internal/fingerprint"
	"giro/internal/names"
	"giro/orchestrator/runner"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
	"giro/orchestrator/store/mem"
)

// yes is a participant that applies everything, once it is let.
type yes struct {
	let   chan struct{}
	calls atomic.Int64
}

func (y *yes) Call(ctx context.Context, r saga.Request) saga.Answer {
	y.calls.Add(1)
	select {
	case <-y.let:
	case <-ctx.Done():
		return saga.Answer{Error: ctx.Err().Error()}
	}
	return saga.Answer{Outcome: saga.OutcomeApplied, Key: r.Key, Amount: r.Amount, AmountMoved: r.Amount}
}

func letting() *yes {
	y := &yes{let: make(chan struct{})}
	close(y.let)
	return y
}

// lossy is a store whose next calls fail after they were done.
type lossy struct {
	store.Store
	inserts, claims atomic.Int64
}

var errLost = errors.New("the answer was lost")

func (l *lossy) Insert(ctx context.Context, owner string, sagas []store.New) ([]store.Inserted, error) {
	inserted, err := l.Store.Insert(ctx, owner, sagas)
	if err == nil && l.inserts.Add(-1) >= 0 {
		return nil, errLost
	}
	return inserted, err
}

func (l *lossy) Claim(ctx context.Context, owner string, limit int, stray time.Duration) ([]saga.Saga, error) {
	sagas, err := l.Store.Claim(ctx, owner, limit, stray)
	if err == nil && len(sagas) > 0 && l.claims.Add(-1) >= 0 {
		return nil, errLost
	}
	return sagas, err
}

func launch(t *testing.T, owner string, s store.Store, peer runner.Peer, settings runner.Settings) *runner.Runner {
	t.Helper()
	r := runner.New(runner.Config{Owner: owner, Store: s, Settings: settings, InsertSecondsMax: 5,
		Peers: map[names.Participant]runner.Peer{"a": peer, "b": peer}})
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func stop(r *runner.Runner) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	r.Close(ended)
}

func transfer(key names.TransferKey) store.New {
	return store.New{Saga: saga.New(saga.ID{Tenant: "t", Key: key},
		fingerprint.Contents{Source: "a/x", Destination: "b/y", Amount: 40, Currency: "USD"}, false)}
}

// until waits for a state in the store, on outcomes alone.
func until(t *testing.T, s store.Store, id saga.ID, state saga.State) saga.Saga {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		row, err := s.Lookup(t.Context(), id)
		if err == nil && row.State == state {
			return row
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %q (%v), want %s", id.Key, row.State, err, state)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// quick settings scale every wait by one factor.
var quick = runner.Settings{Lease: 200 * time.Millisecond, SweepEvery: 20 * time.Millisecond, StrayAfter: 100 * time.Millisecond,
	BackoffMin: time.Millisecond, BackoffMax: 10 * time.Millisecond}

func TestAnInsertWhoseAnswerIsLostIsCarriedOut(t *testing.T) {
	s := &lossy{Store: mem.New(time.Now)}
	s.inserts.Store(1)
	r := launch(t, "one", s, letting(), quick)
	defer stop(r)
	if _, err := r.Insert(t.Context(), transfer("k")); err != nil {
		t.Fatal(err)
	}
	until(t, s, transfer("k").ID, saga.Completed)
}

func TestAnInsertThatIsGivenUpButStoredIsCarriedOut(t *testing.T) {
	s := &lossy{Store: mem.New(time.Now)}
	s.inserts.Store(1 << 40)
	r := launch(t, "one", s, letting(), quick)
	defer stop(r)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.Insert(ctx, transfer("k")); err == nil {
		t.Fatal("want an error: nothing is known")
	}
	until(t, s, transfer("k").ID, saga.Completed)
}

// held is a store that holds the answer of one insert back.
type held struct {
	store.Store
	armed     atomic.Bool
	got, free chan struct{}
}

func (h *held) Insert(ctx context.Context, owner string, sagas []store.New) ([]store.Inserted, error) {
	inserted, err := h.Store.Insert(ctx, owner, sagas)
	if h.armed.CompareAndSwap(true, false) {
		close(h.got)
		<-h.free
	}
	return inserted, err
}

// TestC55ARepeatedInsertStartsNothingAnew: the row that it found may be older than
// what has become of the transfer since, even final.
func TestC55ARepeatedInsertStartsNothingAnew(t *testing.T) {
	s := &held{Store: mem.New(time.Now), got: make(chan struct{}), free: make(chan struct{})}
	peer := &yes{let: make(chan struct{})}
	r := launch(t, "one", s, peer, quick)
	if _, err := r.Insert(t.Context(), transfer("k")); err != nil {
		t.Fatal(err)
	}
	s.armed.Store(true)
	var repeated sync.WaitGroup
	repeated.Go(func() {
		if in, err := r.Insert(t.Context(), transfer("k")); err != nil || in.Created || in.Saga.State != saga.Debiting {
			t.Errorf("%+v, %v", in, err)
		}
	})
	<-s.got
	close(peer.let)
	until(t, s, transfer("k").ID, saga.Completed)
	calls := peer.calls.Load()
	close(s.free)
	repeated.Wait()
	stop(r)
	if now := peer.calls.Load(); now != calls {
		t.Errorf("%d calls for a transfer that was final", now-calls)
	}
}

// TestTheDatabasesClockAloneCounts: whether it is set back or was ahead for a while.
func TestTheDatabasesClockAloneCounts(t *testing.T) {
	var ahead, renewals atomic.Int64
	s := &counting{Store: mem.New(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }), renewals: &renewals}
	r := launch(t, "one", s, letting(), quick)
	defer stop(r)
	for i, jump := range []time.Duration{time.Hour, 0, -time.Hour} {
		ahead.Store(int64(jump))
		for seen := renewals.Load(); renewals.Load() < seen+2; {
			<-time.After(time.Millisecond)
		}
		n := transfer(names.TransferKey(fmt.Sprint("k", i)))
		n.Expiry = time.Minute
		if _, err := r.Insert(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if row := until(t, s, n.ID, saga.Completed); len(row.Steps) != 2 {
			t.Errorf("clock ahead by %s: it took %+v", jump, row.Steps)
		}
	}
}

// counting counts renewals.
type counting struct {
	store.Store
	renewals *atomic.Int64
}

func (c *counting) Renew(ctx context.Context, owner string, lease time.Duration) (time.Time, error) {
	defer c.renewals.Add(1)
	return c.Store.Renew(ctx, owner, lease)
}

func TestAClaimWhoseAnswerIsLostIsMadeAgain(t *testing.T) {
	s := &lossy{Store: mem.New(time.Now)}
	if _, err := s.Store.Insert(t.Context(), "nobody", []store.New{transfer("k")}); err != nil {
		t.Fatal(err)
	}
	s.claims.Store(2)
	r := launch(t, "one", s, letting(), quick)
	defer stop(r)
	until(t, s, transfer("k").ID, saga.Completed)
}

func TestAClientThatHangsUpStopsNothing(t *testing.T) {
	s := mem.New(time.Now)
	peer := &yes{let: make(chan struct{})}
	r := launch(t, "one", s, peer, quick)
	defer stop(r)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := r.Insert(ctx, transfer("k")); err != nil {
		t.Fatal(err)
	}
	cancel()
	close(peer.let)
	until(t, s, transfer("k").ID, saga.Completed)
}

func TestAClosedReplicaGivesItsSagasBackAtOnce(t *testing.T) {
	s := mem.New(time.Now)
	stuck := &yes{let: make(chan struct{})}
	slow := quick
	slow.Lease = time.Hour // only giving back can free it in time
	first := launch(t, "one", s, stuck, slow)
	if _, err := first.Insert(t.Context(), transfer("k")); err != nil {
		t.Fatal(err)
	}
	stop(first)
	second := launch(t, "two", s, letting(), quick)
	defer stop(second)
	if row := until(t, s, transfer("k").ID, saga.Completed); row.Epoch != 2 || row.Owner != "two" {
		t.Fatalf("owner %s, epoch %d", row.Owner, row.Epoch)
	}
	if _, err := first.Insert(t.Context(), transfer("k2")); !errors.Is(err, runner.ErrClosed) {
		t.Fatalf("a closed runner: %v", err)
	}
}

func TestCloseLetsWhatIsUnderWayEnd(t *testing.T) {
	s := mem.New(time.Now)
	peer := &yes{let: make(chan struct{})}
	r := launch(t, "one", s, peer, quick)
	if _, err := r.Insert(t.Context(), transfer("k")); err != nil {
		t.Fatal(err)
	}
	var closing sync.WaitGroup
	closing.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		r.Close(ctx)
	})
	close(peer.let)
	closing.Wait()
	if row, err := s.Lookup(t.Context(), transfer("k").ID); err != nil || row.State != saga.Completed {
		t.Fatalf("%+v, %v", row, err)
	}
}

func TestWatchersHearTheEndOnce(t *testing.T) {
	s := mem.New(time.Now)
	r := launch(t, "one", s, letting(), quick)
	defer stop(r)
	var watching sync.WaitGroup
	for range 10 {
		settled, end := r.Watch(transfer("k").ID)
		watching.Go(func() {
			defer end()
			select {
			case row := <-settled:
				if row.State != saga.Completed {
					t.Errorf("heard %s", row.State)
				}
			case <-time.After(20 * time.Second):
				t.Error("heard nothing")
			}
		})
	}
	if _, err := r.Insert(t.Context(), transfer("k")); err != nil {
		t.Fatal(err)
	}
	watching.Wait()
}

// picky is a store that refuses one key, for a reason that nobody foresaw.
type picky struct {
	store.Store
	key names.TransferKey
}

var errRefused = errors.New("a constraint that nobody foresaw")

func (p *picky) Insert(ctx context.Context, owner string, sagas []store.New) ([]store.Inserted, error) {
	for _, s := range sagas {
		if s.Key == p.key {
			return nil, errRefused
		}
	}
	return p.Store.Insert(ctx, owner, sagas)
}

func (p *picky) Save(ctx context.Context, writes []store.Write) ([]store.Saved, error) {
	for _, w := range writes {
		if w.Saga.Key == p.key {
			return nil, errRefused
		}
	}
	return p.Store.Save(ctx, writes)
}

func TestAPoisonedSagaKeepsNobodyElseWaiting(t *testing.T) {
	inner := mem.New(time.Now)
	if _, err := inner.Insert(t.Context(), "nobody", []store.New{transfer("poisoned")}); err != nil {
		t.Fatal(err)
	}
	r := launch(t, "one", &picky{inner, "poisoned"}, letting(), quick)
	defer stop(r)
	var callers sync.WaitGroup
	for _, key := range []names.TransferKey{"1", "2", "3", "4", "5", "poisoned"} {
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if _, err := r.Insert(ctx, transfer(key)); (err != nil) != (key == "poisoned") {
				t.Errorf("%s: %v", key, err)
			}
		})
	}
	for _, key := range []names.TransferKey{"1", "2", "3", "4", "5"} {
		until(t, inner, transfer(key).ID, saga.Completed)
	}
	callers.Wait()
	if row, err := inner.Lookup(t.Context(), transfer("poisoned").ID); err != nil || row.State.Final() {
		t.Errorf("%+v, %v", row, err)
	}
}

// TestARefusedInsertHoldsNobodyUp: it is tried again for its own caller alone.
func TestARefusedInsertHoldsNobodyUp(t *testing.T) {
	r := launch(t, "one", &picky{mem.New(time.Now), "poisoned"}, letting(), quick)
	defer stop(r)
	ended, end := context.WithCancel(t.Context())
	var poisoned, others sync.WaitGroup
	for range 8 {
		poisoned.Go(func() {
			if _, err := r.Insert(ended, transfer("poisoned")); err == nil {
				t.Error("it was stored")
			}
		})
	}
	for i := range 200 {
		others.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			if _, err := r.Insert(ctx, transfer(names.TransferKey(fmt.Sprint("k", i)))); err != nil {
				t.Error(err)
			}
		})
	}
	others.Wait()
	end()
	poisoned.Wait()
}

// TestATransferThatWaitsForItsNextAttemptIsHandedOver at once when its replica
// closes.
func TestATransferThatWaitsForItsNextAttemptIsHandedOver(t *testing.T) {
	s := mem.New(time.Now)
	slow := quick
	slow.BackoffMin, slow.BackoffMax = time.Hour, time.Hour
	r := launch(t, "one", s, down{}, slow)
	if _, err := r.Insert(t.Context(), transfer("k")); err != nil {
		t.Fatal(err)
	}
	for {
		if row, err := s.Lookup(t.Context(), transfer("k").ID); err == nil && len(row.Steps) > 0 {
			break
		}
		<-time.After(time.Millisecond)
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r.Close(ctx)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
}

// down is a participant that does not answer.
type down struct{}

func (down) Call(context.Context, saga.Request) saga.Answer { return saga.Answer{Error: "down"} }
