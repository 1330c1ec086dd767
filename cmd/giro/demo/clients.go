package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"giro/cmd/giro/render"
	"giro/internal/names"
	"giro/internal/stepkey"
	accountv1 "giro/proto/giro/account/v1"
	adminv1 "giro/proto/giro/admin/v1"
	ledgerv1 "giro/proto/giro/ledger/v1"
	participantv1 "giro/proto/giro/participant/v1"
	transferv1 "giro/proto/giro/transfer/v1"
)

// newKey draws a transfer key: a UUIDv7.
func newKey() string { return uuid.Must(uuid.NewV7()).String() }

// dollars is an amount in minor units, for tables of the story.
func dollars(minor int64) string { return render.Amount(minor, currency) }

// request is a transfer that a client intends, under a new key.
func request(source, destination string, cents int64) *transferv1.CreateTransferRequest {
	return &transferv1.CreateTransferRequest{Key: newKey(), Source: source, Destination: destination, Amount: cents, Currency: currency}
}

// create asks for a transfer and keeps the answer, if it is OK, for the end.
func (s *stage) create(ctx context.Context, r *transferv1.CreateTransferRequest) (*transferv1.CreateTransferResponse, error) {
	answer, err := s.transfers.CreateTransfer(ctx, r)
	if err == nil {
		s.answers.note(r, answer.GetTransfer())
	}
	return answer, err
}

// get asks what became of a transfer and keeps the answer for the end.
func (s *stage) get(ctx context.Context, r *transferv1.CreateTransferRequest) (*transferv1.Transfer, error) {
	answer, err := s.transfers.GetTransfer(ctx, &transferv1.GetTransferRequest{Key: r.GetKey()})
	if err != nil {
		return nil, err
	}
	s.answers.note(r, answer.GetTransfer())
	return answer.GetTransfer(), nil
}

// untilFinal asks again, by the key alone, until the transfer is final.
func (s *stage) untilFinal(ctx context.Context, r *transferv1.CreateTransferRequest) (t *transferv1.Transfer, err error) {
	err = until(ctx, "the transfer is final", func() (bool, error) {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		var failed error
		t, failed = s.get(attempt, r)
		return failed == nil && render.Final(t.GetState()), failed
	})
	return t, err
}

// result is what a client on another goroutine was answered.
type result struct {
	answer *transferv1.CreateTransferResponse
	err    error
}

// createAside asks for a transfer on another goroutine.
func (s *stage) createAside(ctx context.Context, r *transferv1.CreateTransferRequest) <-chan result {
	done := make(chan result, 1)
	go func() {
		answer, err := s.create(ctx, r)
		done <- result{answer, err}
	}()
	return done
}

// account opens an account, once.
func (s *stage) account(ctx context.Context, ref string) error {
	r := names.AccountRef(ref)
	if r.Participant() == ledgersvc {
		_, err := s.ledger.OpenAccount(ctx, &ledgerv1.OpenAccountRequest{Key: "open-" + string(r.Account()), Account: string(r.Account()), Currency: currency})
		return err
	}
	_, err := s.customers.OpenAccount(ctx, &accountv1.OpenAccountRequest{Key: "open-" + string(r.Account()), Account: string(r.Account()), Currency: currency})
	return err
}

// deposit brings money in from outside, to an account at accountsvc.
func (s *stage) deposit(ctx context.Context, account string, cents int64) error {
	_, err := s.customers.Deposit(ctx, &accountv1.DepositRequest{Key: newKey(), Account: account, Amount: cents, Currency: currency, External: "bank"})
	return err
}

// balance is what the service itself says, in minor units.
func (s *stage) balance(ctx context.Context, ref string) (int64, error) {
	r := names.AccountRef(ref)
	if r.Participant() == ledgersvc {
		answer, err := s.ledger.GetAccount(ctx, &ledgerv1.GetAccountRequest{Account: string(r.Account())})
		return answer.GetAccount().GetBalance(), err
	}
	answer, err := s.customers.GetAccount(ctx, &accountv1.GetAccountRequest{Account: string(r.Account())})
	return answer.GetAccount().GetBalance(), err
}

