package server_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant"
	"giro/internal/participant/book"
	"giro/internal/participant/server"
	"giro/internal/participant/store"
	"giro/internal/participant/store/mem"
	"giro/internal/rpc"
	"giro/internal/rpc/rpctest"
	"giro/internal/stepkey"
	participantv1 "giro/proto/giro/participant/v1"
)

const (
	applied   = participantv1.Outcome_OUTCOME_APPLIED
	refused   = participantv1.Outcome_OUTCOME_REFUSED
	cancelled = participantv1.Outcome_OUTCOME_CANCELLED
	keyReused = participantv1.Outcome_OUTCOME_KEY_REUSED
	invalid   = participantv1.Outcome_OUTCOME_INVALID
	notFound  = participantv1.Outcome_OUTCOME_NOT_FOUND
)

var start = time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)

type fixture struct {
	*testing.T
	engine *participant.Engine
	client participantv1.ParticipantServiceClient
}

func serve(t *testing.T, s store.Store) fixture {
	t.Helper()
	engine := participant.New(s, participant.Config{Name: "accounts", RepeatSecondsMax: 1})
	t.Cleanup(engine.Close)
	addr := rpctest.Serve(t, server.New(engine).Register)
	return fixture{t, engine, participantv1.NewParticipantServiceClient(rpctest.Dial(t, addr))}
}

// fresh serves books in which acme's alice holds 100.00 USD.
func fresh(t *testing.T) fixture {
	t.Helper()
	f := serve(t, mem.New(func() time.Time { return start }))
	f.local(book.Operation{Kind: book.Open, Account: "alice", Currency: "USD", TransferKey: "open-alice"})
	f.local(book.Operation{Kind: book.Deposit, Account: "alice", Currency: "USD", Amount: 10_000, Counterparty: "bank", TransferKey: "pay-in"})
	return f
}

// local carries out one of the participant's own operations.
func (f fixture) local(o book.Operation) {
	f.Helper()
	o.Tenant, o.Step = "acme", o.Kind.String()
	o.Key = stepkey.Derive(stepkey.V1, o.Tenant, o.TransferKey, o.Step)
	answers, err := f.engine.Apply(f.Context(), []book.Operation{o})
	if err != nil || answers[0].Outcome != book.Applied {
		f.Fatalf("%+v: %+v %v", o, answers, err)
	}
}

func operation(kind participantv1.OperationKind, transfer, step string) *participantv1.Operation {
	o := &participantv1.Operation{Kind: kind, Tenant: "acme", TransferKey: transfer, Step: step, Key: key(transfer, step),
		Account: "alice", Amount: 4000, Currency: "USD", Counterparty: "ledger/merchant"}
	if step == "refund" {
		o.DebitKey = key(transfer, "debit")
	}
	return o
}

func key(transfer, step string) string {
	return stepkey.Derive(stepkey.V1, "acme", names.TransferKey(transfer), step).String()
}

func debit(transfer string) *participantv1.Operation {
	return operation(participantv1.OperationKind_OPERATION_KIND_DEBIT, transfer, "debit")
}
func credit(transfer string) *participantv1.Operation {
	return operation(participantv1.OperationKind_OPERATION_KIND_CREDIT, transfer, "credit")
}
func refund(transfer string) *participantv1.Operation {
	return operation(participantv1.OperationKind_OPERATION_KIND_REFUND, transfer, "refund")
}
func cancel(transfer, step string) *participantv1.Operation {
	return operation(participantv1.OperationKind_OPERATION_KIND_CANCEL, transfer, step)
}

// with changes a copy.
func with(o *participantv1.Operation, change func(*participantv1.Operation)) *participantv1.Operation {
	o = proto.Clone(o).(*participantv1.Operation)
	change(o)
	return o
}

// single sends an operation by its kind's own call, without its kind, and must
// get an answer.
func (f fixture) single(o *participantv1.Operation) *participantv1.Answer {
	f.Helper()
	kind := o.GetKind()
	return f.call(kind, with(o, func(o *participantv1.Operation) { o.Kind = 0 }))
}

