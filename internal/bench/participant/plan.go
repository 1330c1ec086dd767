package main

import (
	"context"
	"fmt"
	"slices"
)

// measurement is one thing to measure. Its key names it in the JSON, its title in
// print.
type measurement struct {
	key, title string
	take       func(context.Context) (sample, error)
}

// figure is a measurement's outcome over all rounds.
type figure struct {
	Key    string   `json:"key"`
	Title  string   `json:"title"`
	Median sample   `json:"median"`
	Rounds []sample `json:"rounds"`
}

// The keys that the ratios are made of.
const (
	uniform256   = "accountsvc/uniform/256"
	uniform1     = "accountsvc/uniform/1"
	uniformBatch = "accountsvc/uniform/16x100"
	hot256       = "accountsvc/hot/256"
	hotBatch     = "accountsvc/hot/16x100"
	full256      = "accountsvc/full/256"
	fullBatch    = "accountsvc/full/16x100"
	othersAlone  = "others/alone"
	othersHot    = "others/beside-hot"
	othersLoad   = "others/beside-uniform"
)

var pgbenchClients = []int{1, 2, 4, 8, 16, 32, 64}

func pgbenchKey(script, clients int) string {
	return fmt.Sprintf("pgbench/%s/%d", pgbenchScripts[script].name, clients)
}

// plan lists one round.
func plan(w *world, o options) []measurement {
	var all []measurement
	add := func(key, title string, take func(context.Context) (sample, error)) {
		all = append(all, measurement{key, title, take})
	}
	for i, s := range pgbenchScripts {
		for _, clients := range pgbenchClients {
			add(pgbenchKey(i, clients), fmt.Sprintf("pgbench, %s, %d", s.name, clients), func(ctx context.Context) (sample, error) {
				return w.pgbench.take(ctx, s.text, clients, o.seconds)
			})
		}
	}
	drive := func(key, title string, s *service, seconds int, l load, probe bool) {
		add(key, title, func(ctx context.Context) (sample, error) { return w.drive(ctx, s, seconds, l, probe) })
	}
	for _, hot := range []bool{false, true} {
		key, over := "accountsvc/uniform", "10,000 accounts"
		if hot {
			key, over = "accountsvc/hot", "one account"
		}
		for _, callers := range []int{1, 16, 64, 256} {
			drive(fmt.Sprintf("%s/%d", key, callers), fmt.Sprintf("%s, %d", over, callers), w.empty, o.seconds, load{callers, 1, hot}, false)
		}
		drive(key+"/16x100", over+", 16, batches of 100", w.empty, o.seconds, load{16, 100, hot}, false)
	}
	rows := thousands(o.rows) + " rows"
	drive(full256, rows+", 256", w.filled, o.seconds, load{256, 1, false}, false)
	drive(fullBatch, rows+", 16, batches of 100", w.filled, o.seconds, load{16, 100, false}, false)
	// At 50 in a second a 99th percentile takes longer.
	drive(othersAlone, "50/s alone", w.empty, 2*o.seconds, load{}, true)
	drive(othersHot, "50/s beside 256 on one account", w.empty, 2*o.seconds, load{256, 1, true}, true)
	drive(othersLoad, "50/s beside 256 on 10,000 accounts", w.empty, 2*o.seconds, load{256, 1, false}, true)
	return all
}

// measureAll goes through the plan again and again, every second time backwards, so
// that whatever changes meanwhile on the machine or in the tables meets all alike.
func measureAll(ctx context.Context, all []measurement, repeats int) ([]figure, error) {
	figures := make([]figure, len(all))
	for round := range repeats {
		order := make([]int, len(all))
		for i := range order {
			order[i] = i
		}
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for n, i := range order {
			s, err := all[i].take(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", all[i].key, err)
			}
			figures[i].Key, figures[i].Title = all[i].key, all[i].title
			figures[i].Rounds = append(figures[i].Rounds, s)
			progress("round %d of %d, %2d of %d: %-43s others had %.1f CPUs", round+1, repeats, n+1, len(all), all[i].title, s.Elsewhere)
		}
	}
	for i := range figures {
		figures[i].Median = medianOf(figures[i].Rounds)
	}
	return figures, nil
}

// medianOf takes the median of each value by itself.
func medianOf(rounds []sample) sample {
	of := func(value func(sample) float64) float64 {
		var values []float64
		for _, s := range rounds {
			values = append(values, value(s))
		}
		return median(values)
	}
	m := sample{
		OperationsPerSecond: of(func(s sample) float64 { return s.OperationsPerSecond }),
		Operations:          int64(of(func(s sample) float64 { return float64(s.Operations) })),
		P50:                 of(func(s sample) float64 { return s.P50 }),
		P99:                 of(func(s sample) float64 { return s.P99 }),
		Probes:              int(of(func(s sample) float64 { return float64(s.Probes) })),
		ProbeP50:            of(func(s sample) float64 { return s.ProbeP50 }),
		ProbeP99:            of(func(s sample) float64 { return s.ProbeP99 }),
		Elsewhere:           of(func(s sample) float64 { return s.Elsewhere }),
		CPU:                 map[string]float64{},
	}
	for _, group := range []string{groupPostgres, groupService, groupProgram, groupPgbench} {
		if _, ok := rounds[0].CPU[group]; ok {
			m.CPU[group] = of(func(s sample) float64 { return s.CPU[group] })
		}
	}
	return m
}
