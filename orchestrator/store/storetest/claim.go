package storetest

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"giro/internal/names"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
)

// claimOnly: of running, parked, backed-off and final sagas, of owners that live,
// whose lease ended, that released it, that never had one, and of nobody, only
// those are taken that are due and that nobody carries out.
func claimOnly(t *testing.T, s store.Store) {
	renew(t, s, "alive", time.Hour)
	renew(t, s, "claimer", time.Hour)
	renew(t, s, "released", time.Hour)
	release(t, s, "released")
	end := renew(t, s, "ended", time.Millisecond).Add(time.Millisecond)
	waitFor(t, s, end)

	taken := map[names.TransferKey]string{}
	var before []saga.Saga
	for _, owner := range []string{"alive", "claimer", "released", "ended", "never-leased", ""} {
		news := freshMany("K-"+owner, 8)
		in := insert(t, s, owner, news...)
		in[1].Parked, in[1].ParkReason = true, "broke the contract"
		in[2].DueAt = in[2].DueAt.Add(time.Hour)
		in[3].State = saga.Completed
		in[4].State = saga.Crediting
		in[5].State = saga.Cancelling
		in[6].State = saga.Refunding
		in = append(append(in[:0:0], in[0]), append(save(t, s, in[1:7]...), in[7])...)
		before = append(before, in...)
		if owner != "alive" && owner != "claimer" {
			for _, i := range []int{0, 4, 5, 6, 7} {
				taken[in[i].ID.Key] = owner
			}
		}
	}
	claimed := claim(t, s, "claimer", 100, time.Minute)
	byKey := map[names.TransferKey]saga.Saga{}
	for _, c := range claimed {
		byKey[c.ID.Key] = c
	}
	if len(claimed) != len(taken) || len(byKey) != len(taken) {
		t.Errorf("%d sagas (%d distinct) were claimed, want %d", len(claimed), len(byKey), len(taken))
	}
	for _, old := range before {
		want, row := old, byKey[old.ID.Key]
		if _, take := taken[old.ID.Key]; take {
			want.Owner, want.Epoch, want.Version = "claimer", old.Epoch+1, old.Version+1
			want.DueAt, want.UpdatedAt = row.DueAt, row.UpdatedAt
			if row.DueAt.Before(old.DueAt) {
				t.Errorf("%s is due from %s, before it was", old.ID.Key, row.DueAt)
			}
			same(t, "the saga claimed", row, want)
		}
		same(t, "the saga found", lookup(t, s, old.ID), want)
	}
	if again := claim(t, s, "claimer", 100, time.Minute); len(again) != 0 {
		t.Errorf("the next claim took %v", keys(again))
	}
	if none := claim(t, s, another, 100, time.Minute); len(none) != 0 {
		t.Errorf("another claimer took %v from one that lives", keys(none))
	}
}

func claimOldestFirst(t *testing.T, s store.Store) {
	// Due in the opposite order of their keys, and of two owners.
	first := insert(t, s, gone, freshMany("A", 10)...)
	first = append(first, insert(t, s, "gone-too", freshMany("B", 10)...)...)
	base := renew(t, s, owner, time.Hour)
	for i := range first {
		first[i].DueAt = base.Add(-time.Duration(i%10*2+i/10) * time.Second)
	}
	save(t, s, first...)
	var want []names.TransferKey
	for age := 19; age >= 0; age-- {
		want = append(want, first[age/2+age%2*10].ID.Key)
	}
	var got []names.TransferKey
	for range 7 {
		claimed := claim(t, s, owner, 3, time.Hour)
		if len(claimed) > 3 {
			t.Fatalf("a claim of 3 took %d", len(claimed))
		}
		got = append(got, keys(claimed)...)
	}
	same(t, "the order of the claims", got, want)
	insert(t, s, gone, fresh(tenant, "C"))
	for _, limit := range []int{0, -1} {
		if claimed := claim(t, s, owner, limit, time.Hour); len(claimed) != 0 {
			t.Errorf("a claim of %d took %d", limit, len(claimed))
		}
	}
}

