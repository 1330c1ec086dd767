package cases

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"giro/internal/stepkey"
	"giro/orchestrator/saga"
	transferv1 "giro/proto/giro/transfer/v1"
)

// TestC02KilledAfterTheRefund: the refund is committed at the source, the saga row
// does not say so, the orchestrator dies.
func TestC02KilledAfterTheRefund(t *testing.T) {
	onAll(t, func(t *testing.T, b backend) {
		c := newCluster(t, b)
		a, late := c.replica(), newShelf()
		heal := c.ledger.wire.on(credit, always, late.hold)
		c.accounts.wire.on(refund, 1, firstThen(func() {
			if s := c.state("k"); s != saga.Refunding {
				t.Errorf("a refund was sent while %s is stored", s)
			}
			a.life.kill()
		}))
		a.begin(pay("k", 500))
		eventually(t, "the credit is on its way", func() bool { return late.holding() > 0 })
		if _, err := a.transfers.CancelTransfer(within(t, time.Second), &transferv1.CancelTransferRequest{Key: "k"}); err != nil &&
			status.Code(err) != codes.Unavailable && status.Code(err) != codes.DeadlineExceeded {
			t.Fatal(err)
		}
		eventually(t, "the refund was applied", func() bool { return c.balance(alice) == deposited })
		a.crash()
		if s := c.state("k"); s != saga.Refunding {
			t.Fatalf("stored as %s, want REFUNDING", s)
		}
		heal()
		r := c.replica()
		c.settles("k", saga.Refunded, "CANCEL_ASKED")
		lateAnswers(t, late, tombstone)
		if got := c.accounts.apply(t, operation(debit, stepkey.Debit, pay("k", 500))); got.GetOutcome() != applied || !got.GetReplayed() {
			t.Errorf("the debit again: %v", got)
		}
		isState(t, r.get("k"), refunded, "CANCEL_ASKED")
		c.balances(deposited, 0)
		c.holds("k", "debit APPLIED 500 (2), refund APPLIED 500 (2)", "credit CANCELLED 0 (0)")
	})
}

// TestC18BetweenEffectAndRecord: the debit is committed, and the orchestrator
// dies, or hears INTERNAL, or is stopped.
func TestC18BetweenEffectAndRecord(t *testing.T) {
	onTwo(t, func(t *testing.T, b backend) {
		t.Run("killed", func(t *testing.T) {
			c := newCluster(t, b)
			a := c.replica()
			c.accounts.wire.on(debit, 1, doneThen(a.life.kill))
			a.begin(pay("k", 500))
			eventually(t, "the debit was applied", func() bool { return c.balance(alice) == 9_500 })
			a.crash()
			c.replica()
			c.settles("k", saga.Completed, "")
			c.balances(9_500, 500)
			c.holds("", "debit APPLIED 500 (2)", "credit APPLIED 500 (2)")
		})
		t.Run("stopped", func(t *testing.T) {
			c := newCluster(t, b)
			r := c.replica()
			c.accounts.wire.on(debit, always, doneBut(codes.Internal))
			answer := r.begin(pay("k", 500))
			eventually(t, "it was asked again", func() bool { return c.accounts.wire.count(debit) > 1 })
			isState(t, r.cancel("k", nil), refunded, "CANCEL_ASKED")
			got, err := answer()
			if err != nil {
				t.Fatal(err)
			}
			isState(t, got.GetTransfer(), refunded, "CANCEL_ASKED")
			order(t, c.ledger.wire, cancel)
			c.balances(deposited, 0)
			c.holds("", "debit APPLIED 500 (2), refund APPLIED 500 (2)", "credit CANCELLED 0 (0)")
		})
	})
}

// TestC18C20C56AnErrorIsUnknown: whatever code comes back, before or after the
// work was done, the same key is asked again, and nothing is decided by it.
func TestC18C20C56AnErrorIsUnknown(t *testing.T) {
	every := []codes.Code{codes.Canceled, codes.Unknown, codes.InvalidArgument, codes.DeadlineExceeded, codes.NotFound,
		codes.AlreadyExists, codes.PermissionDenied, codes.ResourceExhausted, codes.FailedPrecondition, codes.Aborted,
		codes.OutOfRange, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss, codes.Unauthenticated}
	c := newCluster(t, memory)
	r := c.replica()
	for _, code := range every {
		for name, f := range map[string]fault{"before": failed(code), "after": doneBut(code)} {
			key := fmt.Sprintf("%s-%s", code, name)
			debits, credits := c.accounts.wire.count(debit), c.ledger.wire.count(credit)
			c.accounts.wire.on(debit, 2, f)
			c.ledger.wire.on(credit, 2, f)
			isState(t, r.create(pay(key, 10)).GetTransfer(), completed, "")
			c.holds(key, "debit APPLIED 10 (2)", "credit APPLIED 10 (2)")
			if d, k := c.accounts.wire.count(debit)-debits, c.ledger.wire.count(credit)-credits; d != 3 || k != 3 {
				t.Errorf("%s: %d debits and %d credits were sent, want 3 each", key, d, k)
			}
		}
	}
	c.balances(deposited-20*int64(len(every)), 20*int64(len(every)))
}

