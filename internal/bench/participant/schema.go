package main

import (
	"fmt"
	"strings"
)

const (
	tenant       = "bench"
	accountCount = 10_000
	currency     = "USD"
	counterparty = "ledgersvc/settlement"
	// hotAccount is one that nothing but the hot load touches.
	hotAccount = "hot"
)

// accountName is one of the accountCount accounts that operations are spread over.
func accountName(n int) string { return fmt.Sprintf("a%d", n) }

// column is one of the table operations, with what the service writes into it for
// a Credit of 1, as SQL over a row r (at, entropy, account, seq).
type column struct{ name, value string }

// creditColumns are all columns of operations, in the order of the table. A test
// compares them with the table and with a row that the service's store wrote.
var creditColumns = []column{
	{"tenant", `'` + tenant + `'`},
	{"key", keyOf("8") + `::uuid`},
	{"transfer_key", keyOf("7") + `::uuid::text`},
	{"step", `'credit'`},
	{"kind", `2`},
	{"account", `r.account`},
	{"amount", `1`},
	{"currency", `'` + currency + `'`},
	{"counterparty", `'` + counterparty + `'`},
	{"debit_key", `null`},
	{"outcome", `1`},
	{"reason", `0`},
	{"amount_moved", `1`},
	{"balance_after", `r.seq`},
	{"debit_outcome", `0`},
	{"first_refund_key", `null`},
	{"first_refund_moved", `0`},
	{"to_suspense", `false`},
	{"first_time", `r.at`},
	{"booked", `r.account`},
	{"against", `'clearing' || chr(58) || 'ledgersvc'`}, // pgbench takes a colon for the start of a variable
	{"delta", `1`},
	{"seq", `r.seq`},
	{"details", `''`},
}

// keyOf is a UUID of a version whose first 48 bits are the time in milliseconds,
// like the keys that clients are advised to draw and those derived from them. The
// entropy is 32 hexadecimal digits.
func keyOf(version string) string {
	return `(lpad(to_hex((extract(epoch from r.at) * 1000)::bigint), 12, '0') || '` + version +
		`' || substr(r.entropy, 1, 3) || '8' || substr(r.entropy, 4, 15))`
}

// insertCredits inserts an operation for each row of the source.
func insertCredits(source string) string {
	names, values := make([]string, len(creditColumns)), make([]string, len(creditColumns))
	for i, c := range creditColumns {
		names[i], values[i] = c.name, c.value
	}
	return "insert into operations (" + strings.Join(names, ", ") + ") select " + strings.Join(values, ", ") + " from (" + source + ") r"
}

// fill puts rows into the books of accounts without any, as if the service had
// written them during 20 of the last 24 hours, account after account. What the
// accounts hold is the sum of their lines afterwards.
func fill(rows int64) string {
	const day = `now() - interval '1 day'`
	every := fmt.Sprintf(`interval '20 hours' / %d`, rows)
	source := fmt.Sprintf(`select %s + i * (%s) as at, md5(i::text) as entropy, 'a' || i %% %d as account, i / %[3]d + 1 as seq
		from generate_series(0::bigint, %d) as i`, day, every, accountCount, rows-1)
	return `with filled as (` + insertCredits(source) + `)
		update accounts a set balance = n.credits, seq = n.credits, created_at = ` + day + `,
			updated_at = ` + day + fmt.Sprintf(` + ((n.credits - 1) * %d + n.i) * (%s)
		from (select i, (%d - 1 - i) / %[1]d + 1 as credits from generate_series(0::bigint, %[4]d) as i) as n
		where a.tenant = '`+tenant+`' and a.account = 'a' || n.i`, accountCount, every, rows, accountCount-1)
}

const randomDigits = `replace(gen_random_uuid()::text, '-', '')`

const raiseBalance = `update accounts set balance = balance + 1, seq = seq + 1, updated_at = clock_timestamp()
	where tenant = '` + tenant + `' and account = 'a' || :n returning account, seq, updated_at as at`

// The two ways in which pgbench does one transaction for each operation, on tables
// of the same schema. The faster one is what the service is held against.
var pgbenchScripts = []struct{ name, about, text string }{
	{"plain", "begin, update, insert, commit",
		pgbenchAccount + "begin;\n" + raiseBalance + " \\gset\n" +
			insertCredits(`select :at::timestamptz as at, `+randomDigits+` as entropy, 'a' || :n as account, :seq::bigint as seq`) +
			";\ncommit;\n"},
	{"one statement", "update and insert in one statement",
		pgbenchAccount + "with changed as (" + raiseBalance + ")\n" +
			insertCredits(`select at, `+randomDigits+` as entropy, account, seq from changed`) + ";\n"},
}

var pgbenchAccount = fmt.Sprintf("\\set n random(0, %d)\n", accountCount-1)
