// Package accountsvc keeps customers' accounts: an API of its own, and a
// participant's, over the same books.
package accountsvc

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"giro/internal/participant"
	"giro/internal/participant/book"
	"giro/internal/participant/local"
	"giro/internal/participant/server"
	accountv1 "giro/proto/giro/account/v1"
)

// Service answers AccountService. The tenant is the caller's. Requests are judged
// by their protos' rules before they come here.
type Service struct {
	accountv1.UnimplementedAccountServiceServer
	books       local.Books
	participant *server.Server
}

// New makes the service over an engine, which the caller closes.
func New(engine *participant.Engine) *Service {
	return &Service{books: local.New(engine), participant: server.New(engine)}
}

// Register registers AccountService and the participant's service.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	accountv1.RegisterAccountServiceServer(r, s)
	s.participant.Register(r)
}

// OpenAccount opens an account. A replay answers with the account as it now stands.
func (s *Service) OpenAccount(ctx context.Context, r *accountv1.OpenAccountRequest) (*accountv1.OpenAccountResponse, error) {
	c, err := s.books.Open(ctx, r.GetKey(), r.GetAccount(), r.GetCurrency(), details(r.GetTerms(), r.GetHolder()))
	if err != nil {
		return nil, err
	}
	return &accountv1.OpenAccountResponse{Account: account(c.Account), Replayed: c.Replayed, FirstTime: instant(c.FirstTime)}, nil
}

// GetAccount shows one account.
func (s *Service) GetAccount(ctx context.Context, r *accountv1.GetAccountRequest) (*accountv1.GetAccountResponse, error) {
	a, err := s.books.Get(ctx, r.GetAccount())
	if err != nil {
		return nil, err
	}
	return &accountv1.GetAccountResponse{Account: account(a)}, nil
}

// ListAccounts lists the tenant's accounts by name.
func (s *Service) ListAccounts(ctx context.Context, r *accountv1.ListAccountsRequest) (*accountv1.ListAccountsResponse, error) {
	accounts, next, err := s.books.List(ctx, r.GetPageSize(), r.GetPageToken())
	if err != nil {
		return nil, err
	}
	out := &accountv1.ListAccountsResponse{NextPageToken: next}
	for _, a := range accounts {
		out.Accounts = append(out.Accounts, account(a))
	}
	return out, nil
}

// Deposit brings money in from outside, against an external account.
func (s *Service) Deposit(ctx context.Context, r *accountv1.DepositRequest) (*accountv1.DepositResponse, error) {
	c, err := s.books.Deposit(ctx, r.GetKey(), r.GetAccount(), r.GetAmount(), r.GetCurrency(), r.GetExternal())
	if err != nil {
		return nil, err
	}
	return &accountv1.DepositResponse{BalanceAfter: int64(c.BalanceAfter), Replayed: c.Replayed, FirstTime: instant(c.FirstTime)}, nil
}

// Freeze stops debits and credits; refunds still arrive.
func (s *Service) Freeze(ctx context.Context, r *accountv1.FreezeRequest) (*accountv1.FreezeResponse, error) {
	c, err := s.books.Freeze(ctx, r.GetKey(), r.GetAccount(), r.GetReason())
	if err != nil {
		return nil, err
	}
	return &accountv1.FreezeResponse{Account: account(c.Account), Replayed: c.Replayed, FirstTime: instant(c.FirstTime)}, nil
}

// Unfreeze ends a freeze.
func (s *Service) Unfreeze(ctx context.Context, r *accountv1.UnfreezeRequest) (*accountv1.UnfreezeResponse, error) {
	c, err := s.books.Unfreeze(ctx, r.GetKey(), r.GetAccount(), r.GetReason())
	if err != nil {
		return nil, err
	}
	return &accountv1.UnfreezeResponse{Account: account(c.Account), Replayed: c.Replayed, FirstTime: instant(c.FirstTime)}, nil
}

// Close ends an account whose balance is zero.
func (s *Service) Close(ctx context.Context, r *accountv1.CloseRequest) (*accountv1.CloseResponse, error) {
	c, err := s.books.Close(ctx, r.GetKey(), r.GetAccount())
	if err != nil {
		return nil, err
	}
	return &accountv1.CloseResponse{Account: account(c.Account), Replayed: c.Replayed, FirstTime: instant(c.FirstTime)}, nil
}

func account(a book.Account) *accountv1.Account {
	return &accountv1.Account{
		Account:     string(a.Account),
		Currency:    string(a.Currency),
		Balance:     int64(a.Balance),
		Floor:       int64(a.Floor),
		State:       accountv1.AccountState(a.State), // the same numbers, pinned by a test
		CreateTime:  instant(a.CreatedAt),
		UpdateTime:  instant(a.UpdatedAt),
		StateReason: a.StateReason,
		Terms:       terms(a.TermsOf()),
		Holder:      a.HolderOf(),
		Spent:       int64(a.Spent),
		SpentDay:    dayText(a.SpentOn),
	}
}

func instant(t time.Time) *timestamppb.Timestamp { return timestamppb.New(t) }
