package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"giro/cmd/giro/serve"
	"giro/internal/dbtest"
	accountv1 "giro/proto/giro/account/v1"
)

var (
	chaosFor  = flag.Duration("chaos.for", 4*time.Second, "how long the replicas are put through it")
	chaosSeed = flag.Uint64("chaos.seed", 0, "draw what happens from this seed")
)

const (
	replicaCount = 4
	callersEach  = 64
	// patienceAll bounds everything beside the storm itself.
	patienceAll = 5 * time.Minute
)

// TestReplicasUnderAttack has four replicas of accountsvc on one database answer 64
// callers each, a tenth of whose operations were sent before. Meanwhile
// transactions fail, connections are cut around COMMIT, and replicas are killed
// with SIGKILL. Then the books are audited, and every answer that any caller was
// given is still true.
func TestReplicasUnderAttack(t *testing.T) {
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	t.Logf("what happens is drawn from seed %d", seed)
	ctx, cancel := context.WithTimeout(t.Context(), 2**chaosFor+patienceAll)
	defer cancel()
	address := dbtest.Postgres(t)
	if _, err := serve.MigrateUp(ctx, serve.Accountsvc, address); err != nil {
		t.Fatal(err)
	}
	s := &storm{t: t, db: dbtest.OpenPostgres(t, address), tally: &tally{}, random: rand.New(rand.NewPCG(seed, 0)), over: make(chan struct{})}
	for i := range replicaCount {
		s.replicas = append(s.replicas, newReplica(t, fmt.Sprint("replica", i), address, rand.New(rand.NewPCG(seed, uint64(1+i)))))
	}
	startAll(ctx, t, s.replicas)
	fund(ctx, t, s.replicas[0].accounts)

	known, wrong := &records{byKey: map[string]*record{}}, &faults{}
	s.begin()
	var callers sync.WaitGroup
	for i := range replicaCount * callersEach {
		c := &caller{
			writer: writer{name: fmt.Sprint("c", i), random: rand.New(rand.NewPCG(seed, uint64(100+i))), records: known},
			own:    i % replicaCount, replicas: s.replicas, tally: s.tally, faults: wrong,
		}
		callers.Go(func() { c.run(s.over) })
	}
	err := s.rage(ctx, *chaosFor)
	callers.Wait()
	wrong.report(t)
	if err != nil {
		t.Fatal(err)
	}
	s.end()
	t.Log(s.told())
	began := time.Now()
	audit(ctx, t, s.replicas, known.snapshot(), s.random)
	s.checkDeadlocks()
	t.Logf("audited in %v", time.Since(began).Round(time.Millisecond))
	if first, again := s.tally.first.Load(), s.tally.duplicates.Load(); again*9 < first {
		t.Errorf("%d duplicates of %d operations: less than a tenth", again, first)
	}
}

func startAll(ctx context.Context, t *testing.T, replicas []*replica) {
	t.Helper()
	var starting sync.WaitGroup
	for _, r := range replicas {
		starting.Go(func() {
			if err := r.start(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	if starting.Wait(); t.Failed() {
		t.FailNow()
	}
}

// fund opens the accounts, every fourth with an agreed overdraft.
func fund(ctx context.Context, t *testing.T, p accountv1.AccountServiceClient) {
	t.Helper()
	for i, name := range everyAccount() {
		terms, amount := &accountv1.Terms{}, int64(2000)
		if i%4 == 1 {
			terms.Overdraft = overdraft
		}
		if name == hot {
			amount = 20_000
		}
		_, err := p.OpenAccount(ctx, &accountv1.OpenAccountRequest{Key: "open-" + name, Account: name, Currency: currency, Terms: terms})
		if err == nil {
			_, err = p.Deposit(ctx, &accountv1.DepositRequest{Key: "fund-" + name, Account: name, Amount: amount, Currency: currency, External: "bank"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// lookedUp are the keys whose outcome is asked for one by one: in a short run, a
// share of them, drawn at random, since it would take longer than all else. The
// list of operations is compared with every key in any case.
func lookedUp(all []*record, random *rand.Rand) []*record {
	const shortRun, share = 30 * time.Second, 2000
	if *chaosFor >= shortRun || len(all) <= share {
		return all
	}
	drawn := make([]*record, 0, share)
	for _, i := range random.Perm(len(all))[:share] {
		drawn = append(drawn, all[i])
	}
	return drawn
}

// audit looks at everything when nothing fails any more.
func audit(ctx context.Context, t *testing.T, replicas []*replica, all []*record, random *rand.Rand) {
	t.Helper()
	wrong := &faults{}
	asked := settle(ctx, replicas, all, wrong)
	stillTrue(ctx, replicas, lookedUp(all, random), wrong)
	b := list(ctx, t, replicas[1].participant)
	b.hold(wrong)
	b.undo(wrong)
	b.match(all, wrong)
	b.deposits(wrong)
	b.sums(ctx, replicas[2].participant, wrong)
	b.accounts(ctx, replicas[3].accounts, wrong)
	wrong.report(t)
	for _, r := range replicas {
		r.checkLog(t)
	}
	outcomes := map[string]int{}
	for _, r := range all {
		outcomes[r.told.GetOutcome().String()]++
	}
	t.Logf("%d keys, %d of them not known until the end: %v", len(all), asked, outcomes)
}