func (f fixture) call(kind participantv1.OperationKind, o *participantv1.Operation) *participantv1.Answer {
	f.Helper()
	var r interface{ GetAnswer() *participantv1.Answer }
	var err error
	switch kind {
	case participantv1.OperationKind_OPERATION_KIND_DEBIT:
		r, err = f.client.Debit(f.Context(), &participantv1.DebitRequest{Operation: o})
	case participantv1.OperationKind_OPERATION_KIND_CREDIT:
		r, err = f.client.Credit(f.Context(), &participantv1.CreditRequest{Operation: o})
	case participantv1.OperationKind_OPERATION_KIND_REFUND:
		r, err = f.client.Refund(f.Context(), &participantv1.RefundRequest{Operation: o})
	default:
		r, err = f.client.Cancel(f.Context(), &participantv1.CancelRequest{Operation: o})
	}
	if err != nil {
		f.Fatalf("%v %v: %v", kind, o, err)
	}
	return r.GetAnswer()
}

func (f fixture) lookup(o *participantv1.Operation) *participantv1.Answer {
	f.Helper()
	r, err := f.client.GetOperation(f.Context(), &participantv1.GetOperationRequest{Operation: o})
	if err != nil {
		f.Fatal(err)
	}
	return r.GetAnswer()
}

func (f fixture) balance(account names.Account) money.Minor {
	f.Helper()
	a, err := f.engine.Store().Account(f.Context(), book.AccountID{Tenant: "acme", Account: account})
	if err != nil {
		f.Fatal(err)
	}
	return a.Balance
}

func fields(a *participantv1.Answer) []string {
	var list []string
	for _, v := range a.GetViolations() {
		list = append(list, v.GetField())
	}
	slices.Sort(list)
	return list
}

func (f fixture) stored() int64 {
	f.Helper()
	r, err := f.client.Sums(f.Context(), &participantv1.SumsRequest{})
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range r.GetCurrencies() {
		if c.GetTotal() != "0" {
			f.Errorf("the books of %s do not sum to zero: %v", c.GetTenant(), c)
		}
	}
	if len(r.GetFaults()) > 0 {
		f.Errorf("faults: %v", r.GetFaults())
	}
	return r.GetOperationCount()
}

func TestEachOperationAppliesAndReplays(t *testing.T) {
	f := fresh(t)
	f.local(book.Operation{Kind: book.Open, Account: "bob", Currency: "USD", TransferKey: "open-bob"})
	toBob := with(credit("t1"), func(o *participantv1.Operation) { o.Account = "bob" })
	for _, c := range []struct {
		o            *participantv1.Operation
		moved, after int64
	}{{debit("t1"), 4000, 6000}, {toBob, 4000, 4000}, {debit("t2"), 4000, 2000}, {refund("t2"), 4000, 6000}} {
		first := f.single(c.o)
		if first.GetOutcome() != applied || first.GetReplayed() || first.GetAmountMoved() != c.moved || first.GetBalanceAfter() != c.after ||
			first.GetKey() != c.o.GetKey() || first.GetAmount() != 4000 || !first.GetFirstTime().AsTime().Equal(start) {
			t.Errorf("%s: %v", c.o.GetStep(), first)
		}
		again := f.call(c.o.GetKind(), c.o) // with its kind this time
		if !again.GetReplayed() {
			t.Errorf("%s again is no replay: %v", c.o.GetStep(), again)
		}
		again.Replayed = false
		if !proto.Equal(first, again) {
			t.Errorf("the replay differs:\n%v\n%v", first, again)
		}
		if got := f.lookup(c.o); got.GetOutcome() != applied || !got.GetReplayed() || got.GetAmountMoved() != c.moved {
			t.Errorf("looked up: %v", got)
		}
	}
	if got := f.single(refund("t2")); got.GetDebitOutcome() != applied {
		t.Errorf("a refund tells the debit's outcome: %v", got)
	}
	if got := f.single(cancel("t1", "debit")); got.GetOutcome() != applied || got.GetAmountMoved() != 4000 {
		t.Errorf("a cancel of what was done changes nothing: %v", got)
	}
	f.stored()
}

