// Package pgserver runs a PostgreSQL server of its own, from the programs that
// are installed on this machine: for tests that kill the database, and for the
// demo on PostgreSQL. The server listens on loopback only, asks for a password
// made for it, writes durably (fsync on), and ends with the process that
// started it.
package pgserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// superuser is the database role that every URL names.
	superuser = "giro"
	// startLimit bounds one start, crash recovery included.
	startLimit = 60 * time.Second
	// stopLimit bounds a fast shutdown, which writes a checkpoint; after it
	// the server is killed.
	stopLimit = 20 * time.Second
	pollEvery = 20 * time.Millisecond
	// socketPathMax is the longest path of a unix socket that all systems take.
	socketPathMax = 100
	// portAttempts is how many ports are tried: a free one may be taken by
	// somebody else before the server binds it.
	portAttempts = 5
)

// Server is one PostgreSQL server. Its methods may be called from several
// goroutines, one at a time.
type Server struct {
	bin      string // folder of initdb and postgres
	dir      string // holds data, sockets and the log
	made     bool   // dir was made by Start, so Stop removes it
	port     int
	password string
	owner    *owner // nil: the server runs as the user of this process
	unlock   func()

	mu   sync.Mutex
	proc *process // nil when it does not run
}

// process is one run of the postmaster.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed after the process was waited for
	err  error         // valid after done
}

// Start makes a new database cluster in dir and starts a server on a free
// loopback port. An empty dir stands for a temporary folder that Stop removes.
// A given dir is made if needed, stays after Stop, and must not hold a cluster
// yet. When this process is root, the server runs as an ordinary user; folders
// above dir that this user may not pass are opened for passing, but only below
// the system's temporary folder. ctx bounds the start alone, not the server.
func Start(ctx context.Context, dir string) (*Server, error) {
	bin, err := Find()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	s := &Server{bin: bin, dir: dir, made: dir == "", password: rand.Text()}
	if s.owner, err = ordinaryUser(); err != nil {
		return nil, err
	}
	if err := s.makeFolders(); err != nil {
		return nil, errors.Join(err, s.discard())
	}
	if err := s.initdb(ctx); err != nil {
		return nil, errors.Join(err, s.discard())
	}
	if err := s.startOnFreePort(ctx); err != nil {
		return nil, errors.Join(err, s.discard())
	}
	return s, nil
}

// URL is the address of a database on this server, which need not exist yet.
// It stays the same over Kill and Restart.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

var databaseName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// CreateDatabase makes an empty database. The name is a lower-case letter, then
// up to 62 lower-case letters, digits and underscores.
func (s *Server) CreateDatabase(ctx context.Context, name string) error {
	if !databaseName.MatchString(name) {
		return fmt.Errorf("pgserver: %q is not a database name", name)
	}
	psql, err := findPsql(s.bin)
	if err != nil {
		return err
	}
	//nolint:gosec // the name was matched against a closed grammar above
	cmd := exec.CommandContext(ctx, psql, "-X", "-q", "-v", "ON_ERROR_STOP=1",
		"-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", superuser, "-d", "postgres",
		"-c", "create database "+name)
	cmd.Env = append(os.Environ(), "PGPASSWORD="+s.password, "PGSSLMODE=disable", "LC_ALL=C")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pgserver: create database %s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}

// Kill ends the postmaster and its children with SIGKILL, as a crash of the
// machine's database would. The data stay for Restart. It is no error if the
// server does not run.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.proc
	if p == nil {
		return nil
	}
	killTree(p.cmd.Process)
	<-p.done
	s.proc = nil
	return nil
}

// Restart starts the server again on the same data and port, after Kill or
// while it runs (then it is killed first).
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Kill(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	// Children of a killed postmaster leave by themselves, and until the last
	// has left the shared memory of the old server keeps a new one from starting.
	for {
		err := s.run(ctx)
		if err == nil || !isLeftover(err) || ctx.Err() != nil {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// Stop shuts the server down and removes its folder if Start made it.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if p := s.proc; p != nil {
		err = shutDown(p)
		s.proc = nil
	}
	return errors.Join(err, s.discard())
}

func shutDown(p *process) error {
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		killTree(p.cmd.Process) // no such signal on this system
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopLimit):
		killTree(p.cmd.Process)
		<-p.done
		return fmt.Errorf("pgserver: no shutdown within %v; the server was killed", stopLimit)
	}
}

// discard gives the folder up.
func (s *Server) discard() error {
	var err error
	if s.made && s.dir != "" {
		err = os.RemoveAll(s.dir)
	}
	if s.unlock != nil {
		s.unlock()
		s.unlock = nil
	}
	return err
}

func (s *Server) data() string    { return filepath.Join(s.dir, "data") }
func (s *Server) sockets() string { return filepath.Join(s.dir, "sockets") }
func (s *Server) log() string     { return filepath.Join(s.dir, "postgres.log") }

