package sqlite

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"giro/internal/dbtest"
)

// Every hot statement is answered by an index, on an empty file and on one with
// many rows and statistics.
func TestPlans(t *testing.T) {
	path := dbtest.SQLite(t)
	if _, err := Migrate(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	db := dbtest.OpenSQLite(t, path)
	checkPlans(t, db)
	for _, statement := range []string{
		`create temp table n as with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) select i from n`,
		`insert into accounts select 'acme', 'a' || i, 'USD', 10, 0, 1, 1, 0, 0, 0, 0, '', 0, 0, '', '', 0 from n`,
		`insert into operations select 'acme', randomblob(16), 't' || i, 'refund', 3, 'a' || i, 10, 'USD', 'x/y',
			randomblob(16), 1, 0, 10, 10, 1, null, 0, 0, 0, 'a' || i, 'clearing:x', 10, 1, '' from n`,
		`analyze`,
	} {
		// One connection, which has the temporary table.
		db.SetMaxOpenConns(1)
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	checkPlans(t, db)
}

func checkPlans(t *testing.T, db *sql.DB) {
	t.Helper()
	var w writeStatements
	var r readStatements
	reports := map[**sql.Stmt]bool{&r.ownSums: true, &r.accountSums: true, &r.balances: true, &r.ownSumsAsOf: true, &r.balancesAsOf: true, &r.faults: true, &r.count: true}
	checked := 0
	for _, p := range append(w.texts(), r.texts()...) {
		if reports[p.statement] {
			continue // these read everything
		}
		checked++
		plan := explain(t, db, p.text)
		// meta has one row.
		if strings.Contains(strings.ReplaceAll(plan, "SCAN meta", ""), "SCAN") || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("no index, or a sort, in the plan of\n%s\n%s", p.text, plan)
		}
		if p.statement == &r.operationsOf && !strings.Contains(plan, "tenant=? AND key>?") {
			t.Errorf("a page does not begin at its place:\n%s", plan)
		}
	}
	if checked < 12 {
		t.Fatalf("only %d statements checked", checked)
	}
}

func explain(t *testing.T, db *sql.DB, statement string) string {
	t.Helper()
	arguments := make([]any, strings.Count(statement, "?"))
	rows, err := db.QueryContext(context.Background(), "explain query plan "+statement, arguments...)
	if err != nil {
		t.Fatalf("explain %s: %v", statement, err)
	}
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, detail)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(plan, "\n")
}
