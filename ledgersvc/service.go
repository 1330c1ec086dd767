// Package ledgersvc keeps the general ledger: an API of its own, and a
// participant's, over the same books.
package ledgersvc

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"giro/internal/participant"
	"giro/internal/participant/book"
	"giro/internal/participant/local"
	"giro/internal/participant/server"
	ledgerv1 "giro/proto/giro/ledger/v1"
)

// Service answers LedgerService. The tenant is the caller's. Requests are judged
// by their protos' rules before they come here.
type Service struct {
	ledgerv1.UnimplementedLedgerServiceServer
	books       local.Books
	engine      *participant.Engine
	participant *server.Server
}

// New makes the service over an engine, which the caller closes.
func New(engine *participant.Engine) *Service {
	return &Service{books: local.New(engine), engine: engine, participant: server.New(engine)}
}

// Register registers LedgerService and the participant's service.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	ledgerv1.RegisterLedgerServiceServer(r, s)
	s.participant.Register(r)
}

// OpenAccount opens an account. A replay answers with the account as it now stands.
func (s *Service) OpenAccount(ctx context.Context, r *ledgerv1.OpenAccountRequest) (*ledgerv1.OpenAccountResponse, error) {
	c, err := s.books.Open(ctx, r.GetKey(), r.GetAccount(), r.GetCurrency(), book.Details{Class: classOf(r.GetType())})
	if err != nil {
		return nil, err
	}
	return &ledgerv1.OpenAccountResponse{Account: account(c.Account), Replayed: c.Replayed, FirstTime: instant(c.FirstTime)}, nil
}

// GetAccount shows one account.
func (s *Service) GetAccount(ctx context.Context, r *ledgerv1.GetAccountRequest) (*ledgerv1.GetAccountResponse, error) {
	a, err := s.books.Get(ctx, r.GetAccount())
	if err != nil {
		return nil, err
	}
	return &ledgerv1.GetAccountResponse{Account: account(a)}, nil
}

// ListAccounts lists the tenant's accounts by name.
func (s *Service) ListAccounts(ctx context.Context, r *ledgerv1.ListAccountsRequest) (*ledgerv1.ListAccountsResponse, error) {
	accounts, next, err := s.books.List(ctx, r.GetPageSize(), r.GetPageToken())
	if err != nil {
		return nil, err
	}
	out := &ledgerv1.ListAccountsResponse{NextPageToken: next}
	for _, a := range accounts {
		out.Accounts = append(out.Accounts, account(a))
	}
	return out, nil
}

// Freeze stops debits and credits; refunds still arrive.
func (s *Service) Freeze(ctx context.Context, r *ledgerv1.FreezeRequest) (*ledgerv1.FreezeResponse, error) {
	c, err := s.books.Freeze(ctx, r.GetKey(), r.GetAccount(), r.GetReason())
	if err != nil {
		return nil, err
	}
	return &ledgerv1.FreezeResponse{Account: account(c.Account), Replayed: c.Replayed, FirstTime: instant(c.FirstTime)}, nil
}

// Unfreeze ends a freeze.
func (s *Service) Unfreeze(ctx context.Context, r *ledgerv1.UnfreezeRequest) (*ledgerv1.UnfreezeResponse, error) {
	c, err := s.books.Unfreeze(ctx, r.GetKey(), r.GetAccount(), r.GetReason())
	if err != nil {
		return nil, err
	}
	return &ledgerv1.UnfreezeResponse{Account: account(c.Account), Replayed: c.Replayed, FirstTime: instant(c.FirstTime)}, nil
}

// Close ends an account whose balance is zero.
func (s *Service) Close(ctx context.Context, r *ledgerv1.CloseRequest) (*ledgerv1.CloseResponse, error) {
	c, err := s.books.Close(ctx, r.GetKey(), r.GetAccount())
	if err != nil {
		return nil, err
	}
	return &ledgerv1.CloseResponse{Account: account(c.Account), Replayed: c.Replayed, FirstTime: instant(c.FirstTime)}, nil
}

func account(a book.Account) *ledgerv1.Account {
	return &ledgerv1.Account{
		Account:     string(a.Account),
		Currency:    string(a.Currency),
		Balance:     int64(a.Balance),
		Floor:       int64(a.Floor),
		State:       ledgerv1.AccountState(a.State), // the same numbers, pinned by a test
		CreateTime:  instant(a.CreatedAt),
		UpdateTime:  instant(a.UpdatedAt),
		StateReason: a.StateReason,
		Type:        typeOf(a.Class),
		NormalSide:  normalSide(a.Class),
	}
}

func instant(t time.Time) *timestamppb.Timestamp { return timestamppb.New(t) }
