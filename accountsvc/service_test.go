package accountsvc_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"giro/accountsvc"
	"giro/internal/names"
	"giro/internal/participant"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/participant/store/mem"
	"giro/internal/rpc"
	"giro/internal/rpc/rpctest"
	accountv1 "giro/proto/giro/account/v1"
	participantv1 "giro/proto/giro/participant/v1"
)

type fixture struct {
	*testing.T
	addr   string
	engine *participant.Engine
	conn   *grpc.ClientConn
	client accountv1.AccountServiceClient
}

func serve(t *testing.T, s store.Store) fixture {
	t.Helper()
	engine := participant.New(s, participant.Config{Name: "accounts", RepeatSecondsMax: 1})
	t.Cleanup(engine.Close)
	addr := rpctest.Serve(t, accountsvc.New(engine).Register)
	return fixture{T: t, addr: addr, engine: engine}.as("acme")
}

func fresh(t *testing.T) fixture {
	t.Helper()
	return serve(t, mem.New(time.Now))
}

// as is the same service as another tenant sees it.
func (f fixture) as(tenant string) fixture {
	f.Helper()
	f.conn = rpctest.Dial(f.T, f.addr, rpc.WithPrincipal(names.Tenant(tenant), "tester"))
	f.client = accountv1.NewAccountServiceClient(f.conn)
	return f
}

func (f fixture) open(account string) {
	f.Helper()
	if _, err := f.client.OpenAccount(f.Context(), &accountv1.OpenAccountRequest{Key: "open-" + account, Account: account, Currency: "USD"}); err != nil {
		f.Fatal(err)
	}
}

func (f fixture) deposit(key, account string, amount int64) {
	f.Helper()
	if _, err := f.client.Deposit(f.Context(), &accountv1.DepositRequest{Key: key, Account: account, Amount: amount, Currency: "USD", External: "bank"}); err != nil {
		f.Fatal(err)
	}
}

func (f fixture) account(account string) *accountv1.Account {
	f.Helper()
	r, err := f.client.GetAccount(f.Context(), &accountv1.GetAccountRequest{Account: account})
	if err != nil {
		f.Fatal(err)
	}
	return r.GetAccount()
}

// refused fails unless err is a refusal of this code and reason that says that
// nothing was done.
func refused(t *testing.T, name string, err error, code codes.Code, reason string, words ...string) {
	t.Helper()
	if status.Code(err) != code || rpc.Reason(err) != reason {
		t.Errorf("%s: want %v %s, got %v %s", name, code, reason, err, rpc.Reason(err))
		return
	}
	for _, w := range append(words, "nothing was done") {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q is not said: %v", name, w, err)
		}
	}
}

func TestAnAccountsLife(t *testing.T) {
	f := fresh(t)
	f.open("alice")
	f.deposit("d1", "alice", 10_000)
	a := f.account("alice")
	if a.GetBalance() != 10_000 || a.GetFloor() != 0 || a.GetCurrency() != "USD" || a.GetState() != accountv1.AccountState_ACCOUNT_STATE_OPEN || !a.GetCreateTime().IsValid() {
		t.Errorf("%v", a)
	}
	opened, err := f.client.OpenAccount(t.Context(), &accountv1.OpenAccountRequest{Key: "open-alice", Account: "alice", Currency: "USD"})
	if err != nil || !opened.GetReplayed() || opened.GetAccount().GetBalance() != 10_000 || !opened.GetFirstTime().IsValid() {
		t.Errorf("opened again, the account as it now stands: %v %v", opened, err)
	}
	frozen, err := f.client.Freeze(t.Context(), &accountv1.FreezeRequest{Key: "f1", Account: "alice"})
	if err != nil || frozen.GetAccount().GetState() != accountv1.AccountState_ACCOUNT_STATE_FROZEN {
		t.Errorf("%v %v", frozen, err)
	}
	if f.account("alice").GetState() != frozen.GetAccount().GetState() {
		t.Error("the freeze did not stay")
	}
	unfrozen, err := f.client.Unfreeze(t.Context(), &accountv1.UnfreezeRequest{Key: "u1", Account: "alice"})
	if err != nil || unfrozen.GetAccount().GetState() != accountv1.AccountState_ACCOUNT_STATE_OPEN {
		t.Errorf("%v %v", unfrozen, err)
	}
	f.deposit("d2", "alice", 1)
	f.open("bob")
	closed, err := f.client.Close(t.Context(), &accountv1.CloseRequest{Key: "c1", Account: "bob"})
	if err != nil || closed.GetAccount().GetState() != accountv1.AccountState_ACCOUNT_STATE_CLOSED {
		t.Errorf("%v %v", closed, err)
	}
}

