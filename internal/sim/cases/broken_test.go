package cases

import (
	"strings"
	"testing"
	"time"

	"giro/internal/stepkey"
	participantv1 "giro/proto/giro/participant/v1"
)

type said = participantv1.Answer

const otherKey = "01234567-89ab-8def-8123-456789abcdef"

// TestParkedByABrokenContract: a participant that breaks the contract parks the
// saga, with the reason to be seen, and nothing more is sent.
func TestParkedByABrokenContract(t *testing.T) {
	for name, b := range map[string]struct {
		kind   kind
		fault  fault
		reason string
		// alice and merchant are their balances while it is parked.
		alice, merchant int64
	}{
		"debit echoes another key":    {debit, changed(func(a *said) { a.Key = otherKey }), "another key", 9_500, 0},
		"debit echoes no key":         {debit, changed(func(a *said) { a.Key = "" }), "another key", 9_500, 0},
		"debit echoes another amount": {debit, changed(func(a *said) { a.Amount = 1 }), "another amount", 9_500, 0},
		"debit moved less":            {debit, changed(func(a *said) { a.AmountMoved = 1 }), "moved 1", 9_500, 0},
		"a no that moved":             {debit, changed(func(a *said) { a.Outcome = participantv1.Outcome_OUTCOME_REFUSED }), "moved 500", 9_500, 0},
		"debit KEY_REUSED": {debit, invented(func(a *said) {
			a.Outcome, a.DifferingFields = participantv1.Outcome_OUTCOME_KEY_REUSED, []string{"amount"}
		}), "KEY_REUSED", 10_000, 0},
		"debit EXPIRED":             {debit, invented(func(a *said) { a.Outcome = participantv1.Outcome_OUTCOME_EXPIRED }), "EXPIRED", 10_000, 0},
		"debit NOT_FOUND":           {debit, invented(func(a *said) { a.Outcome = participantv1.Outcome_OUTCOME_NOT_FOUND }), "NOT_FOUND", 10_000, 0},
		"credit echoes another key": {credit, changed(func(a *said) { a.Key = otherKey }), "another key", 9_500, 500},
		"credit KEY_REUSED":         {credit, invented(func(a *said) { a.Outcome = participantv1.Outcome_OUTCOME_KEY_REUSED }), "KEY_REUSED", 9_500, 0},
		"credit EXPIRED":            {credit, invented(func(a *said) { a.Outcome = participantv1.Outcome_OUTCOME_EXPIRED }), "EXPIRED", 9_500, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, memory)
			c.running = 1
			r := c.replica()
			w := c.accounts.wire
			if b.kind == credit {
				w = c.ledger.wire
			}
			w.on(b.kind, always, b.fault)
			isState(t, r.create(pay("k", 500)).GetTransfer(), pending, "")
			parked(t, c, r, "k", b.reason, pending, "")
			c.balances(b.alice, b.merchant)
		})
	}
}

// parked fails unless a saga is parked for a reason and stays so, nothing more
// being sent, whatever clients and time do.
func parked(t *testing.T, c *cluster, r *replica, key, reason string, state stateT, why string) {
	t.Helper()
	s := r.saga(key)
	if !s.GetParked() || !strings.Contains(s.GetParkReason(), reason) {
		t.Fatalf("parked %v: %q, want one that says %q", s.GetParked(), s.GetParkReason(), reason)
	}
	sent := len(c.accounts.wire.log()) + len(c.ledger.wire.log())
	isState(t, r.create(pay(key, 500)).GetTransfer(), state, why)
	isState(t, r.cancel(key, nil), state, why)
	version := r.saga(key).GetVersion()
	// Another transfer passes, so the replica has been at work meanwhile; and a
	// new replica that sweeps takes no parked saga up.
	second := c.replica()
	late := time.Now().Add(5 * quick.SweepEvery)
	eventually(t, "some sweeps have passed", func() bool { return time.Now().After(late) })
	if now := len(c.accounts.wire.log()) + len(c.ledger.wire.log()); now != sent {
		t.Errorf("%d operations were sent for a parked saga", now-sent)
	}
	if s := second.saga(key); !s.GetParked() || s.GetVersion() != version {
		t.Errorf("it moved on: %v", s)
	}
}

