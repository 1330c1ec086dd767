package pgserver_test

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"giro/internal/pgserver"
)

func start(t *testing.T, dir string) *pgserver.Server {
	t.Helper()
	s, err := pgserver.Start(t.Context(), dir)
	if errors.Is(err, pgserver.ErrNotInstalled) && os.Getenv("CI") != "true" {
		t.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func psql(t *testing.T, url, sql string) string {
	t.Helper()
	bin, err := pgserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(bin, "psql")
	if _, err := os.Stat(program); err != nil {
		program = "psql"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "-X", "-A", "-t", "-d", url, "-c", sql).CombinedOutput()
	if err != nil {
		t.Fatalf("psql %q: %v: %s", sql, err, out)
	}
	return string(bytes.TrimSpace(out))
}

func TestCommittedRowsSurviveKill(t *testing.T) {
	s := start(t, "")
	if err := s.CreateDatabase(t.Context(), "kept"); err != nil {
		t.Fatal(err)
	}
	before := s.URL("kept")
	psql(t, before, "create table t (n int)")
	for range 3 {
		psql(t, before, "insert into t values (1)")
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if s.URL("kept") != before {
		t.Errorf("the address changed: %s, was %s", s.URL("kept"), before)
	}
	if got := psql(t, before, "select count(*) from t"); got != "3" {
		t.Errorf("%s rows, want 3", got)
	}
	for setting, want := range map[string]string{"fsync": "on", "synchronous_commit": "on", "max_connections": "200"} {
		if got := psql(t, before, "show "+setting); got != want {
			t.Errorf("%s = %s, want %s", setting, got, want)
		}
	}
}

func TestRestartWhileItRuns(t *testing.T) {
	s := start(t, filepath.Join(t.TempDir(), "server"))
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := psql(t, s.URL("postgres"), "select 1"); got != "1" {
		t.Errorf("got %q", got)
	}
}

func TestAsksForAPassword(t *testing.T) {
	s := start(t, "")
	u, err := url.Parse(s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), "wrong")
	out, err := exec.CommandContext(t.Context(), "psql", "-X", "-w", "-d", u.String(), "-c", "select 1").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "password authentication failed") {
		t.Errorf("a wrong password: err %v, output %s", err, out)
	}
}

func TestStopRemovesItsOwnFolderOnly(t *testing.T) {
	given := filepath.Join(t.TempDir(), "given")
	s, err := pgserver.Start(t.Context(), given)
	if errors.Is(err, pgserver.ErrNotInstalled) && os.Getenv("CI") != "true" {
		t.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(given, "data", "PG_VERSION")); err != nil {
		t.Errorf("a given folder must stay: %v", err)
	}
	if _, err := pgserver.Start(t.Context(), given); err == nil {
		t.Error("a folder with a cluster in it was taken for a new one")
	}

	t.Setenv("TMPDIR", openTemp(t))
	s = start(t, "")
	if left := folders(t); len(left) != 1 {
		t.Fatalf("folders while it runs: %v", left)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if left := folders(t); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRefusesOddDatabaseNames(t *testing.T) {
	s := start(t, "")
	for _, name := range []string{"", "a b", "x;drop database postgres", "Upper", strings.Repeat("a", 64)} {
		if err := s.CreateDatabase(t.Context(), name); err == nil {
			t.Errorf("%q was taken for a database name", name)
		}
	}
}

func openTemp(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil { //nolint:gosec // the server's user has to pass
			t.Fatal(err)
		}
	}
	return dir
}

func folders(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(os.TempDir(), "giro-pg-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}
