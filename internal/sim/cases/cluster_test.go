package cases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"giro/accountsvc"
	"giro/internal/names"
	"giro/internal/participant"
	"giro/internal/retention"
	"giro/internal/rpc"
	"giro/internal/stepkey"
	"giro/ledgersvc"
	"giro/orchestrator"
	"giro/orchestrator/audit"
	"giro/orchestrator/runner"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
	accountv1 "giro/proto/giro/account/v1"
	adminv1 "giro/proto/giro/admin/v1"
	ledgerv1 "giro/proto/giro/ledger/v1"
	participantv1 "giro/proto/giro/participant/v1"
	transferv1 "giro/proto/giro/transfer/v1"
)

const (
	alice    = "accounts/alice"
	merchant = "ledger/merchant"
	// deposited is what alice begins with, minor units.
	deposited = 10_000
	// lease is how long a replica that is not heard of keeps its sagas.
	lease = 700 * time.Millisecond
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// cluster is two participants and a saga table, with replicas over it.
type cluster struct {
	t        *testing.T
	backend  backend
	accounts *party
	ledger   *party
	// sagas is the saga table itself, under the replicas' lives.
	sagas store.Store
	// running is how many sagas are expected not to be final at the end.
	running int64
	audited bool
	// retention is the replicas'.
	retention retention.Settings
	replicas  int
}

// party is one participant.
type party struct {
	name        names.Participant
	books       *books
	wire        *wire
	participant participantv1.ParticipantServiceClient
	account     accountv1.AccountServiceClient
	ledger      ledgerv1.LedgerServiceClient
}

// newCluster starts the participants, with alice (10,000 USD) and merchant (USD).
func newCluster(t *testing.T, b backend) *cluster {
	c := &cluster{t: t, backend: b, sagas: b.sagas(t)}
	c.accounts = c.party("accounts", func(e *participant.Engine) func(grpc.ServiceRegistrar) { return accountsvc.New(e).Register })
	c.ledger = c.party("ledger", func(e *participant.Engine) func(grpc.ServiceRegistrar) { return ledgersvc.New(e).Register })
	t.Cleanup(c.audit)
	c.open("alice", "USD", deposited)
	c.openLedger("merchant", "USD")
	return c
}

func (c *cluster) party(name names.Participant, service func(*participant.Engine) func(grpc.ServiceRegistrar)) *party {
	p := &party{name: name, books: &books{Store: c.backend.books(c.t)}}
	engine := participant.New(p.books, participant.Config{Name: name})
	c.t.Cleanup(engine.Close)
	connection := serve(c.t, service(engine))
	p.wire = &wire{inner: connection}
	p.participant = participantv1.NewParticipantServiceClient(connection)
	p.account = accountv1.NewAccountServiceClient(connection)
	p.ledger = ledgerv1.NewLedgerServiceClient(connection)
	return p
}

// serve puts services on a loopback port and connects to them.
func serve(t *testing.T, register func(grpc.ServiceRegistrar)) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer(rpc.ServerConfig{Logger: quiet, StopSecondsMax: 1})
	register(server)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	connection, err := rpc.Dial(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = connection.Close() // a crash may have closed it before
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return connection
}

// replica is one orchestrator's life.
type replica struct {
	c         *cluster
	name      string
	life      *life
	transfers transferv1.TransferServiceClient
	admin     adminv1.AdminServiceClient
	raw       *grpc.ClientConn
	own       *orchestrator.Orchestrator
}

// mortal is a replica's way to a participant: nothing goes out once it is dead.
type mortal struct {
	grpc.ClientConnInterface
	life *life
}

func (m mortal) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	m.life.mu.Lock()
	dead := m.life.dead
	m.life.mu.Unlock()
	if dead {
		return status.Error(codes.Unavailable, errDead.Error())
	}
	return m.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

var quick = runner.Config{
	CallTimeout: 400 * time.Millisecond,
	Settings: runner.Settings{BackoffMin: 5 * time.Millisecond, BackoffMax: 50 * time.Millisecond,
		Lease: lease, SweepEvery: 40 * time.Millisecond, AttentionAfter: 300 * time.Millisecond},
}

// replica starts an orchestrator over the cluster's saga table.
func (c *cluster) replica() *replica {
	c.t.Helper()
	return c.replicaWith(quick)
}

func (c *cluster) replicaWith(config runner.Config) *replica {
	c.t.Helper()
	c.replicas++
	r := &replica{c: c, name: fmt.Sprintf("replica-%d", c.replicas), life: &life{Store: c.sagas}}
	r.own = orchestrator.New(orchestrator.Config{Owner: r.name, Store: r.life, Runner: config, Retention: c.retention, Logger: quiet,
		Participants: map[names.Participant]grpc.ClientConnInterface{
			c.accounts.name: mortal{c.accounts.wire, r.life}, c.ledger.name: mortal{c.ledger.wire, r.life}}})
	if err := r.own.Start(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		ctx, end := context.WithTimeout(context.Background(), 2*time.Second)
		defer end()
		if r.life.alive() != nil {
			end() // nobody waits for the dead
		}
		r.own.Close(ctx)
	})
	r.raw = serve(c.t, r.own.Register)
	r.transfers, r.admin = transferv1.NewTransferServiceClient(r.raw), adminv1.NewAdminServiceClient(r.raw)
	return r
}

