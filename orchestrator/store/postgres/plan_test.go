package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// node is what the test reads of a plan.
type node struct {
	Type      string  `json:"Node Type"`
	Relation  string  `json:"Relation Name"`
	Index     string  `json:"Index Name"`
	IndexCond string  `json:"Index Cond"`
	Children  []*node `json:"Plans"`
}

// explain gives the plan that the store's own connections use.
func explain(t *testing.T, s *Store, name string) *node {
	t.Helper()
	ctx := context.Background()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	prepared, err := conn.Conn().Prepare(ctx, "plan_"+name, statements[name])
	if err != nil {
		t.Fatalf("prepare %s: %v", name, err)
	}
	defer func() {
		if err := conn.Conn().Deallocate(ctx, "plan_"+name); err != nil {
			t.Error(err)
		}
	}()
	arguments := ""
	if n := len(prepared.ParamOIDs); n > 0 {
		arguments = "(" + strings.TrimSuffix(strings.Repeat("null, ", n), ", ") + ")"
	}
	var text []byte
	if err := conn.QueryRow(ctx, `explain (format json) execute "plan_`+name+`"`+arguments).Scan(&text); err != nil {
		t.Fatalf("explain %s: %v", name, err)
	}
	var plans []struct{ Plan *node }
	if err := json.Unmarshal(text, &plans); err != nil {
		t.Fatal(err)
	}
	return plans[0].Plan
}

// faults lists what must not be in a hot plan: whatever reads a table otherwise
// than by descending an index to what is wanted, and joins that read a whole side.
func faults(n *node, parent string) []string {
	var list []string
	switch n.Type {
	case "Seq Scan", "Hash Join", "Merge Join", "Bitmap Heap Scan", "Bitmap Index Scan", "Tid Scan", "Sample Scan":
		list = append(list, strings.TrimSpace(n.Type+" "+n.Relation))
	case "Index Scan", "Index Only Scan":
		// Without a condition it reads the whole index, unless only its first row is
		// wanted.
		if n.IndexCond == "" && parent != "Limit" {
			list = append(list, fmt.Sprintf("whole %s on %s", n.Index, n.Relation))
		}
	}
	for _, child := range n.Children {
		list = append(list, faults(child, n.Type)...)
	}
	return list
}

func uses(n *node, index string) bool {
	if n.Index == index {
		return true
	}
	for _, child := range n.Children {
		if uses(child, index) {
			return true
		}
	}
	return false
}

func checkPlans(t *testing.T, s *Store, when string) {
	t.Helper()
	for name := range statements {
		plan := explain(t, s, name)
		text, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		if list := faults(plan, ""); len(list) > 0 {
			t.Errorf("%s, %s: %s\n%s", when, name, strings.Join(list, ", "), text)
		}
		if (name == "claim" || name == "dead") && !uses(plan, "sagas_due") || name == "unfinished" && !uses(plan, "sagas_unfinished") {
			t.Errorf("%s, %s: it does not use its index\n%s", when, name, text)
		}
	}
}

