package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	attemptsMax = 8
	// pauseMax is the longest first pause between attempts; it doubles.
	pauseMax = 5 * time.Millisecond
	// commitTimeout bounds a commit, which no caller's deadline cancels.
	commitTimeout = 10 * time.Second
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
func (s *Store) read(ctx context.Context, do func(context.Context, querier) error) error {
	return s.repeat(ctx, func(conn *pgxpool.Conn) error { return do(ctx, conn) })
}

// alone runs do, one statement, which is a transaction by itself and spares the
// round trips of another.
func (s *Store) alone(ctx context.Context, do func(context.Context, querier) error) error {
	return s.repeat(ctx, func(conn *pgxpool.Conn) error {
		if err := do(ctx, conn); err != nil {
			return commitError{err}
		}
		return nil
	})
}

// transact runs do in one transaction.
func (s *Store) transact(ctx context.Context, do func(context.Context, querier) error) error {
	return s.repeat(ctx, func(conn *pgxpool.Conn) error {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		if err != nil {
			return err
		}
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
		defer cancel()
		if err := do(ctx, tx); err != nil {
			return errors.Join(err, tx.Rollback(ending))
		}
		if err := tx.Commit(ending); err != nil {
			return commitError{err}
		}
		return nil
	})
}

// repeat runs do again, a few times with jitter, where the server says that
// nothing was done.
func (s *Store) repeat(ctx context.Context, do func(*pgxpool.Conn) error) error {
	pause := pauseMax
	for attempt := 1; ; attempt++ {
		err := s.withConn(ctx, do)
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

func (s *Store) withConn(ctx context.Context, do func(*pgxpool.Conn) error) error {
	waiting, cancel := context.WithTimeout(ctx, acquireTimeout)
	defer cancel()
	conn, err := s.pool.Acquire(waiting)
	if err != nil {
		return fmt.Errorf("acquire a connection: %w", err)
	}
	defer conn.Release()
	err = do(conn)
	if unfit(err) {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		err = errors.Join(err, conn.Conn().Close(closing)) // the pool drops what is closed
	}
	return err
}

// unfit says that the connection leads to a server that cannot write or is going
// away.
func unfit(err error) bool {
	switch sqlState(err) {
	case readOnly, adminShutdown, crashShutdown, cannotConnectNow:
		return true
	}
	return false
}

// nothingDone says that the transaction certainly was not carried out, and that it
// is worth another try.
func nothingDone(err error) bool {
	var commit commitError
	switch sqlState(err) {
	case serializationFailure, deadlockDetected, readOnly, cannotConnectNow:
		return true
	case adminShutdown, crashShutdown:
		return !errors.As(err, &commit)
	}
	// Nothing was sent. pgx says so too of a COMMIT that was sent on a connection
	// that broke before its answer, so it is not asked about those.
	return !errors.As(err, &commit) && pgconn.SafeToRetry(err)
}

// The SQLSTATEs that mean something here.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	readOnly             = "25006"
	adminShutdown        = "57P01"
	crashShutdown        = "57P02"
	cannotConnectNow     = "57P03"
)

func sqlState(err error) string {
	var failure *pgconn.PgError
	if errors.As(err, &failure) {
		return failure.Code
	}
	return ""
}
