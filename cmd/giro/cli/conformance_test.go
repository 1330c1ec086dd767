package cli

import (
	"encoding/json"
	"encoding/xml"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"giro/internal/participant"
	"giro/internal/participant/conformance"
	edge "giro/internal/participant/server"
	"giro/internal/participant/store/mem"
	"giro/internal/rpc/rpctest"
)

// serveParticipant serves empty books, with or without the suite's setup calls.
func serveParticipant(t *testing.T, forSuite bool) string {
	t.Helper()
	engine := participant.New(mem.New(time.Now), participant.Config{Name: "bank"})
	t.Cleanup(engine.Close)
	return rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
		edge.New(engine).Register(r)
		if forSuite {
			edge.NewSetup(engine).Register(r)
		}
	})
}

func TestConformanceExitCodesSayWhatIsKnown(t *testing.T) {
	whole, bare := serveParticipant(t, true), serveParticipant(t, false)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := l.Addr().String()
	_ = l.Close()
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"all passed", []string{"--target", whole, "--restart-cmd", "true"}, ExitOK, "CONFORMS: "},
		{"no restart", []string{"--target", whole}, ExitUnknown, "NOT RUN  restart-keeps-outcomes"},
		{"no restart, allowed", []string{"--target", whole, "--allow-not-run"}, ExitOK, "NOT PROVEN: "},
		{"a restart that fails", []string{"--target", whole, "--restart-cmd", "echo no such unit; exit 3"}, ExitUnknown, "exit status 3"},
		{"no setup", []string{"--target", bare, "--restart-cmd", "true"}, ExitUnknown, "OpenAccount is not served"},
		{"one rule", []string{"--target", bare, "--rule", "cancel-is-never-validated"}, ExitOK, "1 passed, 0 failed, 0 not run, 86 not asked for"},
		{"an unknown rule", []string{"--target", whole, "--rule", "nonsense"}, ExitUsage, "--list"},
		{"no target", nil, ExitUsage, "--target"},
		{"nobody there", []string{"--target", silent, "--rule", "describe"}, ExitUnknown, "nobody"},
	} {
		code, out, errs := run(t, append([]string{"conformance"}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s%s", c.name, code, c.code, c.says, out, errs)
		}
	}
}

func TestConformanceReports(t *testing.T) {
	file := filepath.Join(t.TempDir(), "junit.xml")
	code, out, errs := run(t, "conformance", "--target", serveParticipant(t, true), "--json", "--junit", file,
		"--rule", "describe,restart-keeps-outcomes")
	var report struct {
		Verdict string
		Results []conformance.Result
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != ExitUnknown {
		t.Fatalf("exit code %d, %v:\n%s%s", code, err, out, errs)
	}
	if len(report.Results) != 2 || report.Results[0].Verdict != conformance.Passed || report.Results[1].Reason == "" || !strings.HasPrefix(report.Verdict, "NOT PROVEN") {
		t.Errorf("%+v", report)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var junit struct {
		Tests   int `xml:"tests,attr"`
		Skipped int `xml:"skipped,attr"`
		Cases   []struct {
			Name    string    `xml:"name,attr"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal(raw, &junit); err != nil || junit.Tests != 2 || junit.Skipped != 1 || len(junit.Cases) != 2 || junit.Cases[1].Skipped == nil {
		t.Errorf("%v %+v:\n%s", err, junit, raw)
	}
}

func TestConformanceListsEveryRule(t *testing.T) {
	code, out, _ := run(t, "conformance", "--list")
	for _, r := range conformance.Rules() {
		if code != ExitOK || !strings.Contains(out, r.Name) || !strings.Contains(out, r.Demands) {
			t.Errorf("exit code %d, %s is not listed", code, r.Name)
		}
	}
}
