package accountsvc

import (
	"context"
	"time"

	"giro/internal/money"
	"giro/internal/participant/book"
	accountv1 "giro/proto/giro/account/v1"
)

// Withdraw pays money out to the outside, against an external account.
func (s *Service) Withdraw(ctx context.Context, r *accountv1.WithdrawRequest) (*accountv1.WithdrawResponse, error) {
	c, err := s.books.Withdraw(ctx, r.GetKey(), r.GetAccount(), r.GetAmount(), r.GetCurrency(), r.GetExternal())
	if err != nil {
		return nil, err
	}
	return &accountv1.WithdrawResponse{BalanceAfter: int64(c.BalanceAfter), Replayed: c.Replayed, FirstTime: instant(c.FirstTime)}, nil
}

// SetTerms replaces what was agreed for an account.
func (s *Service) SetTerms(ctx context.Context, r *accountv1.SetTermsRequest) (*accountv1.SetTermsResponse, error) {
	c, err := s.books.SetTerms(ctx, r.GetKey(), r.GetAccount(), details(r.GetTerms(), nil).Terms)
	if err != nil {
		return nil, err
	}
	return &accountv1.SetTermsResponse{Account: account(c.Account), Replayed: c.Replayed, FirstTime: instant(c.FirstTime)}, nil
}

// SetHolder replaces what is kept about an account's holder.
func (s *Service) SetHolder(ctx context.Context, r *accountv1.SetHolderRequest) (*accountv1.SetHolderResponse, error) {
	c, err := s.books.SetHolder(ctx, r.GetKey(), r.GetAccount(), r.GetHolder())
	if err != nil {
		return nil, err
	}
	return &accountv1.SetHolderResponse{Account: account(c.Account), Replayed: c.Replayed, FirstTime: instant(c.FirstTime)}, nil
}

func details(t *accountv1.Terms, holder map[string]string) book.Details {
	return book.Details{Holder: holder, Terms: book.Terms{Overdraft: money.Minor(t.GetOverdraft()),
		DebitMax: money.Minor(t.GetDebitMax()), DayMax: money.Minor(t.GetDayMax()), DayZone: t.GetDayZone()}}
}

func terms(t book.Terms) *accountv1.Terms {
	return &accountv1.Terms{Overdraft: int64(t.Overdraft), DebitMax: int64(t.DebitMax), DayMax: int64(t.DayMax), DayZone: t.DayZone}
}

// dayText writes a day, which is numbered from 1970; empty for none.
func dayText(day int64) string {
	if day == 0 {
		return ""
	}
	return time.Unix(day*24*60*60, 0).UTC().Format(time.DateOnly)
}
