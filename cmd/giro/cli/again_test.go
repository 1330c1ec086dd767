package cli

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"giro/cmd/giro/environ"
	"giro/internal/rpc"
	transferv1 "giro/proto/giro/transfer/v1"
)

// printed gives the command lines that a command printed, as a shell reads them.
func printed(t *testing.T, text string) [][]string {
	t.Helper()
	var lines [][]string
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "  ") || !strings.HasPrefix(strings.TrimSpace(line), "giro ") {
			continue
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", `printf '%s\0' `+strings.TrimSpace(line)).Output()
		if err != nil {
			t.Fatalf("the shell does not read %q: %v", line, err)
		}
		lines = append(lines, strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")[1:])
	}
	return lines
}

// asking are command lines of every command that asks a service, with whatever may
// be lost on the way: quotes, a key like a flag, values from the environment.
var asking = []struct {
	line        []string
	environment map[string]string
}{
	{line: createLine},
	{line: slices.Concat(createLine, []string{"--tenant", "acme", "--actor", "bob o'neill $x", "--timeout", "7s", "--memo", "it's *", "--expiry", "90s", "--json"})},
	{line: createLine, environment: map[string]string{"GIRO_TENANT": "acme", "GIRO_ACTOR": "bob", "GIRO_TIMEOUT": "7s", "GIRO_MEMO": "-x", "GIRO_JSON": "true"}},
	{line: slices.Concat(createLine[:2], createLine[4:])},
	{line: slices.Concat(createLine[:2], createLine[4:]), environment: map[string]string{"GIRO_TENANT": "acme", "GIRO_ACTOR": "--all"}},
	{line: createLine[:2], environment: map[string]string{"GIRO_KEY": "-k", "GIRO_FROM": "a/b", "GIRO_TO": "c/d", "GIRO_AMOUNT": "1", "GIRO_CURRENCY": "JPY"}},
	{line: []string{"transfer", "get", "order-1", "--tenant", "acme", "--json"}},
	{line: []string{"transfer", "get", "--actor", "x y", "--", "-k"}, environment: map[string]string{"GIRO_TENANT": "acme"}},
	{line: []string{"transfer", "cancel", "order-1", "--actor", "bob"}, environment: map[string]string{"GIRO_TENANT": "acme"}},
	{line: []string{"transfer", "cancel", "order~1", "--tenant", "acme", "--from", "a/b", "--to", "c/d", "--amount", "1", "--currency", "JPY", "--timeout", "9s"}},
	{line: []string{"saga", "show", "order-1", "--tenant", "acme"}},
	{line: []string{"audit", "--tenant", "acme", "--timeout", "20s"}},
	{line: []string{"audit", "--all-tenants"}, environment: map[string]string{"GIRO_ACTOR": "x"}},
	{line: []string{"account", "open", "accountsvc/alice", "--currency", "USD", "--key", "k", "--tenant", "acme"}},
	{line: []string{"account", "open", "alice", "--service", "accountsvc", "--currency", "USD"}, environment: map[string]string{"GIRO_TENANT": "acme"}},
	{line: []string{"account", "deposit", "accountsvc/alice", "--currency", "USD", "--amount", "5", "--external", "till", "--tenant", "acme", "--actor", "bob"}},
	{line: []string{"account", "deposit", "accountsvc/alice", "--currency", "USD", "--amount", "5", "--key", "k"}, environment: map[string]string{"GIRO_EXTERNAL": "till"}},
	{line: []string{"account", "show", "accountsvc/alice", "--tenant", "acme"}},
	{line: []string{"account", "freeze", "accountsvc/alice", "--key", "k", "--tenant", "acme"}},
	{line: []string{"account", "freeze", "accountsvc/alice", "--key", "k", "--reason", "it's lost"}},
	{line: []string{"account", "unfreeze", "accountsvc/alice", "--key", "k", "--tenant", "acme"}},
	{line: []string{"account", "withdraw", "accountsvc/alice", "--key", "k", "--amount", "1", "--currency", "USD", "--external", "till"}},
	{line: []string{"account", "statement", "accountsvc/alice", "--from", "2026-01-01T00:00:00Z"}},
	{line: []string{"account", "close", "accountsvc/alice", "--actor", "bob"}, environment: map[string]string{"GIRO_TENANT": "acme"}},
}

