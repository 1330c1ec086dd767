package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rule is one rule of the house.
type rule struct {
	name    string
	reason  string
	instead string
	// find names each place that breaks the rule.
	find func(tr *tree) []string
	// broken are small trees, file by file, each of which breaks the rule.
	broken []map[string]string
}

var rules = []rule{
	{
		name:    "the rooms are there",
		reason:  "a rule about a package that was moved or renamed would pass without looking at anything",
		instead: "if you moved the package, move it in this test too",
		find:    missingRooms,
		broken:  []map[string]string{{"internal/names/names.go": "package names"}},
	},
	{
		name:    "pure packages import values only",
		reason:  "what moves money is decided where no clock, network, database, log or chance can reach, so that it can be tested exhaustively and replayed",
		instead: "take the value as an argument; do the I/O in the caller",
		find:    impureImports,
		broken: []map[string]string{
			{"orchestrator/saga/a.go": "package saga\nimport _ \"context\""},
			{"internal/participant/book/a.go": "package book\nimport _ \"giro/internal/batch\""},
			{"internal/money/a.go": "package money\nimport _ \"google.golang.org/protobuf/proto\""},
		},
	},
	{
		name:    "pure packages start nothing, ask no clock and print nothing",
		reason:  "the same as above: time is an argument, and order comes from the caller",
		instead: "take now as an argument; return what is to be said",
		find:    impureCode,
		broken: []map[string]string{
			{"orchestrator/saga/a.go": "package saga\nfunc f() { go f() }"},
			{"internal/money/a.go": "package money\nvar c = make(chan int)"},
			{"orchestrator/saga/b.go": "package saga\nimport t \"time\"\nvar now = t.Now()"},
			{"internal/names/a.go": "package names\nimport \"fmt\"\nfunc f() { fmt.Println() }"},
		},
	},
	{
		name:    "only PostgreSQL stores, pgpool and dbtest import pgx",
		reason:  "SQL and its errors stay in one room for each backend; a second user would bring a dialect layer. pgpool has how to connect, which would otherwise stand in every store, and be mended in one of them",
		instead: "ask the store's interface, or add what is missing to it",
		find: importsOutside("github.com/jackc/", func(f *file) bool {
			return under(f.dir, "internal/dbtest", "internal/pgpool") || isStore(f.dir, "postgres")
		}),
		broken: []map[string]string{{"orchestrator/server/a.go": "package server\nimport _ \"github.com/jackc/pgx/v5\""}},
	},
	{
		name:    "PostgreSQL stores open no connections of their own",
		reason:  "a connection that was not opened by pgpool may lead to a standby, or cancel a COMMIT that waits for one",
		instead: "pgpool.Parse, and its Open or DB",
		find:    ownConnections,
		broken: []map[string]string{
			{"orchestrator/store/postgres/a.go": "package postgres\nimport _ \"github.com/jackc/pgx/v5/pgxpool\""},
			{"orchestrator/store/postgres/b.go": "package postgres\nimport _ \"github.com/jackc/pgx/v5/stdlib\""},
			{"internal/participant/store/postgres/a.go": "package postgres\nimport \"github.com/jackc/pgx/v5\"\nvar c, _ = pgx.Connect(nil, \"\")"},
		},
	},
	{
		name:    "only SQLite stores, dbtest and examples import the SQLite driver",
		reason:  "the same as for pgx; and the driver is large",
		instead: "ask the store's interface; in tests, dbtest.OpenSQLite",
		find:    importsOutside("modernc.org/", func(f *file) bool { return under(f.dir, "internal/dbtest", "examples") || isStore(f.dir, "sqlite") }),
		broken:  []map[string]string{{"internal/schema/a_test.go": "package schema\nimport _ \"modernc.org/sqlite\""}},
	},
	{
		name:    "SQL stays portable to engines that speak PostgreSQL's protocol",
		reason:  "several of them have no advisory locks, savepoints, triggers, stored procedures, listeners or ordered serial ids",
		instead: "unique keys, compare-and-set, leases in rows, and ids of our own",
		find:    unportableSQL,
		broken: []map[string]string{
			{"orchestrator/store/postgres/a.go": "package postgres\nconst q = `select pg_try_advisory_lock(1)`"},
			{"orchestrator/store/postgres/migrations/1.sql": "create table t (id bigserial)"},
			{"internal/participant/store/postgres/a.go": "package postgres\nvar q = \"SAVEPOINT a\""},
		},
	},
	{
		name:    "services do not import each other",
		reason:  "they run apart, by other people's hands too; what they share is the contract",
		instead: "call the other one through its proto, or move what both need to internal",
		find:    servicesApart,
		broken: []map[string]string{
			{"accountsvc/a.go": "package accountsvc\nimport _ \"giro/ledgersvc\""},
			{"ledgersvc/a_test.go": "package ledgersvc\nimport _ \"giro/orchestrator/saga\""},
		},
	},
	{
		name:    "internal imports no service",
		reason:  "internal is the ground that services stand on; only the simulator drives them all",
		instead: "move the shared part down, or take an interface",
		find:    groundBelow,
		broken:  []map[string]string{{"internal/batch/a.go": "package batch\nimport _ \"giro/orchestrator/saga\""}},
	},
	{
		name:    "what users import needs nothing of our inside",
		reason:  "the client and the contracts are built into other people's programs",
		instead: "use proto alone",
		find:    publicApart,
		broken: []map[string]string{
			{"client/a.go": "package client\nimport _ \"giro/internal/money\""},
			{"client/inbox/a.go": "package inbox\nimport _ \"giro/orchestrator\""},
			{"proto/giro/x/a.go": "package x\nimport _ \"giro/internal/names\""},
		},
	},
	{
		name:    "the command line and the console use the public APIs only",
		reason:  "an operator sees what any client may see; a back door would go round validation and tenants",
		instead: "add what is missing to the API",
		find:    clientsApart,
		broken: []map[string]string{
			{"cmd/giro/cli/a.go": "package cli\nimport _ \"giro/orchestrator/store\""},
			{"orchestrator/console/a.go": "package console\nimport _ \"giro/orchestrator/runner\""},
		},
	},
	{
		name:    "the conformance suite knows participants by their contract alone",
		reason:  "it judges other people's participants too: what it took from ours would be demanded of theirs",
		instead: "ask over gRPC; what the contract does not tell, the suite does not know",
		find:    suiteApart,
		broken: []map[string]string{
			{"internal/participant/conformance/a.go": "package conformance\nimport _ \"giro/internal/participant/book\""},
			{"internal/participant/conformance/b.go": "package conformance\nimport _ \"giro/accountsvc\""},
		},
	},
	{
		name:    "the example participant needs nothing of our inside",
		reason:  "it is what a stranger starts from",
		instead: "use proto and public libraries that go.mod has already",
		find:    exampleApart,
		broken: []map[string]string{
			{"examples/participant/main.go": "package main\nimport _ \"giro/internal/stepkey\""},
		},
	},
	{
		name:    "only cmd picks a backend",
		reason:  "everything else works on all of them, and the suites prove it",
		instead: "take the store as an argument",
		find:    backendsPicked,
		broken:  []map[string]string{{"orchestrator/server/a.go": "package server\nimport _ \"giro/orchestrator/store/sqlite\""}},
	},
	{
		name:    "only programs read the environment and exit",
		reason:  "settings come in by one door, and an exit in a library skips everybody's clean-up",
		instead: "take the setting as an argument; return an error",
		find:    processUses,
		broken: []map[string]string{
			{"internal/rpc/a.go": "package rpc\nimport \"os\"\nvar v = os.Getenv(\"X\")"},
			{"orchestrator/a.go": "package orchestrator\nimport \"log\"\nfunc f() { log.Fatalf(\"x\") }"},
			{"internal/bench/part/a.go": "package part\nimport \"os\"\nfunc f() { os.Exit(1) }"},
		},
	},
	{
		name:    "nothing reachable from serve is made for tests or faults",
		reason:  "a server must not be able to inject faults into itself",
		instead: "put it behind an interface that the test or the demo fills",
		find:    servedTestCode,
		broken: []map[string]string{
			{"cmd/giro/serve/a.go": "package serve\nimport _ \"giro/internal/a\"", "internal/a/a.go": "package a\nimport _ \"giro/internal/fault/wire\""},
			{"cmd/giro/serve/a.go": "package serve\nimport _ \"testing\""},
			{"cmd/giro/serve/a.go": "package serve\nimport _ \"giro/internal/participant/conformance\""},
		},
	},
	{
		name:    "a benchmark knows a service by its contract alone",
		reason:  "what it measures must be what a caller gets, the wire included, from the program that is shipped",
		instead: "start the built program and ask it over gRPC; the program's tests may use stores",
		find:    benchmarksApart,
		broken: []map[string]string{
			{"internal/bench/participant/a.go": "package main\nimport _ \"giro/internal/participant\""},
			{"internal/bench/participant/a.go": "package main\nimport _ \"giro/internal/participant/book\""},
		},
	},
	{
		name:    "nobody sleeps",
		reason:  "a sleep is either too short, and the test fails now and then, or too long, every time; in a server it cannot be cancelled",
		instead: "wait for the event; where there is none, poll it in a loop with a deadline (tests), or select on a timer and the context",
		find:    sleeps,
		broken: []map[string]string{
			{"internal/rpc/a.go": "package rpc\nimport \"time\"\nfunc f() { for { time.Sleep(1) } }"},
			{"internal/rpc/a_test.go": "package rpc\nimport \"time\"\nfunc f() { time.Sleep(1) }"},
			{"internal/rpc/b_test.go": "package rpc\nimport \"time\"\nfunc f() { for { go func() { time.Sleep(1) }() } }"},
		},
	},
	{
		name:    "functions fit a screen and files a sitting",
		reason:  "what nobody reads whole, nobody reviews",
		instead: fmt.Sprintf("split it by what it does: %d lines for a function, %d for a file, tests excepted", functionLines, fileLines),
		find:    tooLong,
		broken: []map[string]string{
			{"a/a.go": "package a\nfunc f() {\n" + strings.Repeat("_ = 1\n", functionLines) + "}"},
			{"a/a.go": "package a\n" + strings.Repeat("\n", fileLines)},
		},
	},
	{
		name:    "no reminders in the code",
		reason:  "what does not work yet is not there yet; what is left to do stands where the work is planned",
		instead: "do it, or say in plain words what the limit is",
		find:    reminders,
		broken:  []map[string]string{{"a/a.go": "package a\n// " + "TO" + "DO: later"}},
	},
}

