// Package sim runs the orchestrator's machine, the saga table and the book over
// memory stores on one goroutine, in virtual time, with everything random drawn
// from one seed: messages lost, late and doubled, answers lost, stores that fail
// before or after they did their work, replicas that crash, sleep past their
// lease and come back, a saga table that is lost. After every step an auditor
// that shares no deciding code with them checks the invariants. The same seed
// gives the same history.
package sim

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	bookmem "giro/internal/participant/store/mem"
	"giro/internal/stepkey"
	sagamem "giro/orchestrator/store/mem"
)

// Config shapes one run.
type Config struct {
	Seed uint64
	// Transfers is how many keys clients use; default 12.
	Transfers int
	// Replicas is how many orchestrators there are; default 2.
	Replicas int
	// FaultsFor is how long faults happen, virtual time; default 2 minutes.
	FaultsFor time.Duration
	// SettleFor is how long everything then has to become final; default 30
	// minutes of virtual time.
	SettleFor time.Duration
	// Wipe: the saga table is lost once, in the middle.
	Wipe bool
}

// Result tells what a run did.
type Result struct {
	// Steps counts what happened: messages, store calls, timers.
	Steps int64
	// History is what happened, in words.
	History []string
	// Finals counts the sagas by final state.
	Finals map[string]int
	// Faults counts the faults that struck, by kind.
	Faults map[string]int
}

// World is one run under way.
type World struct {
	config Config
	random *rand.Rand
	now    time.Time
	events events
	order  int64
	result Result

	sagas    *sagamem.Store
	books    map[names.Participant]*bookmem.Store
	replicas []*replica
	clients  []*client
	audit    *auditor
	// quietAt is when faults stop.
	quietAt time.Time
	wiped   bool
	// dirty: a store was written since the last check.
	dirty   bool
	failure error
}

// participants, in an order that a seed can rely on.
var participants = []names.Participant{"accountsvc", "ledgersvc"}

const tenant names.Tenant = "sim"

// Run plays one world to its end. An error names the broken invariant; Result
// holds the history that led to it.
func Run(config Config) (Result, error) {
	w := newWorld(config)
	w.open()
	for i := range w.clients {
		w.clients[i].begin(w)
	}
	for i := range w.replicas {
		w.replicas[i].boot(w)
	}
	w.scheduleTrouble()
	deadline := w.quietAt.Add(w.config.SettleFor)
	for len(w.events) > 0 && w.failure == nil {
		e := heap.Pop(&w.events).(event)
		if e.at.After(deadline) {
			break
		}
		w.now = e.at
		e.do()
		w.result.Steps++
		w.check()
		if w.now.After(w.quietAt) && w.settled() {
			break
		}
	}
	if w.failure == nil {
		w.failure = w.audit.atEnd(w)
	}
	for _, s := range w.audit.list(w) {
		w.result.Finals[string(s.State)]++
	}
	return w.result, w.failure
}

func newWorld(config Config) *World {
	if config.Transfers == 0 {
		config.Transfers = 12
	}
	if config.Replicas == 0 {
		config.Replicas = 2
	}
	if config.FaultsFor == 0 {
		config.FaultsFor = 2 * time.Minute
	}
	if config.SettleFor == 0 {
		config.SettleFor = 30 * time.Minute
	}
	w := &World{config: config, random: rand.New(rand.NewPCG(config.Seed, 1)),
		now:    time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		books:  map[names.Participant]*bookmem.Store{},
		result: Result{Finals: map[string]int{}, Faults: map[string]int{}}}
	w.quietAt = w.now.Add(config.FaultsFor)
	clock := func() time.Time { return w.now }
	w.sagas = sagamem.New(clock)
	for _, p := range participants {
		w.books[p] = bookmem.New(clock)
	}
	for i := range config.Replicas {
		w.replicas = append(w.replicas, &replica{name: fmt.Sprintf("replica-%d", i)})
	}
	for i := range config.Transfers {
		w.clients = append(w.clients, newClient(w, i))
	}
	w.audit = newAuditor()
	return w
}

// accountsEach is how many accounts each participant opens; the last one holds
// no money.
const accountsEach = 4

func account(i int) names.Account { return names.Account(fmt.Sprintf("acct-%d", i)) }

