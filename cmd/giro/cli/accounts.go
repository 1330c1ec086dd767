package cli

import (
	"context"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"giro/cmd/giro/render"
	accountv1 "giro/proto/giro/account/v1"
	ledgerv1 "giro/proto/giro/ledger/v1"
)

// accounts is what the two services' own APIs have in common.
type accounts interface {
	open(ctx context.Context, key, account, currency string) (changed, error)
	get(ctx context.Context, account string) (changed, error)
	freeze(ctx context.Context, key, account, reason string) (changed, error)
	unfreeze(ctx context.Context, key, account, reason string) (changed, error)
	close(ctx context.Context, key, account string) (changed, error)
	deposit(ctx context.Context, key, account string, amount int64, currency, external string) (changed, error)
	withdraw(ctx context.Context, key, account string, amount int64, currency, external string) (changed, error)
}

// accountsAt speaks a service's own API.
func accountsAt(service string, conn grpc.ClientConnInterface) accounts {
	if service == ledgersvc {
		return ledger{ledgerv1.NewLedgerServiceClient(conn)}
	}
	return customers{accountv1.NewAccountServiceClient(conn)}
}

// account is either service's account message.
type account interface {
	GetAccount() string
	GetCurrency() string
	GetBalance() int64
	GetFloor() int64
	GetStateReason() string
	GetCreateTime() *timestamppb.Timestamp
	GetUpdateTime() *timestamppb.Timestamp
}

// changed is a service's answer, and the account in it.
type changed struct {
	message  proto.Message
	account  account
	state    string
	replayed bool
	first    *timestamppb.Timestamp
}

func (a changed) show(w io.Writer, service string) {
	render.Fields(w,
		"account", service+"/"+a.account.GetAccount(),
		"state", a.state,
		"reason", a.account.GetStateReason(),
		"balance", amount(a.account.GetBalance(), a.account.GetCurrency()),
		"floor", amount(a.account.GetFloor(), a.account.GetCurrency()),
		"opened", render.Instant(a.account.GetCreateTime()),
		"changed", render.Instant(a.account.GetUpdateTime()))
	if a.replayed {
		fmt.Fprintf(w, "replayed: this key was first accepted %s; nothing changed again\n", render.Instant(a.first))
	}
}

// customers speaks accountsvc's API.
type customers struct{ accountv1.AccountServiceClient }

// customersAnswer is any answer with an account in it.
type customersAnswer interface {
	proto.Message
	GetAccount() *accountv1.Account
}

func ofCustomers(m customersAnswer, err error) (changed, error) {
	if err != nil {
		return changed{}, err
	}
	return withReplay(changed{message: m, account: m.GetAccount(), state: stateName(m.GetAccount().GetState())}), nil
}

func (s customers) open(ctx context.Context, key, account, currency string) (changed, error) {
	return ofCustomers(s.OpenAccount(ctx, &accountv1.OpenAccountRequest{Key: key, Account: account, Currency: currency}))
}

func (s customers) get(ctx context.Context, account string) (changed, error) {
	return ofCustomers(s.GetAccount(ctx, &accountv1.GetAccountRequest{Account: account}))
}

func (s customers) freeze(ctx context.Context, key, account, reason string) (changed, error) {
	return ofCustomers(s.Freeze(ctx, &accountv1.FreezeRequest{Key: key, Account: account, Reason: reason}))
}

func (s customers) unfreeze(ctx context.Context, key, account, reason string) (changed, error) {
	return ofCustomers(s.Unfreeze(ctx, &accountv1.UnfreezeRequest{Key: key, Account: account, Reason: reason}))
}

func (s customers) close(ctx context.Context, key, account string) (changed, error) {
	return ofCustomers(s.Close(ctx, &accountv1.CloseRequest{Key: key, Account: account}))
}

// deposit shows the account as it is after the deposit; its answer has only the
// balance.
func (s customers) deposit(ctx context.Context, key, account string, amount int64, currency, external string) (changed, error) {
	answer, err := s.Deposit(ctx, &accountv1.DepositRequest{Key: key, Account: account, Amount: amount, Currency: currency, External: external})
	if err != nil {
		return changed{}, err
	}
	return s.after(ctx, account, answer)
}

func (s customers) withdraw(ctx context.Context, key, account string, amount int64, currency, external string) (changed, error) {
	answer, err := s.Withdraw(ctx, &accountv1.WithdrawRequest{Key: key, Account: account, Amount: amount, Currency: currency, External: external})
	if err != nil {
		return changed{}, err
	}
	return s.after(ctx, account, answer)
}

// after is an answer with the account as it then stands.
func (s customers) after(ctx context.Context, account string, answer proto.Message) (changed, error) {
	now, err := s.get(ctx, account)
	if err != nil {
		return changed{}, err
	}
	now.message = answer
	return withReplay(now), nil
}

// ledger speaks ledgersvc's API.
type ledger struct{ ledgerv1.LedgerServiceClient }

// ledgerAnswer is any answer with an account in it.
type ledgerAnswer interface {
	proto.Message
	GetAccount() *ledgerv1.Account
}

func ofLedger(m ledgerAnswer, err error) (changed, error) {
	if err != nil {
		return changed{}, err
	}
	return withReplay(changed{message: m, account: m.GetAccount(), state: stateName(m.GetAccount().GetState())}), nil
}

func (s ledger) open(ctx context.Context, key, account, currency string) (changed, error) {
	return ofLedger(s.OpenAccount(ctx, &ledgerv1.OpenAccountRequest{Key: key, Account: account, Currency: currency}))
}

func (s ledger) get(ctx context.Context, account string) (changed, error) {
	return ofLedger(s.GetAccount(ctx, &ledgerv1.GetAccountRequest{Account: account}))
}

func (s ledger) freeze(ctx context.Context, key, account, reason string) (changed, error) {
	return ofLedger(s.Freeze(ctx, &ledgerv1.FreezeRequest{Key: key, Account: account, Reason: reason}))
}

func (s ledger) unfreeze(ctx context.Context, key, account, reason string) (changed, error) {
	return ofLedger(s.Unfreeze(ctx, &ledgerv1.UnfreezeRequest{Key: key, Account: account, Reason: reason}))
}

func (s ledger) close(ctx context.Context, key, account string) (changed, error) {
	return ofLedger(s.Close(ctx, &ledgerv1.CloseRequest{Key: key, Account: account}))
}

func (s ledger) deposit(context.Context, string, string, int64, string, string) (changed, error) {
	return changed{}, usage("ledgersvc takes no deposits; fund the account by a transfer")
}

func (s ledger) withdraw(context.Context, string, string, int64, string, string) (changed, error) {
	return changed{}, usage("ledgersvc pays nothing out; move the money by a transfer")
}

// withReplay fills in the replay's mark where the answer has one.
func withReplay(c changed) changed {
	if r, ok := c.message.(interface {
		GetReplayed() bool
		GetFirstTime() *timestamppb.Timestamp
	}); ok {
		c.replayed, c.first = r.GetReplayed(), r.GetFirstTime()
	}
	return c
}
