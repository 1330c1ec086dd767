package ledgersvc_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"giro/internal/names"
	"giro/internal/participant"
	"giro/internal/participant/book"
	"giro/internal/participant/store/mem"
	"giro/internal/rpc"
	"giro/internal/rpc/rpctest"
	"giro/internal/stepkey"
	"giro/ledgersvc"
	ledgerv1 "giro/proto/giro/ledger/v1"
	participantv1 "giro/proto/giro/participant/v1"
)

type fixture struct {
	*testing.T
	addr   string
	engine *participant.Engine
	conn   *grpc.ClientConn
	client ledgerv1.LedgerServiceClient
}

func fresh(t *testing.T) fixture {
	t.Helper()
	engine := participant.New(mem.New(time.Now), participant.Config{Name: "ledger"})
	t.Cleanup(engine.Close)
	return fixture{T: t, addr: rpctest.Serve(t, ledgersvc.New(engine).Register), engine: engine}.as("acme")
}

// as is the same service as another tenant sees it.
func (f fixture) as(tenant names.Tenant) fixture {
	f.Helper()
	f.conn = rpctest.Dial(f.T, f.addr, rpc.WithPrincipal(tenant, "tester"))
	f.client = ledgerv1.NewLedgerServiceClient(f.conn)
	return f
}

func (f fixture) open(account, currency string) {
	f.Helper()
	if _, err := f.client.OpenAccount(f.Context(), &ledgerv1.OpenAccountRequest{Key: "open-" + account, Account: account, Currency: currency}); err != nil {
		f.Fatal(err)
	}
}

// credit brings money in as the orchestrator would.
func (f fixture) credit(transfer, account, currency string, amount int64) {
	f.Helper()
	r, err := participantv1.NewParticipantServiceClient(f.conn).Credit(f.Context(), &participantv1.CreditRequest{Operation: &participantv1.Operation{
		Tenant: "acme", TransferKey: transfer, Step: stepkey.Credit,
		Key:     stepkey.Derive(stepkey.V1, "acme", names.TransferKey(transfer), stepkey.Credit).String(),
		Account: account, Amount: amount, Currency: currency, Counterparty: "accounts/alice"}})
	if err != nil || r.GetAnswer().GetOutcome() != participantv1.Outcome_OUTCOME_APPLIED {
		f.Fatal(r, err)
	}
}

// suspend leaves a refund of an account that was closed in suspense, and gives its
// key.
func (f fixture) suspend(transfer, account string, amount int64) string {
	f.Helper()
	f.open(account, "USD")
	f.credit("fund-"+transfer, account, "USD", amount)
	key := func(step string) string {
		return stepkey.Derive(stepkey.V1, "acme", names.TransferKey(transfer), step).String()
	}
	participant := participantv1.NewParticipantServiceClient(f.conn)
	o := &participantv1.Operation{Tenant: "acme", TransferKey: transfer, Step: stepkey.Debit, Key: key(stepkey.Debit),
		Account: account, Amount: amount, Currency: "USD", Counterparty: "accounts/alice"}
	if r, err := participant.Debit(f.Context(), &participantv1.DebitRequest{Operation: o}); err != nil || r.GetAnswer().GetAmountMoved() != amount {
		f.Fatal(r, err)
	}
	if _, err := f.client.Close(f.Context(), &ledgerv1.CloseRequest{Key: "close-" + account, Account: account}); err != nil {
		f.Fatal(err)
	}
	o.Step, o.Key, o.DebitKey = stepkey.Refund, key(stepkey.Refund), o.GetKey()
	r, err := participant.Refund(f.Context(), &participantv1.RefundRequest{Operation: o})
	if err != nil || !r.GetAnswer().GetRefundToSuspense() {
		f.Fatal(r, err)
	}
	return o.GetKey()
}

