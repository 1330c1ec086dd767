package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"giro/internal/dbtest"
	"giro/internal/fingerprint"
	"giro/internal/names"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
)

const owner = "replica-1"

func fresh(key string) store.New {
	contents := fingerprint.Contents{Source: "accounts/alice", Destination: "ledger/bob", Amount: 4000, Currency: "USD"}
	return store.New{Saga: saga.New(saga.ID{Tenant: "acme", Key: names.TransferKey(key)}, contents, false)}
}

// insert stores one saga, asking again until it is answered.
func insert(ctx context.Context, s *Store, key string) (saga.Saga, error) {
	for {
		inserted, err := s.Insert(ctx, owner, []store.New{fresh(key)})
		if err == nil {
			return inserted[0].Saga, nil
		}
		if ctx.Err() != nil {
			return saga.Saga{}, errors.Join(err, ctx.Err())
		}
	}
}

// finish saves one saga as completed, asking again until it is answered.
func finish(ctx context.Context, s *Store, in saga.Saga) (saga.Saga, error) {
	in.State = saga.Completed
	for {
		saved, err := s.Save(ctx, []store.Write{{Saga: in, FromVersion: in.Version, FromEpoch: in.Epoch, FromCreatedAt: in.CreatedAt}})
		if err == nil {
			return saved[0].Saga, nil // ours, also where an answer was lost
		}
		if ctx.Err() != nil {
			return saga.Saga{}, errors.Join(err, ctx.Err())
		}
	}
}

func admin(t *testing.T, url, statement string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatal(err)
	}
}

func migratedOn(t *testing.T, server *dbtest.Server) string {
	t.Helper()
	url := server.URL(t)
	if _, err := Migrate(context.Background(), url); err != nil {
		t.Fatal(err)
	}
	return url
}

// TestC85ReadOnlyServer: a server that has become read-only (a failover is under
// way) is no answer: its connections are not used again, and no new one is taken
// until it is over.
func TestC85ReadOnlyServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	url := migrated(t)
	s := open(t, url)
	in, err := insert(ctx, s, "K-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, conn := range s.pool.AcquireAllIdle(ctx) {
		if _, err := conn.Exec(ctx, "set default_transaction_read_only = on"); err != nil {
			t.Fatal(err)
		}
		conn.Release()
	}
	if _, err := s.AskCancel(ctx, in.ID); err != nil {
		t.Errorf("the read-only connection was kept: %v", err)
	}

	database := strings.Trim(mustParse(t, url).Path, "/")
	admin(t, url, "alter database "+database+" set default_transaction_read_only = on")
	s.pool.Reset()
	in.State = saga.Completed
	write := store.Write{Saga: in, FromVersion: 2, FromEpoch: in.Epoch, FromCreatedAt: in.CreatedAt}
	if _, err = s.Save(ctx, []store.Write{write}); !errors.Is(err, pgconn.ErrReadOnlyConnection) {
		t.Errorf("a save on a read-only server gave %v", err)
	}
	admin(t, url, "set transaction_read_only = off; alter database "+database+" reset default_transaction_read_only")
	in.Version = 2 // the cancel raised it
	row, err := finish(ctx, s, in)
	if err != nil || row.State != saga.Completed {
		t.Errorf("afterwards: %s, %v", row.State, err)
	}
}

func mustParse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// underLoad has callers insert and finish sagas while hurt does its work, and
// then checks that all that was answered is there, once.
func underLoad(t *testing.T, s *Store, hurt func(done *atomic.Int64)) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	const callers, each = 8, 12
	var (
		working sync.WaitGroup
		done    atomic.Int64
		told    sync.Map
	)
	for c := range callers {
		working.Go(func() {
			for i := range each {
				in, err := insert(ctx, s, fmt.Sprintf("K-%d-%d", c, i))
				if err != nil {
					t.Error(err)
					return
				}
				row, err := finish(ctx, s, in)
				if err != nil {
					t.Error(err)
					return
				}
				told.Store(in.ID, row)
				done.Add(1)
			}
		})
	}
	hurt(&done)
	working.Wait()

	events, err := s.FinalEvents(ctx, "", store.EventPlace{}, 10_000)
	if err != nil || len(events) != callers*each {
		t.Errorf("%d events, want one for each of %d final sagas (%v)", len(events), callers*each, err)
	}
	told.Range(func(id, row any) bool {
		found, err := s.Lookup(ctx, id.(saga.ID))
		if err != nil || found.State != saga.Completed || found.Version != 2 || row.(saga.Saga).Version != 2 {
			t.Errorf("%v: %s at version %d, but the caller was told %+v (%v)", id, found.State, found.Version, row, err)
		}
		return true
	})
}

