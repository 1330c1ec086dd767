package ledgersvc

import (
	"context"
	"fmt"
	"math/big"
	"time"

	"giro/internal/participant/store"
	"giro/internal/rpc"
	ledgerv1 "giro/proto/giro/ledger/v1"
)

// TrialBalance lists every account of the tenant with its balance, the ledger's
// own accounts included, in one snapshot. It is not paged: a page would not be a
// snapshot.
func (s *Service) TrialBalance(ctx context.Context, _ *ledgerv1.TrialBalanceRequest) (*ledgerv1.TrialBalanceResponse, error) {
	balances, readTime, err := s.engine.Store().TrialBalance(ctx, rpc.PrincipalFrom(ctx).Tenant, time.Time{})
	if err != nil {
		return nil, rpc.Unanswered(ctx, err)
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
	debits, credits := new(big.Int), new(big.Int)
	for i, b := range balances {
		balance, ok := new(big.Int).SetString(b.Balance, 10)
		if !ok {
			return nil, fmt.Errorf("ledgersvc: the balance of %s is %q, which is no number", b.Account, b.Balance)
		}
		row := &ledgerv1.TrialBalanceRow{Account: string(b.Account), Currency: string(b.Currency), Debit: "0", Credit: "0"}
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
