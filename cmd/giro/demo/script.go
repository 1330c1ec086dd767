package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"giro/cmd/giro/render"
)

// script writes the story and counts what held. Everything that it writes was
// seen; every expectation is checked, and one that does not hold says what was
// expected and what came.
type script struct {
	w      io.Writer
	colour bool
	start  time.Time

	checks, broken int // of this scene
	brokenScenes   []string
	name           string
}

const (
	bold  = "1"
	green = "32"
	red   = "31"
)

func (s *script) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *script) open(name, title string) {
	s.name, s.checks, s.broken, s.start = name, 0, 0, time.Now()
	fmt.Fprintf(s.w, "\n%s\n", s.paint(bold, name+") "+title))
}

// close ends a scene. err is why it could not go on, or nil.
func (s *script) close(err error) {
	if err != nil {
		s.broken++
		s.say("%s", s.paint(red, "could not go on: "+err.Error()))
	}
	took := render.Since(time.Since(s.start))
	if s.broken > 0 {
		s.brokenScenes = append(s.brokenScenes, s.name)
		s.say("%s", s.paint(red, fmt.Sprintf("DID NOT HOLD: %d of %d checks failed, %s", s.broken, max(s.checks, s.broken), took)))
		return
	}
	s.say("%s", s.paint(green, fmt.Sprintf("held: %d checks, %s", s.checks, took)))
}

func (s *script) say(format string, args ...any) {
	for _, line := range strings.Split(fmt.Sprintf(format, args...), "\n") {
		fmt.Fprintf(s.w, "   %s\n", line)
	}
}

// same checks that what came is what was expected.
func (s *script) same(what string, expected, came any) {
	s.checks++
	e, c := fmt.Sprint(expected), fmt.Sprint(came)
	if e == c {
		return
	}
	s.broken++
	s.say("%s", s.paint(red, fmt.Sprintf("NOT AS EXPECTED: %s: expected %s, came %s", what, e, c)))
}

// holds checks a condition; came says what was seen instead.
func (s *script) holds(what string, ok bool, came any) {
	if ok {
		s.checks++
		return
	}
	s.same(what, "yes", fmt.Sprintf("no (%v)", came))
}

// block writes what fill writes, indented.
func (s *script) block(fill func(w io.Writer)) {
	var b strings.Builder
	fill(&b)
	for _, line := range strings.Split(strings.TrimRight(b.String(), "\n"), "\n") {
		fmt.Fprintf(s.w, "     %s\n", line)
	}
}
