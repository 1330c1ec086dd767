package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"giro/internal/names"
	"giro/internal/stepkey"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
	"giro/orchestrator/store/mem"
	participantv1 "giro/proto/giro/participant/v1"
)

func requireOK(t *testing.T, r Report) {
	t.Helper()
	if !r.OK {
		t.Error("the report is not OK")
	}
	for _, c := range r.Checks {
		for _, finding := range c.Findings {
			t.Errorf("check %d: %s", c.Number, finding)
		}
	}
}

func TestSoundWorldIsOK(t *testing.T) {
	r := sound().audit(t)
	requireOK(t, r)
	if r.Transfers != 10 || r.Operations != 24 || r.Pending != 0 || r.Moved || len(r.InTransit) != 0 {
		t.Errorf("got %d transfers, %d operations, %d pending, moved %t, in transit %v",
			r.Transfers, r.Operations, r.Pending, r.Moved, r.InTransit)
	}
	for i, c := range r.Checks {
		if c.Number != i+1 || c.Title == "" {
			t.Errorf("check %d stands at place %d with title %q", c.Number, i+1, c.Title)
		}
		unseen := c.Number == 6 || c.Number == 7 || c.Number == 8
		if (c.Checked == 0) != unseen {
			t.Errorf("check %d looked at %d things", c.Number, c.Checked)
		}
		if unseen && c.Note == "" {
			t.Errorf("check %d does not say what it cannot see", c.Number)
		}
	}
}

func TestEmptyWorldIsOK(t *testing.T) {
	w := &world{books: map[names.Participant]*book{alpha: {name: alpha}}}
	r := w.audit(t)
	requireOK(t, r)
	for _, c := range r.Checks {
		// Only what no audit can see has a note; the others had nothing to look at.
		unseen := c.Number == 6 || c.Number == 7 || c.Number == 8
		if c.Checked != 0 || (c.Note != "") != unseen {
			t.Errorf("check %d looked at %d things and notes %q", c.Number, c.Checked, c.Note)
		}
	}
}

// row gives the stored operation of a transfer.
func (w *world) row(key names.TransferKey, kind participantv1.OperationKind) *participantv1.StoredOperation {
	for _, p := range []names.Participant{alpha, beta} {
		for _, row := range w.books[p].rows {
			if row.Operation.TransferKey == string(key) && row.Operation.Kind == kind {
				return row
			}
		}
	}
	panic(fmt.Sprintf("no %s of %s", kind, key))
}

func (w *world) drop(key names.TransferKey, kinds ...participantv1.OperationKind) {
	for _, b := range w.books {
		b.rows = slices.DeleteFunc(b.rows, func(row *participantv1.StoredOperation) bool {
			return row.Operation.TransferKey == string(key) && slices.Contains(kinds, row.Operation.Kind)
		})
	}
}

func (w *world) find(key names.TransferKey) *saga.Saga {
	return &w.sagas[slices.IndexFunc(w.sagas, func(s saga.Saga) bool { return s.Key == key })]
}

var another = stepkey.StepKey{1, 2, 3, 4, 5, 6, 0x80, 8, 0x80}

