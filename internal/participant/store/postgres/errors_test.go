package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"giro/internal/participant/store"
	"giro/internal/pgpool"
)

func TestClassify(t *testing.T) {
	transient := []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.DeadlineExceeded, context.Canceled,
		pgconn.ErrConnClosed, pgpool.ErrBroken, pgpool.ErrUnanswered, &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}}
	for _, code := range []string{"40001", "40P01", "40003", "25006", "57P01", "57P02", "57P03", "08000", "08003", "08006", "55P03", "53300"} {
		transient = append(transient, &pgconn.PgError{Code: code})
	}
	for _, err := range transient {
		wrapped := classify(fmt.Errorf("add operations: %w", err))
		if !errors.Is(wrapped, store.ErrTransient) || !errors.Is(wrapped, err) {
			t.Errorf("%v became %v", err, wrapped)
		}
		if again := classify(wrapped); again != wrapped {
			t.Errorf("classified twice: %v", again)
		}
	}
	plain := []error{errors.New("a mistake"), nil}
	for _, code := range []string{"23514", "23505", "23503", "22003", "42P01", "42601", "53100", "XX001", "28P01"} {
		plain = append(plain, &pgconn.PgError{Code: code})
	}
	for _, err := range plain {
		if got := classify(err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}
