package local_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/rpc"
	"giro/internal/stepkey"
	accountv1 "giro/proto/giro/account/v1"
	transferv1 "giro/proto/giro/transfer/v1"
)

// TestHandCheckedGrammarAgreesWithTheProtos judges the same request by the book,
// which participants check by hand, and by the protos' rules. Both name the same
// fields, for each text in each place.
func TestHandCheckedGrammarAgreesWithTheProtos(t *testing.T) {
	texts := []string{"", "a", "A", "0", "-a", ".a", "_a", "a.b_c-d", "a b", " a", "a\n", "a\x00", "\x00", "é", "a/b", "a/", "/b", "a/b/c", "a//b", "A/b", "a/B",
		"a:b", "a~b", "clearing:x", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("k", 128), strings.Repeat("k", 129),
		strings.Repeat("a", 63) + "/" + strings.Repeat("b", 63), strings.Repeat("a", 64) + "/b",
		"USD", "usd", " USD", "USD ", "US", "USDX", "XXX", "XAU", "JPY", "ÜSD", "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b"}
	amounts := []int64{-1 << 63, -1, 0, 1, 1 << 62, 1<<62 + 1, 1<<63 - 1}
	good := accountv1.DepositRequest{Key: "k", Account: "a", Amount: 1, Currency: "USD", External: "bank"}
	check := func(change func(*accountv1.DepositRequest)) {
		r := proto.Clone(&good).(*accountv1.DepositRequest)
		change(r)
		o := book.Operation{Kind: book.Deposit, Tenant: "acme", TransferKey: names.TransferKey(r.GetKey()), Step: "deposit", Key: stepkey.StepKey{1},
			Account: names.Account(r.GetAccount()), Amount: money.Minor(r.GetAmount()), Currency: money.Currency(r.GetCurrency()),
			Counterparty: names.AccountRef(r.GetExternal())}
		agree(t, r, o, "transfer_key", "key")
	}
	for _, text := range texts {
		check(func(r *accountv1.DepositRequest) { r.Key = text })
		check(func(r *accountv1.DepositRequest) { r.Account = text })
		check(func(r *accountv1.DepositRequest) { r.Currency = text })
		check(func(r *accountv1.DepositRequest) { r.External = text })
		// An account reference is a debit's counterparty and a transfer's destination.
		agree(t, &transferv1.CreateTransferRequest{Key: "k", Source: "source/a", Destination: text, Amount: 1, Currency: "USD"},
			book.Operation{Kind: book.Debit, Tenant: "acme", TransferKey: "k", Step: "debit", Key: stepkey.StepKey{1},
				Account: "a", Amount: 1, Currency: "USD", Counterparty: names.AccountRef(text)}, "counterparty", "destination")
	}
	for _, amount := range amounts {
		check(func(r *accountv1.DepositRequest) { r.Amount = amount })
	}
	check(func(r *accountv1.DepositRequest) { proto.Reset(r) })
}

func agree(t *testing.T, m proto.Message, o book.Operation, bookName, apiName string) {
	t.Helper()
	list, err := rpc.Violations(m)
	if err != nil {
		t.Fatal(err)
	}
	var byProto, byHand []string
	for _, v := range list {
		byProto = append(byProto, v.Field)
	}
	for _, v := range append(book.ValidateIdentity(o), book.ValidateContents(o, book.DefaultLimits)...) {
		field := v.Field
		if field == bookName {
			field = apiName
		}
		byHand = append(byHand, field)
	}
	slices.Sort(byProto)
	slices.Sort(byHand)
	if !slices.Equal(byProto, byHand) {
		t.Errorf("%v: the proto's rules name %v, the book %v", m, byProto, byHand)
	}
}
