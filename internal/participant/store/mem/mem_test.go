package mem_test

import (
	"context"
	"testing"
	"time"

	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/participant/store/mem"
	"giro/internal/participant/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		s := mem.New(time.Now)
		t.Cleanup(func() { checkEvents(t, s) })
		return s
	})
}

// The same clock gives the same incarnation, so that a simulation repeats.
func TestDeterministic(t *testing.T) {
	clock := func() time.Time { return time.Unix(1_700_000_000, 123_456_789) }
	first, err := mem.New(clock).Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := mem.New(clock).Identity(t.Context())
	if err != nil || first != second {
		t.Fatalf("%+v, %+v, %v", first, second, err)
	}
}

// checkEvents checks that every applied operation left one event, and that no
// event announces anything else.
func checkEvents(t *testing.T, s *mem.Store) {
	t.Helper()
	listed, err := s.Operations(context.Background(), "", book.ID{}, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	types := map[book.ID]string{}
	for _, o := range listed {
		if o.Outcome == book.Applied && o.Kind != book.JournalLine && o.Kind != book.BroughtForward {
			types[o.ID()] = o.Step
		}
	}
	for _, e := range s.Events() {
		id := book.ID{Tenant: e.Tenant, Key: e.Key}
		if types[id] != e.Type {
			t.Errorf("event %+v announces %q", e, types[id])
		}
		delete(types, id)
	}
	if len(types) != 0 {
		t.Errorf("no event for %v", types)
	}
}
