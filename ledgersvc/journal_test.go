package ledgersvc_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"giro/internal/participant/book"
	"giro/internal/retention"
	"giro/internal/rpc"
	"giro/internal/stepkey"
	ledgerv1 "giro/proto/giro/ledger/v1"
)

// lines writes account, amount, account, amount, ...; a negative amount is a debit.
func lines(of ...any) []*ledgerv1.JournalLine {
	var all []*ledgerv1.JournalLine
	for i := 0; i < len(of); i += 2 {
		side, amount := ledgerv1.Side_SIDE_CREDIT, of[i+1].(int)
		if amount < 0 {
			side, amount = ledgerv1.Side_SIDE_DEBIT, -amount
		}
		all = append(all, &ledgerv1.JournalLine{Account: of[i].(string), Side: side, Amount: int64(amount)})
	}
	return all
}

func (f fixture) chart() {
	f.Helper()
	for account, kind := range map[string]ledgerv1.AccountType{"cash": ledgerv1.AccountType_ACCOUNT_TYPE_ASSET,
		"owed": ledgerv1.AccountType_ACCOUNT_TYPE_LIABILITY, "fees": ledgerv1.AccountType_ACCOUNT_TYPE_INCOME} {
		if _, err := f.client.OpenAccount(f.Context(), &ledgerv1.OpenAccountRequest{Key: "open-" + account, Account: account, Currency: "USD", Type: kind}); err != nil {
			f.Fatal(err)
		}
	}
}

func (f fixture) post(key string, of ...any) (*ledgerv1.PostJournalEntryResponse, error) {
	return f.client.PostJournalEntry(f.Context(), &ledgerv1.PostJournalEntryRequest{Key: key, Currency: "USD", Lines: lines(of...), Reason: "a sale"})
}

func (f fixture) balance(account string) int64 {
	f.Helper()
	r, err := f.client.GetAccount(f.Context(), &ledgerv1.GetAccountRequest{Account: account})
	if err != nil {
		f.Fatal(err)
	}
	return r.GetAccount().GetBalance()
}

func wantReason(t *testing.T, what string, err error, code codes.Code, reason string) {
	t.Helper()
	if status.Code(err) != code || rpc.Reason(err) != reason {
		t.Errorf("%s: want %v %s, got %v", what, code, reason, err)
	}
}

func TestJournal(t *testing.T) {
	f := fresh(t)
	ctx := t.Context()
	f.chart()
	posted, err := f.post("e1", "cash", -1000, "owed", 900, "fees", 100)
	if err != nil || posted.GetAmount() != 1000 {
		t.Fatal(posted, err)
	}
	_, err = f.post("e2", "owed", -901, "cash", 901)
	wantReason(t, "a liability below zero", err, codes.FailedPrecondition, "INSUFFICIENT_FUNDS")
	_, err = f.post("e3", "cash", -1, "fees", 2)
	wantReason(t, "debits that are no credits", err, codes.InvalidArgument, "REQUEST_INVALID")
	_, err = f.post("e3", "cash", -1, "nobody", 1)
	wantReason(t, "an account that is not there", err, codes.NotFound, "ACCOUNT_NOT_FOUND")
	_, err = f.post("e4", "clearing:accounts", -1, "fees", 1)
	wantReason(t, "an account of the ledger's own", err, codes.InvalidArgument, "REQUEST_INVALID")
	_, err = f.post("e1", "cash", -1000, "owed", 1000)
	wantReason(t, "another entry under a key", err, codes.AlreadyExists, "OPERATION_KEY_REUSED")
	if got := rpc.DifferingFields(err); !slices.Equal(got, []string{"lines"}) {
		t.Errorf("the differing fields: %v", got)
	}
	reverse := func(key, entry string) (*ledgerv1.ReverseJournalEntryResponse, error) {
		return f.client.ReverseJournalEntry(ctx, &ledgerv1.ReverseJournalEntryRequest{Key: key, EntryKey: entry, Reason: "returned"})
	}
	_, err = reverse("r1", "e2") // it was refused
	wantReason(t, "of an entry that was refused", err, codes.FailedPrecondition, "NO_JOURNAL_ENTRY")
	_, err = reverse("r2", "never")
	wantReason(t, "of none", err, codes.NotFound, "NO_JOURNAL_ENTRY")
	for i := range 2 {
		if r, err := reverse("r2", "e1"); err != nil || r.GetAmount() != 1000 || r.GetReplayed() != (i == 1) {
			t.Fatal(r, err)
		}
	}
	_, err = reverse("r3", "e1")
	wantReason(t, "twice", err, codes.FailedPrecondition, "ALREADY_REVERSED")
	_, err = reverse("r2", "never")
	wantReason(t, "a used key with an entry that is none", err, codes.AlreadyExists, "OPERATION_KEY_REUSED")
	for _, account := range []string{"cash", "owed", "fees"} {
		if b := f.balance(account); b != 0 {
			t.Errorf("%s has %d after the reversal", account, b)
		}
	}
	f.credit("t1", "owed", "USD", 5)
	_, err = reverse("r4", "t1")
	wantReason(t, "of a transfer's credit", err, codes.NotFound, "NO_JOURNAL_ENTRY")
	_, err = f.as("other").client.ReverseJournalEntry(ctx, &ledgerv1.ReverseJournalEntryRequest{Key: "r", EntryKey: "e1"})
	wantReason(t, "another tenant's", err, codes.NotFound, "NO_JOURNAL_ENTRY")
}

