package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// run carries out a command line and gives what it wrote.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Run(context.Background(), args, Streams{Out: &o, Err: &e})
	return code, o.String(), e.String()
}

func model(t *testing.T) *kong.Kong {
	t.Helper()
	var g grammar
	parser, err := newParser(&g, Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	return parser
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	leaves := model(t).Model.Leaves(false)
	if len(leaves) < 15 {
		t.Fatalf("only %d commands were found", len(leaves))
	}
	for _, leaf := range leaves {
		words := strings.Fields(leaf.Path())
		code, out, _ := run(t, append(words, "--help")...)
		if code != ExitOK {
			t.Errorf("%s --help: exit code %d", leaf.Path(), code)
		}
		example := "giro " + leaf.Path()
		if leaf.Help == "" || !strings.Contains(out, leaf.Help[:10]) {
			t.Errorf("%s has no help", leaf.Path())
		}
		if !strings.Contains(out, "Example") || !strings.Contains(out[strings.Index(out, "Example"):], example) {
			t.Errorf("%s has no example in its help:\n%s", leaf.Path(), out)
		}
	}
}

func TestEveryFlagMayBeSetInTheEnvironment(t *testing.T) {
	count := 0
	for _, leaf := range model(t).Model.Leaves(false) {
		for _, group := range leaf.AllFlags(false) {
			for _, flag := range group {
				if flag.Name == "help" {
					continue
				}
				count++
				if len(flag.Envs) != 1 || !strings.HasPrefix(flag.Envs[0], "GIRO_") {
					t.Errorf("%s --%s: environment %v", leaf.Path(), flag.Name, flag.Envs)
				}
			}
		}
	}
	if count == 0 {
		t.Fatal("no flag was looked at")
	}
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct {
		line string
		says string
	}{
		{"", "expected one of"},
		{"nonsense", "unexpected argument nonsense"},
		{"transfer", "expected one of"},
		{"transfer create", "missing --from, --to, --amount and --currency"},
		{"transfer create --from a/b --to c/d --amount 1.005 --currency USD", "at most 2 decimals"},
		{"transfer create --from a/b --to c/d --amount 1e3 --currency USD", "write digits"},
		{"transfer create --from a/b --to c/d --amount -1 --currency USD", "-1"},
		{"transfer create --from a/b --to c/d --amount 1 --currency usd", "not an ISO 4217 code"},
		{"transfer create --from a/b --to c/d --amount 1 --currency USD --timeout 0s", "--timeout"},
		{"transfer get", "<key>"},
		{"transfer cancel k --from a/b", "missing --to, --amount and --currency"},
		{"account open alice --currency USD", "write accountsvc/alice or ledgersvc/alice"},
		{"account open bank/alice --currency USD", "no service that this command knows"},
		{"account open accountsvc/alice", "--currency"},
		{"account show accountsvc/alice --service ledgersvc", "contradicts"},
		{"account deposit ledgersvc/shop --amount 1 --currency USD", "takes no deposits"},
		{"account show x --service bank", "--service"},
		{"migrate up --service bank --database-url sqlite:x", "--service"},
		{"serve accountsvc", "--database-url"},
		{"demo --store paper", "--store"},
	} {
		code, out, errs := run(t, strings.Fields(c.line)...)
		if code != ExitUsage || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("giro %s: exit code %d, %q, %q; want %d and %q", c.line, code, out, errs, ExitUsage, c.says)
		}
	}
}

func TestUsageErrorsNameTheHelpOfTheirCommand(t *testing.T) {
	_, _, errs := run(t, "transfer", "get")
	if !strings.Contains(errs, "See giro transfer get --help") {
		t.Errorf("came: %s", errs)
	}
}

func TestConformanceSetupIsServedOnLoopbackOnly(t *testing.T) {
	file := "sqlite:" + t.TempDir() + "/books.db"
	for _, service := range []string{"accountsvc", "ledgersvc"} {
		for _, where := range [][]string{{"--listen", "0.0.0.0:0"}, {"--listen", "0.0.0.0:0", "--insecure"}, {"--listen", "127.0.0.1:0", "--insecure"}} {
			code, _, errs := run(t, append([]string{"serve", service, "--database-url", file, "--migrate", "--conformance"}, where...)...)
			if code != ExitFailed || !strings.Contains(errs, "--conformance") || !strings.Contains(errs, "loopback") {
				t.Errorf("%s %v: exit code %d, %q", service, where, code, errs)
			}
		}
	}
}

func TestServeRefusesWhatItMustNotListenOn(t *testing.T) {
	file := "sqlite:" + t.TempDir() + "/books.db"
	for _, service := range []string{"orchestrator", "accountsvc", "ledgersvc"} {
		code, _, errs := run(t, "serve", service, "--database-url", file, "--migrate", "--listen", "0.0.0.0:0")
		if code != ExitFailed || !strings.Contains(errs, "--insecure") {
			t.Errorf("%s: exit code %d, %q", service, code, errs)
		}
	}
}

func TestServeRefusesAnUnknownDatabase(t *testing.T) {
	code, _, errs := run(t, "serve", "accountsvc", "--database-url", "mysql://root:secret@x/y", "--listen", "127.0.0.1:0")
	if code != ExitFailed || !strings.Contains(errs, "postgres://USER@HOST/NAME or sqlite:FILE") || strings.Contains(errs, "secret") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

func TestMigrate(t *testing.T) {
	for _, service := range []string{"orchestrator", "accountsvc", "ledgersvc"} {
		target := []string{"--service", service, "--database-url", "sqlite:" + t.TempDir() + "/rows.db"}
		code, out, errs := run(t, append([]string{"migrate", "up"}, target...)...)
		if code != ExitOK || !strings.Contains(out, "applied 1 ") {
			t.Fatalf("%s: up: exit code %d, %q, %q", service, code, out, errs)
		}
		code, out, _ = run(t, append([]string{"migrate", "up"}, target...)...)
		if code != ExitOK || !strings.Contains(out, "nothing to do") {
			t.Errorf("%s: up again: exit code %d, %q", service, code, out)
		}
		code, out, _ = run(t, append([]string{"migrate", "status"}, target...)...)
		if code != ExitOK || !strings.Contains(out, "VERSION") || strings.Contains(out, "not yet") {
			t.Errorf("%s: status: exit code %d, %q", service, code, out)
		}
		code, out, _ = run(t, append([]string{"migrate", "status", "--json"}, target...)...)
		if code != ExitOK || !strings.Contains(out, `"version": 1`) || !strings.Contains(out, `"applied": "2`) {
			t.Errorf("%s: status --json: exit code %d, %q", service, code, out)
		}
	}
}

func TestCommandLineIsReadBackTheSame(t *testing.T) {
	got := commandLine("giro", "transfer", "create", "--memo", "it's $5", "--key", "a~b")
	want := `giro transfer create --memo 'it'\''s $5' --key 'a~b'`
	if got != want {
		t.Errorf("came %s, want %s", got, want)
	}
}
