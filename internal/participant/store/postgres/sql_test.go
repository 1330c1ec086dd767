package postgres

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/stepkey"
)

// forbidden constructs are missing, or mean something else, on the distributed
// engines that speak PostgreSQL's protocol, or behind a pooler.
var forbidden = regexp.MustCompile(`(?i)advisory|\blisten\b|\bnotify\b|\bsavepoint\b|\btrigger\b|\bprocedure\b|` +
	`create\s+(or\s+replace\s+)?function|\bdo\s+\$\$|\block\s+table\b|\b(small|big)?serial\b|\bnextval\b|order\s+by\s+(\w+\.)?id\b`)

func TestForbiddenSQL(t *testing.T) {
	texts := append(sqlTexts(t), hotStatements...)
	if len(texts) < 20 {
		t.Fatalf("only %d texts found: the test looks in the wrong place", len(texts))
	}
	for _, text := range texts {
		if found := forbidden.FindString(text); found != "" {
			t.Errorf("%q is not portable to distributed PostgreSQL; do without it:\n%s", found, text)
		}
	}
}

// sqlTexts gives the migrations and every string in the package's code.
func sqlTexts(t *testing.T) []string {
	t.Helper()
	var texts []string
	err := fs.WalkDir(migrations(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(migrations(), path)
		texts = append(texts, string(content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if literal, is := n.(*ast.BasicLit); is && literal.Kind == token.STRING {
				texts = append(texts, literal.Value)
			}
			return true
		})
	}
	return texts
}

// What counts up is bigint, and no id is the database's own.
func TestWhatCountsUpIsBigint(t *testing.T) {
	c := connect(t, migrated(t))
	var counters, narrow, serial int
	err := c.QueryRow(t.Context(), `select count(*) filter (where column_name in ('seq', 'batches')),
			count(*) filter (where column_name in ('seq', 'batches') and data_type <> 'bigint'),
			count(*) filter (where is_identity = 'YES' or column_default like 'nextval%')
		from information_schema.columns
		where table_schema = 'public' and table_name in ('operations', 'accounts', 'events', 'marks', 'meta')`).Scan(
		&counters, &narrow, &serial)
	if err != nil || counters != 3 || narrow != 0 || serial != 0 {
		t.Fatalf("%d counters, %d of them not bigint, %d serial ids, %v", counters, narrow, serial, err)
	}
}

// The largest batch writes at most 1,000 rows, a limit of the distributed engines.
func TestRowsPerTransaction(t *testing.T) {
	for _, kind := range []book.Kind{book.Open, book.Debit, book.Refund} {
		for _, debited := range []bool{false, true} {
			if rows := rowsWritten(kind, debited); rows > 1000 {
				t.Errorf("a batch of %s (its debit known: %v) writes %d rows", kind, debited, rows)
			}
		}
	}
}

func rowsWritten(kind book.Kind, debited bool) int {
	v := &book.View{Operations: map[book.ID]book.Stored{}, Refunds: map[book.ID]book.Stored{},
		Accounts: map[book.AccountID]book.Account{}}
	var operations []book.Operation
	for i := range book.BatchSizeMax {
		account, key := names.Account(fmt.Sprint("a", i)), names.TransferKey(fmt.Sprint("t", i))
		o := book.Operation{Kind: kind, Tenant: "acme", TransferKey: key, Step: kind.String(), Account: account,
			Amount: 10, Currency: money.Currency("USD"), Counterparty: "ledger/x",
			Key: stepkey.Derive(stepkey.V1, "acme", key, kind.String())}
		if kind == book.Refund {
			o.DebitKey = stepkey.Derive(stepkey.V1, "acme", key, stepkey.Debit)
		}
		operations = append(operations, o)
		if kind != book.Open {
			id := book.AccountID{Tenant: "acme", Account: account}
			v.Accounts[id] = book.Account{AccountID: id, Currency: "USD", State: book.StateOpen, Balance: 10}
		}
		if debited {
			d := o
			d.Kind, d.Step, d.Key, d.DebitKey = book.Debit, stepkey.Debit, o.DebitKey, stepkey.StepKey{}
			v.Operations[d.ID()] = book.Stored{Operation: d, Outcome: book.Applied, AmountMoved: 10}
		}
	}
	_, c := book.Decide(v, operations, book.DefaultLimits)
	const mark = 1
	return len(c.Operations) + len(c.Opened) + len(c.Changed) + len(c.Events) + mark
}