// TestThePrintedLineAsksTheSame runs every line that a command prints to ask again,
// in a shell where nothing is exported, and compares the requests and who asks.
// Another tenant, or another orchestrator, would pay a second time.
func TestThePrintedLineAsksTheSame(t *testing.T) {
	for _, c := range asking {
		t.Run(strings.Join(c.line, " "), func(t *testing.T) {
			s := &service{err: rpc.Unavailable("OUTCOME_UNKNOWN", "no answer", time.Second), transfer: transferIn(transferv1.State_STATE_PENDING, "")}
			at := s.serve(t)
			// The addresses come from the environment, as they may, and the line has them all the same.
			for _, name := range []string{"GIRO_ORCHESTRATOR", "GIRO_ACCOUNTSVC", "GIRO_LEDGERSVC"} {
				t.Setenv(name, at)
			}
			for name, value := range c.environment {
				t.Setenv(name, value)
			}
			code, _, errs := run(t, c.line...)
			asked, principal := s.asked, s.principal
			lines := printed(t, errs)
			if code != ExitUnknown || len(lines) == 0 || asked == nil {
				t.Fatalf("exit code %d, %d lines, asked %v\n%s", code, len(lines), asked, errs)
			}
			environ.Clear()
			for _, words := range lines {
				s.asked, s.principal = nil, rpc.Principal{}
				if code, _, again := run(t, words...); code != ExitUnknown {
					t.Fatalf("%q: exit code %d, %s", words, code, again)
				}
				if !proto.Equal(s.asked, asked) || s.principal != principal {
					t.Errorf("%q asks\n%v as %v; it was\n%v as %v", words, s.asked, s.principal, asked, principal)
				}
				if !slices.Contains(words, "--tenant") {
					t.Errorf("%q names no tenant", words)
				}
			}
		})
	}
}

// TestTheOtherTransferIsSeenInTheSameName: under another tenant the line would show
// nothing, or another transfer.
func TestTheOtherTransferIsSeenInTheSameName(t *testing.T) {
	t.Setenv("GIRO_TENANT", "acme")
	for _, line := range [][]string{createLine, {"transfer", "cancel", "order-1"}} {
		s := &service{err: rpc.AlreadyExists("TRANSFER_KEY_REUSED", "it is another transfer's", []string{"amount"})}
		code, _, errs := s.run(t, line...)
		want := [][]string{{"transfer", "get", "order-1", "--orchestrator", s.address, "--tenant", "acme"}}
		if got := printed(t, errs); code != ExitRefused || !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("exit code %d, %q, want %q", code, got, want)
		}
	}
}

func TestEveryCommandThatAsksIsAskedAgain(t *testing.T) {
	for _, leaf := range model(t).Model.Leaves(false) {
		asks := false
		for _, group := range leaf.AllFlags(false) {
			for _, f := range group {
				asks = asks || f.Name == "tenant"
			}
		}
		tried := false
		for _, c := range asking {
			tried = tried || strings.HasPrefix(strings.Join(c.line, " "), leaf.Path())
		}
		if asks != tried {
			t.Errorf("%s: asks %v, tried %v", leaf.Path(), asks, tried)
		}
	}
}

// TestTheLineKeepsItsSwitches covers what no request shows: the flags that say how
// to wait and what to print.
func TestTheLineKeepsItsSwitches(t *testing.T) {
	t.Setenv("GIRO_JSON", "true")
	t.Setenv("GIRO_TIMEOUT", "7s")
	s := &service{transfer: transferIn(transferv1.State_STATE_PENDING, "")}
	_, _, errs := s.run(t, createLine...)
	_, _, off := s.run(t, slices.Concat(createLine, []string{"--json=false"})...)
	if !strings.Contains(errs, " --timeout 7s --json ") || !strings.Contains(off, " '--json=false' ") {
		t.Errorf("came %s\n%s", errs, off)
	}
}

