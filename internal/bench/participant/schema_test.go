package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"giro/internal/dbtest"
	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store/postgres"
	"giro/internal/stepkey"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// books are fresh ones with the benchmark's accounts.
type books struct {
	url   string
	db    *sql.DB
	store *postgres.Store
}

func openBooks(t *testing.T) books {
	t.Helper()
	b := books{url: dbtest.Postgres(t)}
	if _, err := postgres.Migrate(t.Context(), b.url); err != nil {
		t.Fatal(err)
	}
	var err error
	if b.store, err = postgres.Open(t.Context(), b.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.store.Close() })
	b.db = dbtest.OpenPostgres(t, b.url)
	open := []book.Operation{operation(book.Open, "open-"+hotAccount, hotAccount)}
	for n := range accountCount {
		open = append(open, operation(book.Open, "open-"+accountName(n), accountName(n)))
	}
	for some := range slices.Chunk(open, book.BatchSizeMax) {
		b.apply(t, some...)
	}
	return b
}

func operation(kind book.Kind, key, account string) book.Operation {
	return book.Operation{Kind: kind, Tenant: tenant, TransferKey: names.TransferKey(key), Step: kind.String(),
		Key: stepkey.Derive(stepkey.V1, tenant, names.TransferKey(key), kind.String()), Account: names.Account(account), Currency: currency}
}

func (b books) apply(t *testing.T, operations ...book.Operation) book.Answer {
	t.Helper()
	answers, err := b.store.Apply(t.Context(), operations, book.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		if a.Outcome != book.Applied {
			t.Fatalf("%+v", a)
		}
	}
	return answers[0]
}

// credit is what a caller of the benchmark asks for.
func (b books) credit(t *testing.T, account string) book.Answer {
	t.Helper()
	o := credit(account)
	asked := operation(book.Credit, o.GetTransferKey(), account)
	if asked.Key.String() != o.GetKey() || asked.Step != o.GetStep() {
		t.Fatalf("the key of %v is not derived as clients do it", o)
	}
	asked.Amount, asked.Counterparty = money.Minor(o.GetAmount()), names.AccountRef(o.GetCounterparty())
	return b.apply(t, asked)
}

func (b books) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := b.db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// sound asks the books as the audit does.
func (b books) sound(t *testing.T, operations int64) {
	t.Helper()
	sums, err := b.store.Sums(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(sums.Currencies) != 1 || sums.Currencies[0].Total != "0" || len(sums.Faults) > 0 || sums.OperationCount != operations {
		t.Errorf("%d operations were to be there; the books say %+v", operations, sums)
	}
}

func TestTheColumnsAreThoseOfTheTable(t *testing.T) {
	b := openBooks(t)
	rows, err := b.db.QueryContext(t.Context(), `select column_name from information_schema.columns
		where table_name = 'operations' order by ordinal_position`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var table, known []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		table = append(table, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range creditColumns {
		known = append(known, c.name)
	}
	if !slices.Equal(table, known) {
		t.Errorf("operations has the columns %v, and schema.go writes %v: bring creditColumns up to date", table, known)
	}
}

// TestFilledRowsAreLikeTheService: what fill and pgbench's scripts write is what the
// store writes for a credit, and the books are sound afterwards.
func TestFilledRowsAreLikeTheService(t *testing.T) {
	const rows = accountCount + 3
	b := openBooks(t)
	b.exec(t, fill(rows))
	b.credit(t, hotAccount)
	b.sound(t, accountCount+1+rows+1)
	model := b.row(t, hotAccount, 1)
	for _, place := range []struct {
		account string
		seq     int
	}{{"a0", 1}, {"a2", 2}, {"a9999", 1}} {
		likeService(t, model, b.row(t, place.account, place.seq))
	}

	// The service goes on where the rows end.
	if answer := b.credit(t, "a2"); answer.BalanceAfter != 3 || answer.Seq != 3 {
		t.Errorf("after two credits of 1 the third was answered with %+v", answer)
	}
	if answer := b.credit(t, "a3"); answer.BalanceAfter != 2 {
		t.Errorf("after one credit of 1 the second was answered with %+v", answer)
	}
	b.sound(t, accountCount+1+rows+3)
}

func TestPgbenchWritesWhatTheServiceWrites(t *testing.T) {
	program, err := findPgbench()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("pgbench is not installed: ", err)
		}
		t.Skip("SKIPPED, NOT TESTED: pgbench is not installed: ", err)
	}
	b := openBooks(t)
	b.credit(t, hotAccount)
	model := b.row(t, hotAccount, 1)
	for _, script := range pgbenchScripts {
		s, err := pgbench{program, b.url, t.TempDir(), 0}.run(t.Context(), script.text, 2, "--transactions=50")
		if err != nil {
			t.Fatal(script.name, err)
		}
		if s.Operations != 100 || s.P50 == 0 || s.OperationsPerSecond == 0 {
			t.Errorf("%s: %+v", script.name, s)
		}
	}
	b.sound(t, accountCount+1+1+200)
	var account string
	if err := b.db.QueryRowContext(t.Context(), `select booked from operations where seq > 0 and booked <> $1 limit 1`, hotAccount).Scan(&account); err != nil {
		t.Fatal(err)
	}
	likeService(t, model, b.row(t, account, 1))
}

// row reads the line of an account as a map from column to value.
func (b books) row(t *testing.T, account string, seq int) map[string]any {
	t.Helper()
	var raw []byte
	if err := b.db.QueryRowContext(t.Context(), `select to_jsonb(o) from operations o where booked = $1 and seq = $2`, account, seq).Scan(&raw); err != nil {
		t.Fatal(account, seq, err)
	}
	var row map[string]any
	if err := json.Unmarshal(raw, &row); err != nil {
		t.Fatal(err)
	}
	return row
}

// likeService compares everything but what differs from row to row, and of that the
// form.
func likeService(t *testing.T, model, row map[string]any) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(model)) {
		switch name {
		case "key", "transfer_key":
			written, service := text(row[name]), text(model[name])
			if len(written) != len(service) || written[14] != service[14] {
				t.Errorf("%s is %q, the service's are like %q", name, written, service)
			}
			at, err := time.Parse(time.RFC3339, text(row["first_time"]))
			if id, e := stepkey.Parse(written); err != nil || e != nil || timeOf(id).Sub(at).Abs() > time.Second {
				t.Errorf("%s is %q, which is not of %v", name, written, row["first_time"])
			}
		case "account", "booked", "first_time", "seq", "balance_after":
			if row[name] == nil || row["account"] != row["booked"] || row["seq"] != row["balance_after"] {
				t.Errorf("%s is %v in %v", name, row[name], row)
			}
		default:
			if row[name] != model[name] {
				t.Errorf("%s is %v, and the service writes %v", name, row[name], model[name])
			}
		}
	}
}

func text(value any) string { s, _ := value.(string); return s }

// timeOf reads a key's first 48 bits.
func timeOf(k stepkey.StepKey) time.Time {
	var ms int64
	for _, b := range k[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms)
}

func TestAServerThatMayLoseCommitsIsRefused(t *testing.T) {
	db := dbtest.OpenPostgres(t, dbtest.Postgres(t))
	about, err := readServer(t.Context(), db)
	if err != nil || len(about.Settings) != len(settingNames) || about.number() == "" {
		t.Fatal(about, err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(context.Background(), "set synchronous_commit = off"); err != nil {
		t.Fatal(err)
	}
	if _, err := readServer(t.Context(), db); err == nil {
		t.Error("synchronous_commit was off")
	}
}
