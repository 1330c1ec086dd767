package server

import (
	"context"

	"google.golang.org/grpc"

	"giro/internal/names"
	"giro/internal/participant"
	"giro/internal/participant/book"
	"giro/internal/participant/local"
	"giro/internal/rpc"
	conformancev1 "giro/proto/giro/conformance/v1"
)

// Setup lets the conformance suite open, freeze, unfreeze and close accounts of
// any tenant. Whoever starts it sees to it that strangers cannot reach it.
type Setup struct {
	conformancev1.UnimplementedConformanceSetupServiceServer
	books local.Books
}

// NewSetup makes a setup server over an engine.
func NewSetup(engine *participant.Engine) *Setup { return &Setup{books: local.New(engine)} }

// Register registers the setup service.
func (s *Setup) Register(r grpc.ServiceRegistrar) {
	conformancev1.RegisterConformanceSetupServiceServer(r, s)
}

// OpenAccount opens an account.
func (s *Setup) OpenAccount(ctx context.Context, r *conformancev1.OpenAccountRequest) (*conformancev1.OpenAccountResponse, error) {
	_, err := s.books.Open(as(ctx, r.GetTenant()), r.GetKey(), r.GetAccount(), r.GetCurrency(), book.Details{})
	return &conformancev1.OpenAccountResponse{}, err
}

// FreezeAccount stops debits and credits; refunds still arrive.
func (s *Setup) FreezeAccount(ctx context.Context, r *conformancev1.FreezeAccountRequest) (*conformancev1.FreezeAccountResponse, error) {
	_, err := s.books.Freeze(as(ctx, r.GetTenant()), r.GetKey(), r.GetAccount(), "")
	return &conformancev1.FreezeAccountResponse{}, err
}

// UnfreezeAccount ends a freeze.
func (s *Setup) UnfreezeAccount(ctx context.Context, r *conformancev1.UnfreezeAccountRequest) (*conformancev1.UnfreezeAccountResponse, error) {
	_, err := s.books.Unfreeze(as(ctx, r.GetTenant()), r.GetKey(), r.GetAccount(), "")
	return &conformancev1.UnfreezeAccountResponse{}, err
}

// CloseAccount ends an account whose balance is zero.
func (s *Setup) CloseAccount(ctx context.Context, r *conformancev1.CloseAccountRequest) (*conformancev1.CloseAccountResponse, error) {
	_, err := s.books.Close(as(ctx, r.GetTenant()), r.GetKey(), r.GetAccount())
	return &conformancev1.CloseAccountResponse{}, err
}

// as is the context of a caller from the tenant that the request names.
func as(ctx context.Context, tenant string) context.Context {
	p := rpc.PrincipalFrom(ctx)
	p.Tenant = names.Tenant(tenant)
	return rpc.ContextWithPrincipal(ctx, p)
}
