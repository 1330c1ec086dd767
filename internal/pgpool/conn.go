package pgpool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	// ErrUnanswered is returned where what commits has not been answered in time:
	// whether it is done is not known.
	ErrUnanswered = errors.New("the database has not answered yet; whether it was done is not known")
	// ErrBroken marks errors after which the connection is gone and the server has
	// not said why: whether the last statement was done is not known.
	ErrBroken = errors.New("the connection to the database broke")
)

// Conn is a connection during one unit of work.
type Conn struct {
	*pgx.Conn
	taken     *pgxpool.Conn
	answerMax time.Duration
	// held: the caller has gone, and the connection goes back when it is answered.
	held bool
}

// Begin starts a transaction.
func (c *Conn) Begin(ctx context.Context) error {
	_, err := c.Exec(ctx, "begin isolation level read committed")
	return err
}

// Commit ends the transaction. No deadline of anybody's reaches the server; see
// ErrUnanswered.
func (c *Conn) Commit() error {
	tag, err := await(context.Background(), c, func(ctx context.Context) (pgconn.CommandTag, error) {
		return c.Exec(ctx, "commit")
	})
	return committed(tag, err)
}

func committed(tag pgconn.CommandTag, err error) error {
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if tag.String() != "COMMIT" {
		return fmt.Errorf("commit: the server answered %s", tag)
	}
	return nil
}

// CommitBatch runs the statements in order and ends the transaction, in one round
// trip. After one that fails nothing more is run, so that nothing is committed.
// The batch is not used afterwards. See Commit.
func (c *Conn) CommitBatch(batch *pgx.Batch) error {
	batch.Queue("commit")
	tag, err := await(context.Background(), c, func(ctx context.Context) (pgconn.CommandTag, error) {
		results := c.SendBatch(ctx, batch)
		var tag pgconn.CommandTag
		var err error
		for i := 0; i < batch.Len() && err == nil; i++ {
			tag, err = results.Exec()
		}
		if closed := results.Close(); err == nil {
			err = closed
		}
		return tag, err
	})
	return committed(tag, err)
}

// Alone gives c for statements each of which is a transaction by itself.
func (c *Conn) Alone() Alone { return Alone{c} }

// Alone runs statements that commit by themselves. A ctx bounds the caller's wait
// alone, and never reaches the server; see ErrUnanswered.
type Alone struct{ c *Conn }

// Query runs a statement and gives its rows, all of which have arrived.
func (a Alone) Query(ctx context.Context, statement string, arguments ...any) (pgx.Rows, error) {
	all, err := await(ctx, a.c, func(ctx context.Context) (*rows, error) {
		return readAll(ctx, a.c.Conn, statement, arguments)
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// QueryRow runs a statement and gives its first row.
func (a Alone) QueryRow(ctx context.Context, statement string, arguments ...any) pgx.Row {
	all, err := a.Query(ctx, statement, arguments...)
	return firstRow{all, err}
}

// Exec runs a statement.
func (a Alone) Exec(ctx context.Context, statement string, arguments ...any) (pgconn.CommandTag, error) {
	return await(ctx, a.c, func(ctx context.Context) (pgconn.CommandTag, error) {
		return a.c.Exec(ctx, statement, arguments...)
	})
}

// await sends what commits, with no deadline, and waits for its answer, but not
// for ever. Where the caller goes first, the connection stays out of the pool
// until the answer has come: so the pool bounds how many of the server's processes
// wait. send shares nothing with the caller.
func await[T any](ctx context.Context, c *Conn, send func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if c.held {
		return none, ErrUnanswered
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := send(context.Background())
		answers <- answer{value, err}
	}()
	bound := time.NewTimer(c.answerMax)
	defer bound.Stop()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
	case <-bound.C:
	}
	c.held = true
	go func() {
		a := <-answers
		_ = c.settle(a.err) // nobody is left to be told
		c.taken.Release()
	}()
	return none, errors.Join(ErrUnanswered, ctx.Err())
}

// settle leaves nothing open after an error, and closes a connection that must not
// be used again; the pool drops what is closed.
func (c *Conn) settle(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), settleSecondsMax*time.Second)
	defer cancel()
	switch {
	case c.IsClosed():
		if State(err) == "" {
			return fmt.Errorf("%w: %w", ErrBroken, err)
		}
	case Unfit(err):
		return errors.Join(err, c.Close(ctx))
	case c.PgConn().TxStatus() != 'I':
		if _, rollback := c.Exec(ctx, "rollback"); rollback != nil {
			_ = c.Close(ctx) // the server rolls back when it notices
		}
	}
	return err
}
