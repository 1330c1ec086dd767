package cases

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"giro/internal/rpc"
	"giro/orchestrator/saga"
	transferv1 "giro/proto/giro/transfer/v1"
)

// payAll is a batch of transfers of 1 from alice to merchant.
func payAll(prefix string, count int) []*creating {
	requests := make([]*creating, count)
	for i := range requests {
		requests[i] = pay(fmt.Sprintf("%s-%04d", prefix, i), 1)
	}
	return requests
}

type batchAnswer struct {
	results []*transferv1.BatchCreateTransfersResult
	err     error
}

// beginAll asks for a batch in the background.
func (r *replica) beginAll(wait time.Duration, requests []*creating) <-chan batchAnswer {
	answer := make(chan batchAnswer, 1)
	ctx := within(r.c.t, wait)
	go func() {
		response, err := r.transfers.BatchCreateTransfers(ctx, &transferv1.BatchCreateTransfersRequest{Transfers: requests})
		answer <- batchAnswer{response.GetResults(), err}
	}()
	return answer
}

// createAll asks for a batch and waits for it. There is one result for each request, of
// its key unless it is an error.
func (r *replica) createAll(requests []*creating) []*transferv1.BatchCreateTransfersResult {
	r.c.t.Helper()
	a := <-r.beginAll(patient, requests)
	if a.err != nil || len(a.results) != len(requests) {
		r.c.t.Fatalf("%d results for %d requests: %v", len(a.results), len(requests), a.err)
	}
	for i, result := range a.results {
		if result.GetCreated() != nil && result.GetCreated().GetTransfer().GetKey() != requests[i].GetKey() {
			r.c.t.Fatalf("result %d is of %s, want %s", i, result.GetCreated().GetTransfer().GetKey(), requests[i].GetKey())
		}
	}
	return a.results
}

func errorOf(result *transferv1.BatchCreateTransfersResult) error {
	return status.FromProto(result.GetError()).Err()
}

// TestBatchAnswersEachOnItsOwn: what is wrong with one item is that item's alone, and a
// key that stands twice is one transfer.
func TestBatchAnswersEachOnItsOwn(t *testing.T) {
	onTwo(t, func(t *testing.T, b backend) {
		c := newCluster(t, b)
		r := c.replica()
		before := pay("before", 10)
		before.Memo, before.Metadata = "as it was", pairs(3)
		r.create(before)
		changed := pay("before", 11)
		malformed := pay("malformed", 0)
		malformed.Source = "bank/alice"
		again := pay("twice", 30)
		again.Memo = "another memo"
		closed := pay("closed", 50)
		closed.Destination = "ledger/closed"
		c.openLedger("closed", "USD")
		c.closeLedger("closed")
		requests := []*creating{pay("new", 20), malformed, before, changed, pay("twice", 30), again, pay("twice", 31),
			pay("too-much", deposited+1), closed}
		results := r.createAll(requests)
		for i, want := range []struct {
			state    transferv1.State
			reason   string
			replayed bool
		}{{completed, "", false}, {}, {completed, "", true}, {}, {completed, "", false}, {completed, "", true}, {},
			{refused, "INSUFFICIENT_FUNDS", false}, {refunded, "ACCOUNT_CLOSED", false}} {
			got := results[i].GetCreated()
			if want.state == 0 {
				if got != nil {
					t.Errorf("%v was created: %v", requests[i], got)
				}
				continue
			}
			if err := errorOf(results[i]); err != nil {
				t.Fatalf("%s: %v", requests[i].GetKey(), err)
			}
			isState(t, got.GetTransfer(), want.state, want.reason)
			if got.GetReplayed() != want.replayed || !got.GetFirstTime().IsValid() {
				t.Errorf("%v of %v", got, requests[i])
			}
		}
		if got := named(errorOf(results[1])); got != "amount source" {
			t.Errorf("malformed: %q named, %v", got, errorOf(results[1]))
		}
		for _, i := range []int{3, 6} {
			if err := errorOf(results[i]); status.Code(err) != codes.AlreadyExists || !slices.Equal(rpc.DifferingFields(err), []string{"amount"}) {
				t.Errorf("other contents under %s: %v", requests[i].GetKey(), err)
			}
		}
		if got := r.get("before"); got.GetMemo() != "as it was" || len(got.GetMetadata()) != 3 {
			t.Errorf("the first request's: %v", got)
		}
		if c.state("malformed") != "" {
			t.Error("what is malformed was stored")
		}
		c.balances(deposited-10-20-30, 60)
	})
}

// TestBatchOfBadInput: every violation of every item is named, and nothing is left behind.
func TestBatchOfBadInput(t *testing.T) {
	c := newCluster(t, memory)
	r := c.replica()
	var requests []*creating
	var kinds []string
	for name, h := range hostile {
		request := pay("bad", 500)
		h.change(request)
		requests, kinds = append(requests, request), append(kinds, name)
	}
	for i, result := range r.createAll(requests) {
		if got, want := named(errorOf(result)), hostile[kinds[i]].fields; got != want {
			t.Errorf("%s: named %q, want %q: %v", kinds[i], got, want, errorOf(result))
		}
	}
	for _, size := range []int{0, 1001} {
		if a := <-r.beginAll(patient, payAll("many", size)); named(a.err) != "transfers" {
			t.Errorf("a batch of %d: %v", size, a.err)
		}
	}
	nothingLeft(t, c)
}