// crash ends a replica as SIGKILL does: nothing that it still does lands, and its
// clients lose their connection.
func (r *replica) crash() {
	r.life.kill()
	_ = r.raw.Close() // it fails only where it was closed before
}

// lose loses the saga table. Replicas must have crashed before.
func (c *cluster) lose() {
	c.sagas = c.backend.sagas(c.t)
	c.t.Cleanup(c.audit) // before the new table is closed
}

// within bounds a client's call.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, end := context.WithTimeout(context.Background(), d)
	t.Cleanup(end)
	return ctx
}

const patient = 20 * time.Second

// eventually waits until something holds, and fails the test if it does not.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patient); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("it never came about that %s", what)
		}
	}
}

// pay is a transfer from alice to merchant in USD.
func pay(key string, amount int64) *transferv1.CreateTransferRequest {
	return &transferv1.CreateTransferRequest{Key: key, Source: alice, Destination: merchant, Amount: amount, Currency: "USD"}
}

func contentsOf(r *transferv1.CreateTransferRequest) *transferv1.TransferContents {
	return &transferv1.TransferContents{Source: r.GetSource(), Destination: r.GetDestination(), Amount: r.GetAmount(), Currency: r.GetCurrency()}
}

// create asks for a transfer and waits for it.
func (r *replica) create(request *transferv1.CreateTransferRequest) *transferv1.CreateTransferResponse {
	r.c.t.Helper()
	response, err := r.transfers.CreateTransfer(within(r.c.t, patient), request)
	if err != nil {
		r.c.t.Fatalf("create %s: %v", request.GetKey(), err)
	}
	return response
}

// begin asks for a transfer in the background, and gives a function that waits
// for the answer, which may be an error.
func (r *replica) begin(request *transferv1.CreateTransferRequest) (answer func() (*transferv1.CreateTransferResponse, error)) {
	var response *transferv1.CreateTransferResponse
	var err error
	done := make(chan struct{})
	ctx := within(r.c.t, patient)
	go func() {
		defer close(done)
		response, err = r.transfers.CreateTransfer(ctx, request)
	}()
	return func() (*transferv1.CreateTransferResponse, error) {
		<-done
		return response, err
	}
}

func (r *replica) get(key string) *transferv1.Transfer {
	r.c.t.Helper()
	response, err := r.transfers.GetTransfer(within(r.c.t, patient), &transferv1.GetTransferRequest{Key: key})
	if err != nil {
		r.c.t.Fatalf("get %s: %v", key, err)
	}
	return response.GetTransfer()
}

