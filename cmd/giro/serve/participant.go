package serve

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"giro/accountsvc"
	"giro/internal/names"
	"giro/internal/participant"
	"giro/internal/participant/server"
	"giro/internal/participant/store"
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
}

// Participant runs accountsvc or ledgersvc until ctx ends.
func Participant(ctx context.Context, service Service, s ParticipantSettings) error {
	if !names.Participant(s.Name).Valid() {
		return fmt.Errorf("the name %q must be %s", s.Name, names.PartGrammar)
	}
	if s.Conformance && (s.Insecure || rpc.CheckListen(s.Listen, false) != nil) {
		return fmt.Errorf("--conformance lets every caller open, freeze and close any tenant's accounts, so it needs a loopback address, and no --insecure: "+
			"listen on 127.0.0.1, not on %q", s.Listen)
	}
	if err := prepare(ctx, service, s.Settings); err != nil {
		return err
	}
	books, err := openBooks(ctx, s.DatabaseURL)
	if err != nil {
		return fmt.Errorf("%s: %w", service, err)
	}
	engine := participant.New(books, participant.Config{Name: names.Participant(s.Name)})
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
