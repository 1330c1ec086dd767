package demo

import (
	"context"
	"fmt"
	"time"

	"giro/cmd/giro/render"
	"giro/internal/fault/wire"
	"giro/internal/stepkey"
	adminv1 "giro/proto/giro/admin/v1"
	participantv1 "giro/proto/giro/participant/v1"
	transferv1 "giro/proto/giro/transfer/v1"
)

// The scenes where the wire or the orchestrator breaks.

// requestBytesMin is less than any request takes on the wire, and more than what
// keeps a connection alive.
const requestBytesMin = 100

// lostAnswer: done, but the caller saw a broken connection.
func (s *stage) lostAnswer(ctx context.Context) error {
	r := request(alice, shop, 7_00)
	w := s.wires[ledgersvc]
	before := w.Lost(wire.Answers)
	w.Set(wire.Answers, wire.Lose)
	s.say("the wire from ledgersvc back to the orchestrator loses everything; transfer %s", dollars(r.Amount))
	client := s.createAside(ctx, r)
	err := until(ctx, "ledgersvc has applied the credit and its answer is lost", func() (bool, error) {
		credit, err := s.lookUp(ctx, r, stepkey.Credit)
		return outcome(credit) == "APPLIED" && w.Lost(wire.Answers) > before, err
	})
	if err != nil {
		return err
	}
	t, err := s.get(ctx, r)
	if err != nil {
		return err
	}
	s.say("ledgersvc says: credit APPLIED; the orchestrator does not know: %s; %d bytes of answers lost", render.State(t.GetState()), w.Lost(wire.Answers)-before)
	s.same("state before the wire heals", "PENDING", render.State(t.GetState()))
	w.Heal()
	s.say("the connection is cut and the wire heals; the orchestrator asks again with the same key")
	final := <-client
	if final.err != nil {
		return final.err
	}
	s.became(final.answer.GetTransfer(), transferv1.State_STATE_COMPLETED, "")
	saga, err := s.steps(ctx, r)
	if err != nil {
		return err
	}
	for _, step := range saga.GetSteps() {
		if step.GetName() == "credit" {
			s.holds("the credit was asked for more than once", step.GetAttempts() > 1, step.GetAttempts())
		}
	}
	if err := s.onceEach(ctx, r); err != nil {
		return err
	}
	return s.balances(ctx, expectation{alice, 548_00}, expectation{shop, 552_00})
}

// killedBetween: the orchestrator dies with the money in transit.
func (s *stage) killedBetween(ctx context.Context) error {
	r := request(alice, shop, 8_00)
	w := s.wires[ledgersvc]
	w.Set(wire.Requests, wire.Hold)
	s.say("the wire to ledgersvc holds what it gets; transfer %s", dollars(r.Amount))
	client := s.createAside(ctx, r)
	err := until(ctx, "the debit is applied and the credit is on the wire", func() (bool, error) {
		debit, err := s.lookUp(ctx, r, stepkey.Debit)
		return outcome(debit) == "APPLIED" && w.Held(wire.Requests) > requestBytesMin, err
	})
	if err != nil {
		return err
	}
	s.processes[orchestrator].kill()
	w.Cut()
	w.Heal()
	credit, err := s.lookUp(ctx, r, stepkey.Credit)
	if err != nil {
		return err
	}
	s.say("accountsvc says: debit APPLIED; the orchestrator is killed (SIGKILL), and what the wire held is lost")
	s.say("ledgersvc says: credit %s", outcome(credit))
	s.same("credit", "NOT_FOUND", outcome(credit))
	told := <-client
	s.say("its client was told: %s, so it does not know what became of the transfer", codeName(told.err))
	s.holds("the client's call broke", told.err != nil, told.answer)
	if err := s.balances(ctx, expectation{alice, 540_00}, expectation{shop, 552_00}); err != nil {
		return err
	}
	restarted := time.Now()
	if err := s.processes[orchestrator].start(ctx); err != nil {
		return err
	}
	s.say("the orchestrator is started again as process %d; nobody asks it for anything but how the transfer stands", s.processes[orchestrator].cmd.Process.Pid)
	t, err := s.untilFinal(ctx, r)
	if err != nil {
		return err
	}
	s.say("final %s after the start began", render.Since(time.Since(restarted)))
	s.became(t, transferv1.State_STATE_COMPLETED, "")
	saga, err := s.steps(ctx, r)
	if err != nil {
		return err
	}
	s.holds("the saga changed hands", saga.GetEpoch() > 1, saga.GetEpoch())
	return s.balances(ctx, expectation{alice, 540_00}, expectation{shop, 560_00})
}