// planted are errors put into a sound world by hand, with the checks that must
// name them, all others being silent, and the words that one finding must say.
var planted = []struct {
	name   string
	plant  func(w *world)
	checks []int
	words  []string
}{
	{"one unit off in a participant's sum", func(w *world) {
		w.books[alpha].tweak = func(s *participantv1.SumsResponse) { s.Currencies[0].Total = "1" }
	}, []int{1}, []string{"tenant shop", "alpha", "USD", "should sum to 0", "sum to 1"}},
	{"one unit off in a balance", func(w *world) {
		w.books[alpha].tweak = func(s *participantv1.SumsResponse) {
			s.Faults = append(s.Faults, &participantv1.AccountFault{
				Tenant: "shop", Account: "main", Currency: "USD", Balance: 4001, Lines: "4000"})
		}
	}, []int{1}, []string{"tenant shop", "account main at alpha", "40.01 USD", "4001", "lines sum to 4000"}},
	{"a sum that is no number", func(w *world) {
		w.books[alpha].tweak = func(s *participantv1.SumsResponse) { s.Currencies[0].Total = "" }
	}, []int{1}, []string{"no number"}},
	{"one unit off in clearing", func(w *world) {
		w.books[beta].tweak = func(s *participantv1.SumsResponse) { s.Clearing[0].Balance = "-3999" }
	}, []int{2}, []string{"tenant shop", "clearing between alpha and beta", "beta should hold -4000 and holds -3999"}},
	{"one unit off on both sides of clearing", func(w *world) {
		for p, balance := range map[names.Participant]string{alpha: "4001", beta: "-4001"} {
			w.books[p].tweak = func(s *participantv1.SumsResponse) {
				for _, c := range s.Clearing {
					if c.Participant != string(p) {
						c.Balance = balance
					}
				}
			}
		}
	}, []int{2}, []string{"alpha should hold 4000 and holds 4001; beta should hold -4000 and holds -4001"}},
	{"one unit off in a participant's clearing for itself", func(w *world) {
		w.books[alpha].tweak = func(s *participantv1.SumsResponse) {
			for _, c := range s.Clearing {
				if c.Participant == string(alpha) {
					c.Balance = "1"
				}
			}
		}
	}, []int{2}, []string{"tenant shop", "clearing of alpha for itself should hold the 0 minor units of USD", "but holds 1"}},
	{"a deposit with one line", func(w *world) { w.books[alpha].rows[0].Lines = w.books[alpha].rows[0].Lines[:1] },
		[]int{1}, []string{"tenant shop, transfer deposit", "alpha", "should sum to 0, but sum to 1000000"}},
	{"a missing line", func(w *world) {
		row := w.row("completed-1", credit)
		row.Lines = row.Lines[:1]
	}, []int{1, 2}, []string{"tenant shop, transfer completed-1", "beta", "should sum to 0, but sum to 4000"}},
	{"both lines missing", func(w *world) { w.row("completed-1", credit).Lines = nil },
		[]int{1, 2}, []string{"transfer completed-1", "should have changed main by 4000", "sum to 0"}},
	{"a doubled line", func(w *world) {
		row := w.row("completed-2", debit)
		row.Lines = append(row.Lines, row.Lines[0])
	}, []int{1}, []string{"transfer completed-2", "should sum to 0, but sum to -4000"}},
	{"both lines doubled", func(w *world) {
		row := w.row("completed-2", debit)
		row.Lines = append(row.Lines, row.Lines...)
	}, []int{1, 2}, []string{"transfer completed-2", "should have changed main by -4000", "sum to -8000"}},
	{"lines at another account", func(w *world) { w.row("completed-2", credit).Lines[0].Account = "thief" },
		[]int{1}, []string{"transfer completed-2", "should have changed main by 4000"}},
	{"a pair of lines too many", func(w *world) {
		row := w.row("completed-2", credit)
		row.Lines = append(row.Lines, &participantv1.Line{Account: "a", Currency: "USD", Amount: 1},
			&participantv1.Line{Account: "a", Currency: "USD", Amount: 1}, &participantv1.Line{Account: "b", Currency: "USD", Amount: -2})
	}, []int{1}, []string{"transfer completed-2", "nothing but main and clearing:alpha"}},
	{"a refused operation with lines", func(w *world) { w.row("refused", debit).Lines = w.row("completed-1", debit).Lines },
		[]int{1, 2}, []string{"transfer refused", "REFUSED", "2 lines"}},
	{"an applied operation that moved another amount", func(w *world) { w.row("completed-1", debit).Answer.AmountMoved = 3999 },
		[]int{1, 2}, []string{"transfer completed-1", "should have moved 40.00 USD", "39.99 USD"}},
	{"an outcome that is never stored", func(w *world) {
		w.row("refused", debit).Answer.Outcome = participantv1.Outcome_OUTCOME_KEY_REUSED
	}, []int{1, 5}, []string{"transfer refused", "stored as KEY_REUSED"}},
	{"a list that leaves something out", func(w *world) {
		w.books[alpha].tweak = func(s *participantv1.SumsResponse) { s.OperationCount++ }
	}, []int{1}, []string{"alpha counts", "but lists"}},
	{"a refund to suspense that the saga hides", func(w *world) { w.find("suspense").RefundToSuspense = false },
		[]int{5}, []string{"transfer suspense", "refund_to_suspense = true", "saga false"}},
	{"a missing credit", func(w *world) { w.drop("completed-1", credit) },
		[]int{2, 5}, []string{"transfer completed-1", "is COMPLETED", "4000 minor units of USD"}},
	{"credit and refund both", func(w *world) { w.refund(*w.find("completed-2"), true) },
		[]int{2, 4}, []string{"transfer completed-2", "-4000"}},
	{"a late credit after the refund", func(w *world) {
		w.drop("refunded", credit)
		w.credit(*w.find("refunded"), applied)
	}, []int{2, 4, 5}, []string{"transfer refunded"}},
	{"a saga ahead of its participants", func(w *world) { w.drop("completed-1", debit, credit) },
		[]int{5}, []string{"transfer completed-1", "debit should be APPLIED", "nothing stored at alpha"}},
	{"a refund that was lost", func(w *world) { w.drop("refunded", refund) },
		[]int{2, 5}, []string{"transfer refunded", "is REFUNDED", "4000"}},
	{"a refund before its credit was settled", func(w *world) { w.drop("refunded", credit) },
		[]int{5}, []string{"transfer refunded", "credit should be REFUSED or CANCELLED", "nothing stored at beta"}},
	{"a refusal that was lost", func(w *world) { w.drop("refused", debit) },
		[]int{5}, []string{"transfer refused", "debit should be REFUSED", "nothing stored at alpha"}},
	{"REFUSED with money moved", func(w *world) {
		w.drop("refused", debit)
		w.debit(*w.find("refused"), applied)
	}, []int{2, 5}, []string{"transfer refused", "is REFUSED", "4000"}},
	{"CANCELLED with money moved both ways", func(w *world) {
		w.drop("cancelled", debit, refund)
		w.debit(*w.find("cancelled"), applied)
		w.refund(*w.find("cancelled"), true)
	}, []int{5}, []string{"transfer cancelled", "debit should be CANCELLED", "APPLIED"}},
	{"a foreign debit", func(w *world) {
		w.debit(w.saga("foreign", saga.Debiting), applied)
		w.sagas = w.sagas[:len(w.sagas)-1]
	}, []int{5}, []string{"tenant shop, transfer foreign", "no saga", "debit at alpha moved 40.00 USD"}},
	{"a debit under a key of nobody's", func(w *world) {
		w.debit(*w.find("completed-1"), applied).Operation.Key = another.String()
	}, []int{2, 5}, []string{"transfer completed-1", "4000"}},
	{"a step applied at two participants", func(w *world) {
		s := *w.find("completed-1")
		w.books[beta].store(s, debit, applied, "beta/main", s.Destination)
	}, []int{2, 3, 5}, []string{"transfer completed-1"}},
	{"a step key applied for two transfers", func(w *world) {
		w.row("completed-1", debit).Operation.Key = w.row("completed-2", debit).Operation.Key
	}, []int{3, 5}, []string{"APPLIED 2 times", "transfer completed-1 at alpha", "transfer completed-2 at alpha"}},
	{"two refunds of one debit", func(w *world) {
		w.refund(*w.find("refunded"), true).Operation.Key = another.String()
	}, []int{2, 3, 5}, []string{"transfer refunded", "-4000"}},
	{"two refunds of one debit that moved nothing", func(w *world) {
		w.refund(*w.find("cancelled"), false).Operation.Key = another.String()
	}, []int{3}, []string{"transfer cancelled", "2 refunds", another.String()}},
	{"an operation listed twice", func(w *world) {
		w.books[beta].rows = append(w.books[beta].rows, w.row("refused-late", credit), w.row("completed-1", credit))
	}, []int{2, 3}, []string{"transfer completed-1"}},
	{"an event missing", func(w *world) { w.events = w.events[1:] },
		[]int{10}, []string{"transfer completed-1", "should have one final event, but has 0"}},
	{"an event doubled", func(w *world) {
		e := w.events[0]
		e.ID = another
		w.events = append(w.events, e)
	}, []int{10}, []string{"transfer completed-1", another.String(), "it should be " + stepkey.FinalEvent(tenant, "completed-1").String()}},
	{"an event of another type", func(w *world) { w.events[0].Type = string(saga.Refunded) },
		[]int{10}, []string{"transfer completed-1", "type REFUNDED", "is COMPLETED"}},
	{"an event of a saga that runs", func(w *world) {
		s := w.saga("running", saga.Debiting)
		s.State = saga.Completed
		w.event(s)
	}, []int{10}, []string{"transfer running", "type COMPLETED", "is DEBITING"}},
	{"an event without a saga", func(w *world) {
		w.event(saga.Saga{ID: saga.ID{Tenant: tenant, Key: "nobody"}, State: saga.Completed})
	}, []int{10}, []string{"transfer nobody", "not in the saga table"}},
	{"clearing for an unknown participant", func(w *world) {
		s := w.sagaBetween("stranger", saga.Crediting, "alpha/main", "gamma/main")
		w.debit(s, applied)
	}, []int{2}, []string{"tenant shop", "alpha", `"gamma"`, "not registered", "4000", "transfer stranger"}},
	{"a final saga of an unknown participant", func(w *world) {
		w.debit(w.sagaBetween("stranger", saga.Completed, "alpha/main", "gamma/main"), applied)
	}, []int{2, 5}, []string{"transfer stranger"}},
	{"an amount that differs from the saga", func(w *world) { w.find("completed-1").Amount = 4001 },
		[]int{5}, []string{"transfer completed-1", "amount should be 40.01 USD", "40.00 USD"}},
	{"an account that differs from the saga", func(w *world) { w.find("completed-1").Source = "alpha/other" },
		[]int{5}, []string{"transfer completed-1", `account should be other, but is "main"`}},
	{"a counterparty that differs from the saga", func(w *world) {
		w.row("completed-1", credit).Operation.Counterparty = "alpha/other"
	}, []int{5}, []string{"transfer completed-1", `counterparty should be alpha/main, but is "alpha/other"`}},
	{"a currency that differs from the saga", func(w *world) { w.find("completed-1").Currency = "EUR" },
		[]int{5}, []string{"transfer completed-1", "40.00 EUR", "40.00 USD"}},
	{"a running saga that credited without a debit", func(w *world) { w.credit(w.saga("running", saga.Crediting), applied) },
		[]int{2}, []string{"transfer running", "-4000"}},
	{"a line after a resolution", func(w *world) {
		s := w.saga("resolved", saga.Resolved)
		w.debit(s, applied)
		w.credit(s, applied).Answer.FirstTime = timestamppb.New(s.ProgressAt.Add(time.Second))
	}, []int{5}, []string{"transfer resolved", "RESOLVED", "credit at beta moved 40.00 USD later"}},
	{"a balance below its floor", func(w *world) {
		w.books[beta].tweak = func(s *participantv1.SumsResponse) {
			s.Faults = append(s.Faults, &participantv1.AccountFault{
				Tenant: "shop", Account: "main", Currency: "USD", Balance: -1, Lines: "-1"})
		}
	}, []int{9}, []string{"tenant shop", "account main at beta", "-0.01 USD", "floor of 0.00 USD"}},
}

