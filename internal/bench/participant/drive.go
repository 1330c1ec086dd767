package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"giro/internal/names"
	"giro/internal/stepkey"
	participantv1 "giro/proto/giro/participant/v1"
)

const (
	// warmup is not measured: connections, caches and the batching settle in it.
	warmup = time.Second
	// callLimit bounds one call. Whoever waits so long fails the run.
	callLimit = 30 * time.Second
	// probesPerSecond are asked for other accounts, whatever the last answers took.
	probesPerSecond = 50
)

// load is what callers do, each as fast as answers come.
type load struct {
	callers, batch int
	hot            bool
}

// window is what is measured; what ends outside is only acknowledged.
type window struct{ from, to time.Time }

func newWindow(seconds int) window {
	from := time.Now().Add(warmup)
	return window{from, from.Add(time.Duration(seconds) * time.Second)}
}

func (w window) holds(t time.Time) bool { return !t.Before(w.from) && t.Before(w.to) }

// sample is one measurement.
type sample struct {
	OperationsPerSecond float64 `json:"operations_per_second"`
	Operations          int64   `json:"operations"`
	P50                 float64 `json:"p50_ms"`
	P99                 float64 `json:"p99_ms"`
	// Probes are the latencies of calls for other accounts.
	Probes   int     `json:"probes,omitempty"`
	ProbeP50 float64 `json:"probe_p50_ms,omitempty"`
	ProbeP99 float64 `json:"probe_p99_ms,omitempty"`
	// CPU is the time of each process group for one operation, in microseconds.
	CPU map[string]float64 `json:"cpu_us_per_operation"`
	// Elsewhere is how many processors others kept busy.
	Elsewhere float64 `json:"processors_busy_elsewhere"`
	// connecting is how long pgbench took to connect its clients.
	connecting time.Duration
}

// run is one measurement under way.
type run struct {
	service *service
	window  window
	stop    context.CancelCauseFunc
	callers sync.WaitGroup

	mu      sync.Mutex
	calls   []time.Duration // of callers, within the window
	probes  []time.Duration
	applied int64 // by callers, within the window
}

// drive measures a load, or the probes, or both together.
func (w *world) drive(ctx context.Context, s *service, seconds int, l load, probe bool) (sample, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := &run{service: s, window: newWindow(seconds), stop: stop}
	for n := range l.callers {
		r.callers.Go(func() { r.call(ctx, s.clients[n%connections], l) })
	}
	if probe {
		r.callers.Go(func() { r.probe(ctx) })
	}
	groups := map[string]int{groupPostgres: w.pid, groupService: s.cmd.Process.Pid, groupProgram: os.Getpid()}
	wait(ctx, r.window.from)
	before := readCPU(groups)
	wait(ctx, r.window.to)
	after := readCPU(groups)
	r.callers.Wait()
	if err := context.Cause(ctx); err != nil {
		return sample{}, fmt.Errorf("%w; the log of the service ends with: %s", err, s.lastWords())
	}
	operations := r.applied + int64(len(r.probes))
	out := sample{
		OperationsPerSecond: float64(r.applied) / float64(seconds), Operations: r.applied,
		P50: milliseconds(percentile(r.calls, 0.50)), P99: milliseconds(percentile(r.calls, 0.99)),
		Probes: len(r.probes), ProbeP50: milliseconds(percentile(r.probes, 0.50)), ProbeP99: milliseconds(percentile(r.probes, 0.99)),
	}
	out.CPU, out.Elsewhere = spent(before, after, operations)
	return out, nil
}

// wait ends at an instant, or with ctx.
func wait(ctx context.Context, until time.Time) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(until)):
	}
}

// call is one caller. The first who gets no answer ends the run for all.
func (r *run) call(ctx context.Context, client participantv1.ParticipantServiceClient, l load) {
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) //nolint:gosec // no secret
	var calls []time.Duration
	var applied int64
	for time.Now().Before(r.window.to) && ctx.Err() == nil {
		operations := make([]*participantv1.Operation, l.batch)
		for i := range operations {
			operations[i] = credit(accountFor(random, l.hot))
		}
		begun := time.Now()
		if err := r.ask(ctx, client, operations); err != nil {
			r.stop(err)
			return
		}
		if end := time.Now(); r.window.holds(end) {
			calls = append(calls, end.Sub(begun))
			applied += int64(l.batch)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, calls...)
	r.applied += applied
}

// probe asks at fixed instants, and counts from them: a late answer delays no
// question, and no late question hides a wait.
func (r *run) probe(ctx context.Context) {
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) //nolint:gosec // no secret
	const every = time.Second / probesPerSecond
	for at := time.Now().Add(every); at.Before(r.window.to) && ctx.Err() == nil; at = at.Add(every) {
		wait(ctx, at)
		operation := credit(accountFor(random, false))
		r.callers.Go(func() {
			if err := r.ask(ctx, r.service.clients[connections], []*participantv1.Operation{operation}); err != nil {
				r.stop(err)
				return
			}
			took := time.Since(at)
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.window.holds(at) {
				r.probes = append(r.probes, took)
			}
		})
	}
}

// ask sends one operation as a Credit and several as a batch. It is an error unless
// each was applied, now.
func (r *run) ask(ctx context.Context, client participantv1.ParticipantServiceClient, operations []*participantv1.Operation) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	var answers []*participantv1.Answer
	if len(operations) == 1 {
		response, err := client.Credit(ctx, &participantv1.CreditRequest{Operation: operations[0]})
		if err != nil {
			return err
		}
		answers = []*participantv1.Answer{response.GetAnswer()}
	} else {
		response, err := client.Apply(ctx, &participantv1.ApplyRequest{Operations: operations})
		if err != nil {
			return err
		}
		answers = response.GetAnswers()
	}
	if len(answers) != len(operations) {
		return errors.New("an operation has no answer")
	}
	for _, a := range answers {
		if a.GetOutcome() != participantv1.Outcome_OUTCOME_APPLIED || a.GetReplayed() {
			return fmt.Errorf("a credit was answered with %v, replayed %v, %v", a.GetOutcome(), a.GetReplayed(), a.GetReason())
		}
	}
	r.service.stored.Add(int64(len(operations)))
	return nil
}

func accountFor(random *rand.Rand, hot bool) string {
	if hot {
		return hotAccount
	}
	return accountName(random.IntN(accountCount))
}

// credit gives 1 to an account, under a key as clients are advised to draw it.
func credit(account string) *participantv1.Operation {
	transfer := uuid.Must(uuid.NewV7()).String()
	return &participantv1.Operation{
		Kind: participantv1.OperationKind_OPERATION_KIND_CREDIT, Tenant: tenant, TransferKey: transfer, Step: stepkey.Credit,
		Key:     stepkey.Derive(stepkey.V1, tenant, names.TransferKey(transfer), stepkey.Credit).String(),
		Account: account, Amount: 1, Currency: currency, Counterparty: counterparty,
	}
}
