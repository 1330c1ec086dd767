package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"math/rand/v2"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"giro/cmd/giro/environ"
	"giro/internal/rpc"
)

const (
	startLimit = 20 * time.Second
	stopLimit  = 15 * time.Second
	pollEvery  = 20 * time.Millisecond
)

// process is one service as a process of its own, which may be killed and
// started again on the same port.
type process struct {
	name       string
	executable string
	args       []string
	// secrets are settings that must not stand on a command line, which every
	// user of the machine can read.
	secrets []string
	address string
	logFile string

	cmd  *exec.Cmd
	done <-chan struct{} // closed when it has ended
}

// start runs the process and waits until it answers.
func (p *process) start(ctx context.Context) error {
	log, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own handle
	//nolint:gosec,noctx // our own program; it outlives the start
	cmd := exec.Command(p.executable, p.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(environ.Without(os.Environ()), p.secrets...)
	done, err := spawn(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.cmd, p.done = cmd, done
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := p.awaitServing(ctx); err != nil {
		p.kill()
		return fmt.Errorf("%s does not answer: %w; its log ends with:\n%s", p.name, err, p.tail())
	}
	return nil
}

var errEnded = errors.New("the process has ended")

func (p *process) awaitServing(ctx context.Context) error {
	conn, err := rpc.Dial(p.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	client := healthv1.NewHealthClient(conn)
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		answer, err := client.Check(attempt, &healthv1.HealthCheckRequest{})
		cancel()
		if err == nil && answer.GetStatus() == healthv1.HealthCheckResponse_SERVING {
			return nil
		}
		conn.Connect()
		conn.ResetConnectBackoff()
		select {
		case <-p.done:
			return errEnded
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

// running says that the process was started and has not ended.
func (p *process) running() bool {
	if p.done == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill ends the process with SIGKILL and waits until it is gone.
func (p *process) kill() {
	if p.done == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
}

// stop ends the process with SIGTERM, and with SIGKILL if that takes too long.
func (p *process) stop() {
	if !p.running() {
		return
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err == nil {
		select {
		case <-p.done:
			return
		case <-time.After(stopLimit):
		}
	}
	p.kill()
}

// tail is the end of the process's log.
func (p *process) tail() string {
	raw, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}

// freeAddress finds a loopback port that nobody listens on, below those that
// systems give to outgoing connections: so none takes it while the service that
// belongs there is down.
func freeAddress() (string, error) {
	var failed error
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 15000+rand.IntN(15000)) //nolint:gosec // no secret
		l, err := net.Listen("tcp", address)
		if err != nil {
			failed = err
			continue
		}
		return address, l.Close()
	}
	return "", failed
}