// TestC08AmountsThatNobodyCanMove: INVALID inside OK, nothing stored, the key not
// used up.
func TestC08AmountsThatNobodyCanMove(t *testing.T) {
	f := fresh(t)
	before := f.stored()
	for _, amount := range []int64{0, -1, math.MinInt64, 1<<62 + 1, math.MaxInt64} {
		for _, o := range []*participantv1.Operation{debit("t1"), credit("t1")} {
			o.Amount = amount
			for _, got := range []*participantv1.Answer{f.single(o), f.apply(o)[0]} {
				if got.GetOutcome() != invalid || !slices.Equal(fields(got), []string{"amount"}) || got.GetAmount() != amount || got.GetKey() != o.GetKey() {
					t.Errorf("%d: %v", amount, got)
				}
			}
			if got := f.lookup(with(o, func(o *participantv1.Operation) { o.Amount = 4000 })); got.GetOutcome() != notFound {
				t.Errorf("%d: the key is used up: %v", amount, got)
			}
		}
	}
	if after := f.stored(); after != before {
		t.Errorf("%d operations were stored", after-before)
	}
	if got := f.single(debit("t1")); got.GetOutcome() != applied {
		t.Errorf("the same key with a good amount: %v", got)
	}
	// A refund's amount is compared and not judged.
	if got := f.single(with(refund("t1"), func(o *participantv1.Operation) { o.Amount = math.MinInt64 })); got.GetOutcome() != keyReused || !slices.Contains(got.GetDifferingFields(), "amount") {
		t.Errorf("a refund of another amount than the debit's: %v", got)
	}
	if f.balance("alice") != 6000 {
		t.Errorf("alice has %d", f.balance("alice"))
	}
}

func (f fixture) apply(operations ...*participantv1.Operation) []*participantv1.Answer {
	f.Helper()
	r, err := f.client.Apply(f.Context(), &participantv1.ApplyRequest{Operations: operations})
	if err != nil {
		f.Fatal(err)
	}
	if len(r.GetAnswers()) != len(operations) {
		f.Fatalf("%d answers to %d operations", len(r.GetAnswers()), len(operations))
	}
	return r.GetAnswers()
}

func TestC09C25C65MalformedIsAnAnswerThatNamesEverything(t *testing.T) {
	f := fresh(t)
	before := f.stored()
	set := func(change func(*participantv1.Operation)) *participantv1.Operation { return with(debit("t1"), change) }
	cases := map[string]struct {
		o    *participantv1.Operation
		want []string
	}{
		"nothing set":         {&participantv1.Operation{}, []string{"account", "amount", "counterparty", "currency", "key", "step", "tenant", "transfer_key"}},
		"tenant":              {set(func(o *participantv1.Operation) { o.Tenant = "Acme" }), []string{"tenant"}},
		"transfer key":        {set(func(o *participantv1.Operation) { o.TransferKey = "a b" }), []string{"transfer_key"}},
		"key in upper case":   {set(func(o *participantv1.Operation) { o.Key = strings.ToUpper(o.Key) }), []string{"key"}},
		"key without hyphens": {set(func(o *participantv1.Operation) { o.Key = strings.ReplaceAll(o.Key, "-", "") }), []string{"key"}},
		"zero key":            {set(func(o *participantv1.Operation) { o.Key = stepkey.StepKey{}.String() }), []string{"key"}},
		"another step":        {set(func(o *participantv1.Operation) { o.Step = "credit" }), []string{"step"}},
		"account in capitals": {set(func(o *participantv1.Operation) { o.Account = "Alice" }), []string{"account"}},
		"suspense":            {set(func(o *participantv1.Operation) { o.Account = "suspense:refund" }), []string{"account"}},
		"account with NUL":    {set(func(o *participantv1.Operation) { o.Account = "a\x00" }), []string{"account"}},
		"huge account":        {set(func(o *participantv1.Operation) { o.Account = strings.Repeat("a", 1<<20) }), []string{"account"}},
		"currency":            {set(func(o *participantv1.Operation) { o.Currency = "eur" }), []string{"currency"}},
		"blank currency":      {set(func(o *participantv1.Operation) { o.Currency = " EUR" }), []string{"currency"}},
		"unknown currency":    {set(func(o *participantv1.Operation) { o.Currency = "XXX" }), []string{"currency"}},
		"counterparty":        {set(func(o *participantv1.Operation) { o.Counterparty = "merchant" }), []string{"counterparty"}},
		"debit_key":           {set(func(o *participantv1.Operation) { o.DebitKey = key("t1", "debit") }), []string{"debit_key"}},
		"malformed debit_key": {set(func(o *participantv1.Operation) { o.DebitKey = "nonsense" }), []string{"debit_key"}},
		"zero debit_key":      {set(func(o *participantv1.Operation) { o.DebitKey = stepkey.StepKey{}.String() }), []string{"debit_key"}},
	}
	for name, c := range cases {
		for _, got := range []*participantv1.Answer{
			f.call(participantv1.OperationKind_OPERATION_KIND_DEBIT, with(c.o, func(o *participantv1.Operation) { o.Kind = 0 })),
			f.apply(with(c.o, func(o *participantv1.Operation) { o.Kind = participantv1.OperationKind_OPERATION_KIND_DEBIT }))[0]} {
			if got.GetOutcome() != invalid || !slices.Equal(fields(got), c.want) || got.GetKey() != c.o.GetKey() || got.GetAmount() != c.o.GetAmount() {
				t.Errorf("%s: want %v, got %v %v", name, c.want, got.GetOutcome(), fields(got))
			}
		}
	}
	for _, text := range []string{"", "nonsense", stepkey.StepKey{}.String()} {
		if got := f.single(with(refund("t1"), func(o *participantv1.Operation) { o.DebitKey = text })); got.GetOutcome() != invalid || !slices.Equal(fields(got), []string{"debit_key"}) {
			t.Errorf("a refund of %q: %v", text, got)
		}
	}
	if after := f.stored(); after != before {
		t.Errorf("%d operations were stored", after-before)
	}
}

