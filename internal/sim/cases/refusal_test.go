package cases

import (
	"math"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"giro/internal/stepkey"
	accountv1 "giro/proto/giro/account/v1"
	participantv1 "giro/proto/giro/participant/v1"
)

// TestC42C43RefusalSticks: a top-up, or a new payee, needs a new key.
func TestC42C43RefusalSticks(t *testing.T) {
	onTwo(t, func(t *testing.T, b backend) {
		c := newCluster(t, b)
		r := c.replica()
		poor := r.create(pay("poor", 20_000)).GetTransfer()
		isState(t, poor, refused, "INSUFFICIENT_FUNDS")
		c.deposit("top-up", "alice", "USD", 50_000)
		if again := r.create(pay("poor", 20_000)); !again.GetReplayed() || !proto.Equal(again.GetTransfer(), poor) {
			t.Errorf("%v, was %v", again, poor)
		}
		isState(t, r.create(pay("poor-2", 20_000)).GetTransfer(), completed, "")

		c.openLedger("gone", "USD")
		c.closeLedger("gone")
		request := pay("payee", 100)
		request.Destination = "ledger/gone"
		isState(t, r.create(request).GetTransfer(), refunded, "ACCOUNT_CLOSED")
		request.Destination = merchant
		if _, err := r.transfers.CreateTransfer(within(t, patient), request); status.Code(err) != codes.AlreadyExists {
			t.Errorf("the new payee under the old key: %v", err)
		}
		isState(t, r.get("payee"), refunded, "ACCOUNT_CLOSED")
		c.balances(40_000, 20_000)
	})
}

// TestUnknownAccounts: an account that is not there is a stored refusal.
func TestUnknownAccounts(t *testing.T) {
	c := newCluster(t, memory)
	r := c.replica()
	from, to := pay("from", 5), pay("to", 5)
	from.Source, to.Destination = "accounts/nobody", "ledger/nobody"
	isState(t, r.create(from).GetTransfer(), refused, "ACCOUNT_NOT_FOUND")
	isState(t, r.create(to).GetTransfer(), refunded, "ACCOUNT_NOT_FOUND")
	c.holds("from", "debit REFUSED 0 (0)", "")
	c.holds("to", "debit APPLIED 5 (2), refund APPLIED 5 (2)", "credit REFUSED 0 (0)")
	c.balances(deposited, 0)
}

// TestC08AmountsAtTheParticipant: past the orchestrator, an amount that is no
// amount is INVALID inside an OK, and the key is not used up.
func TestC08AmountsAtTheParticipant(t *testing.T) {
	onTwo(t, func(t *testing.T, b backend) {
		c := newCluster(t, b)
		for _, amount := range []int64{0, -1, math.MinInt64, math.MaxInt64} {
			bad := pay("k", amount)
			for _, a := range []*said{c.accounts.apply(t, operation(debit, stepkey.Debit, bad)), c.ledger.apply(t, operation(credit, stepkey.Credit, bad))} {
				if a.GetOutcome() != participantv1.Outcome_OUTCOME_INVALID || len(a.GetViolations()) != 1 || a.GetViolations()[0].GetField() != "amount" {
					t.Errorf("%d: %v", amount, a)
				}
			}
		}
		c.holds("", "", "")
		isState(t, c.replica().create(pay("k", 500)).GetTransfer(), completed, "")
		for _, amount := range []int64{0, -1, math.MinInt64} {
			// A refund's contents are compared, never validated.
			a := c.accounts.apply(t, operation(refund, stepkey.Refund, pay("k", amount)))
			if a.GetOutcome() != participantv1.Outcome_OUTCOME_KEY_REUSED || a.GetAmountMoved() != 0 {
				t.Errorf("refund of %d: %v", amount, a)
			}
		}
		c.balances(9_500, 500)
		c.holds("", "debit APPLIED 500 (2)", "credit APPLIED 500 (2)")
	})
}

// TestC24C25Currencies: minor units whatever the exponent; a mismatch is refused,
// at the destination after a debit, which is given back.
func TestC24C25Currencies(t *testing.T) {
	onTwo(t, func(t *testing.T, b backend) {
		c := newCluster(t, b)
		r := c.replica()
		for currency, name := range map[string]string{"JPY": "yen", "KWD": "dinar", "EUR": "euro"} {
			c.open(name, currency, 5_000)
			c.openLedger(name, currency)
			request := pay(name, 1_234)
			request.Source, request.Destination, request.Currency = "accounts/"+name, "ledger/"+name, currency
			isState(t, r.create(request).GetTransfer(), completed, "")
			if a, l := c.balance("accounts/"+name), c.balance("ledger/"+name); a != 3_766 || l != 1_234 {
				t.Errorf("%s: %d and %d", currency, a, l)
			}
		}
		atSource := pay("at-source", 100)
		atSource.Currency, atSource.Destination = "EUR", "ledger/euro"
		isState(t, r.create(atSource).GetTransfer(), refused, "CURRENCY_MISMATCH")
		atDestination := pay("at-destination", 100)
		atDestination.Source, atDestination.Currency = "accounts/euro", "EUR"
		isState(t, r.create(atDestination).GetTransfer(), refunded, "CURRENCY_MISMATCH")
		if got := c.balance("accounts/euro"); got != 3_766 {
			t.Errorf("the euro account has %d", got)
		}
		c.balances(deposited, 0)
	})
}

// TestC60FrozenOrClosedBeforeTheRefund: the source takes its refund when frozen;
// closed, the money goes to suspense, and the transfer says so.
func TestC60FrozenOrClosedBeforeTheRefund(t *testing.T) {
	onTwo(t, func(t *testing.T, b backend) {
		c := newCluster(t, b)
		r := c.replica()
		c.openLedger("gone", "USD")
		c.closeLedger("gone")
		c.accounts.wire.on(refund, 1, firstThen(func() {
			if _, err := c.accounts.account.Freeze(within(t, patient), &accountv1.FreezeRequest{Key: "freeze", Account: "alice"}); err != nil {
				t.Error(err)
			}
		}))
		request := pay("frozen", 500)
		request.Destination = "ledger/gone"
		got := r.create(request).GetTransfer()
		if isState(t, got, refunded, "ACCOUNT_CLOSED"); got.GetRefundToSuspense() {
			t.Error("a frozen account takes its refund")
		}
		c.balances(deposited, 0)

		c.open("bob", "USD", 700)
		c.accounts.wire.on(refund, 1, firstThen(func() {
			if _, err := c.accounts.account.Close(within(t, patient), &accountv1.CloseRequest{Key: "close", Account: "bob"}); err != nil {
				t.Error(err)
			}
		}))
		all := pay("closed", 700)
		all.Source, all.Destination = "accounts/bob", "ledger/gone"
		got = r.create(all).GetTransfer()
		if isState(t, got, refunded, "ACCOUNT_CLOSED"); !got.GetRefundToSuspense() {
			t.Error("it does not say that the refund went to suspense")
		}
		if bob := c.balance("accounts/bob"); bob != 0 {
			t.Errorf("a closed account has %d", bob)
		}
		c.holds("closed", "debit APPLIED 700 (2), refund APPLIED 700 (2)", "credit REFUSED 0 (0)")
	})
}