// TestTrialBalanceDoesNotWrap: three balances of 2^62 are more than 64 bits hold.
func TestTrialBalanceDoesNotWrap(t *testing.T) {
	f := fresh(t)
	for _, account := range []string{"a", "b", "c"} {
		f.open(account, "USD")
		f.credit("t-"+account, account, "USD", 1<<62)
	}
	f.open("yen", "JPY")
	f.credit("t-yen", "yen", "JPY", 500)
	f.open("idle", "EUR")
	r, err := f.client.TrialBalance(t.Context(), &ledgerv1.TrialBalanceRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if !r.GetBalanced() || !r.GetReadTime().IsValid() {
		t.Errorf("%v", r)
	}
	const three = "13835058055282163712" // 3 * 2^62
	totals := map[string]string{"USD": three, "JPY": "500"}
	for _, total := range r.GetTotals() {
		want, listed := totals[total.GetCurrency()]
		if !listed {
			want = "0"
		}
		delete(totals, total.GetCurrency())
		if total.GetDebit() != want || total.GetCredit() != want {
			t.Errorf("want %s on both sides, got %v", want, total)
		}
	}
	if len(totals) > 0 {
		t.Errorf("no total for %v", totals)
	}
	var clearing, credits []string
	for _, row := range r.GetRows() {
		if row.GetDebit() != "0" && row.GetCredit() != "0" {
			t.Errorf("a row with both sides: %v", row)
		}
		if row.GetCurrency() != "USD" {
			continue
		}
		if row.GetAccount() == "clearing:accounts" {
			clearing = append(clearing, row.GetDebit())
		} else {
			credits = append(credits, row.GetAccount()+" "+row.GetCredit())
		}
	}
	if !slices.Equal(clearing, []string{three}) || !slices.Equal(credits, []string{"a 4611686018427387904", "b 4611686018427387904", "c 4611686018427387904"}) {
		t.Errorf("rows: %v and %v", clearing, credits)
	}
	if !slices.IsSortedFunc(r.GetRows(), func(a, b *ledgerv1.TrialBalanceRow) int {
		return strings.Compare(a.GetCurrency()+" "+a.GetAccount(), b.GetCurrency()+" "+b.GetAccount())
	}) {
		t.Error("the rows are not ordered by currency and account")
	}
	other, err := f.as("other").client.TrialBalance(t.Context(), &ledgerv1.TrialBalanceRequest{})
	if err != nil || len(other.GetRows()) != 0 || !other.GetBalanced() {
		t.Errorf("C46: another tenant sees %v %v", other, err)
	}
}

func TestC43RefusalsNameTheStateAndStick(t *testing.T) {
	f := fresh(t)
	ctx := t.Context()
	f.open("merchant", "USD")
	f.credit("t1", "merchant", "USD", 100)
	f.open("closed", "USD")
	if r, err := f.client.Close(ctx, &ledgerv1.CloseRequest{Key: "c1", Account: "closed"}); err != nil || r.GetAccount().GetState() != ledgerv1.AccountState_ACCOUNT_STATE_CLOSED {
		t.Fatal(r, err)
	}
	open := func(r *ledgerv1.OpenAccountRequest) error { _, err := f.client.OpenAccount(ctx, r); return err }
	for range 2 { // a refusal is the same the second time
		_, notEmpty := f.client.Close(ctx, &ledgerv1.CloseRequest{Key: "c2", Account: "merchant"})
		_, closed := f.client.Freeze(ctx, &ledgerv1.FreezeRequest{Key: "f1", Account: "closed"})
		_, nobody := f.client.Freeze(ctx, &ledgerv1.FreezeRequest{Key: "f2", Account: "nobody"})
		_, unseen := f.as("other").client.GetAccount(ctx, &ledgerv1.GetAccountRequest{Account: "merchant"})
		for name, c := range map[string]struct {
			err    error
			code   codes.Code
			reason string
		}{
			"exists":           {open(&ledgerv1.OpenAccountRequest{Key: "o", Account: "merchant", Currency: "USD"}), codes.AlreadyExists, "ACCOUNT_EXISTS"},
			"key reused":       {open(&ledgerv1.OpenAccountRequest{Key: "open-merchant", Account: "merchant", Currency: "EUR"}), codes.AlreadyExists, "OPERATION_KEY_REUSED"},
			"not empty":        {notEmpty, codes.FailedPrecondition, "BALANCE_NOT_ZERO"},
			"closed":           {closed, codes.FailedPrecondition, "ACCOUNT_CLOSED"},
			"nobody":           {nobody, codes.NotFound, "ACCOUNT_NOT_FOUND"},
			"another tenant's": {unseen, codes.NotFound, "ACCOUNT_NOT_FOUND"},
		} {
			if status.Code(c.err) != c.code || rpc.Reason(c.err) != c.reason {
				t.Errorf("%s: want %v %s, got %v", name, c.code, c.reason, c.err)
			}
		}
	}
	if got := rpc.DifferingFields(open(&ledgerv1.OpenAccountRequest{Key: "open-merchant", Account: "merchant", Currency: "EUR"})); !slices.Equal(got, []string{"currency"}) {
		t.Errorf("the differing fields: %v", got)
	}
}

func TestListAccountsPages(t *testing.T) {
	f := fresh(t)
	want := []string{"a", "b", "c"}
	for _, account := range want {
		f.open(account, "USD")
	}
	var got []string
	request := &ledgerv1.ListAccountsRequest{PageSize: 2}
	for range 5 {
		r, err := f.client.ListAccounts(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range r.GetAccounts() {
			got = append(got, a.GetAccount())
		}
		if request.PageToken = r.GetNextPageToken(); request.PageToken == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// TestC15EveryChangingCallHasAKeyAndReplays fails for a new call without a case.
func TestC15EveryChangingCallHasAKeyAndReplays(t *testing.T) {
	f := fresh(t)
	f.open("a", "USD")
	f.open("b", "USD")
	f.open("heir", "USD")
	suspended := f.suspend("t", "gone", 3)
	reading := []string{"GetAccount", "ListAccounts", "TrialBalance", "ListSuspense"}
	changing := map[string]proto.Message{
		"OpenAccount":         &ledgerv1.OpenAccountRequest{Key: "k", Account: "c", Currency: "USD", Type: ledgerv1.AccountType_ACCOUNT_TYPE_ASSET},
		"Freeze":              &ledgerv1.FreezeRequest{Key: "k", Account: "a"},
		"Unfreeze":            &ledgerv1.UnfreezeRequest{Key: "k", Account: "a"},
		"Close":               &ledgerv1.CloseRequest{Key: "k", Account: "b"},
		"PostJournalEntry":    &ledgerv1.PostJournalEntryRequest{Key: "k", Currency: "USD", Lines: lines("heir", 7, "c", -7)},
		"ReverseJournalEntry": &ledgerv1.ReverseJournalEntryRequest{Key: "k", EntryKey: "k"},
		"ReleaseSuspense":     &ledgerv1.ReleaseSuspenseRequest{Key: "k", RefundKey: suspended, Account: "heir", Reason: "asked for"},
	}
	rpctest.Keyed(t, f.conn, ledgerv1.File_giro_ledger_v1_ledger_proto.Services().ByName("LedgerService"), reading, changing)
}

func TestHostileRequestsAreTheCallersFault(t *testing.T) {
	f := fresh(t)
	f.open("a", "USD")
	if _, err := f.client.OpenAccount(t.Context(), &ledgerv1.OpenAccountRequest{Key: "open-b", Account: "b", Currency: "USD",
		Type: ledgerv1.AccountType_ACCOUNT_TYPE_ASSET}); err != nil {
		t.Fatal(err)
	}
	suspended := f.suspend("t", "gone", 3)
	rpctest.Hostile(t, f.conn, ledgerv1.File_giro_ledger_v1_ledger_proto.Services().ByName("LedgerService"),
		func(m proto.Message) {
			rpctest.Fill(map[string]any{"key": "k", "account": "a", "currency": "USD", "refund_key": suspended, "reason": "because", "entry_key": "k"})(m)
			posting, ok := m.ProtoReflect().Descriptor().Fields().ByName("lines"), m.ProtoReflect().Descriptor().Name() == "PostJournalEntryRequest"
			if !ok {
				return
			}
			for _, side := range []struct {
				account string
				side    ledgerv1.Side
			}{{"a", ledgerv1.Side_SIDE_CREDIT}, {"b", ledgerv1.Side_SIDE_DEBIT}} {
				list := m.ProtoReflect().Mutable(posting).List()
				line := list.NewElement()
				fields := line.Message().Descriptor().Fields()
				line.Message().Set(fields.ByName("account"), protoreflect.ValueOfString(side.account))
				line.Message().Set(fields.ByName("side"), protoreflect.ValueOfEnum(side.side.Number()))
				line.Message().Set(fields.ByName("amount"), protoreflect.ValueOfInt64(1))
				list.Append(line)
			}
		})
}

func TestStatesOfBookAndProtoAgree(t *testing.T) {
	for ours, theirs := range map[book.AccountState]ledgerv1.AccountState{
		book.StateOpen:   ledgerv1.AccountState_ACCOUNT_STATE_OPEN,
		book.StateFrozen: ledgerv1.AccountState_ACCOUNT_STATE_FROZEN,
		book.StateClosed: ledgerv1.AccountState_ACCOUNT_STATE_CLOSED,
	} {
		if int32(ours) != int32(theirs) {
			t.Errorf("%v is %d in the book", theirs, ours)
		}
	}
}