const (
	functionLines = 80
	fileLines     = 500
)

var (
	services = []string{"accountsvc", "ledgersvc", "orchestrator"}

	pure = []string{
		"internal/names", "internal/money", "internal/stepkey", "internal/fingerprint", "internal/retention",
		"internal/participant/book", "orchestrator/saga",
	}

	// rooms are the packages that some rule looks at by name.
	rooms = append(slices.Clone(pure),
		"accountsvc", "ledgersvc", "orchestrator", "orchestrator/runner", "orchestrator/server", "orchestrator/store",
		"orchestrator/store/mem", "orchestrator/store/sqlite", "orchestrator/store/postgres", "orchestrator/store/storetest",
		"internal/participant", "internal/participant/store", "internal/participant/store/mem",
		"internal/participant/store/sqlite", "internal/participant/store/postgres", "internal/participant/store/storetest",
		"internal/sim", "internal/fault/wire", "internal/dbtest", "internal/pgserver", "internal/pgpool", "internal/schema",
		"internal/participant/conformance", "internal/participant/server", "internal/bench/participant",
		"cmd/giro", "cmd/giro/cli", "cmd/giro/serve", "cmd/giro/demo",
		"proto/giro/transfer/v1", "proto/giro/participant/v1", "proto/giro/conformance/v1", "examples/participant",
	)

	// values are the packages of the standard library that hold no state and do no I/O.
	values = map[string]bool{
		"bytes": true, "cmp": true, "crypto/sha256": true, "encoding/binary": true, "encoding/hex": true,
		"encoding/base64": true, "encoding/json": true, "errors": true, "fmt": true, "hash": true, "iter": true, "maps": true, "math": true,
		"math/big": true, "math/bits": true, "regexp": true, "slices": true, "sort": true, "strconv": true,
		"strings": true, "time": true, "unicode": true, "unicode/utf8": true,
	}
)

