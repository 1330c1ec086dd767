package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// report is all that is known of a run; it is also the JSON.
type report struct {
	Started    time.Time  `json:"started"`
	Machine    machine    `json:"machine"`
	Server     server     `json:"postgresql"`
	Parameters parameters `json:"parameters"`
	LoadBefore string     `json:"load_average_before"`
	LoadAfter  string     `json:"load_average_after"`
	Audits     []audited  `json:"audits"`
	Ratios     []ratio    `json:"ratios"`
	Figures    []figure   `json:"figures"`
}

// parameters are those of the run.
type parameters struct {
	Rows     int64 `json:"rows"`
	Accounts int   `json:"accounts"`
	Seconds  int   `json:"seconds"`
	Repeats  int   `json:"repeats"`
}

func parametersOf(o options) parameters {
	return parameters{Rows: o.rows, Accounts: accountCount, Seconds: o.seconds, Repeats: o.repeats}
}

// ratio is one of two figures' medians, and what is promised of it.
type ratio struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Bound float64 `json:"bound"`
	// AtLeast: the value must reach the bound. Otherwise it must not exceed it, and
	// if Under is set not reach it.
	AtLeast bool `json:"at_least"`
	Under   bool `json:"under"`
	Holds   bool `json:"holds"`
}

func (r ratio) judged() ratio {
	switch {
	case r.AtLeast:
		r.Holds = r.Value >= r.Bound
	case r.Under:
		r.Holds = r.Value > 0 && r.Value < r.Bound
	default:
		r.Holds = r.Value > 0 && r.Value <= r.Bound
	}
	return r
}

func (r ratio) promise() string {
	switch {
	case r.AtLeast:
		return fmt.Sprintf("at least %g", r.Bound)
	case r.Under:
		return fmt.Sprintf("under %g", r.Bound)
	}
	return fmt.Sprintf("at most %g", r.Bound)
}

func (r ratio) verdict() string {
	if r.Holds {
		return "holds"
	}
	return "DOES NOT HOLD"
}

// judge makes the ratios.
func judge(figures []figure, rows int64) []ratio {
	at := map[string]sample{}
	for _, f := range figures {
		at[f.Key] = f.Median
	}
	speed := func(key string) float64 { return at[key].OperationsPerSecond }
	best, single := baselineOf(at)
	placed := thousands(rows) + " rows in place"
	all := []ratio{
		{Name: "256 single callers / pgbench's best", Value: over(speed(uniform256), best), Bound: 3, AtLeast: true},
		{Name: "16 callers, batches of 100 / pgbench's best", Value: over(speed(uniformBatch), best), Bound: 6, AtLeast: true},
		{Name: "p50 of one caller / pgbench's with one client", Value: over(at[uniform1].P50, single), Bound: 3},
		{Name: "one hot account / 10,000 accounts, 256 single callers", Value: over(speed(hot256), speed(uniform256)), Bound: 0.85, AtLeast: true},
		{Name: "the same, while others ask at 50/s", Value: over(speed(othersHot), speed(uniform256)), Bound: 0.85, AtLeast: true},
		{Name: "one hot account / 10,000 accounts, batches of 100", Value: over(speed(hotBatch), speed(uniformBatch)), Bound: 0.85, AtLeast: true},
		{Name: "others' p99 at 50/s, with the hot load / without", Value: over(at[othersHot].ProbeP99, at[othersAlone].ProbeP99), Bound: 3, Under: true},
		{Name: placed + " / empty table, 256 single callers", Value: over(speed(full256), speed(uniform256)), Bound: 0.8, AtLeast: true},
		{Name: placed + " / empty table, batches of 100", Value: over(speed(fullBatch), speed(uniformBatch)), Bound: 0.8, AtLeast: true},
	}
	for i := range all {
		all[i] = all[i].judged()
	}
	return all
}

