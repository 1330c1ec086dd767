package cases

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"giro/internal/rpc"
	"giro/orchestrator/saga"
	participantv1 "giro/proto/giro/participant/v1"
	transferv1 "giro/proto/giro/transfer/v1"
)

// order fails unless the ledger was sent these kinds in this order, repeats of the
// same left out.
func order(t *testing.T, w *wire, want ...kind) {
	t.Helper()
	var got []kind
	for _, o := range w.log() {
		if len(got) == 0 || got[len(got)-1] != o.GetKind() {
			got = append(got, o.GetKind())
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("sent %v, want %v", got, want)
	}
}

// lateAnswers releases what is held and fails unless every answer is this one.
func lateAnswers(t *testing.T, s *shelf, want participantv1.Outcome) {
	t.Helper()
	answers, err := s.release()
	if err != nil {
		t.Fatal(err)
	}
	if len(answers) == 0 {
		t.Fatal("nothing was held")
	}
	for _, a := range answers {
		if a.GetOutcome() != want || (want == participantv1.Outcome_OUTCOME_CANCELLED && a.GetAmountMoved() != 0) {
			t.Errorf("a late delivery was answered %v, want %s", a, want)
		}
	}
}

const (
	applied   = participantv1.Outcome_OUTCOME_APPLIED
	tombstone = participantv1.Outcome_OUTCOME_CANCELLED
)

func expiring(key string, amount int64) *transferv1.CreateTransferRequest {
	r := pay(key, amount)
	r.Expiry = durationpb.New(time.Second)
	return r
}

// abandoned leaves a saga stored as DEBITING whose credit was sent by a replica
// that is gone: applied, or, with a shelf, still on its way.
func abandoned(t *testing.T, c *cluster, request *transferv1.CreateTransferRequest, late *shelf) {
	t.Helper()
	a := c.replica()
	if late == nil {
		c.ledger.wire.on(credit, 1, doneThen(a.life.kill))
	} else {
		c.ledger.wire.on(credit, 1, late.hold)
	}
	answer := a.begin(request)
	if late == nil {
		eventually(t, "the credit was applied", func() bool { return c.balance(merchant) == request.GetAmount() })
	} else {
		eventually(t, "the credit is on its way", func() bool { return late.holding() == 1 })
	}
	a.crash()
	if _, err := answer(); err == nil {
		t.Fatal("a dead replica answered")
	}
	if s := c.stored(request.GetKey()); s.State != saga.Debiting || s.DebitApplied {
		t.Fatalf("stored as %s, want DEBITING", s.State)
	}
	c.accounts.wire.clear()
	c.ledger.wire.clear()
}

func expired(t *testing.T, c *cluster, key string) {
	t.Helper()
	at := c.stored(key).ExpiresAt
	if at.IsZero() {
		t.Fatal("it never expires")
	}
	eventually(t, "the expiry has passed", func() bool { return time.Now().After(at) })
}

// TestC31DebitingAndExpired: whoever stops a saga that is found in DEBITING
// cancels the credit's key first. Never credit and refund both.
func TestC31DebitingAndExpired(t *testing.T) {
	onAll(t, func(t *testing.T, b backend) {
		t.Run("credit applied", func(t *testing.T) {
			c := newCluster(t, b)
			abandoned(t, c, expiring("k", 500), nil)
			expired(t, c, "k")
			r := c.replica()
			c.settles("k", saga.Completed, "")
			order(t, c.ledger.wire, cancel)
			order(t, c.accounts.wire)
			isState(t, r.get("k"), completed, "")
			c.balances(9_500, 500)
			c.holds("k", "debit APPLIED 500 (2)", "credit APPLIED 500 (2)")
		})
		t.Run("credit on its way", func(t *testing.T) {
			c := newCluster(t, b)
			late := newShelf()
			abandoned(t, c, expiring("k", 500), late)
			expired(t, c, "k")
			// When the refund goes out, the credit's key must be cancelled already.
			c.accounts.wire.on(refund, 1, firstThen(func() {
				if got := c.ledger.operations(t, "k"); got != "credit CANCELLED 0 (0)" {
					t.Errorf("refunding, while the ledger holds %q", got)
				}
			}))
			r := c.replica()
			c.settles("k", saga.Refunded, "EXPIRED")
			order(t, c.ledger.wire, cancel)
			order(t, c.accounts.wire, refund)
			lateAnswers(t, late, tombstone)
			isState(t, r.get("k"), refunded, "EXPIRED")
			c.balances(deposited, 0)
			c.holds("k", "debit APPLIED 500 (2), refund APPLIED 500 (2)", "credit CANCELLED 0 (0)")
		})
	})
}

// TestC31TableLost: the same, after the saga table was lost too.
func TestC31TableLost(t *testing.T) {
	onAll(t, func(t *testing.T, b backend) {
		for _, held := range []bool{false, true} {
			for _, then := range []string{"retry", "cancel", "expire"} {
				if b.name == postgres.name && (then == "expire" || !held) {
					continue // seconds each; memory and SQLite play them
				}
				t.Run(fmt.Sprintf("%s, held %v", then, held), func(t *testing.T) { tableLost(t, b, held, then) })
			}
		}
	})
}

func tableLost(t *testing.T, b backend, held bool, then string) {
	c := newCluster(t, b)
	late := newShelf()
	if held {
		abandoned(t, c, expiring("k", 500), late)
	} else {
		abandoned(t, c, expiring("k", 500), nil)
	}
	c.lose()
	r := c.replica()
	state, reason := completed, ""
	switch then {
	case "retry":
		answer := r.create(pay("k", 500))
		if answer.GetReplayed() {
			t.Error("the orchestrator cannot know this key any more")
		}
		isState(t, answer.GetTransfer(), state, reason)
	case "cancel":
		if held {
			state, reason = refunded, "CANCEL_ASKED"
		}
		isState(t, r.cancel("k", contentsOf(pay("k", 500))), state, reason)
		order(t, c.ledger.wire, cancel)
	case "expire":
		if held {
			state, reason = refunded, "EXPIRED"
		}
		c.accounts.wire.on(debit, always, drop)
		isState(t, r.create(expiring("k", 500)).GetTransfer(), state, reason)
		order(t, c.ledger.wire, cancel)
	}
	if held && state == completed {
		lateAnswers(t, late, applied) // a replay of what the retry did
	} else if held {
		lateAnswers(t, late, tombstone)
	}
	isState(t, r.get("k"), state, reason)
	again := r.create(pay("k", 500))
	if isState(t, again.GetTransfer(), state, reason); !again.GetReplayed() {
		t.Error("no replay")
	}
	if state == completed {
		c.balances(9_500, 500)
		c.holds("k", "debit APPLIED 500 (2)", "credit APPLIED 500 (2)")
	} else {
		c.balances(deposited, 0)
		c.holds("k", "debit APPLIED 500 (2), refund APPLIED 500 (2)", "credit CANCELLED 0 (0)")
	}
}

// TestC03LateAfterTheRefund: debits, then credits, that arrive when all is over.
func TestC03LateAfterTheRefund(t *testing.T) {
	onTwo(t, func(t *testing.T, b backend) {
		t.Run("debit", func(t *testing.T) {
			c := newCluster(t, b)
			r, late := c.replica(), newShelf()
			c.accounts.wire.on(debit, always, late.hold)
			answer := r.begin(pay("k", 500))
			eventually(t, "two debits are on their way", func() bool { return late.holding() >= 2 })
			isState(t, r.cancel("k", nil), cancelled, "CANCEL_ASKED")
			lateAnswers(t, late, tombstone)
			got, err := answer()
			if err != nil {
				t.Fatal(err)
			}
			isState(t, got.GetTransfer(), cancelled, "CANCEL_ASKED")
			c.balances(deposited, 0)
			c.holds("k", "debit CANCELLED 0 (0), refund APPLIED 0 (0)", "credit CANCELLED 0 (0)")
		})
		t.Run("credit", func(t *testing.T) {
			c := newCluster(t, b)
			r, late := c.replica(), newShelf()
			c.ledger.wire.on(credit, always, late.hold)
			answer := r.begin(pay("k", 500))
			eventually(t, "two credits are on their way", func() bool { return late.holding() >= 2 })
			isState(t, r.cancel("k", nil), refunded, "CANCEL_ASKED")
			lateAnswers(t, late, tombstone)
			got, err := answer()
			if err != nil {
				t.Fatal(err)
			}
			isState(t, got.GetTransfer(), refunded, "CANCEL_ASKED")
			c.balances(deposited, 0)
			c.holds("k", "debit APPLIED 500 (2), refund APPLIED 500 (2)", "credit CANCELLED 0 (0)")
		})
	})
}

// TestC04EmptyCompensation: a debit that never arrived is undone, three times
// over, and arrives then.
func TestC04EmptyCompensation(t *testing.T) {
	onTwo(t, func(t *testing.T, b backend) {
		c := newCluster(t, b)
		r, late := c.replica(), newShelf()
		c.accounts.wire.on(debit, always, late.hold)
		c.accounts.wire.on(refund, 2, doneBut(codes.Unavailable))
		r.begin(pay("k", 500))
		eventually(t, "a debit was sent", func() bool { return late.holding() > 0 })
		isState(t, r.cancel("k", contentsOf(pay("k", 500))), cancelled, "CANCEL_ASKED")
		if n := c.accounts.wire.count(refund); n != 3 {
			t.Errorf("%d refunds were sent, want 3", n)
		}
		lateAnswers(t, late, tombstone)
		c.balances(deposited, 0)
		c.holds("k", "debit CANCELLED 0 (0), refund APPLIED 0 (0)", "credit CANCELLED 0 (0)")
	})
}

// TestC58NoDeadlineForARefund: the expiry passes while the source is down in
// REFUNDING, and a cancel changes nothing either.
func TestC58NoDeadlineForARefund(t *testing.T) {
	c := newCluster(t, memory)
	c.openLedger("gone", "USD")
	c.closeLedger("gone")
	r := c.replica()
	heal := c.accounts.wire.on(refund, always, drop)
	request := expiring("k", 500)
	request.Destination = "ledger/gone"
	answer := r.begin(request)
	eventually(t, "it refunds", func() bool { return c.state("k") == saga.Refunding })
	expired(t, c, "k")
	asked, err := r.transfers.CancelTransfer(within(t, 300*time.Millisecond), &transferv1.CancelTransferRequest{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	isState(t, asked.GetTransfer(), pending, "ACCOUNT_CLOSED")
	eventually(t, "it needs attention", func() bool { return r.saga("k").GetNeedsAttention() })
	heal()
	got, err := answer()
	if err != nil {
		t.Fatal(err)
	}
	isState(t, got.GetTransfer(), refunded, "ACCOUNT_CLOSED")
	c.balances(deposited, 0)
	c.holds("k", "debit APPLIED 500 (2), refund APPLIED 500 (2)", "credit REFUSED 0 (0)")
}

// TestCancelFinal: a final transfer is given back as it is.
func TestCancelFinal(t *testing.T) {
	c := newCluster(t, memory)
	r := c.replica()
	done := r.create(pay("k", 500)).GetTransfer()
	if got := r.cancel("k", contentsOf(pay("k", 500))); !proto.Equal(got, done) {
		t.Errorf("%v, want %v", got, done)
	}
	c.balances(9_500, 500)
}

// TestCancelUnknown: without contents it is NOT_FOUND; with them the later Create
// finds it cancelled, and nothing ever moves.
func TestCancelUnknown(t *testing.T) {
	onTwo(t, func(t *testing.T, b backend) {
		c := newCluster(t, b)
		r := c.replica()
		_, err := r.transfers.CancelTransfer(within(t, patient), &transferv1.CancelTransferRequest{Key: "k"})
		if status.Code(err) != codes.NotFound || rpc.Reason(err) != "TRANSFER_NOT_FOUND" {
			t.Fatalf("got %v", err)
		}
		isState(t, r.cancel("k", contentsOf(pay("k", 500))), cancelled, "CANCEL_ASKED")
		created := r.create(pay("k", 500))
		if isState(t, created.GetTransfer(), cancelled, "CANCEL_ASKED"); !created.GetReplayed() {
			t.Error("the key was known")
		}
		if n := c.accounts.wire.count(debit) + c.ledger.wire.count(credit); n != 0 {
			t.Errorf("%d forward steps were sent", n)
		}
		c.balances(deposited, 0)
		c.holds("k", "debit CANCELLED 0 (0), refund APPLIED 0 (0)", "credit CANCELLED 0 (0)")
	})
}

// TestC35CancelOtherContents: a cancel with other contents cancels nothing.
func TestC35CancelOtherContents(t *testing.T) {
	c := newCluster(t, memory)
	r := c.replica()
	heal := c.accounts.wire.on(debit, always, drop)
	answer := r.begin(pay("k", 500))
	eventually(t, "it is stored", func() bool { return c.accounts.wire.count(debit) > 0 })
	_, err := r.transfers.CancelTransfer(within(t, patient), &transferv1.CancelTransferRequest{Key: "k", Contents: contentsOf(pay("k", 501))})
	if status.Code(err) != codes.AlreadyExists || fmt.Sprint(rpc.DifferingFields(err)) != "[amount]" {
		t.Fatalf("got %v", err)
	}
	heal()
	got, err := answer()
	if err != nil {
		t.Fatal(err)
	}
	isState(t, got.GetTransfer(), completed, "")
	c.balances(9_500, 500)
}

// TestCancelElsewhere: a cancel at a replica that does not own the saga, with the
// credit on its way from the one that does.
func TestCancelElsewhere(t *testing.T) {
	onTwo(t, func(t *testing.T, b backend) {
		c := newCluster(t, b)
		owner, other := c.replica(), c.replica()
		late := newShelf()
		c.ledger.wire.on(credit, always, late.hold)
		answer := owner.begin(pay("k", 500))
		eventually(t, "the credit is on its way", func() bool { return late.holding() > 0 })
		isState(t, other.cancel("k", nil), refunded, "CANCEL_ASKED")
		lateAnswers(t, late, tombstone)
		got, err := answer()
		if err != nil {
			t.Fatal(err)
		}
		isState(t, got.GetTransfer(), refunded, "CANCEL_ASKED")
		c.balances(deposited, 0)
		c.holds("k", "debit APPLIED 500 (2), refund APPLIED 500 (2)", "credit CANCELLED 0 (0)")
	})
}