func TestKindsThatAreNotAccepted(t *testing.T) {
	f := fresh(t)
	before := f.stored()
	localKind := participantv1.OperationKind_OPERATION_KIND_LOCAL
	for _, kind := range []participantv1.OperationKind{0, localKind, 6, 99, -1} {
		got := f.apply(with(debit("t1"), func(o *participantv1.Operation) { o.Kind = kind }))[0]
		if got.GetOutcome() != invalid || !slices.Contains(fields(got), "kind") {
			t.Errorf("kind %v: %v", kind, got)
		}
	}
	// A known key is answered before the kind is judged.
	f.single(debit("known"))
	before++
	for _, kind := range []participantv1.OperationKind{0, localKind, 6, 99, -1} {
		got := f.apply(with(debit("known"), func(o *participantv1.Operation) { o.Kind = kind }))[0]
		if got.GetOutcome() != keyReused || !slices.Equal(got.GetDifferingFields(), []string{"kind"}) {
			t.Errorf("kind %v under a known key: %v", kind, got)
		}
	}
	deposit := with(debit("t9"), func(o *participantv1.Operation) {
		o.Kind, o.Step, o.Key, o.Counterparty = localKind, "deposit", key("t9", "deposit"), "bank"
	})
	if got := f.apply(deposit)[0]; got.GetOutcome() != invalid {
		t.Errorf("a deposit by the participant's edge: %v", got)
	}
	for _, kind := range []participantv1.OperationKind{1, 2, 3, 4} {
		if got := f.call(kind, nil); got.GetOutcome() != invalid || !slices.Equal(fields(got), []string{"operation"}) {
			t.Errorf("no operation to %v: %v", kind, got)
		}
		for _, other := range []participantv1.OperationKind{1, 2, 3, 4, 5, 99} {
			if other == kind {
				continue
			}
			if got := f.call(kind, with(debit("t1"), func(o *participantv1.Operation) { o.Kind = other })); got.GetOutcome() != invalid || !slices.Contains(fields(got), "kind") {
				t.Errorf("%v sent to %v: %v", other, kind, got)
			}
		}
	}
	if got := f.lookup(nil); got.GetOutcome() != invalid {
		t.Errorf("a look-up of nothing: %v", got)
	}
	if after := f.stored(); after != before {
		t.Errorf("%d operations were stored", after-before)
	}
	if got := f.single(debit("t1")); got.GetOutcome() != applied {
		t.Fatal(got)
	}
	// A known key is answered before anything else is judged.
	if got := f.call(2, with(debit("t1"), func(o *participantv1.Operation) { o.Kind = 0 })); got.GetOutcome() != keyReused || !slices.Equal(got.GetDifferingFields(), []string{"kind"}) {
		t.Errorf("a credit under a debit's key: %v", got)
	}
}

