package main

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"giro/internal/participant/conformance"
	pb "giro/proto/giro/participant/v1"
)

// program is the example, built and run as a reader would.
type program struct {
	binary, address, file string
	command               *exec.Cmd
}

func build(t *testing.T) *program {
	t.Helper()
	p := &program{binary: filepath.Join(t.TempDir(), "participant"), file: filepath.Join(t.TempDir(), "books")}
	if out, err := exec.Command("go", "build", "-o", p.binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.address = l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

func (p *program) start() error {
	p.command = exec.Command(p.binary, "-listen", p.address, "-file", p.file)
	return p.command.Start()
}

// kill ends it as a crash does.
func (p *program) kill() {
	if p.command != nil && p.command.Process != nil {
		_ = p.command.Process.Kill()
		_ = p.command.Wait()
	}
}

func TestTheExampleConforms(t *testing.T) {
	p := build(t)
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	report, err := conformance.Run(t.Context(), conformance.Config{Target: p.address, Restart: func(context.Context) error {
		p.kill()
		return p.start()
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if r.Verdict != conformance.Passed {
			t.Errorf("%s: %s %s %+v", r.Name, r.Verdict, r.Reason, r.Failure)
		}
	}
	t.Log(report.Summary())
}

func TestItListensOnLoopbackOnly(t *testing.T) {
	p := build(t)
	p.address = "0.0.0.0:0"
	out, err := exec.Command(p.binary, "-listen", p.address, "-file", p.file).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "loopback") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestNoTwoProcessesShareTheBooks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "books")
	j, err := openJournal(file, func(*pb.StoredOperation) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.db.Close() })
	if second, err := openJournal(file, func(*pb.StoredOperation) {}); err == nil {
		_ = second.db.Close()
		t.Error("a second one opened them")
	}
}
