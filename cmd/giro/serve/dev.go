package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"giro/internal/rpc"
)

// DevSettings are what Dev needs.
type DevSettings struct {
	// Dir is the folder of the SQLite files; it is made if it is not there.
	Dir string
	// Addresses are where each service listens.
	Addresses map[Service]string
	Logger    *slog.Logger
	// Ready is called once all answer, with where they do.
	Ready func(addresses map[Service]string)
}

// devServices is the order in which Dev takes the addresses.
var devServices = []Service{Orchestrated, Accountsvc, Ledgersvc}

// Dev runs all three services in this process until ctx ends. It takes the three
// addresses before it opens a file, so that a second one changes nothing.
func Dev(ctx context.Context, s DevSettings) error {
	listeners, err := listenAll(s.Addresses)
	if err != nil {
		return err
	}
	addresses := map[Service]string{}
	for service, l := range listeners {
		addresses[service] = l.Addr().String()
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return errors.Join(err, closeAll(listeners))
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var up, done sync.WaitGroup
	failed := make(chan error, len(devServices))
	for _, service := range devServices {
		up.Add(1)
		done.Add(1)
		settings := Settings{
			DatabaseURL: "sqlite:" + filepath.Join(s.Dir, string(service)+".db"),
			Listen:      addresses[service], listener: listeners[service],
			Migrate: true, StopTimeout: 5 * time.Second, Logger: s.Logger,
			Ready: sync.OnceFunc(up.Done),
		}
		go func() {
			defer done.Done()
			if err := runDev(ctx, service, settings, addresses); err != nil {
				failed <- err
				stop()
			}
			settings.Ready()
		}()
	}
	up.Wait()
	if ctx.Err() == nil {
		s.Ready(addresses)
	}
	done.Wait()
	_ = closeAll(listeners) // those of services that did not come so far
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func runDev(ctx context.Context, service Service, s Settings, addresses map[Service]string) error {
	if service != Orchestrated {
		return Participant(ctx, service, ParticipantSettings{Settings: s, Name: string(service)})
	}
	return Orchestrator(ctx, OrchestratorSettings{Settings: s, Participants: map[string]string{
		string(Accountsvc): addresses[Accountsvc], string(Ledgersvc): addresses[Ledgersvc],
	}})
}

// listenAll takes every service's address, or none.
func listenAll(addresses map[Service]string) (map[Service]net.Listener, error) {
	listeners := map[Service]net.Listener{}
	for _, service := range devServices {
		address := addresses[service]
		if err := rpc.CheckListen(address, false); err != nil {
			return nil, errors.Join(wrongSetting("%s: %v", service, err), closeAll(listeners))
		}
		l, err := listen(service, address)
		if err != nil {
			err = fmt.Errorf("%w; is another giro dev running? --%s takes another address", err, service)
			return nil, errors.Join(err, closeAll(listeners))
		}
		listeners[service] = l
	}
	return listeners, nil
}

func closeAll(listeners map[Service]net.Listener) error {
	var errs []error
	for _, l := range listeners {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
