package cli

import (
	"log/slog"
	"maps"
	"os"
	"runtime/debug"
	"time"

	"giro/cmd/giro/serve"
	"giro/internal/retention"
)

type serveCommand struct {
	Orchestrator serveOrchestrator `cmd:"" help:"Carry out transfers: the service that clients talk to."`
	Accountsvc   serveAccountsvc   `cmd:"" help:"Keep customers' accounts."`
	Ledgersvc    serveLedgersvc    `cmd:"" help:"Keep the general ledger."`
}

// database says where a service keeps its rows.
type database struct {
	DatabaseURL string `name:"database-url" help:"postgres://USER@HOST/NAME or sqlite:FILE." required:"" placeholder:"URL"`
}

// server is what every service's process needs.
type server struct {
	database
	Insecure    bool          `help:"Listen where other machines reach it, although callers do not prove who they are yet."`
	Migrate     bool          `help:"Create or upgrade the tables first."`
	StopTimeout time.Duration `help:"How long calls under way may take to end at SIGTERM." default:"10s"`
	LogLevel    slog.Level    `help:"The least level that is logged: debug, info, warn or error." default:"info"`
}

// gcPercent has the collector run when the heap has grown fivefold. What a service
// keeps is small beside what its calls leave behind, and at Go's own 100 it spends a
// fifth of its processor time collecting.
const gcPercent = 400

func (s server) settings(c *call, listen string) serve.Settings {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	return serve.Settings{
		DatabaseURL: s.DatabaseURL,
		Listen:      listen,
		Insecure:    s.Insecure,
		Migrate:     s.Migrate,
		StopTimeout: s.StopTimeout,
		Logger:      slog.New(slog.NewJSONHandler(c.Err, &slog.HandlerOptions{Level: s.LogLevel})),
	}
}

// keeping says how long keys are kept. The three services should agree on it.
type keeping struct {
	RetentionHorizon time.Duration `help:"How long keys are kept, by their own time; transfer keys must then be UUIDv7. 0 keeps them as long as the books." default:"0s"`
	SagaAgeMax       time.Duration `help:"The age at which a transfer that is not final parks, for people to settle." default:"720h"`
	OperatorWindow   time.Duration `help:"How long people have to settle a parked transfer. The horizon must be as long as this and the largest age together." default:"168h"`
}

func (k keeping) settings() retention.Settings {
	return retention.Settings{Horizon: k.RetentionHorizon, SagaAgeMax: k.SagaAgeMax, OperatorWindow: k.OperatorWindow}
}

type serveOrchestrator struct {
	server
	keeping
	Listen            string            `help:"Address to listen on." default:"127.0.0.1:7101" placeholder:"HOST:PORT"`
	Participant       map[string]string `help:"A participant and where it listens; may be repeated, and in the environment several are joined by commas: a=HOST:PORT,b=HOST:PORT. accountsvc and ledgersvc are always there: at --accountsvc and --ledgersvc unless they are named here." mapsep:"," placeholder:"NAME=HOST:PORT"`
	Accountsvc        string            `help:"Where accountsvc listens." default:"127.0.0.1:7102" placeholder:"HOST:PORT"`
	Ledgersvc         string            `help:"Where ledgersvc listens." default:"127.0.0.1:7103" placeholder:"HOST:PORT"`
	Lease             time.Duration     `help:"How long this replica owns its transfers without a sign of life." default:"5s"`
	CallTimeout       time.Duration     `help:"How long one attempt of a step may take." default:"10s"`
	RetryMin          time.Duration     `help:"The first pause before a step is tried again; pauses double, with full jitter." default:"200ms"`
	RetryMax          time.Duration     `help:"The longest pause before a step is tried again." default:"30s"`
	AttentionAfter    time.Duration     `help:"A transfer that has made no progress for so long is marked as needing attention." default:"2m"`
	TransfersUnderWay int               `help:"How many transfers this replica carries out at once." default:"20000" placeholder:"N"`
}

func (serveOrchestrator) Help() string {
	return `Runs the orchestrator until SIGTERM or SIGINT. Logs are JSON on stderr.

Example:

    giro serve orchestrator --database-url sqlite:orchestrator.db --migrate --participant accountsvc=127.0.0.1:7102`
}

func (s *serveOrchestrator) Run(c *call) error {
	participants := map[string]string{accountsvc: s.Accountsvc, ledgersvc: s.Ledgersvc}
	maps.Copy(participants, s.Participant)
	return serve.Orchestrator(c.ctx, serve.OrchestratorSettings{
		Settings:       s.server.settings(c, s.Listen),
		Participants:   participants,
		Lease:          s.Lease,
		CallTimeout:    s.CallTimeout,
		RetryMin:       s.RetryMin,
		RetryMax:       s.RetryMax,
		AttentionAfter: s.AttentionAfter,
		FlightsMax:     s.TransfersUnderWay,
		Retention:      s.keeping.settings(),
	})
}

// forSuite is what a participant serves for giro conformance.
type forSuite struct {
	Conformance bool `help:"Let giro conformance open, freeze and close accounts of any tenant. On a loopback address only; never over books that count."`
}

type serveAccountsvc struct {
	server
	keeping
	forSuite
	Listen string `help:"Address to listen on." default:"127.0.0.1:7102" placeholder:"HOST:PORT"`
	Name   string `help:"The name under which orchestrators register it." default:"accountsvc" placeholder:"NAME"`
}

func (serveAccountsvc) Help() string {
	return `Runs accountsvc until SIGTERM or SIGINT. Logs are JSON on stderr.

Example:

    giro serve accountsvc --database-url sqlite:accountsvc.db --migrate`
}

func (s *serveAccountsvc) Run(c *call) error {
	return serve.Participant(c.ctx, serve.Accountsvc, serve.ParticipantSettings{
		Settings: s.server.settings(c, s.Listen), Name: s.Name, Conformance: s.Conformance, Retention: s.keeping.settings()})
}

type serveLedgersvc struct {
	server
	keeping
	forSuite
	Listen string `help:"Address to listen on." default:"127.0.0.1:7103" placeholder:"HOST:PORT"`
	Name   string `help:"The name under which orchestrators register it." default:"ledgersvc" placeholder:"NAME"`
}

func (serveLedgersvc) Help() string {
	return `Runs ledgersvc until SIGTERM or SIGINT. Logs are JSON on stderr.

Example:

    giro serve ledgersvc --database-url sqlite:ledgersvc.db --migrate`
}

func (s *serveLedgersvc) Run(c *call) error {
	return serve.Participant(c.ctx, serve.Ledgersvc, serve.ParticipantSettings{
		Settings: s.server.settings(c, s.Listen), Name: s.Name, Conformance: s.Conformance, Retention: s.keeping.settings()})
}