func (r *replica) cancel(key string, contents *transferv1.TransferContents) *transferv1.Transfer {
	r.c.t.Helper()
	response, err := r.transfers.CancelTransfer(within(r.c.t, patient), &transferv1.CancelTransferRequest{Key: key, Contents: contents})
	if err != nil {
		r.c.t.Fatalf("cancel %s: %v", key, err)
	}
	return response.GetTransfer()
}

func (r *replica) saga(key string) *adminv1.Saga {
	r.c.t.Helper()
	response, err := r.admin.GetSaga(within(r.c.t, patient), &adminv1.GetSagaRequest{Key: key})
	if err != nil {
		r.c.t.Fatalf("saga %s: %v", key, err)
	}
	return response.GetSaga()
}

// stored reads a row under all replicas' feet.
func (c *cluster) stored(key string) saga.Saga {
	c.t.Helper()
	s, err := c.sagas.Lookup(c.t.Context(), sagaID("default", key))
	if err != nil {
		c.t.Fatalf("lookup %s: %v", key, err)
	}
	return s
}

// settles waits until a transfer is final, without asking any replica.
func (c *cluster) settles(key string, state saga.State, reason string) {
	c.t.Helper()
	var s saga.Saga
	eventually(c.t, key+" is final", func() bool { s = c.stored(key); return s.State.Final() })
	if s.State != state || s.Reason != reason {
		c.t.Fatalf("%s is %s (%s), want %s (%s)", key, s.State, s.Reason, state, reason)
	}
}

// state is where a saga stands in the table; empty if it is not there.
func (c *cluster) state(key string) saga.State {
	s, err := c.sagas.Lookup(context.Background(), sagaID("default", key))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		c.t.Error(err)
	}
	return s.State
}

func (c *cluster) open(account, currency string, amount int64) {
	c.t.Helper()
	ctx := within(c.t, patient)
	if _, err := c.accounts.account.OpenAccount(ctx, &accountv1.OpenAccountRequest{Key: "open-" + account, Account: account, Currency: currency}); err != nil {
		c.t.Fatal(err)
	}
	if amount > 0 {
		c.deposit("deposit-"+account, account, currency, amount)
	}
}

