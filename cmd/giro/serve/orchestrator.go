package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"

	"giro/internal/names"
	"giro/internal/retention"
	"giro/internal/rpc"
	"giro/orchestrator"
	"giro/orchestrator/runner"
	"giro/orchestrator/store"

	sagaspostgres "giro/orchestrator/store/postgres"
	sagassqlite "giro/orchestrator/store/sqlite"
)

// OrchestratorSettings are what an orchestrator needs besides. Zero fields stand
// for the runner's defaults.
type OrchestratorSettings struct {
	Settings
	// Participants gives each registered participant's host:port.
	Participants       map[string]string
	Lease              time.Duration
	CallTimeout        time.Duration
	RetryMin, RetryMax time.Duration
	AttentionAfter     time.Duration
	FlightsMax         int
	// Retention says how long keys are kept, and at what age a transfer parks.
	Retention retention.Settings
}

// Orchestrator runs one replica until ctx ends. Transfers under way then get
// StopTimeout to become final; another replica, or the next start, goes on with
// the rest.
func Orchestrator(ctx context.Context, s OrchestratorSettings) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := prepare(ctx, Orchestrated, s.Settings); err != nil {
		return err
	}
	connections, participants, err := dialAll(s.Participants)
	defer func() {
		for _, c := range connections {
			_ = c.Close() // nothing is under way any more
		}
	}()
	if err != nil {
		return err
	}
	starting, cancelStart := context.WithTimeout(ctx, startTimeout)
	defer cancelStart()
	sagas, err := openSagas(starting, s.DatabaseURL)
	if err != nil {
		return fmt.Errorf("%s: %w", Orchestrated, err)
	}
	o := orchestrator.New(orchestrator.Config{
		Owner:        owner(),
		Store:        sagas,
		Participants: participants,
		Retention:    s.Retention,
		Logger:       s.Logger.With("service", Orchestrated),
		Runner: runner.Config{
			CallTimeout: s.CallTimeout,
			Settings: runner.Settings{
				BackoffMin: s.RetryMin, BackoffMax: s.RetryMax, AttentionAfter: s.AttentionAfter,
				Lease: s.Lease, FlightsMax: s.FlightsMax,
			},
		},
	})
	if err := o.Start(starting); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", Orchestrated, err), sagas.Close())
	}
	// One bound for the calls that are answered and the transfers that are let end.
	bounded, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	context.AfterFunc(ctx, func() {
		o.AnswerWaiting()
		time.AfterFunc(s.StopTimeout, cancel)
	})
	err = answer(ctx, Orchestrated, s.Settings, o.Register)
	if ctx.Err() == nil {
		cancel() // it could not listen
	}
	o.Close(bounded)
	return errors.Join(err, sagas.Close())
}

func (s OrchestratorSettings) check() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"lease", s.Lease}, {"call timeout", s.CallTimeout}, {"least retry pause", s.RetryMin}, {"longest retry pause", s.RetryMax},
		{"attention time", s.AttentionAfter}} {
		if d.value < 0 {
			return wrongSetting("the %s must be more than 0, not %s", d.name, d.value)
		}
	}
	if s.RetryMax != 0 && s.RetryMin > s.RetryMax {
		return wrongSetting("the least retry pause (%s) is longer than the longest (%s)", s.RetryMin, s.RetryMax)
	}
	if err := s.Retention.Check(); err != nil {
		return wrongSetting("%s: %v", Orchestrated, err)
	}
	if s.FlightsMax < 0 {
		return wrongSetting("the number of transfers under way must be more than 0, not %d", s.FlightsMax)
	}
	for name, address := range s.Participants {
		if !names.Participant(name).Valid() {
			return wrongSetting("the participant's name %q must be %s", name, names.PartGrammar)
		}
		// gRPC would take one without a port, or none at all, and never reach anybody.
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			return wrongSetting("participant %s: its address %q must be HOST:PORT", name, address)
		}
	}
	return nil
}

// dialAll makes a connection to each participant; none need be there yet.
func dialAll(addresses map[string]string) ([]*grpc.ClientConn, map[names.Participant]grpc.ClientConnInterface, error) {
	var connections []*grpc.ClientConn
	participants := map[names.Participant]grpc.ClientConnInterface{}
	for name, address := range addresses {
		c, err := rpc.Dial(address)
		if err != nil {
			return connections, nil, fmt.Errorf("participant %s at %q: %w", name, address, err)
		}
		connections = append(connections, c)
		participants[names.Participant(name)] = c
	}
	return connections, participants, nil
}

func openSagas(ctx context.Context, databaseURL string) (store.Store, error) {
	t, err := parseTarget(databaseURL)
	if err != nil {
		return nil, err
	}
	open := func() (store.Store, error) { return sagaspostgres.Open(ctx, t.address) }
	if t.sqlite {
		open = func() (store.Store, error) { return sagassqlite.Open(ctx, t.address) }
	}
	sagas, err := open()
	if err != nil {
		return nil, t.explain(err)
	}
	return sagas, nil
}

// owner names this process's life: another one after every start, so that a
// replica is never taken for the one that it was before a crash.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "replica"
	}
	return host + "-" + rand.Text()[:10]
}