func TestWhatWasGivenAndIsEmptyIsRefused(t *testing.T) {
	s := &service{transfer: transferIn(transferv1.State_STATE_COMPLETED, "")}
	s.serve(t)
	rest := slices.Concat(createLine[:2], createLine[4:])
	for _, c := range []struct {
		flag, name, says string
	}{
		{"--key", "GIRO_KEY", " is empty; leave it out to have one drawn"},
		{"--tenant", "GIRO_TENANT", " is empty; leave it out for default"},
		{"--actor", "GIRO_ACTOR", " is empty; leave it out for cli"},
		{"--from", "GIRO_FROM", " is empty; it needs a value"},
	} {
		line := rest
		if c.flag == "--from" {
			line = slices.Concat(createLine[:4], createLine[6:])
		}
		code, _, errs := s.run(t, slices.Concat(line, []string{c.flag, ""})...)
		if code != ExitUsage || !strings.Contains(errs, c.flag+c.says) || s.asked != nil {
			t.Errorf("%s: exit code %d, %q, asked %v", c.flag, code, errs, s.asked)
		}
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(c.name, "")
			code, _, errs := s.run(t, line...)
			if code != ExitUsage || !strings.Contains(errs, c.name+c.says) || s.asked != nil {
				t.Errorf("exit code %d, %q, asked %v", code, errs, s.asked)
			}
		})
	}
	if code, _, errs := s.run(t, "transfer", "get", ""); code != ExitUsage || !strings.Contains(errs, "<key> is empty") || s.asked != nil {
		t.Errorf("no key to get: exit code %d, %q", code, errs)
	}
	if code, _, errs := s.run(t, slices.Concat(createLine, []string{"--memo", ""})...); code != ExitOK {
		t.Errorf("an empty memo: exit code %d, %q", code, errs)
	}
}

// TestAPrincipalIsJudgedAsTheServicesJudgeIt sends nothing in a name that they would
// refuse, and everything that they take.
func TestAPrincipalIsJudgedAsTheServicesJudgeIt(t *testing.T) {
	long := strings.Repeat("x", 128)
	for _, c := range []struct {
		flag, value string
		code        int
	}{
		{"--tenant", "Acme", ExitUsage}, {"--tenant", "a b", ExitUsage}, {"--tenant", long[:64], ExitUsage}, {"--tenant", long[:63], ExitOK},
		{"--actor", "bö", ExitUsage}, {"--actor", "a\nb", ExitUsage}, {"--actor", long + "x", ExitUsage}, {"--actor", long, ExitOK},
	} {
		s := &service{transfer: transferIn(transferv1.State_STATE_COMPLETED, "")}
		code, _, errs := s.run(t, slices.Concat(createLine, []string{c.flag, c.value})...)
		if code != c.code || (s.asked != nil) != (c.code == ExitOK) {
			t.Errorf("%s %q: exit code %d, %q, asked %v", c.flag, c.value, code, errs, s.asked)
		}
	}
}

func TestInterruptedAndTimedOutInWords(t *testing.T) {
	ctx, interrupt := context.WithCancel(context.Background())
	for _, c := range []struct {
		name string
		hold func(context.Context)
		line []string
		says []string
	}{
		{"create interrupted", func(ctx context.Context) { interrupt(); <-ctx.Done() }, createLine,
			[]string{"giro: interrupted\n", "it is not known what became of the call; asking again is safe, with the same key:\n", "  giro transfer create --key order-1 "}},
		{"get interrupted", func(ctx context.Context) { interrupt(); <-ctx.Done() }, []string{"transfer", "get", "order-1"},
			[]string{"giro: interrupted\n", "nothing was changed; to ask again:\n", "  giro transfer get order-1 "}},
		{"create timed out", func(ctx context.Context) { <-ctx.Done() }, slices.Concat(createLine, []string{"--timeout", "50ms"}),
			[]string{"giro: ", "it is not known what became of the call", "  giro transfer create --key order-1 "}},
		{"audit timed out", func(ctx context.Context) { <-ctx.Done() }, []string{"audit", "--timeout", "50ms"},
			[]string{"giro: ", "nothing was changed; to ask again:\n", "  giro audit "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, interrupt = context.WithCancel(context.Background())
			defer interrupt()
			s := &service{hold: c.hold}
			line := slices.Concat(c.line, []string{"--orchestrator", s.serve(t)})
			code, errs := runIn(ctx, line...)
			if code != ExitUnknown || strings.Contains(errs, "context ") {
				t.Errorf("exit code %d, %s", code, errs)
			}
			for _, words := range c.says {
				if !strings.Contains(errs, words) {
					t.Errorf("no %q in %s", words, errs)
				}
			}
		})
	}
}
