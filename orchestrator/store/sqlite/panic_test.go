package sqlite

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"giro/internal/dbtest"
)

// A panic between BEGIN and COMMIT comes out, leaves nothing behind, and leaves
// the only writer to the next transaction.
func TestPanicLeavesTheWriterFree(t *testing.T) {
	path := dbtest.SQLite(t)
	if _, err := Migrate(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	insert := func(ctx context.Context, tx *sql.Tx, _ time.Time) error {
		_, err := tx.ExecContext(ctx, "insert into leases (owner, lease_until) values ('a', 1)")
		return err
	}
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		_ = s.write(context.Background(), func(ctx context.Context, tx *sql.Tx, now time.Time) error {
			if err := insert(ctx, tx, now); err != nil {
				return err
			}
			panic("a fault")
		})
	}()
	select {
	case p := <-panicked:
		if p != "a fault" {
			t.Fatalf("panic %v: the test tests nothing", p)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the panic does not come out: the writer hangs")
	}
	if err := s.write(t.Context(), insert); err != nil {
		t.Fatalf("the row of the transaction that panicked is there: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
