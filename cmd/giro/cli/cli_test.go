package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"giro/cmd/giro/environ"
	"giro/internal/dbtest"
)

// TestMain takes away what somebody has exported: flags are read from there too.
// asGiro in the environment, a command line, has this program be giro instead of its
// test: a process that can be killed.
const asGiro = "GIRO_CLI_TEST_AS_GIRO"

func TestMain(m *testing.M) {
	line := os.Getenv(asGiro)
	environ.Clear()
	if line != "" {
		os.Exit(Run(context.Background(), strings.Fields(line), Streams{Out: os.Stdout, Err: os.Stderr}))
	}
	dbtest.Main(m)
}

// run carries out a command line and gives what it wrote.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Run(context.Background(), args, Streams{Out: &o, Err: &e})
	return code, o.String(), e.String()
}

func runIn(ctx context.Context, args ...string) (code int, errs string) {
	var e bytes.Buffer
	code = Run(ctx, args, Streams{Out: io.Discard, Err: &e})
	return code, e.String()
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
		{"nonsense", "unexpected argument nonsense"},
		{"transfer", "expected one of"},
		{"--tenant acme transfer get k", "Flags stand after the command that heeds them."},
		{"transfer create", "missing flags: --amount=AMOUNT, --currency=CODE, --from=REF, --to=REF"},
		{"transfer create --from a/b --to c/d --amount 1.005 --currency USD", "at most 2 decimals"},
		{"transfer create --from a/b --to c/d --amount 1e3 --currency USD", "write digits"},
		{"transfer create --from a/b --to c/d --amount -1 --currency USD", "-1"},
		{"transfer create --from a/b --to c/d --amount 1 --currency usd", "not an ISO 4217 code"},
		{"transfer create --from a/b --to c/d --amount 1 --currency USD --timeout 0s", "--timeout"},
		{"transfer create --from a/b --to c/d --amount 0.00 --currency USD", "amount 0.00 USD is out of range: giro moves 0.01 USD to 46116860184273879.04 USD at once"},
		{"transfer create --from a/b --to c/d --amount 0 --currency JPY", "giro moves 1 JPY to 4611686018427387904 JPY at once"},
		{"transfer create --from a/b --to c/d --amount 46116860184273879.05 --currency USD", "giro moves 0.01 USD to 46116860184273879.04 USD at once"},
		{"transfer create --from a/b --to c/d --amount 99999999999999999999999 --currency KWD", "giro moves 0.001 KWD to 4611686018427387.904 KWD at once"},
		{"transfer cancel k --from a/b --to c/d --amount 0.00 --currency USD", "giro moves 0.01 USD"},
		{"account deposit accountsvc/a --amount 0 --currency EUR", "giro moves 0.01 EUR"},
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
		{"serve accountsvc --database-url books.db", "must be postgres://USER@HOST/NAME or sqlite:FILE"},
		{"serve accountsvc --database-url sqlite:///books.db", "write sqlite:FILE"},
		{"serve ledgersvc --database-url sqlite:x --listen nonsense", "want host:port"},
		{"serve ledgersvc --database-url sqlite:x --name A/B", "the name \"A/B\" must be"},
		{"serve orchestrator --database-url sqlite:x --listen nonsense", "want host:port"},
		{"serve orchestrator --database-url sqlite:x --participant bank=", "participant bank: its address \"\" must be HOST:PORT"},
		{"serve orchestrator --database-url sqlite:x --participant bank=localhost", "must be HOST:PORT"},
		{"serve orchestrator --database-url sqlite:x --participant bank=:7104", "must be HOST:PORT"},
		{"serve orchestrator --database-url sqlite:x --participant Bank=localhost:1", "must be 1 to 63 characters"},
		{"serve orchestrator --database-url sqlite:x --participant bank", "bank"},
		{"serve orchestrator --database-url sqlite:x --accountsvc x", "participant accountsvc: its address \"x\" must be HOST:PORT"},
		{"serve orchestrator --database-url sqlite:x --lease -1s", "--lease"},
		{"migrate up --service ledgersvc --database-url mysql:x", "must be postgres://USER@HOST/NAME or sqlite:FILE"},
		{"migrate status --service ledgersvc --database-url sqlite:x?y", "write sqlite:FILE"},
		{"dev --orchestrator nonsense", "orchestrator: listen address \"nonsense\": want host:port"},
		{"demo --store postgres --postgres-url postgres://u:p@ss@h/d", "percent-encode the password"},
		{"demo --store postgres --postgres-url postgres://u@127.0.0.1:1/d?sslmode=secret", "the database URL cannot be used: failed to configure TLS\n"},
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
			if code != ExitUsage || !strings.Contains(errs, "--conformance") || !strings.Contains(errs, "loopback") {
				t.Errorf("%s %v: exit code %d, %q", service, where, code, errs)
			}
		}
	}
}

func TestServeRefusesWhatItMustNotListenOn(t *testing.T) {
	file := "sqlite:" + t.TempDir() + "/books.db"
	for _, service := range []string{"orchestrator", "accountsvc", "ledgersvc"} {
		code, _, errs := run(t, "serve", service, "--database-url", file, "--migrate", "--listen", "0.0.0.0:0")
		if code != ExitUsage || !strings.Contains(errs, "--insecure") {
			t.Errorf("%s: exit code %d, %q", service, code, errs)
		}
	}
}

func TestServeRefusesAnUnknownDatabase(t *testing.T) {
	code, _, errs := run(t, "serve", "accountsvc", "--database-url", "mysql://root:secret@x/y", "--listen", "127.0.0.1:0")
	if code != ExitUsage || !strings.Contains(errs, "postgres://USER@HOST/NAME or sqlite:FILE") || strings.Contains(errs, "secret") {
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

// TestParticipantsInTheEnvironment holds the syntax that the help tells: the last of
// them is the one that is refused.
func TestParticipantsInTheEnvironment(t *testing.T) {
	t.Setenv("GIRO_PARTICIPANT", "bank=127.0.0.1:7104,till=")
	code, _, errs := run(t, "serve", "orchestrator", "--database-url", "sqlite:x")
	if code != ExitUsage || !strings.Contains(errs, "participant till: its address \"\"") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}
