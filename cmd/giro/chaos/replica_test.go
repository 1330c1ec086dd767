package chaos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"giro/cmd/giro/environ"
	"giro/internal/rpc"
	accountv1 "giro/proto/giro/account/v1"
	pb "giro/proto/giro/participant/v1"
)

// startLimit bounds one start of a process on a machine that others use too.
const startLimit = time.Minute

// replica is one accountsvc, a process of its own, which may be killed and started
// again on the same port.
type replica struct {
	name, address, databaseURL, log string
	wire                            *wire

	conn        *grpc.ClientConn
	participant pb.ParticipantServiceClient
	accounts    accountv1.AccountServiceClient

	cmd   *exec.Cmd
	alive io.Closer // the process ends with it
	done  chan struct{}
}

// newReplica makes one that reaches the database through a wire of its own.
func newReplica(t *testing.T, name, databaseURL string, random *rand.Rand) *replica {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{name: name, address: freeAddress(t), log: filepath.Join(t.TempDir(), name+".log"), wire: newWire(t, u.Host, random)}
	u.Host = r.wire.listener.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable") // the wire has to read it
	u.RawQuery = q.Encode()
	r.databaseURL = u.String()
	if r.conn, err = rpc.Dial(r.address); err != nil {
		t.Fatal(err)
	}
	r.participant, r.accounts = pb.NewParticipantServiceClient(r.conn), accountv1.NewAccountServiceClient(r.conn)
	t.Cleanup(func() { r.conn.Close(); r.kill() })
	return r
}

// freeAddress is a loopback port below those that systems give to outgoing
// connections, so that none takes it while the replica is dead.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 15000+rand.IntN(15000)))
		if err != nil {
			continue
		}
		l.Close()
		return l.Addr().String()
	}
	t.Fatal("no port is free")
	return ""
}

// start runs the process and waits until it serves.
func (r *replica) start(ctx context.Context) error {
	log, err := os.OpenFile(r.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own handle
	cmd := exec.Command(os.Args[0], "serve", "accountsvc", "--listen", r.address, "--log-level", "warn")
	// Its URL holds a password, which a command line shows to everybody.
	cmd.Env = append(environ.Without(os.Environ()), asGiro+"=1", "GIRO_DATABASE_URL="+r.databaseURL)
	cmd.Stdout, cmd.Stderr = log, log
	if r.alive, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	r.cmd, r.done = cmd, done
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := r.awaitServing(ctx); err != nil {
		r.kill()
		return fmt.Errorf("%s does not serve: %w; its log ends with:\n%s", r.name, err, r.tail())
	}
	return nil
}

func (r *replica) awaitServing(ctx context.Context) error {
	health := healthv1.NewHealthClient(r.conn)
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		got, err := health.Check(attempt, &healthv1.HealthCheckRequest{})
		cancel()
		if err == nil && got.GetStatus() == healthv1.HealthCheckResponse_SERVING {
			return nil
		}
		r.conn.ResetConnectBackoff()
		select {
		case <-r.done:
			return fmt.Errorf("it has ended: %v", r.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// kill ends the process with SIGKILL and waits until it is gone.
func (r *replica) kill() {
	if r.done == nil {
		return
	}
	_ = r.cmd.Process.Kill() // it may have ended by itself
	<-r.done
	_ = r.alive.Close()
}

func (r *replica) tail() []byte {
	raw, err := os.ReadFile(r.log)
	if err != nil {
		return []byte(err.Error())
	}
	return raw[max(0, len(raw)-3000):]
}

// checkLog finds what no replica may ever say.
func (r *replica) checkLog(t *testing.T) {
	t.Helper()
	raw, err := os.ReadFile(r.log)
	if err != nil {
		t.Error(err)
	}
	for line := range bytes.Lines(raw) {
		for _, bad := range []string{"DATA RACE", `"level":"ERROR"`, "panic", "fatal error"} {
			if bytes.Contains(line, []byte(bad)) {
				t.Errorf("%s logged %s\n%s", r.name, line, r.tail())
				return
			}
		}
	}
}