// fill stores rows, one of twenty running, of three owners.
func fill(t *testing.T, s *Store, from, to int) {
	t.Helper()
	ctx := context.Background()
	for _, statement := range []string{
		fmt.Sprintf(`insert into sagas select 'acme', 'K-' || n, 'accounts/alice', 'ledger/bob', 1, 'USD', decode(repeat('01', 33), 'hex'),
			'', '{}', case when n %% 20 = 0 then 'DEBITING' else 'COMPLETED' end, '', false, false, false, n %% 40 = 0, '',
			false, '', '[]', now(), null, now(), now(), now() - n * interval '1 second', 'replica-' || n %% 3, 1, 1
			from generate_series(%d, %d) n`, from, to),
		fmt.Sprintf(`insert into events select 'acme', gen_random_uuid(), 'K-' || n, 'COMPLETED', now(), null
			from generate_series(%d, %d) n where n %% 20 <> 0`, from, to),
		`insert into leases select 'replica-' || n, now() + interval '1 hour' from generate_series(0, 1) n on conflict do nothing`,
	} {
		if _, err := s.pool.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPlans reads the plan of every statement on tables that the planner knows
// nothing of, that it knows to be empty or tiny (such a plan is kept while the
// table grows), and on large ones.
func TestPlans(t *testing.T) {
	s := open(t, migrated(t))
	vacuum := func() {
		t.Helper()
		if _, err := s.pool.Exec(context.Background(), "vacuum analyze"); err != nil {
			t.Fatal(err)
		}
	}
	checkPlans(t, s, "new")
	vacuum()
	checkPlans(t, s, "known to be empty")
	fill(t, s, 1, 60)
	checkPlans(t, s, "60 rows, known to be empty")
	vacuum()
	checkPlans(t, s, "60 rows")
	fill(t, s, 61, 50_000)
	checkPlans(t, s, "50,000 rows, known to be 60")
	vacuum()
	checkPlans(t, s, "50,000 rows")
	fill(t, s, 50_001, 50_020)
	if _, err := s.pool.Exec(context.Background(), "update sagas set state = 'COMPLETED' where state = 'DEBITING'"); err != nil {
		t.Fatal(err)
	}
	vacuum()
	checkPlans(t, s, "50,000 rows, none running")
}

// TestPlansCanFail: the test above sees what it is there for.
func TestPlansCanFail(t *testing.T) {
	s := open(t, migrated(t))
	if _, err := s.pool.Exec(context.Background(), "vacuum analyze"); err != nil {
		t.Fatal(err)
	}
	for name, statement := range map[string]string{
		"by a column without an index": `select key from sagas where memo = $1`,
		"update from arrays": `update sagas s set memo = '' from unnest($1::text[], $2::text[]) i (tenant, key)
			where s.tenant = i.tenant and s.key = i.key`,
	} {
		statements["test"] = statement
		if plan := explain(t, s, "test"); len(faults(plan, "")) == 0 {
			t.Errorf("%s: no fault was seen", name)
		}
		delete(statements, "test")
	}
}

// forbidden are constructs that not every database that speaks PostgreSQL's
// protocol has, or that hold a lock longer than a transaction.
var forbidden = map[string]*regexp.Regexp{
	"advisory locks":      regexp.MustCompile(`(?i)advisory`),
	"LISTEN or NOTIFY":    regexp.MustCompile(`(?i)\b(listen|unlisten|notify|pg_notify)\b`),
	"savepoints":          regexp.MustCompile(`(?i)\bsavepoint\b`),
	"triggers":            regexp.MustCompile(`(?i)\btrigger\b`),
	"stored procedures":   regexp.MustCompile(`(?i)\b(procedure|language|do \$\$|create\s+(or\s+replace\s+)?function)`),
	"order by serial ids": regexp.MustCompile(`(?i)\b(serial|bigserial|smallserial|nextval|create\s+sequence|generated\s+(always|by\s+default)\s+as\s+identity)\b`),
	"table locks":         regexp.MustCompile(`(?i)\block\s+table\b`),
	"row addresses":       regexp.MustCompile(`(?i)\bctid\b`),
	"narrow integers":     regexp.MustCompile(`(?i)\b(integer|int4|smallint)\b`),
}

func TestForbiddenConstructs(t *testing.T) {
	texts := map[string]string{}
	for name, statement := range statements {
		texts[name] = statement
	}
	entries, err := files.ReadDir("migrations")
	if err != nil || len(entries) == 0 {
		t.Fatalf("migrations: %v, %v", entries, err)
	}
	for _, entry := range entries {
		text, err := files.ReadFile("migrations/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts[entry.Name()] = string(text)
	}
	for name, text := range texts {
		for what, pattern := range forbidden {
			if found := pattern.FindString(text); found != "" {
				t.Errorf("%s has %q: no %s, so that the SQL stays portable", name, found, what)
			}
		}
	}
	for what, text := range map[string]string{
		"advisory locks": "select pg_advisory_xact_lock(1)", "LISTEN or NOTIFY": "NOTIFY sagas", "savepoints": "savepoint a",
		"triggers": "create trigger a", "stored procedures": "create or replace function f()",
		"order by serial ids": "id bigserial", "table locks": "lock table sagas", "row addresses": "where ctid = $1",
		"narrow integers": "id integer",
	} {
		if !forbidden[what].MatchString(text) {
			t.Errorf("the pattern for %s does not find %q", what, text)
		}
	}
}

// TestEveryStatementIsListed: one that is not listed would not be read by the
// tests above.
func TestEveryStatementIsListed(t *testing.T) {
	sources := sourceFiles(t)
	named := regexp.MustCompile(`(?m)^\s*(\w+)SQL = ` + "`")
	found := 0
	for file, text := range sources {
		for _, match := range named.FindAllStringSubmatch(text, -1) {
			found++
			if _, listed := statements[match[1]]; !listed {
				t.Errorf("%s: %sSQL is not in statements", file, match[1])
			}
		}
		if file != "statements.go" && regexp.MustCompile(`(?i)[`+"`"+`"](select|insert|update|delete|with|begin|set)\s`).MatchString(text) {
			t.Errorf("%s holds SQL: it belongs into statements.go", file)
		}
	}
	if found != len(statements) {
		t.Errorf("%d statements stand in the code and %d are listed", found, len(statements))
	}
}
