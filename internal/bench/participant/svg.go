package main

import (
	"fmt"
	"html"
	"strings"
)

const (
	svgWidth  = 920
	barHeight = 20
	barLeft   = 210
	barMax    = 470
)

// bars are what the picture shows, in its order, and what each group is called.
var bars = []struct {
	heading, colour string
	keys            []string
}{
	{"pgbench, one transaction for each operation: begin, update, insert, commit", "#8a8f98", pgbenchKeys(0)},
	{"pgbench, the same in one statement", "#8a8f98", pgbenchKeys(1)},
	{"accountsvc over gRPC, 10,000 accounts", "#2a78c2",
		[]string{uniform1, "accountsvc/uniform/16", "accountsvc/uniform/64", uniform256, uniformBatch}},
	{"accountsvc, one hot account", "#c2572a", []string{"accountsvc/hot/1", "accountsvc/hot/16", "accountsvc/hot/64", hot256, hotBatch}},
	{"accountsvc, 10,000 accounts, with the rows in place", "#2f8f5b", []string{full256, fullBatch}},
}

func pgbenchKeys(script int) []string {
	var keys []string
	for _, clients := range pgbenchClients {
		keys = append(keys, pgbenchKey(script, clients))
	}
	return keys
}

// picture collects an SVG from the top down.
type picture struct {
	body strings.Builder
	y    int
}

func (p *picture) text(x int, class, format string, values ...any) {
	fmt.Fprintf(&p.body, `<text x="%d" y="%d" class="%s">%s</text>`+"\n", x, p.y, class, html.EscapeString(fmt.Sprintf(format, values...)))
}

// svg draws the operations per second as bars and the ratios below.
func (r *report) svg() string {
	at := map[string]figure{}
	fastest := 1.0
	for _, f := range r.Figures {
		at[f.Key] = f
		fastest = max(fastest, f.Median.OperationsPerSecond)
	}
	p := &picture{y: 34}
	p.text(20, "title", "Operations per second on PostgreSQL %s with fsync on", r.Server.number())
	p.y += 20
	p.text(20, "small", "%s, %d processors, %s. Medians of %d rounds of %d s, the thin line spans them. %s",
		r.Machine.CPU, r.Machine.Processors, r.Machine.FileSystem, r.Parameters.Repeats, r.Parameters.Seconds, r.Started.Format("2006-01-02"))
	for _, group := range bars {
		p.y += 32
		p.text(20, "heading", "%s", group.heading)
		p.y += 8
		for _, key := range group.keys {
			if f, ok := at[key]; ok {
				p.bar(f, group.colour, fastest)
			}
		}
	}
	p.y += 40
	p.text(20, "heading", "What is promised")
	for _, one := range r.Ratios {
		p.y += 20
		p.text(30, "", "%s", one.Name)
		p.text(430, "", "%.2f", one.Value)
		p.text(500, "", "%s", one.promise())
		p.text(620, map[bool]string{true: "good", false: "bad"}[one.Holds], "%s", strings.ToLower(one.verdict()))
	}
	p.y += 20
	return fmt.Sprintf(svgHead, svgWidth, p.y) + p.body.String() + "</svg>\n"
}

const svgHead = `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d">
<style>
text { font: 13px sans-serif; fill: #222 }
.title { font-size: 18px; font-weight: bold }
.heading { font-weight: bold }
.small { font-size: 11px; fill: #555 }
.label { text-anchor: end }
.good { fill: #2f8f5b; font-weight: bold }
.bad { fill: #b3261e; font-weight: bold }
</style>
<rect width="100%%" height="100%%" fill="#fff"/>
`

// bar is one figure; the thin line spans its rounds.
func (p *picture) bar(f figure, colour string, fastest float64) {
	scale := func(v float64) float64 { return v / fastest * barMax }
	top := p.y
	fmt.Fprintf(&p.body, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n",
		barLeft, top+2, scale(f.Median.OperationsPerSecond), barHeight-4, colour)
	least, most := f.Median.OperationsPerSecond, f.Median.OperationsPerSecond
	for _, s := range f.Rounds {
		least, most = min(least, s.OperationsPerSecond), max(most, s.OperationsPerSecond)
	}
	fmt.Fprintf(&p.body, `<line x1="%.1f" x2="%.1f" y1="%[3]d" y2="%[3]d" stroke="#222"/>`+"\n",
		barLeft+scale(least), barLeft+scale(most), top+barHeight/2)
	p.y = top + barHeight - 5
	p.text(barLeft-8, "label", "%s", barLabel(f.Key))
	p.text(barLeft+8+int(scale(most)), "small", "%s/s, p50 %.1f, p99 %.1f ms", thousands(int64(f.Median.OperationsPerSecond+0.5)), f.Median.P50, f.Median.P99)
	p.y = top + barHeight
}

// barLabel tells from the key how many ask.
func barLabel(key string) string {
	last := key[strings.LastIndex(key, "/")+1:]
	who := "callers"
	if strings.HasPrefix(key, "pgbench/") {
		who = "clients"
	}
	callers, batch, _ := strings.Cut(last, "x")
	switch {
	case batch != "":
		return fmt.Sprintf("%s %s, batches of %s", callers, who, batch)
	case callers == "1":
		return "1 " + strings.TrimSuffix(who, "s")
	}
	return callers + " " + who
}
