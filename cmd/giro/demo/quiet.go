package demo

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"giro/cmd/giro/render"
	"giro/internal/rpc"
	ledgerv1 "giro/proto/giro/ledger/v1"
	transferv1 "giro/proto/giro/transfer/v1"
)

// The scenes where nothing breaks but a client's habits.

const (
	alice = "accountsvc/alice"
	shop  = "ledgersvc/shop"
)

// lesson is the lesson's example, between two services.
func (s *stage) lesson(ctx context.Context) error {
	for _, ref := range []string{alice, shop} {
		if err := s.account(ctx, ref); err != nil {
			return err
		}
	}
	if err := s.deposit(ctx, "alice", 100_00); err != nil {
		return err
	}
	if err := s.balances(ctx, expectation{alice, 100_00}, expectation{shop, 0}); err != nil {
		return err
	}
	r := request(alice, shop, 40_00)
	s.say("transfer %s from %s to %s", dollars(r.Amount), alice, shop)
	first, err := s.create(ctx, r)
	if err != nil {
		return err
	}
	s.became(first.GetTransfer(), transferv1.State_STATE_COMPLETED, "")
	s.same("replayed", false, first.GetReplayed())
	if _, err := s.steps(ctx, r); err != nil {
		return err
	}
	again, err := s.create(ctx, r)
	if err != nil {
		return err
	}
	s.say("the same key again: %s, replayed, first accepted %s", render.State(again.GetTransfer().GetState()), render.Instant(again.GetFirstTime()))
	s.same("replayed", true, again.GetReplayed())
	s.same("state", "COMPLETED", render.State(again.GetTransfer().GetState()))
	s.same("first accepted", render.Instant(first.GetFirstTime()), render.Instant(again.GetFirstTime()))

	other := proto.CloneOf(r)
	other.Amount = 99_99
	_, err = s.transfers.CreateTransfer(ctx, other)
	s.say("the same key with %s: %s, %s, differs in: %s", dollars(other.Amount), codeName(err), rpc.Reason(err), strings.Join(rpc.DifferingFields(err), ", "))
	s.same("code", "ALREADY_EXISTS", codeName(err))
	s.same("reason", "TRANSFER_KEY_REUSED", rpc.Reason(err))
	s.same("differing fields", "[amount]", rpc.DifferingFields(err))
	return s.balances(ctx, expectation{alice, 60_00}, expectation{shop, 40_00})
}

// tenAtOnce is the lesson's exercise, on connections of their own.
func (s *stage) tenAtOnce(ctx context.Context) error {
	const callers = 10
	r := request(alice, shop, 5_00)
	s.say("%d callers, each on a connection of its own: transfer %s under one key", callers, dollars(r.Amount))
	results := make([]result, callers)
	gate := make(chan struct{})
	var calls sync.WaitGroup
	for i := range results {
		conn, err := dial(s.processes[orchestrator].address)
		if err != nil {
			return err
		}
		defer conn.Close()
		calls.Go(func() {
			<-gate
			results[i].answer, results[i].err = transferv1.NewTransferServiceClient(conn).CreateTransfer(ctx, r)
		})
	}
	close(gate)
	calls.Wait()
	states, replayed := map[string]int{}, 0
	for _, one := range results {
		if one.err != nil {
			return one.err
		}
		s.answers.note(r, one.answer.GetTransfer())
		states[render.State(one.answer.GetTransfer().GetState())]++
		if one.answer.GetReplayed() {
			replayed++
		}
	}
	s.say("%s: %d answers COMPLETED, %d of them replays", r.GetKey(), states["COMPLETED"], replayed)
	s.same("answers COMPLETED", callers, states["COMPLETED"])
	s.same("replays", callers-1, replayed)
	if _, err := s.steps(ctx, r); err != nil {
		return err
	}
	if err := s.onceEach(ctx, r); err != nil {
		return err
	}
	return s.balances(ctx, expectation{alice, 55_00}, expectation{shop, 45_00})
}

// onceEach checks in the participants' full lists that a transfer has one debit
// and one credit.
func (s *stage) onceEach(ctx context.Context, r *transferv1.CreateTransferRequest) error {
	debits, err := s.applied(ctx, accountsvc, r.GetKey())
	if err != nil {
		return err
	}
	credits, err := s.applied(ctx, ledgersvc, r.GetKey())
	if err != nil {
		return err
	}
	s.say("applied in the books: %d debit, %d credit", debits, credits)
	s.same("debits", 1, debits)
	s.same("credits", 1, credits)
	return nil
}

// tooLittle shows that a refusal is an outcome, and stands.
func (s *stage) tooLittle(ctx context.Context) error {
	r := request(alice, shop, 500_00)
	s.say("transfer %s from %s", dollars(r.Amount), alice)
	first, err := s.create(ctx, r)
	if err != nil {
		return err
	}
	s.became(first.GetTransfer(), transferv1.State_STATE_REFUSED, "INSUFFICIENT_FUNDS")
	if _, err := s.steps(ctx, r); err != nil {
		return err
	}
	if err := s.deposit(ctx, "alice", 1000_00); err != nil {
		return err
	}
	again, err := s.create(ctx, r)
	if err != nil {
		return err
	}
	s.say("after a top-up of %s, the same key again: %s, %s, replayed", dollars(1000_00), render.State(again.GetTransfer().GetState()), again.GetTransfer().GetReason())
	s.same("state", "REFUSED", render.State(again.GetTransfer().GetState()))
	s.same("replayed", true, again.GetReplayed())
	if err := s.balances(ctx, expectation{alice, 1055_00}, expectation{shop, 45_00}); err != nil {
		return err
	}
	fresh := request(alice, shop, 500_00)
	s.say("a new attempt takes a new key")
	answer, err := s.create(ctx, fresh)
	if err != nil {
		return err
	}
	s.became(answer.GetTransfer(), transferv1.State_STATE_COMPLETED, "")
	return s.balances(ctx, expectation{alice, 555_00}, expectation{shop, 545_00})
}

// closedDestination is the compensation.
func (s *stage) closedDestination(ctx context.Context) error {
	const gone = "ledgersvc/old-shop"
	if err := s.account(ctx, gone); err != nil {
		return err
	}
	if _, err := s.ledger.Close(ctx, &ledgerv1.CloseRequest{Key: "close-old-shop", Account: "old-shop"}); err != nil {
		return fmt.Errorf("close %s: %w", gone, err)
	}
	r := request(alice, gone, 20_00)
	s.say("transfer %s from %s to %s, which is closed", dollars(r.Amount), alice, gone)
	answer, err := s.create(ctx, r)
	if err != nil {
		return err
	}
	s.became(answer.GetTransfer(), transferv1.State_STATE_REFUNDED, "ACCOUNT_CLOSED")
	saga, err := s.steps(ctx, r)
	if err != nil {
		return err
	}
	var names []string
	for _, step := range saga.GetSteps() {
		names = append(names, step.GetName()+" "+step.GetAnswer())
	}
	s.same("steps", "debit APPLIED, credit REFUSED, refund APPLIED", strings.Join(names, ", "))
	s.kept = r.GetKey()
	return s.balances(ctx, expectation{alice, 555_00}, expectation{gone, 0})
}