func isStore(dir, backend string) bool {
	return strings.HasSuffix(dir, "/store/"+backend)
}

func missingRooms(tr *tree) []string {
	var found []string
	for _, room := range rooms {
		if !tr.has(room) {
			found = append(found, "no package "+room)
		}
	}
	return found
}

// impureImports looks at the tests of pure packages no more: they may use what
// they like.
func impureImports(tr *tree) []string {
	var found []string
	for _, f := range tr.files {
		if f.test || !slices.Contains(pure, f.dir) {
			continue
		}
		f.imports(func(at, imported, inside string) {
			if !values[imported] && !slices.Contains(pure, inside) {
				found = append(found, at+" imports "+imported)
			}
		})
	}
	return found
}

var impureCalls = regexp.MustCompile(`^(time\.(Now|Since|Until|Sleep|After|AfterFunc|Tick|NewTimer|NewTicker)|fmt\.(Print|Printf|Println|Scan.*))$`)

func impureCode(tr *tree) []string {
	var found []string
	for _, f := range tr.files {
		if f.test || !slices.Contains(pure, f.dir) {
			continue
		}
		f.uses(func(pos token.Pos, name string) {
			if impureCalls.MatchString(name) {
				found = append(found, f.at(pos)+" uses "+name)
			}
		})
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
				found = append(found, fmt.Sprintf("%s has a %T", f.at(n.Pos()), n))
			}
			return true
		})
	}
	return found
}