func TestPlantedErrorsAreNamed(t *testing.T) {
	for _, c := range planted {
		t.Run(c.name, func(t *testing.T) {
			w := sound()
			c.plant(w)
			r := w.audit(t)
			if r.OK {
				t.Error("the report is OK")
			}
			var found []int
			var all []string
			for _, check := range r.Checks {
				if check.FindingCount > 0 {
					found = append(found, check.Number)
					all = append(all, check.Findings...)
				}
			}
			if !slices.Equal(found, c.checks) {
				t.Errorf("checks %v have findings, expected %v:\n%s", found, c.checks, strings.Join(all, "\n"))
			}
			says := func(finding string) bool {
				return !slices.ContainsFunc(c.words, func(word string) bool { return !strings.Contains(finding, word) })
			}
			if !slices.ContainsFunc(all, says) {
				t.Errorf("no finding says all of %q:\n%s", c.words, strings.Join(all, "\n"))
			}
		})
	}
}

func TestFindingsAreBounded(t *testing.T) {
	w := newWorld()
	for i := range FindingsMax + 20 {
		w.saga(names.TransferKey(fmt.Sprintf("lost-%03d", i)), saga.Completed)
	}
	check := w.audit(t).Checks[4]
	if len(check.Findings) != FindingsMax || check.FindingCount != 2*(FindingsMax+20) {
		t.Errorf("got %d findings of %d", len(check.Findings), check.FindingCount)
	}
	if !strings.Contains(check.Findings[0], "transfer lost-000") {
		t.Errorf("the first finding is %s", check.Findings[0])
	}
}

