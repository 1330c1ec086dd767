package storetest

import (
	"slices"
	"testing"

	"giro/internal/names"
	"giro/internal/stepkey"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
)

// mixed stores sagas of two tenants, out of order, with keys that a collation
// other than byte for byte would order differently, and gives them in order.
func mixed(t *testing.T, s store.Store) []saga.Saga {
	var news []store.New
	for _, key := range []names.TransferKey{"~", "b", "a-1", "a:1", "A", "a", "B", "_", "a_1", "10", "9", "aA", "Aa"} {
		news = append(news, fresh(other, key), fresh(tenant, key))
	}
	in := insert(t, s, owner, news...)
	slices.SortFunc(in, func(a, b saga.Saga) int {
		if a.Tenant != b.Tenant {
			return slices.Compare([]byte(a.Tenant), []byte(b.Tenant))
		}
		return slices.Compare([]byte(a.ID.Key), []byte(b.ID.Key))
	})
	return in
}

func listPages(t *testing.T, s store.Store) {
	want := mixed(t, s)
	same(t, "two tenants", list(t, s, "", 4), want)
	same(t, "one tenant", list(t, s, tenant, 4), want[:len(want)/2])
	same(t, "the other", list(t, s, other, 1000), want[len(want)/2:])
	same(t, "nobody", len(list(t, s, "nobody", 4)), 0)
	from, err := s.List(ctx(t), "", saga.ID{Tenant: tenant, Key: "a"}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	place := slices.IndexFunc(want, func(s saga.Saga) bool { return s.ID.Key == "a" })
	same(t, "after a key", from, want[place+1:])
	for _, limit := range []int{0, -1} {
		if none, err := s.List(ctx(t), "", saga.ID{}, limit); err != nil || len(none) != 0 {
			t.Errorf("limit %d gave %d sagas, %v", limit, len(none), err)
		}
	}
}

// list reads page by page.
func list(t *testing.T, s store.Store, tenant names.Tenant, size int) []saga.Saga {
	t.Helper()
	var all []saga.Saga
	var after saga.ID
	for {
		page, err := s.List(ctx(t), tenant, after, size)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > size {
			t.Fatalf("a page of %d holds %d", size, len(page))
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		after = page[len(page)-1].ID
	}
}

func finalEventsPages(t *testing.T, s store.Store) {
	in := mixed(t, s)
	for i := range in {
		in[i].State = saga.Finals[i%len(saga.Finals)]
	}
	save(t, s, in...)
	all := finalEvents(t, s)
	if len(all) != len(in) {
		t.Fatalf("%d events, want %d", len(all), len(in))
	}
	ordered := slices.IsSortedFunc(all, func(a, b store.FinalEvent) int {
		if a.Tenant != b.Tenant {
			return slices.Compare([]byte(a.Tenant), []byte(b.Tenant))
		}
		return slices.Compare(a.ID[:], b.ID[:])
	})
	if !ordered {
		t.Error("the events are not ordered by tenant and id")
	}
	same(t, "page by page", events(t, s, "", 4), all)
	same(t, "one tenant", events(t, s, tenant, 4), all[:len(all)/2])
	same(t, "the other", events(t, s, other, 4), all[len(all)/2:])
	for _, limit := range []int{0, -1} {
		if none, err := s.FinalEvents(ctx(t), "", store.EventPlace{}, limit); err != nil || len(none) != 0 {
			t.Errorf("limit %d gave %d events, %v", limit, len(none), err)
		}
	}
}

// events reads page by page.
func events(t *testing.T, s store.Store, tenant names.Tenant, size int) []store.FinalEvent {
	t.Helper()
	var all []store.FinalEvent
	var after store.EventPlace
	for {
		page, err := s.FinalEvents(ctx(t), tenant, after, size)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > size {
			t.Fatalf("a page of %d holds %d", size, len(page))
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		after = page[len(page)-1].EventPlace
	}
}

// unfinishedPages: of all tenants, parked ones too, and none that is final.
func unfinishedPages(t *testing.T, s store.Store) {
	in := mixed(t, s)
	in[0].State, in[len(in)-1].State = saga.Completed, saga.Refused
	in[1].Parked, in[1].ParkReason = true, "broke the contract"
	save(t, s, in[0], in[1], in[len(in)-1])
	var want []names.TransferKey
	for _, one := range in[1 : len(in)-1] {
		want = append(want, one.ID.Key)
	}
	slices.Sort(want)
	for _, size := range []int{2, 5, 1000} {
		var got []names.TransferKey
		for after := names.TransferKey(""); ; {
			page, err := s.Unfinished(ctx(t), after, size)
			if err != nil || len(page) > size {
				t.Fatalf("a page of %d: %v", len(page), err)
			}
			if len(page) == 0 {
				break
			}
			got, after = append(got, page...), page[len(page)-1]
		}
		// A key of two tenants may stand once, where a page ends between them.
		same(t, "by pages", slices.Compact(got), slices.Compact(slices.Clone(want)))
	}
	if none, err := s.Unfinished(ctx(t), "", 0); err != nil || len(none) != 0 {
		t.Errorf("limit 0: %v, %v", none, err)
	}
}

func identity(t *testing.T, s store.Store) {
	first, err := s.Identity(ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stepkey.Parse(first); err != nil {
		t.Errorf("%q is no UUID: %v", first, err)
	}
	insert(t, s, owner, fresh(tenant, "K"))
	if again, err := s.Identity(ctx(t)); err != nil || again != first {
		t.Errorf("%q, then %q, %v", first, again, err)
	}
}
