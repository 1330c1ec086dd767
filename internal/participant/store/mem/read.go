package mem

import (
	"cmp"
	"context"
	"math/big"
	"slices"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
)

// Lookup implements store.Store.
func (s *Store) Lookup(ctx context.Context, operation book.Operation) (book.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return book.Answer{}, err
	}
	return book.Lookup(s.view([]book.Operation{operation}), operation), nil
}

// Operation implements store.Store.
func (s *Store) Operation(ctx context.Context, id book.ID) (book.Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return book.Stored{}, err
	}
	stored, known := s.operations[id]
	if !known {
		return book.Stored{}, store.ErrNotFound
	}
	return stored, nil
}

// Operations implements store.Store.
func (s *Store) Operations(ctx context.Context, tenant names.Tenant, after book.ID, limit int) ([]store.Listed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var listed []store.Listed
	for _, id := range s.idsAfter(tenant, after, limit) {
		stored := s.operations[id]
		listed = append(listed, store.Listed{Stored: stored, Lines: stored.Sides()})
	}
	return listed, nil
}

// idsAfter gives a page of operations, in order.
func (s *Store) idsAfter(tenant names.Tenant, after book.ID, limit int) []book.ID {
	var ids []book.ID
	for id := range s.operations {
		if (tenant == "" || id.Tenant == tenant) && compareIDs(id, after) > 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, compareIDs)
	return ids[:max(0, min(limit, len(ids)))]
}

// lineSums adds up the lines of each account in each currency, up to an instant
// (zero: all).
func (s *Store) lineSums(tenant names.Tenant, asOf time.Time) map[accountCurrency]*big.Int {
	sums := map[accountCurrency]*big.Int{}
	for _, o := range s.operations {
		if tenant != "" && o.Tenant != tenant || !asOf.IsZero() && o.FirstTime.After(asOf) {
			continue
		}
		for _, l := range o.Sides() {
			key := accountCurrency{book.AccountID{Tenant: l.Tenant, Account: l.Account}, l.Currency}
			if sums[key] == nil {
				sums[key] = new(big.Int)
			}
			sums[key].Add(sums[key], big.NewInt(int64(l.Amount)))
		}
	}
	return sums
}

type accountCurrency struct {
	book.AccountID
	currency money.Currency
}

type tenantCurrency struct {
	tenant   names.Tenant
	currency money.Currency
}

// Sums implements store.Store.
func (s *Store) Sums(ctx context.Context, tenant names.Tenant) (store.Sums, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return store.Sums{}, err
	}
	var sums store.Sums
	totals, counts := map[tenantCurrency]*big.Int{}, map[tenantCurrency]int64{}
	add := func(t names.Tenant, c money.Currency, amount *big.Int) {
		key := tenantCurrency{t, c}
		if totals[key] == nil {
			totals[key] = new(big.Int)
		}
		totals[key].Add(totals[key], amount)
	}
	lines := s.lineSums(tenant, time.Time{})
	for key, amount := range lines {
		if _, hasRow := s.accounts[key.AccountID]; !hasRow {
			add(key.Tenant, key.currency, amount)
		}
		if p, is := book.ClearingOf(key.Account); is {
			sums.Clearing = append(sums.Clearing, store.ClearingSum{
				Tenant: key.Tenant, Currency: key.currency, Participant: p, Balance: amount.String()})
		}
	}
	for _, a := range s.sortedAccounts(tenant, "") {
		add(a.Tenant, a.Currency, big.NewInt(int64(a.Balance)))
		counts[tenantCurrency{a.Tenant, a.Currency}]++
		kept := cmp.Or(lines[accountCurrency{a.AccountID, a.Currency}], new(big.Int))
		unsound := a.Balance < a.Floor || kept.Cmp(big.NewInt(int64(a.Balance))) != 0
		if unsound && len(sums.Faults) < store.FaultsMax {
			sums.Faults = append(sums.Faults, store.AccountFault{Account: a, Lines: kept.String()})
		}
	}
	for key, total := range totals {
		sums.Currencies = append(sums.Currencies, store.CurrencySum{
			Tenant: key.tenant, Currency: key.currency, Total: total.String(), AccountCount: counts[key]})
	}
	for id := range s.operations {
		if tenant == "" || id.Tenant == tenant {
			sums.OperationCount++
		}
	}
	slices.SortFunc(sums.Currencies, func(a, b store.CurrencySum) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Currency, b.Currency))
	})
	slices.SortFunc(sums.Clearing, func(a, b store.ClearingSum) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Currency, b.Currency), cmp.Compare(a.Participant, b.Participant))
	})
	return sums, nil
}

// Account implements store.Store.
func (s *Store) Account(ctx context.Context, id book.AccountID) (book.Account, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return book.Account{}, err
	}
	account, exists := s.accounts[id]
	if !exists {
		return book.Account{}, store.ErrNotFound
	}
	return account, nil
}

// Accounts implements store.Store.
func (s *Store) Accounts(ctx context.Context, tenant names.Tenant, after names.Account, limit int) ([]book.Account, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if tenant == "" {
		return nil, nil
	}
	accounts := s.sortedAccounts(tenant, after)
	return accounts[:max(0, min(limit, len(accounts)))], nil
}

// sortedAccounts gives those of one tenant, or of all, by tenant and name.
func (s *Store) sortedAccounts(tenant names.Tenant, after names.Account) []book.Account {
	var accounts []book.Account
	for id, a := range s.accounts {
		if (tenant == "" || id.Tenant == tenant) && id.Account > after {
			accounts = append(accounts, a)
		}
	}
	slices.SortFunc(accounts, func(a, b book.Account) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Account, b.Account))
	})
	return accounts
}

// TrialBalance implements store.Store.
func (s *Store) TrialBalance(ctx context.Context, tenant names.Tenant, asOf time.Time) ([]store.Balance, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, time.Time{}, err
	}
	if tenant == "" {
		return nil, s.clock(), nil
	}
	if until := s.archivedUntil(tenant); !asOf.IsZero() && asOf.Before(until) {
		return nil, time.Time{}, store.ErrArchived{Until: until}
	}
	var balances []store.Balance
	lines := s.lineSums(tenant, asOf)
	for _, a := range s.sortedAccounts(tenant, "") {
		amount := cmp.Or(lines[accountCurrency{a.AccountID, a.Currency}], new(big.Int))
		if asOf.IsZero() {
			amount = big.NewInt(int64(a.Balance))
		} else if a.CreatedAt.After(asOf) {
			continue
		}
		balances = append(balances, store.Balance{Account: a.Account, Class: a.Class, Currency: a.Currency, Balance: amount.String()})
	}
	for key, amount := range lines {
		if _, hasRow := s.accounts[key.AccountID]; !hasRow {
			balances = append(balances, store.Balance{Account: key.Account, Currency: key.currency, Balance: amount.String()})
		}
	}
	slices.SortFunc(balances, func(a, b store.Balance) int {
		return cmp.Or(cmp.Compare(a.Currency, b.Currency), cmp.Compare(a.Account, b.Account))
	})
	return balances, s.clock(), nil
}

// Identity implements store.Store.
func (s *Store) Identity(ctx context.Context) (store.Identity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.Identity{Incarnation: s.incarnation, HighWaterMark: s.batches}, ctx.Err()
}

func compareIDs(a, b book.ID) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), slices.Compare(a.Key[:], b.Key[:]))
}
