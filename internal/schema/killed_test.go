package schema

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"giro/internal/dbtest"
)

// asMigrator in the environment names a database, and has this program migrate it
// instead of testing: a process that can be killed.
const asMigrator = "GIRO_TEST_MIGRATE"

// brief has the lease of a dead migrator end soon; it is renewed five times while
// one lives.
var brief = limits{table: 30 * time.Second, lease: 4 * time.Second, turn: 30 * time.Second, poll: 50 * time.Millisecond}

func migrate(address string) int {
	go func() {
		// The test holds the other end, which ends with it, however it ends.
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	db, err := sql.Open("pgx", address)
	if err == nil {
		_, err = up(context.Background(), db, Postgres, steps(4), brief)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// awaitCount asks for a number until it is what is wanted.
func awaitCount(t *testing.T, db *sql.DB, want int, query string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		var n int
		if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d, not %d: %s", n, want, query)
		}
	}
}

// A process that migrates is killed with SIGKILL in the middle. It has taken no
// advisory lock, which a pooler of connections would keep, or give to somebody
// else. While it lives others wait for a bounded time and say for whom; when it is
// dead its lease ends, nothing is locked, and another does the rest, once.
func TestC102KilledInTheMiddle(t *testing.T) {
	const (
		advisory = `select count(*) from pg_locks where locktype = 'advisory'
			and database = (select oid from pg_database where datname = current_database())`
		waiting = `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
		others  = `select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`
	)
	address := dbtest.Postgres(t)
	db := dbtest.OpenPostgres(t, address)
	if _, err := up(t.Context(), db, Postgres, steps(2), brief); err != nil {
		t.Fatal(err)
	}
	gate, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gate.ExecContext(t.Context(), "lock table notes in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	holder := exec.CommandContext(t.Context(), os.Args[0])
	holder.Env = append(os.Environ(), asMigrator+"="+address)
	holder.Stderr = t.Output()
	if _, err := holder.StdinPipe(); err != nil { // open for as long as this process lives
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	awaitCount(t, db, 1, waiting)
	awaitCount(t, db, 0, advisory)
	impatient := brief
	impatient.turn = 300 * time.Millisecond
	_, err = up(t.Context(), db, Postgres, steps(4), impatient)
	check(t, err, []string{"another process", "goose_lock", "giro migrate up"})

	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait() // it says that it was killed
	if err := gate.Rollback(); err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(0) // so that those of others can be told
	awaitCount(t, db, 0, others)
	awaitCount(t, db, 0, `select count(*) from pg_locks where pid <> pg_backend_pid()
		and database = (select oid from pg_database where datname = current_database())`)
	got, err := up(t.Context(), db, Postgres, steps(4), brief)
	if err != nil || len(got) != 2 {
		t.Fatalf("applied %v, %v", got, err)
	}
	if n := notes(t, db); n != 3 {
		t.Errorf("%d rows, want 3", n)
	}
	if err := Require(t.Context(), db, Postgres, steps(4)); err != nil {
		t.Error(err)
	}
}