func TestC43RefusalsNameTheStateAndStick(t *testing.T) {
	f := fresh(t)
	ctx := t.Context()
	f.open("alice")
	f.open("frozen")
	f.open("closed")
	f.deposit("d1", "alice", 100)
	_, err := f.client.Freeze(ctx, &accountv1.FreezeRequest{Key: "f", Account: "frozen"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.client.Close(ctx, &accountv1.CloseRequest{Key: "c", Account: "closed"}); err != nil {
		t.Fatal(err)
	}
	deposit := func(key, account, currency string, amount int64) error {
		_, err := f.client.Deposit(ctx, &accountv1.DepositRequest{Key: key, Account: account, Amount: amount, Currency: currency, External: "bank"})
		return err
	}
	for _, again := range []string{"first", "replayed"} {
		_, err = f.client.OpenAccount(ctx, &accountv1.OpenAccountRequest{Key: "o2", Account: "alice", Currency: "USD"})
		refused(t, again+" open", err, codes.AlreadyExists, "ACCOUNT_EXISTS", `"alice"`, "new key")
		refused(t, again+" nobody", deposit("k1", "nobody", "USD", 1), codes.NotFound, "ACCOUNT_NOT_FOUND", "new key")
		refused(t, again+" frozen", deposit("k2", "frozen", "USD", 1), codes.FailedPrecondition, "ACCOUNT_FROZEN", "frozen", "new key")
		refused(t, again+" closed", deposit("k3", "closed", "USD", 1), codes.FailedPrecondition, "ACCOUNT_CLOSED", "closed", "new key")
		refused(t, again+" currency", deposit("k4", "alice", "EUR", 1), codes.FailedPrecondition, "CURRENCY_MISMATCH", "currency", "new key")
		_, err = f.client.Close(ctx, &accountv1.CloseRequest{Key: "c2", Account: "alice"})
		refused(t, again+" close", err, codes.FailedPrecondition, "BALANCE_NOT_ZERO", "not zero", "new key")
		_, err = f.client.Freeze(ctx, &accountv1.FreezeRequest{Key: "f2", Account: "closed"})
		refused(t, again+" freeze", err, codes.FailedPrecondition, "ACCOUNT_CLOSED", "closed", "new key")
		_, err = f.client.Unfreeze(ctx, &accountv1.UnfreezeRequest{Key: "u2", Account: "closed"})
		refused(t, again+" unfreeze", err, codes.FailedPrecondition, "ACCOUNT_CLOSED", "closed", "new key")
	}
	// The reason goes, the old key's answer stays, a new key is a new attempt.
	f.open("nobody")
	refused(t, "after it was opened", deposit("k1", "nobody", "USD", 1), codes.NotFound, "ACCOUNT_NOT_FOUND")
	if err := deposit("k1b", "nobody", "USD", 1); err != nil {
		t.Error(err)
	}
	if err := deposit("o1", "alice", "USD", 1<<62); err != nil {
		t.Fatal(err)
	}
	refused(t, "overflow", deposit("o2", "alice", "USD", 1<<62), codes.FailedPrecondition, "BALANCE_OVERFLOW", "more than a balance can")
}

func TestC35KeyReusedNamesTheFields(t *testing.T) {
	f := fresh(t)
	f.open("alice")
	f.open("bob")
	f.deposit("d1", "alice", 100)
	good := &accountv1.DepositRequest{Key: "d1", Account: "alice", Amount: 100, Currency: "USD", External: "bank"}
	for field, change := range map[string]func(*accountv1.DepositRequest){
		"account":  func(r *accountv1.DepositRequest) { r.Account = "bob" },
		"amount":   func(r *accountv1.DepositRequest) { r.Amount = 101 },
		"currency": func(r *accountv1.DepositRequest) { r.Currency = "EUR" },
		"external": func(r *accountv1.DepositRequest) { r.External = "cash" },
	} {
		other := proto.Clone(good).(*accountv1.DepositRequest)
		change(other)
		_, err := f.client.Deposit(t.Context(), other)
		refused(t, field, err, codes.AlreadyExists, "OPERATION_KEY_REUSED", field)
		if got := rpc.DifferingFields(err); !slices.Equal(got, []string{field}) {
			t.Errorf("%s: %v", field, got)
		}
	}
	if b := f.account("alice").GetBalance(); b != 100 {
		t.Errorf("alice has %d", b)
	}
	// The same key for another call is another operation.
	if _, err := f.client.Freeze(t.Context(), &accountv1.FreezeRequest{Key: "d1", Account: "alice"}); err != nil {
		t.Error(err)
	}
}

func TestC46TenantsAreApart(t *testing.T) {
	f := fresh(t)
	f.open("alice")
	f.deposit("1", "alice", 100)
	other := f.as("other")
	_, err := other.client.GetAccount(t.Context(), &accountv1.GetAccountRequest{Account: "alice"})
	refused(t, "another tenant's account", err, codes.NotFound, "ACCOUNT_NOT_FOUND")
	_, err = other.client.Deposit(t.Context(), &accountv1.DepositRequest{Key: "1", Account: "alice", Amount: 5, Currency: "USD", External: "bank"})
	refused(t, "a deposit to it, under its key", err, codes.NotFound, "ACCOUNT_NOT_FOUND")
	other.open("alice")
	other.deposit("2", "alice", 7)
	if f.account("alice").GetBalance() != 100 || other.account("alice").GetBalance() != 7 {
		t.Error("the tenants share an account")
	}
	page, err := f.client.ListAccounts(t.Context(), &accountv1.ListAccountsRequest{PageSize: 1})
	if err != nil || page.GetNextPageToken() == "" {
		t.Fatal(page, err)
	}
	_, err = other.client.ListAccounts(t.Context(), &accountv1.ListAccountsRequest{PageToken: page.GetNextPageToken()})
	if v := rpc.FieldViolations(err); len(v) != 1 || v[0].Field != "page_token" {
		t.Errorf("another tenant's token: %v", err)
	}
}

func TestListAccountsPages(t *testing.T) {
	f := fresh(t)
	var want []string
	for i := range 7 {
		want = append(want, fmt.Sprintf("a%d", i))
		f.open(want[i])
	}
	for size := range int32(9) {
		var got []string
		request := &accountv1.ListAccountsRequest{PageSize: size}
		for range 10 {
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
			t.Errorf("pages of %d: %v", size, got)
		}
	}
	for field, bad := range map[string]*accountv1.ListAccountsRequest{
		"page_size":  {PageSize: -1},
		"page_token": {PageToken: rpc.PageToken("accounts/acme", "A\x00")},
	} {
		_, err := f.client.ListAccounts(t.Context(), bad)
		if v := rpc.FieldViolations(err); status.Code(err) != codes.InvalidArgument || len(v) != 1 || v[0].Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestC08C14C25C65MalformedNamesEverything(t *testing.T) {
	f := fresh(t)
	f.open("alice")
	for name, c := range map[string]struct {
		r    *accountv1.DepositRequest
		want []string
	}{
		"nothing":  {&accountv1.DepositRequest{}, []string{"account", "amount", "currency", "external", "key"}},
		"zero":     {&accountv1.DepositRequest{Key: "k", Account: "alice", Currency: "USD", External: "bank"}, []string{"amount"}},
		"min":      {&accountv1.DepositRequest{Key: "k", Account: "alice", Currency: "USD", External: "bank", Amount: math.MinInt64}, []string{"amount"}},
		"eur":      {&accountv1.DepositRequest{Key: "k", Account: "alice", Currency: "eur", External: "bank", Amount: 1}, []string{"currency"}},
		"XXX, NUL": {&accountv1.DepositRequest{Key: "\x00", Account: "alice", Currency: "XXX", External: "bank", Amount: 1}, []string{"currency", "key"}},
		"own":      {&accountv1.DepositRequest{Key: "k", Account: "suspense:refund", Currency: "USD", External: "external:x", Amount: 1}, []string{"account", "external"}},
	} {
		_, err := f.client.Deposit(t.Context(), c.r)
		var got []string
		for _, v := range rpc.FieldViolations(err) {
			got = append(got, v.Field)
		}
		if status.Code(err) != codes.InvalidArgument || !slices.Equal(got, c.want) {
			t.Errorf("%s: want %v, got %v: %v", name, c.want, got, err)
		}
	}
	f.deposit("k", "alice", 1) // the key was not used up
}

// TestC15EveryChangingCallHasAKeyAndReplays fails for a new call without a case.
func TestC15EveryChangingCallHasAKeyAndReplays(t *testing.T) {
	f := fresh(t)
	f.open("alice")
	f.open("bob")
	f.open("heir")
	suspended := f.suspend("t", "gone", 3)
	reading := []string{"GetAccount", "ListAccounts", "GetStatement", "ListSuspense"}
	changing := map[string]proto.Message{
		"OpenAccount":     &accountv1.OpenAccountRequest{Key: "k", Account: "carol", Currency: "USD"},
		"Deposit":         &accountv1.DepositRequest{Key: "k", Account: "alice", Amount: 5, Currency: "USD", External: "bank"},
		"Freeze":          &accountv1.FreezeRequest{Key: "k", Account: "alice"},
		"Unfreeze":        &accountv1.UnfreezeRequest{Key: "k", Account: "alice"},
		"Close":           &accountv1.CloseRequest{Key: "k", Account: "bob"},
		"Withdraw":        &accountv1.WithdrawRequest{Key: "k", Account: "alice", Amount: 2, Currency: "USD", External: "bank"},
		"SetTerms":        &accountv1.SetTermsRequest{Key: "k", Account: "alice", Terms: &accountv1.Terms{Overdraft: 9}},
		"SetHolder":       &accountv1.SetHolderRequest{Key: "k", Account: "alice", Holder: map[string]string{"customer": "1"}},
		"ReleaseSuspense": &accountv1.ReleaseSuspenseRequest{Key: "k", RefundKey: suspended, Account: "heir", Reason: "asked for"},
	}
	rpctest.Keyed(t, f.conn, accountv1.File_giro_account_v1_account_proto.Services().ByName("AccountService"), reading, changing)
	if b := f.account("alice").GetBalance(); b != 3 {
		t.Errorf("alice has %d after a deposit and a withdrawal, each under one key", b)
	}
	if b := f.account("heir").GetBalance(); b != 3 {
		t.Errorf("the heir has %d after one release under one key", b)
	}
}

func TestRegisterServesTheParticipantToo(t *testing.T) {
	f := fresh(t)
	d, err := participantv1.NewParticipantServiceClient(f.conn).Describe(t.Context(), &participantv1.DescribeRequest{})
	if err != nil || d.GetParticipant() != "accounts" {
		t.Errorf("%v %v", d, err)
	}
}

func TestHostileRequestsAreTheCallersFault(t *testing.T) {
	f := fresh(t)
	f.open("alice")
	suspended := f.suspend("t", "gone", 3)
	rpctest.Hostile(t, f.conn, accountv1.File_giro_account_v1_account_proto.Services().ByName("AccountService"), rpctest.Fill(map[string]any{
		"key": "k", "account": "alice", "currency": "USD", "amount": int64(1), "external": "bank", "refund_key": suspended, "reason": "because"}))
	sums, err := f.engine.Store().Sums(t.Context(), "")
	if err != nil || len(sums.Faults) > 0 {
		t.Fatal(sums, err)
	}
	for _, c := range sums.Currencies {
		if c.Total != "0" {
			t.Errorf("the books do not sum to zero: %+v", c)
		}
	}
}

// broken is a store that fails.
type broken struct{ store.Store }

var errStore = errors.New("secret-dsn: connection lost")

func (broken) Apply(context.Context, []book.Operation, book.Limits) ([]book.Answer, error) {
	return nil, errStore
}
func (broken) Account(context.Context, book.AccountID) (book.Account, error) {
	return book.Account{}, errStore
}

func TestC41AFailingStoreIsUnknown(t *testing.T) {
	f := serve(t, broken{mem.New(time.Now)})
	_, e1 := f.client.OpenAccount(t.Context(), &accountv1.OpenAccountRequest{Key: "k", Account: "alice", Currency: "USD"})
	_, e2 := f.client.GetAccount(t.Context(), &accountv1.GetAccountRequest{Account: "alice"})
	for _, err := range []error{e1, e2} {
		_, retry := rpc.RetryAfter(err)
		if status.Code(err) != codes.Unavailable || rpc.Reason(err) != rpc.ReasonUnknown || !retry || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v", err)
		}
	}
}

func TestStatesOfBookAndProtoAgree(t *testing.T) {
	for ours, theirs := range map[book.AccountState]accountv1.AccountState{
		book.StateOpen:   accountv1.AccountState_ACCOUNT_STATE_OPEN,
		book.StateFrozen: accountv1.AccountState_ACCOUNT_STATE_FROZEN,
		book.StateClosed: accountv1.AccountState_ACCOUNT_STATE_CLOSED,
	} {
		if int32(ours) != int32(theirs) {
			t.Errorf("%v is %d in the book", theirs, ours)
		}
	}
}
