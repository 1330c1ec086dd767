package ledgersvc

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"time"

	"giro/internal/participant/book"
	"giro/internal/participant/local"
	"giro/internal/participant/store"
	"giro/internal/rpc"
	ledgerv1 "giro/proto/giro/ledger/v1"
)

// TrialBalance lists every account of the tenant with its balance, now or as of an
// instant, the ledger's own accounts included, in one snapshot. It is not paged: a
// page would not be a snapshot.
func (s *Service) TrialBalance(ctx context.Context, r *ledgerv1.TrialBalanceRequest) (*ledgerv1.TrialBalanceResponse, error) {
	var asOf time.Time
	if t := r.GetAsOfTime(); t != nil {
		asOf = t.AsTime()
		if t.CheckValid() != nil || asOf.Year() < 1970 || asOf.After(time.Now().Add(time.Minute)) {
			return nil, rpc.InvalidArgument([]rpc.Violation{{Field: "as_of_time", Description: "must be an instant from 1970 to now"}})
		}
	}
	balances, readTime, err := s.engine.Store().TrialBalance(ctx, rpc.PrincipalFrom(ctx).Tenant, asOf)
	if err != nil {
		return nil, local.Untold(ctx, err)
	}
	out, err := trialBalance(balances)
	if err != nil {
		return nil, rpc.Unanswered(ctx, err)
	}
	out.ReadTime = instant(readTime)
	return out, nil
}

// trialBalance adds up balances that are ordered by currency. Sums are big: many
// 64-bit balances may not fit 64 bits.
func trialBalance(balances []store.Balance) (*ledgerv1.TrialBalanceResponse, error) {
	out := &ledgerv1.TrialBalanceResponse{Balanced: true}
	balances = slices.DeleteFunc(balances, func(b store.Balance) bool {
		return (b.Account == book.JournalEntry || b.Account == book.Archived) && b.Balance == "0" // as they always are
	})
	debits, credits := new(big.Int), new(big.Int)
	for i, b := range balances {
		balance, ok := new(big.Int).SetString(b.Balance, 10)
		if !ok {
			return nil, fmt.Errorf("ledgersvc: the balance of %s is %q, which is no number", b.Account, b.Balance)
		}
		if p, is := book.ClearingOf(b.Account); is {
			out.Clearing = append(out.Clearing, &ledgerv1.ClearingBalance{Participant: string(p), Currency: string(b.Currency), Balance: b.Balance})
		}
		row := &ledgerv1.TrialBalanceRow{Account: string(b.Account), Currency: string(b.Currency), Debit: "0", Credit: "0", Type: typeOf(b.Class)}
		if balance.Sign() < 0 {
			row.Debit = balance.Neg(balance).String()
			debits.Add(debits, balance)
		} else {
			row.Credit = balance.String()
			credits.Add(credits, balance)
		}
		out.Rows = append(out.Rows, row)
		if i+1 < len(balances) && balances[i+1].Currency == b.Currency {
			continue
		}
		out.Totals = append(out.Totals, &ledgerv1.TrialBalanceTotal{
			Currency: string(b.Currency), Debit: debits.String(), Credit: credits.String()})
		out.Balanced = out.Balanced && debits.Cmp(credits) == 0
		debits, credits = new(big.Int), new(big.Int)
	}
	return out, nil
}
