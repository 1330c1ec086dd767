package audit

import (
	"cmp"
	"context"
	"math/big"
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"giro/internal/fingerprint"
	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/stepkey"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
	participantv1 "giro/proto/giro/participant/v1"
)

const (
	tenant names.Tenant      = "shop"
	alpha  names.Participant = "alpha"
	beta   names.Participant = "beta"
)

var epoch = time.Date(2026, 1, 2, 23, 59, 0, 0, time.UTC)

// world is a small giro made by hand: what the saga table and two participants
// hold, written down row by row and not by any code that the audit judges.
type world struct {
	sagas  []saga.Saga
	events []store.FinalEvent
	books  map[names.Participant]*book
}

func newWorld() *world {
	w := &world{books: map[names.Participant]*book{alpha: {name: alpha}, beta: {name: beta}}}
	for _, p := range []names.Participant{alpha, beta} {
		w.books[p].deposit("main", 1_000_000)
	}
	return w
}

func (w *world) config() Config {
	clients := map[names.Participant]participantv1.ParticipantServiceClient{}
	for name, b := range w.books {
		clients[name] = b
	}
	return Config{Store: table{world: w}, Participants: clients}
}

func (w *world) audit(t *testing.T) Report {
	t.Helper()
	r, err := Run(context.Background(), w.config())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// saga adds a transfer of 40.00 USD from alpha to beta.
func (w *world) saga(key names.TransferKey, state saga.State) saga.Saga {
	return w.sagaBetween(key, state, "alpha/main", "beta/main")
}

func (w *world) sagaBetween(key names.TransferKey, state saga.State, source, destination names.AccountRef) saga.Saga {
	s := saga.New(saga.ID{Tenant: tenant, Key: key},
		fingerprint.Contents{Source: source, Destination: destination, Amount: 4000, Currency: "USD"}, false)
	s.State, s.ProgressAt = state, epoch.Add(time.Hour)
	w.sagas = append(w.sagas, s)
	if state.Final() {
		w.event(s)
	}
	return s
}

func (w *world) event(s saga.Saga) {
	place := store.EventPlace{Tenant: s.Tenant, ID: stepkey.FinalEvent(s.Tenant, s.Key)}
	w.events = append(w.events, store.FinalEvent{EventPlace: place, Key: s.Key, Type: string(s.State)})
}

// The operations of a saga, as its participants store them.

func (w *world) debit(s saga.Saga, outcome participantv1.Outcome) *participantv1.StoredOperation {
	return w.books[s.Source.Participant()].store(s, debit, outcome, s.Source, s.Destination)
}

func (w *world) credit(s saga.Saga, outcome participantv1.Outcome) *participantv1.StoredOperation {
	return w.books[s.Destination.Participant()].store(s, credit, outcome, s.Destination, s.Source)
}

func (w *world) refund(s saga.Saga, moves bool) *participantv1.StoredOperation {
	o := w.books[s.Source.Participant()].store(s, refund, applied, s.Source, s.Destination)
	if !moves {
		o.Answer.AmountMoved, o.Lines = 0, nil
	}
	return o
}

func (w *world) completed(key names.TransferKey) saga.Saga {
	s := w.saga(key, saga.Completed)
	w.debit(s, applied)
	w.credit(s, applied)
	return s
}

func (w *world) refunded(key names.TransferKey) saga.Saga {
	s := w.saga(key, saga.Refunded)
	w.debit(s, applied)
	w.credit(s, cancelled)
	w.refund(s, true)
	return s
}

// sound is a world in which every way that a transfer can go has been gone.
func sound() *world {
	w := newWorld()
	w.completed("completed-1")
	w.completed("completed-2")
	w.refunded("refunded")
	s := w.saga("refunded-after-refusal", saga.Refunded)
	w.debit(s, applied)
	w.credit(s, refused)
	w.refund(s, true)
	w.debit(w.saga("refused", saga.Refused), refused)
	s = w.saga("refused-late", saga.Refused)
	w.debit(s, refused)
	w.credit(s, cancelled)
	w.refund(s, false)
	s = w.saga("cancelled", saga.Cancelled)
	w.debit(s, cancelled)
	w.credit(s, cancelled)
	w.refund(s, false)
	s = w.saga("suspense", saga.Refunded)
	w.sagas[len(w.sagas)-1].RefundToSuspense = true
	w.debit(s, applied)
	w.credit(s, refused)
	toSuspense(w.refund(s, true))
	s = w.sagaBetween("inside", saga.Completed, "alpha/main", "alpha/other")
	w.debit(s, applied)
	w.credit(s, applied)
	s = w.sagaBetween("back", saga.Completed, "beta/main", "alpha/main")
	w.debit(s, applied)
	w.credit(s, applied)
	return w
}

func toSuspense(o *participantv1.StoredOperation) {
	o.Answer.RefundToSuspense = true
	o.Lines[0].Account = "suspense:refund"
}

// book is a participant that answers from a slice.
type book struct {
	participantv1.ParticipantServiceClient
	name names.Participant
	rows []*participantv1.StoredOperation
	// tweak spoils what Sums says.
	tweak func(*participantv1.SumsResponse)
	// onList runs before the first page is read.
	onList func()
	// fail is answered by every call.
	fail error
	// describe is answered by Describe; nil: it has none.
	describe *participantv1.DescribeResponse
	// pageSizes are those that were asked for.
	pageSizes []int32
}

func (b *book) deposit(account string, minor int64) {
	b.rows = append(b.rows, &participantv1.StoredOperation{
		Operation: &participantv1.Operation{Kind: participantv1.OperationKind_OPERATION_KIND_LOCAL, Tenant: string(tenant),
			TransferKey: "deposit", Step: "deposit", Key: "11111111-1111-8111-8111-111111111111",
			Account: account, Amount: minor, Currency: "USD", Counterparty: "world"},
		Answer: &participantv1.Answer{Outcome: applied, Amount: minor, AmountMoved: minor},
		Lines: []*participantv1.Line{{Account: account, Currency: "USD", Amount: minor},
			{Account: "external:world", Currency: "USD", Amount: -minor}},
	})
}

func (b *book) store(s saga.Saga, kind participantv1.OperationKind, outcome participantv1.Outcome,
	own, other names.AccountRef) *participantv1.StoredOperation {
	step := steps[kind]
	key := stepkey.Derive(stepkey.V1, s.Tenant, s.Key, step).String()
	row := &participantv1.StoredOperation{
		Operation: &participantv1.Operation{Kind: kind, Tenant: string(s.Tenant), TransferKey: string(s.Key), Step: step, Key: key},
		Answer:    &participantv1.Answer{Outcome: outcome, Key: key, FirstTime: timestamppb.New(epoch)},
	}
	if outcome != cancelled {
		row.Operation.Account, row.Operation.Amount = string(own.Account()), int64(s.Amount)
		row.Operation.Currency, row.Operation.Counterparty = string(s.Currency), string(other)
		row.Answer.Amount = int64(s.Amount)
	}
	if kind == refund {
		row.Operation.DebitKey = stepkey.Derive(stepkey.V1, s.Tenant, s.Key, stepkey.Debit).String()
	}
	if outcome == applied {
		row.Answer.AmountMoved = int64(s.Amount)
		change := int64(s.Amount)
		if kind == debit {
			change = -change
		}
		row.Lines = []*participantv1.Line{{Account: string(own.Account()), Currency: string(s.Currency), Amount: change},
			{Account: "clearing:" + string(other.Participant()), Currency: string(s.Currency), Amount: -change}}
	}
	b.rows = append(b.rows, row)
	return row
}

// ListOperations gives pages of at most two rows, so that every test pages.
func (b *book) ListOperations(ctx context.Context, in *participantv1.ListOperationsRequest,
	_ ...grpc.CallOption) (*participantv1.ListOperationsResponse, error) {
	if err := cmp.Or(b.fail, ctx.Err()); err != nil {
		return nil, err
	}
	if b.onList != nil && in.PageToken == "" {
		b.onList()
	}
	b.pageSizes = append(b.pageSizes, in.PageSize)
	from, _ := strconv.Atoi(in.PageToken)
	to := min(from+2, len(b.rows))
	out := &participantv1.ListOperationsResponse{Operations: b.rows[from:to]}
	if to < len(b.rows) {
		out.NextPageToken = strconv.Itoa(to)
	}
	return out, nil
}

// Sums adds up the lines.
func (b *book) Sums(ctx context.Context, _ *participantv1.SumsRequest, _ ...grpc.CallOption) (*participantv1.SumsResponse, error) {
	if err := cmp.Or(b.fail, ctx.Err()); err != nil {
		return nil, err
	}
	totals, clearings := map[string]*big.Int{}, map[posting]*big.Int{}
	for _, row := range b.rows {
		for _, line := range row.Lines {
			change := big.NewInt(line.Amount)
			totals[line.Currency] = new(big.Int).Add(orZero(totals[line.Currency]), change)
			if name, found := cutPrefix(line.Account, "clearing:"); found {
				at := posting{name, line.Currency}
				clearings[at] = new(big.Int).Add(orZero(clearings[at]), change)
			}
		}
	}
	out := &participantv1.SumsResponse{OperationCount: int64(len(b.rows))}
	for currency, total := range totals {
		out.Currencies = append(out.Currencies, &participantv1.CurrencySum{
			Tenant: string(tenant), Currency: currency, Total: total.String(), AccountCount: 2})
	}
	for at, balance := range clearings {
		out.Clearing = append(out.Clearing, &participantv1.ClearingSum{
			Tenant: string(tenant), Currency: at.currency, Participant: at.account, Balance: balance.String()})
	}
	if b.tweak != nil {
		b.tweak(out)
	}
	return out, nil
}

func (b *book) Describe(context.Context, *participantv1.DescribeRequest, ...grpc.CallOption) (*participantv1.DescribeResponse, error) {
	if b.fail != nil || b.describe == nil {
		return nil, cmp.Or(b.fail, status.Error(codes.Unimplemented, "it does not say"))
	}
	return proto.CloneOf(b.describe), nil
}

// archive takes a transfer's operations off the books and brings their lines forward.
func (b *book) archive(key names.TransferKey, before time.Time) {
	nets := map[posting]int64{}
	b.rows = slices.DeleteFunc(b.rows, func(row *participantv1.StoredOperation) bool {
		if row.Operation.TransferKey != string(key) {
			return false
		}
		for _, line := range row.Lines {
			nets[posting{line.Account, line.Currency}] += line.Amount
		}
		return true
	})
	for at, net := range nets {
		b.rows = append(b.rows, &participantv1.StoredOperation{
			Operation: &participantv1.Operation{Kind: participantv1.OperationKind_OPERATION_KIND_LOCAL, Tenant: string(tenant),
				TransferKey: at.account + ":" + at.currency, Step: "brought-forward", Account: at.account, Amount: max(net, -net), Currency: at.currency,
				Key: stepkey.Derive(stepkey.V1, tenant, names.TransferKey(at.account+":"+at.currency), "brought-forward").String()},
			Answer: &participantv1.Answer{Outcome: applied, AmountMoved: max(net, -net)},
			Lines: []*participantv1.Line{{Account: at.account, Currency: at.currency, Amount: net},
				{Account: "archive:brought-forward", Currency: at.currency, Amount: -net}},
		})
	}
	b.describe = &participantv1.DescribeResponse{HighWaterMark: 1, ArchivedBefore: timestamppb.New(before)}
}

func cutPrefix(s, prefix string) (string, bool) {
	if len(s) > len(prefix) && s[:len(prefix)] == prefix {
		return s[len(prefix):], true
	}
	return "", false
}

// table answers as the saga table does, from the world's slices, in pages of at
// most three rows.
type table struct {
	store.Store
	world *world
}

func (s table) List(ctx context.Context, _ names.Tenant, after saga.ID, _ int) ([]saga.Saga, error) {
	rows := slices.SortedFunc(slices.Values(s.world.sagas), func(x, y saga.Saga) int { return cmp.Compare(x.Key, y.Key) })
	from := slices.IndexFunc(rows, func(x saga.Saga) bool { return x.Key > after.Key })
	if from < 0 {
		return nil, ctx.Err()
	}
	return rows[from:min(from+3, len(rows))], ctx.Err()
}

func (s table) FinalEvents(ctx context.Context, _ names.Tenant, after store.EventPlace, _ int) ([]store.FinalEvent, error) {
	rows := slices.SortedFunc(slices.Values(s.world.events), func(x, y store.FinalEvent) int {
		return cmp.Compare(x.ID.String(), y.ID.String())
	})
	from := slices.IndexFunc(rows, func(x store.FinalEvent) bool { return after.ID.Less(x.ID) })
	if from < 0 {
		return nil, ctx.Err()
	}
	return rows[from:min(from+3, len(rows))], ctx.Err()
}

func (s table) Lookup(_ context.Context, id saga.ID) (saga.Saga, error) {
	for _, row := range s.world.sagas {
		if row.ID == id {
			return row, nil
		}
	}
	return saga.Saga{}, store.ErrNotFound
}

func usd(minor int64) map[money.Currency]*big.Int {
	return map[money.Currency]*big.Int{"USD": big.NewInt(minor)}
}
