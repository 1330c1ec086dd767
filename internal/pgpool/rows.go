package pgpool

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// rows are those of a statement that has been answered to its end. They are read
// by the caller, and so must not be read off the connection, which may be waited
// for by somebody else by then.
type rows struct {
	conn   *pgx.Conn
	fields []pgconn.FieldDescription
	values [][][]byte
	next   int // place in values
	tag    pgconn.CommandTag
}

func readAll(ctx context.Context, c *pgx.Conn, statement string, arguments []any) (*rows, error) {
	answer, err := c.Query(ctx, statement, arguments...)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	// The driver uses its memory again: everything is copied.
	all := &rows{conn: c, fields: slices.Clone(answer.FieldDescriptions())}
	for answer.Next() {
		row := slices.Clone(answer.RawValues())
		for i := range row {
			row[i] = slices.Clone(row[i]) // NULL stays nil
		}
		all.values = append(all.values, row)
	}
	all.tag = answer.CommandTag()
	return all, answer.Err()
}

func (r *rows) Close()                                       { r.next = len(r.values) + 1 }
func (r *rows) Err() error                                   { return nil }
func (r *rows) CommandTag() pgconn.CommandTag                { return r.tag }
func (r *rows) FieldDescriptions() []pgconn.FieldDescription { return r.fields }
func (r *rows) Conn() *pgx.Conn                              { return r.conn }
func (r *rows) TypeMap() *pgtype.Map                         { return r.conn.TypeMap() }
func (r *rows) RawValues() [][]byte                          { return r.values[r.next-1] }

func (r *rows) Next() bool {
	r.next = min(r.next, len(r.values)) + 1
	return r.next <= len(r.values)
}

func (r *rows) Scan(into ...any) error {
	return pgx.ScanRow(r.TypeMap(), r.fields, r.RawValues(), into...)
}

func (r *rows) Values() ([]any, error) {
	return nil, errors.New("pgpool: rows are read by Scan")
}

// firstRow is a row to scan, or why there is none.
type firstRow struct {
	rows pgx.Rows
	err  error
}

func (f firstRow) Scan(into ...any) error {
	if f.err != nil {
		return f.err
	}
	if !f.rows.Next() {
		return pgx.ErrNoRows
	}
	return f.rows.Scan(into...)
}
