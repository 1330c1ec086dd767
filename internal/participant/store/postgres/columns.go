package postgres

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"giro/internal/participant/book"
)

// A column has a name, a type, and what a row has there: by itself or, of many rows, as
// an array.
type column[R any] struct {
	name, sqlType string
	one           func(row R) any
	many          func(rows []R) any
}

type columns[R any] []column[R]

func field[R, C any](name, sqlType string, value func(R) C) column[R] {
	return column[R]{name, sqlType,
		func(row R) any { return value(row) },
		func(rows []R) any { return array(rows, value) }}
}

// array gives what each row has.
func array[R, C any](rows []R, value func(R) C) []C {
	values := make([]C, len(rows))
	for i, r := range rows {
		values[i] = value(r)
	}
	return values
}

var operationTable = columns[book.Stored]{
	field("tenant", "text", func(r book.Stored) string { return string(r.Tenant) }),
	field("key", "uuid", func(r book.Stored) pgtype.UUID { return uuid(r.Key) }),
	field("transfer_key", "text", func(r book.Stored) string { return string(r.TransferKey) }),
	field("step", "text", func(r book.Stored) string { return r.Step }),
	field("kind", "smallint", func(r book.Stored) int16 { return int16(r.Kind) }),
	field("account", "text", func(r book.Stored) string { return string(r.Account) }),
	field("amount", "bigint", func(r book.Stored) int64 { return int64(r.Amount) }),
	field("currency", "text", func(r book.Stored) string { return string(r.Currency) }),
	field("counterparty", "text", func(r book.Stored) string { return string(r.Counterparty) }),
	field("debit_key", "uuid", func(r book.Stored) pgtype.UUID { return uuid(r.DebitKey) }),
	field("outcome", "smallint", func(r book.Stored) int16 { return int16(r.Outcome) }),
	field("reason", "smallint", func(r book.Stored) int16 { return int16(r.Reason) }),
	field("amount_moved", "bigint", func(r book.Stored) int64 { return int64(r.AmountMoved) }),
	field("balance_after", "bigint", func(r book.Stored) int64 { return int64(r.BalanceAfter) }),
	field("debit_outcome", "smallint", func(r book.Stored) int16 { return int16(r.DebitOutcome) }),
	field("first_refund_key", "uuid", func(r book.Stored) pgtype.UUID { return uuid(r.FirstRefundKey) }),
	field("first_refund_moved", "bigint", func(r book.Stored) int64 { return int64(r.FirstRefundMoved) }),
	field("to_suspense", "boolean", func(r book.Stored) bool { return r.ToSuspense }),
	field("first_time", "timestamptz", func(r book.Stored) time.Time { return r.FirstTime }),
	field("booked", "text", func(r book.Stored) string { return string(r.Booked) }),
	field("against", "text", func(r book.Stored) string { return string(r.Against) }),
	field("delta", "bigint", func(r book.Stored) int64 { return int64(r.Delta) }),
	field("seq", "bigint", func(r book.Stored) int64 { return r.Seq }),
}

// detailedTable is operationTable with what only local operations have.
var detailedTable = append(slices.Clone(operationTable),
	field("details", "text", func(r book.Stored) string { return r.Details }))

var eventTable = columns[book.Event]{
	field("created_at", "timestamptz", func(r book.Event) time.Time { return r.Time }),
	field("tenant", "text", func(r book.Event) string { return string(r.Tenant) }),
	field("id", "uuid", func(r book.Event) pgtype.UUID { return uuid(r.ID) }),
	field("type", "text", func(r book.Event) string { return r.Type }),
	field("key", "uuid", func(r book.Event) pgtype.UUID { return uuid(r.Key) }),
}