// claimDoesNotStarve: 1,000 parked sagas, 1,000 backed-off ones and 1,000 of an
// owner that lives, all stored and due before the ones that are to be found.
func claimDoesNotStarve(t *testing.T, s store.Store) {
	base := renew(t, s, "alive", time.Hour)
	parked := insert(t, s, gone, freshMany("A", 1000)...)
	backedOff := insert(t, s, gone, freshMany("B", 1000)...)
	alive := insert(t, s, "alive", freshMany("C", 1000)...)
	for i := range parked {
		parked[i].Parked, parked[i].DueAt = true, base.Add(-time.Hour)
		backedOff[i].DueAt = base.Add(time.Hour)
		alive[i].DueAt = base.Add(-time.Hour)
	}
	save(t, s, parked...)
	save(t, s, backedOff...)
	save(t, s, alive...)
	due := insert(t, s, gone, freshMany("D", 5)...)
	if claimed := claim(t, s, owner, 5, time.Minute); len(claimed) != len(due) {
		t.Errorf("%d sagas were claimed, want the %d that are due", len(claimed), len(due))
	}
}

// claimOwnStrays: what an insert or a claim with a lost answer left behind.
func claimOwnStrays(t *testing.T, s store.Store) {
	base := renew(t, s, owner, time.Hour)
	in := insert(t, s, owner, freshMany("K", 3)...)
	in[0].DueAt = base.Add(-10 * time.Second)
	in[1].DueAt = base.Add(-30 * time.Second)
	in[2].DueAt = base.Add(30 * time.Second)
	save(t, s, in...)
	same(t, "younger than strayAfter", len(claim(t, s, owner, 10, time.Minute)), 0)
	same(t, "another's claim", len(claim(t, s, another, 10, 0)), 0)
	claimed := claim(t, s, owner, 10, 20*time.Second)
	same(t, "strays", keys(claimed), []names.TransferKey{in[1].ID.Key})
	if len(claimed) == 1 && (claimed[0].Epoch != 2 || claimed[0].Version != 3) {
		t.Errorf("epoch %d, version %d; want 2 and 3", claimed[0].Epoch, claimed[0].Version)
	}
	same(t, "claimed again at once", len(claim(t, s, owner, 10, 20*time.Second)), 0)
}

// claimFences: whoever slept through its lease cannot write over its successor.
func claimFences(t *testing.T, s store.Store) {
	in := insert(t, s, owner, fresh(tenant, "K-1"))[0]
	claimed := claim(t, s, another, 10, time.Minute)
	if len(claimed) != 1 {
		t.Fatalf("%d sagas were claimed, want 1", len(claimed))
	}
	late := in
	late.State = saga.Refunding
	same(t, "the old owner's save", trySave(t, s, write(late))[0], store.Saved{Saga: claimed[0]})
	// Even if it guessed the version.
	guess := store.Write{Saga: late, FromVersion: claimed[0].Version, FromEpoch: in.Epoch, FromCreatedAt: in.CreatedAt}
	same(t, "the old owner's guess", trySave(t, s, guess)[0], store.Saved{Saga: claimed[0]})
	claimed[0].State = saga.Completed
	save(t, s, claimed[0])
}

func leaseEnds(t *testing.T, s store.Store) {
	const lease = 300 * time.Millisecond
	insert(t, s, owner, fresh(tenant, "K-1"))
	end := renew(t, s, owner, lease).Add(lease)
	early := claim(t, s, another, 10, time.Minute)
	if now := renew(t, s, "clock", time.Second); len(early) != 0 && now.Before(end) {
		t.Fatalf("taken at %s from an owner whose lease ends at %s", now, end)
	}
	waitFor(t, s, end)
	if len(early) == 0 && len(claim(t, s, another, 10, time.Minute)) != 1 {
		t.Error("nobody took it after its owner's lease had ended")
	}
}

