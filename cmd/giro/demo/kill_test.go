package demo

import (
	"bytes"
	"context"
	"flag"
	"math/rand/v2"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"giro/cmd/giro/render"
	"giro/internal/dbtest"
	adminv1 "giro/proto/giro/admin/v1"
	transferv1 "giro/proto/giro/transfer/v1"
)

var (
	killFor  = flag.Duration("kill.for", 8*time.Second, "how long processes are killed")
	killSeed = flag.Uint64("kill.seed", 0, "draw the kills from this seed")
)

// TestKillAnyProcessAtAnyMoment kills the three services with SIGKILL, over and
// over, while clients ask for transfers, most of them once and never again. Then
// all are started and nobody asks for anything: every transfer that was accepted
// becomes final, the audit is OK, and every OK that a client saw is still true.
func TestKillAnyProcessAtAnyMoment(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "giro")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", binary, "giro/cmd/giro").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	t.Run("sqlite", func(t *testing.T) {
		killAny(t, Options{Store: "sqlite", Executable: binary})
	})
	t.Run("postgres", func(t *testing.T) {
		u, err := url.Parse(dbtest.Postgres(t))
		if err != nil {
			t.Fatal(err)
		}
		killAny(t, Options{Store: "postgres", PostgresURL: u.String(), Executable: binary})
	})
}

func killAny(t *testing.T, o Options) {
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	t.Logf("the kills are drawn from seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	ctx, cancel := context.WithTimeout(t.Context(), *killFor+2*time.Minute)
	defer cancel()
	var story bytes.Buffer
	s := &stage{script: &script{w: &story}, answers: &answers{}}
	defer func() {
		if err := s.takeDown(false); err != nil {
			t.Error(err)
		}
	}()
	if err := s.setUp(ctx, o); err != nil {
		t.Fatal(err)
	}
	requests, _, err := s.manyRequests(fund(ctx, t, s))
	if err != nil {
		t.Fatal(err)
	}
	kills := s.killDuring(ctx, t, random, requests)
	if err := s.restore(ctx); err != nil {
		t.Fatal(err)
	}
	verdict := s.quiesce(ctx, t)
	t.Logf("%d kills; %s", kills, render.Verdict(verdict))
	if !verdict.GetOk() || verdict.GetPending() != 0 || !strings.HasSuffix(render.Verdict(verdict), "in transit 0)") {
		t.Errorf("verdict %v", verdict)
	}
	if verdict.GetTransfers() == 0 || kills < 5 {
		t.Errorf("%d transfers and %d kills prove nothing", verdict.GetTransfers(), kills)
	}
	if err := s.stillTrue(ctx); err != nil {
		t.Error(err)
	}
	if strings.Contains(story.String(), "NOT AS EXPECTED") {
		t.Error(story.String())
	}
}

// fund gives alice what the requests need.
func fund(ctx context.Context, t *testing.T, s *stage) context.Context {
	t.Helper()
	if err := s.account(ctx, alice); err != nil {
		t.Fatal(err)
	}
	if err := s.deposit(ctx, "alice", 1000_00); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// killDuring has clients ask while processes die, and says how many did.
func (s *stage) killDuring(ctx context.Context, t *testing.T, random *rand.Rand, requests []*transferv1.CreateTransferRequest) int {
	until := time.Now().Add(*killFor)
	var clients sync.WaitGroup
	asking, stop := context.WithDeadline(ctx, until)
	defer stop()
	for c := range 8 {
		clients.Go(func() {
			for i := c; asking.Err() == nil; i += 8 {
				r := requests[i%len(requests)] // in a second round the same keys again
				attempt, cancel := context.WithTimeout(asking, 300*time.Millisecond)
				_, _ = s.create(attempt, r) // whatever comes, it is not asked again soon
				cancel()
			}
		})
	}
	kills := 0
	services := []string{orchestrator, accountsvc, ledgersvc}
	for time.Now().Before(until) {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(random.IntN(400)) * time.Millisecond):
		}
		p := s.processes[services[random.IntN(len(services))]]
		p.kill()
		kills++
		if err := p.start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	clients.Wait()
	return kills
}

// quiesce waits, by the audit alone, until nothing is pending.
func (s *stage) quiesce(ctx context.Context, t *testing.T) *adminv1.AuditVerdict {
	t.Helper()
	bounded, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	var verdict *adminv1.AuditVerdict
	var checks bytes.Buffer
	err := until(bounded, "nothing is pending", func() (bool, error) {
		stream, err := s.admin.Audit(bounded, &adminv1.AuditRequest{})
		if err != nil {
			return false, err
		}
		checks.Reset()
		verdict, err = render.Audit(&checks, nil, "no rows", stream)
		return err == nil && verdict.GetPending() == 0, err
	})
	if err != nil || !verdict.GetOk() {
		t.Errorf("%v\n%s", err, checks.String())
	}
	return verdict
}
