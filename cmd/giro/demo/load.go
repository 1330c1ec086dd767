package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"google.golang.org/grpc/status"

	"giro/cmd/giro/render"
	"giro/internal/rpc"
	accountv1 "giro/proto/giro/account/v1"
	ledgerv1 "giro/proto/giro/ledger/v1"
	participantv1 "giro/proto/giro/participant/v1"
	transferv1 "giro/proto/giro/transfer/v1"
)

// The scenes with many transfers.

const (
	clientsMany   = 16
	transfersMany = 500
	customersMany = 10
	askAgainAfter = 50 * time.Millisecond
	attemptLimit  = time.Second
)

// killedUnderLoad: a participant dies in the middle of everything.
func (s *stage) killedUnderLoad(ctx context.Context) error {
	requests, expected, err := s.manyRequests(ctx)
	if err != nil {
		return err
	}
	s.say("%d clients ask for %d transfers of %s, both ways between %d customers and ledgersvc/till", clientsMany, transfersMany, dollars(1_00), customersMany)
	var final atomic.Int64
	third := make(chan struct{})
	began := time.Now()
	var again atomic.Int64
	finished := make(chan error, 1)
	go func() {
		finished <- s.askAll(ctx, requests, &again, func() {
			if final.Add(1) == transfersMany/3 {
				close(third)
			}
		})
	}()
	select {
	case <-third:
	case err := <-finished:
		return err
	}
	s.processes[accountsvc].kill()
	killedAt := final.Load()
	if err := s.processes[accountsvc].start(ctx); err != nil {
		return err
	}
	s.say("accountsvc is killed (SIGKILL) after %d of them and started again as process %d", killedAt, s.processes[accountsvc].cmd.Process.Pid)
	if err := <-finished; err != nil {
		return err
	}
	s.say("all are final after %s; %d times a client had no final answer and asked again with the same key", render.Since(time.Since(began)), again.Load())
	s.holds("it was killed in the middle", killedAt < transfersMany, killedAt)
	completed := 0
	for _, r := range requests {
		t, err := s.get(ctx, r)
		if err != nil {
			return err
		}
		if t.GetState() == transferv1.State_STATE_COMPLETED {
			completed++
		}
	}
	s.say("%d of %d are COMPLETED", completed, len(requests))
	s.same("COMPLETED", len(requests), completed)
	return s.manyBalances(ctx, expected)
}

// manyBalances checks every account, and writes the till's balance and the
// customers' together.
func (s *stage) manyBalances(ctx context.Context, expected []expectation) error {
	var customers int64
	for _, e := range expected[1:] {
		came, err := s.balance(ctx, e.ref)
		if err != nil {
			return fmt.Errorf("balance of %s: %w", e.ref, err)
		}
		s.same("balance of "+e.ref, dollars(e.cents), dollars(came))
		customers += came
	}
	s.say("balances: the %d customers together %s", len(expected)-1, dollars(customers))
	return s.balances(ctx, expected[0])
}

// manyRequests opens accounts and draws the keys: four of five transfers go to
// the till, one of five comes from it.
func (s *stage) manyRequests(ctx context.Context) ([]*transferv1.CreateTransferRequest, []expectation, error) {
	const till = "ledgersvc/till"
	if err := s.account(ctx, till); err != nil {
		return nil, nil, err
	}
	fund := request(alice, till, 200_00)
	if _, err := s.create(ctx, fund); err != nil {
		return nil, nil, err
	}
	expected := []expectation{{till, 200_00}}
	for i := range customersMany {
		name := fmt.Sprintf("customer-%02d", i)
		if err := s.account(ctx, accountsvc+"/"+name); err != nil {
			return nil, nil, err
		}
		if err := s.deposit(ctx, name, 100_00); err != nil {
			return nil, nil, err
		}
		expected = append(expected, expectation{accountsvc + "/" + name, 100_00})
	}
	var requests []*transferv1.CreateTransferRequest
	for i := range transfersMany {
		customer := &expected[1+i%customersMany]
		if i%5 == 4 {
			requests = append(requests, request(till, customer.ref, 1_00))
			expected[0].cents -= 1_00
			customer.cents += 1_00
		} else {
			requests = append(requests, request(customer.ref, till, 1_00))
			expected[0].cents += 1_00
			customer.cents -= 1_00
		}
	}
	return requests, expected, nil
}

// askAll has the clients ask for every transfer, each with the same key until it
// is final. again counts the answers that were none; final is called once for
// each transfer.
func (s *stage) askAll(ctx context.Context, requests []*transferv1.CreateTransferRequest, again *atomic.Int64, final func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var clients sync.WaitGroup
	for range clientsMany {
		clients.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(requests) {
					return
				}
				if err := s.askUntilFinal(ctx, requests[i], again); err != nil {
					cancel(err)
					return
				}
				final()
			}
		})
	}
	clients.Wait()
	return context.Cause(ctx)
}

