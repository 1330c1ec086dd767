package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"giro/internal/stepkey"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
)

func saveWrites(t *testing.T, s store.Store) {
	in := insert(t, s, owner, fresh(tenant, "K-1"))[0]
	at := time.Now().In(time.FixedZone("far", 5*3600)) // nanoseconds, a zone, a monotonic reading
	next := in
	next.State, next.Reason = saga.Refunding, "ACCOUNT_CLOSED"
	next.RefundToSuspense, next.DebitApplied = true, true
	next.Parked, next.ParkReason = true, "echoed another key"
	next.Attention, next.AttentionReason = true, "no answer for 2 minutes"
	next.Steps = []saga.Step{
		{Name: saga.StepDebit, Key: in.StepKey(saga.StepDebit), Attempts: 3, FirstSentAt: at, LastSentAt: at.Add(time.Second),
			AnsweredAt: at.Add(2 * time.Second), Outcome: "APPLIED", AmountMoved: 4000},
		{Name: saga.StepCredit, Key: in.StepKey(saga.StepCredit), Attempts: 1, FirstSentAt: at, LastError: "unavailable"},
	}
	next.ProgressAt, next.DueAt = at, at.Add(time.Minute)
	before := renew(t, s, owner, time.Hour)
	row := save(t, s, next)[0]
	after := renew(t, s, owner, time.Hour)
	if row.UpdatedAt.Before(before) || row.UpdatedAt.After(after) {
		t.Errorf("UpdatedAt %s is not between %s and %s, the database's clock", row.UpdatedAt, before, after)
	}

	micro := func(at time.Time) time.Time { return at.UTC().Truncate(time.Microsecond) }
	want := next
	want.Steps = append([]saga.Step(nil), next.Steps...)
	for i := range want.Steps {
		step := &want.Steps[i]
		step.FirstSentAt, step.LastSentAt, step.AnsweredAt = micro(step.FirstSentAt), micro(step.LastSentAt), micro(step.AnsweredAt)
	}
	want.ProgressAt, want.DueAt = micro(at), micro(at.Add(time.Minute))
	want.Version, want.UpdatedAt = 2, row.UpdatedAt
	same(t, "the saga saved", row, want)
	same(t, "the saga found", lookup(t, s, in.ID), want)
}

func saveKeeps(t *testing.T, s store.Store) {
	item := fresh(tenant, "K-1")
	item.Memo, item.Metadata, item.Expiry = "rent", map[string]string{"a": "1"}, time.Hour
	in := insert(t, s, owner, item)[0]
	next := in
	next.Contents, next.Fingerprint = contents(1), saga.New(in.ID, contents(1), false).Fingerprint
	next.Memo, next.Metadata = "other", nil
	next.CreatedAt, next.ExpiresAt = time.Now().Add(time.Hour), time.Time{}
	next.CancelAsked, next.Owner = true, another
	next.State = saga.Crediting
	w := store.Write{Saga: next, FromVersion: 1, FromEpoch: 1, FromCreatedAt: in.CreatedAt}
	w.Saga.Epoch, w.Saga.Version = 17, 18
	row := trySave(t, s, w)[0]

	want := in
	want.State, want.Version, want.UpdatedAt = saga.Crediting, 2, row.Saga.UpdatedAt
	same(t, "the answer", row, store.Saved{OK: true, Saga: want})
	same(t, "the saga found", lookup(t, s, in.ID), want)
}

func saveCompares(t *testing.T, s store.Store) {
	in := insert(t, s, owner, fresh(tenant, "K-1"))[0]
	row := save(t, s, in)[0] // version 2, epoch 1
	for _, from := range [][2]int64{{1, 1}, {3, 1}, {2, 0}, {2, 2}, {0, 0}} {
		next := row
		next.State = saga.Completed
		saved := trySave(t, s, store.Write{Saga: next, FromVersion: from[0], FromEpoch: from[1], FromCreatedAt: in.CreatedAt})[0]
		same(t, fmt.Sprintf("a save from version %d, epoch %d", from[0], from[1]), saved, store.Saved{Saga: row})
	}
	// The same numbers, but of a row that is no more.
	next := row
	next.State = saga.Completed
	former := trySave(t, s, store.Write{Saga: next, FromVersion: 2, FromEpoch: 1, FromCreatedAt: in.CreatedAt.Add(-time.Second)})[0]
	same(t, "a save from a row created at another time", former, store.Saved{Saga: row})
	same(t, "the saga found", lookup(t, s, in.ID), row)
	if events := finalEvents(t, s); len(events) != 0 {
		t.Errorf("saves that lost left %d events", len(events))
	}
}

