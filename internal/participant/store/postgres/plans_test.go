package postgres

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Every hot statement keeps its index plan on tables that are new and without
// statistics, and on large ones.
func TestPlans(t *testing.T) {
	address := migrated(t)
	for name, value := range hotSettings {
		address = withParam(t, address, name, value)
	}
	t.Run("empty", func(t *testing.T) { checkPlans(t, connect(t, address)) })
	t.Run("large", func(t *testing.T) {
		c := connect(t, address)
		fill(t, c, 20_000)
		checkPlans(t, c)
	})
}

func checkPlans(t *testing.T, c *pgx.Conn) {
	t.Helper()
	slow := regexp.MustCompile(`Seq Scan|Hash Join|Merge Join|Hash Semi|Bitmap`)
	for i, statement := range hotStatements {
		// All of the marks are wanted, and they are few.
		plan := strings.ReplaceAll(explain(t, c, i, statement), "Seq Scan on marks", "")
		if found := slow.FindString(plan); found != "" {
			t.Errorf("%s in the plan of\n%s\n%s", found, statement, plan)
		}
		reads := strings.Contains(statement, "from operations") || strings.Contains(statement, "join ") ||
			strings.Contains(statement, "update ")
		if reads && !strings.Contains(plan, "Index") {
			t.Errorf("no index in the plan of\n%s\n%s", statement, plan)
		}
		if strings.HasPrefix(statement, "select") && strings.Contains(statement, "limit") && strings.Contains(plan, "Sort") {
			t.Errorf("a page is sorted, not read in order:\n%s\n%s", statement, plan)
		}
		if statement == lockAccounts.many && !regexp.MustCompile(`^LockRows[^\n]*\n\s*->\s+Sort`).MatchString(plan) {
			t.Errorf("the rows are not locked in order:\n%s", plan)
		}
	}
}

// explain gives the generic plan, the one that a prepared statement keeps.
func explain(t *testing.T, c *pgx.Conn, number int, statement string) string {
	t.Helper()
	parameters := 0
	for ; strings.Contains(statement, fmt.Sprintf("$%d", parameters+1)); parameters++ {
	}
	name := fmt.Sprintf("plan_%d", number)
	if _, err := c.Exec(t.Context(), "prepare "+name+" as "+statement); err != nil {
		t.Fatalf("prepare %s: %v", statement, err)
	}
	execute := "explain execute " + name
	if parameters > 0 {
		execute += "(" + strings.TrimSuffix(strings.Repeat("null, ", parameters), ", ") + ")"
	}
	rows, err := c.Query(t.Context(), execute)
	if err != nil {
		t.Fatalf("%s: %v", execute, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", execute, err)
	}
	return strings.Join(lines, "\n")
}

// fill adds n accounts, each with a deposit and its event.
func fill(t *testing.T, c *pgx.Conn, n int) {
	t.Helper()
	for _, statement := range []string{
		`insert into accounts select 'acme', 'a' || i, 'USD', 10, 0, 1, 1, now(), now() from generate_series(1, $1::int) i`,
		`insert into operations select 'acme', md5('o' || i)::uuid, 't' || i, 'deposit', 6, 'a' || i, 10, 'USD', 'cash', null,
			1, 0, 10, 10, 0, null, 0, false, now(), 'a' || i, 'external:cash', 10, 1 from generate_series(1, $1::int) i`,
		`insert into operations select 'acme', md5('r' || i)::uuid, 't' || i, 'refund', 3, 'a' || i, 10, 'USD', 'x/y',
			md5('d' || i)::uuid, 1, 0, 0, 0, 3, null, 0, false, now(), '', '', 0, 0 from generate_series(1, $1::int) i`,
		`insert into events select now(), 'acme', md5('e' || i)::uuid, 'deposit', md5('o' || i)::uuid
			from generate_series(1, $1::int) i`,
	} {
		if _, err := c.Exec(t.Context(), statement, n); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if _, err := c.Exec(t.Context(), "analyze"); err != nil {
		t.Fatal(err)
	}
}
