package cli

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"giro/internal/rpc"
	accountv1 "giro/proto/giro/account/v1"
	adminv1 "giro/proto/giro/admin/v1"
	transferv1 "giro/proto/giro/transfer/v1"
)

// service answers as a test says, over a real connection, and keeps what it was
// asked last, and by whom.
type service struct {
	transferv1.UnimplementedTransferServiceServer
	adminv1.UnimplementedAdminServiceServer
	accountv1.UnimplementedAccountServiceServer

	err      error
	transfer *transferv1.Transfer
	replayed bool
	saga     *adminv1.Saga
	audit    []*adminv1.AuditResponse
	// hold, if set, is called before an answer is given.
	hold func(context.Context)

	address   string
	asked     proto.Message
	principal rpc.Principal
}

func (s *service) note(ctx context.Context, asked proto.Message) {
	s.asked, s.principal = asked, rpc.PrincipalFrom(ctx)
	if s.hold != nil {
		s.hold(ctx)
	}
}

func (s *service) created() *transferv1.CreateTransferRequest {
	r, _ := s.asked.(*transferv1.CreateTransferRequest)
	return r
}

func (s *service) cancelled() *transferv1.CancelTransferRequest {
	r, _ := s.asked.(*transferv1.CancelTransferRequest)
	return r
}

func (s *service) CreateTransfer(ctx context.Context, r *transferv1.CreateTransferRequest) (*transferv1.CreateTransferResponse, error) {
	s.note(ctx, r)
	return &transferv1.CreateTransferResponse{Transfer: s.transfer, Replayed: s.replayed, FirstTime: at(0)}, s.err
}

func (s *service) GetTransfer(ctx context.Context, r *transferv1.GetTransferRequest) (*transferv1.GetTransferResponse, error) {
	s.note(ctx, r)
	return &transferv1.GetTransferResponse{Transfer: s.transfer}, s.err
}

func (s *service) CancelTransfer(ctx context.Context, r *transferv1.CancelTransferRequest) (*transferv1.CancelTransferResponse, error) {
	s.note(ctx, r)
	return &transferv1.CancelTransferResponse{Transfer: s.transfer}, s.err
}

func (s *service) GetSaga(ctx context.Context, r *adminv1.GetSagaRequest) (*adminv1.GetSagaResponse, error) {
	s.note(ctx, r)
	return &adminv1.GetSagaResponse{Saga: s.saga}, s.err
}

func (s *service) Audit(r *adminv1.AuditRequest, stream grpc.ServerStreamingServer[adminv1.AuditResponse]) error {
	s.note(stream.Context(), r)
	for _, item := range s.audit {
		if err := stream.Send(item); err != nil {
			return err
		}
	}
	return s.err
}

func (s *service) account(account, currency string) *accountv1.Account {
	return &accountv1.Account{Account: account, Currency: currency, State: accountv1.AccountState_ACCOUNT_STATE_OPEN, CreateTime: at(0), UpdateTime: at(0)}
}

func (s *service) OpenAccount(ctx context.Context, r *accountv1.OpenAccountRequest) (*accountv1.OpenAccountResponse, error) {
	s.note(ctx, r)
	return &accountv1.OpenAccountResponse{Account: s.account(r.Account, r.Currency)}, s.err
}

func (s *service) GetAccount(ctx context.Context, r *accountv1.GetAccountRequest) (*accountv1.GetAccountResponse, error) {
	s.note(ctx, r)
	return &accountv1.GetAccountResponse{Account: s.account(r.Account, "USD")}, s.err
}

func (s *service) Deposit(ctx context.Context, r *accountv1.DepositRequest) (*accountv1.DepositResponse, error) {
	s.note(ctx, r)
	return &accountv1.DepositResponse{}, s.err
}

func (s *service) Freeze(ctx context.Context, r *accountv1.FreezeRequest) (*accountv1.FreezeResponse, error) {
	s.note(ctx, r)
	return &accountv1.FreezeResponse{Account: s.account(r.Account, "USD")}, s.err
}