func renewTellsClock(t *testing.T, s store.Store) {
	first := renew(t, s, owner, time.Hour)
	second := renew(t, s, owner, time.Millisecond) // it may be shortened
	if second.Before(first) || time.Since(second).Abs() > time.Minute {
		t.Errorf("the clock said %s, then %s", first, second)
	}
	if first.Location() != time.UTC || !first.Equal(first.Truncate(time.Microsecond)) {
		t.Errorf("%s is not in whole microseconds, UTC", first)
	}
	insert(t, s, owner, fresh(tenant, "K-1"))
	waitFor(t, s, second.Add(time.Millisecond))
	if len(claim(t, s, another, 1, time.Minute)) != 1 {
		t.Error("a lease that was shortened did not end")
	}
	release(t, s, owner)
	release(t, s, owner) // a call may be made again
	release(t, s, "never-leased")
}

// claimersNeverShare: each saga is taken by one claimer, once, while owners
// write and clients cancel.
func claimersNeverShare(t *testing.T, stores []store.Store) {
	const count, claimers = 300, 8
	in := insert(t, stores[0], gone, freshMany("K", count)...)
	var mu sync.Mutex
	takenBy := map[saga.ID]string{}
	together(t, stores, claimers+1, func(s store.Store, i int) error {
		if i == claimers {
			for _, item := range in[:20] {
				if _, err := s.AskCancel(ctx(t), item.ID); err != nil {
					return err
				}
			}
			return nil
		}
		name := string(rune('a' + i))
		if _, err := s.Renew(ctx(t), name, time.Hour); err != nil {
			return err
		}
		for {
			claimed, err := s.Claim(ctx(t), name, 7, time.Hour)
			if err != nil {
				return err
			}
			mu.Lock()
			for _, c := range claimed {
				if c.Epoch != 2 || c.Owner != name || takenBy[c.ID] != "" {
					t.Errorf("%s took %s at epoch %d, owner %s, taken before by %q", name, c.ID.Key, c.Epoch, c.Owner, takenBy[c.ID])
				}
				takenBy[c.ID] = name
			}
			all := len(takenBy) == count
			mu.Unlock()
			// An empty answer may mean that others hold the rows just now.
			if all || ctx(t).Err() != nil {
				return ctx(t).Err()
			}
		}
	})
	for id, name := range takenBy {
		if found := lookup(t, stores[0], id); found.Owner != name || found.Epoch != 2 {
			t.Errorf("%s belongs to %s at epoch %d, but %s took it", id.Key, found.Owner, found.Epoch, name)
		}
	}
}

// cancelsAsked: of all sagas only those of the owner that go forward, unparked,
// although they were asked to stop.
func cancelsAsked(t *testing.T, s store.Store) {
	in := insert(t, s, owner, freshMany("K", 7)...)
	theirs := insert(t, s, another, fresh(tenant, "L"))[0]
	in[1].State = saga.Crediting
	in[2].State = saga.Cancelling
	in[3].State = saga.Completed
	in[4].Parked = true
	save(t, s, in[1:5]...)
	for _, asked := range append(in[:6:6], theirs) {
		if _, err := s.AskCancel(ctx(t), asked.ID); err != nil {
			t.Fatal(err)
		}
	}
	read := func(owner string, limit int) []saga.Saga {
		list, err := s.CancelsAsked(ctx(t), owner, limit)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(list, func(a, b saga.Saga) int { return strings.Compare(string(a.ID.Key), string(b.ID.Key)) })
		return list
	}
	same(t, "the owner's", read(owner, 100), []saga.Saga{lookup(t, s, in[0].ID), lookup(t, s, in[1].ID), lookup(t, s, in[5].ID)})
	same(t, "the other's", read(another, 100), []saga.Saga{lookup(t, s, theirs.ID)})
	if limited := read(owner, 2); len(limited) != 2 {
		t.Errorf("a limit of 2 gave %d", len(limited))
	}
	if none := read("nobody", 100); len(none) != 0 {
		t.Errorf("nobody's: %v", keys(none))
	}
}
