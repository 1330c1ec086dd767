// Command participant is a whole participant to start your own from: it keeps
// every rule of docs/participants.md, in memory and one SQLite file. It serves the setup
// calls of the conformance suite too, as the only way to open an account here, so
// it listens on loopback alone.
package main

import (
	"cmp"
	"flag"
	"log"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setup "giro/proto/giro/conformance/v1"
	pb "giro/proto/giro/participant/v1"
)

const (
	debit, credit, refund = pb.OperationKind_OPERATION_KIND_DEBIT, pb.OperationKind_OPERATION_KIND_CREDIT, pb.OperationKind_OPERATION_KIND_REFUND
	cancel, local         = pb.OperationKind_OPERATION_KIND_CANCEL, pb.OperationKind_OPERATION_KIND_LOCAL
	applied, refused      = pb.Outcome_OUTCOME_APPLIED, pb.Outcome_OUTCOME_REFUSED
	cancelled, keyReused  = pb.Outcome_OUTCOME_CANCELLED, pb.Outcome_OUTCOME_KEY_REUSED
	amountMax, batchMax   = 1 << 62, 100
)

var (
	currencies = []string{"EUR", "USD"}
	kinds      = map[string]pb.OperationKind{"debit": debit, "credit": credit, "refund": refund, "open": local, "freeze": local, "unfreeze": local, "close": local}
	part       = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	transfer   = regexp.MustCompile(`^[A-Za-z0-9._~:-]{1,128}$`)
	key        = regexp.MustCompile(`^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$`)
	reference  = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}/[a-z0-9][a-z0-9._-]{0,62}$`)
)

// account is a client's. Its state is the last local operation on it.
type account struct {
	currency, state string
	balance         int64
}

// books are all that is known. One mutex makes each call one transaction.
type books struct {
	pb.UnimplementedParticipantServiceServer
	setup.UnimplementedConformanceSetupServiceServer
	mu       sync.Mutex
	journal  *journal
	stored   map[string]*pb.StoredOperation // by tenant and key
	refunds  map[string]*pb.StoredOperation // the applied one, by tenant and the debit's key
	accounts map[string]*account            // by tenant and name
	fresh    []*pb.StoredOperation          // by the call under way, not in the file yet
}

// id orders by the first part and then the second: no name holds a blank.
func id(tenant, name string) string { return tenant + " " + name }

// put takes a stored operation into memory, when it is done and when the file is
// read again: nothing else changes memory, so that a restart gives the same.
func (b *books) put(s *pb.StoredOperation) {
	o := s.Operation
	b.stored[id(o.Tenant, o.Key)] = s
	if o.Kind == refund && s.Answer.Outcome == applied {
		b.refunds[id(o.Tenant, o.DebitKey)] = s
	}
	if o.Kind == local {
		a := cmp.Or(b.accounts[id(o.Tenant, o.Account)], &account{currency: o.Currency})
		a.state, b.accounts[id(o.Tenant, o.Account)] = o.Step, a
	}
	for _, l := range s.Lines {
		if a := b.accounts[id(o.Tenant, l.Account)]; a != nil {
			a.balance += l.Amount
		}
	}
}

// store is put for what is new; commit writes it to the file.
func (b *books) store(o *pb.Operation, a *pb.Answer, lines ...*pb.Line) *pb.Answer {
	a.FirstTime = timestamppb.Now()
	s := &pb.StoredOperation{Operation: proto.CloneOf(o), Answer: a, Lines: lines}
	b.put(s)
	b.fresh = append(b.fresh, s)
	return proto.CloneOf(a)
}

// commit makes the call durable before it is answered. If the file cannot be
// written the process ends: memory must not be ahead of it.
func (b *books) commit() {
	if len(b.fresh) == 0 {
		return
	}
	if err := b.journal.append(b.fresh); err != nil {
		log.Fatalf("the books cannot be written, so nothing more is answered: %v", err)
	}
	b.fresh = nil
}

// replay answers a known key: with what is stored, or with the fields that differ.
func replay(s *pb.StoredOperation, asked *pb.Operation) *pb.Answer {
	o := proto.CloneOf(asked)
	if o.Kind == cancel || o.Kind == 0 {
		o.Kind = kinds[o.Step]
	}
	var differing []string
	fields := o.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		contents := f.Number() >= 6 // a tombstone has none and matches any
		if !(contents && s.Answer.Outcome == cancelled) && !o.ProtoReflect().Get(f).Equal(s.Operation.ProtoReflect().Get(f)) {
			differing = append(differing, string(f.Name()))
		}
	}
	if len(differing) > 0 {
		return &pb.Answer{Outcome: keyReused, Key: asked.Key, Amount: asked.Amount, DifferingFields: differing}
	}
	a := proto.CloneOf(s.Answer)
	a.Key, a.Amount, a.Replayed = asked.Key, asked.Amount, true
	return a
}

// violations names what is malformed. Only debits and credits are judged whole:
// what cannot be done can still be undone, and looked up.
func violations(o *pb.Operation, lookup bool) (list []*pb.Violation) {
	demand := func(field string, ok bool) {
		if !ok {
			list = append(list, &pb.Violation{Field: field, Description: "is malformed"})
		}
	}
	demand("tenant", part.MatchString(o.Tenant))
	demand("transfer_key", transfer.MatchString(o.TransferKey))
	demand("key", key.MatchString(o.Key))
	switch {
	case o.Kind == cancel:
		demand("step", o.Step == "debit" || o.Step == "credit")
	case o.Kind == debit, o.Kind == credit, o.Kind == refund, o.Kind == local && lookup:
		demand("step", kinds[o.Step] == o.Kind)
	default:
		demand("kind", false)
	}
	switch {
	case lookup || o.Kind == cancel:
	case o.Kind == refund:
		demand("debit_key", key.MatchString(o.DebitKey) && o.DebitKey != o.Key)
	default:
		demand("account", part.MatchString(o.Account))
		demand("amount", o.Amount >= 1)
		demand("currency", slices.Contains(currencies, o.Currency))
		demand("counterparty", reference.MatchString(o.Counterparty))
	}
	return list
}

// decide answers one operation. A known key comes before everything.
func (b *books) decide(o *pb.Operation) *pb.Answer {
	if s := b.stored[id(o.GetTenant(), o.GetKey())]; s != nil {
		return replay(s, o)
	}
	a := &pb.Answer{Key: o.GetKey(), Amount: o.GetAmount()}
	if a.Violations = violations(o, false); len(a.Violations) > 0 {
		a.Outcome = pb.Outcome_OUTCOME_INVALID
		return a
	}
	switch o.Kind {
	case cancel:
		return b.tombstone(o, o.Step, o.Key)
	case refund:
		return b.refund(o, a)
	}
	account := b.accounts[id(o.Tenant, o.Account)]
	if a.Reason = refusal(o, account); a.Reason != 0 {
		a.Outcome = refused
		return b.store(o, a)
	}
	delta := o.Amount
	if o.Kind == debit {
		delta = -delta
	}
	a.Outcome, a.AmountMoved, a.BalanceAfter = applied, o.Amount, account.balance+delta
	return b.store(o, a, entry(o, o.Account, delta)...)
}

func refusal(o *pb.Operation, a *account) pb.RefusalReason {
	switch {
	case a == nil:
		return pb.RefusalReason_REFUSAL_REASON_ACCOUNT_NOT_FOUND
	case a.state == "close":
		return pb.RefusalReason_REFUSAL_REASON_ACCOUNT_CLOSED
	case a.state == "freeze":
		return pb.RefusalReason_REFUSAL_REASON_ACCOUNT_FROZEN
	case a.currency != o.Currency:
		return pb.RefusalReason_REFUSAL_REASON_CURRENCY_MISMATCH
	case o.Amount > amountMax:
		return pb.RefusalReason_REFUSAL_REASON_LIMIT_EXCEEDED
	case o.Kind == debit && o.Amount > a.balance:
		return pb.RefusalReason_REFUSAL_REASON_INSUFFICIENT_FUNDS
	case o.Kind == credit && a.balance+o.Amount < 0: // wrapped
		return pb.RefusalReason_REFUSAL_REASON_BALANCE_OVERFLOW
	}
	return 0
}

// entry moves an amount between an account and the clearing account of the other
// side's participant.
func entry(o *pb.Operation, account string, delta int64) []*pb.Line {
	participant, _, _ := strings.Cut(o.Counterparty, "/")
	return []*pb.Line{{Account: account, Currency: o.Currency, Amount: delta}, {Account: "clearing:" + participant, Currency: o.Currency, Amount: -delta}}
}

// tombstone makes a key that was never seen CANCELLED for ever.
func (b *books) tombstone(o *pb.Operation, step, key string) *pb.Answer {
	dead := &pb.Operation{Kind: kinds[step], Tenant: o.Tenant, TransferKey: o.TransferKey, Step: step, Key: key}
	a := b.store(dead, &pb.Answer{Outcome: cancelled, Key: key})
	a.Amount = o.Amount
	return a
}

// refund gives back what the debit took, once, whatever the account's state.
func (b *books) refund(o *pb.Operation, a *pb.Answer) *pb.Answer {
	taken := b.stored[id(o.Tenant, o.DebitKey)]
	if taken != nil {
		named := proto.CloneOf(o)
		named.Kind, named.Step, named.Key, named.DebitKey = debit, "debit", o.DebitKey, taken.Operation.DebitKey
		if differs := replay(taken, named); differs.Outcome == keyReused {
			a.Outcome, a.DifferingFields = keyReused, differs.DifferingFields
			return a
		}
	}
	if first := b.refunds[id(o.Tenant, o.DebitKey)]; first != nil {
		a.Outcome, a.Reason = refused, pb.RefusalReason_REFUSAL_REASON_ALREADY_REFUNDED
		a.DebitOutcome, a.FirstRefundKey, a.FirstRefundAmount = first.Answer.DebitOutcome, first.Operation.Key, first.Answer.AmountMoved
		a.RefundToSuspense = first.Answer.RefundToSuspense
		return b.store(o, a)
	}
	a.Outcome, a.DebitOutcome = applied, cancelled
	if taken == nil {
		b.tombstone(o, "debit", o.DebitKey)
	} else if a.DebitOutcome = taken.Answer.Outcome; a.DebitOutcome == applied {
		account, to := b.accounts[id(o.Tenant, taken.Operation.Account)], taken.Operation.Account
		a.AmountMoved, a.BalanceAfter = taken.Answer.AmountMoved, account.balance+taken.Answer.AmountMoved
		if account.state == "close" || a.BalanceAfter < 0 { // closed, or wrapped
			a.BalanceAfter, a.RefundToSuspense, to = account.balance, true, "suspense:refund"
		}
		return b.store(o, a, entry(taken.Operation, to, a.AmountMoved)...)
	}
	return b.store(o, a)
}

func main() {
	listen := flag.String("listen", "127.0.0.1:7200", "loopback address to listen on")
	file := flag.String("file", "participant.db", "the books, an SQLite file")
	flag.Parse()
	address, err := net.ResolveTCPAddr("tcp", *listen)
	if err != nil || !address.IP.IsLoopback() {
		log.Fatalf("-listen %q: want a loopback address, %v", *listen, err)
	}
	b := &books{stored: map[string]*pb.StoredOperation{}, refunds: map[string]*pb.StoredOperation{}, accounts: map[string]*account{}}
	if b.journal, err = openJournal(*file, b.put); err != nil {
		log.Fatal(err)
	}
	l, err := net.ListenTCP("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterParticipantServiceServer(server, b)
	setup.RegisterConformanceSetupServiceServer(server, b)
	log.Fatal(server.Serve(l))
}