func (s *service) Unfreeze(ctx context.Context, r *accountv1.UnfreezeRequest) (*accountv1.UnfreezeResponse, error) {
	s.note(ctx, r)
	return &accountv1.UnfreezeResponse{Account: s.account(r.Account, "USD")}, s.err
}

func (s *service) Withdraw(ctx context.Context, r *accountv1.WithdrawRequest) (*accountv1.WithdrawResponse, error) {
	s.note(ctx, r)
	return &accountv1.WithdrawResponse{}, s.err
}

// GetStatement has two pages of a line each.
func (s *service) GetStatement(ctx context.Context, r *accountv1.GetStatementRequest) (*accountv1.GetStatementResponse, error) {
	s.note(ctx, r)
	page := &accountv1.GetStatementResponse{Account: r.Account, Currency: "USD", OpeningBalance: 100, ClosingBalance: 500, NextPageToken: "more",
		Lines: []*accountv1.StatementLine{{Number: 7, Time: at(1), Kind: "deposit", Amount: 900, BalanceAfter: 1000, Key: "d", Counterparty: "bank"}}}
	if r.GetPageToken() != "" {
		page.NextPageToken = ""
		page.Lines[0] = &accountv1.StatementLine{Number: 8, Time: at(2), Kind: "debit", Amount: -500, BalanceAfter: 500, Key: "t", Counterparty: "ledgersvc/shop"}
	}
	return page, s.err
}

func (s *service) Close(ctx context.Context, r *accountv1.CloseRequest) (*accountv1.CloseResponse, error) {
	s.note(ctx, r)
	return &accountv1.CloseResponse{Account: s.account(r.Account, "USD")}, s.err
}

func at(seconds int) *timestamppb.Timestamp {
	return timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5+seconds, 0, time.UTC))
}

func transferIn(state transferv1.State, reason string) *transferv1.Transfer {
	return &transferv1.Transfer{Key: "order-1", Source: "accountsvc/alice", Destination: "ledgersvc/shop", Amount: 4000, Currency: "USD",
		State: state, Reason: reason, CreateTime: at(0), UpdateTime: at(1)}
}

