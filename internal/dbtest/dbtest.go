// Package dbtest gives tests real databases: a fresh PostgreSQL database or
// SQLite file for each test, and a PostgreSQL server that a test may kill.
// Where there is no PostgreSQL, such tests are skipped loudly; with CI=true
// they fail instead.
package dbtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"giro/internal/pgserver"
)

// EnvURL names the environment variable with the address of a PostgreSQL server
// on which tests may create and drop databases. Without it, a server of our own
// is started from installed programs.
const EnvURL = "GIRO_TEST_POSTGRES_URL"

// adminLimit bounds creating and dropping a database.
const adminLimit = 60 * time.Second

// shared is the one server of this test binary. It is started at the first
// need and ends with the process at the latest.
var shared struct {
	mu     sync.Mutex
	server *pgserver.Server
	err    error // a failed start is not tried again by every test
}

// Main is for TestMain: it runs the tests, stops the shared server and exits.
// A package without it loses nothing but tidiness: the server ends with the
// process, and its folder is removed by a later run.
func Main(m *testing.M) {
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "dbtest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func stopShared() error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		return nil
	}
	err := shared.server.Stop()
	shared.server, shared.err = nil, errors.New("the shared server was stopped")
	return err
}

// Postgres is the address of a fresh, empty database, dropped when the test
// ends. All tests of a binary share one server.
func Postgres(t testing.TB) string {
	t.Helper()
	return create(t, serverURL(t))
}

// serverURL is the address of the shared server's maintenance database.
func serverURL(t testing.TB) string {
	t.Helper()
	if given := os.Getenv(EnvURL); given != "" {
		return given
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = pgserver.Start(context.Background(), "")
	}
	if shared.err != nil {
		unavailable(t, shared.err)
	}
	return shared.server.URL("postgres")
}

// unavailable skips a test for want of a server, or fails it where a skip
// would go unseen. Programs that are there and do not start are always a failure.
func unavailable(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" || !errors.Is(err, pgserver.ErrNotInstalled) {
		t.Fatalf("PostgreSQL is needed: %v", err)
	}
	t.Skipf("SKIPPED, NOT TESTED ON POSTGRESQL: %v; install it, or set %s", err, EnvURL)
}

// create makes a database with a random name on the server at admin.
func create(t testing.TB, admin string) string {
	t.Helper()
	name := randomName()
	if err := run(admin, "create database "+name); err != nil {
		t.Fatalf("create a database for the test: %v", err)
	}
	t.Cleanup(func() {
		// FORCE, since a test that failed may have left connections open.
		if err := run(admin, "drop database if exists "+name+" with (force)"); err != nil {
			t.Logf("drop database %s: %v", name, err)
		}
	})
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatalf("%s is not a URL: %v", EnvURL, err)
	}
	u.Path = "/" + name
	return u.String()
}

func run(admin, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

func randomName() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return "giro_test_" + hex.EncodeToString(b[:])
}

// Server is a PostgreSQL server that belongs to one test, which may kill it.
type Server struct {
	own *pgserver.Server
	t   testing.TB // the test that it belongs to
}

// NewServer starts a server for this test alone and stops it when the test
// ends. It needs installed programs: no test kills the server behind
// GIRO_TEST_POSTGRES_URL.
func NewServer(t testing.TB) *Server {
	t.Helper()
	own, err := pgserver.Start(context.Background(), "")
	if err != nil {
		unavailable(t, err)
	}
	t.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Errorf("stop the test's server: %v", err)
		}
	})
	return &Server{own: own, t: t}
}

// URL is the address of a fresh, empty database on this server. It stays valid
// over Kill and Start. The server has to run.
func (s *Server) URL(t testing.TB) string {
	t.Helper()
	name := randomName() // goes with the server, so nobody drops it
	if err := run(s.own.URL("postgres"), "create database "+name); err != nil {
		t.Fatalf("create a database for the test: %v", err)
	}
	return s.own.URL(name)
}

// Kill ends the server and all its processes at once, as SIGKILL does.
func (s *Server) Kill() {
	s.t.Helper()
	if err := s.own.Kill(); err != nil {
		s.t.Fatalf("kill the test's server: %v", err)
	}
}

// Start starts the server again after Kill, on the same address and data, and
// returns when it takes connections.
func (s *Server) Start() {
	s.t.Helper()
	if err := s.own.Restart(context.Background()); err != nil {
		s.t.Fatalf("start the test's server again: %v", err)
	}
}

// SQLite is the path of a database file that does not exist yet, in a folder
// that goes with the test.
func SQLite(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "giro.db")
}

// OpenPostgres opens a database by its address for plain SQL, for tests of
// packages that do not know the driver. It is closed when the test ends.
func OpenPostgres(t testing.TB, address string) *sql.DB {
	t.Helper()
	return open(t, "pgx", address)
}

// OpenSQLite opens a database file for plain SQL, in WAL mode, where a writer
// waits up to five seconds for another. It is closed when the test ends.
func OpenSQLite(t testing.TB, path string) *sql.DB {
	t.Helper()
	return open(t, "sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
}

func open(t testing.TB, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}