func waitUntil(t *testing.T, done *atomic.Int64, count int64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); done.Load() < count; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("only %d of %d were done in a minute", done.Load(), count)
			return
		}
	}
}

// TestC51ServerKilled: what was answered before the server was killed is there
// when it is back.
func TestC51ServerKilled(t *testing.T) {
	server := dbtest.NewServer(t)
	s := open(t, migratedOn(t, server))
	underLoad(t, s, func(done *atomic.Int64) {
		waitUntil(t, done, 20)
		server.Kill()
		server.Start()
		waitUntil(t, done, 60)
	})
}

// TestC85BackendsTerminated: connections that an administrator ends.
func TestC85BackendsTerminated(t *testing.T) {
	url := migrated(t)
	s := open(t, url)
	database := strings.Trim(mustParse(t, url).Path, "/")
	underLoad(t, s, func(done *atomic.Int64) {
		for count := int64(10); count <= 70; count += 20 {
			waitUntil(t, done, count)
			admin(t, url, "select pg_terminate_backend(pid) from pg_stat_activity where datname = '"+database+"' and pid <> pg_backend_pid()")
		}
	})
}

// TestC16CommitAnswerLost: the connection is cut after COMMIT was carried out and
// before its answer. That is an error, and the same call made again finds the row.
func TestC16CommitAnswerLost(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	address := mustParse(t, migrated(t))
	cut := &cutter{to: address.Host}
	address.Host = cut.listen(t)
	query := address.Query()
	query.Set("sslmode", "disable") // the proxy reads along
	address.RawQuery = query.Encode()
	s := open(t, address.String())

	in, err := insert(ctx, s, "K-1")
	if err != nil {
		t.Fatal(err)
	}
	cut.armed.Store(true)
	in.State = saga.Completed
	write := store.Write{Saga: in, FromVersion: in.Version, FromEpoch: in.Epoch, FromCreatedAt: in.CreatedAt}
	_, err = s.Save(ctx, []store.Write{write})
	var commit commitError
	if cut.armed.Load() || !errors.As(err, &commit) {
		t.Fatalf("armed %t: a save whose commit was not answered gave %v", cut.armed.Load(), err)
	}
	saved, err := s.Save(ctx, []store.Write{write})
	if err != nil {
		t.Fatal(err)
	}
	if saved[0].OK || saved[0].Saga.State != saga.Completed || saved[0].Saga.Version != 2 {
		t.Errorf("the save made again found %+v", saved[0])
	}
	if events, err := s.FinalEvents(ctx, "", store.EventPlace{}, 10); err != nil || len(events) != 1 {
		t.Errorf("%d events, want 1 (%v)", len(events), err)
	}
}

// cutter passes bytes on and, once armed, cuts one connection after the server
// has answered a COMMIT, keeping the answer.
type cutter struct {
	to    string
	armed atomic.Bool
}

func (c *cutter) listen(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", c.to)
			if err != nil {
				_ = client.Close()
				return
			}
			go c.pass(server, client, func([]byte) bool { return true })
			// The command tag: what comes before it only prepares the statement.
			go c.pass(client, server, func(b []byte) bool {
				return !bytes.Contains(b, []byte("COMMIT\x00")) || !c.armed.CompareAndSwap(true, false)
			})
		}
	}()
	return listener.Addr().String()
}

// pass copies until either side ends, or look says to cut.
func (c *cutter) pass(to, from net.Conn, look func([]byte) bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !look(buffer[:n]) {
			return
		}
		if _, writeErr := to.Write(buffer[:n]); err != nil || writeErr != nil {
			return
		}
	}
}
