package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"giro/internal/pgpool"
)

const (
	attemptsMax = 8
	// pauseMax is the longest first pause between attempts; it doubles.
	pauseMax = 5 * time.Millisecond
	// transactionTimeout bounds what comes before COMMIT.
	transactionTimeout = 15 * time.Second
	// readTimeout bounds one read.
	readTimeout = 5 * time.Second
	// serverGrace is how long the server is waited for after it should have ended a
	// read by itself: a connection is kept where it does.
	serverGrace = time.Second
)

// commitError is of a COMMIT, or of a statement that commits by itself: whether it
// was carried out is not known, unless the server said so.
type commitError struct{ error }

func (e commitError) Unwrap() error { return e.error }

// querier is a connection or a transaction on it.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// read runs do, which changes nothing, and so may be run again whatever happened.
// It is for what belongs to a write or a claim.
func (s *Store) read(ctx context.Context, do func(context.Context, querier) error) error {
	return readOn(ctx, s.pool, do)
}

// view is read for callers, on connections that they share among themselves.
func (s *Store) view(ctx context.Context, do func(context.Context, querier) error) error {
	return readOn(ctx, s.views, do)
}

func readOn(ctx context.Context, pool *pgpool.Pool, do func(context.Context, querier) error) error {
	return repeat(ctx, pool, readTimeout+serverGrace, func(working context.Context, c *pgpool.Conn) error {
		return do(working, c)
	})
}

// alone runs do, one statement, which is a transaction by itself and spares the
// round trips of another.
func (s *Store) alone(ctx context.Context, do func(context.Context, querier) error) error {
	return aloneOn(ctx, s.pool, do)
}

// leasing is alone for the lease, which waits behind no other work.
func (s *Store) leasing(ctx context.Context, do func(context.Context, querier) error) error {
	return aloneOn(ctx, s.lease, do)
}

func aloneOn(ctx context.Context, pool *pgpool.Pool, do func(context.Context, querier) error) error {
	return repeat(ctx, pool, transactionTimeout, func(_ context.Context, c *pgpool.Conn) error {
		// The caller's own ctx: it reaches the wait, and never the connection.
		if err := do(ctx, c.Alone()); err != nil {
			return commitError{err}
		}
		return nil
	})
}

// transact runs do in one transaction.
func (s *Store) transact(ctx context.Context, do func(context.Context, querier) error) error {
	return repeat(ctx, s.pool, transactionTimeout, func(working context.Context, c *pgpool.Conn) error {
		if err := c.Begin(working); err != nil {
			return err
		}
		if err := do(working, c); err != nil {
			return err
		}
		if err := c.Commit(); err != nil {
			return commitError{err}
		}
		return nil
	})
}

// repeat runs do again, a few times with jitter, where the server says that
// nothing was done.
func repeat(ctx context.Context, pool *pgpool.Pool, limit time.Duration, do func(context.Context, *pgpool.Conn) error) error {
	pause := pauseMax
	for attempt := 1; ; attempt++ {
		err := pool.With(ctx, limit, do)
		if err == nil {
			return nil
		}
		if attempt == attemptsMax || !nothingDone(err) {
			return fmt.Errorf("postgres: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("postgres: %w", errors.Join(err, ctx.Err()))
		case <-time.After(rand.N(pause)):
		}
		pause *= 2
	}
}

// nothingDone says that the transaction certainly was not carried out, and that it
// is worth another try.
func nothingDone(err error) bool {
	var commit commitError
	switch pgpool.State(err) {
	case pgpool.SerializationFailure, pgpool.DeadlockDetected, pgpool.ReadOnly, pgpool.CannotConnectNow:
		return true
	case pgpool.AdminShutdown, pgpool.CrashShutdown:
		return !errors.As(err, &commit)
	}
	// Nothing was sent. pgx says so too of a COMMIT that was sent on a connection
	// that broke before its answer, so it is not asked about those.
	return !errors.As(err, &commit) && pgconn.SafeToRetry(err)
}