// TestC35C56KnownKeys: the same contents replay, others are KEY_REUSED, and neither
// is a gRPC error.
func TestC35C56KnownKeys(t *testing.T) {
	f := fresh(t)
	f.single(debit("t1"))
	changes := map[string]func(*participantv1.Operation){
		"account":      func(o *participantv1.Operation) { o.Account = "\x00" },
		"amount":       func(o *participantv1.Operation) { o.Amount = -9999 },
		"currency":     func(o *participantv1.Operation) { o.Currency = "" },
		"counterparty": func(o *participantv1.Operation) { o.Counterparty = "ledger/other" },
		"transfer_key": func(o *participantv1.Operation) { o.TransferKey = strings.Repeat("k", 1000) },
		"step":         func(o *participantv1.Operation) { o.Step = "credit" },
		"debit_key":    func(o *participantv1.Operation) { o.DebitKey = "nonsense" },
	}
	for field, change := range changes {
		other := with(debit("t1"), change)
		for _, got := range []*participantv1.Answer{f.single(other), f.lookup(other), f.apply(other)[0]} {
			if got.GetOutcome() != keyReused || !slices.Equal(got.GetDifferingFields(), []string{field}) || got.GetAmountMoved() != 0 || got.GetAmount() != other.GetAmount() {
				t.Errorf("%s: %v", field, got)
			}
		}
	}
	if got := f.single(debit("t1")); got.GetOutcome() != applied || !got.GetReplayed() {
		t.Errorf("the same again: %v", got)
	}
	if f.balance("alice") != 6000 {
		t.Errorf("alice has %d", f.balance("alice"))
	}
}

func TestC42RefusalSticks(t *testing.T) {
	f := fresh(t)
	big := with(debit("t1"), func(o *participantv1.Operation) { o.Amount = 20_000 })
	first := f.single(big)
	if first.GetOutcome() != refused || first.GetReason() != participantv1.RefusalReason_REFUSAL_REASON_INSUFFICIENT_FUNDS || first.GetReplayed() {
		t.Fatal(first)
	}
	f.local(book.Operation{Kind: book.Deposit, Account: "alice", Currency: "USD", Amount: 50_000, Counterparty: "bank", TransferKey: "top-up"})
	if got := f.single(big); got.GetOutcome() != refused || !got.GetReplayed() || !proto.Equal(got.GetFirstTime(), first.GetFirstTime()) {
		t.Errorf("after a top-up: %v", got)
	}
	if got := f.single(with(debit("t2"), func(o *participantv1.Operation) { o.Amount = 20_000 })); got.GetOutcome() != applied {
		t.Errorf("with a new key: %v", got)
	}
	if got := f.single(with(debit("t3"), func(o *participantv1.Operation) { o.Currency = "EUR" })); got.GetReason() != participantv1.RefusalReason_REFUSAL_REASON_CURRENCY_MISMATCH {
		t.Errorf("C25: %v", got)
	}
	if got := f.single(with(debit("t4"), func(o *participantv1.Operation) { o.Account = "nobody" })); got.GetReason() != participantv1.RefusalReason_REFUSAL_REASON_ACCOUNT_NOT_FOUND {
		t.Errorf("no account: %v", got)
	}
}

func TestC03C04TombstonesAndRefunds(t *testing.T) {
	f := fresh(t)
	if got := f.single(refund("t1")); got.GetOutcome() != applied || got.GetAmountMoved() != 0 || got.GetDebitOutcome() != cancelled {
		t.Errorf("C04: a refund of a debit that never came: %v", got)
	}
	if got := f.single(debit("t1")); got.GetOutcome() != cancelled || !got.GetReplayed() {
		t.Errorf("C03: the late debit: %v", got)
	}
	if got := f.single(cancel("t2", "credit")); got.GetOutcome() != cancelled || got.GetReplayed() || got.GetAmount() != 4000 {
		t.Errorf("a cancel: %v", got)
	}
	if got := f.single(credit("t2")); got.GetOutcome() != cancelled {
		t.Errorf("the late credit: %v", got)
	}
	// What cannot be done can still be undone: the rest of a cancel is not judged.
	if got := f.single(with(cancel("t3", "debit"), func(o *participantv1.Operation) {
		o.Account, o.Amount, o.Currency, o.Counterparty, o.DebitKey = "\x00", math.MinInt64, "nonsense", strings.Repeat("x", 5000), "nonsense"
	})); got.GetOutcome() != cancelled {
		t.Errorf("a cancel of what could never be done: %v", got)
	}
	if got := f.single(cancel("t3", "refund")); got.GetOutcome() != invalid {
		t.Errorf("a cancel of a refund: %v", got)
	}
	f.single(debit("t4"))
	f.single(refund("t4"))
	second := with(refund("t4"), func(o *participantv1.Operation) { o.TransferKey, o.Key = "t4-again", key("t4-again", "refund") })
	// The debit's transfer key is contents: a refund from another transfer differs.
	if got := f.single(second); got.GetOutcome() != keyReused {
		t.Errorf("C06: a refund from another transfer: %v", got)
	}
	second = with(refund("t4"), func(o *participantv1.Operation) { o.Key = key("t4", "admin") })
	if got := f.single(second); got.GetOutcome() != refused || got.GetReason() != participantv1.RefusalReason_REFUSAL_REASON_ALREADY_REFUNDED ||
		got.GetFirstRefundKey() != key("t4", "refund") || got.GetFirstRefundAmount() != 4000 {
		t.Errorf("C06: a second refund: %v", got)
	}
	if f.balance("alice") != 10_000 {
		t.Errorf("alice has %d", f.balance("alice"))
	}
	f.stored()
}

