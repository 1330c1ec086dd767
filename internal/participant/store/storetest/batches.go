package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/participant/store/mem"
)

// batchTests are about several operations in one transaction.
var batchTests = []test{
	{"SameKeyTwice", testSameKeyTwice},
	{"RefundAndItsDebit", testRefundAndItsDebit},
	{"OpenFundSpendClose", testLifeInOneBatch},
	{"FloorInsideBatch", testFloorInsideBatch},
	{"InvalidAmongGood", testInvalidAmongGood},
	{"Largest", testLargestBatch},
	{"Empty", testEmptyBatch},
	{"CallerGone", testCallerGone},
	{"SameAsMemory", testSameAsMemory},
}

func testSameKeyTwice(b *books) {
	b.fund(tenant, "alice", 100)
	d, changed := debit("t1", "alice", 40), debit("t1", "alice", 41)
	answers := b.apply(d, d, changed, cancel(d))
	b.compare(answers[0], want{outcome: book.Applied, moved: 40, balance: 60})
	b.compare(answers[1], want{outcome: book.Applied, moved: 40, balance: 60, replayed: true})
	b.compare(answers[2], want{outcome: book.KeyReused})
	b.compare(answers[3], want{outcome: book.Applied, moved: 40, balance: 60, replayed: true})
	b.balance(tenant, "alice", 60)
}

func testRefundAndItsDebit(b *books) {
	b.fund(tenant, "alice", 100)
	answers := b.apply(debit("t1", "alice", 40), refund("t1", "alice", 40), otherRefund("t1", "x", "alice", 40))
	b.compare(answers[0], want{outcome: book.Applied, moved: 40, balance: 60})
	b.compare(answers[1], want{outcome: book.Applied, moved: 40, balance: 100})
	b.compare(answers[2], want{outcome: book.Refused, reason: book.AlreadyRefunded})
	answers = b.apply(refund("t2", "alice", 40), debit("t2", "alice", 40))
	b.compare(answers[0], want{outcome: book.Applied})
	b.compare(answers[1], want{outcome: book.Cancelled, replayed: true})
	b.balance(tenant, "alice", 100)
}

func testLifeInOneBatch(b *books) {
	answers := b.apply(on(tenant, book.Open, "k", "alice", 0), on(tenant, book.Deposit, "k", "alice", 10),
		debit("t1", "alice", 10), on(tenant, book.Close, "k", "alice", 0), refund("t1", "alice", 10), debit("t2", "alice", 1))
	for i, w := range []want{{outcome: book.Applied}, {outcome: book.Applied, moved: 10, balance: 10},
		{outcome: book.Applied, moved: 10}, {outcome: book.Applied}, {outcome: book.Applied, moved: 10},
		{outcome: book.Refused, reason: book.AccountClosed}} {
		b.compare(answers[i], w)
	}
	account, err := b.store.Account(context.Background(), book.AccountID{Tenant: tenant, Account: "alice"})
	if err != nil || account.State != book.StateClosed || account.Balance != 0 {
		b.t.Fatalf("%+v, %v", account, err)
	}
}

func testFloorInsideBatch(b *books) {
	b.fund(tenant, "alice", 50)
	answers := b.apply(debit("t1", "alice", 40), debit("t2", "alice", 40), credit("t3", "alice", 40), debit("t4", "alice", 40))
	b.compare(answers[0], want{outcome: book.Applied, moved: 40, balance: 10})
	b.compare(answers[1], want{outcome: book.Refused, reason: book.InsufficientFunds})
	b.compare(answers[2], want{outcome: book.Applied, moved: 40, balance: 50})
	b.compare(answers[3], want{outcome: book.Applied, moved: 40, balance: 10})
	b.balance(tenant, "alice", 10)
}

func testInvalidAmongGood(b *books) {
	b.fund(tenant, "alice", 50)
	answers := b.apply(debit("t1", "alice", 0), debit("t2", "alice", 20), debit("", "alice", 20))
	b.compare(answers[0], want{outcome: book.Invalid})
	b.compare(answers[1], want{outcome: book.Applied, moved: 20, balance: 30})
	b.compare(answers[2], want{outcome: book.Invalid})
	b.balance(tenant, "alice", 30)
}