func TestC67TransfersUnderWayAreNoAlarm(t *testing.T) {
	w := sound()
	for i := range 100 {
		s := w.saga(names.TransferKey(fmt.Sprintf("running-%03d", i)), saga.Running[i%4])
		switch s.State {
		case saga.Debiting: // the answer may have been lost, and the credit sent
			w.debit(s, applied)
			if i%8 == 0 {
				w.credit(s, applied)
			}
		case saga.Crediting:
			w.debit(s, applied)
		case saga.Cancelling:
			w.debit(s, applied)
			w.credit(s, cancelled)
		case saga.Refunding:
			w.debit(s, applied)
			w.credit(s, refused)
			w.refund(s, true)
		}
	}
	r := w.audit(t)
	requireOK(t, r)
	if r.Pending != 100 || r.Transfers != 110 {
		t.Errorf("got %d pending of %d", r.Pending, r.Transfers)
	}
	// 25 are refunded and 13 credited; the others are in transit.
	if want := usd(62 * 4000); !maps.EqualFunc(r.InTransit, want, func(a, b *big.Int) bool { return a.Cmp(b) == 0 }) {
		t.Errorf("got %v in transit, expected %v", r.InTransit, want)
	}

	w.books[beta].tweak = func(s *participantv1.SumsResponse) { s.Clearing[0].Balance += "1" }
	if r := w.audit(t); r.OK || r.Checks[1].FindingCount != 1 {
		t.Errorf("a planted error among running transfers is not found: %v", r.Checks[1])
	}
}

