package audit

import (
	"math/big"
	"strings"
	"time"

	"giro/internal/names"
	"giro/internal/stepkey"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
	participantv1 "giro/proto/giro/participant/v1"
)

// Short names of the wire's words.
const (
	debit  = participantv1.OperationKind_OPERATION_KIND_DEBIT
	credit = participantv1.OperationKind_OPERATION_KIND_CREDIT
	refund = participantv1.OperationKind_OPERATION_KIND_REFUND

	applied   = participantv1.Outcome_OUTCOME_APPLIED
	refused   = participantv1.Outcome_OUTCOME_REFUSED
	cancelled = participantv1.Outcome_OUTCOME_CANCELLED
)

// Books are all books and the saga table as they were read, and judge them. They
// do no I/O and are not safe for concurrent use. They keep a few hundred bytes
// for each transfer: what can be judged from one row is judged when it is added.
type Books struct {
	registered map[names.Participant]bool
	transfers  map[saga.ID]*transfer
	checks     [len(titles)]Check

	// suspects are step keys that may have been APPLIED twice.
	suspects map[operationID]bool
	// sides are what each clearing account holds by its operations and by Sums.
	sides map[side]*clearing
	// archivedBefore is up to which key each participant may have archived.
	archivedBefore map[names.Participant]time.Time
	// archived counts the transfers that were not compared for that.
	archived int64
	// listed counts the operations read, of every kind.
	listed     map[names.Participant]int64
	operations int64
	moved      bool
	// parked and attention count the sagas that judgePending tells of.
	parked, attention int64
}

type operationID struct {
	tenant names.Tenant
	key    stepkey.StepKey
}

// transfer is one transfer as all sources tell it.
type transfer struct {
	id saga.ID
	// saga is nil where the table has none.
	saga *facts
	// late: the saga was read, or read again, after the participants' operations,
	// which may then lack its last ones.
	late       bool
	operations []operation
	events     []event
}

// facts are what the audit needs of a saga.
type facts struct {
	source, destination names.AccountRef
	amount              int64
	currency            string
	state               saga.State
	suspense            bool
	parkReason          string
	attentionReason     string
	parked, attention   bool
	progressAt          time.Time
}

// operation is what the audit needs of a stored operation.
type operation struct {
	participant names.Participant
	kind        participantv1.OperationKind
	outcome     participantv1.Outcome
	key         stepkey.StepKey
	// debitKey is what a refund gives back.
	debitKey stepkey.StepKey
	// derived: the key is the transfer's own step key.
	derived  bool
	moved    int64
	currency string
	suspense bool
	at       time.Time
	// contents are kept until the saga is known, and then compared.
	contents *participantv1.Operation
}

type event struct {
	id  stepkey.StepKey
	typ string
}

// NewBooks makes empty books for the participants that are registered.
func NewBooks(registered []names.Participant) *Books {
	b := &Books{
		registered: make(map[names.Participant]bool, len(registered)),
		transfers:  map[saga.ID]*transfer{},
		checks:     newChecks(),
		suspects:   map[operationID]bool{},
		sides:      map[side]*clearing{},
		listed:     map[names.Participant]int64{},

		archivedBefore: map[names.Participant]time.Time{},
	}
	for _, p := range registered {
		b.registered[p] = true
	}
	return b
}

func (b *Books) transfer(id saga.ID) *transfer {
	t, known := b.transfers[id]
	if !known {
		t = &transfer{id: id}
		b.transfers[id] = t
	}
	return t
}

// AddSaga adds a row of the saga table, or what it has become since. late says
// that it was read after the participants' operations: unless the books stood
// still, its last operations may then be missing from them.
func (b *Books) AddSaga(s saga.Saga, late bool) {
	t := b.transfer(s.ID)
	t.saga = &facts{
		source: s.Source, destination: s.Destination, amount: int64(s.Amount), currency: string(s.Currency),
		state: s.State, suspense: s.RefundToSuspense,
		parked: s.Parked, parkReason: s.ParkReason, attention: s.Attention, attentionReason: s.AttentionReason,
		progressAt: s.ProgressAt,
	}
	t.late = late
	for i := range t.operations {
		o := &t.operations[i]
		if o.contents != nil {
			b.compareContents(t, *o, o.contents)
			o.contents = nil
		}
	}
}

// AddEvent adds one event of a final state.
func (b *Books) AddEvent(e store.FinalEvent) {
	t := b.transfer(saga.ID{Tenant: e.Tenant, Key: e.Key})
	t.events = append(t.events, event{id: e.ID, typ: e.Type})
}