func testLargestBatch(b *books) {
	var debits, refunds []book.Operation
	for i := range book.BatchSizeMax {
		account := names.Account(fmt.Sprint("a", i))
		b.fund(tenant, account, 10)
		debits = append(debits, debit(names.TransferKey(fmt.Sprint("t", i)), account, 4))
		refunds = append(refunds, refund(names.TransferKey(fmt.Sprint("t", i)), account, 4))
	}
	for i, a := range b.apply(debits...) {
		b.compare(a, want{outcome: book.Applied, moved: 4, balance: 6})
		b.balance(tenant, debits[i].Account, 6)
	}
	for i, a := range b.apply(refunds...) {
		b.compare(a, want{outcome: book.Applied, moved: 4, balance: 10})
		b.balance(tenant, refunds[i].Account, 10)
	}
	more := append(slices.Clone(debits), debit("one-more", "a0", 1))
	if _, err := b.store.Apply(context.Background(), more, book.DefaultLimits); err == nil {
		b.t.Fatal("a batch that is too large was taken")
	}
	b.balance(tenant, "a0", 10)
}

func testEmptyBatch(b *books) {
	if answers := b.apply(); len(answers) != 0 {
		b.t.Fatalf("%+v", answers)
	}
}

// A caller that had gone before anything was started starts nothing.
func testCallerGone(b *books) {
	b.fund(tenant, "alice", 50)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	d := debit("t1", "alice", 20)
	if _, err := b.store.Apply(ctx, []book.Operation{d}, book.DefaultLimits); err == nil {
		b.t.Fatal("no error")
	}
	found, err := b.store.Lookup(context.Background(), d)
	if err != nil || found.Outcome != book.NotFound {
		b.t.Fatalf("%+v, %v", found, err)
	}
	b.balance(tenant, "alice", 50)
}

// Random batches over few keys and accounts give the same answers and the same
// books as the memory store, to which every other test here applies too.
func testSameAsMemory(b *books) {
	const seed = 20260501
	random := rand.New(rand.NewPCG(seed, 1))
	model := mem.New(time.Now)
	for range 60 {
		batch := make([]book.Operation, 1+random.IntN(20))
		for i := range batch {
			batch[i] = randomOperation(random)
		}
		got := b.apply(batch...)
		expected, err := applyAgain(model, batch)
		if err != nil {
			b.t.Fatal(err)
		}
		for i := range batch {
			got[i].FirstTime, expected[i].FirstTime = time.Time{}, time.Time{}
			if got[i].Stored != expected[i].Stored || got[i].Replayed != expected[i].Replayed ||
				!slices.Equal(got[i].Differing, expected[i].Differing) {
				b.t.Fatalf("seed %d: %+v\ngot  %+v\nwant %+v", seed, batch[i], got[i], expected[i])
			}
		}
	}
	want, err := model.Operations(context.Background(), "", book.ID{}, 1_000_000)
	if err != nil {
		b.t.Fatal(err)
	}
	same := slices.EqualFunc(b.all(), want, func(x, y store.Listed) bool {
		x.FirstTime, y.FirstTime = time.Time{}, time.Time{}
		return x.Stored == y.Stored && slices.Equal(x.Lines, y.Lines)
	})
	if !same {
		b.t.Fatalf("seed %d: the books differ", seed)
	}
}

func randomOperation(random *rand.Rand) book.Operation {
	kinds := []book.Kind{book.Open, book.Deposit, book.Debit, book.Debit, book.Debit, book.Credit, book.Credit,
		book.Refund, book.Refund, book.Freeze, book.Unfreeze, book.Close}
	of := []names.Tenant{tenant, tenant, other}[random.IntN(3)]
	key := names.TransferKey(fmt.Sprint("t", random.IntN(60)))
	account := names.Account(fmt.Sprint("a", random.IntN(6)))
	if random.IntN(4) > 0 { // mostly a key's own contents, so that it replays
		account = names.Account(fmt.Sprint("a", len(key)*int(key[len(key)-1])%6))
	}
	amount := money.Minor(10 + 10*int64(key[len(key)-1]%5))
	if random.IntN(10) == 0 {
		amount = money.Minor(random.IntN(200) - 20)
	}
	o := on(of, kinds[random.IntN(len(kinds))], key, account, amount)
	if (o.Kind == book.Debit || o.Kind == book.Credit) && random.IntN(5) == 0 {
		o = cancel(o)
	}
	if o.Kind == book.Refund && random.IntN(4) == 0 {
		o.Key[15] ^= 1 // another refund of the same debit
	}
	return o
}