func TestParkedStrayAndResolvedAreListedAndNoAlarm(t *testing.T) {
	w := sound()
	s := w.saga("parked", saga.Crediting)
	w.debit(s, applied)
	w.find("parked").Parked, w.find("parked").ParkReason = true, "beta answered KEY_REUSED"
	w.saga("slow", saga.Debiting)
	w.find("slow").Attention, w.find("slow").AttentionReason = true, "alpha is away"
	w.debit(w.saga("resolved", saga.Resolved), applied)
	// Somebody asked a participant directly; nothing moved.
	w.debit(w.saga("stray", saga.Debiting), refused)
	w.sagas = w.sagas[:len(w.sagas)-1]
	second := w.refund(*w.find("refunded"), false)
	second.Operation.Key, second.Answer.Outcome = another.String(), refused
	second.Operation.Account, second.Operation.Amount = "whatever", 1 // a refund's contents are not judged

	r := w.audit(t)
	requireOK(t, r)
	for number, words := range map[int][]string{
		2: {"RESOLVED sagas, settled apart, left 4000 minor units of USD"},
		5: {"transfer resolved: RESOLVED", "transfer stray: has no saga", "refund at alpha stands under key " + another.String()},
		8: {"running 2, of them parked 1, in need of attention 1", "transfer parked: parked in CREDITING: beta answered KEY_REUSED",
			"transfer slow: needs attention in DEBITING: alpha is away"},
	} {
		for _, word := range words {
			if said := said(r.Checks[number-1]); !strings.Contains(said, word) {
				t.Errorf("check %d does not say %q: %s", number, word, said)
			}
		}
	}
	if r.InTransit["USD"].Cmp(big.NewInt(4000)) != 0 {
		t.Errorf("got %v in transit", r.InTransit)
	}
}

