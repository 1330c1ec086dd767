package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"giro/internal/participant/conformance"
)

type conformanceCommand struct {
	Target      string   `help:"Where the participant listens." placeholder:"HOST:PORT"`
	RestartCmd  string   `help:"Shell command that stops the participant and starts it again on the same books; it must return. Without it the rules about restarts are not run." placeholder:"CMD"`
	Rule        []string `help:"Run this rule only; may be repeated." placeholder:"NAME"`
	List        bool     `help:"List the rules and what they demand; ask nobody."`
	JSON        bool     `name:"json" help:"Write the report as JSON."`
	JUnit       string   `name:"junit" help:"Write the report to this file too, as JUnit XML." placeholder:"FILE"`
	AllowNotRun bool     `help:"Exit with 0 although rules were not run, if none failed."`
}

func (conformanceCommand) Help() string {
	return `Asks a participant, over gRPC alone, whether it keeps every rule of docs/participants.md, and says of each what became of it. Accounts are set up by giro.conformance.v1, which giro's own services serve with --conformance. It takes new tenants and keys, so it may be run again on the same participant; what it has stored stays there.

Exit codes: 0 every rule passed; 1 a rule failed; 4 none failed, but some were not run, so it is not known (0 with --allow-not-run), or nobody answers.

Example:

    giro conformance --target 127.0.0.1:7102 --restart-cmd 'systemctl restart my-participant'`
}

func (s *conformanceCommand) Run(c *call) error {
	if s.List {
		return s.list(c.Out)
	}
	if s.Target == "" {
		return usage("say which participant: --target HOST:PORT")
	}
	config := conformance.Config{Target: s.Target, Rules: s.Rule}
	if s.RestartCmd != "" {
		config.Restart = func(ctx context.Context) error { return shell(ctx, s.RestartCmd, c.Err) }
	}
	if !s.JSON {
		config.Progress = func(r conformance.Result) { conformance.WriteResult(c.Out, r) }
	}
	if err := known(s.Rule); err != nil {
		return err
	}
	report, err := conformance.Run(c.ctx, config)
	if err != nil {
		return &failure{code: ExitUnknown, message: err.Error()}
	}
	if err := s.write(c.Out, report); err != nil {
		return err
	}
	switch {
	case report.Count(conformance.Failed) > 0:
		return quiet(ExitFailed)
	case report.Count(conformance.NotRun) > 0 && !s.AllowNotRun:
		return quiet(ExitUnknown)
	}
	return nil
}

func (s *conformanceCommand) write(w io.Writer, report conformance.Report) error {
	if s.JUnit != "" {
		f, err := os.Create(s.JUnit)
		if err != nil {
			return err
		}
		if err := report.WriteJUnit(f); err != nil {
			_ = f.Close() // the first error counts
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	if s.JSON {
		return report.WriteJSON(w)
	}
	report.WriteText(w)
	return nil
}

func (s *conformanceCommand) list(w io.Writer) error {
	if s.JSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(conformance.Rules())
	}
	for _, r := range conformance.Rules() {
		fmt.Fprintf(w, "%-30s %-11s %s\n", r.Name, r.Section, r.Demands)
	}
	return nil
}

// known refuses rules that there are not.
func known(names []string) error {
	rules := map[string]bool{}
	for _, r := range conformance.Rules() {
		rules[r.Name] = true
	}
	for _, name := range names {
		if !rules[name] {
			return usage("there is no rule %q; giro conformance --list names them", name)
		}
	}
	return nil
}

// shell runs a command line and waits until it ends. What it leaves running may
// keep its output open; that is not waited for.
func shell(ctx context.Context, line string, w io.Writer) error {
	command := exec.CommandContext(ctx, "sh", "-c", line)
	command.Stdout, command.Stderr = w, w
	command.WaitDelay = time.Second
	if err := command.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("the restart command: %w", err)
	}
	return nil
}