func saveOneLoses(t *testing.T, s store.Store) {
	in := insert(t, s, owner, freshMany("K", 5)...)
	moved := save(t, s, in[2])[0]
	writes := make([]store.Write, len(in))
	for i := range in {
		next := in[len(in)-1-i] // in another order than they were stored
		next.State = saga.Completed
		writes[i] = write(next)
	}
	for i, saved := range trySave(t, s, writes...) {
		if saved.Saga.ID != writes[i].Saga.ID {
			t.Fatalf("result %d is of %s, want %s", i, saved.Saga.ID.Key, writes[i].Saga.ID.Key)
		}
		if i == 2 {
			same(t, "the one that lost", saved, store.Saved{Saga: moved})
			continue
		}
		if !saved.OK || saved.Saga.State != saga.Completed || saved.Saga.Version != 2 {
			t.Errorf("%s: OK %t, %s, version %d", saved.Saga.ID.Key, saved.OK, saved.Saga.State, saved.Saga.Version)
		}
		same(t, "the saga found", lookup(t, s, saved.Saga.ID), saved.Saga)
	}
	if events := finalEvents(t, s); len(events) != 4 {
		t.Errorf("%d events, want one for each of the 4 that were saved", len(events))
	}
}

// saveTwiceInABatch: items count in their order, as if each came alone.
func saveTwiceInABatch(t *testing.T, s store.Store) {
	in := insert(t, s, owner, freshMany("K", 2)...)
	first, late, second := in[0], in[0], in[0]
	first.State, late.State, second.State = saga.Crediting, saga.Refused, saga.Completed
	saved := trySave(t, s, write(first), write(late), write(in[1]), store.Write{Saga: second, FromVersion: 2, FromEpoch: 1, FromCreatedAt: second.CreatedAt})
	var ok []bool
	for _, one := range saved {
		ok = append(ok, one.OK)
	}
	same(t, "OK", ok, []bool{true, false, true, true})
	if saved[1].Saga.ID != in[0].ID || saved[1].Saga.State == saga.Refused {
		t.Errorf("the one that lost was told %+v", saved[1].Saga)
	}
	same(t, "the saga found", lookup(t, s, in[0].ID), saved[3].Saga)
	if saved[3].Saga.Version != 3 || saved[3].Saga.State != saga.Completed {
		t.Errorf("it is %s at version %d, want COMPLETED at 3", saved[3].Saga.State, saved[3].Saga.Version)
	}
}

func saveUnknown(t *testing.T, s store.Store) {
	lost := fresh(tenant, "lost").Saga
	lost.State, lost.Version, lost.Epoch = saga.Completed, 1, 1
	same(t, "a save of a saga that is not there", trySave(t, s, write(lost))[0], store.Saved{Saga: saga.Saga{ID: lost.ID}})
	if _, err := s.Lookup(ctx(t), lost.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Lookup gave %v, want ErrNotFound", err)
	}
	if events := finalEvents(t, s); len(events) != 0 {
		t.Errorf("it left %d events", len(events))
	}
	if saved := trySave(t, s); len(saved) != 0 {
		t.Errorf("an empty save gave %v", saved)
	}
}

func saveFinal(t *testing.T, s store.Store) {
	in := insert(t, s, owner, fresh(tenant, "K-1"))[0]
	in.State = saga.Refunded
	row := save(t, s, in)[0]
	for _, state := range []saga.State{saga.Completed, saga.Debiting, saga.Refunded} {
		next := row
		next.State = state
		same(t, "a save over a final state", trySave(t, s, write(next))[0], store.Saved{Saga: row})
	}
	same(t, "the saga found", lookup(t, s, in.ID), row)
}

// saveMany takes more than fits one transaction, all final.
func saveMany(t *testing.T, s store.Store) {
	in := insert(t, s, owner, freshMany("K", 1201)...)
	for i := range in {
		in[i].State = saga.Completed
	}
	for i, row := range save(t, s, in...) {
		if row.ID != in[i].ID || row.Version != 2 || row.State != saga.Completed {
			t.Fatalf("result %d: %s, version %d, %s", i, row.ID.Key, row.Version, row.State)
		}
	}
	if events := finalEvents(t, s); len(events) != len(in) {
		t.Errorf("%d events, want %d", len(events), len(in))
	}
}