// A refund under another key may have been the first: the saga's own is then
// REFUSED, ALREADY_REFUNDED, and the transfer is REFUNDED all the same.
func TestC06FirstRefundUnderAnotherKeyIsNoAlarm(t *testing.T) {
	w := sound()
	first := w.refund(*w.find("refunded"), true)
	own := w.row("refunded", refund)
	own.Answer.Outcome, own.Answer.AmountMoved, own.Lines = refused, 0, nil
	first.Operation.Key = another.String()
	requireOK(t, w.audit(t))
}

func TestBooksThatMoveAndRestAreReadAgain(t *testing.T) {
	w, reads := sound(), 0
	w.books[beta].onList = func() {
		if reads++; reads == 1 {
			w.completed("new-1")
			w.debit(w.saga("new-2", saga.Crediting), applied)
		}
	}
	r := w.audit(t)
	requireOK(t, r)
	if r.Moved || reads != 2 || r.Transfers != 12 || r.InTransit["USD"].Cmp(big.NewInt(4000)) != 0 {
		t.Errorf("moved %t after %d readings: %d transfers, %v in transit", r.Moved, reads, r.Transfers, r.InTransit)
	}
}

func TestBooksThatMoveAreNoAlarm(t *testing.T) {
	w := sound()
	n := 0
	// Transfers begin and end, each way, while the participants are read.
	move := func() {
		n++
		w.completed(names.TransferKey(fmt.Sprintf("new-%03d", n)))
		w.refunded(names.TransferKey(fmt.Sprintf("old-%03d", n)))
		s := w.sagaBetween(names.TransferKey(fmt.Sprintf("back-%03d", n)), saga.Completed, "beta/main", "alpha/main")
		w.debit(s, applied)
		w.credit(s, applied)
	}
	for i := range AttemptsMax {
		w.saga(names.TransferKey(fmt.Sprintf("ends-%d", i+1)), saga.Debiting)
		w.saga(names.TransferKey(fmt.Sprintf("runs-%d", i+1)), saga.Debiting)
	}
	w.books[alpha].onList = move
	reading := 0
	w.books[beta].onList = func() {
		reading++
		// Their debits are stored after alpha was read, their credits before beta is.
		for _, key := range []string{"ends", "runs"} {
			s := w.find(names.TransferKey(fmt.Sprintf("%s-%d", key, reading)))
			w.debit(*s, applied)
			w.credit(*s, applied)
			if key == "ends" {
				s.State = saga.Completed
				w.event(*s)
			}
		}
		move()
	}
	r := w.audit(t)
	requireOK(t, r)
	if heading := said(r.Checks[1]); !r.Moved || !strings.Contains(heading, "books moved while they were read") {
		t.Errorf("moved %t, and check 2 says %s", r.Moved, heading)
	}
	if n != 2*AttemptsMax {
		t.Errorf("the books were moved %d times", n)
	}
}

