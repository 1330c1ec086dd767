package sim

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
)

var (
	seedFlag = flag.Uint64("sim.seed", 0, "play this seed alone")
	runsFlag = flag.Int("sim.runs", 150, "how many fresh seeds to play")
)

// TestSimulator plays fresh seeds. A failing seed prints itself and the end of
// its history; -sim.seed plays it again.
func TestSimulator(t *testing.T) {
	first := *seedFlag
	runs := *runsFlag
	if first == 0 {
		first = rand.Uint64() >> 1
	} else {
		runs = 1
	}
	t.Logf("seeds %d to %d", first, first+uint64(runs)-1)
	var steps int64
	finals, faults := map[string]int{}, map[string]int{}
	for i := range runs {
		seed := first + uint64(i)
		result, err := Run(Config{Seed: seed, Wipe: seed%3 == 0})
		if err != nil {
			t.Fatalf("seed %d: %v\nplay it again with: go test ./internal/sim -run TestSimulator -sim.seed %d\n%s",
				seed, err, seed, result.Story(120))
		}
		steps += result.Steps
		for k, n := range result.Finals {
			finals[k] += n
		}
		for k, n := range result.Faults {
			faults[k] += n
		}
	}
	t.Logf("%d steps; finals %v; faults %v", steps, finals, faults)
	if runs == 1 {
		return
	}
	// A simulator that never gets anywhere proves nothing.
	for _, state := range []string{"COMPLETED", "REFUSED", "REFUNDED", "CANCELLED"} {
		if finals[state] == 0 {
			t.Errorf("no transfer ended %s in %d runs", state, runs)
		}
	}
	for _, fault := range []string{"crash", "sleep", "saga table lost", "request lost", "request doubled", "answer lost",
		"message late", "store failed before", "store failed after it was done", "crash after the insert"} {
		if faults[fault] == 0 {
			t.Errorf("the fault %q never struck in %d runs", fault, runs)
		}
	}
}

// TestSimulatorReplays shows that one seed gives one history.
func TestSimulatorReplays(t *testing.T) {
	for _, wipe := range []bool{false, true} {
		first, err1 := Run(Config{Seed: 7, Wipe: wipe})
		second, err2 := Run(Config{Seed: 7, Wipe: wipe})
		if (err1 == nil) != (err2 == nil) || first.Steps != second.Steps || !slices.Equal(first.History, second.History) {
			t.Fatalf("wipe %v: the same seed gave two histories of %d and %d steps (%v, %v)", wipe, first.Steps, second.Steps, err1, err2)
		}
	}
}
