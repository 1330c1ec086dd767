// Package demo plays the story of exactly-once transfers on real processes: what
// a client, an operator and the wire can do to them, and that the money moves
// once all the same.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"giro/cmd/giro/render"
	adminv1 "giro/proto/giro/admin/v1"
)

// Options say how the story is played.
type Options struct {
	// Store is sqlite or postgres.
	Store string
	// PostgresURL is a server where databases may be created; empty: one of the
	// demo's own.
	PostgresURL string
	// Keep leaves the services running afterwards, until the context ends.
	Keep bool
	// Executable is this binary.
	Executable string
	// Out gets the story; its last line is the audit's verdict. Err gets how to
	// look around afterwards.
	Out, Err io.Writer
	Colour   bool
}

// sceneLimit bounds one scene.
const sceneLimit = 45 * time.Second

// Run plays the story and says whether all of it held. An error means that it
// could not be played.
func Run(ctx context.Context, o Options) (held bool, err error) {
	s := &stage{script: &script{w: o.Out, colour: o.Colour}, answers: &answers{}}
	defer func() { err = errors.Join(err, s.takeDown(o.Keep)) }()
	began := time.Now()
	if err := s.setUp(ctx, o); err != nil {
		return false, err
	}
	s.introduce()
	for _, scene := range s.scenes() {
		if err := s.play(ctx, scene); err != nil {
			return false, err
		}
	}
	ok, err := s.audit(ctx, began)
	if err != nil {
		return false, err
	}
	if o.Keep {
		s.lookAround(o.Err)
		<-ctx.Done()
	}
	return ok && len(s.brokenScenes) == 0, nil
}

// scene is one part of the story.
type scene struct {
	name, title string
	play        func(context.Context) error
}

func (s *stage) scenes() []scene {
	return []scene{
		{"a", "The lesson's example: the same key again moves nothing", s.lesson},
		{"b", "Ten callers at once with one key: one debit", s.tenAtOnce},
		{"c", "Too little money: refused, and refused again after a top-up", s.tooLittle},
		{"d", "The destination is closed: debited, then given back", s.closedDestination},
		{"e", "The credit is applied but its answer is lost on the wire: one credit", s.lostAnswer},
		{"f", "The orchestrator is killed between debit and credit, and finishes without being asked", s.killedBetween},
		{"g", "accountsvc is killed in the middle of 500 transfers and comes back", s.killedUnderLoad},
		{"h", "A late debit arrives after its refund: cancelled", s.lateDebit},
		{"i", "The orchestrator's database is deleted and every client retries its keys: nothing moves twice", s.lostDatabase},
		{"j", "Every OK that a client saw is still true", s.stillTrue},
	}
}

// play runs one scene. One that cannot go on does not stop the next; only the
// end of the whole does.
func (s *stage) play(ctx context.Context, scene scene) error {
	s.open(scene.name, scene.title)
	bounded, cancel := context.WithTimeout(ctx, sceneLimit)
	err := scene.play(bounded)
	cancel()
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if err != nil {
		s.fallen()
	}
	s.close(err)
	if err == nil {
		return nil
	}
	return s.restore(ctx)
}

func (s *stage) introduce() {
	fmt.Fprintf(s.w, "giro demo: three services, each a process of its own; %s\n", s.databases.about())
	for _, service := range []string{orchestrator, accountsvc, ledgersvc} {
		p := s.processes[service]
		wired := ""
		if w := s.wires[service]; w != nil {
			wired = "; the orchestrator reaches it over the wire at " + w.Address()
		}
		fmt.Fprintf(s.w, "  %-12s  %s, process %d%s\n", service, p.address, p.cmd.Process.Pid, wired)
	}
}

// audit checks the invariants and writes the verdict as the story's last line.
func (s *stage) audit(ctx context.Context, began time.Time) (ok bool, err error) {
	fmt.Fprintf(s.w, "\n%s\n", s.paint(bold, "The audit: the saga table against both participants' books"))
	bounded, cancel := context.WithTimeout(ctx, sceneLimit)
	defer cancel()
	stream, err := s.admin.Audit(bounded, &adminv1.AuditRequest{})
	if err != nil {
		return false, fmt.Errorf("audit: %w", err)
	}
	checks := &strings.Builder{}
	verdict, err := render.Audit(checks, nil, "no rows", stream)
	if err != nil {
		return false, fmt.Errorf("audit: %w", err)
	}
	// What the story adds up to stands before the audit's last line.
	lines := strings.Split(strings.TrimRight(checks.String(), "\n"), "\n")
	for _, line := range lines[:len(lines)-1] {
		s.say("%s", line)
	}
	took := time.Since(began).Round(100 * time.Millisecond)
	if len(s.brokenScenes) > 0 {
		fmt.Fprintf(s.w, "\n%s\n", s.paint(red, fmt.Sprintf("scenes that did not hold: %s (%s)", strings.Join(s.brokenScenes, ", "), took)))
	} else {
		fmt.Fprintf(s.w, "\n%s\n", s.paint(green, fmt.Sprintf("every scene held (%s)", took)))
	}
	fmt.Fprintln(s.w, lines[len(lines)-1])
	return verdict.GetOk(), nil
}

// lookAround says how to use what was left running.
func (s *stage) lookAround(w io.Writer) {
	fmt.Fprintf(w, `
The services go on running until Ctrl-C; files and logs stay in %s
In another terminal:

  export GIRO_ORCHESTRATOR=%s GIRO_ACCOUNTSVC=%s GIRO_LEDGERSVC=%s
  giro account show accountsvc/alice
  giro saga show %s
  giro audit

`, s.dir, s.processes[orchestrator].address, s.processes[accountsvc].address, s.processes[ledgersvc].address, s.kept)
}
