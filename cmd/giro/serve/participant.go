package serve

import (
	"context"
	"errors"
	"fmt"

	"giro/accountsvc"
	"giro/internal/names"
	"giro/internal/participant"
	"giro/internal/participant/store"
	"giro/ledgersvc"

	bookspostgres "giro/internal/participant/store/postgres"
	bookssqlite "giro/internal/participant/store/sqlite"
)

// Participant runs accountsvc or ledgersvc until ctx ends, under the name that
// orchestrators register.
func Participant(ctx context.Context, service Service, name string, s Settings) error {
	if !names.Participant(name).Valid() {
		return fmt.Errorf("the name %q must be %s", name, names.PartGrammar)
	}
	if err := prepare(ctx, service, s); err != nil {
		return err
	}
	books, err := openBooks(ctx, s.DatabaseURL)
	if err != nil {
		return fmt.Errorf("%s: %w", service, err)
	}
	engine := participant.New(books, participant.Config{Name: names.Participant(name)})
	if service == Ledgersvc {
		err = answer(ctx, service, s, ledgersvc.New(engine).Register)
	} else {
		err = answer(ctx, service, s, accountsvc.New(engine).Register)
	}
	engine.Close()
	return errors.Join(err, books.Close())
}

func openBooks(ctx context.Context, databaseURL string) (store.Store, error) {
	t, err := parseTarget(databaseURL)
	if err != nil {
		return nil, err
	}
	if t.sqlite {
		return bookssqlite.Open(ctx, t.address)
	}
	return bookspostgres.Open(ctx, t.address)
}
