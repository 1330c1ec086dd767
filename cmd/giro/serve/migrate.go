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
	up, _, address, err := migrations(service, databaseURL)
	if err != nil {
		return nil, err
	}
	return list(up(ctx, address))
}

// MigrationStatus lists the migrations that this binary knows. It changes nothing.
func MigrationStatus(ctx context.Context, service Service, databaseURL string) ([]Migration, error) {
	_, status, address, err := migrations(service, databaseURL)
	if err != nil {
		return nil, err
	}
	return list(status(ctx, address))
}

type migrate func(ctx context.Context, address string) ([]schema.Applied, error)

func migrations(service Service, databaseURL string) (up, status migrate, address string, err error) {
	t, err := parseTarget(databaseURL)
	if err != nil {
		return nil, nil, "", err
	}
	switch {
	case service == Orchestrated && t.sqlite:
		return sagassqlite.Migrate, sagassqlite.MigrationStatus, t.address, nil
	case service == Orchestrated:
		return sagaspostgres.Migrate, sagaspostgres.MigrationStatus, t.address, nil
	case t.sqlite:
		return bookssqlite.Migrate, bookssqlite.MigrationStatus, t.address, nil
	}
	return bookspostgres.Migrate, bookspostgres.MigrationStatus, t.address, nil
}

func list(applied []schema.Applied, err error) ([]Migration, error) {
	all := make([]Migration, 0, len(applied))
	for _, a := range applied {
		all = append(all, Migration{Version: a.Version, Name: a.Name, At: a.AppliedAt})
	}
	return all, err
}