func TestTrialBalanceAsOf(t *testing.T) {
	f := fresh(t)
	f.chart()
	first, err := f.post("e1", "cash", -1000, "owed", 1000)
	if err != nil {
		t.Fatal(err)
	}
	f.credit("t1", "owed", "USD", 7)
	later, err := f.post("e2", "cash", -500, "fees", 500)
	if err != nil {
		t.Fatal(err)
	}
	if !later.GetFirstTime().AsTime().After(first.GetFirstTime().AsTime()) {
		t.Fatal("the clock stands still")
	}
	trial := func(asOf *timestamppb.Timestamp) map[string]string {
		t.Helper()
		r, err := f.client.TrialBalance(t.Context(), &ledgerv1.TrialBalanceRequest{AsOfTime: asOf})
		if err != nil || !r.GetBalanced() {
			t.Fatal(r, err)
		}
		got := map[string]string{}
		for _, row := range r.GetRows() {
			got[row.GetAccount()] = row.GetDebit() + "/" + row.GetCredit()
		}
		for _, c := range r.GetClearing() {
			got["in transit with "+c.GetParticipant()] = c.GetBalance()
		}
		return got
	}
	now := trial(nil)
	if now["cash"] != "1500/0" || now["owed"] != "0/1007" || now["fees"] != "0/500" || now["clearing:accounts"] != "7/0" ||
		now["in transit with accounts"] != "-7" || len(now) != 5 {
		t.Errorf("now: %v", now)
	}
	then := trial(first.GetFirstTime())
	if then["cash"] != "1000/0" || then["owed"] != "0/1000" || then["fees"] != "0/0" || len(then) != 3 {
		t.Errorf("as of the first entry: %v", then)
	}
	for _, wrong := range []*timestamppb.Timestamp{{Seconds: -1 << 40}, {Nanos: -1}, timestamppb.New(time.Now().Add(time.Hour))} {
		_, err := f.client.TrialBalance(t.Context(), &ledgerv1.TrialBalanceRequest{AsOfTime: wrong})
		wantReason(t, "an instant that cannot be", err, codes.InvalidArgument, "REQUEST_INVALID")
	}
}

// TestTrialBalanceAfterArchiving: it balances as before, and is not made up for what is
// not in the books any more.
func TestTrialBalanceAfterArchiving(t *testing.T) {
	f := fresh(t)
	f.chart()
	k := stepkey.From(time.Now().Add(-90 * 24 * time.Hour))
	k[6], k[8] = 0x70, 0x80
	old, err := f.post(k.String(), "cash", -1000, "owed", 1000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.post("e2", "cash", -500, "fees", 500); err != nil {
		t.Fatal(err)
	}
	trial := func() *ledgerv1.TrialBalanceResponse {
		t.Helper()
		r, err := f.client.TrialBalance(t.Context(), &ledgerv1.TrialBalanceRequest{})
		if err != nil || !r.GetBalanced() {
			t.Fatal(r, err)
		}
		r.ReadTime = nil
		return r
	}
	before, s := trial(), f.engine.Store()
	if err := s.KeepFor(t.Context(), 60*24*time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Report(t.Context(), retention.Report{Orchestrator: "one", Oldest: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CommitHorizon(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The entry and its two lines.
	if batch, err := s.Archive(t.Context(), book.ID{}, 200, func([]book.Stored) error { return nil }); err != nil || batch.Taken != 3 {
		t.Fatalf("%+v, %v", batch, err)
	}
	if after := trial(); !proto.Equal(before, after) {
		t.Errorf("before %v\nafter %v", before, after)
	}
	_, err = f.client.TrialBalance(t.Context(), &ledgerv1.TrialBalanceRequest{AsOfTime: timestamppb.New(old.GetFirstTime().AsTime().Add(-time.Second))})
	wantReason(t, "an instant before what was archived", err, codes.FailedPrecondition, "LINES_ARCHIVED")
}

func TestTypesOfBookAndProtoAgree(t *testing.T) {
	f := fresh(t)
	f.chart()
	f.open("plain", "USD")
	for account, want := range map[string]struct {
		kind ledgerv1.AccountType
		side ledgerv1.Side
	}{
		"cash":  {ledgerv1.AccountType_ACCOUNT_TYPE_ASSET, ledgerv1.Side_SIDE_DEBIT},
		"owed":  {ledgerv1.AccountType_ACCOUNT_TYPE_LIABILITY, ledgerv1.Side_SIDE_CREDIT},
		"fees":  {ledgerv1.AccountType_ACCOUNT_TYPE_INCOME, ledgerv1.Side_SIDE_CREDIT},
		"plain": {ledgerv1.AccountType_ACCOUNT_TYPE_LIABILITY, ledgerv1.Side_SIDE_CREDIT},
	} {
		r, err := f.client.GetAccount(t.Context(), &ledgerv1.GetAccountRequest{Account: account})
		if err != nil || r.GetAccount().GetType() != want.kind || r.GetAccount().GetNormalSide() != want.side {
			t.Errorf("%s: %v, %v", account, r, err)
		}
	}
	for ours, theirs := range map[book.Class]ledgerv1.AccountType{
		book.Asset: ledgerv1.AccountType_ACCOUNT_TYPE_ASSET, book.Liability: ledgerv1.AccountType_ACCOUNT_TYPE_LIABILITY,
		book.Equity: ledgerv1.AccountType_ACCOUNT_TYPE_EQUITY, book.Income: ledgerv1.AccountType_ACCOUNT_TYPE_INCOME,
		book.Expense: ledgerv1.AccountType_ACCOUNT_TYPE_EXPENSE,
	} {
		if int32(ours) != int32(theirs) {
			t.Errorf("%v is %d in the book", theirs, ours)
		}
	}
}
