package conformance

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"giro/internal/names"
	"giro/internal/stepkey"
	pb "giro/proto/giro/participant/v1"
)

const (
	kindDebit  = pb.OperationKind_OPERATION_KIND_DEBIT
	kindCredit = pb.OperationKind_OPERATION_KIND_CREDIT
	kindRefund = pb.OperationKind_OPERATION_KIND_REFUND
	kindCancel = pb.OperationKind_OPERATION_KIND_CANCEL
	kindLocal  = pb.OperationKind_OPERATION_KIND_LOCAL

	applied   = pb.Outcome_OUTCOME_APPLIED
	refused   = pb.Outcome_OUTCOME_REFUSED
	cancelled = pb.Outcome_OUTCOME_CANCELLED
	keyReused = pb.Outcome_OUTCOME_KEY_REUSED
	invalid   = pb.Outcome_OUTCOME_INVALID
	expired   = pb.Outcome_OUTCOME_EXPIRED
	notFound  = pb.Outcome_OUTCOME_NOT_FOUND

	insufficientFunds = pb.RefusalReason_REFUSAL_REASON_INSUFFICIENT_FUNDS
	limitExceeded     = pb.RefusalReason_REFUSAL_REASON_LIMIT_EXCEEDED
	accountNotFound   = pb.RefusalReason_REFUSAL_REASON_ACCOUNT_NOT_FOUND
	accountFrozen     = pb.RefusalReason_REFUSAL_REASON_ACCOUNT_FROZEN
	accountClosed     = pb.RefusalReason_REFUSAL_REASON_ACCOUNT_CLOSED
	currencyMismatch  = pb.RefusalReason_REFUSAL_REASON_CURRENCY_MISMATCH
	balanceOverflow   = pb.RefusalReason_REFUSAL_REASON_BALANCE_OVERFLOW
	alreadyRefunded   = pb.RefusalReason_REFUSAL_REASON_ALREADY_REFUNDED
)

// The other side of every transfer here: an account at a participant that nobody
// has registered.
const (
	elsewhere    = "conformance-peer"
	counterparty = elsewhere + "/merchant"
)

// currency is the first of the participant's, one that everybody knows if it can be.
func (c *check) currency() string { return c.currencies()[0] }

// otherCurrency is another one.
func (c *check) otherCurrency() string {
	list := c.currencies()
	if len(list) < 2 {
		c.notRun("it needs two currencies, and Describe lists one")
	}
	return list[1]
}

func (c *check) currencies() []string {
	list := c.peer.describe.GetCurrencies()
	var known []string
	for _, code := range []string{"USD", "EUR"} {
		if slices.Contains(list, code) {
			known = append(known, code)
		}
	}
	for _, code := range list {
		if !slices.Contains(known, code) {
			known = append(known, code)
		}
	}
	if len(known) == 0 {
		c.broken("Describe", "the currencies that it takes", words(c.peer.describe))
	}
	return known
}

// newTransferKey is a UUIDv7 of now, as clients are advised to draw them.
func (c *check) newTransferKey() string { return transferKeyOf(time.Now()) }

// scatteredTransferKey is one whose step keys lie anywhere among the others, so
// that what is stored later is not always listed later.
func (c *check) scatteredTransferKey() string {
	var r [2]byte
	rand.Read(r[:]) // never fails
	span := 24 * time.Hour
	if h := time.Duration(c.peer.describe.GetRetentionHorizonSeconds()) * time.Second; h > 0 {
		span = min(span, h/2)
	}
	return transferKeyOf(time.Now().Add(-span / (1 << 16) * time.Duration(binary.BigEndian.Uint16(r[:]))))
}

// transferKeyOf is a UUIDv7 of an instant.
func transferKeyOf(t time.Time) string {
	var k stepkey.StepKey
	rand.Read(k[:]) // never fails
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(max(0, t.UnixMilli()))) //nolint:gosec // not negative
	copy(k[:6], ms[2:])
	k[6], k[8] = k[6]&0x0f|0x70, k[8]&0x3f|0x80
	return k.String()
}

// step derives a step's key as the orchestrator does.
func step(tenant, transferKey, name string) string {
	return stepkey.Derive(stepkey.V1, names.Tenant(tenant), names.TransferKey(transferKey), name).String()
}

// under puts an operation under another transfer key, with the keys that follow.
func under(o *pb.Operation, transferKey string) *pb.Operation {
	o = proto.CloneOf(o)
	o.TransferKey, o.Key = transferKey, step(o.GetTenant(), transferKey, o.GetStep())
	if o.GetDebitKey() != "" {
		o.DebitKey = step(o.GetTenant(), transferKey, "debit")
	}
	return o
}

func (c *check) debit(a account, amount int64) *pb.Operation {
	return under(&pb.Operation{Kind: kindDebit, Tenant: a.tenant, Step: "debit", Account: a.name, Amount: amount, Currency: a.currency,
		Counterparty: counterparty}, c.newTransferKey())
}

func (c *check) credit(a account, amount int64) *pb.Operation {
	return under(&pb.Operation{Kind: kindCredit, Tenant: a.tenant, Step: "credit", Account: a.name, Amount: amount, Currency: a.currency,
		Counterparty: counterparty}, c.newTransferKey())
}

// refundOf gives a debit back, under the key that an orchestrator derives.
func refundOf(debit *pb.Operation) *pb.Operation {
	r := proto.CloneOf(debit)
	r.Kind, r.Step, r.DebitKey = kindRefund, "refund", debit.GetKey()
	r.Key = step(r.GetTenant(), r.GetTransferKey(), "refund")
	return r
}

// otherRefundOf gives a debit back under a key of somebody else's.
func (c *check) otherRefundOf(debit *pb.Operation) *pb.Operation {
	r := refundOf(debit)
	r.Key = step(r.GetTenant(), c.newTransferKey(), "refund")
	return r
}

// cancelOf cancels an operation's key.
func cancelOf(o *pb.Operation) *pb.Operation {
	r := proto.CloneOf(o)
	r.Kind = kindCancel
	return r
}

// with changes a copy.
func with(o *pb.Operation, change func(*pb.Operation)) *pb.Operation {
	o = proto.CloneOf(o)
	change(o)
	return o
}

// nobody is an account that was never opened.
func (c *check) nobody() account { return account{c.tenant, "nobody", c.currency()} }

// randomText is short and new.
func randomText() string {
	var b [6]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
