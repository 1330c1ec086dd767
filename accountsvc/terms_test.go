package accountsvc_test

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"giro/internal/names"
	"giro/internal/rpc"
	"giro/internal/stepkey"
	accountv1 "giro/proto/giro/account/v1"
	participantv1 "giro/proto/giro/participant/v1"
)

// suspend leaves a refund of an account that was closed in suspense, and gives its
// key.
func (f fixture) suspend(transfer, account string, amount int64) string {
	f.Helper()
	f.open(account)
	f.deposit("fund-"+account, account, amount)
	key := func(step string) string {
		return stepkey.Derive(stepkey.V1, "acme", names.TransferKey(transfer), step).String()
	}
	participant := participantv1.NewParticipantServiceClient(f.conn)
	o := &participantv1.Operation{Tenant: "acme", TransferKey: transfer, Step: stepkey.Debit, Key: key(stepkey.Debit),
		Account: account, Amount: amount, Currency: "USD", Counterparty: "ledger/shop"}
	debited, err := participant.Debit(f.Context(), &participantv1.DebitRequest{Operation: o})
	if err != nil || debited.GetAnswer().GetOutcome() != participantv1.Outcome_OUTCOME_APPLIED {
		f.Fatal(debited, err)
	}
	if _, err := f.client.Close(f.Context(), &accountv1.CloseRequest{Key: "close-" + account, Account: account}); err != nil {
		f.Fatal(err)
	}
	o.Step, o.Key, o.DebitKey = stepkey.Refund, key(stepkey.Refund), o.GetKey()
	refunded, err := participant.Refund(f.Context(), &participantv1.RefundRequest{Operation: o})
	if err != nil || !refunded.GetAnswer().GetRefundToSuspense() {
		f.Fatal(refunded, err)
	}
	return o.GetKey()
}

