package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/big"
	"slices"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
)

// sumHigh and sumLow add up amounts as two sums, of the high and the low 32 bits,
// because SQLite's sum fails where it leaves 64 bits.
const (
	sumHigh = `coalesce(sum(l.amount >> 32), 0)`
	sumLow  = `coalesce(sum(l.amount & 4294967295), 0)`
)

// lines are both sides of every entry. Each ?1 is the tenant, or empty for all of
// them.
const lines = `(select tenant, booked as account, currency, delta as amount, seq, first_time from operations
		where delta <> 0 and (?1 = '' or tenant = ?1)
	union all
	select tenant, against, currency, -delta, 0, first_time from operations where delta <> 0 and (?1 = '' or tenant = ?1))`

// ownSums adds up the participant's own accounts, whose lines have no number.
const (
	ownSums = `select l.tenant, l.account, l.currency, ` + sumHigh + `, ` + sumLow + `, 0 from ` + lines + ` l
		where l.seq = 0
		group by l.tenant, l.account, l.currency order by l.tenant, l.currency, l.account`
	// ownSumsAsOf and balancesAsOf are as of ?2.
	ownSumsAsOf = `select l.tenant, l.account, l.currency, ` + sumHigh + `, ` + sumLow + `, 0 from ` + lines + ` l
		where l.seq = 0 and l.first_time <= ?2
		group by l.tenant, l.account, l.currency order by l.tenant, l.currency, l.account`
	balancesAsOf = `select account, class, currency, cast(coalesce((select o.balance_after from operations o
			where o.tenant = a.tenant and o.booked = a.account and o.seq > 0 and o.first_time <= ?2
			order by o.first_time desc, o.seq desc limit 1), 0) as text)
		from accounts a where tenant = ?1 and created_at <= ?2`
	accountSums = `select l.tenant, '', l.currency, coalesce(sum(l.balance >> 32), 0), coalesce(sum(l.balance & 4294967295), 0),
		count(*) from accounts l
		where (?1 = '' or l.tenant = ?1) group by l.tenant, l.currency order by l.tenant, l.currency`
	faults = `select a.tenant, a.account, a.currency, a.balance, a.floor, a.state, a.created_at, a.updated_at,
			coalesce(s.high, 0) as high, coalesce(s.low, 0) as low
		from accounts a left join (
			select l.tenant, l.account, l.currency, ` + sumHigh + ` as high, ` + sumLow + ` as low from ` + lines + ` l
			where l.seq > 0 group by l.tenant, l.account, l.currency
		) s on s.tenant = a.tenant and s.account = a.account and s.currency = a.currency
		where (?1 = '' or a.tenant = ?1) and (a.balance < a.floor
			-- equal, after the low part's carry, and no sum that wraps
			or (a.balance >> 32) <> coalesce(s.high, 0) + (coalesce(s.low, 0) >> 32)
			or (a.balance & 4294967295) <> (coalesce(s.low, 0) & 4294967295))
		order by a.tenant, a.account limit ?2`
)

// summed is the sum of a group of amounts; account is empty where the group is
// all accounts that have a row, which rowCount counts.
type summed struct {
	tenant   names.Tenant
	account  names.Account
	currency money.Currency
	amount   *big.Int
	rowCount int64
}

func scanSummed(r row) (summed, error) {
	var one summed
	var high, low int64
	if err := r.Scan(&one.tenant, &one.account, &one.currency, &high, &low, &one.rowCount); err != nil {
		return summed{}, err
	}
	one.amount = join(high, low)
	return one, nil
}

// join puts the two sums together.
func join(high, low int64) *big.Int {
	total := new(big.Int).Lsh(big.NewInt(high), 32)
	return total.Add(total, big.NewInt(low))
}

func scanFault(r row) (store.AccountFault, error) {
	var f store.AccountFault
	var created, updated, high, low int64
	if err := r.Scan(&f.Tenant, &f.Account.Account, &f.Currency, &f.Balance, &f.Floor, &f.State, &created, &updated,
		&high, &low); err != nil {
		return store.AccountFault{}, err
	}
	f.CreatedAt, f.UpdatedAt = time.UnixMicro(created).UTC(), time.UnixMicro(updated).UTC()
	f.Lines = join(high, low).String()
	return f, nil
}

