package serve_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"giro/accountsvc"
	"giro/cmd/giro/serve"
	"giro/internal/dbtest"
	"giro/internal/participant"
	"giro/internal/participant/conformance"
	"giro/internal/participant/server"
	"giro/internal/participant/store/mem"
	"giro/internal/rpc/rpctest"
	"giro/ledgersvc"
	conformancev1 "giro/proto/giro/conformance/v1"
	participantv1 "giro/proto/giro/participant/v1"
)

// process is a participant that is served as `giro serve` does it, without the
// process.
type process struct {
	service  serve.Service
	settings serve.ParticipantSettings
	stop     func() error
}

// start serves until stop is called.
func (p *process) start(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	p.settings.Ready = func() { close(ready) }
	go func() { ended <- serve.Participant(ctx, p.service, p.settings) }()
	p.stop = func() error { cancel(); return <-ended }
	select {
	case <-ready:
		return nil
	case err := <-ended:
		cancel()
		p.stop = func() error { return nil }
		return err
	}
}

// startAgain starts it on the same address, which a caller that connects from that
// very port may hold for a moment.
func (p *process) startAgain(ctx context.Context, t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		err := p.start(t)
		if !errors.Is(err, syscall.EADDRINUSE) || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// served starts a participant on an empty database and stops it with the test.
func served(t *testing.T, service serve.Service, databaseURL string, with func(*serve.ParticipantSettings)) *process {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	p := &process{service: service, settings: serve.ParticipantSettings{
		Settings: serve.Settings{DatabaseURL: databaseURL, Listen: address, Migrate: true, StopTimeout: time.Second, Logger: slog.New(slog.DiscardHandler)},
		Name:     string(service),
	}}
	with(&p.settings)
	if err := p.start(t); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return p
}

// conforms runs the whole suite; unrun are the rules that may stay open.
func conforms(t *testing.T, config conformance.Config, unrun ...string) {
	t.Helper()
	report, err := conformance.Run(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]bool{}
	for _, name := range unrun {
		open[name] = true
	}
	for _, r := range report.Results {
		want := conformance.Passed
		if open[r.Name] {
			want = conformance.NotRun
		}
		if r.Verdict != want {
			t.Errorf("%s: %s %s %+v", r.Name, r.Verdict, r.Reason, r.Failure)
		}
	}
	t.Log(report.Summary())
}

// afterRestart are the rules that nobody can keep whose books end with the process.
var afterRestart = []string{"restart-keeps-outcomes", "restart-keeps-refusals", "restart-keeps-tombstones", "restart-keeps-identity", "restart-under-load"}

func TestBothServicesConformOnEveryStore(t *testing.T) {
	for _, service := range []serve.Service{serve.Accountsvc, serve.Ledgersvc} {
		t.Run(string(service)+" in memory", func(t *testing.T) {
			engine := participant.New(mem.New(time.Now), participant.Config{Name: "accounts"})
			t.Cleanup(engine.Close)
			conforms(t, conformance.Config{Target: rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
				server.NewSetup(engine).Register(r)
				if service == serve.Accountsvc {
					accountsvc.New(engine).Register(r)
				} else {
					ledgersvc.New(engine).Register(r)
				}
			})}, afterRestart...)
		})
		for store, url := range map[string]func(testing.TB) string{
			"SQLite":     func(t testing.TB) string { return "sqlite:" + dbtest.SQLite(t) },
			"PostgreSQL": dbtest.Postgres,
		} {
			t.Run(string(service)+" on "+store, func(t *testing.T) {
				p := served(t, service, url(t), func(s *serve.ParticipantSettings) { s.Conformance = true })
				conforms(t, conformance.Config{Target: p.settings.Listen, Restart: func(ctx context.Context) error {
					if err := p.stop(); err != nil {
						return err
					}
					return p.startAgain(ctx, t)
				}})
			})
		}
	}
}

// TestBothServicesConformWithAHorizon: keys that are too old are EXPIRED, and all else
// is as without one.
func TestBothServicesConformWithAHorizon(t *testing.T) {
	for _, service := range []serve.Service{serve.Accountsvc, serve.Ledgersvc} {
		for store, url := range map[string]func(testing.TB) string{
			"SQLite":     func(t testing.TB) string { return "sqlite:" + dbtest.SQLite(t) },
			"PostgreSQL": dbtest.Postgres,
		} {
			t.Run(string(service)+" on "+store, func(t *testing.T) {
				p := served(t, service, url(t), func(s *serve.ParticipantSettings) {
					s.Conformance, s.Retention.Horizon = true, 90*24*time.Hour
				})
				conforms(t, conformance.Config{Target: p.settings.Listen, Restart: func(ctx context.Context) error {
					if err := p.stop(); err != nil {
						return err
					}
					return p.startAgain(ctx, t)
				}})
				d, err := participantv1.NewParticipantServiceClient(rpctest.Dial(t, p.settings.Listen)).Describe(t.Context(), &participantv1.DescribeRequest{})
				if err != nil || d.GetRetentionHorizonSeconds() != 90*24*60*60 {
					t.Errorf("it says that it keeps keys for %d seconds, %v", d.GetRetentionHorizonSeconds(), err)
				}
			})
		}
	}
}

func TestSetupIsServedOnlyWhenAskedFor(t *testing.T) {
	for _, forSuite := range []bool{false, true} {
		p := served(t, serve.Accountsvc, "sqlite:"+dbtest.SQLite(t), func(s *serve.ParticipantSettings) { s.Conformance = forSuite })
		setup := conformancev1.NewConformanceSetupServiceClient(rpctest.Dial(t, p.settings.Listen))
		_, err := setup.OpenAccount(t.Context(), &conformancev1.OpenAccountRequest{Tenant: "acme", Key: "k", Account: "alice", Currency: "USD"})
		if want := map[bool]codes.Code{false: codes.Unimplemented, true: codes.OK}[forSuite]; status.Code(err) != want {
			t.Errorf("asked for: %v; came %v", forSuite, err)
		}
	}
}
