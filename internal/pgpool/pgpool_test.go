package pgpool

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"giro/internal/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func open(t *testing.T, address string, size int) *Pool {
	t.Helper()
	config, err := Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p, err := config.Open(t.Context(), size, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Close(p); err != nil {
			t.Error(err)
		}
	})
	return p
}

// works says whether a statement can be run.
func works(ctx context.Context, p *Pool) error {
	return p.With(ctx, time.Minute, func(ctx context.Context, c *Conn) error {
		_, err := c.Exec(ctx, "select 1")
		return err
	})
}

// plain gives a connection, whose own commits wait for no standby.
func plain(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	run(t, c, "set synchronous_commit = local")
	return c
}

func run(t *testing.T, c *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := c.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// until asks a yes-or-no question until it is yes.
func until(t *testing.T, what string, ask func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ask(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

func yes(t *testing.T, c *pgx.Conn, question string) func() bool {
	return func() bool {
		t.Helper()
		var answer bool
		if err := c.QueryRow(t.Context(), question).Scan(&answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}
}

func withParam(t *testing.T, address, name, value string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// A caller's deadline that strikes while a read runs costs no connection, and one
// that strikes while it waits for a connection ends the wait.
func TestDeadlineOfTheCaller(t *testing.T) {
	p := open(t, dbtest.Postgres(t), 1)
	ctx, cancel := context.WithCancel(t.Context())
	err := p.With(ctx, time.Minute, func(working context.Context, c *Conn) error {
		cancel()
		if _, err := c.Exec(working, "select 1"); err != nil {
			return err
		}
		short, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer stop()
		if err := works(short, p); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second one got the only connection: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := works(t.Context(), p); err != nil || p.Stat().NewConnsCount() != 1 {
		t.Errorf("%d connections were opened, %v", p.Stat().NewConnsCount(), err)
	}
}

// A limit that strikes ends the connection, and the server is not asked to cancel.
func TestNoCancelRequest(t *testing.T) {
	for name, settings := range map[string]struct {
		proxy *proxy
		mode  string
	}{
		"plain":              {&proxy{}, "disable"},
		"TLS":                {&proxy{certificate: certificate(t)}, "require"},
		"TLS is not offered": {&proxy{}, "prefer"},
	} {
		t.Run(name, func(t *testing.T) {
			address := dbtest.Postgres(t)
			p := open(t, withParam(t, through(t, address, settings.proxy), "sslmode", settings.mode), 1)
			var closed chan struct{}
			err := p.With(t.Context(), 50*time.Millisecond, func(ctx context.Context, c *Conn) error {
				closed = c.PgConn().CleanupDone()
				_, err := c.Exec(ctx, "select pg_sleep(1)")
				return err
			})
			if !errors.Is(err, ErrBroken) || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%v", err)
			}
			<-closed
			if err := works(t.Context(), p); err != nil {
				t.Errorf("the next one: %v", err)
			}
			if cancels, starts := settings.proxy.cancels.Load(), settings.proxy.starts.Load(); cancels != 0 || starts != 2 {
				t.Errorf("%d cancel requests, %d connections", cancels, starts)
			}
		})
	}
}

// What a statement that commits by itself does, and what it gives, is as on the
// connection itself.
func TestAlone(t *testing.T) {
	p := open(t, dbtest.Postgres(t), 1)
	err := p.With(t.Context(), time.Minute, func(ctx context.Context, c *Conn) error {
		a := c.Alone()
		if _, err := a.Exec(ctx, "create table t (n bigint primary key, text text)"); err != nil {
			return err
		}
		rows, err := a.Query(ctx, "insert into t values ($1, 'a'), ($2, null) returning n, text", 1, 2)
		if err != nil {
			return err
		}
		type pair struct {
			N    int64
			Text *string
		}
		got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[pair])
		if err != nil || len(got) != 2 || got[0].N != 1 || *got[0].Text != "a" || got[1].N != 2 || got[1].Text != nil {
			t.Errorf("%+v, %v", got, err)
		}
		if rows.CommandTag().RowsAffected() != 2 || rows.Next() {
			t.Errorf("%s, and more rows", rows.CommandTag())
		}
		var n int64
		if err := a.QueryRow(ctx, "select n from t where n = 2").Scan(&n); err != nil || n != 2 {
			t.Errorf("%d, %v", n, err)
		}
		if err := a.QueryRow(ctx, "select n from t where n = 3").Scan(&n); !errors.Is(err, pgx.ErrNoRows) {
			t.Errorf("no row: %v", err)
		}
		if err := a.QueryRow(ctx, "insert into t values (1) returning n").Scan(&n); State(err) != "23505" {
			t.Errorf("a key that is there: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A transaction that failed is not left open, nor is the connection lost.
func TestFailureLeavesNothingOpen(t *testing.T) {
	address := dbtest.Postgres(t)
	p, c := open(t, address, 1), plain(t, address)
	run(t, c, "create table t (n bigint)")
	mistake := errors.New("a mistake")
	for range 2 {
		err := p.With(t.Context(), time.Minute, func(ctx context.Context, c *Conn) error {
			if err := c.Begin(ctx); err != nil {
				return err
			}
			if _, err := c.Exec(ctx, "insert into t values (1)"); err != nil {
				return err
			}
			return mistake
		})
		if !errors.Is(err, mistake) {
			t.Fatal(err)
		}
	}
	if p.Stat().NewConnsCount() != 1 || !yes(t, c, "select not exists (select from t)")() {
		t.Errorf("%d connections, or a row", p.Stat().NewConnsCount())
	}
}

func TestUnfit(t *testing.T) {
	for code, want := range map[string]bool{"25006": true, "57P01": true, "57P02": true, "57P03": true, "40001": false, "23514": false} {
		if got := Unfit(errors.Join(errors.New("commit"), &pgconn.PgError{Code: code})); got != want {
			t.Errorf("%s: %v", code, got)
		}
	}
}

// Only a primary is served, whatever the URL asks for.
func TestOnlyAPrimary(t *testing.T) {
	address := dbtest.Postgres(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	several := *u
	several.Host = "127.0.0.1:1," + u.Host // nobody listens at the first
	if err := works(t.Context(), open(t, several.String(), 1)); err != nil {
		t.Errorf("the second of two hosts: %v", err)
	}
	c := plain(t, address)
	for attribute, want := range map[string]bool{"any": true, "primary": true, "read-write": true, "prefer-standby": true, "standby": false, "read-only": false} {
		p := open(t, withParam(t, address, "target_session_attrs", attribute), 1)
		if err := works(t.Context(), p); (err == nil) != want {
			t.Errorf("a primary, %s: %v", attribute, err)
		}
	}
	run(t, c, "alter database "+strings.Trim(u.Path, "/")+" set default_transaction_read_only = on")
	for _, attribute := range []string{"any", "primary", "read-write", "prefer-standby", "standby", "read-only"} {
		p := open(t, withParam(t, address, "target_session_attrs", attribute), 1)
		if err := works(t.Context(), p); !errors.Is(err, pgconn.ErrReadOnlyConnection) {
			t.Errorf("a server that cannot write, %s: %v", attribute, err)
		}
	}
}