// TestC20DeliveredTwice: every operation arrives twice.
func TestC20DeliveredTwice(t *testing.T) {
	onTwo(t, func(t *testing.T, b backend) {
		c := newCluster(t, b)
		c.openLedger("gone", "USD")
		c.closeLedger("gone")
		r := c.replica()
		for _, w := range []*wire{c.accounts.wire, c.ledger.wire} {
			for _, k := range []kind{debit, credit, refund, cancel} {
				w.on(k, always, twice)
			}
		}
		isState(t, r.create(pay("k", 500)).GetTransfer(), completed, "")
		toGone := pay("back", 300)
		toGone.Destination = "ledger/gone"
		isState(t, r.create(toGone).GetTransfer(), refunded, "ACCOUNT_CLOSED")
		c.balances(9_500, 500)
		c.holds("k", "debit APPLIED 500 (2)", "credit APPLIED 500 (2)")
		c.holds("back", "debit APPLIED 300 (2), refund APPLIED 300 (2)", "credit REFUSED 0 (0)")
	})
}

// TestC17C39RetryMeetsTheSweep: the replica dies right after the row was stored or
// right after the debit; clients retry at the moment at which another one sweeps.
func TestC17C39RetryMeetsTheSweep(t *testing.T) {
	onTwo(t, func(t *testing.T, b backend) {
		for _, when := range []string{"stored", "debited"} {
			t.Run(when, func(t *testing.T) {
				c := newCluster(t, b)
				a := c.replica()
				// The debit's answer is not stored either way: both are found in Debiting.
				want := saga.Debiting
				if when == "stored" {
					c.accounts.wire.on(debit, 1, func(ctx ctxt, d delivery) (*response, error) { a.life.kill(); return drop(ctx, d) })
				} else {
					c.accounts.wire.on(debit, 1, doneThen(a.life.kill))
				}
				a.begin(pay("k", 500))
				eventually(t, "the replica died", func() bool { return a.life.alive() != nil })
				a.crash()
				if got := c.state("k"); got != want {
					t.Fatalf("stored as %s", got)
				}
				second, third := c.replica(), c.replica()
				answers := append(together(t, 10, second, pay("k", 500)), together(t, 10, third, pay("k", 500))...)
				for _, answer := range answers {
					isState(t, answer.GetTransfer(), completed, "")
					if !answer.GetReplayed() {
						t.Error("the key was known")
					}
				}
				c.balances(9_500, 500)
				c.holds("", "debit APPLIED 500 (2)", "credit APPLIED 500 (2)")
			})
		}
	})
}

// TestC17TwoOwners: a replica sleeps past its lease and wakes. Its successor has
// finished by then, or has turned round.
func TestC17TwoOwners(t *testing.T) {
	onAll(t, func(t *testing.T, b backend) {
		t.Run("before the final state", func(t *testing.T) {
			c := newCluster(t, b)
			sleeper := c.replica()
			c.ledger.wire.on(credit, 1, firstThen(sleeper.life.sleep))
			first := sleeper.begin(pay("k", 500))
			eventually(t, "the credit was applied", func() bool { return c.balance(merchant) == 500 })
			other := c.replica()
			c.settles("k", saga.Completed, "")
			version := c.stored("k").Version
			sleeper.life.wake()
			answer, err := first()
			if err != nil {
				t.Fatal(err)
			}
			isState(t, answer.GetTransfer(), completed, "")
			if s := c.stored("k"); s.Version != version || s.Owner != other.name || s.Epoch != 2 {
				t.Errorf("version %d of %s, epoch %d; the sleeper wrote over it", s.Version, s.Owner, s.Epoch)
			}
			c.balances(9_500, 500)
			c.holds("", "debit APPLIED 500 (2)", "credit APPLIED 500 (2)")
		})
		t.Run("its credit comes late", func(t *testing.T) {
			c := newCluster(t, b)
			sleeper, late := c.replica(), newShelf()
			heal := c.ledger.wire.on(credit, always, late.hold)
			first := sleeper.begin(pay("k", 500))
			eventually(t, "the credit is on its way", func() bool { return late.holding() > 0 })
			sleeper.life.sleep()
			other := c.replica()
			eventually(t, "another one owns it", func() bool { return c.stored("k").Owner == other.name })
			isState(t, other.cancel("k", nil), refunded, "CANCEL_ASKED")
			version := c.stored("k").Version
			heal()
			sleeper.life.wake()
			lateAnswers(t, late, tombstone)
			answer, err := first()
			if err != nil {
				t.Fatal(err)
			}
			isState(t, answer.GetTransfer(), refunded, "CANCEL_ASKED")
			if s := c.stored("k"); s.Version != version {
				t.Errorf("version %d, was %d: the sleeper wrote over a final state", s.Version, version)
			}
			c.balances(deposited, 0)
			c.holds("", "debit APPLIED 500 (2), refund APPLIED 500 (2)", "credit CANCELLED 0 (0)")
		})
	})
}