func TestC60RefundsArriveWhateverTheAccountsState(t *testing.T) {
	f := fresh(t)
	f.single(debit("t1"))
	f.single(with(debit("t2"), func(o *participantv1.Operation) { o.Amount = 6000 }))
	f.local(book.Operation{Kind: book.Freeze, Account: "alice", TransferKey: "freeze"})
	if got := f.single(debit("t3")); got.GetReason() != participantv1.RefusalReason_REFUSAL_REASON_ACCOUNT_FROZEN {
		t.Errorf("a debit of a frozen account: %v", got)
	}
	if got := f.single(refund("t1")); got.GetOutcome() != applied || got.GetRefundToSuspense() || got.GetBalanceAfter() != 4000 {
		t.Errorf("a refund to a frozen account: %v", got)
	}
	// It is empty again after a debit that came before it was frozen.
	g := fresh(t)
	g.single(with(debit("t1"), func(o *participantv1.Operation) { o.Amount = 10_000 }))
	g.local(book.Operation{Kind: book.Close, Account: "alice", TransferKey: "close"})
	if got := g.single(with(refund("t1"), func(o *participantv1.Operation) { o.Amount = 10_000 })); got.GetOutcome() != applied || !got.GetRefundToSuspense() || got.GetAmountMoved() != 10_000 {
		t.Errorf("a refund to a closed account: %v", got)
	}
	g.stored()
}

func TestApplyAnswersEachItem(t *testing.T) {
	f := fresh(t)
	bad := with(debit("t2"), func(o *participantv1.Operation) { o.Kind = participantv1.OperationKind_OPERATION_KIND_LOCAL })
	got := f.apply(debit("t1"), bad, &participantv1.Operation{}, debit("t1"), cancel("t5", "credit"), with(debit("t3"), func(o *participantv1.Operation) { o.Amount = 6001 }))
	want := []participantv1.Outcome{applied, invalid, invalid, applied, cancelled, refused}
	for i, a := range got {
		if a.GetOutcome() != want[i] {
			t.Errorf("item %d: want %v, got %v", i, want[i], a)
		}
	}
	if !got[3].GetReplayed() || got[0].GetReplayed() {
		t.Error("the second of two with one key is the replay")
	}
	f.apply()
	f.apply(slices.Repeat([]*participantv1.Operation{debit("t1")}, book.BatchSizeMax)...)
	_, err := f.client.Apply(t.Context(), &participantv1.ApplyRequest{Operations: slices.Repeat([]*participantv1.Operation{debit("t6")}, 10_000)})
	if v := rpc.FieldViolations(err); status.Code(err) != codes.InvalidArgument || len(v) != 1 || v[0].Field != "operations" {
		t.Errorf("10,000 items: %v", err)
	}
	if got := f.lookup(debit("t6")); got.GetOutcome() != notFound {
		t.Errorf("something of it was done: %v", got)
	}
}

