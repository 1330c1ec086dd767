// Participant measures accountsvc on PostgreSQL, over gRPC, beside what pgbench
// does on the same server with one transaction for each operation, and prints the
// ratios that are promised. It starts a server of its own, with fsync on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options are the program's flags.
type options struct {
	giro, dir, json, svg string
	rows                 int64
	seconds, repeats     int
	settings             settings
}

// settings are PostgreSQL settings, NAME=VALUE, besides its defaults.
type settings []string

func (s *settings) String() string { return strings.Join(*s, " ") }

// Set adds one, as flag.Value asks.
func (s *settings) Set(text string) error {
	if name, _, ok := strings.Cut(text, "="); !ok || name == "" {
		return errors.New("must be NAME=VALUE")
	}
	*s = append(*s, text)
	return nil
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("participant", flag.ContinueOnError)
	flags.StringVar(&o.giro, "giro", "bin/giro", "the built giro")
	flags.StringVar(&o.dir, "dir", "", "an empty folder for the database; default a temporary one, which is removed")
	flags.StringVar(&o.json, "json", "", "write all values there")
	flags.StringVar(&o.svg, "svg", "", "draw the figures there")
	flags.Int64Var(&o.rows, "rows", 10_000_000, "outcome rows in the table that is not empty")
	flags.IntVar(&o.seconds, "seconds", 5, "length of one measurement")
	flags.IntVar(&o.repeats, "repeats", 3, "how often each is made")
	flags.Var(&o.settings, "set", "a PostgreSQL setting, NAME=VALUE; may be repeated")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.rows < accountCount || o.seconds < 1 || o.repeats < 1 || flags.NArg() > 0 {
		return o, fmt.Errorf("--rows is at least %d, --seconds and --repeats are at least 1, and nothing else is taken", accountCount)
	}
	return o, nil
}

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = bench(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-participant:", err)
		os.Exit(1)
	}
}

// bench prints no figure unless the books agree with what was acknowledged.
func bench(o options) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	w, err := build(ctx, o)
	if w != nil {
		defer func() { err = errors.Join(err, w.close()) }()
	}
	if err != nil {
		return err
	}
	r := &report{Started: time.Now().UTC(), Machine: readMachine(w.dir), Server: w.about, Parameters: parametersOf(o)}
	r.LoadBefore = loadAverage()
	if r.Figures, err = measureAll(ctx, plan(w, o), o.repeats); err != nil {
		return err
	}
	r.LoadAfter = loadAverage()
	if r.Audits, err = audit(ctx, w); err != nil {
		return fmt.Errorf("no figures, since the audit failed: %w", err)
	}
	r.Ratios = judge(r.Figures, o.rows)
	fmt.Print(r.text())
	return write(r, o)
}

func write(r *report, o options) error {
	var failed []error
	if o.json != "" {
		failed = append(failed, writeJSON(o.json, r))
	}
	if o.svg != "" {
		failed = append(failed, os.WriteFile(o.svg, []byte(r.svg()), 0o644)) //nolint:gosec // for everybody to read
	}
	return errors.Join(failed...)
}

// progress is for who waits. It tells no figures: until the audit there are none.
func progress(format string, values ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", values...)
}
