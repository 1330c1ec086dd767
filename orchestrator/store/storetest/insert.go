package storetest

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"giro/internal/names"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
)

func insertOnce(t *testing.T, s store.Store) {
	before := renew(t, s, owner, time.Hour)
	item := fresh(tenant, "K-1")
	item.Memo, item.Metadata = "rent", map[string]string{"invoice": "17"}
	in := insert(t, s, owner, item)[0]
	after := renew(t, s, owner, time.Hour)

	if in.CreatedAt.Before(before) || in.CreatedAt.After(after) {
		t.Errorf("CreatedAt %s is not between %s and %s, the database's clock", in.CreatedAt, before, after)
	}
	want := item.Saga
	want.CreatedAt, want.ProgressAt, want.UpdatedAt, want.DueAt = in.CreatedAt, in.CreatedAt, in.CreatedAt, in.CreatedAt
	want.Owner, want.Epoch, want.Version = owner, 1, 1
	same(t, "the saga inserted", in, want)
	same(t, "the saga found", lookup(t, s, item.ID), want)
}

func insertTwice(t *testing.T, s store.Store) {
	item := fresh(tenant, "K-1")
	item.Memo, item.Metadata, item.Expiry = "first", map[string]string{"a": "1"}, time.Hour
	first := insert(t, s, owner, item)[0]

	item.Memo, item.Metadata, item.Expiry = "second", map[string]string{"b": "2"}, time.Minute
	item.Contents = contents(9999)
	again, err := s.Insert(ctx(t), another, []store.New{item})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the second insert", again, []store.Inserted{{Saga: first}})
	same(t, "the saga found", lookup(t, s, item.ID), first)
}

func insertTwiceInABatch(t *testing.T, s store.Store) {
	stored := insert(t, s, owner, fresh(tenant, "there-before"))[0]
	first, second := fresh(tenant, "K-1"), fresh(tenant, "K-1")
	first.Memo, second.Memo = "first", "second"
	inserted, err := s.Insert(ctx(t), owner, []store.New{fresh(tenant, "Z"), first, fresh(tenant, "there-before"), second, fresh(tenant, "A")})
	if err != nil {
		t.Fatal(err)
	}
	var created []bool
	var got []names.TransferKey
	for _, in := range inserted {
		created, got = append(created, in.Created), append(got, in.Saga.ID.Key)
		same(t, "the saga found", lookup(t, s, in.Saga.ID), in.Saga)
	}
	same(t, "created", created, []bool{true, true, false, false, true})
	same(t, "order", got, []names.TransferKey{"Z", "K-1", "there-before", "K-1", "A"})
	same(t, "the one that was there", inserted[2].Saga, stored)
	same(t, "the second", inserted[3].Saga, inserted[1].Saga)
	same(t, "memo", inserted[3].Saga.Memo, "first")
}

func insertExpiry(t *testing.T, s store.Store) {
	item := fresh(tenant, "K-1")
	item.Expiry = 90*time.Second + 123456789*time.Nanosecond
	in := insert(t, s, owner, item)[0]
	if got, want := in.ExpiresAt.Sub(in.CreatedAt), 90*time.Second+123456*time.Microsecond; got != want {
		t.Errorf("it expires after %s, want %s", got, want)
	}
	long := fresh(tenant, "K-2")
	long.Expiry = 200 * 365 * 24 * time.Hour
	in = insert(t, s, owner, long)[0]
	if got := in.ExpiresAt.Sub(in.CreatedAt); got != long.Expiry {
		t.Errorf("it expires after %s, want %s", got, long.Expiry)
	}
	same(t, "the saga found", lookup(t, s, in.ID), in)
	never := fresh(tenant, "K-3")
	never.ExpiresAt = time.Now() // the store sets it, and nobody else
	if in := insert(t, s, owner, never)[0]; !in.ExpiresAt.IsZero() {
		t.Errorf("without an expiry it expires at %s", in.ExpiresAt)
	}
}

func insertInCancelling(t *testing.T, s store.Store) {
	id := saga.ID{Tenant: tenant, Key: "K-1"}
	in := insert(t, s, owner, store.New{Saga: saga.New(id, contents(1), true)})[0]
	if in.State != saga.Cancelling || !in.CancelAsked || in.Reason != saga.ReasonCancelAsked {
		t.Errorf("it is %s, cancel asked %t, reason %q", in.State, in.CancelAsked, in.Reason)
	}
	same(t, "the saga found", lookup(t, s, id), in)
}