// TestC53StoreFails: the participant's database fails for good, before the work
// or after its commit. Nothing is decided by that, and nothing is done twice.
func TestC53StoreFails(t *testing.T) {
	onTwo(t, func(t *testing.T, b backend) {
		disk := errors.New("disk full")
		for name, errs := range map[string][2]error{"before": {disk, nil}, "after": {nil, disk}} {
			t.Run(name, func(t *testing.T) {
				c := newCluster(t, b)
				r := c.replica()
				c.accounts.books.fail(errs[0], errs[1])
				c.ledger.books.fail(errs[0], errs[1])
				answer := r.begin(pay("k", 500))
				eventually(t, "it was asked again", func() bool { return c.accounts.wire.count(debit) > 2 })
				if got := r.get("k"); got.GetState() != pending {
					t.Errorf("decided as %s by an error", got.GetState())
				}
				c.accounts.books.fail(nil, nil)
				eventually(t, "the credit was sent again", func() bool { return c.ledger.wire.count(credit) > 2 })
				c.ledger.books.fail(nil, nil)
				got, err := answer()
				if err != nil {
					t.Fatal(err)
				}
				isState(t, got.GetTransfer(), completed, "")
				c.balances(9_500, 500)
				c.holds("", "debit APPLIED 500 (2)", "credit APPLIED 500 (2)")
			})
		}
	})
}

// TestHangUp: a client that gives 50 ms, or hangs up, stops nothing; one whose
// deadline comes hears PENDING before it.
func TestHangUp(t *testing.T) {
	onTwo(t, func(t *testing.T, b backend) {
		c := newCluster(t, b)
		r, late := c.replica(), newShelf()
		heal := c.ledger.wire.on(credit, always, late.hold)
		_, err := r.transfers.CreateTransfer(within(t, 50*time.Millisecond), pay("short", 100))
		if err != nil && status.Code(err) != codes.DeadlineExceeded {
			t.Fatal(err)
		}
		begun := time.Now()
		answer, err := r.transfers.CreateTransfer(within(t, 1500*time.Millisecond), pay("waits", 100))
		if err != nil {
			t.Fatalf("after %s: %v", time.Since(begun), err)
		}
		isState(t, answer.GetTransfer(), pending, "")
		if answer.GetReplayed() {
			t.Error("it is new")
		}
		heal()
		c.settles("waits", saga.Completed, "")
		eventually(t, "the short one is stored", func() bool { return c.state("short") != "" })
		c.settles("short", saga.Completed, "")
		lateAnswers(t, late, applied)
		c.balances(9_800, 200)
	})
}

// TestAReplicaThatStopsAnswersThoseWhoWait: with the transfer as it stands, which
// is stored, and whoever asks again elsewhere gets its end.
func TestAReplicaThatStopsAnswersThoseWhoWait(t *testing.T) {
	c := newCluster(t, memory)
	first := c.replica()
	heal := c.ledger.wire.on(credit, always, failed(codes.Unavailable))
	answer := first.begin(pay("k", 500))
	eventually(t, "the credit was asked for", func() bool { return c.ledger.wire.count(credit) > 0 })
	began := time.Now()
	first.own.AnswerWaiting()
	got, err := answer()
	if err != nil || time.Since(began) > 10*time.Second {
		t.Fatalf("after %s: %v", time.Since(began), err)
	}
	isState(t, got.GetTransfer(), pending, "")
	heal()
	first.own.Close(within(t, 10*time.Second))
	second := c.replica()
	isState(t, second.create(pay("k", 500)).GetTransfer(), completed, "")
	c.balances(9_500, 500)
}
