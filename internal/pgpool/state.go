package pgpool

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// The SQLSTATEs that stores act on.
const (
	SerializationFailure = "40001"
	CompletionUnknown    = "40003" // the server does not know whether the statement was completed
	DeadlockDetected     = "40P01"
	ReadOnly             = "25006" // this server is not the primary any more
	IdleInTransaction    = "25P03" // the session sat idle in its transaction
	TooManyConnections   = "53300"
	LockNotAvailable     = "55P03" // a lock was not had in time
	QueryCancelled       = "57014" // by a time-out of the server's, or by an operator
	AdminShutdown        = "57P01" // the server shuts down, or an operator ends the session
	CrashShutdown        = "57P02"
	CannotConnectNow     = "57P03" // the server starts up or recovers
	IdleSession          = "57P05" // the session was idle for too long
	UniqueViolation      = "23505"
)

// State is the server's word in err, or empty.
func State(err error) string {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code
	}
	return ""
}

// Unfit says that the server's word is about this connection, which leads to a
// server that cannot write or is going away: no other attempt may be made on it.
func Unfit(err error) bool {
	state := State(err)
	return state == ReadOnly || strings.HasPrefix(state, "57P")
}