// baselineOf is pgbench at its best: the most operations of any script and number
// of clients, and the shortest p50 of one client.
func baselineOf(at map[string]sample) (best, single float64) {
	for i := range pgbenchScripts {
		for _, clients := range pgbenchClients {
			s := at[pgbenchKey(i, clients)]
			best = max(best, s.OperationsPerSecond)
			if clients == 1 && s.P50 > 0 && (single == 0 || s.P50 < single) {
				single = s.P50
			}
		}
	}
	return best, single
}

// bestOf is the figure with the most operations of one script.
func bestOf(figures []figure, script int) figure {
	var best figure
	for _, key := range pgbenchKeys(script) {
		for _, f := range figures {
			if f.Key == key && (best.Key == "" || f.Median.OperationsPerSecond > best.Median.OperationsPerSecond) {
				best = f
			}
		}
	}
	return best
}

// over is 0 where there is nothing to divide by.
func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

const rule = "---------------------------------------------------------------------------------------------------------------\n"

// text is the report for people.
func (r *report) text() string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "\naccountsvc beside pgbench, %s\n", r.Started.Format(time.RFC3339))
	fmt.Fprintf(&b, "  %s, %d processors, %s memory, Linux %s, %s, %s\n", m.CPU, m.Processors, m.Memory, m.Kernel, m.FileSystem, m.Go)
	fmt.Fprintf(&b, "  PostgreSQL %s:", r.Server.Version)
	for _, s := range r.Server.Settings {
		fmt.Fprintf(&b, " %s=%s", s.Name, s.Value)
	}
	fmt.Fprintf(&b, "\n  medians of %d rounds of %d s; load average before %s, after %s\n", r.Parameters.Repeats, r.Parameters.Seconds, r.LoadBefore, r.LoadAfter)
	for _, a := range r.Audits {
		fmt.Fprintf(&b, "  audit of the books %q: OK, %s operations, none missing, none twice\n", a.Books, thousands(a.Operations))
	}
	fmt.Fprintf(&b, "\n%-43s %9s %9s %9s   CPU microseconds for one operation\n", "callers or clients last", "ops/s", "p50 ms", "p99 ms")
	b.WriteString(rule)
	for _, f := range r.Figures {
		b.WriteString(line(f.Title, f.Median) + "\n")
	}
	b.WriteString("\n")
	fmt.Fprintf(&b, "%-60s %7s   %s\n", "ratio", "value", "promised")
	b.WriteString(rule)
	for _, one := range r.Ratios {
		fmt.Fprintf(&b, "%-60s %7.2f   %-13s %s\n", one.Name, one.Value, one.promise(), one.verdict())
	}
	b.WriteString("pgbench's best is that of the faster script:")
	for i, script := range pgbenchScripts {
		best := bestOf(r.Figures, i)
		fmt.Fprintf(&b, " %s has %s/s (%s).", script.name, thousands(int64(best.Median.OperationsPerSecond+0.5)), barLabel(best.Key))
	}
	b.WriteString("\n")
	return b.String()
}

// line is one measurement in print.
func line(title string, s sample) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-43s ", title)
	if s.Operations > 0 {
		fmt.Fprintf(&b, "%9s %9.2f %9.2f  ", thousands(int64(s.OperationsPerSecond+0.5)), s.P50, s.P99)
	} else {
		fmt.Fprintf(&b, "%9s %9s %9s  ", "", "", "")
	}
	for _, group := range []string{groupPostgres, groupService, groupProgram, groupPgbench} {
		if micros, ok := s.CPU[group]; ok {
			fmt.Fprintf(&b, " %s %.0f", group, micros)
		}
	}
	if s.Probes > 0 {
		fmt.Fprintf(&b, "; the 50/s: p50 %.2f, p99 %.2f", s.ProbeP50, s.ProbeP99)
	}
	if s.Elsewhere >= 0.05 {
		fmt.Fprintf(&b, "; others had %.1f CPUs", s.Elsewhere)
	}
	return b.String()
}

// thousands writes a number that is not negative with commas.
func thousands(n int64) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func writeJSON(path string, r *report) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644) //nolint:gosec // for everybody to read
}