// TestC32BatchAgainAfterACrash: a batch (of 1,000, where that is fast) is half-way when its replica is killed.
// The same batch, sent again elsewhere, pays only the rest; and once more, nothing.
func TestC32BatchAgainAfterACrash(t *testing.T) {
	onTwo(t, func(t *testing.T, b backend) {
		c := newCluster(t, b)
		first := c.replica()
		count := int64(1000)
		if b.name != memory.name {
			count = 200
		}
		requests := payAll("line", int(count))
		answer := first.beginAll(patient, requests)
		eventually(t, "some are done", func() bool { return c.balance(merchant) >= count/5 })
		first.crash()
		if a := <-answer; a.err == nil {
			t.Log("it was done before it was killed")
		}
		second := c.replica()
		for _, result := range second.createAll(requests) {
			isState(t, result.GetCreated().GetTransfer(), completed, "")
		}
		c.balances(deposited-count, count)
		asked := c.accounts.wire.count(debit)
		for _, result := range second.createAll(requests) {
			if isState(t, result.GetCreated().GetTransfer(), completed, ""); !result.GetCreated().GetReplayed() {
				t.Fatalf("%v is called new", result)
			}
		}
		if c.accounts.wire.count(debit) != asked {
			t.Error("a repeated batch asked participants again")
		}
		c.balances(deposited-count, count)
	})
}

// TestBatchWhoseDeadlineIsNear answers with what is pending, which goes on by itself.
func TestBatchWhoseDeadlineIsNear(t *testing.T) {
	c := newCluster(t, memory)
	r := c.replica()
	heal := c.ledger.wire.on(credit, always, failed(codes.Unavailable))
	a := <-r.beginAll(700*time.Millisecond, append(payAll("waits", 50), pay("too-much", deposited+1)))
	if a.err != nil {
		t.Fatal(a.err)
	}
	for _, result := range a.results[:50] {
		isState(t, result.GetCreated().GetTransfer(), pending, "")
	}
	isState(t, a.results[50].GetCreated().GetTransfer(), refused, "INSUFFICIENT_FUNDS")
	heal()
	for i := range 50 {
		c.settles(fmt.Sprintf("waits-%04d", i), saga.Completed, "")
	}
	c.balances(deposited-50, 50)
}

// TestBatchOnTwoReplicasAtOnce: each key is new for one of them, and both hear the end.
func TestBatchOnTwoReplicasAtOnce(t *testing.T) {
	onTwo(t, func(t *testing.T, b backend) {
		c := newCluster(t, b)
		requests := payAll("both", 100)
		one, other := c.replica().beginAll(patient, requests), c.replica().beginAll(patient, requests)
		a, z := <-one, <-other
		if a.err != nil || z.err != nil {
			t.Fatal(a.err, z.err)
		}
		for i := range requests {
			x, y := a.results[i].GetCreated(), z.results[i].GetCreated()
			isState(t, x.GetTransfer(), completed, "")
			isState(t, y.GetTransfer(), completed, "")
			if x.GetReplayed() == y.GetReplayed() {
				t.Errorf("%s: new for both or for none", requests[i].GetKey())
			}
		}
		c.balances(deposited-100, 100)
	})
}

// TestBatchThatFindsNoRoom: all of it is refused, and nothing of it is stored.
func TestBatchThatFindsNoRoom(t *testing.T) {
	c := newCluster(t, memory)
	config := quick
	config.WaitersMax = 1
	r := c.replicaWith(config)
	r.life.sleep()
	var waiting []func() (*transferv1.CreateTransferResponse, error)
	for i := range 3 { // two are being stored, and one waits
		waiting = append(waiting, r.begin(pay(fmt.Sprint("waits", i), 1)))
	}
	var refused batchAnswer
	tries := 0
	eventually(t, "there is no room", func() bool {
		tries++
		refused = <-r.beginAll(50*time.Millisecond, payAll(fmt.Sprint("try", tries), 3))
		return rpc.Reason(refused.err) == rpc.ReasonOverloaded
	})
	if _, says := rpc.RetryAfter(refused.err); status.Code(refused.err) != codes.Unavailable || !says {
		t.Errorf("refused with %v", refused.err)
	}
	r.life.wake()
	done := int64(0)
	for _, wait := range waiting {
		answer, err := wait()
		if err == nil {
			done++
			isState(t, answer.GetTransfer(), completed, "")
		} else if rpc.Reason(err) != rpc.ReasonOverloaded {
			t.Error(err)
		}
	}
	eventually(t, "all that was taken on is done", func() bool { return c.balance(merchant) >= done })
	for _, request := range payAll(fmt.Sprint("try", tries), 3) {
		if state := c.state(request.GetKey()); state != "" {
			t.Errorf("%s was refused, and is stored as %s", request.GetKey(), state)
		}
	}
}
