package pgpool

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// deadSecondsMax is how long a host may be silent before TCP gives the connection
// up. Nothing else does: what commits has no deadline.
const deadSecondsMax = 30

// dial connects so that a dead host is noticed while a statement waits (by
// keepalive) and while bytes are not acknowledged (see control).
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
		Control:         control,
	}
	return dialer.DialContext(ctx, network, address)
}

var errNoCancel = errors.New("pgpool: a statement is never cancelled on the server")

// neverCancel keeps the driver from asking the server to cancel what a connection
// was doing when it is given up, for which it would dial once more. It goes before
// each connection, which may take several dials: other hosts, or without TLS.
func neverCancel(_ context.Context, config *pgx.ConnConfig) error {
	var connected atomic.Bool
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if connected.Load() {
			return nil, errNoCancel
		}
		return dial(ctx, network, address)
	}
	config.AfterConnect = func(context.Context, *pgconn.PgConn) error {
		connected.Store(true)
		return nil
	}
	return nil
}