func importsOutside(prefix string, allowed func(*file) bool) func(*tree) []string {
	return func(tr *tree) []string {
		return forbidden(tr, func(f *file, imported, _ string) bool {
			return strings.HasPrefix(imported, prefix) && !allowed(f)
		})
	}
}

var connects = regexp.MustCompile(`\.Connect(Config|WithOptions)?$`)

// ownConnections lists what connects without pgpool in the stores' own files.
func ownConnections(tr *tree) []string {
	found := forbidden(tr, func(f *file, imported, _ string) bool {
		return isStore(f.dir, "postgres") && !f.test &&
			(strings.HasSuffix(imported, "/pgxpool") || strings.HasSuffix(imported, "/pgx/v5/stdlib"))
	})
	for _, f := range tr.files {
		if f.test || !isStore(f.dir, "postgres") {
			continue
		}
		f.uses(func(pos token.Pos, name string) {
			if strings.HasPrefix(name, "github.com/jackc/pgx/") && connects.MatchString(name) {
				found = append(found, f.at(pos)+" uses "+name)
			}
		})
	}
	return found
}

// forbidden lists the imports for which bad is true.
func forbidden(tr *tree, bad func(f *file, imported, inside string) bool) []string {
	var found []string
	for _, f := range tr.files {
		f.imports(func(at, imported, inside string) {
			if bad(f, imported, inside) {
				found = append(found, at+" imports "+imported)
			}
		})
	}
	return found
}

var unportable = regexp.MustCompile(`(?i)\bpg_(try_)?advisory\w*|\bsavepoint\b|\bcreate\s+(or\s+replace\s+)?(trigger|function|procedure)\b|\blisten\s+\w+\s*(;|$)|\b(big|small)?serial\b`)

func unportableSQL(tr *tree) []string {
	var found []string
	for _, f := range tr.files {
		if f.test || !(isStore(f.dir, "postgres") || under(f.dir, "internal/pgpool")) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
				if m := unportable.FindString(text.Value); m != "" {
					found = append(found, fmt.Sprintf("%s has %q", f.at(text.Pos()), m))
				}
			}
			return true
		})
	}
	for _, name := range slices.Sorted(maps.Keys(tr.sql)) {
		if m := unportable.FindString(tr.sql[name]); m != "" && strings.Contains(name, "/postgres/") {
			found = append(found, fmt.Sprintf("%s has %q", name, m))
		}
	}
	return found
}

