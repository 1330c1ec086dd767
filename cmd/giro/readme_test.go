package main

import (
	"bufio"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"giro/cmd/giro/environ"
)

func TestMain(m *testing.M) {
	flag.Parse()
	environ.Clear()
	os.Exit(m.Run())
}

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

// TestReadmeWalk runs the README's walk against `giro dev` and compares what the
// commands print with what the README says they do. The README has the default
// ports; the walk takes free ones, so that it runs beside a giro dev of somebody's.
func TestReadmeWalk(t *testing.T) {
	t.Setenv("GIRO_TENANT", "somebody-elses") // what is exported must not come through
	walk := section(t, "walk")
	if strings.Count(walk.text, "$ giro") < 8 {
		t.Fatal("the README has lost its walk")
	}
	p := build(t)
	addresses := p.startDev(t)
	var written strings.Builder
	inBlock := false
	for _, line := range strings.SplitAfter(walk.text, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inBlock = !inBlock && strings.HasPrefix(line, "```console")
			written.WriteString(line)
		case inBlock && strings.HasPrefix(line, "$ "):
			written.WriteString(line + p.shell(strings.TrimSpace(line[2:])))
		case !inBlock:
			written.WriteString(line)
		}
	}
	printed := addresses.Replace(written.String())
	if *update {
		if err := os.WriteFile(page, []byte(walk.before+printed+walk.after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, want := settled(printed), settled(walk.text); got != want {
		t.Fatalf("the README's walk differs from what the commands print; write it anew with: go test ./cmd/giro -run TestReadmeWalk -update\ngot:\n%s\nwant:\n%s", got, want)
	}
}

// TestReadmeByHand runs the three services as the README says, each a process of its
// own on a SQLite file, and audits them. GIRO_LISTEN gives them free ports.
func TestReadmeByHand(t *testing.T) {
	text := section(t, "by hand").text
	p := build(t)
	served := 0
	for _, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) < 3 || words[0] != "giro":
		case words[1] == "serve":
			served++
			p.environment = append(p.environment, "GIRO_"+strings.ToUpper(words[2])+"="+p.startServe(t, line))
		default:
			if out := p.shell(line); !strings.Contains(out, "applied 1 ") {
				t.Fatalf("%s printed %s", line, out)
			}
		}
	}
	if out := p.shell("giro audit"); served != 3 || !strings.Contains(out, "audit: OK") {
		t.Errorf("%d services; the audit printed %s", served, out)
	}
}

const page = "../../README.md"

// part is a part of the README between two comments, and what stands around it.
type part struct{ before, text, after string }

func section(t *testing.T, name string) part {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), begin)
	text, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("the README has lost its part %q", name)
	}
	return part{before + begin, text, end + after}
}

// place is a folder with the binary in it, where commands run.
type place struct {
	dir string
	// environment is what they get besides.
	environment []string
}

func build(t *testing.T) *place {
	t.Helper()
	dir := t.TempDir()
	c := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", filepath.Join(dir, "giro"), "giro/cmd/giro")
	c.Env = environ.Without(os.Environ())
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return &place{dir: dir}
}

// command runs in the place, with nothing of giro's that somebody has exported.
func (p *place) command(line string) *exec.Cmd {
	c := exec.Command("sh", "-c", "exec "+line)
	c.Dir = p.dir
	c.Env = append(environ.Without(os.Environ()), p.environment...)
	c.Env = append(c.Env, "PATH="+p.dir+":"+os.Getenv("PATH"))
	return c
}

func (p *place) shell(line string) string {
	out, _ := p.command(line).CombinedOutput() // some are meant to be refused; what they print tells
	return string(out)
}

// up is how each address is told.
var up = regexp.MustCompile(`giro dev is up: orchestrator (\S+), accountsvc (\S+), ledgersvc (\S+)`)

// startDev starts giro dev on free ports, and gives what turns its commands' words
// into those of a reader: with the default ports, which need no flag, on a laptop.
func (p *place) startDev(t *testing.T) *strings.Replacer {
	t.Helper()
	dev := p.command("giro dev --orchestrator 127.0.0.1:0 --accountsvc 127.0.0.1:0 --ledgersvc 127.0.0.1:0")
	at := start(t, dev, up, dev.StdoutPipe)
	p.environment = []string{"GIRO_ORCHESTRATOR=" + at[1], "GIRO_ACCOUNTSVC=" + at[2], "GIRO_LEDGERSVC=" + at[3]}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(" --orchestrator "+at[1], "", host+"-", "laptop-", at[1], "127.0.0.1:7101", at[2], "127.0.0.1:7102", at[3], "127.0.0.1:7103")
}

var listening = regexp.MustCompile(`"msg":"listening".*"address":"([^"]+)"`)

// startServe starts one service on a free port and gives its address.
func (p *place) startServe(t *testing.T, line string) string {
	t.Helper()
	service := p.command(line)
	service.Env = append(service.Env, "GIRO_LISTEN=127.0.0.1:0")
	return start(t, service, listening, service.StderrPipe)[1]
}

// start starts a process that is stopped with the test, and waits until it writes a
// line that says where it is.
func start(t *testing.T, c *exec.Cmd, says *regexp.Regexp, pipe func() (io.ReadCloser, error)) []string {
	t.Helper()
	out, err := pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	found, read := make(chan []string, 1), make(chan string, 1)
	go func() {
		var text strings.Builder
		for lines := bufio.NewScanner(out); lines.Scan(); {
			text.WriteString(lines.Text() + "\n")
			if match := says.FindStringSubmatch(lines.Text()); match != nil {
				found <- match
			}
		}
		read <- text.String()
	}()
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		<-read
		if err := c.Wait(); err != nil {
			t.Errorf("%v ended with %v", c.Args, err)
		}
	})
	select {
	case match := <-found:
		return match
	case text := <-read:
		read <- ""
		t.Fatalf("%v ended and wrote %s", c.Args, text)
	case <-time.After(30 * time.Second):
		t.Fatalf("%v does not come up", c.Args)
	}
	return nil
}