// insertManyInOrder takes more than fits one transaction.
func insertManyInOrder(t *testing.T, s store.Store) {
	news := freshMany("K", 1201)
	news[0], news[1200] = news[1200], news[0]
	for i, in := range insert(t, s, owner, news...) {
		if in.ID != news[i].ID {
			t.Fatalf("result %d is of %s, want %s", i, in.ID.Key, news[i].ID.Key)
		}
	}
	list, err := s.List(ctx(t), tenant, saga.ID{}, 5000)
	if err != nil || len(list) != len(news) {
		t.Fatalf("%d sagas are there, want %d (%v)", len(list), len(news), err)
	}
	empty, err := s.Insert(ctx(t), owner, nil)
	if err != nil || len(empty) != 0 {
		t.Errorf("an empty insert gave %v, %v", empty, err)
	}
}

// insertRefuses: the last guard, whatever was checked before.
func insertRefuses(t *testing.T, s store.Store) {
	for _, spoil := range []func(*store.New){
		func(n *store.New) { n.Amount = 0 },
		func(n *store.New) { n.Amount = -1 },
		func(n *store.New) { n.State = "PAID" },
	} {
		item := fresh(tenant, "K-1")
		spoil(&item)
		if _, err := s.Insert(ctx(t), owner, []store.New{fresh(tenant, "K-0"), item}); err == nil {
			t.Errorf("amount %d in state %s was stored", item.Amount, item.State)
		}
	}
	for _, key := range []names.TransferKey{"K-0", "K-1"} {
		if _, err := s.Lookup(ctx(t), saga.ID{Tenant: tenant, Key: key}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("after a refused batch, Lookup of %s gave %v", key, err)
		}
	}
}

