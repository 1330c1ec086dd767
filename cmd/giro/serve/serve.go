package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net"
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

// prepare refuses an address that must not be listened on, before anything is
// opened, and migrates if asked.
func prepare(ctx context.Context, service Service, s Settings) error {
	if err := rpc.CheckListen(s.Listen, s.Insecure); err != nil {
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
	listener, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return fmt.Errorf("%s: %w", service, err)
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
	err = server.Serve(ctx, listener)
	s.Logger.Info("stopped", "service", service)
	return err
}
