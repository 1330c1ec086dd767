package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"giro/internal/fingerprint"
	"giro/internal/money"
	"giro/internal/names"
	"giro/orchestrator/runner"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
)

// client wants one transfer, under one key, and asks until it knows what became
// of it; some hang up after the first try, some change their mind.
type client struct {
	id       saga.ID
	contents fingerprint.Contents
	expiry   time.Duration
	// hangsUp: it asks once and never again, unless the saga table is lost.
	hangsUp bool
	// cancels: it asks to stop at some time.
	cancels bool
	// seen is the last state that it was told; asked: it has tried at least once.
	seen  saga.State
	asked bool
}

func newClient(w *World, i int) *client {
	ref := func(p, a int) names.AccountRef {
		return names.AccountRef(string(participants[p]) + "/" + string(account(a)))
	}
	from := w.random.IntN(len(participants))
	to := 1 - from
	if w.random.IntN(5) == 0 {
		to = from
	}
	source := w.random.IntN(accountsEach)
	destination := (source + 1 + w.random.IntN(accountsEach)) % (accountsEach + 1) // one of them does not exist
	if from == to && source == destination {
		destination = (destination + 1) % accountsEach
	}
	c := &client{id: saga.ID{Tenant: tenant, Key: names.TransferKey(fmt.Sprintf("transfer-%d", i))},
		contents: fingerprint.Contents{Source: ref(from, source), Destination: ref(to, destination),
			Amount: money.Minor(1 + w.random.IntN(200)), Currency: "USD"},
		hangsUp: w.random.IntN(4) == 0, cancels: w.random.IntN(4) == 0}
	if w.random.IntN(4) == 0 {
		c.expiry = time.Second + time.Duration(w.random.Int64N(int64(30*time.Second)))
	}
	return c
}

func (c *client) begin(w *World) {
	start := time.Duration(w.random.Int64N(int64(w.config.FaultsFor / 2)))
	w.after(start, func() { c.ask(w) })
	if c.cancels {
		at := start - 5*time.Second + time.Duration(w.random.Int64N(int64(20*time.Second)))
		w.after(max(at, 0), func() { c.cancel(w) })
	}
}

// resume makes a client that was content ask again, after the saga table was
// lost: it has kept its key.
func (c *client) resume(w *World) {
	c.hangsUp = false
	if c.asked {
		c.seen = ""
		w.after(time.Duration(w.random.Int64N(int64(20*time.Second))), func() { c.ask(w) })
	}
}

func (c *client) done() bool { return c.seen.Final() || (c.hangsUp && c.asked) }

// ask sends CreateTransfer to some replica, and asks again later if it did not
// learn the end.
func (c *client) ask(w *World) {
	if c.seen.Final() {
		return
	}
	c.asked = true
	if !c.hangsUp {
		again := time.Second + time.Duration(w.random.Int64N(int64(20*time.Second)))
		w.after(again, func() { c.ask(w) })
	}
	contents := c.contents
	// With the table lost, a changed retry is a transfer that its participant
	// refuses as KEY_REUSED and that parks: rightly so, but not what is played.
	if !w.config.Wipe && c.seen != "" && w.strikes(3, "key reused with another amount") {
		contents.Amount++
	}
	c.deliver(w, func(r *replica) (saga.Saga, error) { return c.create(w, r, contents, false) })
}

func (c *client) cancel(w *World) {
	c.asked = true
	w.note("client cancels %s", c.id.Key)
	c.deliver(w, func(r *replica) (saga.Saga, error) {
		w.dirty = true
		row, err := w.sagas.AskCancel(context.Background(), c.id)
		if errors.Is(err, store.ErrNotFound) {
			return c.create(w, r, c.contents, true)
		}
		if err == nil {
			r.step(w, r.life, runner.CancelSeen{Saga: row})
		}
		return row, err
	})
}

// deliver carries a request to a replica and its answer back, if they arrive.
func (c *client) deliver(w *World, serve func(*replica) (saga.Saga, error)) {
	r := w.replicas[w.random.IntN(len(w.replicas))]
	if w.strikes(5, "client's request lost") {
		return
	}
	w.after(w.delay(), func() {
		if r.machine == nil || w.now.Before(r.awakeAt) {
			return
		}
		s, err := serve(r)
		if err != nil || w.strikes(5, "client's answer lost") {
			return
		}
		w.after(w.delay(), func() { c.hear(w, s) })
	})
}

// create is what the server does: insert, or find what is there.
func (c *client) create(w *World, r *replica, contents fingerprint.Contents, cancelled bool) (saga.Saga, error) {
	if w.strikes(3, "store failed before") {
		return saga.Saga{}, errStore
	}
	w.dirty = true
	inserted, err := w.sagas.Insert(context.Background(), r.owner(),
		[]store.New{{Saga: saga.New(c.id, contents, cancelled), Expiry: c.expiry}})
	if err != nil {
		return saga.Saga{}, err
	}
	if w.strikes(3, "store failed after it was done") {
		return saga.Saga{}, errStore
	}
	s := inserted[0].Saga
	if inserted[0].Created {
		w.note("%s accepts %s: %s -> %s, %d, in %s", r.owner(), c.id.Key, s.Source, s.Destination, s.Amount, s.State)
	}
	if w.strikes(2, "crash after the insert") {
		r.crash(w)
		return saga.Saga{}, errStore
	}
	if fields := fingerprint.Differing(s.Contents, contents); len(fields) > 0 {
		return saga.Saga{}, fmt.Errorf("key reused: %v", fields)
	}
	if inserted[0].Created || s.Owner == r.owner() {
		r.step(w, r.life, runner.Start{Saga: s})
	}
	return s, nil
}

// hear keeps what an OK said. A final state must never be taken back.
func (c *client) hear(w *World, s saga.Saga) {
	if c.seen.Final() && s.State.Final() && c.seen != s.State {
		w.failure = fmt.Errorf("invariant 6: %s was told %s, then %s", c.id.Key, c.seen, s.State)
	}
	if s.State.Final() {
		w.audit.told(c.id, s.State)
	}
	if !c.seen.Final() {
		c.seen = s.State
	}
}
