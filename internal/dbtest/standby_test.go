package dbtest

import (
	"testing"
	"time"
)

func TestLostStandby(t *testing.T) {
	s := NewServer(t)
	db := OpenPostgres(t, s.URL(t))
	s.LoseStandby()
	done := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(t.Context(), "create table t (n bigint)")
		done <- err
	}()
	s.poll("the wait", func() bool { return s.ask(waiting) == "1" })
	select {
	case err := <-done:
		t.Fatalf("a commit did not wait: %v", err)
	default:
	}
	s.ForgetStandby()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(adminLimit):
		t.Fatal("a commit still waits")
	}
}
