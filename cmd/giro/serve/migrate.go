package serve

import (
	"context"
	"time"

	"giro/internal/schema"

	bookspostgres "giro/internal/participant/store/postgres"
	bookssqlite "giro/internal/participant/store/sqlite"
	sagaspostgres "giro/orchestrator/store/postgres"
	sagassqlite "giro/orchestrator/store/sqlite"
)

// Migration is one step of a schema; At is zero where it was not applied yet.
type Migration struct {
	Version int64
	Name    string
	At      time.Time
}

// MigrateUp applies what is missing and lists it.
func MigrateUp(ctx context.Context, service Service, databaseURL string) ([]Migration, error) {
	t, err := parseTarget(databaseURL)
	if err != nil {
		return nil, err
	}
	up, _ := migrations(service, t)
	applied, err := list(up(ctx, t.address))
	return applied, t.explain(err)
}

// MigrationStatus lists the migrations that this binary knows. It changes nothing.
func MigrationStatus(ctx context.Context, service Service, databaseURL string) ([]Migration, error) {
	t, err := parseTarget(databaseURL)
	if err != nil {
		return nil, err
	}
	_, status := migrations(service, t)
	known, err := list(status(ctx, t.address))
	return known, t.explain(err)
}

type migrate func(ctx context.Context, address string) ([]schema.Applied, error)

func migrations(service Service, t target) (up, status migrate) {
	switch {
	case service == Orchestrated && t.sqlite:
		return sagassqlite.Migrate, sagassqlite.MigrationStatus
	case service == Orchestrated:
		return sagaspostgres.Migrate, sagaspostgres.MigrationStatus
	case t.sqlite:
		return bookssqlite.Migrate, bookssqlite.MigrationStatus
	}
	return bookspostgres.Migrate, bookspostgres.MigrationStatus
}

func list(applied []schema.Applied, err error) ([]Migration, error) {
	all := make([]Migration, 0, len(applied))
	for _, a := range applied {
		all = append(all, Migration{Version: a.Version, Name: a.Name, At: a.AppliedAt})
	}
	return all, err
}
