package chaos

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// fail has transactions fail now and then, in the middle and at COMMIT, as they do
// on databases that promise more than this one. The counter counts what is undone,
// too. It is the test's, and no part of the product's schema.
const fail = `
	create sequence injected;
	create function in_the_middle() returns trigger language plpgsql as $$ begin
		if random() < 0.02 then perform nextval('injected'); raise serialization_failure using message = 'injected'; end if;
		if random() < 0.01 then perform nextval('injected'); raise deadlock_detected using message = 'injected'; end if;
		return null;
	end $$;
	create function at_commit() returns trigger language plpgsql as $$ begin
		if random() < 0.02 then perform nextval('injected'); raise serialization_failure using message = 'injected at COMMIT'; end if;
		return null;
	end $$;
	create trigger in_the_middle after insert on operations for each statement execute function in_the_middle();
	create constraint trigger at_commit after update on marks deferrable initially deferred
		for each row execute function at_commit()`

const failNoMore = `drop trigger in_the_middle on operations; drop trigger at_commit on marks`

// least is how much must have happened before the storm is over: with less, the
// test would prove nothing.
const (
	killsLeast   = 3
	answersLeast = 1000
	othersLeast  = 2
)

// storm is what the replicas are put through.
type storm struct {
	t        *testing.T
	db       *sql.DB
	replicas []*replica
	tally    *tally
	random   *rand.Rand
	over     chan struct{}
}

// begin turns the faults on.
func (s *storm) begin() {
	s.exec(fail)
	for _, r := range s.replicas {
		r.wire.cutting.Store(true)
	}
}

// end turns them off. No replica is dead by then.
func (s *storm) end() {
	for _, r := range s.replicas {
		r.wire.cutting.Store(false)
	}
	s.exec(failNoMore)
}

func (s *storm) exec(statements string) {
	s.t.Helper()
	if _, err := s.db.ExecContext(s.t.Context(), statements); err != nil {
		s.t.Fatal(err)
	}
}

// injected counts the transactions that were made to fail.
func (s *storm) injected() (n int64) {
	if err := s.db.QueryRowContext(s.t.Context(), "select last_value from injected").Scan(&n); err != nil {
		s.t.Error(err)
	}
	return n
}

// checkDeadlocks checks that there were none: all transactions take what they lock in
// one order, and those that were injected are not the server's.
func (s *storm) checkDeadlocks() {
	s.t.Helper()
	var n int64
	if err := s.db.QueryRowContext(s.t.Context(), "select deadlocks from pg_stat_database where datname = current_database()").Scan(&n); err != nil || n != 0 {
		s.t.Errorf("%d deadlocks, %v", n, err)
	}
}

// cuts counts the connections that were cut before and after a COMMIT.
func (s *storm) cuts() (before, after int64) {
	for _, r := range s.replicas {
		before, after = before+r.wire.before.Load(), after+r.wire.after.Load()
	}
	return before, after
}

// rage kills replicas and starts them again until the time has passed and enough
// has happened, or nothing goes on any more.
func (s *storm) rage(ctx context.Context, length time.Duration) error {
	defer close(s.over)
	end := time.NewTimer(length)
	defer end.Stop()
	passed := false
	progress, since := int64(-1), time.Now()
	for !passed || !s.enough() {
		select {
		case <-end.C:
			passed = true
		case <-ctx.Done():
			return fmt.Errorf("too little has happened: %s", s.told())
		case <-time.After(time.Duration(200+s.random.IntN(800)) * time.Millisecond):
			if err := s.killSome(ctx); err != nil {
				return err
			}
		}
		if now := s.tally.answered.Load(); now != progress {
			progress, since = now, time.Now()
		}
		if time.Since(since) > 2*patience {
			return fmt.Errorf("nobody has been answered for %v: %s", time.Since(since), s.told())
		}
	}
	return nil
}

// killSome kills one replica, or two, and starts them again a little later.
func (s *storm) killSome(ctx context.Context) error {
	chosen := s.random.Perm(len(s.replicas))[:1+s.random.IntN(5)/4]
	for _, i := range chosen {
		s.replicas[i].kill()
		s.tally.kills.Add(1)
	}
	<-time.After(time.Duration(s.random.IntN(200)) * time.Millisecond)
	errs := make([]error, len(chosen))
	var wait sync.WaitGroup
	for at, i := range chosen {
		wait.Go(func() { errs[at] = s.replicas[i].start(ctx) })
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *storm) enough() bool {
	before, after := s.cuts()
	return s.tally.kills.Load() >= killsLeast && s.tally.answered.Load() >= answersLeast && before >= othersLeast && after >= othersLeast &&
		s.tally.reused.Load() >= othersLeast && s.tally.unknown.Load() >= othersLeast && s.injected() >= othersLeast
}

func (s *storm) told() string {
	before, after := s.cuts()
	y := s.tally
	return fmt.Sprintf("%d operations, %d duplicates of them, %d sent in all, %d answered, %d not known at first; %d with other contents; "+
		"%d kills, %d calls broken; COMMIT cut off before it %d times and after it %d times; %d transactions made to fail",
		y.first.Load(), y.duplicates.Load(), y.asked.Load(), y.answered.Load(), y.unknown.Load(), y.reused.Load(),
		y.kills.Load(), y.broken.Load(), before, after, s.injected())
}
