package cases

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"giro/orchestrator/saga"
	transferv1 "giro/proto/giro/transfer/v1"
)

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

const completed, refused, refunded, cancelled, pending = transferv1.State_STATE_COMPLETED, transferv1.State_STATE_REFUSED,
	transferv1.State_STATE_REFUNDED, transferv1.State_STATE_CANCELLED, transferv1.State_STATE_PENDING

// isState fails unless a transfer stands so.
func isState(t *testing.T, got *transferv1.Transfer, state transferv1.State, reason string) {
	t.Helper()
	if got.GetState() != state || got.GetReason() != reason {
		t.Fatalf("%s is %s (%q), want %s (%q)", got.GetKey(), got.GetState(), got.GetReason(), state, reason)
	}
}

// together makes the same call many times at once.
func together(t *testing.T, callers int, r *replica, request *transferv1.CreateTransferRequest) []*transferv1.CreateTransferResponse {
	t.Helper()
	var waits []func() (*transferv1.CreateTransferResponse, error)
	for range callers {
		waits = append(waits, r.begin(request))
	}
	var answers []*transferv1.CreateTransferResponse
	for _, wait := range waits {
		answer, err := wait()
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, answer)
	}
	return answers
}

// sameAnswer fails unless all have the same transfer, and all but first of them
// are replays.
func sameAnswer(t *testing.T, answers []*transferv1.CreateTransferResponse, first int) {
	t.Helper()
	created := 0
	for _, a := range answers {
		if !a.GetReplayed() {
			created++
		}
		if !proto.Equal(a.GetTransfer(), answers[0].GetTransfer()) || !proto.Equal(a.GetFirstTime(), answers[0].GetFirstTime()) {
			t.Fatalf("two answers differ: %v and %v", a, answers[0])
		}
	}
	if created != first {
		t.Errorf("%d answers are no replays, want %d", created, first)
	}
}

// TestLesson: the same key from many callers at once is one debit, one stored
// result and one answer.
func TestLesson(t *testing.T) {
	onAll(t, func(t *testing.T, b backend) {
		for _, callers := range []int{10, 100} {
			t.Run(fmt.Sprint(callers), func(t *testing.T) {
				c := newCluster(t, b)
				r := c.replica()
				answers := together(t, callers, r, pay("lesson", 4_000))
				sameAnswer(t, answers, 1)
				isState(t, answers[0].GetTransfer(), completed, "")
				c.balances(6_000, 4_000)
				c.holds("", "debit APPLIED 4000 (2)", "credit APPLIED 4000 (2)")
			})
		}
	})
}

// TestC11ManyAtOnceWhileTheFirstRuns: a hundred callers, a slow debit, and a
// replica that dies in the middle.
func TestC11ManyAtOnceWhileTheFirstRuns(t *testing.T) {
	onAll(t, func(t *testing.T, b backend) {
		c := newCluster(t, b)
		a := c.replica()
		late := newShelf()
		heal := c.accounts.wire.on(debit, always, late.hold)
		var waits []func() (*transferv1.CreateTransferResponse, error)
		for range 50 {
			waits = append(waits, a.begin(pay("many", 1_000)))
		}
		eventually(t, "the debit is on its way", func() bool { return late.holding() > 0 })
		a.crash()
		second := c.replica()
		for range 50 {
			waits = append(waits, second.begin(pay("many", 1_000)))
		}
		heal()
		if answers, err := late.release(); err != nil || len(answers) == 0 {
			t.Fatal(len(answers), err)
		}
		var answers []*transferv1.CreateTransferResponse
		for i, wait := range waits {
			answer, err := wait()
			if i >= 50 {
				if err != nil {
					t.Fatal(err)
				}
				answers = append(answers, answer)
			}
		}
		sameAnswer(t, answers, 0)
		isState(t, answers[0].GetTransfer(), completed, "")
		c.balances(9_000, 1_000)
		c.holds("", "debit APPLIED 1000 (2)", "credit APPLIED 1000 (2)")
	})
}

// TestC51EveryOKIsFound: fifty transfers at once; what an OK names is there, with
// both postings.
func TestC51EveryOKIsFound(t *testing.T) {
	onTwo(t, func(t *testing.T, b backend) {
		c := newCluster(t, b)
		r := c.replica()
		waits := map[string]func() (*transferv1.CreateTransferResponse, error){}
		for i := range 50 {
			key := fmt.Sprintf("t%02d", i)
			waits[key] = r.begin(pay(key, 7))
		}
		for key, wait := range waits {
			answer, err := wait()
			if err != nil {
				t.Fatal(err)
			}
			if answer.GetReplayed() {
				t.Errorf("%s is new, and was called a replay", key)
			}
			isState(t, answer.GetTransfer(), completed, "")
			if got := r.get(key); !proto.Equal(got, answer.GetTransfer()) {
				t.Errorf("found %v, was told %v", got, answer.GetTransfer())
			}
			c.holds(key, "debit APPLIED 7 (2)", "credit APPLIED 7 (2)")
		}
		c.balances(deposited-350, 350)
	})
}

// TestC55ResendAfterTheEnd: the stored answer, with its reason, and no participant
// is asked.
func TestC55ResendAfterTheEnd(t *testing.T) {
	c := newCluster(t, memory)
	c.openLedger("gone", "USD")
	c.closeLedger("gone")
	r := c.replica()
	toGone := pay("refunded", 10)
	toGone.Destination = "ledger/gone"
	requests := []*transferv1.CreateTransferRequest{pay("completed", 10), pay("refused", deposited*2), toGone}
	states := []transferv1.State{completed, refused, refunded}
	reasons := []string{"", "INSUFFICIENT_FUNDS", "ACCOUNT_CLOSED"}
	for i, request := range requests {
		first := r.create(request)
		isState(t, first.GetTransfer(), states[i], reasons[i])
		atAccounts, atLedger := len(c.accounts.wire.log()), len(c.ledger.wire.log())
		for range 3 {
			again := r.create(request)
			if !again.GetReplayed() || !proto.Equal(again.GetTransfer(), first.GetTransfer()) {
				t.Errorf("%s: again %v, first %v", request.GetKey(), again, first)
			}
		}
		if len(c.accounts.wire.log()) != atAccounts || len(c.ledger.wire.log()) != atLedger {
			t.Errorf("%s: a participant was asked for a final transfer", request.GetKey())
		}
	}
	c.settles("refunded", saga.Refunded, "ACCOUNT_CLOSED")
	c.balances(deposited-10, 10)
}

type stateT = transferv1.State