func (s *stage) askUntilFinal(ctx context.Context, r *transferv1.CreateTransferRequest, again *atomic.Int64) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, attemptLimit)
		answer, err := s.create(attempt, r)
		cancel()
		if err == nil && render.Final(answer.GetTransfer().GetState()) {
			return nil
		}
		again.Add(1)
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not final: %w", r.GetKey(), errors.Join(err, context.Cause(ctx)))
		case <-time.After(askAgainAfter):
		}
	}
}

// lostDatabase: all that the orchestrator knew is gone, and the clients retry.
func (s *stage) lostDatabase(ctx context.Context) error {
	operationsBefore, booksBefore, err := s.books(ctx)
	if err != nil {
		return err
	}
	before := s.answers.list()
	s.processes[orchestrator].stop()
	if err := s.databases.lose(ctx, orchestrator); err != nil {
		return fmt.Errorf("delete the orchestrator's database: %w", err)
	}
	if err := s.processes[orchestrator].start(ctx); err != nil {
		return err
	}
	s.say("the orchestrator is stopped, its database deleted, and it is started on an empty one as process %d", s.processes[orchestrator].cmd.Process.Pid)
	first := before[0].request
	if _, err := s.transfers.GetTransfer(ctx, &transferv1.GetTransferRequest{Key: first.GetKey()}); err == nil {
		s.same("the orchestrator's memory of "+first.GetKey(), "none", "known")
	} else {
		s.say("it is asked for scene a's transfer and does not know it: %s", errText(err))
	}
	requests := make([]*transferv1.CreateTransferRequest, 0, len(before))
	for _, a := range before {
		requests = append(requests, a.request)
	}
	var again atomic.Int64
	began := time.Now()
	if err := s.askAll(ctx, requests, &again, func() {}); err != nil {
		return err
	}
	s.say("every client retries its keys with the same contents, the cancelled one too: %d keys, %s", len(requests), render.Since(time.Since(began)))
	wrong := 0
	for _, a := range s.answers.list() {
		if a.contradiction != "" {
			s.say("%s", a.contradiction)
			wrong++
		}
	}
	s.say("%d of %d got the answer that they had before", len(requests)-wrong, len(requests))
	s.same("other answers than before", 0, wrong)
	operationsAfter, booksAfter, err := s.books(ctx)
	if err != nil {
		return err
	}
	s.say("operations in both books: %d before, %d after; no balance moved", operationsBefore, operationsAfter)
	s.same("operations in the books", operationsBefore, operationsAfter)
	s.same("balances", booksBefore, booksAfter)
	return nil
}

// books gives how many operations both participants have, and every balance.
func (s *stage) books(ctx context.Context) (operations int64, balances string, err error) {
	for _, service := range []string{accountsvc, ledgersvc} {
		sums, err := s.participants[service].Sums(ctx, &participantv1.SumsRequest{})
		if err != nil {
			return 0, "", err
		}
		operations += sums.GetOperationCount()
	}
	customers, err := s.customerBalances(ctx)
	if err != nil {
		return 0, "", err
	}
	ledger, err := s.ledgerBalances(ctx)
	return operations, customers + ledger, err
}

func (s *stage) customerBalances(ctx context.Context) (string, error) {
	all, token := "", ""
	for {
		page, err := s.customers.ListAccounts(ctx, &accountv1.ListAccountsRequest{PageToken: token})
		if err != nil {
			return "", err
		}
		for _, a := range page.GetAccounts() {
			all += a.GetAccount() + " " + dollars(a.GetBalance()) + "\n"
		}
		if token = page.GetNextPageToken(); token == "" {
			return all, nil
		}
	}
}

func (s *stage) ledgerBalances(ctx context.Context) (string, error) {
	trial, err := s.ledger.TrialBalance(ctx, &ledgerv1.TrialBalanceRequest{})
	if err != nil {
		return "", err
	}
	all := ""
	for _, row := range trial.GetRows() {
		all += row.GetAccount() + " " + row.GetCurrency() + " " + row.GetDebit() + " " + row.GetCredit() + "\n"
	}
	return all, nil
}

// errText is an error as a client would show it.
func errText(err error) string {
	return codeName(err) + ", " + rpc.Reason(err)
}

// codeName is an error's gRPC code as the API's documents write it.
func codeName(err error) string {
	name := status.Code(err).String()
	var b strings.Builder
	for i, c := range name {
		if i > 0 && unicode.IsUpper(c) && name != "OK" {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(c))
	}
	return b.String()
}