func (w *World) open() {
	for _, p := range participants {
		var operations []book.Operation
		for i := range accountsEach {
			key := names.TransferKey(fmt.Sprintf("%s-%d", p, i))
			operations = append(operations, local(book.Open, key, account(i), 0))
			if i < accountsEach-1 {
				operations = append(operations, local(book.Deposit, key, account(i), 300))
			}
		}
		if _, err := w.books[p].Apply(context.Background(), operations, book.DefaultLimits); err != nil {
			w.failure = err
		}
	}
}

// local is an operation of the participant's own.
func local(kind book.Kind, key names.TransferKey, a names.Account, amount money.Minor) book.Operation {
	o := book.Operation{Kind: kind, Tenant: tenant, TransferKey: key, Step: kind.String(),
		Key: stepkey.Derive(stepkey.V1, tenant, key, kind.String()), Account: a}
	switch kind {
	case book.Open:
		o.Currency = "USD"
	case book.Deposit:
		o.Currency, o.Amount, o.Counterparty = "USD", amount, "bank"
	}
	return o
}

// scheduleTrouble plans what befalls the machines themselves.
func (w *World) scheduleTrouble() {
	within := func() time.Duration { return time.Duration(w.random.Int64N(int64(w.config.FaultsFor))) }
	for range 6 {
		r := w.replicas[w.random.IntN(len(w.replicas))]
		w.after(within(), func() { r.crash(w) })
	}
	for range 2 {
		r := w.replicas[w.random.IntN(len(w.replicas))]
		sleep := time.Duration(w.random.Int64N(int64(20 * time.Second)))
		w.after(within(), func() {
			w.note("%s sleeps for %s", r.name, sleep)
			w.struck("sleep")
			r.awakeAt = w.now.Add(sleep)
		})
	}
	for range 3 {
		p := participants[w.random.IntN(len(participants))]
		kind := []book.Kind{book.Freeze, book.Close}[w.random.IntN(2)]
		o := local(kind, names.TransferKey(fmt.Sprintf("trouble-%d", w.random.Int64())), account(w.random.IntN(accountsEach)), 0)
		w.after(within(), func() {
			w.dirty = true
			answers, err := w.books[p].Apply(context.Background(), []book.Operation{o}, book.DefaultLimits)
			if err == nil {
				w.note("%s of %s/%s: outcome %d", kind, p, o.Account, answers[0].Outcome)
			}
		})
	}
	if w.config.Wipe {
		w.after(w.config.FaultsFor/4+within()/2, func() {
			w.note("the saga table is lost")
			w.struck("saga table lost")
			for _, r := range w.replicas {
				r.crash(w)
			}
			w.wiped, w.dirty = true, true
			w.sagas.Wipe()
			w.audit.forget()
			for _, c := range w.clients {
				c.resume(w)
			}
		})
	}
}

// event is something that happens at an instant.
type event struct {
	at    time.Time
	order int64
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if !e[i].at.Equal(e[j].at) {
		return e[i].at.Before(e[j].at)
	}
	return e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

func (w *World) after(wait time.Duration, do func()) {
	w.order++
	heap.Push(&w.events, event{at: w.now.Add(wait), order: w.order, do: do})
}

// strikes draws whether a fault happens, while there are faults.
func (w *World) strikes(percent int, kind string) bool {
	if w.now.After(w.quietAt) || w.random.IntN(100) >= percent {
		return false
	}
	w.struck(kind)
	return true
}

func (w *World) struck(kind string) { w.result.Faults[kind]++ }

// delay draws a message's time on the way: mostly short, at times longer than any
// time-out.
func (w *World) delay() time.Duration {
	if w.strikes(3, "message late") {
		return time.Duration(w.random.Int64N(int64(40 * time.Second)))
	}
	return time.Millisecond + time.Duration(w.random.Int64N(int64(20*time.Millisecond)))
}

func (w *World) note(format string, args ...any) {
	w.result.History = append(w.result.History,
		w.now.Format("15:04:05.000000 ")+fmt.Sprintf(format, args...))
}

func (w *World) check() {
	if w.failure == nil && w.dirty {
		w.failure = w.audit.afterStep(w)
		w.dirty = false
	}
}

// settled says that nothing is left to do: every saga is final, and every client
// that waits has heard so.
func (w *World) settled() bool {
	for _, c := range w.clients {
		if !c.done() {
			return false
		}
	}
	for _, s := range w.audit.list(w) {
		if !s.State.Final() && !s.Parked {
			return false
		}
	}
	return true
}

// Story prints a history's last lines.
func (r Result) Story(linesMax int) string {
	from := max(0, len(r.History)-linesMax)
	return strings.Join(r.History[from:], "\n")
}