// lateDebit: a debit that was lost on the wire turns up after its refund.
func (s *stage) lateDebit(ctx context.Context) error {
	before, err := s.balance(ctx, alice)
	if err != nil {
		return err
	}
	r := request(alice, shop, 9_00)
	w := s.wires[accountsvc]
	lost := w.Lost(wire.Requests)
	w.Set(wire.Requests, wire.Lose)
	s.say("the wire to accountsvc loses everything; transfer %s", dollars(r.Amount))
	client := s.createAside(ctx, r)
	err = until(ctx, "the debit is lost on the wire", func() (bool, error) {
		t, err := s.get(ctx, r)
		return render.State(t.GetState()) == "PENDING" && w.Lost(wire.Requests) > lost+requestBytesMin, err
	})
	if err != nil {
		return err
	}
	debit, err := s.lookUp(ctx, r, stepkey.Debit)
	if err != nil {
		return err
	}
	s.say("the debit was sent and lost (%d bytes); accountsvc says: debit %s", w.Lost(wire.Requests)-lost, outcome(debit))
	s.same("debit", "NOT_FOUND", outcome(debit))
	if err := s.cancelCutOff(ctx, r); err != nil {
		return err
	}
	w.Heal()
	s.say("the wire heals")
	final, err := s.untilFinal(ctx, r)
	if err != nil {
		return err
	}
	<-client // its answer, if it was OK, was kept
	s.became(final, transferv1.State_STATE_CANCELLED, "CANCEL_ASKED")
	if _, err := s.steps(ctx, r); err != nil {
		return err
	}
	participant, o := operation(r, stepkey.Debit)
	late, err := s.participants[participant].Debit(ctx, &participantv1.DebitRequest{Operation: o})
	if err != nil {
		return fmt.Errorf("deliver the late debit: %w", err)
	}
	s.say("now the late debit arrives at accountsvc, with its true key %s: %s, moved %s", late.GetAnswer().GetKey(),
		outcome(late.GetAnswer()), dollars(late.GetAnswer().GetAmountMoved()))
	s.same("late debit", "CANCELLED", outcome(late.GetAnswer()))
	s.same("moved", 0, late.GetAnswer().GetAmountMoved())
	return s.balances(ctx, expectation{alice, before})
}

// cancelCutOff cancels a transfer while accountsvc cannot be reached, and waits
// until the orchestrator has stopped its forward steps for good.
func (s *stage) cancelCutOff(ctx context.Context, r *transferv1.CreateTransferRequest) error {
	bounded, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	answer, err := s.transfers.CancelTransfer(bounded, &transferv1.CancelTransferRequest{Key: r.GetKey()})
	switch {
	case err == nil:
		s.answers.note(r, answer.GetTransfer())
		s.say("the client cancels, and is told: %s", render.State(answer.GetTransfer().GetState()))
	default:
		s.say("the client cancels, and is told: %s (ask again)", codeName(err))
	}
	var state adminv1.SagaState
	err = until(ctx, "the saga owes a refund", func() (bool, error) {
		answer, err := s.admin.GetSaga(ctx, &adminv1.GetSagaRequest{Key: r.GetKey()})
		state = answer.GetSaga().GetState()
		return state == adminv1.SagaState_SAGA_STATE_REFUNDING, err
	})
	if err != nil {
		return err
	}
	s.say("nobody knows whether the debit happened; so the orchestrator makes sure that the credit never will,")
	s.say("and then asks for a refund of whatever the debit took: %s", render.SagaState(state))
	return nil
}
