package chaos

import (
	"fmt"
	"math/rand/v2"

	"google.golang.org/protobuf/proto"

	"giro/internal/names"
	"giro/internal/rpc"
	"giro/internal/stepkey"
	pb "giro/proto/giro/participant/v1"
)

const (
	tenant   = string(rpc.DefaultTenant)
	currency = "USD"
	// hot is the account that a quarter of all operations touch; nobody has none.
	hot, nobody = "hot", "nobody"
	// accounts is how many others there are.
	accounts = 36
	// overdraft is agreed for every fourth of them, minor units.
	overdraft = 500
)

func account(i int) string { return fmt.Sprintf("a%02d", i) }

// ask is one operation that is sent: a key's own, a Cancel of it, or, where field
// is set, one under its key whose contents differ in that field.
type ask struct {
	record    *record
	operation *pb.Operation
	field     string
}

// writer draws what one caller asks.
type writer struct {
	name    string
	random  *rand.Rand
	records *records
	count   int
}

func (w *writer) chance(percent int) bool { return w.random.IntN(100) < percent }

// transfer draws the operations of one transfer, in the order in which they are
// sent; together says that they may race each other.
func (w *writer) transfer() (asks []ask, together bool) {
	w.count++
	key := names.TransferKey(fmt.Sprintf("%s-%d", w.name, w.count))
	where, amount := w.account(), 1+w.random.Int64N(200)
	named := func(kind pb.OperationKind, step, derived string) *pb.Operation {
		return &pb.Operation{Kind: kind, Tenant: tenant, TransferKey: string(key), Step: step, Account: where, Amount: amount,
			Currency: currency, Counterparty: "ledgersvc/merchant", Key: stepkey.Derive(stepkey.V1, names.Tenant(tenant), key, derived).String()}
	}
	debit := named(pb.OperationKind_OPERATION_KIND_DEBIT, stepkey.Debit, stepkey.Debit)
	credit := named(pb.OperationKind_OPERATION_KIND_CREDIT, stepkey.Credit, stepkey.Credit)
	refund := named(pb.OperationKind_OPERATION_KIND_REFUND, stepkey.Refund, stepkey.Refund)
	// second is another refund of the same debit, under another key.
	second := named(pb.OperationKind_OPERATION_KIND_REFUND, stepkey.Refund, "second")
	refund.DebitKey, second.DebitKey = debit.GetKey(), debit.GetKey()
	asked := map[string]*record{}
	for _, o := range w.plan(debit, credit, refund, second) {
		r := asked[o.GetKey()]
		if r == nil {
			own := proto.CloneOf(o)
			if o.GetKind() == pb.OperationKind_OPERATION_KIND_CANCEL {
				own.Kind = pb.OperationKind_OPERATION_KIND_DEBIT
				if o.GetStep() == stepkey.Credit {
					own.Kind = pb.OperationKind_OPERATION_KIND_CREDIT
				}
			}
			r = w.records.add(own)
			asked[o.GetKey()] = r
		}
		asks = append(asks, ask{record: r, operation: o})
	}
	return asks, w.chance(30)
}

func (w *writer) plan(debit, credit, refund, second *pb.Operation) []*pb.Operation {
	switch n := w.random.IntN(100); {
	case n < 30:
		return []*pb.Operation{debit}
	case n < 55:
		return []*pb.Operation{credit}
	case n < 70:
		return []*pb.Operation{debit, refund}
	case n < 80:
		return []*pb.Operation{refund, debit}
	case n < 86:
		return []*pb.Operation{debit, refund, second}
	case n < 90:
		return []*pb.Operation{cancelOf(credit), credit}
	case n < 94:
		return []*pb.Operation{credit, cancelOf(credit)}
	case n < 97:
		return []*pb.Operation{debit, cancelOf(debit), refund}
	}
	return []*pb.Operation{cancelOf(debit), debit, refund}
}

func cancelOf(o *pb.Operation) *pb.Operation {
	c := proto.CloneOf(o)
	c.Kind = pb.OperationKind_OPERATION_KIND_CANCEL
	return c
}

func (w *writer) account() string {
	switch {
	case w.chance(25):
		return hot
	case w.chance(2):
		return nobody
	}
	return account(w.random.IntN(accounts))
}

// duplicate draws a key that was sent before, with the same contents or with
// others; none, if there is none yet.
func (w *writer) duplicate() []ask {
	r := w.records.pick(w.random)
	if r == nil {
		return nil
	}
	if r.known() == nil || w.chance(70) {
		return []ask{{record: r, operation: r.operation}}
	}
	other, field := proto.CloneOf(r.operation), ""
	switch w.random.IntN(4) {
	case 0:
		field, other.Amount = "amount", other.GetAmount()+1
	case 1:
		field, other.Account = "account", other.GetAccount()+"x"
	case 2:
		field, other.Currency = "currency", "EUR"
	case 3:
		field, other.Counterparty = "counterparty", "ledgersvc/other"
	}
	return []ask{{record: r, operation: other, field: field}}
}