// balances reads accounts back from their services, writes them, and checks each
// against what it must be.
func (s *stage) balances(ctx context.Context, expected ...expectation) error {
	var parts []string
	came := make([]int64, len(expected))
	for i, e := range expected {
		var err error
		if came[i], err = s.balance(ctx, e.ref); err != nil {
			return fmt.Errorf("balance of %s: %w", e.ref, err)
		}
		parts = append(parts, e.ref+" "+dollars(came[i]))
	}
	s.say("balances: %s", strings.Join(parts, ", "))
	for i, e := range expected {
		s.same("balance of "+e.ref, dollars(e.cents), dollars(came[i]))
	}
	return nil
}

type expectation struct {
	ref   string
	cents int64
}

// became writes and checks what became of a transfer.
func (s *stage) became(t *transferv1.Transfer, state transferv1.State, reason string) {
	text := render.State(t.GetState())
	if t.GetReason() != "" {
		text += ", " + t.GetReason()
	}
	s.say("%s: %s (%s)", t.GetKey(), text, render.Became(t))
	s.same("state", render.State(state), render.State(t.GetState()))
	s.same("reason", reason, t.GetReason())
}

// lookUp asks a participant directly for the stored outcome of a step.
func (s *stage) lookUp(ctx context.Context, r *transferv1.CreateTransferRequest, step string) (*participantv1.Answer, error) {
	participant, o := operation(r, step)
	answer, err := s.participants[participant].GetOperation(ctx, &participantv1.GetOperationRequest{Operation: o})
	return answer.GetAnswer(), err
}

func outcome(a *participantv1.Answer) string {
	return strings.TrimPrefix(a.GetOutcome().String(), "OUTCOME_")
}

// steps writes the saga's steps and checks each against its key's derivation and
// against the participant's own row.
func (s *stage) steps(ctx context.Context, r *transferv1.CreateTransferRequest) (*adminv1.Saga, error) {
	answer, err := s.admin.GetSaga(ctx, &adminv1.GetSagaRequest{Key: r.GetKey()})
	if err != nil {
		return nil, err
	}
	saga := answer.GetSaga()
	s.block(func(w io.Writer) {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, step := range saga.GetSteps() {
			// An attempt that died with its process is on no record.
			times := "1 attempt on record"
			if step.GetAttempts() != 1 {
				times = fmt.Sprintf("%d attempts on record", step.GetAttempts())
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", step.GetName(), step.GetKey(), times, render.Answer(step, currency))
		}
		_ = table.Flush()
	})
	for _, step := range saga.GetSteps() {
		name := step.GetName()
		if name == "cancel" {
			name = stepkey.Credit // a cancel asks for the credit's key
		}
		participant, o := operation(r, name)
		s.same("key of "+step.GetName(), o.GetKey(), step.GetKey())
		stored, err := s.participants[participant].GetOperation(ctx, &participantv1.GetOperationRequest{Operation: o})
		if err != nil {
			return nil, err
		}
		if step.GetAnswer() != "" {
			s.same(participant+"'s own row of "+name, step.GetAnswer(), outcome(stored.GetAnswer()))
		}
	}
	return saga, nil
}

// applied counts a transfer's APPLIED operations at a participant, read from the
// full list of its operations.
func (s *stage) applied(ctx context.Context, participant, key string) (int, error) {
	count, token := 0, ""
	for {
		page, err := s.participants[participant].ListOperations(ctx, &participantv1.ListOperationsRequest{Tenant: string(tenant), PageSize: 1000, PageToken: token})
		if err != nil {
			return 0, err
		}
		for _, o := range page.GetOperations() {
			if o.GetOperation().GetTransferKey() == key && o.GetAnswer().GetOutcome() == participantv1.Outcome_OUTCOME_APPLIED {
				count++
			}
		}
		if token = page.GetNextPageToken(); token == "" {
			return count, nil
		}
	}
}