func servicesApart(tr *tree) []string {
	return forbidden(tr, func(f *file, _, inside string) bool {
		return under(f.dir, services...) && under(inside, services...) && firstFolder(f.dir) != firstFolder(inside)
	})
}

func firstFolder(dir string) string {
	first, _, _ := strings.Cut(dir, "/")
	return first
}

func groundBelow(tr *tree) []string {
	return forbidden(tr, func(f *file, _, inside string) bool {
		return under(f.dir, "internal") && !under(f.dir, "internal/sim") && under(inside, append(services, "cmd")...)
	})
}

func publicApart(tr *tree) []string {
	return forbidden(tr, func(f *file, _, inside string) bool {
		switch {
		case inside == "" || f.test:
			return false
		case under(f.dir, "proto"):
			return !under(inside, "proto")
		case under(f.dir, "client"):
			return !under(inside, "client", "proto")
		}
		return false
	})
}

// clientsApart lets the command line start servers and play the demo, by way of
// packages of cmd that are no clients.
func clientsApart(tr *tree) []string {
	return forbidden(tr, func(f *file, _, inside string) bool {
		if f.test {
			return false
		}
		if under(f.dir, "orchestrator/console") {
			return inside != "" && !under(inside, "proto", "orchestrator/console", "internal/rpc", "internal/money", "internal/names")
		}
		// The conformance suite is a client of the public APIs itself; see its own rule.
		return under(f.dir, "cmd/giro/cli", "cmd/giro/client", "cmd/giro/render") && !under(inside, suite) &&
			under(inside, append(services, "internal/participant", "internal/batch", "internal/schema", "internal/sim", "internal/fault")...)
	})
}

// suite is the conformance suite.
const suite = "internal/participant/conformance"

// suiteApart does not look at the suite's tests, which have participants to break.
func suiteApart(tr *tree) []string {
	return forbidden(tr, func(f *file, _, inside string) bool {
		return f.dir == suite && !strings.HasSuffix(f.path, "_test.go") && inside != "" &&
			!under(inside, "proto", "internal/rpc", "internal/stepkey", "internal/names")
	})
}

func exampleApart(tr *tree) []string {
	return forbidden(tr, func(f *file, _, inside string) bool {
		return under(f.dir, "examples") && !strings.HasSuffix(f.path, "_test.go") && inside != "" && !under(inside, "proto")
	})
}

func backendsPicked(tr *tree) []string {
	return forbidden(tr, func(f *file, _, inside string) bool {
		if f.test || under(f.dir, "cmd", "internal/sim") || inside == "" {
			return false
		}
		return isStore(inside, "mem") || isStore(inside, "sqlite") || isStore(inside, "postgres")
	})
}

// isBenchmark: a benchmark is a program, and the packages beside it are not.
func isBenchmark(f *file) bool {
	return under(f.dir, "internal/bench") && f.ast.Name.Name == "main"
}

// benchmarksApart lets them run servers, and look into databases of their own.
func benchmarksApart(tr *tree) []string {
	return forbidden(tr, func(f *file, _, inside string) bool {
		return under(f.dir, "internal/bench") && !f.test && inside != "" &&
			!under(inside, "proto", "internal/rpc", "internal/stepkey", "internal/names", "internal/pgserver", "internal/pgpool")
	})
}

var processNames = regexp.MustCompile(`^(os\.(Getenv|LookupEnv|Environ|Setenv|Unsetenv|Exit)|log\.(Fatal|Fatalf|Fatalln))$`)

func processUses(tr *tree) []string {
	var found []string
	for _, f := range tr.files {
		if f.test || under(f.dir, "cmd", "examples", "internal/pgserver") || isBenchmark(f) {
			continue
		}
		f.uses(func(pos token.Pos, name string) {
			if processNames.MatchString(name) {
				found = append(found, f.at(pos)+" uses "+name)
			}
		})
	}
	return found
}

