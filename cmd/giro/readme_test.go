package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write what the commands print into README.md")

// What differs from run to run.
var varying = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`), "TIME"},
	{regexp.MustCompile(`owner( +)\S+`), "owner${1}REPLICA"},
	{regexp.MustCompile(` +\n`), "\n"},
}

func settled(text string) string {
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.with)
	}
	return text
}

// TestReadmeWalk runs the README's walk against `giro dev` on its default ports
// and compares what the commands print with what the README says they do.
func TestReadmeWalk(t *testing.T) {
	const begin, end, page = "<!-- walk -->\n", "<!-- /walk -->", "../../README.md"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), begin)
	walk, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 || strings.Count(walk, "$ giro") < 8 {
		t.Fatal("the README has lost its walk")
	}
	dir := t.TempDir()
	run(t, dir, "go", "build", "-buildvcs=false", "-o", filepath.Join(dir, "giro"), "giro/cmd/giro")
	startDev(t, dir)
	var written strings.Builder
	inBlock := false
	for _, line := range strings.SplitAfter(walk, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inBlock = !inBlock && strings.HasPrefix(line, "```console")
			written.WriteString(line)
		case inBlock && strings.HasPrefix(line, "$ "):
			written.WriteString(line + shell(t, dir, strings.TrimSpace(line[2:])))
		case !inBlock:
			written.WriteString(line)
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+written.String()+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, want := settled(written.String()), settled(walk); got != want {
		t.Fatalf("the README's walk differs from what the commands print; write it anew with: go test ./cmd/giro -run TestReadmeWalk -update\ngot:\n%s\nwant:\n%s", got, want)
	}
}

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s in %s: %v\n%s", name, dir, err, out)
	}
}

func shell(t *testing.T, dir, command string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sh", "-c", command)
	c.Dir = dir
	c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, _ := c.CombinedOutput() // some are meant to be refused; what they print tells
	return string(out)
}

func startDev(t *testing.T, dir string) {
	t.Helper()
	dev := exec.Command(filepath.Join(dir, "giro"), "dev")
	dev.Dir = dir
	var log strings.Builder
	dev.Stderr = &log
	out, err := dev.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = dev.Process.Signal(os.Interrupt)
		if err := dev.Wait(); err != nil {
			t.Errorf("giro dev ended with %v", err)
		}
	})
	up := make(chan string, 1)
	go func() {
		buffer := make([]byte, 4096)
		n, _ := out.Read(buffer)
		up <- string(buffer[:n])
		for {
			if _, err := out.Read(buffer); err != nil {
				return
			}
		}
	}()
	select {
	case said := <-up:
		if !strings.Contains(said, "giro dev is up") {
			t.Fatalf("giro dev said %q\n%s", said, log.String())
		}
	case <-time.After(30 * time.Second):
		t.Fatal("giro dev does not come up")
	}
}
