package mem_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"giro/internal/fingerprint"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
	"giro/orchestrator/store/mem"
	"giro/orchestrator/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return mem.New(time.Now) })
}

func TestWipeLosesEverything(t *testing.T) {
	ctx := context.Background()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := mem.New(func() time.Time { return at })
	id := saga.ID{Tenant: "acme", Key: "K-1"}
	contents := fingerprint.Contents{Source: "a/1", Destination: "b/2", Amount: 1, Currency: "USD"}
	insert := func() bool {
		t.Helper()
		inserted, err := s.Insert(ctx, "replica-1", []store.New{{Saga: saga.New(id, contents, false)}})
		if err != nil {
			t.Fatal(err)
		}
		return inserted[0].Created
	}
	insert()
	final := saga.New(id, contents, false)
	final.State = saga.Completed
	if _, err := s.Save(ctx, []store.Write{{Saga: final, FromVersion: 1, FromEpoch: 1, FromCreatedAt: final.CreatedAt}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Renew(ctx, "replica-1", time.Hour); err != nil {
		t.Fatal(err)
	}

	s.Wipe()
	if _, err := s.Lookup(ctx, id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a saga is left: %v", err)
	}
	if events, err := s.FinalEvents(ctx, "", store.EventPlace{}, 10); err != nil || len(events) != 0 {
		t.Errorf("%d events are left, %v", len(events), err)
	}
	if !insert() {
		t.Error("the key is not new again")
	}
	if claimed, err := s.Claim(ctx, "replica-2", 10, time.Minute); err != nil || len(claimed) != 1 {
		t.Errorf("the lease is left: %d sagas were claimed, %v", len(claimed), err)
	}
}