// servedTestCode follows the imports from serve, and says by which way it came.
func servedTestCode(tr *tree) []string {
	const start = "cmd/giro/serve"
	way := map[string]string{start: start}
	queue := []string{start}
	var found []string
	for len(queue) > 0 {
		dir := queue[0]
		queue = queue[1:]
		for _, f := range tr.files {
			if f.dir != dir || strings.HasSuffix(f.path, "_test.go") {
				continue
			}
			f.imports(func(_, imported, inside string) {
				if imported == "testing" || strings.HasPrefix(imported, "testing/") || strings.HasPrefix(imported, "pgregory.net/rapid") ||
					under(inside, "internal/sim", "internal/fault", "internal/pgserver") || (inside != "" && testPackage(inside)) {
					found = append(found, way[dir]+" -> "+imported)
					return
				}
				if inside != "" && way[inside] == "" {
					way[inside] = way[dir] + " -> " + inside
					queue = append(queue, inside)
				}
			})
		}
	}
	return found
}

func sleeps(tr *tree) []string {
	var found []string
	for _, f := range tr.files {
		if under(f.dir, "cmd/giro/demo") {
			continue
		}
		polls := loopBodies(f)
		f.uses(func(pos token.Pos, name string) {
			if name == "time.Sleep" && !(f.test && polls(pos)) {
				found = append(found, f.at(pos)+" sleeps")
			}
		})
	}
	return found
}

// loopBodies tells of a place whether it stands in a loop, in the same function.
func loopBodies(f *file) func(token.Pos) bool {
	var loops, functions []ast.Node
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			loops = append(loops, n)
		case *ast.FuncLit, *ast.FuncDecl:
			functions = append(functions, n)
		}
		return true
	})
	return func(pos token.Pos) bool {
		loop, function := innermost(loops, pos), innermost(functions, pos)
		return loop != nil && function != nil && loop.Pos() > function.Pos()
	}
}

// innermost is the last node, in the order of the source, that holds pos.
func innermost(nodes []ast.Node, pos token.Pos) ast.Node {
	var in ast.Node
	for _, n := range nodes {
		if n.Pos() <= pos && pos < n.End() {
			in = n
		}
	}
	return in
}

func tooLong(tr *tree) []string {
	var found []string
	for _, f := range tr.files {
		if f.test || !f.written {
			continue
		}
		if f.lines > fileLines {
			found = append(found, fmt.Sprintf("%s has %d lines", f.path, f.lines))
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1; n > functionLines {
				found = append(found, fmt.Sprintf("%s: %s has %d lines", f.at(fn.Pos()), fn.Name.Name, n))
			}
		}
	}
	return found
}

var reminder = regexp.MustCompile(`\b(` + "TO" + "DO|FIX" + "ME|XX" + `X)\b`)

func reminders(tr *tree) []string {
	var found []string
	for _, f := range tr.files {
		if !f.written {
			continue
		}
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				if m := reminder.FindString(c.Text); m != "" {
					found = append(found, f.at(c.Pos())+" says "+m)
				}
			}
		}
	}
	return found
}

func TestRules(t *testing.T) {
	tr := readTree(t, path.Join("..", ".."))
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, place := range r.find(tr) {
				t.Error(place)
			}
			if t.Failed() {
				t.Errorf("\n  rule:    %s\n  reason:  %s\n  instead: %s", r.name, r.reason, r.instead)
			}
		})
	}
}

func TestEveryRuleCanFail(t *testing.T) {
	for _, r := range rules {
		if r.reason == "" || r.instead == "" || len(r.broken) == 0 {
			t.Errorf("rule %q lacks its reason, what to do instead, or an example that breaks it", r.name)
		}
		for i, files := range r.broken {
			tr := &tree{sql: map[string]string{}}
			for name, content := range files {
				if err := tr.add(name, content); err != nil {
					t.Fatal(err)
				}
			}
			if len(r.find(tr)) == 0 {
				t.Errorf("rule %q does not see example %d that breaks it", r.name, i)
			}
		}
	}
}

func TestPollingInATestIsNoSleep(t *testing.T) {
	tr := &tree{sql: map[string]string{}}
	if err := tr.add("a/a_test.go", "package a\nimport \"time\"\nfunc f() { for i := 0; i < 9; time.Sleep(1) { time.Sleep(1) } }"); err != nil {
		t.Fatal(err)
	}
	if found := sleeps(tr); len(found) != 0 {
		t.Error(found)
	}
}