func finalEventOnce(t *testing.T, s store.Store) {
	for i, state := range saga.Finals {
		in := insert(t, s, owner, freshMany(fmt.Sprintf("K-%d", i), 1)...)[0]
		in.State = saga.Crediting
		in = save(t, s, in)[0]
		if events := finalEvents(t, s); len(events) != i {
			t.Fatalf("a running state left an event: %d, want %d", len(events), i)
		}
		final := in
		final.State = state
		row := save(t, s, final)[0]
		trySave(t, s, write(final), write(row)) // the answer was lost, and it is asked again

		var found []store.FinalEvent
		for _, event := range finalEvents(t, s) {
			if event.Key == in.ID.Key {
				found = append(found, event)
			}
		}
		same(t, "the events", found, []store.FinalEvent{{
			EventPlace: store.EventPlace{Tenant: tenant, ID: stepkey.FinalEvent(tenant, in.ID.Key)},
			Key:        in.ID.Key, Type: string(state), Time: row.UpdatedAt,
		}})
	}
}

func finalEventNotWithoutSave(t *testing.T, s store.Store) {
	in := insert(t, s, owner, freshMany("K", 2)...)
	in[0].State = saga.Completed
	in[1].State = "PAID" // no such state: the transaction fails
	if _, err := s.Save(ctx(t), []store.Write{write(in[0]), write(in[1])}); err == nil {
		t.Fatal("a state that does not exist was stored")
	}
	if got := lookup(t, s, in[0].ID); got.State != saga.Debiting || got.Version != 1 {
		t.Errorf("after a failed save the saga is %s at version %d", got.State, got.Version)
	}
	if events := finalEvents(t, s); len(events) != 0 {
		t.Errorf("a failed save left %d events", len(events))
	}
}

func askCancel(t *testing.T, s store.Store) {
	in := insert(t, s, owner, fresh(tenant, "K-1"))[0]
	asked, err := s.AskCancel(ctx(t), in.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := in
	want.CancelAsked, want.Version, want.UpdatedAt = true, 2, asked.UpdatedAt
	same(t, "the saga asked to stop", asked, want)

	again, err := s.AskCancel(ctx(t), in.ID)
	same(t, "asked again", again, asked)
	if err != nil {
		t.Error(err)
	}
	// The owner did not know. It loses once, sees why, and then wins.
	in.State = saga.Crediting
	lost := trySave(t, s, write(in))[0]
	same(t, "the owner's save", lost, store.Saved{Saga: asked})
	next := lost.Saga
	next.State = saga.Cancelling
	row := save(t, s, next)[0]
	if !row.CancelAsked || row.Version != 3 || row.State != saga.Cancelling {
		t.Errorf("it is %s at version %d, cancel asked %t", row.State, row.Version, row.CancelAsked)
	}
}

func askCancelFinal(t *testing.T, s store.Store) {
	in := insert(t, s, owner, fresh(tenant, "K-1"))[0]
	in.State = saga.Completed
	row := save(t, s, in)[0]
	got, err := s.AskCancel(ctx(t), in.ID)
	same(t, "a final saga", got, row)
	same(t, "error", err, nil)
	same(t, "the saga found", lookup(t, s, in.ID), row)
}

func askCancelUnknown(t *testing.T, s store.Store) {
	if _, err := s.AskCancel(ctx(t), saga.ID{Tenant: tenant, Key: "K-1"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it gave %v, want ErrNotFound", err)
	}
}

// manySaveOneRow: of many writers of one version exactly one wins.
func manySaveOneRow(t *testing.T, stores []store.Store) {
	in := insert(t, stores[0], owner, freshMany("K", 20)...)
	var wins atomic.Int64
	together(t, stores, 16, func(s store.Store, i int) error {
		writes := make([]store.Write, len(in))
		for j := range in {
			at := j
			if i%2 == 1 {
				at = len(in) - 1 - j
			}
			writes[j] = write(in[at])
			writes[j].Saga.State = saga.Completed
			writes[j].Saga.Reason = fmt.Sprintf("writer %d", i)
		}
		saved, err := s.Save(ctx(t), writes)
		for j, one := range saved {
			if one.OK {
				wins.Add(1)
			}
			if one.Saga.Version != 2 || one.OK != (one.Saga.Reason == writes[j].Saga.Reason) {
				t.Errorf("OK %t, but the row is at version %d, written by %s", one.OK, one.Saga.Version, one.Saga.Reason)
			}
		}
		return err
	})
	if wins.Load() != int64(len(in)) {
		t.Errorf("%d saves won, want one for each of the %d sagas", wins.Load(), len(in))
	}
	if events := finalEvents(t, stores[0]); len(events) != len(in) {
		t.Errorf("%d events, want %d", len(events), len(in))
	}
}