// A saga that began and ended after the table was read has its event stored
// after the events were read, and some of its operations after the participants.
func TestSagaThatEndsAfterTheReadingIsNoAlarm(t *testing.T) {
	w := newWorld()
	s := w.completed("new")
	b := NewBooks([]names.Participant{alpha, beta})
	b.AddOperation(alpha, w.row("new", debit))
	if ids := b.Unexplained(); !slices.Equal(ids, []saga.ID{s.ID}) {
		t.Fatalf("unexplained: %v", ids)
	}
	b.AddSaga(s, true)
	b.AddSums(alpha, &participantv1.SumsResponse{}, &participantv1.SumsResponse{OperationCount: 1})
	r := b.Report()
	requireOK(t, r)
	if !r.Moved || r.Transfers != 1 || r.Operations != 1 {
		t.Errorf("moved %t, %d transfers, %d operations", r.Moved, r.Transfers, r.Operations)
	}
}

// What was final when it was read is judged in full while others run.
func TestErrorsAreFoundWhileBooksMove(t *testing.T) {
	w := sound()
	w.drop("completed-1", credit)
	w.refund(*w.find("completed-2"), true)
	w.events = slices.DeleteFunc(w.events, func(e store.FinalEvent) bool { return e.Key == "refunded" })
	n := 0
	w.books[beta].onList = func() {
		n++
		w.debit(w.saga(names.TransferKey(fmt.Sprintf("new-%03d", n)), saga.Crediting), applied)
	}
	r := w.audit(t)
	for number, key := range map[int]string{2: "completed-1", 4: "completed-2", 5: "completed-1", 10: "refunded"} {
		if text := strings.Join(r.Checks[number-1].Findings, "\n"); !strings.Contains(text, "transfer "+key+":") {
			t.Errorf("check %d does not name %s: %s", number, key, text)
		}
	}
	if !r.Moved || r.OK {
		t.Errorf("moved %t, OK %t", r.Moved, r.OK)
	}
}

func TestUnreadableParticipantIsNamed(t *testing.T) {
	w := sound()
	away := errors.New("connection refused")
	w.books[beta].fail = away
	if _, err := Run(context.Background(), w.config()); !errors.Is(err, away) || !strings.Contains(err.Error(), "participant beta") {
		t.Errorf("got %v", err)
	}
}

func TestListThatDoesNotGoOnIsAnError(t *testing.T) {
	w := sound()
	cfg := w.config()
	cfg.Participants[beta] = stuck{w.books[beta]}
	if _, err := Run(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), "participant beta") {
		t.Errorf("got %v", err)
	}
}

