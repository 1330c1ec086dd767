package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"giro/internal/fault/wire"
	"giro/internal/names"
	"giro/internal/rpc"
	"giro/internal/stepkey"
	accountv1 "giro/proto/giro/account/v1"
	adminv1 "giro/proto/giro/admin/v1"
	ledgerv1 "giro/proto/giro/ledger/v1"
	participantv1 "giro/proto/giro/participant/v1"
	transferv1 "giro/proto/giro/transfer/v1"
)

// The services' names.
const (
	orchestrator = "orchestrator"
	accountsvc   = "accountsvc"
	ledgersvc    = "ledgersvc"
)

const (
	tenant   = rpc.DefaultTenant
	currency = "USD"
)

// stage holds what the story is played on: three processes, the wires from the
// orchestrator to the participants, and clients that speak to each directly.
type stage struct {
	*script
	dir       string
	databases databases
	processes map[string]*process
	wires     map[string]*wire.Proxy
	conns     map[string]*grpc.ClientConn

	transfers    transferv1.TransferServiceClient
	admin        adminv1.AdminServiceClient
	customers    accountv1.AccountServiceClient
	ledger       ledgerv1.LedgerServiceClient
	participants map[string]participantv1.ParticipantServiceClient

	answers *answers
	// kept is a key worth looking at afterwards.
	kept string
}

// setUp starts everything. What was started is ended by takeDown, also after an
// error.
func (s *stage) setUp(ctx context.Context, o Options) error {
	var err error
	if s.dir, err = os.MkdirTemp("", "giro-demo-"); err != nil {
		return err
	}
	if s.databases, err = openDatabases(ctx, o, s.dir); err != nil {
		return err
	}
	s.processes, s.wires, s.conns = map[string]*process{}, map[string]*wire.Proxy{}, map[string]*grpc.ClientConn{}
	for _, service := range []string{accountsvc, ledgersvc, orchestrator} {
		if err := s.add(ctx, o.Executable, service); err != nil {
			return err
		}
	}
	s.transfers = transferv1.NewTransferServiceClient(s.conns[orchestrator])
	s.admin = adminv1.NewAdminServiceClient(s.conns[orchestrator])
	s.customers = accountv1.NewAccountServiceClient(s.conns[accountsvc])
	s.ledger = ledgerv1.NewLedgerServiceClient(s.conns[ledgersvc])
	s.participants = map[string]participantv1.ParticipantServiceClient{
		accountsvc: participantv1.NewParticipantServiceClient(s.conns[accountsvc]),
		ledgersvc:  participantv1.NewParticipantServiceClient(s.conns[ledgersvc]),
	}
	return nil
}

// add starts one service, and the wire to it if it is a participant.
func (s *stage) add(ctx context.Context, executable, service string) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	args := []string{"serve", service, "--listen", address, "--migrate"}
	if service == orchestrator {
		args = append(args,
			"--participant", accountsvc+"="+s.wires[accountsvc].Address(),
			"--participant", ledgersvc+"="+s.wires[ledgersvc].Address(),
			"--lease", "2s", "--call-timeout", "1s", "--retry-min", "50ms", "--retry-max", "500ms")
	} else if s.wires[service], err = wire.Listen("127.0.0.1:0", address); err != nil {
		return err
	}
	p := &process{name: service, executable: executable, args: args, address: address, logFile: filepath.Join(s.dir, service+".log"),
		secrets: []string{"GIRO_DATABASE_URL=" + s.databases.url(service)}}
	s.processes[service] = p
	if err := p.start(ctx); err != nil {
		return err
	}
	s.conns[service], err = dial(address)
	return err
}

// dial makes a client's connection.
func dial(address string) (*grpc.ClientConn, error) {
	return rpc.Dial(address, rpc.WithPrincipal(tenant, "demo"))
}

// takeDown ends the processes and gives everything back, unless it is to be kept.
func (s *stage) takeDown(keep bool) error {
	var errs []error
	for _, c := range s.conns {
		errs = append(errs, c.Close())
	}
	// The orchestrator first: it goes on with what is under way.
	for _, service := range []string{orchestrator, accountsvc, ledgersvc} {
		if p := s.processes[service]; p != nil {
			p.stop()
		}
	}
	for _, w := range s.wires {
		errs = append(errs, w.Close())
	}
	if s.databases != nil {
		errs = append(errs, s.databases.close(keep))
	}
	if s.dir != "" && !keep {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// restore puts the stage in order after a scene that could not go on: wires
// healed, processes up.
func (s *stage) restore(ctx context.Context) error {
	for _, w := range s.wires {
		w.Cut()
		w.Heal()
	}
	for _, service := range []string{accountsvc, ledgersvc, orchestrator} {
		if !s.processes[service].running() {
			if err := s.processes[service].start(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// fallen writes the end of the log of every process that should be running and
// is not.
func (s *stage) fallen() {
	for _, service := range []string{orchestrator, accountsvc, ledgersvc} {
		if p := s.processes[service]; p != nil && p.done != nil && !p.running() {
			s.say("%s is down; its log ends with:\n%s", service, p.tail())
		}
	}
}

// until asks again and again until it is so, or the context ends.
func until(ctx context.Context, what string, ask func() (bool, error)) error {
	var last error
	for {
		so, err := ask()
		if so && err == nil {
			return nil
		}
		last = err
		select {
		case <-ctx.Done():
			if last != nil {
				return fmt.Errorf("waiting until %s: %w", what, last)
			}
			return fmt.Errorf("waiting until %s: it did not come to be", what)
		case <-time.After(pollEvery):
		}
	}
}

// operation is a step of a transfer as its participant is asked for it, with the
// true step key.
func operation(r *transferv1.CreateTransferRequest, step string) (participant string, o *participantv1.Operation) {
	source, destination := names.AccountRef(r.GetSource()), names.AccountRef(r.GetDestination())
	key := func(step string) string {
		return stepkey.Derive(stepkey.V1, tenant, names.TransferKey(r.GetKey()), step).String()
	}
	o = &participantv1.Operation{
		Tenant: string(tenant), TransferKey: r.GetKey(), Step: step, Key: key(step),
		Amount: r.GetAmount(), Currency: r.GetCurrency(),
	}
	own, other := source, destination
	switch step {
	case stepkey.Debit:
		o.Kind = participantv1.OperationKind_OPERATION_KIND_DEBIT
	case stepkey.Refund:
		o.Kind, o.DebitKey = participantv1.OperationKind_OPERATION_KIND_REFUND, key(stepkey.Debit)
	case stepkey.Credit:
		o.Kind = participantv1.OperationKind_OPERATION_KIND_CREDIT
		own, other = destination, source
	}
	o.Account, o.Counterparty = string(own.Account()), string(other)
	return string(own.Participant()), o
}