var accountTable = columns[book.Account]{
	field("tenant", "text", func(r book.Account) string { return string(r.Tenant) }),
	field("account", "text", func(r book.Account) string { return string(r.AccountID.Account) }),
	field("currency", "text", func(r book.Account) string { return string(r.Currency) }),
	field("balance", "bigint", func(r book.Account) int64 { return int64(r.Balance) }),
	field("floor", "bigint", func(r book.Account) int64 { return int64(r.Floor) }),
	field("state", "smallint", func(r book.Account) int16 { return int16(r.State) }),
	field("seq", "bigint", func(r book.Account) int64 { return r.Seq }),
	field("created_at", "timestamptz", func(r book.Account) time.Time { return r.CreatedAt }),
	field("updated_at", "timestamptz", func(r book.Account) time.Time { return r.UpdatedAt }),
	field("debit_max", "bigint", func(r book.Account) int64 { return int64(r.DebitMax) }),
	field("day_max", "bigint", func(r book.Account) int64 { return int64(r.DayMax) }),
	field("day_zone", "text", func(r book.Account) string { return r.DayZone }),
	field("spent_on", "bigint", func(r book.Account) int64 { return r.SpentOn }),
	field("spent", "bigint", func(r book.Account) int64 { return int64(r.Spent) }),
	field("state_reason", "text", func(r book.Account) string { return r.StateReason }),
	field("holder", "text", func(r book.Account) string { return r.Holder }),
	field("class", "smallint", func(r book.Account) int16 { return int16(r.Class) }),
	field("day_from", "bigint", func(r book.Account) int64 { return r.DayFrom }),
}

// accountKey is what accounts are found by; it stands first in their table.
const accountKey = 2

// changedTable is what moving money changes of an account, amendedTable whatever can
// change.
var (
	changedTable = accountTable.only("tenant", "account", "balance", "seq", "updated_at")
	amendedTable = accountTable.only("tenant", "account", "balance", "floor", "state", "seq", "updated_at", "debit_max",
		"day_max", "day_zone", "spent_on", "spent", "state_reason", "holder", "day_from")
)

func (c columns[R]) only(names ...string) columns[R] {
	return slices.DeleteFunc(slices.Clone(c), func(one column[R]) bool { return !slices.Contains(names, one.name) })
}

// each says something of each column, whose parameter is $1 for the first.
func (c columns[R]) each(say func(parameter string, one column[R]) string) []string {
	said := make([]string, len(c))
	for i, one := range c {
		said[i] = say(fmt.Sprintf("$%d::%s", i+1, one.sqlType), one)
	}
	return said
}

func (c columns[R]) names() string {
	return strings.Join(array(c, func(one column[R]) string { return one.name }), ", ")
}

// of gives the columns' names as those of a table with that alias.
func (c columns[R]) of(alias string) string {
	return strings.Join(array(c, func(one column[R]) string { return alias + "." + one.name }), ", ")
}

// rows gives rows of which each column is an array.
func (c columns[R]) rows() string {
	arrays := c.each(func(parameter string, _ column[R]) string { return parameter + "[]" })
	return "unnest(" + strings.Join(arrays, ", ") + ")"
}

// A writing is one statement for any number of rows, or a simpler one for one row.
// The server spends as much on the arrays of a single row as on writing it.
type writing[R any] struct {
	columns[R]
	one, many string
}

func inserting[R any](table string, c columns[R]) writing[R] {
	into := "insert into " + table + " (" + c.names() + ") "
	parameters := c.each(func(parameter string, _ column[R]) string { return parameter })
	return writing[R]{columns: c,
		one:  into + "values (" + strings.Join(parameters, ", ") + ")",
		many: into + "select * from " + c.rows(),
	}
}

// updating sets all columns of rows that are found by the first ones.
func updating[R any](table string, c columns[R], key int) writing[R] {
	given := c.each(func(parameter string, one column[R]) string { return one.name + " = " + parameter })
	found := c.each(func(_ string, one column[R]) string { return "old." + one.name + " = new." + one.name })
	set := c.each(func(_ string, one column[R]) string { return one.name + " = new." + one.name })
	return writing[R]{columns: c,
		one: "update " + table + " set " + strings.Join(given[key:], ", ") + " where " + strings.Join(given[:key], " and "),
		many: "update " + table + " old set " + strings.Join(set[key:], ", ") + " from " + c.rows() +
			" as new (" + c.names() + ") where " + strings.Join(found[:key], " and "),
	}
}

// queue adds the statement that writes the rows; none for none.
func (w writing[R]) queue(batch *pgx.Batch, rows []R) {
	switch len(rows) {
	case 0:
	case 1:
		batch.Queue(w.one, w.ofOne(rows[0])...)
	default:
		batch.Queue(w.many, w.ofMany(rows)...)
	}
}

func (c columns[R]) ofOne(row R) []any {
	return array(c, func(one column[R]) any { return one.one(row) })
}

func (c columns[R]) ofMany(rows []R) []any {
	return array(c, func(one column[R]) any { return one.many(rows) })
}
