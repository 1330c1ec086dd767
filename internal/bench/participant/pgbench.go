package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"giro/internal/pgserver"
)

// pgbenchSecondsMax is the longest run that is followed by a longer one.
const pgbenchSecondsMax = 30

// pgbench is the installed program, a database to run it on, a folder for its files
// and the server's process.
type pgbench struct {
	program, url, dir string
	server            int
}

// take runs a script, after a second of warming up. pgbench's time begins before its
// clients are connected, so what that took is added to the time.
func (p pgbench) take(ctx context.Context, script string, clients, seconds int) (sample, error) {
	warm, err := p.atLeast(ctx, script, clients, 1)
	if err != nil {
		return sample{}, err
	}
	return p.atLeast(ctx, script, clients, seconds+int(math.Ceil(warm.connecting.Seconds())))
}

// atLeast takes longer where the time was over before the clients were connected, as
// on a machine with much else to do.
func (p pgbench) atLeast(ctx context.Context, script string, clients, seconds int) (sample, error) {
	for {
		s, err := p.run(ctx, script, clients, "--time="+strconv.Itoa(seconds))
		if !errors.Is(err, errNothingDone) || seconds > pgbenchSecondsMax {
			return s, err
		}
		seconds *= 2
	}
}

// run connects as the services do, by TCP and with a password, so it does not matter
// which user of the system it runs as.
func (p pgbench) run(ctx context.Context, script string, clients int, length string) (sample, error) {
	u, err := url.Parse(p.url)
	if err != nil {
		return sample{}, err
	}
	password, _ := u.User.Password()
	file := filepath.Join(p.dir, "pgbench.sql")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		return sample{}, err
	}
	logs := filepath.Join(p.dir, "pgbench-log")
	//nolint:gosec // an installed program and our own arguments
	cmd := exec.CommandContext(ctx, p.program, "--no-vacuum", "--protocol=prepared", "--file", file, length,
		"--client", strconv.Itoa(clients), "--jobs", strconv.Itoa(min(clients, runtime.NumCPU())),
		"--log", "--log-prefix", logs, "--host", u.Hostname(), "--port", u.Port(), "--username", u.User.Username(), strings.TrimPrefix(u.Path, "/"))
	cmd.Env = []string{"PGPASSWORD=" + password, "PGSSLMODE=disable", "LC_ALL=C"}
	groups := map[string]int{groupPostgres: p.server}
	before := readCPU(groups)
	out, err := cmd.CombinedOutput()
	after := readCPU(groups)
	if err != nil {
		return sample{}, fmt.Errorf("pgbench: %w: %s", err, out)
	}
	after.groups[groupPgbench] = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	latencies, err := takeLatencies(logs)
	if err != nil {
		return sample{}, err
	}
	s, err := parsePgbench(string(out))
	if err != nil {
		return sample{}, err
	}
	s.P50, s.P99 = milliseconds(percentile(latencies, 0.50)), milliseconds(percentile(latencies, 0.99))
	s.CPU, s.Elsewhere = spent(before, after, s.Operations)
	return s, nil
}

// findPgbench prefers the one that belongs to the server.
func findPgbench() (string, error) {
	bin, err := pgserver.Find()
	if err != nil {
		return "", err
	}
	if path := filepath.Join(bin, "pgbench"); fileExists(path) {
		return path, nil
	}
	return exec.LookPath("pgbench")
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

var (
	pgbenchDone   = regexp.MustCompile(`(?m)^number of transactions actually processed: (\d+)`)
	pgbenchFailed = regexp.MustCompile(`(?m)^number of failed transactions: (\d+)`)
	pgbenchJoined = regexp.MustCompile(`(?m)^initial connection time = ([0-9.]+) ms`)
	pgbenchTPS    = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \(without initial connection time\)`)
)

var errNothingDone = errors.New("pgbench did no transaction in the given time")

// parsePgbench reads what pgbench prints at its end.
func parsePgbench(out string) (sample, error) {
	done, tps, joined := pgbenchDone.FindStringSubmatch(out), pgbenchTPS.FindStringSubmatch(out), pgbenchJoined.FindStringSubmatch(out)
	if done != nil && done[1] == "0" {
		return sample{}, errNothingDone
	}
	if done == nil || tps == nil || joined == nil {
		return sample{}, fmt.Errorf("pgbench printed no figures: %s", out)
	}
	if failed := pgbenchFailed.FindStringSubmatch(out); failed != nil && failed[1] != "0" {
		return sample{}, fmt.Errorf("pgbench: %s transactions failed", failed[1])
	}
	operations, err := strconv.ParseInt(done[1], 10, 64)
	if err != nil {
		return sample{}, err
	}
	perSecond, err := strconv.ParseFloat(tps[1], 64)
	if err != nil {
		return sample{}, err
	}
	connecting, err := time.ParseDuration(joined[1] + "ms")
	return sample{Operations: operations, OperationsPerSecond: perSecond, connecting: connecting}, err
}

// takeLatencies reads the logs, one for each thread, and removes them.
func takeLatencies(prefix string) ([]time.Duration, error) {
	files, err := filepath.Glob(prefix + ".*")
	if err != nil {
		return nil, err
	}
	var all []time.Duration
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		some, err := parseLatencies(string(raw))
		if err := errors.Join(err, os.Remove(file)); err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// parseLatencies reads the third field of each line: microseconds.
func parseLatencies(log string) ([]time.Duration, error) {
	var all []time.Duration
	for line := range strings.Lines(log) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return nil, fmt.Errorf("pgbench logged %q", line)
		}
		micros, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("pgbench logged %q: %w", line, err)
		}
		all = append(all, time.Duration(micros)*time.Microsecond)
	}
	return all, nil
}
