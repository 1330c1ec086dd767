package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"giro/internal/rpc"
	accountv1 "giro/proto/giro/account/v1"
	participantv1 "giro/proto/giro/participant/v1"
)

const (
	// connections are what callers share; one more is for those who only probe.
	connections = 4
	startLimit  = 60 * time.Second
	stopLimit   = 15 * time.Second
	openers     = 64
)

// service is accountsvc as a process of its own, over a database of its own.
type service struct {
	name    string // also the database's
	log     string
	cmd     *exec.Cmd
	done    <-chan struct{} // closed when it has ended
	conns   []*grpc.ClientConn
	clients []participantv1.ParticipantServiceClient
	// stored counts the operations that must be in the books: acknowledged or
	// filled in.
	stored atomic.Int64
}

// startService makes a database, starts the service over it and opens the accounts.
func (w *world) startService(ctx context.Context, giro, name string) (*service, error) {
	if err := w.pg.CreateDatabase(ctx, name); err != nil {
		return nil, err
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	s := &service{name: name, log: filepath.Join(w.dir, "accountsvc-"+name+".log")}
	if err := s.start(giro, address, w.pg.URL(name)); err != nil {
		return nil, err
	}
	for range connections + 1 {
		conn, err := rpc.Dial(address, rpc.WithPrincipal(tenant, "bench"))
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.conns = append(s.conns, conn)
		s.clients = append(s.clients, participantv1.NewParticipantServiceClient(conn))
	}
	if err := s.awaitServing(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s does not serve: %w; its log: %s", name, err, read(s.log)), s.close())
	}
	progress("opening %d accounts in %s", accountCount+1, name)
	if err := s.openAccounts(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// start gives the address in the environment: it holds a password, and everybody
// can read a command line.
func (s *service) start(giro, address, databaseURL string) error {
	log, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own handle
	//nolint:gosec,noctx // our own program, which lives until close
	s.cmd = exec.Command(giro, "serve", "accountsvc", "--migrate", "--listen", address)
	s.cmd.Env = []string{"GIRO_DATABASE_URL=" + databaseURL}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.done, err = spawn(s.cmd)
	if err != nil {
		return fmt.Errorf("start %s (make build makes it): %w", giro, err)
	}
	return nil
}

func (s *service) awaitServing(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	health := healthv1.NewHealthClient(s.conns[0])
	for {
		answer, err := health.Check(ctx, &healthv1.HealthCheckRequest{}, grpc.WaitForReady(true))
		if err == nil && answer.GetStatus() == healthv1.HealthCheckResponse_SERVING {
			return nil
		}
		select {
		case <-s.done:
			return errors.New("it has ended")
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *service) openAccounts(ctx context.Context) error {
	names := make(chan string, openers)
	failed := make(chan error, openers)
	client := accountv1.NewAccountServiceClient(s.conns[0])
	for range openers {
		go func() {
			var err error
			for name := range names {
				if err != nil {
					continue // the rest is only taken off the channel
				}
				if _, err = client.OpenAccount(ctx, &accountv1.OpenAccountRequest{Key: "open-" + name, Account: name, Currency: currency}); err == nil {
					s.stored.Add(1)
				}
			}
			failed <- err
		}()
	}
	names <- hotAccount
	for n := range accountCount {
		names <- accountName(n)
	}
	close(names)
	var first error // the others say the same
	for range openers {
		if err := <-failed; first == nil {
			first = err
		}
	}
	return first
}

// close is for a service that is no longer needed, or only half started.
func (s *service) close() error {
	var failed []error
	for _, conn := range s.conns {
		failed = append(failed, conn.Close())
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-s.done:
	case <-time.After(stopLimit):
		_ = s.cmd.Process.Kill()
		<-s.done
		failed = append(failed, fmt.Errorf("%s did not stop within %v", s.name, stopLimit))
	}
	return errors.Join(failed...)
}

// lastWords are the end of its log, for an error.
func (s *service) lastWords() string {
	lines := strings.Split(strings.TrimSpace(read(s.log)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