func (s *Server) makeFolders() error {
	if s.made {
		removeOrphans(os.TempDir())
		dir, err := os.MkdirTemp("", folderPrefix)
		if err != nil {
			return fmt.Errorf("pgserver: %w", err)
		}
		s.dir = dir
		if s.unlock, err = lockFolder(dir); err != nil {
			return fmt.Errorf("pgserver: %w", err)
		}
	} else {
		dir, err := filepath.Abs(s.dir)
		if err != nil {
			return fmt.Errorf("pgserver: %w", err)
		}
		s.dir = dir
		if err := os.MkdirAll(s.dir, 0o755); err != nil {
			return fmt.Errorf("pgserver: %w", err)
		}
	}
	if _, err := os.Stat(s.data()); err == nil {
		return fmt.Errorf("pgserver: %s is there already; give an empty folder", s.data())
	}
	for _, dir := range []string{s.data(), s.sockets()} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("pgserver: %w", err)
		}
	}
	if s.owner == nil {
		return nil
	}
	for _, dir := range []string{s.dir, s.data(), s.sockets()} {
		if err := os.Chown(dir, s.owner.uid, s.owner.gid); err != nil {
			return fmt.Errorf("pgserver: %w", err)
		}
	}
	return openPath(filepath.Dir(s.dir))
}

// openPath lets other users pass the folders above a server's, where they lie
// in the system's temporary folder. Elsewhere it only looks.
func openPath(dir string) error {
	temp := filepath.Clean(os.TempDir())
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("pgserver: %w", err)
		}
		if info.Mode().Perm()&0o001 != 0 {
			continue
		}
		if !strings.HasPrefix(dir, temp+string(filepath.Separator)) {
			return fmt.Errorf("pgserver: the server runs as an ordinary user, who cannot pass %s: choose another folder", dir)
		}
		if err := os.Chmod(dir, info.Mode().Perm()|0o011); err != nil {
			return fmt.Errorf("pgserver: %w", err)
		}
	}
	return nil
}

func (s *Server) initdb(ctx context.Context) error {
	secret := filepath.Join(s.dir, "password")
	if err := os.WriteFile(secret, []byte(s.password+"\n"), 0o600); err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	defer os.Remove(secret)
	if s.owner != nil {
		if err := os.Chown(secret, s.owner.uid, s.owner.gid); err != nil {
			return fmt.Errorf("pgserver: %w", err)
		}
	}
	// A cluster that is lost while it is being made is made again: no sync here.
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, program("initdb")),
		"-D", s.data(), "-U", superuser, "--pwfile", secret, "-A", "scram-sha-256",
		"-E", "UTF8", "--locale=C", "--no-sync")
	s.prepare(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pgserver: initdb: %w: %s", err, tail(out))
	}
	return nil
}

func (s *Server) startOnFreePort(ctx context.Context) error {
	var err error
	for range portAttempts {
		if s.port, err = freePort(); err != nil {
			return fmt.Errorf("pgserver: %w", err)
		}
		err = s.run(ctx)
		if err == nil || !strings.Contains(err.Error(), "could not bind") {
			return err
		}
	}
	return err
}

func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("unexpected address %v", l.Addr())
	}
	return addr.Port, nil
}

// run starts the postmaster once and waits until it takes connections.
func (s *Server) run(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	logFile, err := os.Create(s.log())
	if err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	defer logFile.Close() // the child has its own handle
	sockets := s.sockets()
	if len(sockets)+len("/.s.PGSQL.65535") > socketPathMax {
		sockets = "" // too long for a socket: TCP alone
	}
	// No CommandContext: the server outlives the start. Durability (fsync,
	// synchronous_commit) is PostgreSQL's own default: given here, a test could not
	// turn it off.
	cmd := exec.Command(filepath.Join(s.bin, program("postgres")), //nolint:gosec,noctx // our own program and arguments
		"-D", s.data(), "-p", strconv.Itoa(s.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="+sockets,
		"-c", "max_connections=200", "-c", "logging_collector=off", "-c", "log_destination=stderr")
	cmd.Stdout, cmd.Stderr = logFile, logFile
	s.prepare(cmd)
	dieWithParent(cmd)
	p, err := spawn(cmd)
	if err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	if err := s.awaitReady(ctx, p); err != nil {
		killTree(p.cmd.Process)
		<-p.done
		out, _ := os.ReadFile(s.log())
		return fmt.Errorf("pgserver: start: %w: %s", err, tail(out))
	}
	s.proc = p
	return nil
}

// spawn starts cmd on a thread of its own, which lives until the process has
// ended: the system kills the child when the *thread* that started it ends, and
// Go ends idle threads as it likes.
func spawn(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// awaitReady watches the postmaster's own status file: its first line is the
// process, its eighth says `ready` when connections are taken.
func (s *Server) awaitReady(ctx context.Context, p *process) error {
	for {
		status, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
		if err == nil {
			lines := strings.Split(string(status), "\n")
			if len(lines) >= 8 && lines[0] == strconv.Itoa(p.cmd.Process.Pid) && strings.TrimSpace(lines[7]) == "ready" {
				return nil
			}
		}
		select {
		case <-p.done:
			return fmt.Errorf("the server ended: %w", errors.Join(errEnded, p.err))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

var errEnded = errors.New("before it was ready")

// isLeftover tells whether a start failed because parts of the last run are
// still there.
func isLeftover(err error) bool {
	text := err.Error()
	return strings.Contains(text, "pre-existing shared memory") ||
		strings.Contains(text, "lock file") || strings.Contains(text, "could not bind")
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pollEvery):
		return nil
	}
}

func (s *Server) prepare(cmd *exec.Cmd) {
	cmd.Dir = s.dir
	// Nothing of the caller's environment: PGDATA and the like would change what runs.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + s.dir, "TMPDIR=" + s.dir}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	runAs(cmd.SysProcAttr, s.owner)
}

// tail is the end of a program's output, short enough for an error.
func tail(out []byte) []byte {
	const limit = 1500
	out = bytes.TrimSpace(out)
	if len(out) > limit {
		out = out[len(out)-limit:]
	}
	return out
}