// Sums implements store.Store.
func (s *Store) Sums(ctx context.Context, tenant names.Tenant) (store.Sums, error) {
	var sums store.Sums
	tx, err := s.snapshot(ctx)
	if err != nil {
		return sums, err
	}
	defer func() { _ = tx.Rollback() }() // it only read
	rows, err := tx.StmtContext(ctx, s.read.ownSums).QueryContext(ctx, tenant)
	own, err := collect(rows, err, scanSummed)
	if err != nil {
		return sums, err
	}
	rows, err = tx.StmtContext(ctx, s.read.accountSums).QueryContext(ctx, tenant)
	withRow, err := collect(rows, err, scanSummed)
	if err != nil {
		return sums, err
	}
	rows, err = tx.StmtContext(ctx, s.read.faults).QueryContext(ctx, tenant, store.FaultsMax)
	if sums.Faults, err = collect(rows, err, scanFault); err != nil {
		return sums, err
	}
	if err := tx.StmtContext(ctx, s.read.count).QueryRowContext(ctx, tenant).Scan(&sums.OperationCount); err != nil {
		return sums, classify(err)
	}
	sums.Currencies = totals(append(own, withRow...))
	sums.Clearing = clearing(own)
	return sums, nil
}

// totals adds up the groups of each tenant and currency.
func totals(groups []summed) []store.CurrencySum {
	type group struct {
		tenant   names.Tenant
		currency money.Currency
	}
	amounts, counts := map[group]*big.Int{}, map[group]int64{}
	for _, g := range groups {
		key := group{g.tenant, g.currency}
		if amounts[key] == nil {
			amounts[key] = new(big.Int)
		}
		amounts[key].Add(amounts[key], g.amount)
		counts[key] += g.rowCount
	}
	var sums []store.CurrencySum
	for key, amount := range amounts {
		sums = append(sums, store.CurrencySum{
			Tenant: key.tenant, Currency: key.currency, Total: amount.String(), AccountCount: counts[key]})
	}
	slices.SortFunc(sums, func(a, b store.CurrencySum) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Currency, b.Currency))
	})
	return sums
}

// clearing picks the clearing accounts; the groups come in order.
func clearing(groups []summed) []store.ClearingSum {
	var sums []store.ClearingSum
	for _, g := range groups {
		if p, is := book.ClearingOf(g.account); is {
			sums = append(sums, store.ClearingSum{
				Tenant: g.tenant, Currency: g.currency, Participant: p, Balance: g.amount.String()})
		}
	}
	return sums
}

// TrialBalance implements store.Store.
func (s *Store) TrialBalance(ctx context.Context, tenant names.Tenant, asOf time.Time) ([]store.Balance, time.Time, error) {
	now := clock()
	if tenant == "" {
		return nil, now, nil
	}
	ownSums, balancesOf, arguments := s.read.ownSums, s.read.balances, []any{tenant}
	if !asOf.IsZero() {
		ownSums, balancesOf, arguments = s.read.ownSumsAsOf, s.read.balancesAsOf, []any{tenant, asOf.UnixMicro()}
	}
	tx, err := s.snapshot(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer func() { _ = tx.Rollback() }() // it only read
	if !asOf.IsZero() {
		var until sql.NullInt64
		if err := tx.StmtContext(ctx, s.read.archivedUntil).QueryRowContext(ctx, tenant).Scan(&until); err != nil {
			return nil, time.Time{}, fmt.Errorf("trial balance: %w", classify(err))
		}
		if last := instantOrZero(until); asOf.Before(last) {
			return nil, time.Time{}, store.ErrArchived{Until: last}
		}
	}
	rows, err := tx.StmtContext(ctx, ownSums).QueryContext(ctx, arguments...)
	own, err := collect(rows, err, scanSummed)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("trial balance: %w", err)
	}
	rows, err = tx.StmtContext(ctx, balancesOf).QueryContext(ctx, arguments...)
	balances, err := collect(rows, err, func(r row) (store.Balance, error) {
		var b store.Balance
		err := r.Scan(&b.Account, &b.Class, &b.Currency, &b.Balance)
		return b, err
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("trial balance: %w", err)
	}
	for _, g := range own {
		balances = append(balances, store.Balance{Account: g.account, Currency: g.currency, Balance: g.amount.String()})
	}
	slices.SortFunc(balances, func(a, b store.Balance) int {
		return cmp.Or(cmp.Compare(a.Currency, b.Currency), cmp.Compare(a.Account, b.Account))
	})
	return balances, now, nil
}
