package cli

import (
	"log/slog"
	"maps"
	"time"

	"giro/cmd/giro/serve"
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

func (s server) settings(c *call, listen string) serve.Settings {
	return serve.Settings{
		DatabaseURL: s.DatabaseURL,
		Listen:      listen,
		Insecure:    s.Insecure,
		Migrate:     s.Migrate,
		StopTimeout: s.StopTimeout,
		Logger:      slog.New(slog.NewJSONHandler(c.Err, &slog.HandlerOptions{Level: s.LogLevel})),
	}
}

type serveOrchestrator struct {
	server
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
		Settings:       s.settings(c, s.Listen),
		Participants:   participants,
		Lease:          s.Lease,
		CallTimeout:    s.CallTimeout,
		RetryMin:       s.RetryMin,
		RetryMax:       s.RetryMax,
		AttentionAfter: s.AttentionAfter,
		FlightsMax:     s.TransfersUnderWay,
	})
}

// forSuite is what a participant serves for giro conformance.
type forSuite struct {
	Conformance bool `help:"Let giro conformance open, freeze and close accounts of any tenant. On a loopback address only; never over books that count."`
}

type serveAccountsvc struct {
	server
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
		Settings: s.settings(c, s.Listen), Name: s.Name, Conformance: s.Conformance})
}

type serveLedgersvc struct {
	server
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
		Settings: s.settings(c, s.Listen), Name: s.Name, Conformance: s.Conformance})
}