func TestTermsAreKeptAndRefuseWhatGoesBeyond(t *testing.T) {
	f := fresh(t)
	ctx := t.Context()
	terms := &accountv1.Terms{Overdraft: 100, DebitMax: 60, DayMax: 90, DayZone: "Europe/Berlin"}
	opened, err := f.client.OpenAccount(ctx, &accountv1.OpenAccountRequest{Key: "o", Account: "alice", Currency: "USD", Terms: terms,
		Holder: map[string]string{"customer": "4711"}})
	if err != nil {
		t.Fatal(err)
	}
	if a := opened.GetAccount(); a.GetFloor() != -100 || a.GetTerms().String() != terms.String() || a.GetHolder()["customer"] != "4711" {
		t.Errorf("%v", a)
	}
	withdraw := func(key string, amount int64) error {
		_, err := f.client.Withdraw(ctx, &accountv1.WithdrawRequest{Key: key, Account: "alice", Amount: amount, Currency: "USD", External: "till"})
		return err
	}
	refused(t, "more than one may take", withdraw("1", 61), codes.FailedPrecondition, "LIMIT_EXCEEDED")
	if err := withdraw("2", 60); err != nil {
		t.Fatal(err)
	}
	refused(t, "more than the day's", withdraw("3", 31), codes.FailedPrecondition, "LIMIT_EXCEEDED", "day")
	if a := f.account("alice"); a.GetBalance() != -60 || a.GetSpent() != 60 || a.GetSpentDay() == "" {
		t.Errorf("%v", a)
	}
	_, err = f.client.SetTerms(ctx, &accountv1.SetTermsRequest{Key: "4", Account: "alice", Terms: &accountv1.Terms{Overdraft: 59}})
	refused(t, "an overdraft below what is owed", err, codes.FailedPrecondition, "BALANCE_BELOW_FLOOR", "owes")
	if _, err := f.client.SetTerms(ctx, &accountv1.SetTermsRequest{Key: "5", Account: "alice", Terms: &accountv1.Terms{Overdraft: 60}}); err != nil {
		t.Fatal(err)
	}
	refused(t, "no money left", withdraw("6", 1), codes.FailedPrecondition, "INSUFFICIENT_FUNDS", "not enough")
	_, err = f.client.SetTerms(ctx, &accountv1.SetTermsRequest{Key: "7", Account: "alice", Terms: &accountv1.Terms{DayMax: 1, DayZone: "Mars/Olympus"}})
	refused(t, "a zone that is none", err, codes.InvalidArgument, "REQUEST_INVALID", "terms.day_zone")
	_, err = f.client.SetTerms(ctx, &accountv1.SetTermsRequest{Key: "5", Account: "alice", Terms: &accountv1.Terms{Overdraft: 61}})
	refused(t, "other terms under a key", err, codes.AlreadyExists, "OPERATION_KEY_REUSED", "terms.overdraft")
	if _, err := f.client.SetHolder(ctx, &accountv1.SetHolderRequest{Key: "8", Account: "alice", Holder: map[string]string{"customer": "4712"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.client.Freeze(ctx, &accountv1.FreezeRequest{Key: "9", Account: "alice", Reason: "stolen card"}); err != nil {
		t.Fatal(err)
	}
	if a := f.account("alice"); a.GetHolder()["customer"] != "4712" || a.GetStateReason() != "stolen card" {
		t.Errorf("%v", a)
	}
}

func TestStatementPagesBelongTogether(t *testing.T) {
	f := fresh(t)
	ctx := t.Context()
	f.open("alice")
	for i := range 7 {
		f.deposit(fmt.Sprint("d", i), "alice", int64(10+i))
	}
	var lines []*accountv1.StatementLine
	request := &accountv1.GetStatementRequest{Account: "alice", PageSize: 3}
	for page := 0; ; page++ {
		r, err := f.client.GetStatement(ctx, request)
		if err != nil {
			t.Fatal(err)
		}
		if r.GetOpeningBalance() != 0 || r.GetClosingBalance() != 91 || r.GetCurrency() != "USD" {
			t.Errorf("page %d goes from %d to %d", page, r.GetOpeningBalance(), r.GetClosingBalance())
		}
		lines = append(lines, r.GetLines()...)
		f.deposit(fmt.Sprint("later", page), "alice", 1000) // no page of this statement shows it
		if request.PageToken = r.GetNextPageToken(); request.PageToken == "" {
			break
		}
	}
	balance := int64(0)
	for i, l := range lines {
		balance += l.GetAmount()
		if l.GetNumber() != int64(i+1) || l.GetBalanceAfter() != balance || l.GetKind() != "deposit" || l.GetKey() != fmt.Sprint("d", i) ||
			l.GetCounterparty() != "bank" {
			t.Errorf("line %d: %v", i, l)
		}
	}
	if len(lines) != 7 {
		t.Errorf("%d lines", len(lines))
	}
	half, err := f.client.GetStatement(ctx, &accountv1.GetStatementRequest{Account: "alice", FromTime: lines[3].GetTime(), ToTime: lines[6].GetTime()})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(half.GetLines(), func(a, b *accountv1.StatementLine) int { return int(a.GetNumber() - b.GetNumber()) }) ||
		half.GetLines()[0].GetTime().AsTime().Before(lines[3].GetTime().AsTime()) {
		t.Errorf("%v", half)
	}
	for name, wrong := range map[string]*accountv1.GetStatementRequest{
		"a token of another statement": {Account: "alice", ToTime: lines[6].GetTime(), PageToken: first(f.client.GetStatement(ctx, &accountv1.GetStatementRequest{Account: "alice", PageSize: 1})).GetNextPageToken()},
		"an end before the start":      {Account: "alice", FromTime: timestamppb.New(lines[6].GetTime().AsTime().Add(1e9)), ToTime: lines[3].GetTime()},
		"an instant that is none":      {Account: "alice", FromTime: &timestamppb.Timestamp{Nanos: -1}},
		"a year that is none":          {Account: "alice", ToTime: &timestamppb.Timestamp{Seconds: 1 << 60}},
	} {
		_, err := f.client.GetStatement(ctx, wrong)
		refused(t, name, err, codes.InvalidArgument, "REQUEST_INVALID")
	}
	forged := func(parts ...string) string {
		return rpc.PageToken("statement/acme/alice/0/0", parts...)
	}
	for name, token := range map[string]string{
		"a currency that is none": forged("0", "0", "9", "0", "0", "\xff\xfe"),
		"a number below zero":     forged("0", "-1", "9", "0", "0", "USD"),
		"a time before all":       forged("-9223372036854775808", "0", "9", "0", "0", "USD"),
		"a time after all":        forged("9223372036854775807", "0", "9", "0", "0", "USD"),
		"an end before the start": forged("0", "9", "1", "0", "0", "USD"),
		"words":                   forged("a", "b", "c", "d", "e", "USD"),
	} {
		_, err := f.client.GetStatement(ctx, &accountv1.GetStatementRequest{Account: "alice", PageToken: token})
		refused(t, "a forged token with "+name, err, codes.InvalidArgument, "REQUEST_INVALID")
	}
	_, err = f.as("other").client.GetStatement(ctx, &accountv1.GetStatementRequest{Account: "alice"})
	refused(t, "another tenant's", err, codes.NotFound, "ACCOUNT_NOT_FOUND")
}

func first[T any](r T, err error) T {
	if err != nil {
		panic(err)
	}
	return r
}

// TestC60SuspenseIsReleasedOnce, and nothing of it is lost.
func TestC60SuspenseIsReleasedOnce(t *testing.T) {
	f := fresh(t)
	ctx := t.Context()
	refund := f.suspend("t1", "gone", 40)
	f.open("heir")
	listed, err := f.client.ListSuspense(ctx, &accountv1.ListSuspenseRequest{})
	if err != nil || len(listed.GetRefunds()) != 1 {
		t.Fatal(listed, err)
	}
	if r := listed.GetRefunds()[0]; r.GetRefundKey() != refund || r.GetTransferKey() != "t1" || r.GetAccount() != "gone" || r.GetAmount() != 40 ||
		r.GetCurrency() != "USD" || r.GetReleasedTo() != "" {
		t.Errorf("%v", r)
	}
	request := &accountv1.ReleaseSuspenseRequest{Key: "r", RefundKey: refund, Account: "heir", Reason: "the heir came"}
	for i := range 2 {
		r, err := f.client.ReleaseSuspense(ctx, request)
		if err != nil || r.GetAmount() != 40 || r.GetBalanceAfter() != 40 || r.GetReplayed() != (i == 1) {
			t.Fatal(r, err)
		}
	}
	_, err = f.client.ReleaseSuspense(ctx, &accountv1.ReleaseSuspenseRequest{Key: "r2", RefundKey: refund, Account: "heir", Reason: "again"})
	refused(t, "twice", err, codes.FailedPrecondition, "ALREADY_RELEASED", "released")
	_, err = f.as("other").client.ReleaseSuspense(ctx, request)
	refused(t, "another tenant's", err, codes.NotFound, "ACCOUNT_NOT_FOUND")
	if listed, err = f.client.ListSuspense(ctx, &accountv1.ListSuspenseRequest{}); err != nil || listed.GetRefunds()[0].GetReleasedTo() != "heir" {
		t.Error(listed, err)
	}
	sums, err := f.engine.Store().Sums(ctx, "acme")
	if err != nil || len(sums.Faults) > 0 || sums.Currencies[0].Total != "0" {
		t.Error(sums, err)
	}
}

// TestGetOperationFindsWhatTheListGave, the participant's own operations too.
func TestGetOperationFindsWhatTheListGave(t *testing.T) {
	f := fresh(t)
	ctx := t.Context()
	f.suspend("t1", "gone", 40)
	if _, err := f.client.OpenAccount(ctx, &accountv1.OpenAccountRequest{Key: "o", Account: "alice", Currency: "USD",
		Terms: &accountv1.Terms{Overdraft: 5}, Holder: map[string]string{"customer": "1"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.client.Withdraw(ctx, &accountv1.WithdrawRequest{Key: "w", Account: "alice", Amount: 5, Currency: "USD", External: "bank"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.client.Freeze(ctx, &accountv1.FreezeRequest{Key: "f", Account: "alice", Reason: "lost"}); err != nil {
		t.Fatal(err)
	}
	participant := participantv1.NewParticipantServiceClient(f.conn)
	listed, err := participant.ListOperations(ctx, &participantv1.ListOperationsRequest{Tenant: "acme"})
	if err != nil || len(listed.GetOperations()) < 7 {
		t.Fatal(listed, err)
	}
	for _, o := range listed.GetOperations() {
		found, err := participant.GetOperation(ctx, &participantv1.GetOperationRequest{Operation: o.GetOperation()})
		if err != nil || found.GetAnswer().GetOutcome() != o.GetAnswer().GetOutcome() {
			t.Errorf("%s: %v, %v", o.GetOperation().GetStep(), found, err)
		}
	}
}