func TestContextEndsTheAudit(t *testing.T) {
	w := sound()
	ctx, cancel := context.WithCancel(context.Background())
	w.books[beta].onList = cancel
	if _, err := Run(ctx, w.config()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestProgressAndPages(t *testing.T) {
	w := sound()
	cfg := w.config()
	rows := map[string]int64{}
	cfg.Progress = func(source string, n int64) { rows[source] = n }
	if _, err := Run(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"sagas": 10, "events": 10,
		"alpha": int64(len(w.books[alpha].rows)), "beta": int64(len(w.books[beta].rows))}
	if !maps.Equal(rows, want) {
		t.Errorf("got %v, expected %v", rows, want)
	}
	for _, size := range w.books[alpha].pageSizes {
		if size != pageSize {
			t.Errorf("a page of %d was asked for", size)
		}
	}
}

// The same world with its sagas in a real store.
func TestSoundWorldInARealStore(t *testing.T) {
	ctx, w := context.Background(), sound()
	table := mem.New(func() time.Time { return epoch })
	for _, s := range w.sagas {
		running := s
		running.State = saga.Debiting
		inserted, err := table.Insert(ctx, "me", []store.New{{Saga: running}})
		if err != nil {
			t.Fatal(err)
		}
		version, epoch := inserted[0].Saga.Version, inserted[0].Saga.Epoch
		if saved, err := table.Save(ctx, []store.Write{{Saga: s, FromVersion: version, FromEpoch: epoch,
			FromCreatedAt: inserted[0].Saga.CreatedAt}}); err != nil || !saved[0].OK {
			t.Fatal(saved, err)
		}
	}
	cfg := w.config()
	cfg.Store = table
	r, err := Run(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	requireOK(t, r)
	if r.Transfers != 10 {
		t.Errorf("got %d transfers", r.Transfers)
	}
}

// said is what a check says beside its findings.
// oldKey is a transfer key of an hour before the epoch.
const oldKey names.TransferKey = "019b80e0-0000-7000-8000-00000000000"

// archivedWorld is a sound one in which transfers of a key's age were archived by one
// participant, by the other, and by both.
func archivedWorld() *world {
	w := sound()
	for i, at := range [][]names.Participant{{alpha}, {beta}, {alpha, beta}} {
		paid, back := oldKey+names.TransferKey(fmt.Sprint(i)), oldKey+names.TransferKey(fmt.Sprint(i+5))
		w.completed(paid)
		w.refunded(back)
		for _, p := range at {
			w.books[p].archive(paid, epoch)
			w.books[p].archive(back, epoch)
		}
	}
	return w
}

func TestArchivedTransfersAreNoAlarm(t *testing.T) {
	r := archivedWorld().audit(t)
	requireOK(t, r)
	if heading := said(r.Checks[4]); !strings.Contains(heading, "6 transfers are older than what a participant has archived") {
		t.Errorf("check 5 says %s", heading)
	}
	if len(r.InTransit) != 0 || r.Moved {
		t.Errorf("%v in transit, moved %t", r.InTransit, r.Moved)
	}
}

func TestPlantedErrorsAreNamedBesideArchivedTransfers(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(*world)
		check int
		says  string
	}{
		"a line that was brought forward is lost": {func(w *world) {
			w.books[alpha].rows = slices.DeleteFunc(w.books[alpha].rows, func(o *participantv1.StoredOperation) bool {
				return o.Operation.Account == "clearing:beta"
			})
			w.books[alpha].tweak = func(s *participantv1.SumsResponse) { s.Clearing[0].Balance = "12345" }
		}, 2, "clearing between alpha and beta"},
		"younger operations are gone":  {func(w *world) { w.drop("completed-1", debit) }, 5, "completed-1"},
		"what is archived is not told": {func(w *world) { w.books[alpha].describe, w.books[beta].describe = nil, nil }, 5, string(oldKey)},
		"operations without a saga": {func(w *world) {
			w.debit(saga.New(saga.ID{Tenant: tenant, Key: oldKey + "9"}, w.sagas[0].Contents, false), applied)
		}, 5, "has no saga"},
	} {
		w := archivedWorld()
		c.plant(w)
		r := w.audit(t)
		if found := strings.Join(r.Checks[c.check-1].Findings, "; "); r.OK || !strings.Contains(found, c.says) {
			t.Errorf("%s: ok %t, check %d finds %s", name, r.OK, c.check, found)
		}
	}
}

// TestAnUnfinishedTransferThatIsArchivedIsTold: a participant must not have done so.
func TestAnUnfinishedTransferThatIsArchivedIsTold(t *testing.T) {
	w := sound()
	w.debit(w.saga(oldKey+"1", saga.Crediting), applied)
	w.books[alpha].archive(oldKey+"1", epoch)
	r := w.audit(t)
	if found := said(r.Checks[4]); !strings.Contains(found, string(oldKey)+"1") || !strings.Contains(found, "not final") {
		t.Errorf("check 5 says %s", found)
	}
}

// TestAMarkTellsThatBooksMoved: as many operations were archived as were stored.
func TestAMarkTellsThatBooksMoved(t *testing.T) {
	w, reads := archivedWorld(), 0
	w.books[alpha].onList = func() {
		if reads++; reads == 1 {
			w.books[alpha].describe.HighWaterMark++
		}
	}
	if r := w.audit(t); !r.OK || r.Moved || reads != 2 {
		t.Errorf("read %d times, moved %t, ok %t", reads, r.Moved, r.OK)
	}
}

func said(c Check) string { return c.Note + "; " + strings.Join(c.Information, "; ") }
