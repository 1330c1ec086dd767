package pgpool

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"giro/internal/dbtest"
)

// waits asks whether one of the server's processes wait for a standby.
const waits = "select count(*) = 1 from pg_stat_activity where wait_event = 'SyncRep'"

// A COMMIT waits for a standby that is away. Nothing that this program does ends
// that wait: the row is not seen until the standby has it, or is given up by the
// server's operator.
func TestCommitWaitsForTheStandby(t *testing.T) {
	server := dbtest.NewServer(t)
	address := server.URL(t)
	watcher := plain(t, address)
	run(t, watcher, "create table t (n bigint)")
	insert := map[string]func(context.Context, *Conn) error{
		"commit": func(ctx context.Context, c *Conn) error {
			if err := c.Begin(ctx); err != nil {
				return err
			}
			if _, err := c.Exec(ctx, "insert into t values (1)"); err != nil {
				return err
			}
			return c.Commit()
		},
		"alone": func(ctx context.Context, c *Conn) error {
			_, err := c.Alone().Exec(ctx, "insert into t values (1)")
			return err
		},
	}
	for name, do := range insert {
		t.Run(name, func(t *testing.T) {
			run(t, watcher, "truncate t")
			between := &proxy{}
			kept, cut := open(t, address, 1), open(t, through(t, address, between), 1)
			for _, p := range []*Pool{kept, cut} {
				if err := works(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
			server.LoseStandby()
			unanswered := func(p *Pool) {
				t.Helper()
				p.AnswerMax = 300 * time.Millisecond
				if err := p.With(t.Context(), time.Minute, do); !errors.Is(err, ErrUnanswered) {
					t.Fatalf("the caller was told %v", err)
				}
			}
			unanswered(kept)
			// The connection is not given to anybody else meanwhile.
			short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer stop()
			if err := works(short, kept); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the connection was used while it waits: %v", err)
			}
			until(t, "one waits", yes(t, watcher, waits))
			if !yes(t, watcher, "select not exists (select from t)")() {
				t.Error("a row is seen that no standby has")
			}
			server.ForgetStandby()
			until(t, "the row is seen", yes(t, watcher, "select count(*) = 1 from t"))
			until(t, "the connection is back", func() bool { return kept.Stat().AcquiredConns() == 0 })
			if err := works(t.Context(), kept); err != nil || kept.Stat().NewConnsCount() != 1 {
				t.Errorf("%d connections were opened, %v", kept.Stat().NewConnsCount(), err)
			}

			// The connection breaks while it waits.
			server.LoseStandby()
			unanswered(cut)
			until(t, "one waits", yes(t, watcher, waits))
			between.cut()
			until(t, "the connection is given up", func() bool { return cut.Stat().TotalConns() == 0 })
			if between.cancels.Load() != 0 || !yes(t, watcher, waits)() || !yes(t, watcher, "select count(*) = 1 from t")() {
				t.Errorf("%d cancel requests; the wait for the standby was ended", between.cancels.Load())
			}
			server.ForgetStandby()
			until(t, "both are seen", yes(t, watcher, "select count(*) = 2 from t"))
		})
	}
}

// Close does not wait for ever behind a COMMIT that is not answered.
func TestCloseIsBounded(t *testing.T) {
	server := dbtest.NewServer(t)
	address := server.URL(t)
	config, err := Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p, err := config.Open(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	server.LoseStandby()
	p.AnswerMax = 100 * time.Millisecond
	err = p.With(t.Context(), time.Minute, func(ctx context.Context, c *Conn) error {
		_, err := c.Alone().Exec(ctx, "create table t (n bigint)")
		return err
	})
	if !errors.Is(err, ErrUnanswered) {
		t.Fatal(err)
	}
	start := time.Now()
	if err := Close(p, nil); err == nil || time.Since(start) > 2*closeSecondsMax*time.Second {
		t.Errorf("closed after %v: %v", time.Since(start), err)
	}
	server.ForgetStandby()
	until(t, "the connection is back", func() bool { return p.Stat().TotalConns() == 0 })
}

// A database whose commits are not durable is refused, and the error says why.
func TestOnlyDurableCommits(t *testing.T) {
	server := dbtest.NewServer(t)
	address := server.URL(t)
	refused := func(address, want string) {
		t.Helper()
		if err := works(t.Context(), open(t, address, 1)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want a refusal that says %q: %v", want, err)
		}
	}
	local := withParam(t, address, "synchronous_commit", "local")
	if err := works(t.Context(), open(t, local, 1)); err != nil {
		t.Errorf("local, without standbys: %v", err)
	}
	refused(withParam(t, address, "synchronous_commit", "off"), "synchronous_commit is off")
	server.LoseStandby()
	refused(local, "synchronous_commit is local")
	for _, durable := range []string{"on", "remote_write", "remote_apply"} {
		if err := works(t.Context(), open(t, withParam(t, address, "synchronous_commit", durable), 1)); err != nil {
			t.Errorf("%s: %v", durable, err)
		}
	}
	server.Set("fsync", "off")
	refused(address, "fsync is off")
}
