package dbtest

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Set changes a setting of the server and returns when it holds, for connections
// that are there too.
func (s *Server) Set(name, value string) {
	s.t.Helper()
	s.ask("alter system set " + name + " = '" + value + "'")
	s.ask("select pg_reload_conf()")
	s.poll("the setting", func() bool { return s.ask("select current_setting('"+name+"')") == value })
}

// waiting asks how many of the server's processes wait for a standby.
const waiting = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'"

// LoseStandby makes every COMMIT on the server wait for a synchronous standby that
// is not there. It returns when they do.
func (s *Server) LoseStandby() {
	s.t.Helper()
	s.Set("synchronous_standby_names", "gone")
	// A process of the server's own takes the setting up, some time after sessions
	// have it.
	s.poll("the wait for the standby", func() bool {
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.ask("select pg_logical_emit_message(true, 'probe', 'probe')::text")
		}()
		waits := false
		s.poll("the probe", func() bool {
			waits = s.ask(waiting) != "0"
			select {
			case <-done:
				return true
			default:
				return waits
			}
		})
		if waits {
			s.ask("select pg_cancel_backend(pid)::text from pg_stat_activity where wait_event = 'SyncRep'")
		}
		<-done
		return waits
	})
}

// ForgetStandby ends the wait of every COMMIT, as done.
func (s *Server) ForgetStandby() {
	s.t.Helper()
	s.Set("synchronous_standby_names", "")
}

// ask runs a statement on a connection of its own and gives its first value, if
// it has one.
func (s *Server) ask(statement string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), adminLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.own.URL("postgres"))
	if err != nil {
		s.t.Error(err)
		return ""
	}
	defer conn.Close(ctx)
	results, err := conn.PgConn().Exec(ctx, statement).ReadAll()
	if err != nil {
		s.t.Errorf("%s: %v", statement, err)
		return ""
	}
	if len(results) == 0 || len(results[0].Rows) == 0 {
		return ""
	}
	return string(results[0].Rows[0][0])
}

func (s *Server) poll(what string, ask func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(adminLimit); !ask(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s does not hold after %v", what, adminLimit)
		}
	}
}
