package serve

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// The addresses that services listen on if nobody says otherwise.
const (
	orchestratorAddress = "127.0.0.1:7101"
	accountsvcAddress   = "127.0.0.1:7102"
	ledgersvcAddress    = "127.0.0.1:7103"
)

// Dev runs all three services in this process until ctx ends, on SQLite files in
// the folder, which is made if it is not there. ready is called once all answer.
func Dev(ctx context.Context, dir string, logger *slog.Logger, ready func()) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var up, done sync.WaitGroup
	failed := make(chan error, 3)
	run := func(service Service, listen string, serve func(Settings) error) {
		up.Add(1)
		done.Add(1)
		settings := Settings{
			DatabaseURL: "sqlite:" + filepath.Join(dir, string(service)+".db"),
			Listen:      listen, Migrate: true, StopTimeout: 5 * time.Second, Logger: logger,
			Ready: sync.OnceFunc(up.Done),
		}
		go func() {
			defer done.Done()
			if err := serve(settings); err != nil {
				failed <- err
				stop()
			}
			settings.Ready()
		}()
	}
	run(Accountsvc, accountsvcAddress, func(s Settings) error {
		return Participant(ctx, Accountsvc, ParticipantSettings{Settings: s, Name: string(Accountsvc)})
	})
	run(Ledgersvc, ledgersvcAddress, func(s Settings) error {
		return Participant(ctx, Ledgersvc, ParticipantSettings{Settings: s, Name: string(Ledgersvc)})
	})
	run(Orchestrated, orchestratorAddress, func(s Settings) error {
		return Orchestrator(ctx, OrchestratorSettings{Settings: s, Participants: map[string]string{
			string(Accountsvc): accountsvcAddress, string(Ledgersvc): ledgersvcAddress,
		}})
	})
	up.Wait()
	if ctx.Err() == nil {
		ready()
	}
	done.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}