// AddOperation adds one operation that the participant lists.
func (b *Books) AddOperation(p names.Participant, stored *participantv1.StoredOperation) {
	b.listed[p]++
	b.judgeEntry(p, stored)
	contents, answer := stored.GetOperation(), stored.GetAnswer()
	step, protocol := steps[contents.GetKind()]
	if !protocol {
		b.bringForward(p, stored)
		return
	}
	b.operations++
	id := saga.ID{Tenant: names.Tenant(contents.GetTenant()), Key: names.TransferKey(contents.GetTransferKey())}
	// A text that is no key gives the zero key, which no step derives.
	key, _ := stepkey.Parse(contents.GetKey())
	debitKey, _ := stepkey.Parse(contents.GetDebitKey())
	o := operation{
		participant: p, kind: contents.GetKind(), outcome: answer.GetOutcome(), key: key, debitKey: debitKey,
		derived:  key == stepkey.Derive(stepkey.V1, id.Tenant, id.Key, step),
		currency: contents.GetCurrency(), suspense: answer.GetRefundToSuspense(),
		at: answer.GetFirstTime().AsTime(),
	}
	if o.outcome == applied {
		o.moved = answer.GetAmountMoved()
	}
	t := b.transfer(id)
	b.suspect(t, o)
	b.expectClearing(t, o, names.AccountRef(contents.GetCounterparty()).Participant())
	if t.saga != nil {
		b.compareContents(t, o, contents)
	} else {
		o.contents = contents
	}
	t.operations = append(t.operations, o)
}

// broughtForward is the step of the line that stands for an account's archived ones.
const broughtForward = "brought-forward"

// bringForward counts what archived operations left in clearing.
func (b *Books) bringForward(p names.Participant, stored *participantv1.StoredOperation) {
	if stored.GetOperation().GetStep() != broughtForward || stored.GetAnswer().GetOutcome() != applied {
		return
	}
	for _, line := range stored.GetLines() {
		if counterparty, is := strings.CutPrefix(line.GetAccount(), clearingPrefix); is {
			s := side{participant: p, counterparty: names.Participant(counterparty),
				tenant: names.Tenant(stored.GetOperation().GetTenant()), currency: line.GetCurrency()}
			b.side(s).transit.Add(b.side(s).transit, big.NewInt(line.GetAmount()))
		}
	}
}

// AddDescriptions adds what a participant said of itself before and after it was read:
// a mark that was raised tells that its books moved, whatever was counted.
func (b *Books) AddDescriptions(p names.Participant, before, after *participantv1.DescribeResponse) {
	if before.GetHighWaterMark() != after.GetHighWaterMark() {
		b.moved = true
	}
	if at := after.GetArchivedBefore(); at != nil {
		b.archivedBefore[p] = at.AsTime()
	}
}

// gone says whether operations of the transfer may have been archived.
func (b *Books) gone(t *transfer) bool {
	at, timed := stepkey.Time(t.id.Key)
	if !timed || t.saga == nil {
		return false
	}
	return at.Before(b.archivedBefore[t.saga.source.Participant()]) || at.Before(b.archivedBefore[t.saga.destination.Participant()])
}

var steps = map[participantv1.OperationKind]string{
	debit: stepkey.Debit, credit: stepkey.Credit, refund: stepkey.Refund,
}

// suspect marks keys that have to be counted at the end: those that no transfer
// derives may be another's, those that a transfer derives may stand twice in it.
func (b *Books) suspect(t *transfer, o operation) {
	if o.outcome != applied {
		return
	}
	doubled := !o.derived
	for _, other := range t.operations {
		doubled = doubled || (other.outcome == applied && other.key == o.key)
	}
	if doubled {
		b.suspects[operationID{t.id.Tenant, o.key}] = true
	}
}

// AddSums adds a participant's sums from before and after its operations were
// read. Where their operation counts differ, the books moved meanwhile.
func (b *Books) AddSums(p names.Participant, before, after *participantv1.SumsResponse) {
	if before.GetOperationCount() != after.GetOperationCount() {
		b.moved = true
	}
	b.judgeSums(p, after)
	for _, c := range after.GetClearing() {
		s := side{
			participant: p, counterparty: names.Participant(c.GetParticipant()),
			tenant: names.Tenant(c.GetTenant()), currency: c.GetCurrency(),
		}
		balance, ok := new(big.Int).SetString(c.GetBalance(), 10)
		if !ok {
			b.checks[2].find("tenant %s: %s says that its clearing account for %s in %s holds %q, which is no number",
				s.tenant, p, s.counterparty, s.currency, c.GetBalance())
			continue
		}
		b.side(s).balance.Add(b.side(s).balance, balance)
	}
	if counted := after.GetOperationCount(); before.GetOperationCount() == counted && b.listed[p] != counted {
		b.checks[1].find("%s counts %d stored operations, but lists %d", p, counted, b.listed[p])
	}
}

// Moved says whether operations were stored while the books were read.
func (b *Books) Moved() bool { return b.moved }

// Unexplained lists, in order, the transfers whose saga has to be looked up
// (again): they have operations and no saga, or an event and no final saga. A
// saga's row is committed before its first operation is sent, and a final event
// with its state, so what a later look-up does not find was never there.
func (b *Books) Unexplained() []saga.ID {
	var ids []saga.ID
	for _, t := range b.sorted() {
		if t.saga == nil || (len(t.events) > 0 && !t.saga.state.Final()) {
			ids = append(ids, t.id)
		}
	}
	return ids
}
