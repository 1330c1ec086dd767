package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"giro/internal/rpc"
)

// Settings are what every service's process needs.
type Settings struct {
	// DatabaseURL is postgres://... or sqlite:FILE.
	DatabaseURL string
	// Listen is host:port.
	Listen string
	// listener, if set, listens there already.
	listener net.Listener
	// Insecure lets it listen where other machines reach it.
	Insecure bool
	// Migrate brings the tables up to date first.
	Migrate bool
	// StopTimeout bounds how long calls under way may take when it stops.
	StopTimeout time.Duration
	Logger      *slog.Logger
	// Ready, if set, is called once the service answers.
	Ready func()
}

// startTimeout bounds the wait for a database that accepts and does not answer, so
// that no start waits for ever in silence.
const startTimeout = 30 * time.Second

// prepare refuses an address that must not be listened on, before anything is
// opened, and migrates if asked.
func prepare(ctx context.Context, service Service, s Settings) error {
	if err := rpc.CheckListen(s.Listen, s.Insecure); err != nil {
		return wrongSetting("%s: %v", service, err)
	}
	if _, err := parseTarget(s.DatabaseURL); err != nil {
		return err
	}
	if !s.Migrate {
		return nil
	}
	applied, err := MigrateUp(ctx, service, s.DatabaseURL)
	for _, m := range applied {
		s.Logger.Info("migrated", "service", service, "version", m.Version, "name", m.Name)
	}
	if err != nil {
		return fmt.Errorf("migrate %s: %w", service, err)
	}
	return nil
}

// answer serves what register registers until ctx ends.
func answer(ctx context.Context, service Service, s Settings, register func(grpc.ServiceRegistrar)) error {
	listener := s.listener
	if listener == nil {
		var err error
		if listener, err = listen(service, s.Listen); err != nil {
			return fmt.Errorf("%w; --listen takes another address", err)
		}
	}
	server := rpc.NewServer(rpc.ServerConfig{
		Logger:         s.Logger.With("service", service),
		Insecure:       s.Insecure,
		StopSecondsMax: max(1, int(s.StopTimeout/time.Second)),
	})
	register(server)
	s.Logger.Warn("FOR DEVELOPMENT ONLY: callers do not prove who they are; tenant and actor are taken from request metadata",
		"service", service)
	s.Logger.Info("listening", "service", service, "address", listener.Addr().String())
	if s.Ready != nil {
		s.Ready()
	}
	err := server.Serve(ctx, listener)
	if errors.Is(err, grpc.ErrServerStopped) && ctx.Err() != nil {
		err = nil // it was told to stop before it had begun, which is no failure
	}
	s.Logger.Info("stopped", "service", service)
	return err
}

// listen takes a service's address.
func listen(service Service, address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s cannot listen on %s: another process does", service, address)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", service, err)
	}
	return listener, nil
}
