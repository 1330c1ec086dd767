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
)

// transientStates are the errors after which the same batch is run again.
var transientStates = map[string]bool{
	"40001": true, // serialization failure
	"40P01": true, // deadlock
	"40003": true, // it is not known whether the statement was completed
	"25006": true, // read-only: this server is not the primary any more
	"25P03": true, // the session sat idle in its transaction
	"53300": true, // too many connections
	"55P03": true, // a lock was not had in time
	"57014": true, // cancelled, by a timeout of the server's
	"57P01": true, // the server shuts down, or an operator ends the session
	"57P02": true, // the server crashed
	"57P03": true, // the server starts up or recovers
	"57P05": true, // the session was idle for too long
}

// classify wraps in store.ErrTransient what is worth another attempt: some of the
// server's words, and every failure of the connection, after which nothing is
// known. What remains is a definite no, or a mistake of this program's.
func classify(err error) error {
	var server *pgconn.PgError
	switch {
	case err == nil || errors.Is(err, store.ErrTransient):
		return err
	case errors.As(err, &server):
		if !transientStates[server.Code] && !strings.HasPrefix(server.Code, "08") {
			return err
		}
	case !isConnection(err):
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrTransient, err)
}

// classifyClosed is classify for an error after which the connection is closed.
// Whatever the error says, unless it is the server's word, nothing is known.
func classifyClosed(err error) error {
	var server *pgconn.PgError
	if errors.As(err, &server) || errors.Is(err, store.ErrTransient) {
		return classify(err)
	}
	return fmt.Errorf("%w: %w", store.ErrTransient, err)
}

func isConnection(err error) bool {
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &connect) || pgconn.Timeout(err) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, pgconn.ErrConnClosed) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// discards says whether the server's word is about this connection, so that no
// other attempt may be made on it.
func discards(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && (server.Code == "25006" || strings.HasPrefix(server.Code, "57P"))
}
