package cases

import (
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/retention"
	"giro/internal/rpc"
	"giro/internal/stepkey"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
	participantv1 "giro/proto/giro/participant/v1"
	transferv1 "giro/proto/giro/transfer/v1"
)

const day = 24 * time.Hour

// aged is a transfer key whose own time is that long ago.
func aged(label string, age time.Duration) string {
	at, sum := stepkey.From(time.Now().Add(-age)), sha256.Sum256([]byte(label))
	k := stepkey.StepKey(sum[:16])
	copy(k[:6], at[:6])
	k[6], k[8] = k[6]&0x0f|0x70, k[8]&0x3f|0x80
	return k.String()
}

// keepFor gives the participants and the replicas to come one horizon.
func (c *cluster) keepFor(s retention.Settings) {
	c.t.Helper()
	c.retention = s
	for _, p := range []*party{c.accounts, c.ledger} {
		if err := p.books.KeepFor(c.t.Context(), s.Horizon); err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestC45KeysTooOldOrWithoutATime: a key of which nobody knows any more what became is
// refused at the edge with words that keep people from paying twice, and leaves
// nothing behind. One that is known is answered, however old.
func TestC45KeysTooOldOrWithoutATime(t *testing.T) {
	for _, b := range []backend{memory, sqlite, postgres} {
		t.Run(b.name, func(t *testing.T) {
			c := newCluster(t, b)
			known := pay(aged("known", 90*day), 100)
			untimed := pay("order-1", 100)
			first := c.replica()
			first.create(known)
			first.create(untimed)
			c.keepFor(retention.Settings{Horizon: 60 * day})
			r := c.replica()

			for name, request := range map[string]*transferv1.CreateTransferRequest{"an old key": known, "a key without a time": untimed} {
				again := r.create(request)
				if !again.GetReplayed() || again.GetTransfer().GetState() != transferv1.State_STATE_COMPLETED {
					t.Errorf("%s that is known: %v", name, again)
				}
				other := pay(request.GetKey(), 101)
				if _, err := r.transfers.CreateTransfer(within(t, patient), other); status.Code(err) != codes.AlreadyExists {
					t.Errorf("%s that is known, with another amount: %v", name, err)
				}
			}
			refused := func(key string, code codes.Code, reason string, words ...string) {
				t.Helper()
				contents := contentsOf(pay(key, 40))
				_, err := r.transfers.CreateTransfer(within(t, patient), pay(key, 40))
				_, cancelErr := r.transfers.CancelTransfer(within(t, patient), &transferv1.CancelTransferRequest{Key: key, Contents: contents})
				for _, err := range []error{err, cancelErr} {
					if status.Code(err) != code || rpc.Reason(err) != reason {
						t.Errorf("%s: %v", key, err)
					}
					for _, word := range words {
						if !strings.Contains(status.Convert(err).Message(), word) {
							t.Errorf("%s: %v does not say %q", key, err, word)
						}
					}
				}
				if _, err := c.sagas.Lookup(t.Context(), sagaID("default", key)); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("%s left something behind: %v", key, err)
				}
				c.holds(key, "", "")
			}
			refused(aged("old", 60*day+time.Minute), codes.FailedPrecondition, rpc.ReasonKeyExpired, "is not known any more", "do not pay again under another key without looking")
			refused(aged("ahead", -6*time.Minute), codes.FailedPrecondition, rpc.ReasonKeyExpired, "ahead")
			for _, key := range []string{"order-2", "3f2504e0-4f89-41d3-9a0c-0305e82c3301"} {
				refused(key, codes.InvalidArgument, rpc.ReasonInvalid, "key must be a UUIDv7")
			}
			// All that is wrong is named at once.
			_, err := r.transfers.CreateTransfer(within(t, patient), &transferv1.CreateTransferRequest{Key: "order-3", Source: "bank/x", Destination: merchant, Currency: "USD"})
			for _, word := range []string{"key must be a UUIDv7", "source must name", "amount"} {
				if !strings.Contains(status.Convert(err).Message(), word) {
					t.Errorf("%v does not say %q", err, word)
				}
			}
			if got := r.create(pay(aged("young", 20*day), 40)).GetTransfer(); got.GetState() != transferv1.State_STATE_COMPLETED {
				t.Errorf("a young key: %v", got)
			}
			r.create(pay(aged("ahead a little", -4*time.Minute), 40))
			c.balances(deposited-280, 280)
		})
	}
}

// TestC45AnExpiredKeyIsNoSecondPayment: the orchestrator has lost its table, and
// somebody asks with a key that was paid long ago. Whatever the edge thinks of it, the
// participant that has forgotten it takes nothing.
func TestC45AnExpiredKeyIsNoSecondPayment(t *testing.T) {
	for _, b := range []backend{memory, sqlite, postgres} {
		t.Run(b.name, func(t *testing.T) {
			c := newCluster(t, b)
			key := aged("paid", 90*day)
			r := c.replica()
			r.create(pay(key, 100))
			lost, err := c.sagas.Identity(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range []*party{c.accounts, c.ledger} {
				eventually(t, "the participant was told", func() bool {
					reports, err := p.books.Reports(t.Context())
					return err == nil && len(reports) == 1 && reports[0].Orchestrator == lost
				})
			}
			r.crash()
			c.audit()
			c.lose()
			for _, p := range []*party{c.accounts, c.ledger} {
				if err := p.books.KeepFor(t.Context(), 60*day); err != nil {
					t.Fatal(err)
				}
				// It cannot tell any more what it needs, and people say that it needs nothing.
				if _, err := p.books.Report(t.Context(), retention.Report{Orchestrator: lost, Oldest: time.Now()}); err != nil {
					t.Fatal(err)
				}
				archive(t, p)
			}
			c.holds(key, "", "")
			c.audited = true // a table that is lost explains nothing
			// One without a horizon of its own takes any key, and parks what is expired.
			again := c.replica()
			response, err := again.transfers.CreateTransfer(within(t, patient), pay(key, 100))
			if err != nil {
				t.Fatal(err)
			}
			if s := c.stored(key); !s.Parked || s.State != saga.Debiting || !strings.Contains(s.ParkReason, "EXPIRED") {
				t.Errorf("%v: %+v", response, s)
			}
			c.balances(deposited-100, 100)
			c.holds(key, "", "")
		})
	}
}

// archive takes off a participant's books whatever may be.
func archive(t *testing.T, p *party) {
	t.Helper()
	if _, err := p.books.CommitHorizon(t.Context()); err != nil {
		t.Fatal(err)
	}
	for after := (book.ID{}); ; {
		batch, err := p.books.Archive(t.Context(), after, 2, func([]book.Stored) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if after = batch.Next; after == (book.ID{}) {
			return
		}
	}
}

// unfinishedSince is what a participant was told of the keys that are still needed.
func (p *party) unfinishedSince(t *testing.T) time.Time {
	t.Helper()
	kept, _, err := p.books.Retention(t.Context())
	if err != nil {
		t.Error(err)
	}
	return kept.UnfinishedSince
}

// TestC45NothingThatIsNeededIsArchived: a transfer hangs for months and parks. What its
// participants archive is older than it, and what it needs is still answered.
func TestC45NothingThatIsNeededIsArchived(t *testing.T) {
	for _, b := range []backend{memory, sqlite, postgres} {
		t.Run(b.name, func(t *testing.T) {
			c := newCluster(t, b)
			older, hanging, younger := pay(aged("older", 100*day), 1), pay(aged("hanging", 90*day), 100), pay(aged("younger", 80*day), 10)
			r := c.replica()
			r.create(older)
			r.create(younger)
			c.ledger.wire.on(credit, always, failed(codes.Unavailable))
			answer := r.begin(hanging)
			eventually(t, "the debit is there", func() bool { return c.accounts.operations(t, hanging.GetKey()) != "" })
			r.crash()
			_, _ = answer() // its connection is gone

			c.keepFor(retention.Settings{Horizon: 60 * day})
			c.replica()
			eventually(t, "it parks, by its key's own age", func() bool { return c.stored(hanging.GetKey()).Parked })
			needed, _ := stepkey.Time(names.TransferKey(hanging.GetKey()))
			for _, p := range []*party{c.accounts, c.ledger} {
				eventually(t, "the participant was told", func() bool { return p.unfinishedSince(t).Equal(needed) })
				archive(t, p)
			}
			c.running = 1
			c.holds(older.GetKey(), "", "")
			c.holds(hanging.GetKey(), "debit APPLIED 100 (2)", "")
			c.holds(younger.GetKey(), "debit APPLIED 10 (2)", "credit APPLIED 10 (2)")
			for _, o := range []*participantv1.Operation{operation(debit, stepkey.Debit, hanging), operation(debit, stepkey.Debit, younger)} {
				response, err := c.accounts.participant.Debit(within(t, patient), &participantv1.DebitRequest{Operation: o})
				if a := response.GetAnswer(); err != nil || !a.GetReplayed() || a.GetOutcome() != participantv1.Outcome_OUTCOME_APPLIED {
					t.Errorf("%s: %v, %v", o.GetTransferKey(), response, err)
				}
			}
			response, err := c.accounts.participant.Debit(within(t, patient), &participantv1.DebitRequest{Operation: operation(debit, stepkey.Debit, older)})
			if err != nil || response.GetAnswer().GetOutcome() != participantv1.Outcome_OUTCOME_EXPIRED {
				t.Errorf("%v, %v", response, err)
			}
			c.balances(deposited-111, 11)
		})
	}
}