func (c *cluster) deposit(key, account, currency string, amount int64) {
	c.t.Helper()
	if _, err := c.accounts.account.Deposit(within(c.t, patient), &accountv1.DepositRequest{Key: key, Account: account,
		Currency: currency, Amount: amount, External: "bank"}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) openLedger(account, currency string) {
	c.t.Helper()
	if _, err := c.ledger.ledger.OpenAccount(within(c.t, patient),
		&ledgerv1.OpenAccountRequest{Key: "open-" + account, Account: account, Currency: currency}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) closeLedger(account string) {
	c.t.Helper()
	if _, err := c.ledger.ledger.Close(within(c.t, patient), &ledgerv1.CloseRequest{Key: "close-" + account, Account: account}); err != nil {
		c.t.Fatal(err)
	}
}

// balance asks accountsvc or ledgersvc, by the account's reference.
func (c *cluster) balance(ref string) int64 {
	c.t.Helper()
	ctx := within(c.t, patient)
	name, account, _ := strings.Cut(ref, "/")
	if name == string(c.accounts.name) {
		r, err := c.accounts.account.GetAccount(ctx, &accountv1.GetAccountRequest{Account: account})
		if err != nil {
			c.t.Fatal(err)
		}
		return r.GetAccount().GetBalance()
	}
	r, err := c.ledger.ledger.GetAccount(ctx, &ledgerv1.GetAccountRequest{Account: account})
	if err != nil {
		c.t.Fatal(err)
	}
	return r.GetAccount().GetBalance()
}

// balances fails unless alice and merchant hold these amounts.
func (c *cluster) balances(wantAlice, wantMerchant int64) {
	c.t.Helper()
	if a, m := c.balance(alice), c.balance(merchant); a != wantAlice || m != wantMerchant {
		c.t.Fatalf("alice has %d and merchant %d, want %d and %d", a, m, wantAlice, wantMerchant)
	}
}

// operations lists what a participant has stored for a transfer, its own
// operations left out, as STEP OUTCOME AMOUNT MOVED (LINES).
func (p *party) operations(t *testing.T, key string) string {
	t.Helper()
	var found []string
	request := &participantv1.ListOperationsRequest{PageSize: 1000}
	for {
		page, err := p.participant.ListOperations(within(t, patient), request)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.GetOperations() {
			if k := o.GetOperation().GetKind(); k == debit || k == credit || k == refund {
				if key == "" || o.GetOperation().GetTransferKey() == key {
					found = append(found, fmt.Sprintf("%s %s %d (%d)", o.GetOperation().GetStep(),
						strings.TrimPrefix(o.GetAnswer().GetOutcome().String(), "OUTCOME_"), o.GetAnswer().GetAmountMoved(), len(o.GetLines())))
				}
			}
		}
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			break
		}
	}
	return strings.Join(sorted(found), ", ")
}

// holds fails unless the participants have stored just this for a transfer.
func (c *cluster) holds(key, atAccounts, atLedger string) {
	c.t.Helper()
	if got := c.accounts.operations(c.t, key); got != atAccounts {
		c.t.Errorf("accounts holds for %q: %s; want %s", key, got, atAccounts)
	}
	if got := c.ledger.operations(c.t, key); got != atLedger {
		c.t.Errorf("ledger holds for %q: %s; want %s", key, got, atLedger)
	}
}

// operation is a step of a transfer of the default tenant, as any sender of
// messages could make it.
func operation(k kind, step string, r *transferv1.CreateTransferRequest) *participantv1.Operation {
	own, other := names.AccountRef(r.GetSource()), r.GetDestination()
	if step == stepkey.Credit {
		own, other = names.AccountRef(r.GetDestination()), r.GetSource()
	}
	o := &participantv1.Operation{Kind: k, Tenant: "default", TransferKey: r.GetKey(), Step: step,
		Key:     stepkey.Derive(stepkey.V1, "default", names.TransferKey(r.GetKey()), step).String(),
		Account: string(own.Account()), Amount: r.GetAmount(), Currency: r.GetCurrency(), Counterparty: other}
	if k == refund {
		o.DebitKey = stepkey.Derive(stepkey.V1, "default", names.TransferKey(r.GetKey()), stepkey.Debit).String()
	}
	return o
}

// apply asks a participant directly.
func (p *party) apply(t *testing.T, o *participantv1.Operation) *participantv1.Answer {
	t.Helper()
	r, err := p.participant.Apply(within(t, patient), &participantv1.ApplyRequest{Operations: []*participantv1.Operation{o}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.GetAnswers()) != 1 {
		t.Fatalf("%d answers to one operation", len(r.GetAnswers()))
	}
	return r.GetAnswers()[0]
}

// audit checks every invariant, once, when all is quiet.
func (c *cluster) audit() {
	if c.audited {
		return
	}
	c.audited = true
	report, err := audit.Run(context.Background(), audit.Config{Store: c.sagas,
		Participants: map[names.Participant]participantv1.ParticipantServiceClient{
			c.accounts.name: c.accounts.participant, c.ledger.name: c.ledger.participant}})
	if err != nil {
		c.t.Error(err)
		return
	}
	for _, check := range report.Checks {
		for _, f := range check.Findings {
			c.t.Errorf("audit: invariant %d: %s", check.Number, f)
		}
	}
	if !report.OK || report.Moved || report.Pending != c.running {
		c.t.Errorf("audit: ok %v, moved %v, %d running, want %d", report.OK, report.Moved, report.Pending, c.running)
	}
}
