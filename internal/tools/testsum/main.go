// Command testsum reads `go test -json` and says little: a line for each package,
// the output of what failed, and every skipped test with its reason, since a
// skip that nobody sees looks like a pass. It exits 1 if anything failed.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

type event struct {
	Action     string
	Package    string
	ImportPath string // of a build that failed
	Test       string
	Elapsed    float64 // seconds
	Output     string
}

type summary struct {
	output                  map[string]*strings.Builder // by package and test
	skips                   []string
	passed, skipped, failed int
}

func main() {
	s := summary{output: map[string]*strings.Builder{}}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			s.take(line)
		}
		if err != nil {
			break
		}
	}
	os.Exit(s.finish())
}

func (s *summary) take(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		os.Stdout.Write(line) // not JSON: the go command itself speaks
		return
	}
	name := e.Package + " " + e.Test
	switch e.Action {
	case "output":
		if s.output[name] == nil {
			s.output[name] = &strings.Builder{}
		}
		s.output[name].WriteString(e.Output)
	case "build-output":
		fmt.Print(e.Output)
	case "pass", "skip", "fail":
		if e.Test == "" {
			s.packageDone(e, name)
		} else {
			s.testDone(e, name)
		}
		delete(s.output, name)
	}
}

func (s *summary) testDone(e event, name string) {
	switch e.Action {
	case "pass":
		s.passed++
	case "skip":
		s.skipped++
		s.skips = append(s.skips, name+"\n"+s.said(name))
	case "fail":
		s.failed++
		fmt.Printf("FAIL %s\n%s", name, s.said(name))
	}
}

func (s *summary) packageDone(e event, name string) {
	switch {
	case e.Action == "fail":
		s.failed++
		fmt.Printf("FAIL %s (%.1f s)\n%s", e.Package, e.Elapsed, s.said(name))
		// Tests that were still running, as in a panic or a time-out.
		for open := range s.output {
			if strings.HasPrefix(open, e.Package+" ") && open != name {
				fmt.Printf("  unfinished: %s\n%s", open, s.said(open))
			}
		}
	case e.Action == "pass":
		fmt.Printf("ok   %s (%.1f s)\n", e.Package, e.Elapsed)
	}
}

// said is what a test printed, without the lines that only frame it.
func (s *summary) said(name string) string {
	b := s.output[name]
	if b == nil {
		return ""
	}
	var out strings.Builder
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "=== ") {
			continue
		}
		out.WriteString("    " + line)
	}
	return out.String()
}

func (s *summary) finish() int {
	if len(s.skips) > 0 {
		fmt.Println("\n!!! SKIPPED, so not tested here:")
		for _, skip := range s.skips {
			fmt.Println("!!! " + strings.TrimRight(skip, "\n"))
		}
	}
	fmt.Printf("\n%d passed, %d skipped, %d failed\n", s.passed, s.skipped, s.failed)
	if s.failed > 0 || s.passed == 0 {
		return 1
	}
	return 0
}
