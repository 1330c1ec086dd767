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
		return wrongSetting("the name %q must be %s", name, names.PartGrammar)
	}
	if err := prepare(ctx, service, s); err != nil {
		return err
	}
	starting, cancelStart := context.WithTimeout(ctx, startTimeout)
	defer cancelStart()
	books, err := openBooks(starting, s.DatabaseURL)
	if err != nil {
		return fmt.Errorf("%s: %w", service, err)
	}
	if err := claim(starting, books, names.Participant(name)); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", service, err), books.Close())
	}
	engine := participant.New(books, participant.Config{
		Name: names.Participant(name), Logger: s.Logger.With("service", service)})
	if service == Ledgersvc {
		err = answer(ctx, service, s, ledgersvc.New(engine).Register)
	} else {
		err = answer(ctx, service, s, accountsvc.New(engine).Register)
	}
	engine.Close()
	return errors.Join(err, books.Close())
}

// claim refuses another participant's books. Two that shared one set of books would
// see each other's accounts, and one that took another name would leave behind all
// that is in transit under the old one.
func claim(ctx context.Context, books store.Store, name names.Participant) error {
	owner, err := books.Claim(ctx, name)
	if err != nil {
		return err
	}
	if owner != name {
		return fmt.Errorf("the books in this database are those of participant %q: serve them under that name (--name %s), or give %q a database of its own",
			owner, owner, name)
	}
	return nil
}

func openBooks(ctx context.Context, databaseURL string) (store.Store, error) {
	t, err := parseTarget(databaseURL)
	if err != nil {
		return nil, err
	}
	open := func() (store.Store, error) { return bookspostgres.Open(ctx, t.address) }
	if t.sqlite {
		open = func() (store.Store, error) { return bookssqlite.Open(ctx, t.address) }
	}
	books, err := open()
	if err != nil {
		return nil, t.explain(err)
	}
	return books, nil
}
