package mem_test

import (
	"testing"
	"time"

	"giro/internal/participant/store"
	"giro/internal/participant/store/mem"
	"giro/internal/participant/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return mem.New(time.Now) })
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
