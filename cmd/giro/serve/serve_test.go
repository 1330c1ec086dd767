package serve

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"giro/internal/dbtest"
	"giro/internal/retention"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// urls gives a fresh database of each kind.
func urls(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{"sqlite": "sqlite:" + dbtest.SQLite(t), "postgres": dbtest.Postgres(t)}
}

// says checks that there is an error and that it holds all of the words.
func says(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", words)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// One database cannot hold the orchestrator's tables and a participant's. The
// second is refused by every way in, and the first still serves.
func TestOneDatabaseForTwoServices(t *testing.T) {
	for _, order := range [][]Service{{Orchestrated, Accountsvc}, {Ledgersvc, Orchestrated}} {
		for name, url := range urls(t) {
			t.Run(string(order[0])+" first/"+name, func(t *testing.T) {
				if _, err := MigrateUp(t.Context(), order[0], url); err != nil {
					t.Fatal(err)
				}
				_, err := MigrateUp(t.Context(), order[1], url)
				says(t, err, "another service", "of its own")
				_, err = MigrationStatus(t.Context(), order[1], url)
				says(t, err, "another service")
				says(t, openAny(t, order[1], url), "another service")
				if err := openAny(t, order[0], url); err != nil {
					t.Errorf("the first: %v", err)
				}
			})
		}
	}
}

// Books serve under the name that served them first, again and again, and under
// no other one, whichever service it is.
func TestBooksKeepTheirParticipantsName(t *testing.T) {
	for name, url := range urls(t) {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				if served, err := serveOnce(t, Accountsvc, "wallets", url); !served || err != nil {
					t.Fatalf("served %v, %v", served, err)
				}
			}
			for _, other := range []Service{Accountsvc, Ledgersvc} {
				served, err := serveOnce(t, other, string(other), url)
				says(t, err, `"wallets"`, "--name wallets", "a database of its own")
				if served {
					t.Errorf("%s served the books of wallets", other)
				}
			}
		})
	}
}

// serveOnce serves until it is ready, and says whether it was.
func serveOnce(t *testing.T, service Service, name, url string) (ready bool, err error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err = Participant(ctx, service, ParticipantSettings{Name: name, Settings: Settings{DatabaseURL: url, Listen: "127.0.0.1:0", Migrate: true,
		StopTimeout: time.Second, Logger: slog.New(slog.DiscardHandler), Ready: func() { ready = true; stop() }}})
	return ready, err
}

// openAny opens a service's store and closes it.
func openAny(t *testing.T, service Service, url string) error {
	t.Helper()
	var store interface{ Close() error }
	var err error
	if service == Orchestrated {
		store, err = openSagas(t.Context(), url)
	} else {
		store, err = openBooks(t.Context(), url)
	}
	if err != nil {
		return err
	}
	return store.Close()
}

// TestC45UnsafeRetentionRefusesToStart: no service starts with a horizon that could
// forget a key which a transfer still needs, and nothing is opened before that.
func TestC45UnsafeRetentionRefusesToStart(t *testing.T) {
	const day = 24 * time.Hour
	for service, start := range map[Service]func(Settings, retention.Settings) error{
		Orchestrated: func(s Settings, r retention.Settings) error {
			return Orchestrator(t.Context(), OrchestratorSettings{Settings: s, Retention: r})
		},
		Accountsvc: func(s Settings, r retention.Settings) error {
			return Participant(t.Context(), Accountsvc, ParticipantSettings{Settings: s, Name: "a", Retention: r})
		},
		Ledgersvc: func(s Settings, r retention.Settings) error {
			return Participant(t.Context(), Ledgersvc, ParticipantSettings{Settings: s, Name: "l", Retention: r})
		},
	} {
		file := filepath.Join(t.TempDir(), "never.db")
		s := Settings{DatabaseURL: "sqlite:" + file, Listen: "127.0.0.1:0", Migrate: true, Logger: slog.New(slog.DiscardHandler)}
		err := start(s, retention.Settings{Horizon: 40 * day, SagaAgeMax: 35 * day})
		says(t, err, string(service), "--retention-horizon (960h0m0s)", "--saga-age-max (840h0m0s)", "--operator-window (168h0m0s)")
		var setting *SettingError
		if !errors.As(err, &setting) {
			t.Errorf("%s: %v is no mistake in a setting", service, err)
		}
		says(t, start(s, retention.Settings{Horizon: -day}), "--retention-horizon")
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("%s: a file was made: %v", service, err)
		}
	}
}
