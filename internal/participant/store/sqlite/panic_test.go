package sqlite

import (
	"context"
	"testing"
	"time"

	"giro/internal/dbtest"
	"giro/internal/participant/book"
	"giro/internal/stepkey"
)

// A panic between BEGIN and COMMIT comes out, leaves nothing behind, and leaves
// the only writer to the next batch.
func TestPanicLeavesTheWriterFree(t *testing.T) {
	path := dbtest.SQLite(t)
	if _, err := Migrate(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	cancel := book.Operation{Kind: book.Cancel, Tenant: "acme", TransferKey: "t1", Step: stepkey.Debit, Key: stepkey.StepKey{1}}
	good := s.write.raiseMark
	s.write.raiseMark = nil // stands for any fault that panics, after rows were written
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		_, _ = s.Apply(context.Background(), []book.Operation{cancel}, book.DefaultLimits)
	}()
	select {
	case p := <-panicked:
		if p == nil {
			t.Fatal("no panic: the test tests nothing")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the panic does not come out: the writer hangs")
	}
	s.write.raiseMark = good
	answers, err := s.Apply(t.Context(), []book.Operation{cancel}, book.DefaultLimits)
	if err != nil || answers[0].Outcome != book.Cancelled || answers[0].Replayed {
		t.Fatalf("%+v, %v", answers, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
