package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"giro/internal/participant/store"
	"giro/internal/pgpool"
)

// transientStates are the errors after which the same batch is run again.
var transientStates = map[string]bool{
	pgpool.SerializationFailure: true,
	pgpool.DeadlockDetected:     true,
	pgpool.CompletionUnknown:    true,
	pgpool.ReadOnly:             true,
	pgpool.IdleInTransaction:    true,
	pgpool.TooManyConnections:   true,
	pgpool.LockNotAvailable:     true,
	pgpool.QueryCancelled:       true,
	pgpool.AdminShutdown:        true,
	pgpool.CrashShutdown:        true,
	pgpool.CannotConnectNow:     true,
	pgpool.IdleSession:          true,
}

// classify wraps in store.ErrTransient what is worth another attempt: some of the
// server's words, and every failure of the connection, after which nothing is
// known. What remains is a definite no, or a mistake of this program's.
func classify(err error) error {
	if err == nil || errors.Is(err, store.ErrTransient) {
		return err
	}
	state := pgpool.State(err)
	transient := transientStates[state] || strings.HasPrefix(state, "08") || lostRace(err)
	if state == "" {
		transient = isConnection(err)
	}
	if !transient {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrTransient, err)
}

func isConnection(err error) bool {
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.Is(err, pgpool.ErrUnanswered) || errors.Is(err, pgpool.ErrBroken) ||
		errors.As(err, &network) || errors.As(err, &connect) || pgconn.Timeout(err) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, pgconn.ErrConnClosed) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// races are the unique keys that two batches may insert at once. The second one
// then finds what the first has stored.
var races = map[string]bool{"operations_pkey": true, "operations_refund_once": true, "accounts_pkey": true}

// lostRace says that another batch was first. No other constraint counts: that
// would be a fault.
func lostRace(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == pgpool.UniqueViolation && races[server.ConstraintName]
}