// TestParkedRefundThatMovedNothing: the debit was answered APPLIED, and its refund
// says that there was none.
func TestParkedRefundThatMovedNothing(t *testing.T) {
	for _, debitOutcome := range []participantv1.Outcome{participantv1.Outcome_OUTCOME_CANCELLED, participantv1.Outcome_OUTCOME_REFUSED} {
		t.Run(debitOutcome.String(), func(t *testing.T) {
			c := newCluster(t, memory)
			c.running = 1
			r := c.replica()
			heal := c.ledger.wire.on(credit, always, drop)
			c.accounts.wire.on(refund, always, invented(func(a *said) {
				a.Outcome, a.DebitOutcome = applied, debitOutcome
			}))
			answer := r.begin(pay("k", 500))
			eventually(t, "the credit was sent", func() bool { return c.ledger.wire.count(credit) > 0 })
			isState(t, r.cancel("k", nil), pending, "CANCEL_ASKED")
			heal()
			if _, err := answer(); err != nil {
				t.Fatal(err)
			}
			parked(t, c, r, "k", "moved nothing", pending, "CANCEL_ASKED")
			c.balances(9_500, 0)
			c.holds("k", "debit APPLIED 500 (2)", "credit CANCELLED 0 (0)")
		})
	}
}

// TestBrokenMessageIsUnknown: too few answers, too many, one without an outcome or
// with one of tomorrow: asked again, and the transfer completes.
func TestBrokenMessageIsUnknown(t *testing.T) {
	for name, spoil := range map[string]func(*response){
		"none":       func(r *response) { r.Answers = nil },
		"too many":   func(r *response) { r.Answers = append(r.Answers, r.Answers[0]) },
		"no outcome": func(r *response) { r.Answers[0].Outcome = 0 },
		"tomorrow's": func(r *response) { r.Answers[0].Outcome = 99 },
		"empty":      func(r *response) { r.Answers[0] = &said{} },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, memory)
			r := c.replica()
			broken := func(_ ctxt, d delivery) (*response, error) {
				out, err := d.deliver()
				if err == nil {
					spoil(out)
				}
				return out, err
			}
			c.accounts.wire.on(debit, 2, broken)
			c.ledger.wire.on(credit, 2, broken)
			isState(t, r.create(pay("k", 500)).GetTransfer(), completed, "")
			if d, k := c.accounts.wire.count(debit), c.ledger.wire.count(credit); d != 3 || k != 3 {
				t.Errorf("%d debits and %d credits, want 3 each", d, k)
			}
			c.balances(9_500, 500)
			c.holds("", "debit APPLIED 500 (2)", "credit APPLIED 500 (2)")
		})
	}
}

// TestC06OneRefund: a refund again and again, in a row and at once, and one under
// another key.
func TestC06OneRefund(t *testing.T) {
	onTwo(t, func(t *testing.T, b backend) {
		c := newCluster(t, b)
		c.openLedger("gone", "USD")
		c.closeLedger("gone")
		r := c.replica()
		request := pay("k", 500)
		request.Destination = "ledger/gone"
		isState(t, r.create(request).GetTransfer(), refunded, "ACCOUNT_CLOSED")
		o := operation(refund, stepkey.Refund, request)
		answers := make(chan *said, 50)
		for range 50 {
			go func() {
				out, err := c.accounts.participant.Refund(within(t, patient), &participantv1.RefundRequest{Operation: o})
				if err != nil {
					t.Error(err)
				}
				answers <- out.GetAnswer()
			}()
		}
		for range 50 {
			if a := <-answers; a.GetOutcome() != applied || !a.GetReplayed() || a.GetAmountMoved() != 500 {
				t.Errorf("again: %v", a)
			}
		}
		another := operation(refund, stepkey.Refund, request)
		another.Key = otherKey
		a := c.accounts.apply(t, another)
		if a.GetOutcome() != participantv1.Outcome_OUTCOME_REFUSED || a.GetReason() != participantv1.RefusalReason_REFUSAL_REASON_ALREADY_REFUNDED ||
			a.GetFirstRefundKey() != o.GetKey() || a.GetFirstRefundAmount() != 500 {
			t.Errorf("under another key: %v", a)
		}
		c.balances(deposited, 0)
	})
}
