package server_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"giro/internal/participant"
	"giro/internal/participant/book"
	"giro/internal/participant/server"
	"giro/internal/participant/store/mem"
	"giro/internal/rpc/rpctest"
	conformancev1 "giro/proto/giro/conformance/v1"
)

func TestSetupChangesAnyTenantsAccountsOnce(t *testing.T) {
	books := mem.New(time.Now)
	engine := participant.New(books, participant.Config{Name: "accounts"})
	t.Cleanup(engine.Close)
	setup := conformancev1.NewConformanceSetupServiceClient(rpctest.Dial(t, rpctest.Serve(t, server.NewSetup(engine).Register)))
	ctx := t.Context()
	open := func(tenant, key string) error {
		_, err := setup.OpenAccount(ctx, &conformancev1.OpenAccountRequest{Tenant: tenant, Key: key, Account: "alice", Currency: "USD"})
		return err
	}
	state := func(when string, want book.AccountState) {
		t.Helper()
		a, err := books.Account(ctx, book.AccountID{Tenant: "acme", Account: "alice"})
		if err != nil || a.State != want {
			t.Errorf("%s: %+v %v, want state %d", when, a, err, want)
		}
	}
	for _, tenant := range []string{"acme", "acme", "zeta"} {
		if err := open(tenant, "o1"); err != nil {
			t.Fatalf("%s: %v", tenant, err)
		}
	}
	if err := open("acme", "o2"); status.Code(err) != codes.AlreadyExists {
		t.Errorf("opened under another key: %v", err)
	}
	if err := open("", "o1"); status.Code(err) != codes.InvalidArgument {
		t.Errorf("for no tenant: %v", err)
	}
	state("opened", book.StateOpen)
	if _, err := setup.FreezeAccount(ctx, &conformancev1.FreezeAccountRequest{Tenant: "acme", Key: "f", Account: "alice"}); err != nil {
		t.Fatal(err)
	}
	state("frozen", book.StateFrozen)
	if _, err := setup.UnfreezeAccount(ctx, &conformancev1.UnfreezeAccountRequest{Tenant: "acme", Key: "u", Account: "alice"}); err != nil {
		t.Fatal(err)
	}
	state("unfrozen", book.StateOpen)
	if _, err := setup.CloseAccount(ctx, &conformancev1.CloseAccountRequest{Tenant: "acme", Key: "c", Account: "alice"}); err != nil {
		t.Fatal(err)
	}
	state("closed", book.StateClosed)
}
