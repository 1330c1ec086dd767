package conformance

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// Verdict is what became of a rule.
type Verdict string

// The verdicts. A rule that was not run is no pass: nobody knows.
const (
	Passed Verdict = "PASSED"
	Failed Verdict = "FAILED"
	NotRun Verdict = "NOT RUN"
)

// Failure says how a rule was broken.
type Failure struct {
	Sent     string `json:"sent"`
	Expected string `json:"expected"`
	Came     string `json:"came"`
}

// Result is what became of one rule.
type Result struct {
	Rule
	Verdict Verdict `json:"verdict"`
	// Reason says why it was not run.
	Reason  string   `json:"reason,omitempty"`
	Failure *Failure `json:"failure,omitempty"`
	Seconds float64  `json:"seconds"`
}

// Report is what a run found out.
type Report struct {
	Target      string    `json:"target"`
	Participant string    `json:"participant"`
	Started     time.Time `json:"started"`
	Seconds     float64   `json:"seconds"`
	RulesKnown  int       `json:"rules_known"`
	Results     []Result  `json:"results"`
}

// Count gives how many rules have the verdict.
func (r Report) Count(v Verdict) int {
	n := 0
	for _, result := range r.Results {
		if result.Verdict == v {
			n++
		}
	}
	return n
}

// Summary is the verdict on the participant, in one line.
func (r Report) Summary() string {
	passed, failed, unrun := r.Count(Passed), r.Count(Failed), r.Count(NotRun)
	words := fmt.Sprintf("%d passed, %d failed, %d not run", passed, failed, unrun)
	if n := r.RulesKnown - len(r.Results); n > 0 {
		words += fmt.Sprintf(", %d not asked for", n)
	}
	switch {
	case failed > 0:
		return "DOES NOT CONFORM: " + words
	case unrun > 0 || passed == 0:
		return "NOT PROVEN: " + words
	case passed < r.RulesKnown:
		return "KEEPS THE RULES THAT WERE ASKED FOR: " + words
	}
	return "CONFORMS: " + words
}

// WriteResult writes one rule's result for people, with what went wrong.
func WriteResult(w io.Writer, r Result) {
	fmt.Fprintf(w, "%-8s %-31s %s\n", r.Verdict, r.Name, r.Demands)
	if r.Reason != "" {
		fmt.Fprintf(w, "         not run: %s\n", oneLine(r.Reason))
	}
	if f := r.Failure; f != nil {
		fmt.Fprintf(w, "         sent:     %s\n         expected: %s\n         came:     %s\n         see:      docs/participants.md, %s\n",
			oneLine(f.Sent), oneLine(f.Expected), oneLine(f.Came), r.Section)
	}
}

// WriteText writes the verdict for people, after the results.
func (r Report) WriteText(w io.Writer) {
	fmt.Fprintf(w, "%s (%s at %s, %.1f s)\n", r.Summary(), oneLine(r.Participant), r.Target, r.Seconds)
}

// WriteJSON writes the whole report as JSON.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Verdict string `json:"verdict"`
		Report
	}{r.Summary(), r})
}

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Stamp    string      `xml:"timestamp,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string     `xml:"classname,attr"`
	Name    string     `xml:"name,attr"`
	Time    string     `xml:"time,attr"`
	Failure *junitText `xml:"failure"`
	Skipped *junitText `xml:"skipped"`
}

type junitText struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the report as JUnit XML, in which a rule that was not run is
// a skipped test.
func (r Report) WriteJUnit(w io.Writer) error {
	out := junitSuite{Name: "giro conformance of " + printable(r.Participant), Tests: len(r.Results), Failures: r.Count(Failed),
		Skipped: r.Count(NotRun), Time: seconds(r.Seconds), Stamp: r.Started.Format("2006-01-02T15:04:05")}
	for _, result := range r.Results {
		c := junitCase{Class: "conformance." + result.Section, Name: result.Name, Time: seconds(result.Seconds)}
		if f := result.Failure; f != nil {
			c.Failure = &junitText{Message: result.Demands, Text: printable(fmt.Sprintf("sent: %s\nexpected: %s\ncame: %s\n", f.Sent, f.Expected, f.Came))}
		}
		if result.Verdict == NotRun {
			c.Skipped = &junitText{Message: printable(result.Reason)}
		}
		out.Cases = append(out.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(out); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }

// oneLine keeps a participant's words from moving the reader's cursor.
func oneLine(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, s)
}

// printable drops what XML cannot hold.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' {
			return '?'
		}
		return c
	}, s)
}
