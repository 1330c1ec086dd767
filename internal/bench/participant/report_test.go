package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// invented gives every figure of the plan the same speed and latency, those in
// special excepted.
func invented(special map[string]sample) []figure {
	var figures []figure
	for _, m := range plan(&world{}, options{rows: 1000000, seconds: 1}) {
		s := sample{OperationsPerSecond: 100, Operations: 500, P50: 1, P99: 2, Probes: 50, ProbeP50: 1, ProbeP99: 2, CPU: map[string]float64{groupPostgres: 10}}
		if other, ok := special[m.key]; ok {
			s = other
		}
		figures = append(figures, figure{m.key, m.title, s, []sample{s, s, s}})
	}
	return figures
}

func TestEveryMeasurementHasItsKeyAndIsDrawn(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range invented(nil) {
		if seen[f.Key] || f.Title == "" {
			t.Errorf("%q is there twice, or has no title", f.Key)
		}
		seen[f.Key] = true
	}
	for _, group := range bars {
		for _, key := range group.keys {
			if !seen[key] {
				t.Errorf("%q is drawn and not measured", key)
			}
		}
	}
	for _, key := range []string{uniform1, uniform256, uniformBatch, hot256, hotBatch, full256, fullBatch, othersAlone, othersHot, othersLoad} {
		if !seen[key] {
			t.Errorf("%q is not measured", key)
		}
	}
}

func TestJudge(t *testing.T) {
	good := map[string]sample{
		"pgbench/plain/1":          {OperationsPerSecond: 50, P50: 4},
		"pgbench/one statement/1":  {OperationsPerSecond: 60, P50: 3},
		"pgbench/one statement/32": {OperationsPerSecond: 1000, P50: 9},
		uniform1:                   {P50: 9},
		uniform256:                 {OperationsPerSecond: 3000},
		uniformBatch:               {OperationsPerSecond: 6000},
		hot256:                     {OperationsPerSecond: 2550},
		hotBatch:                   {OperationsPerSecond: 5100},
		othersHot:                  {OperationsPerSecond: 2550, ProbeP99: 5.9},
		othersAlone:                {ProbeP99: 2},
		full256:                    {OperationsPerSecond: 2400},
		fullBatch:                  {OperationsPerSecond: 4800},
	}
	ratios := judge(invented(good), 10_000_000)
	if len(ratios) != 9 {
		t.Fatal(ratios)
	}
	for _, r := range ratios {
		if !r.Holds {
			t.Errorf("%s is %v and does not hold", r.Name, r.Value)
		}
	}
	bad := map[string]sample{
		"pgbench/one statement/32": {OperationsPerSecond: 1001},
		"pgbench/one statement/1":  {P50: 2.99},
		hot256:                     {OperationsPerSecond: 2549},
		hotBatch:                   {OperationsPerSecond: 5099},
		othersHot:                  {OperationsPerSecond: 2549, ProbeP99: 6},
		full256:                    {OperationsPerSecond: 2399},
		fullBatch:                  {OperationsPerSecond: 4799},
	}
	for key, s := range good {
		if _, spoiled := bad[key]; !spoiled {
			bad[key] = s
		}
	}
	for _, r := range judge(invented(bad), 10_000_000) {
		if r.Holds {
			t.Errorf("%s is %v and holds", r.Name, r.Value)
		}
	}
	for _, r := range judge(nil, 10_000_000) {
		if r.Holds {
			t.Errorf("%s holds of nothing", r.Name)
		}
	}
}

func TestMedianOfTakesEachValueByItself(t *testing.T) {
	m := medianOf([]sample{
		{OperationsPerSecond: 1, P99: 9, Operations: 5, CPU: map[string]float64{groupService: 3}},
		{OperationsPerSecond: 2, P99: 7, Operations: 6, CPU: map[string]float64{groupService: 1}},
		{OperationsPerSecond: 3, P99: 8, Operations: 7, CPU: map[string]float64{groupService: 2}},
	})
	if m.OperationsPerSecond != 2 || m.P99 != 8 || m.Operations != 6 || m.CPU[groupService] != 2 || len(m.CPU) != 1 {
		t.Errorf("%+v", m)
	}
}

func TestReport(t *testing.T) {
	figures := invented(map[string]sample{uniform256: {OperationsPerSecond: 12345.6, Operations: 61728, P50: 20.5, P99: 40.25, Elsewhere: 0.7}})
	r := &report{Started: time.Unix(0, 0).UTC(), Machine: machine{CPU: "a <fast> & good one"}, Figures: figures,
		Parameters: parameters{Rows: 10_000_000, Repeats: 3, Seconds: 5}, Audits: []audited{{"empty", 1234567}}, Ratios: judge(figures, 10_000_000)}
	text := r.text()
	for _, want := range []string{"12,346", "1,234,567 operations", "others had 0.7 CPUs", "at least 6", "DOES NOT HOLD", "10,000,000 rows in place", "holds\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not say %q:\n%s", want, text)
		}
	}
	decoder := xml.NewDecoder(strings.NewReader(r.svg()))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "r.json")
	if err := writeJSON(path, r); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back report
	if err := json.Unmarshal(raw, &back); err != nil || len(back.Figures[0].Rounds) != 3 || len(back.Ratios) != 9 {
		t.Error(err, back.Ratios)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 10_000_000: "10,000,000"} {
		if got := thousands(n); got != want {
			t.Errorf("%d is written %s", n, got)
		}
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"--rows", "20000", "--set", "shared_buffers=1GB", "--set", "jit=off"})
	if err != nil || o.rows != 20000 || o.repeats != 3 || len(o.settings) != 2 {
		t.Error(o, err)
	}
	for _, bad := range [][]string{{"--rows", "1"}, {"--repeats", "0"}, {"--set", "x"}, {"more"}} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
}
