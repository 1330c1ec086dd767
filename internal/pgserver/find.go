package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// oldest is the first major version that giro supports.
const oldest = 15

// ErrNotInstalled means that no server programs of a supported version were found.
var ErrNotInstalled = errors.New("no PostgreSQL server programs (initdb, postgres) of version 15 or later in PATH or /usr/lib/postgresql/*/bin")

// Find is the folder that holds the server programs of the newest installed
// PostgreSQL, or ErrNotInstalled.
func Find() (string, error) {
	best, bestVersion := "", oldest-1
	for _, dir := range candidates() {
		if v := version(dir); v > bestVersion {
			best, bestVersion = dir, v
		}
	}
	if best == "" {
		return "", ErrNotInstalled
	}
	return best, nil
}

// candidates are the folders to look at, without doubles.
func candidates() []string {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
		"/usr/pgsql-*/bin",                   // the PostgreSQL project's RPMs
		"/opt/homebrew/opt/postgresql@*/bin", // Homebrew on Apple silicon
		"/usr/local/opt/postgresql@*/bin",    // Homebrew on Intel
		"/Library/PostgreSQL/*/bin",          // the installer for macOS
		"C:/Program Files/PostgreSQL/*/bin",  // the installer for Windows
	} {
		found, err := filepath.Glob(pattern)
		if err == nil { // the patterns are constant and well formed
			dirs = append(dirs, found...)
		}
	}
	var real []string
	for _, dir := range dirs {
		// A link in PATH leads to the folder with all of the programs.
		path, err := filepath.EvalSymlinks(filepath.Join(dir, program("postgres")))
		if err != nil {
			continue
		}
		if folder := filepath.Dir(path); !slices.Contains(real, folder) {
			real = append(real, folder)
		}
	}
	return real
}

var versionText = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// version is the major version of the programs in a folder, 0 if they do not run.
func version(dir string) int {
	if _, err := os.Stat(filepath.Join(dir, program("initdb"))); err != nil {
		return 0
	}
	out, err := exec.Command(filepath.Join(dir, program("postgres")), "--version").Output() //nolint:gosec,noctx // a found program, no input
	if err != nil {
		return 0
	}
	m := versionText.FindStringSubmatch(string(out))
	if m == nil {
		return 0
	}
	v, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return v
}

func findPsql(bin string) (string, error) {
	path := filepath.Join(bin, program("psql"))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	path, err := exec.LookPath("psql")
	if err != nil {
		return "", fmt.Errorf("pgserver: psql is neither in %s nor in PATH: %w", bin, err)
	}
	return path, nil
}

func program(name string) string {
	if runtime.GOOS == "windows" && !strings.HasSuffix(name, ".exe") {
		return name + ".exe"
	}
	return name
}