// serve starts the service, once, and gives where it listens.
func (s *service) serve(t *testing.T) string {
	t.Helper()
	if s.address != "" {
		return s.address
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer(rpc.ServerConfig{StopSecondsMax: 1, Logger: slog.New(slog.DiscardHandler)})
	transferv1.RegisterTransferServiceServer(server, s)
	adminv1.RegisterAdminServiceServer(server, s)
	accountv1.RegisterAccountServiceServer(server, s)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s.address = l.Addr().String()
	return s.address
}

// run carries out a command line against the service.
func (s *service) run(t *testing.T, words ...string) (code int, out, errs string) {
	t.Helper()
	at := s.serve(t)
	flags := []string{"--orchestrator", at}
	if words[0] == "account" {
		flags = []string{"--accountsvc", at, "--ledgersvc", at}
	}
	return run(t, slices.Concat(words, flags)...)
}

var createLine = []string{"transfer", "create", "--key", "order-1", "--from", "accountsvc/alice", "--to", "ledgersvc/shop", "--amount", "40", "--currency", "USD"}

func TestExitCodesOfCreate(t *testing.T) {
	for _, c := range []struct {
		name  string
		state transferv1.State
		err   error
		code  int
		says  string
	}{
		{"completed", transferv1.State_STATE_COMPLETED, nil, ExitOK, "COMPLETED (debited and credited)"},
		{"refused", transferv1.State_STATE_REFUSED, nil, ExitRefused, "a new attempt takes a new key"},
		{"refunded", transferv1.State_STATE_REFUNDED, nil, ExitRefused, "a new attempt takes a new key"},
		{"cancelled", transferv1.State_STATE_CANCELLED, nil, ExitRefused, "a new attempt takes a new key"},
		{"pending", transferv1.State_STATE_PENDING, nil, ExitUnknown, "ask again with the same key"},
		{"reused", 0, rpc.AlreadyExists("TRANSFER_KEY_REUSED", "the key is another transfer's", []string{"amount"}), ExitRefused, "TRANSFER_KEY_REUSED"},
		{"malformed", 0, rpc.InvalidArgument([]rpc.Violation{{Field: "key", Description: "is too long"}, {Field: "source", Description: "is unknown"}}), ExitRefused, "source: is unknown"},
		{"overloaded", 0, rpc.Unavailable("OVERLOADED", "too much", time.Second), ExitUnknown, "it asks to wait 1s first"},
		{"internal", 0, status.Error(codes.Internal, "broken"), ExitUnknown, "asking again is safe"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &service{err: c.err, transfer: transferIn(c.state, "")}
			code, out, errs := s.run(t, createLine...)
			if code != c.code || !strings.Contains(out+errs, c.says) {
				t.Errorf("exit code %d, %q, %q; want %d and %q", code, out, errs, c.code, c.says)
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	code, _, errs := run(t, append(createLine[:len(createLine):len(createLine)], "--orchestrator", "127.0.0.1:1")...)
	if code != ExitUnknown || !strings.Contains(errs, "is it running there?") || !strings.Contains(errs, "giro transfer create --key order-1 ") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

func TestCreateSendsWhatWasAsked(t *testing.T) {
	s := &service{transfer: transferIn(transferv1.State_STATE_COMPLETED, "")}
	code, _, errs := s.run(t, slices.Concat(createLine, []string{"--tenant", "acme", "--actor", "bob", "--memo", "lunch", "--expiry", "90s"})...)
	if code != ExitOK {
		t.Fatal(code, errs)
	}
	r := s.created()
	if r.Key != "order-1" || r.Source != "accountsvc/alice" || r.Destination != "ledgersvc/shop" || r.Amount != 4000 || r.Currency != "USD" ||
		r.Memo != "lunch" || r.Expiry.AsDuration() != 90*time.Second {
		t.Errorf("sent %v", r)
	}
	if s.principal.Tenant != "acme" || s.principal.Actor != "bob" {
		t.Errorf("sent as %v", s.principal)
	}
}

func TestCreateDrawsAKeyAndSaysHowToRetry(t *testing.T) {
	s := &service{transfer: transferIn(transferv1.State_STATE_COMPLETED, "")}
	code, _, errs := s.run(t, slices.Concat(createLine[:2], createLine[4:])...)
	if code != ExitOK || len(s.created().GetKey()) != 36 || s.created().GetKey()[14] != '7' {
		t.Fatalf("exit code %d, key %q", code, s.created().GetKey())
	}
	if !strings.Contains(errs, "giro transfer create --key "+s.created().GetKey()+" --from accountsvc/alice --to ledgersvc/shop --amount 40 --currency USD") {
		t.Errorf("came %q", errs)
	}
}

func TestCancelWithAndWithoutContents(t *testing.T) {
	s := &service{transfer: transferIn(transferv1.State_STATE_CANCELLED, "CANCEL_ASKED")}
	if code, _, errs := s.run(t, "transfer", "cancel", "order-1"); code != ExitOK || s.cancelled().GetContents() != nil {
		t.Errorf("exit code %d, %q, %v", code, errs, s.asked)
	}
	code, _, errs := s.run(t, "transfer", "cancel", "order-1", "--from", "a/b", "--to", "c/d", "--amount", "1", "--currency", "JPY")
	if code != ExitOK || s.cancelled().GetContents().GetAmount() != 1 {
		t.Errorf("exit code %d, %q, %v", code, errs, s.asked)
	}
	s.transfer.State = transferv1.State_STATE_COMPLETED
	if code, _, _ := s.run(t, "transfer", "cancel", "order-1"); code != ExitRefused {
		t.Errorf("a completed one: exit code %d", code)
	}
}

const goldenTransfer = `key       order-1
state     REFUNDED, ACCOUNT_CLOSED (debited, and given back)
amount    40.00 USD
from      accountsvc/alice
to        ledgersvc/shop
accepted  2026-01-02T03:04:05.000Z
changed   2026-01-02T03:04:06.000Z
`

func TestGetShowsTheTransfer(t *testing.T) {
	s := &service{transfer: transferIn(transferv1.State_STATE_REFUNDED, "ACCOUNT_CLOSED")}
	code, out, errs := s.run(t, "transfer", "get", "order-1")
	if code != ExitOK || out != goldenTransfer {
		t.Errorf("exit code %d, %s\n%s", code, errs, out)
	}
	code, out, _ = s.run(t, "transfer", "get", "order-1", "--json")
	if code != ExitOK || !strings.Contains(out, "    \"amount\": \"4000\",\n") || !strings.Contains(out, "    \"state\": \"STATE_REFUNDED\",\n") {
		t.Errorf("exit code %d, %s", code, out)
	}
}

const goldenSaga = `order-1  40.00 USD  accountsvc/alice -> ledgersvc/shop
tenant    default
state     CREDITING
accepted  2026-01-02T03:04:05.000Z
changed   2026-01-02T03:04:06.000Z
owner     host-1 (epoch 2)
version   5

STEP    AT          KEY  ATTEMPTS  FIRST SENT                ANSWERED                  ANSWER
debit   accountsvc  k1   1         2026-01-02T03:04:06.000Z  2026-01-02T03:04:07.000Z  APPLIED, 40.00 USD
credit  ledgersvc   k2   3         2026-01-02T03:04:08.000Z  -                         unknown: Unavailable: gone
`

func TestSagaShow(t *testing.T) {
	s := &service{saga: &adminv1.Saga{
		Tenant: "default", Transfer: transferIn(transferv1.State_STATE_PENDING, ""), State: adminv1.SagaState_SAGA_STATE_CREDITING,
		Owner: "host-1", Epoch: 2, Version: 5,
		Steps: []*adminv1.Step{
			{Name: "debit", Participant: "accountsvc", Key: "k1", Attempts: 1, FirstSentTime: at(1), AnswerTime: at(2), Answer: "APPLIED", AmountMoved: 4000},
			{Name: "credit", Participant: "ledgersvc", Key: "k2", Attempts: 3, FirstSentTime: at(3), LastError: "Unavailable: gone"},
		},
	}}
	code, out, errs := s.run(t, "saga", "show", "order-1")
	if code != ExitOK || out != goldenSaga {
		t.Errorf("exit code %d, %s\n%s", code, errs, out)
	}
}

func checked(number int32, findings ...string) *adminv1.AuditResponse {
	return &adminv1.AuditResponse{Item: &adminv1.AuditResponse_Check{Check: &adminv1.AuditCheck{
		Number: number, Title: "it is so", Checked: 7, Findings: findings, FindingCount: int64(len(findings)),
	}}}
}

func unchecked(number int32, note string) *adminv1.AuditResponse {
	return &adminv1.AuditResponse{Item: &adminv1.AuditResponse_Check{Check: &adminv1.AuditCheck{Number: number, Title: "it is so", Note: note}}}
}

func verdictOf(v *adminv1.AuditVerdict) *adminv1.AuditResponse {
	return &adminv1.AuditResponse{Item: &adminv1.AuditResponse_Verdict{Verdict: v}}
}

func verdict(ok bool, inTransit map[string]string) *adminv1.AuditResponse {
	return &adminv1.AuditResponse{Item: &adminv1.AuditResponse_Verdict{Verdict: &adminv1.AuditVerdict{Ok: ok, Transfers: 3, Operations: 8, InTransit: inTransit}}}
}

func TestAudit(t *testing.T) {
	for _, c := range []struct {
		name  string
		items []*adminv1.AuditResponse
		err   error
		code  int
		out   string
	}{
		{"ok", []*adminv1.AuditResponse{checked(1), verdict(true, map[string]string{"USD": "0"})}, nil, ExitOK,
			" 1  holds   it is so (7 checked)\naudit: OK (3 transfers, 8 operations, in transit 0)\n"},
		{"in transit", []*adminv1.AuditResponse{verdict(true, map[string]string{"USD": "4000", "JPY": "12"})}, nil, ExitOK,
			"audit: OK (3 transfers, 8 operations, in transit 12 JPY, 40.00 USD)\n"},
		{"beyond 64 bits", []*adminv1.AuditResponse{verdict(true, map[string]string{"USD": "-92233720368547758080"})}, nil, ExitOK,
			"audit: OK (3 transfers, 8 operations, in transit -922337203685477580.80 USD)\n"},
		{"failed", []*adminv1.AuditResponse{checked(4, "order-1 has both"), verdict(false, nil)}, nil, ExitFailed,
			" 4  BROKEN 1 times  it is so (7 checked)\n      order-1 has both\naudit: FAILED (3 transfers, 8 operations, in transit 0)\n"},
		{"no rows", []*adminv1.AuditResponse{unchecked(1, ""), unchecked(6, "no reading shows it"), verdictOf(&adminv1.AuditVerdict{Ok: true})}, nil, ExitOK,
			" 1  holds   it is so (0 checked)\n 6  unseen  it is so\n            no reading shows it\nno rows for this tenant\naudit: OK (0 transfers, 0 operations, in transit 0)\n"},
		{"no verdict", []*adminv1.AuditResponse{checked(1)}, nil, ExitUnknown, " 1  holds   it is so (7 checked)\n"},
		{"broken off", []*adminv1.AuditResponse{checked(1)}, status.Error(codes.Unavailable, "gone"), ExitUnknown, " 1  holds   it is so (7 checked)\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &service{audit: c.items, err: c.err}
			code, out, errs := s.run(t, "audit")
			if code != c.code || out != c.out {
				t.Errorf("exit code %d, %s\n%s", code, errs, out)
			}
		})
	}
}

func TestAuditJSONSaysWhatIsUnseen(t *testing.T) {
	s := &service{audit: []*adminv1.AuditResponse{checked(1), checked(2, "it is not"), unchecked(3, ""), unchecked(6, "no reading shows it"), verdict(false, nil)}}
	_, out, errs := s.run(t, "audit", "--json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 5 {
		t.Fatalf("came %s\n%s", out, errs)
	}
	for i, result := range []string{"holds", "broken", "holds", "unseen"} {
		var line struct {
			Check struct {
				Result, Title, Note string
				Number              int
			}
		}
		if err := json.Unmarshal([]byte(lines[i]), &line); err != nil || line.Check.Result != result || line.Check.Title != "it is so" || line.Check.Number == 0 {
			t.Errorf("%s: %v, want %s", lines[i], err, result)
		}
	}
}

func TestAuditJSON(t *testing.T) {
	s := &service{audit: []*adminv1.AuditResponse{checked(1), verdict(false, nil)}}
	code, out, errs := s.run(t, "audit", "--json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != ExitFailed || len(lines) != 2 || !strings.HasPrefix(lines[1], `{"verdict":{"ok":false,"transfers":"3"`) {
		t.Errorf("exit code %d, %s\n%s", code, errs, out)
	}
}

const goldenAccount = `account  accountsvc/alice
state    OPEN
balance  0.00 USD
floor    0.00 USD
opened   2026-01-02T03:04:05.000Z
changed  2026-01-02T03:04:05.000Z
`

func TestAccountOpen(t *testing.T) {
	s := &service{}
	for _, name := range [][]string{{"accountsvc/alice"}, {"alice", "--service", "accountsvc"}} {
		code, out, errs := s.run(t, slices.Concat([]string{"account", "open"}, name, []string{"--currency", "USD", "--key", "k"})...)
		if code != ExitOK || out != goldenAccount {
			t.Errorf("%v: exit code %d, %s\n%s", name, code, errs, out)
		}
	}
}