func insertHostileText(t *testing.T, s store.Store) {
	texts := []string{"", " ", "'; drop table sagas; --", `"quotes" and \back\slashes\`, "{},{\"a\",NULL,\\N}", "%_$1?:name",
		"\u200f\u202eright to left", "👩‍👩‍👧‍👦 e\u0301 ß İ", "\r\n\t\x01\x1f\x7f", "<script>&amp;\u2028\u2029",
		strings.Repeat("x", 512), strings.Repeat("😀", 128), "\ufffd\uffff\U0010ffff"}
	for i, text := range texts {
		item := fresh(tenant, names.TransferKey("K-"+string(rune('a'+i))))
		item.Memo = text
		item.Metadata = map[string]string{"name": text, text: "value", "": ""}
		item.Reason = text
		in := insert(t, s, owner, item)[0]
		found := lookup(t, s, item.ID)
		same(t, "the saga found", found, in)
		if found.Memo != text || found.Reason != text || !maps.Equal(found.Metadata, item.Metadata) {
			t.Errorf("text %q came back as memo %q, reason %q, metadata %q", text, found.Memo, found.Reason, found.Metadata)
		}
		found.ParkReason, found.AttentionReason, found.Parked = text, text, true
		found.Steps = []saga.Step{{Name: saga.StepDebit, Key: found.StepKey(saga.StepDebit), LastError: text, Reason: text}}
		row := save(t, s, found)[0]
		same(t, "the saga saved", lookup(t, s, item.ID), row)
		same(t, "its steps", row.Steps, found.Steps)
		if row.ParkReason != text || row.AttentionReason != text {
			t.Errorf("text %q came back as %q and %q", text, row.ParkReason, row.AttentionReason)
		}
	}
	long := fresh(names.Tenant(strings.Repeat("t", names.PartLengthMax)), names.TransferKey(strings.Repeat("~", names.TransferKeyLengthMax)))
	in := insert(t, s, owner, long)[0]
	same(t, "the longest key", lookup(t, s, long.ID), in)
}

func nothingShared(t *testing.T, s store.Store) {
	item := fresh(tenant, "K-1")
	item.Metadata = map[string]string{"a": "1"}
	in := insert(t, s, owner, item)[0]
	in.Steps = []saga.Step{{Name: saga.StepDebit, Attempts: 1}}
	row := save(t, s, in)[0]
	want := lookup(t, s, item.ID)

	item.Metadata["a"], in.Metadata["a"], row.Metadata["a"] = "2", "3", "4"
	in.Steps[0].Attempts, row.Steps[0].Attempts = 5, 6
	found := lookup(t, s, item.ID)
	same(t, "the saga after the caller changed its copies", found, want)
	found.Metadata["a"], found.Steps[0].Attempts = "7", 8
	same(t, "the saga after the caller changed its copies", lookup(t, s, item.ID), want)
}

func lookupUnknown(t *testing.T, s store.Store) {
	insert(t, s, owner, fresh(tenant, "K-1"))
	for _, id := range []saga.ID{{}, {Tenant: tenant, Key: "K-2"}, {Tenant: tenant, Key: "k-1"}, {Tenant: tenant, Key: "K-1 "}} {
		if _, err := s.Lookup(ctx(t), id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Lookup of %q gave %v, want ErrNotFound", id.Key, err)
		}
	}
}

func tenantsApart(t *testing.T, s store.Store) {
	mine, theirs := fresh(tenant, "1"), fresh(other, "1")
	mine.Memo, theirs.Memo = "mine", "theirs"
	in := insert(t, s, owner, mine, theirs)
	in[0].State = saga.Refused
	in[0] = save(t, s, in[0])[0]
	same(t, "the other tenant's saga", lookup(t, s, theirs.ID), in[1])
	if _, err := s.AskCancel(ctx(t), theirs.ID); err != nil {
		t.Fatal(err)
	}
	same(t, "the first tenant's saga", lookup(t, s, mine.ID), in[0])
	insert(t, s, owner, fresh(tenant, "2"))
	if _, err := s.Lookup(ctx(t), saga.ID{Tenant: other, Key: "2"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another tenant's key: %v, want ErrNotFound", err)
	}
}

func callerGone(t *testing.T, s store.Store) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Insert(over, owner, []store.New{fresh(tenant, "K-1")}); err == nil {
		t.Error("an insert whose caller had gone was answered")
	}
	// The store goes on, and the call may be made again.
	if _, err := s.Insert(ctx(t), owner, []store.New{fresh(tenant, "K-1")}); err != nil {
		t.Errorf("the next insert: %v", err)
	}
}

func manyInsertOneKey(t *testing.T, stores []store.Store) {
	const callers = 100
	results := make([]store.Inserted, callers)
	together(t, stores, callers, func(s store.Store, i int) error {
		item := fresh(tenant, "K-1")
		item.Memo = strings.Repeat("m", i)
		inserted, err := s.Insert(ctx(t), owner, []store.New{item})
		if err == nil {
			results[i] = inserted[0]
		}
		return err
	})
	created := 0
	for _, result := range results {
		if result.Created {
			created++
		}
		same(t, "what one caller was told", result.Saga, results[0].Saga)
	}
	if created != 1 {
		t.Errorf("%d callers created the saga, want exactly 1", created)
	}
	for _, s := range stores {
		same(t, "the saga found", lookup(t, s, results[0].Saga.ID), results[0].Saga)
	}
}

func answeredIsFound(t *testing.T, stores []store.Store) {
	news := freshMany("K", 50)
	together(t, stores, len(news), func(s store.Store, i int) error {
		inserted, err := s.Insert(ctx(t), owner, news[i:i+1])
		if err != nil {
			return err
		}
		found, err := stores[(i+1)%len(stores)].Lookup(ctx(t), news[i].ID)
		same(t, "the saga found", found, inserted[0].Saga)
		return err
	})
}

// crossingBatches: batches that hold the same keys in opposite orders neither
// deadlock nor create anything twice.
func crossingBatches(t *testing.T, stores []store.Store) {
	const callers, size = 8, 60
	created := make([]int, callers)
	together(t, stores, callers, func(s store.Store, i int) error {
		news := freshMany("K", size)
		if i%2 == 1 {
			for a, b := 0, size-1; a < b; a, b = a+1, b-1 {
				news[a], news[b] = news[b], news[a]
			}
		}
		inserted, err := s.Insert(ctx(t), owner, news)
		for _, in := range inserted {
			if in.Created {
				created[i]++
			}
		}
		return err
	})
	total := 0
	for _, n := range created {
		total += n
	}
	if total != size {
		t.Errorf("%d were created of %d keys", total, size)
	}
}
