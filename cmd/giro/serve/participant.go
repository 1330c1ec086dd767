package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"giro/accountsvc"
	"giro/internal/names"
	"giro/internal/participant"
	"giro/internal/participant/server"
	"giro/internal/participant/store"
	"giro/internal/retention"
	"giro/internal/rpc"
	"giro/ledgersvc"

	bookspostgres "giro/internal/participant/store/postgres"
	bookssqlite "giro/internal/participant/store/sqlite"
)

// ParticipantSettings are what accountsvc and ledgersvc need besides.
type ParticipantSettings struct {
	Settings
	// Name is the one under which orchestrators register it.
	Name string
	// Conformance serves the setup calls of the conformance suite too.
	Conformance bool
	// Retention says how long keys are kept.
	Retention retention.Settings
}

// Participant runs accountsvc or ledgersvc until ctx ends.
func Participant(ctx context.Context, service Service, s ParticipantSettings) error {
	if !names.Participant(s.Name).Valid() {
		return wrongSetting("the name %q must be %s", s.Name, names.PartGrammar)
	}
	if err := s.Retention.Check(); err != nil {
		return wrongSetting("%s: %v", service, err)
	}
	if s.Conformance && (s.Insecure || rpc.CheckListen(s.Listen, false) != nil) {
		return wrongSetting("--conformance lets every caller open, freeze and close any tenant's accounts, so it needs a loopback address, and no --insecure: "+
			"listen on 127.0.0.1, not on %q", s.Listen)
	}
	if err := prepare(ctx, service, s.Settings); err != nil {
		return err
	}
	starting, cancelStart := context.WithTimeout(ctx, startTimeout)
	defer cancelStart()
	books, err := openBooks(starting, s.DatabaseURL)
	if err != nil {
		return fmt.Errorf("%s: %w", service, err)
	}
	err = again(starting, func() error { return claim(starting, books, names.Participant(s.Name)) })
	if err == nil {
		err = again(starting, func() error { return books.KeepFor(starting, s.Retention.Horizon) })
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", service, err), books.Close())
	}
	engine := participant.New(books, participant.Config{
		Name: names.Participant(s.Name), Logger: s.Logger.With("service", service)})
	err = answer(ctx, service, s.Settings, func(r grpc.ServiceRegistrar) {
		if service == Ledgersvc {
			ledgersvc.New(engine).Register(r)
		} else {
			accountsvc.New(engine).Register(r)
		}
		if s.Conformance {
			s.Logger.Warn("FOR CONFORMANCE TESTS ONLY: every caller may open, freeze, unfreeze and close the accounts of any tenant; "+
				"never start it so over books that count", "service", service)
			server.NewSetup(engine).Register(r)
		}
	})
	engine.Close()
	return errors.Join(err, books.Close())
}

// again does what may be done again for as long as the store asks for it: no start
// fails because one answer was lost.
func again(ctx context.Context, do func() error) error {
	for {
		err := do()
		if !errors.Is(err, store.ErrTransient) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
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