func TestListOperationsPagesThroughEverything(t *testing.T) {
	f := fresh(t)
	f.single(debit("t1"))
	f.single(with(debit("t2"), func(o *participantv1.Operation) { o.Amount = 99_999 }))
	f.single(refund("t3"))
	request := &participantv1.ListOperationsRequest{Tenant: "acme", PageSize: 2}
	seen := map[string]*participantv1.StoredOperation{}
	for pages := 0; ; pages++ {
		r, err := f.client.ListOperations(t.Context(), request)
		if err != nil || pages > 10 {
			t.Fatal(err, pages)
		}
		for _, o := range r.GetOperations() {
			seen[o.GetOperation().GetKey()] = o
		}
		if request.PageToken = r.GetNextPageToken(); request.PageToken == "" {
			break
		}
	}
	if len(seen) != 6 { // open, deposit, two debits, a refund and the debit that it cancelled
		t.Errorf("%d operations are listed", len(seen))
	}
	d := seen[key("t1", "debit")]
	if !proto.Equal(d.GetOperation(), debit("t1")) || len(d.GetLines()) != 2 || d.GetLines()[0].GetAmount()+d.GetLines()[1].GetAmount() != 0 || d.GetAnswer().GetAmountMoved() != 4000 {
		t.Errorf("the debit: %v", d)
	}
	deposit := seen[key("pay-in", "deposit")]
	if deposit.GetOperation().GetKind() != participantv1.OperationKind_OPERATION_KIND_LOCAL || deposit.GetOperation().GetStep() != "deposit" || deposit.GetOperation().GetCounterparty() != "bank" {
		t.Errorf("the deposit: %v", deposit)
	}
	if got := f.lookup(deposit.GetOperation()); got.GetOutcome() != applied {
		t.Errorf("the deposit, looked up as it is listed: %v", got)
	}
	if got := f.lookup(with(debit("t1"), func(o *participantv1.Operation) { o.Kind = participantv1.OperationKind_OPERATION_KIND_LOCAL })); got.GetOutcome() != keyReused {
		t.Errorf("a debit looked up as a local operation: %v", got)
	}
	if r := seen[key("t2", "debit")]; r.GetAnswer().GetOutcome() != refused || len(r.GetLines()) != 0 {
		t.Errorf("the refused debit: %v", r)
	}
	first, err := f.client.ListOperations(t.Context(), &participantv1.ListOperationsRequest{Tenant: "acme", PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	for field, bad := range map[string]*participantv1.ListOperationsRequest{
		"page_size":  {PageSize: -1},
		"page_token": {PageToken: first.GetNextPageToken()}, // of another list
		"tenant":     {Tenant: "A\x00"},
	} {
		_, err := f.client.ListOperations(t.Context(), bad)
		if v := rpc.FieldViolations(err); len(v) != 1 || v[0].Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, token := range []string{"!", rpc.PageToken("operations/", "acme", "nonsense"), rpc.PageToken("operations/", "\x00", key("a", "b"))} {
		if _, err := f.client.ListOperations(t.Context(), &participantv1.ListOperationsRequest{PageToken: token}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("token %q: %v", token, err)
		}
	}
}

func TestC46TenantsDoNotSeeEachOther(t *testing.T) {
	f := fresh(t)
	f.single(debit("1"))
	theirs := with(debit("1"), func(o *participantv1.Operation) { o.Tenant = "other" })
	if got := f.lookup(theirs); got.GetOutcome() != notFound {
		t.Errorf("another tenant's key: %v", got)
	}
	if got := f.single(theirs); got.GetOutcome() != refused || got.GetReason() != participantv1.RefusalReason_REFUSAL_REASON_ACCOUNT_NOT_FOUND {
		t.Errorf("another tenant's account: %v", got)
	}
	r, err := f.client.ListOperations(t.Context(), &participantv1.ListOperationsRequest{Tenant: "other"})
	if err != nil || len(r.GetOperations()) != 1 {
		t.Errorf("%v %v", r, err)
	}
}

func TestDescribeAndSums(t *testing.T) {
	f := fresh(t)
	f.single(debit("t1"))
	d, err := f.client.Describe(t.Context(), &participantv1.DescribeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if d.GetProtocolVersion() != 1 || d.GetParticipant() != "accounts" || d.GetAmountMax() != 1<<62 || d.GetBatchSizeMax() != book.BatchSizeMax ||
		d.GetRetentionHorizonSeconds() != 0 || d.GetIncarnation() == "" || d.GetHighWaterMark() == 0 || len(d.GetCurrencies()) != len(money.Currencies()) {
		t.Errorf("%v", d)
	}
	s, err := f.client.Sums(t.Context(), &participantv1.SumsRequest{Tenant: "acme"})
	if err != nil || len(s.GetClearing()) != 1 || s.GetClearing()[0].GetParticipant() != "ledger" || s.GetClearing()[0].GetBalance() != "4000" ||
		s.GetOperationCount() != 3 || len(s.GetCurrencies()) != 1 || s.GetCurrencies()[0].GetTotal() != "0" {
		t.Errorf("%v %v", s, err)
	}
}

// broken is a store that fails.
type broken struct {
	store.Store
	err error
}

func (b broken) Apply(context.Context, []book.Operation, book.Limits) ([]book.Answer, error) {
	return nil, b.err
}
func (b broken) Lookup(context.Context, book.Operation) (book.Answer, error) {
	return book.Answer{}, b.err
}
func (b broken) KeepFor(context.Context, time.Duration) error           { return b.err }
func (b broken) Identity(context.Context) (store.Identity, error)       { return store.Identity{}, b.err }
func (b broken) Sums(context.Context, names.Tenant) (store.Sums, error) { return store.Sums{}, b.err }
func (b broken) Operations(context.Context, names.Tenant, book.ID, int) ([]store.Listed, error) {
	return nil, b.err
}

func TestC16C41AFailingStoreIsUnknownAndGivesNothingAway(t *testing.T) {
	f := serve(t, broken{mem.New(time.Now), errors.New("secret-dsn: constraint violated")})
	ctx := t.Context()
	_, e1 := f.client.Debit(ctx, &participantv1.DebitRequest{Operation: debit("t1")})
	_, e2 := f.client.Apply(ctx, &participantv1.ApplyRequest{Operations: []*participantv1.Operation{debit("t1")}})
	_, e3 := f.client.GetOperation(ctx, &participantv1.GetOperationRequest{Operation: debit("t1")})
	_, e4 := f.client.ListOperations(ctx, &participantv1.ListOperationsRequest{})
	_, e5 := f.client.Sums(ctx, &participantv1.SumsRequest{})
	_, e6 := f.client.Describe(ctx, &participantv1.DescribeRequest{})
	for i, err := range []error{e1, e2, e3, e4, e5, e6} {
		_, retry := rpc.RetryAfter(err)
		if status.Code(err) != codes.Unavailable || rpc.Reason(err) != rpc.ReasonUnknown || !retry || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "same key") {
			t.Errorf("call %d: %v", i, err)
		}
	}
	f.engine.Close()
	_, err := f.client.Debit(ctx, &participantv1.DebitRequest{Operation: debit("t1")})
	if rpc.Reason(err) != rpc.ReasonStopping || !strings.Contains(err.Error(), "nothing was written") {
		t.Errorf("a closed engine: %v", err)
	}
}

// poisoned is a store that fails over one transfer.
type poisoned struct {
	store.Store
	transfer names.TransferKey
}

func (p poisoned) Apply(ctx context.Context, operations []book.Operation, limits book.Limits) ([]book.Answer, error) {
	for _, o := range operations {
		if o.TransferKey == p.transfer {
			return nil, errors.New("secret-dsn: value out of range")
		}
	}
	return p.Store.Apply(ctx, operations, limits)
}

// An item of which nothing is known is answered without an outcome, which means
// unknown, and its neighbours with theirs; a call of that item alone is an error.
func TestAnItemOfWhichNothingIsKnown(t *testing.T) {
	f := serve(t, poisoned{mem.New(time.Now), "poison"})
	got := f.apply(cancel("t1", "debit"), debit("poison"), cancel("t2", "credit"))
	for i, want := range []participantv1.Outcome{cancelled, 0, cancelled} {
		if got[i].GetOutcome() != want {
			t.Errorf("item %d: %v", i, got[i])
		}
	}
	if want := (&participantv1.Answer{Key: key("poison", "debit"), Amount: 4000}); !proto.Equal(got[1], want) {
		t.Errorf("%v, want the key and the amount and no more", got[1])
	}
	_, one := f.client.Debit(t.Context(), &participantv1.DebitRequest{Operation: debit("poison")})
	_, all := f.client.Apply(t.Context(), &participantv1.ApplyRequest{Operations: []*participantv1.Operation{debit("poison")}})
	for _, err := range []error{one, all} {
		if rpc.Reason(err) != rpc.ReasonUnknown || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
}

func TestHostileRequestsAreTheCallersFault(t *testing.T) {
	f := fresh(t)
	addr := rpctest.Serve(t, server.New(f.engine).Register)
	service := participantv1.File_giro_participant_v1_participant_proto.Services().ByName("ParticipantService")
	step := map[string]string{"DebitRequest": "debit", "CreditRequest": "credit", "RefundRequest": "refund"}
	rpctest.Hostile(t, rpctest.Dial(t, addr), service, func(m proto.Message) {
		d := m.(*dynamicpb.Message)
		field := d.Descriptor().Fields().ByName("operation")
		if field == nil {
			return
		}
		b, err := proto.Marshal(operation(0, "hostile", orElse(step[string(d.Descriptor().Name())], "debit")))
		if err != nil {
			t.Fatal(err)
		}
		if err := proto.Unmarshal(b, d.Mutable(field).Message().Interface()); err != nil {
			t.Fatal(err)
		}
	})
	f.stored()
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
