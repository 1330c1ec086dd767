package book_test

import (
	"math"
	"testing"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/stepkey"
)

// FuzzDecide applies any operation to books that know a little of everything,
// twice, alone and in a batch with what it may meet. Nothing may panic, break the
// books or answer the repetition otherwise.
func FuzzDecide(f *testing.F) {
	debit, refund := key("k", stepkey.Debit), key("k", stepkey.Refund)
	f.Add(uint8(book.Debit), "t1", "k", "debit", debit[:], "a", int64(4000), "USD", "q/x", []byte{})
	f.Add(uint8(book.Credit), "t1", "n", "credit", []byte{1}, "b", int64(math.MaxInt64), "USD", "q/x", []byte{})
	f.Add(uint8(book.Refund), "t1", "k", "refund", refund[:], "a", int64(4000), "USD", "q/x", debit[:])
	f.Add(uint8(book.Refund), "t1", "n", "refund", []byte{2}, "\x00", int64(math.MinInt64), "\xff", "///", []byte{3})
	f.Add(uint8(book.Cancel), "t1", "n", "credit", []byte{4}, "", int64(0), "", "", []byte{})
	f.Add(uint8(book.Deposit), "t1", "n", "deposit", []byte{5}, "c", int64(1)<<62, "USD", "till", []byte{})
	f.Add(uint8(book.Open), "t2", "n", "open", []byte{6}, "new", int64(-1), "CLF", "", []byte{})
	f.Add(uint8(book.Close), "t1", "n", "close", []byte{7}, "b", int64(0), "", "", []byte{})
	f.Add(uint8(0), "", "", "", []byte{}, "", int64(math.MinInt64), "", "", []byte{})
	f.Fuzz(func(t *testing.T, kind uint8, tenant, transferKey, step string, k []byte, account string, amount int64, currency, counterparty string, debitKey []byte) {
		o := book.Operation{Kind: book.Kind(kind), Tenant: names.Tenant(tenant), TransferKey: names.TransferKey(transferKey), Step: step,
			Account: names.Account(account), Amount: money.Minor(amount), Currency: money.Currency(currency), Counterparty: names.AccountRef(counterparty)}
		copy(o.Key[:], k)
		copy(o.DebitKey[:], debitKey)
		debitOfO := o
		debitOfO.Kind, debitOfO.Step, debitOfO.Key, debitOfO.DebitKey = book.Debit, "debit", o.DebitKey, stepkey.StepKey{}
		for _, batch := range [][]book.Operation{{o, o}, {op(book.Debit, "k"), o, op(book.Refund, "k"), o}, {debitOfO, o, o}, {o, debitOfO, o},
			{op(book.Debit, "k"), op(book.Refund, "k"), cancel(book.Credit, "k"), o, o}} {
			w := newWorld(startAccounts()...)
			answers, err := w.apply(batch...)
			if err != nil {
				t.Fatal(err)
			}
			last := answers[len(answers)-1]
			again, err := w.apply(o)
			if err != nil {
				t.Fatal(err)
			}
			if again[0].Outcome != last.Outcome || again[0].Outcome <= book.Cancelled && again[0].Stored != last.Stored {
				t.Fatalf("%+v: answered %+v, then %+v", o, last, again[0])
			}
			if found := book.Lookup(w.view([]book.Operation{o}), o); last.Outcome <= book.Cancelled && found.Stored != last.Stored {
				t.Fatalf("%+v: answered %+v, looked up as %+v", o, last, found)
			}
		}
	})
}
