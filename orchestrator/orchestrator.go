// Package orchestrator carries transfers out across participants: it stores a
// saga before it acts, and asks every step by a key derived from the transfer's.
package orchestrator

import (
	"context"
	"log/slog"
	"sync"

	"google.golang.org/grpc"

	"giro/internal/names"
	"giro/internal/retention"
	"giro/orchestrator/peer"
	"giro/orchestrator/reporter"
	"giro/orchestrator/runner"
	"giro/orchestrator/server"
	"giro/orchestrator/store"
	participantv1 "giro/proto/giro/participant/v1"
)

// Config is what an orchestrator works with. Zero fields stand for their
// defaults; see runner.Config.
type Config struct {
	// Owner names this replica's life: another one after every start.
	Owner string
	Store store.Store
	// Participants are the registered ones with a connection each, which the
	// caller closes after Close.
	Participants map[names.Participant]grpc.ClientConnInterface
	Runner       runner.Config
	// Retention says how long keys are kept, and at what age a transfer parks.
	Retention retention.Settings
	Logger    *slog.Logger
}

// Orchestrator is one replica.
type Orchestrator struct {
	*server.Server
	runner   *runner.Runner
	reporter *reporter.Reporter
	// reporting ends with stopReporting.
	reporting     sync.WaitGroup
	stopReporting context.CancelFunc
	// answerWaiting ends the waits of all calls.
	answerWaiting func()
}

// New puts a replica together. Start it before it serves.
func New(config Config) *Orchestrator {
	r := config.Runner
	r.Owner, r.Store, r.Logger = config.Owner, config.Store, config.Logger
	config.Retention = config.Retention.WithDefaults()
	r.AgeMax, r.AgeOfKey = config.Retention.SagaAgeMax, config.Retention.Horizon > 0
	r.Peers = map[names.Participant]runner.Peer{}
	clients := map[names.Participant]participantv1.ParticipantServiceClient{}
	for name, connection := range config.Participants {
		r.Peers[name] = peer.New(name, connection, peer.Config{CallTimeout: r.CallTimeout, Retention: config.Retention, Logger: config.Logger})
		clients[name] = participantv1.NewParticipantServiceClient(connection)
	}
	stopping := make(chan struct{})
	o := &Orchestrator{runner: runner.New(r), answerWaiting: sync.OnceFunc(func() { close(stopping) })}
	o.reporter = reporter.New(reporter.Config{Store: config.Store, Participants: config.Participants,
		Retention: config.Retention, Now: o.runner.Now, Logger: config.Logger})
	o.Server = server.New(server.Config{Runner: o.runner, Store: config.Store, Participants: clients, Retention: config.Retention, Stopping: stopping})
	return o
}

// Start takes the replica's lease and begins to carry out what nobody carries
// out. It fails if the store does not answer before ctx ends.
func (o *Orchestrator) Start(ctx context.Context) error {
	if err := o.runner.Start(ctx); err != nil {
		return err
	}
	var reporting context.Context
	reporting, o.stopReporting = context.WithCancel(context.WithoutCancel(ctx))
	o.reporting.Go(func() { o.reporter.Run(reporting) })
	return nil
}

// AnswerWaiting answers every call that waits for a final state at once, with the
// transfer as it stands: so a server that stops leaves no caller without an answer.
func (o *Orchestrator) AnswerWaiting() { o.answerWaiting() }

// Close takes no new transfers, lets those under way go on until they are final
// or ctx ends, and gives the rest back for another replica to carry out.
func (o *Orchestrator) Close(ctx context.Context) {
	if o.stopReporting != nil {
		o.stopReporting()
	}
	o.runner.Close(ctx)
	o.reporting.Wait()
}
