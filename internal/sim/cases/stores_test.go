package cases

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"giro/internal/dbtest"
	"giro/internal/names"
	"giro/internal/participant/book"
	bookstore "giro/internal/participant/store"
	bookmem "giro/internal/participant/store/mem"
	bookpostgres "giro/internal/participant/store/postgres"
	booksqlite "giro/internal/participant/store/sqlite"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
	sagamem "giro/orchestrator/store/mem"
	sagapostgres "giro/orchestrator/store/postgres"
	sagasqlite "giro/orchestrator/store/sqlite"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// backend makes fresh stores of one kind.
type backend struct {
	name  string
	books func(t *testing.T) bookstore.Store
	sagas func(t *testing.T) store.Store
}

func dbClock() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

var memory = backend{"memory",
	func(*testing.T) bookstore.Store { return bookmem.New(dbClock) },
	func(*testing.T) store.Store { return sagamem.New(dbClock) }}

var sqlite = backend{"sqlite",
	func(t *testing.T) bookstore.Store {
		path := dbtest.SQLite(t)
		_, err := booksqlite.Migrate(t.Context(), path)
		return opened(t, err, func() (bookstore.Store, error) { return booksqlite.Open(t.Context(), path) })
	},
	func(t *testing.T) store.Store {
		path := dbtest.SQLite(t)
		_, err := sagasqlite.Migrate(t.Context(), path)
		return opened(t, err, func() (store.Store, error) { return sagasqlite.Open(t.Context(), path) })
	}}

var postgres = backend{"postgres",
	func(t *testing.T) bookstore.Store {
		url := dbtest.Postgres(t)
		_, err := bookpostgres.Migrate(t.Context(), url)
		return opened(t, err, func() (bookstore.Store, error) { return bookpostgres.Open(t.Context(), url) })
	},
	func(t *testing.T) store.Store {
		url := dbtest.Postgres(t)
		_, err := sagapostgres.Migrate(t.Context(), url)
		return opened(t, err, func() (store.Store, error) { return sagapostgres.Open(t.Context(), url) })
	}}

// opened opens a migrated store, which closes with the test.
func opened[S interface{ Close() error }](t *testing.T, err error, open func() (S, error)) S {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	s, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// onAll plays a test on every backend.
func onAll(t *testing.T, play func(t *testing.T, b backend)) {
	onTwo(t, play)
	t.Run(postgres.name, func(t *testing.T) { play(t, postgres) })
}

// onTwo leaves PostgreSQL out, where three fresh databases for each test cost
// seconds: it is for tests that hang on the services and not on the stores.
func onTwo(t *testing.T, play func(t *testing.T, b backend)) {
	for _, b := range []backend{memory, sqlite} {
		t.Run(b.name, func(t *testing.T) { play(t, b) })
	}
}

var errDead = errors.New("the process that asks is dead")

// life is a replica's store, which the test can put to sleep or kill: once dead,
// nothing that the replica still does lands anywhere.
type life struct {
	store.Store

	mu     sync.Mutex
	dead   bool
	asleep chan struct{} // not nil: calls wait until it is closed
}

func (l *life) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	if l.asleep != nil {
		close(l.asleep)
		l.asleep = nil
	}
}

func (l *life) sleep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asleep = make(chan struct{})
}

func (l *life) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.asleep)
	l.asleep = nil
}

// alive waits while asleep, and fails once dead.
func (l *life) alive() error {
	l.mu.Lock()
	asleep := l.asleep
	l.mu.Unlock()
	if asleep != nil {
		<-asleep
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return errDead
	}
	return nil
}

// around runs a store's call within a life: asleep, no deadline passes either.
func around[A any](l *life, ctx context.Context, call func(context.Context) (A, error)) (A, error) {
	var none A
	if err := l.alive(); err != nil {
		return none, err
	}
	a, err := call(context.WithoutCancel(ctx))
	if dead := l.alive(); dead != nil {
		return none, dead // it was done, and nobody hears of it
	}
	return a, err
}

func (l *life) Insert(ctx context.Context, owner string, sagas []store.New) ([]store.Inserted, error) {
	return around(l, ctx, func(ctx context.Context) ([]store.Inserted, error) { return l.Store.Insert(ctx, owner, sagas) })
}

func (l *life) Lookup(ctx context.Context, id saga.ID) (saga.Saga, error) {
	return around(l, ctx, func(ctx context.Context) (saga.Saga, error) { return l.Store.Lookup(ctx, id) })
}

func (l *life) Save(ctx context.Context, writes []store.Write) ([]store.Saved, error) {
	return around(l, ctx, func(ctx context.Context) ([]store.Saved, error) { return l.Store.Save(ctx, writes) })
}

func (l *life) AskCancel(ctx context.Context, id saga.ID) (saga.Saga, error) {
	return around(l, ctx, func(ctx context.Context) (saga.Saga, error) { return l.Store.AskCancel(ctx, id) })
}

func (l *life) Claim(ctx context.Context, owner string, limit int, strayAfter time.Duration) ([]saga.Saga, error) {
	return around(l, ctx, func(ctx context.Context) ([]saga.Saga, error) { return l.Store.Claim(ctx, owner, limit, strayAfter) })
}

func (l *life) Renew(ctx context.Context, owner string, lease time.Duration) (time.Time, error) {
	return around(l, ctx, func(ctx context.Context) (time.Time, error) { return l.Store.Renew(ctx, owner, lease) })
}

func (l *life) Release(ctx context.Context, owner string) error {
	_, err := around(l, ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, l.Store.Release(ctx, owner) })
	return err
}

// books are a participant's, which can be made to fail: for good, before or
// after the work was done.
type books struct {
	bookstore.Store

	mu            sync.Mutex
	before, after error
}

func (b *books) fail(before, after error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.before, b.after = before, after
}

func (b *books) Apply(ctx context.Context, operations []book.Operation, limits book.Limits) ([]book.Answer, error) {
	b.mu.Lock()
	before, after := b.before, b.after
	b.mu.Unlock()
	if before != nil {
		return nil, before
	}
	answers, err := b.Store.Apply(ctx, operations, limits)
	if after != nil {
		return nil, after
	}
	return answers, err
}

func sagaID(tenant, key string) saga.ID {
	return saga.ID{Tenant: names.Tenant(tenant), Key: names.TransferKey(key)}
}
