package book_test

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/stepkey"
)

// agedKey is a UUIDv7 of that time.
func agedKey(at time.Time, n uint64) names.TransferKey {
	k := stepkey.From(at)
	k[6], k[8] = 0x70, 0x80
	for i := range 7 {
		k[15-i] = byte(n >> (8 * i))
	}
	return names.TransferKey(k.String())
}

func TestOnlyKeysWithATimeAreArchived(t *testing.T) {
	before := start.Add(-60 * 24 * time.Hour)
	for key, want := range map[names.TransferKey]bool{
		agedKey(before.Add(-time.Millisecond), 1): true,
		agedKey(before, 2):                        false,
		agedKey(start, 3):                         false,
		"payroll-1":                               false,
		"00000000-0000-4000-8000-000000000000":    false, // a UUIDv4
		"a:USD":                                   false, // a brought-forward line's
	} {
		s := book.Stored{Operation: op(book.Debit, key)}
		if s.Archivable(before) != want {
			t.Errorf("%s may be archived: %v", key, !want)
		}
	}
}

// TestEveryBalanceIsStillTheSumOfItsLines archives random work in random pieces, in
// any order, and compares every account's lines before and after each of them.
func TestEveryBalanceIsStillTheSumOfItsLines(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(account("a", 1_000_000), account("b", 1_000_000))
	for i := range 300 {
		key := agedKey(start, uint64(i))
		o := op([]book.Kind{book.Debit, book.Credit, book.Refund, book.Deposit, book.Withdraw}[random.IntN(5)], key)
		o.Account, o.Amount = []names.Account{"a", "b"}[random.IntN(2)], money.Minor(1+random.IntN(9000))
		if o.Kind == book.Deposit || o.Kind == book.Withdraw {
			o.Counterparty = "till"
		}
		if o.Kind == book.Refund {
			o = op(book.Refund, agedKey(start, uint64(random.IntN(i+1))))
		}
		if _, err := w.apply(o); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	rows := map[book.ID]book.Stored{}
	var left []book.Stored
	for id, s := range w.ops {
		rows[id] = s
		left = append(left, s)
	}
	sums := sumsOf(rows)
	for len(left) > 0 {
		n := min(len(left), 1+random.IntN(40))
		forward, taken := book.BringForward(rows, left[:n])
		if len(taken) != n || len(forward) > 2*n {
			t.Fatalf("seed %d: %d of %d were taken, for %d lines", seed, len(taken), n, len(forward))
		}
		for _, s := range taken {
			delete(rows, s.ID())
		}
		for _, s := range forward {
			rows[s.ID()] = s
		}
		left = left[n:]
		now := sumsOf(rows)
		for account, sum := range sums {
			if now[account] == nil || now[account].Cmp(sum) != 0 {
				t.Fatalf("seed %d: the lines of %s summed to %s, and now to %s", seed, account, sum, now[account])
			}
		}
		if other := now[book.Archived]; other != nil && other.Sign() != 0 {
			t.Fatalf("seed %d: %s holds %s", seed, book.Archived, other)
		}
	}
	for _, name := range []names.Account{"a", "b"} {
		last := w.last[book.AccountID{Tenant: "t1", Account: name}]
		line := rows[book.ForwardOf(book.AccountID{Tenant: "t1", Account: name}, "USD")]
		if line.Seq != last.Seq || line.BalanceAfter != last.BalanceAfter || !line.FirstTime.Equal(last.FirstTime) || line.Kind != book.BroughtForward {
			t.Errorf("seed %d: %s goes on from %+v, and its last line is %+v", seed, name, line, last)
		}
	}
}

func sumsOf(rows map[book.ID]book.Stored) map[names.Account]*big.Int {
	sums := map[names.Account]*big.Int{}
	for _, s := range rows {
		for _, l := range s.Sides() {
			if sums[l.Account] == nil {
				sums[l.Account] = new(big.Int)
			}
			sums[l.Account].Add(sums[l.Account], big.NewInt(int64(l.Amount)))
		}
	}
	return sums
}

// TestASumThatDoesNotFitIsLeft: the operation stays where it is, whole, and what comes
// after it is archived all the same.
func TestASumThatDoesNotFitIsLeft(t *testing.T) {
	credit := func(n uint64, account names.Account, amount money.Minor) book.Stored {
		s := book.Stored{Operation: op(book.Credit, agedKey(start, n)), Outcome: book.Applied,
			Entry: book.Entry{Booked: account, Against: "clearing:q", Delta: amount, Seq: int64(n)}}
		return s
	}
	huge := []book.Stored{credit(1, "a", money.AmountMax), credit(2, "b", 1), credit(3, "a", -1), credit(4, "b", 1)}
	forward, taken := book.BringForward(nil, huge)
	if len(taken) != 3 || taken[1].Key != huge[2].Key {
		t.Fatalf("taken %+v", taken)
	}
	sums := map[names.Account]money.Minor{}
	for _, l := range forward {
		sums[l.Booked] = l.Delta
	}
	if sums["a"] != money.AmountMax-1 || sums["b"] != 1 || sums["clearing:q"] != -money.AmountMax {
		t.Errorf("brought forward %v", sums)
	}
}
