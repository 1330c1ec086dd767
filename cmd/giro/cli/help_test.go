package cli

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// flat is a help text without its line breaks.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

func eachFlag(t *testing.T, do func(leaf *kong.Node, help string, f *kong.Flag)) {
	t.Helper()
	for _, leaf := range model(t).Model.Leaves(false) {
		_, out, _ := run(t, append(strings.Fields(leaf.Path()), "--help")...)
		for _, group := range leaf.AllFlags(false) {
			for _, f := range group {
				do(leaf, flat(out), f)
			}
		}
	}
}

func TestHelpSaysEveryDefault(t *testing.T) {
	seen := 0
	eachFlag(t, func(leaf *kong.Node, help string, f *kong.Flag) {
		if f.Default == "" {
			return
		}
		seen++
		if !strings.Contains(help, "default "+f.Default+", $"+f.Envs[0]+")") {
			t.Errorf("%s: the help of --%s hides its default %s", leaf.Path(), f.Name, f.Default)
		}
	})
	if seen < 20 {
		t.Errorf("only %d defaults were looked at", seen)
	}
}

func TestHelpSaysWhatIsRequired(t *testing.T) {
	required := map[string][]string{}
	eachFlag(t, func(leaf *kong.Node, help string, f *kong.Flag) {
		if !f.Required {
			return
		}
		required[leaf.Path()] = append(required[leaf.Path()], f.Name)
		if !strings.Contains(help, "(required, $"+f.Envs[0]+")") {
			t.Errorf("%s: the help of --%s does not say that it is required", leaf.Path(), f.Name)
		}
	})
	if got := strings.Join(required["transfer create"], " "); got != "from to amount currency" {
		t.Errorf("transfer create requires %s", got)
	}
}

// TestNoCommandTakesAFlagThatItIgnores: the connection's flags stand where they are
// heeded.
func TestNoCommandTakesAFlagThatItIgnores(t *testing.T) {
	heeds := map[string]string{
		"transfer": "orchestrator tenant actor", "saga": "orchestrator tenant actor", "audit": "orchestrator tenant actor",
		"account": "accountsvc ledgersvc tenant actor", "dev": "orchestrator accountsvc ledgersvc",
		"serve orchestrator": "accountsvc ledgersvc",
	}
	got := map[string]string{}
	eachFlag(t, func(leaf *kong.Node, _ string, f *kong.Flag) {
		switch f.Name {
		case "orchestrator", "accountsvc", "ledgersvc", "tenant", "actor":
			got[leaf.Path()] += " " + f.Name
		}
	})
	for _, leaf := range model(t).Model.Leaves(false) {
		want, whole := heeds[leaf.Path()], strings.Fields(leaf.Path())[0]
		if want == "" {
			want = heeds[whole]
		}
		if strings.TrimSpace(got[leaf.Path()]) != want {
			t.Errorf("%s takes %q, want %q", leaf.Path(), got[leaf.Path()], want)
		}
	}
	for _, line := range []string{"demo --tenant x", "migrate status --orchestrator x", "serve accountsvc --ledgersvc x", "dev --tenant x"} {
		if code, _, errs := run(t, strings.Fields(line)...); code != ExitUsage || !strings.Contains(errs, "unknown flag") {
			t.Errorf("giro %s: exit code %d, %s", line, code, errs)
		}
	}
}

func TestGiroAloneShowsHelp(t *testing.T) {
	code, out, errs := run(t)
	if code != ExitUsage || out != "" || !strings.Contains(errs, "Usage: giro <command>") || !strings.Contains(errs, "transfer create") {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
}

func TestHelpIsACommandToo(t *testing.T) {
	for _, command := range []string{"", "transfer", "transfer create", "migrate up"} {
		words := strings.Fields(command)
		_, want, _ := run(t, append(words, "--help")...)
		code, out, errs := run(t, append([]string{"help"}, words...)...)
		if code != ExitOK || out != want || out == "" {
			t.Errorf("giro help %s: exit code %d, %s%s", command, code, out, errs)
		}
	}
	if code, _, errs := run(t, "help", "nonsense"); code != ExitUsage || !strings.Contains(errs, "nonsense") {
		t.Errorf("giro help nonsense: exit code %d, %s", code, errs)
	}
}

func TestVersionSaysWhatIsRecorded(t *testing.T) {
	for _, words := range []string{"version", "--version"} {
		if code, out, errs := run(t, words); code != ExitOK || !strings.HasPrefix(out, "giro, ") {
			t.Errorf("giro %s: exit code %d, %q, %q", words, code, out, errs)
		}
	}
	for _, c := range []struct {
		info debug.BuildInfo
		want string
	}{
		{debug.BuildInfo{}, "giro, built from a source tree, no commit recorded, "},
		{debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "giro, v1.2.3, no commit recorded, "},
		{debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}},
			"giro, built from a source tree, commit abc with changes, "},
	} {
		if got := version(&c.info); !strings.HasPrefix(got, c.want) {
			t.Errorf("came %s, want %s", got, c.want)
		}
	}
}

func TestTheDemoHasAsManyScenesAsItSays(t *testing.T) {
	_, out, _ := run(t, "demo", "--help")
	if !strings.Contains(flat(out), "plays ten scenes") {
		t.Errorf("came %s", out)
	}
}
