package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "giro/proto/giro/participant/v1"
)

// record is what callers know of one key.
type record struct {
	// operation is what the key stands for.
	operation *pb.Operation

	mu sync.Mutex
	// asked is the request that was sent last: the operation, or a Cancel of it.
	asked *pb.Operation
	// told is the first outcome that anybody was told; nil: nobody knows.
	told *pb.Answer
	// fresh counts those who were told that theirs was the first.
	fresh int
}

// known is the outcome that somebody was told, or nil.
func (r *record) known() *pb.Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told
}

// essence is what every answer to one key must have in common: all but whether it
// is a repeat, and the amount, which echoes the request's.
func essence(a *pb.Answer) *pb.Answer {
	c := proto.CloneOf(a)
	c.Replayed, c.Amount = false, 0
	return c
}

// hear takes an answer to the key's own contents, and says what is wrong with it.
func (r *record) hear(a *pb.Answer) error {
	switch a.GetOutcome() {
	case pb.Outcome_OUTCOME_APPLIED, pb.Outcome_OUTCOME_REFUSED, pb.Outcome_OUTCOME_CANCELLED:
	default:
		return fmt.Errorf("%v was answered %v", r.operation, a)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told == nil {
		r.told = essence(a)
	}
	if !proto.Equal(r.told, essence(a)) {
		return fmt.Errorf("%v was answered\n%v, and before\n%v", r.operation, a, r.told)
	}
	if !a.GetReplayed() {
		r.fresh++
	}
	if r.fresh > 1 {
		return fmt.Errorf("%v was done %d times: %v", r.operation, r.fresh, a)
	}
	return nil
}

// records holds all keys that were ever sent.
type records struct {
	mu    sync.Mutex
	all   []*record
	byKey map[string]*record
}

func (rs *records) add(o *pb.Operation) *record {
	r := &record{operation: o, asked: o}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.all = append(rs.all, r)
	rs.byKey[o.GetKey()] = r
	return r
}

// pick gives a key that was sent before: half the time one of the latest, which
// may be under way.
func (rs *records) pick(random *rand.Rand) *record {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	n := len(rs.all)
	if n == 0 {
		return nil
	}
	if random.IntN(2) == 0 {
		return rs.all[n-1-random.IntN(min(n, 200))]
	}
	return rs.all[random.IntN(n)]
}

// snapshot lists them all.
func (rs *records) snapshot() []*record {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return slices.Clone(rs.all)
}

// faults gathers what is wrong, from all callers.
type faults struct {
	mu    sync.Mutex
	count int
	first []string
}

func (f *faults) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count++; len(f.first) < 10 {
		f.first = append(f.first, fmt.Sprintf(format, args...))
	}
}

func (f *faults) report(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, text := range f.first {
		t.Error(text)
	}
	if f.count > len(f.first) {
		t.Errorf("and %d more", f.count-len(f.first))
	}
}
