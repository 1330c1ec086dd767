package pgpool

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// settings asks for what decides whether an answer holds. What a server does not
// have, as the distributed engines do not, is empty.
const settings = `select current_setting('transaction_read_only'), coalesce(current_setting('fsync', true), ''),
	coalesce(current_setting('synchronous_commit', true), ''), coalesce(current_setting('synchronous_standby_names', true), '')`

// mustServe refuses, on every new connection, a server that cannot write (a
// standby may lag: not even reads go there) or whose commits may be lost after
// they were answered. What the URL asks for (target_session_attrs) holds too.
func mustServe(asked pgconn.ValidateConnectFunc) pgconn.ValidateConnectFunc {
	return func(ctx context.Context, c *pgconn.PgConn) error {
		results, err := c.Exec(ctx, settings).ReadAll()
		if err != nil {
			return err
		}
		if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != 4 {
			return errors.New("the server did not tell its settings")
		}
		row := results[0].Rows[0]
		if err := judge(string(row[0]), string(row[1]), string(row[2]), string(row[3])); err != nil {
			return err
		}
		if asked == nil {
			return nil
		}
		return asked(ctx, c) // as it is: the driver looks at the error's type
	}
}

func judge(readOnly, fsync, commit, standbys string) error {
	switch {
	case readOnly == "on":
		return fmt.Errorf("%w: it is a standby, or set to read only; give the primary's address", pgconn.ErrReadOnlyConnection)
	case fsync == "off":
		return errors.New("fsync is off: a crash of the host would lose what was answered; set it on")
	case commit == "off":
		return errors.New("synchronous_commit is off for this user or database: an answer could be lost after it was given; set it on")
	case commit == "local" && standbys != "":
		return errors.New("synchronous_commit is local though there are synchronous_standby_names: " +
			"a failover would lose what was answered; set it on")
	}
	return nil
}
