package saga_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"giro/internal/fingerprint"
	"giro/internal/money"
	"giro/internal/stepkey"
	"giro/orchestrator/saga"
)

const amount = 4000

var (
	id       = saga.ID{Tenant: "acme", Key: "order-1"}
	contents = fingerprint.Contents{Source: "accounts/alice", Destination: "ledger/shop", Amount: amount, Currency: "USD"}
	accepted = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now      = accepted.Add(time.Minute)
)

var allSteps = []saga.StepName{saga.StepDebit, saga.StepCredit, saga.StepCancel, saga.StepRefund}

// at is a saga that stands in a state.
func at(state saga.State) saga.Saga {
	s := saga.New(id, contents, false)
	s.State, s.CreatedAt, s.ProgressAt = state, accepted, accepted
	return s
}

// honest is an answer that echoes what it should.
func honest(s saga.Saga, step saga.StepName, outcome saga.Outcome) saga.Answer {
	a := saga.Answer{Outcome: outcome, Key: s.StepKey(step), Amount: s.Amount}
	if outcome == saga.OutcomeApplied {
		a.AmountMoved, a.DebitOutcome = s.Amount, saga.OutcomeApplied
	}
	return a
}

// wantDecision restates, answer by answer, what the protocol leads to.
func wantDecision(s saga.Saga, step saga.StepName, a saga.Answer) saga.Then {
	stay, park := saga.Then{Next: s.State, Drop: true}, saga.Then{Next: s.State, Park: true}
	awaited := map[saga.State]saga.StepName{"DEBITING": "debit", "CREDITING": "credit", "CANCELLING": "cancel", "REFUNDING": "refund"}
	if s.Parked || final[s.State] || awaited[s.State] != step {
		return stay
	}
	if a.Outcome == "" {
		return saga.Then{Next: s.State, Retry: true}
	}
	derived := map[saga.StepName]string{"debit": "debit", "credit": "credit", "cancel": "credit", "refund": "refund"}
	if a.Key != stepkey.Derive(1, "acme", "order-1", derived[step]) || a.Amount != amount {
		return park
	}
	if a.Outcome != "APPLIED" && a.AmountMoved != 0 {
		return park // it contradicts itself
	}
	next := map[string]saga.State{
		"DEBITING APPLIED": "CREDITING", "DEBITING REFUSED": "REFUSED", "DEBITING CANCELLED": "CANCELLED", "DEBITING INVALID": "CANCELLING",
		"CREDITING APPLIED": "COMPLETED", "CREDITING REFUSED": "REFUNDING", "CREDITING CANCELLED": "REFUNDING", "CREDITING INVALID": "CANCELLING",
		"CANCELLING APPLIED": "COMPLETED", "CANCELLING REFUSED": "REFUNDING", "CANCELLING CANCELLED": "REFUNDING",
	}[string(s.State)+" "+string(a.Outcome)]
	switch {
	case next != "" && a.Outcome == "APPLIED" && a.AmountMoved != amount:
		return park
	case next != "":
		return saga.Then{Next: next}
	case s.State != "REFUNDING":
		return park
	}
	nothing := a.Outcome == "APPLIED" && a.AmountMoved == 0 && !s.DebitApplied
	switch {
	case a.Outcome == "APPLIED" && a.AmountMoved == amount && a.DebitOutcome == "APPLIED":
		return saga.Then{Next: "REFUNDED"}
	case nothing && a.DebitOutcome == "REFUSED":
		return saga.Then{Next: "REFUSED"}
	case nothing && a.DebitOutcome == "CANCELLED":
		return saga.Then{Next: "CANCELLED"}
	case a.Outcome == "REFUSED" && a.Reason == "ALREADY_REFUNDED" && a.FirstRefundMoved == amount:
		return saga.Then{Next: "REFUNDED"}
	}
	return park
}

// forAllAnswers calls f with every combination of what an answer may hold.
func forAllAnswers(s saga.Saga, step saga.StepName, f func(saga.Answer)) {
	outcomes := []saga.Outcome{"", "APPLIED", "REFUSED", "CANCELLED", "KEY_REUSED", "INVALID", "EXPIRED", "NOT_FOUND", "applied"}
	for _, outcome := range outcomes {
		for _, k := range []stepkey.StepKey{s.StepKey(step), {1}} {
			for _, echoed := range []money.Minor{s.Amount, s.Amount + 1} {
				for _, moved := range []money.Minor{0, s.Amount, -s.Amount} {
					for _, reason := range []string{"INSUFFICIENT_FUNDS", "ALREADY_REFUNDED"} {
						for _, debit := range []saga.Outcome{"", "APPLIED", "REFUSED", "CANCELLED"} {
							for _, first := range []money.Minor{0, s.Amount} {
								f(saga.Answer{Outcome: outcome, Key: k, Amount: echoed, AmountMoved: moved, Reason: reason,
									DebitOutcome: debit, FirstRefundMoved: first, ToSuspense: true, Error: "no route", Detail: "detail"})
							}
						}
					}
				}
			}
		}
	}
}

func TestDecideEveryAnswerInEveryState(t *testing.T) {
	for _, state := range allStates {
		for _, parked := range []bool{false, true} {
			for _, debitApplied := range []bool{false, true} {
				s := at(state)
				s.Parked, s.DebitApplied = parked, debitApplied
				for _, step := range append([]saga.StepName{"", "other"}, allSteps...) {
					if parked || s.Awaits() != step { // a few stand for all that is dropped
						for _, outcome := range []saga.Outcome{"", "APPLIED", "REFUSED", "CANCELLED", "KEY_REUSED", "INVALID", "EXPIRED"} {
							checkDecision(t, s, step, honest(s, step, outcome))
							checkDecision(t, s, step, saga.Answer{Outcome: outcome})
						}
						continue
					}
					forAllAnswers(s, step, func(a saga.Answer) { checkDecision(t, s, step, a) })
				}
			}
		}
	}
}

func checkDecision(t *testing.T, s saga.Saga, step saga.StepName, a saga.Answer) {
	next, then := saga.Decide(s, step, a, now)
	if want := wantDecision(s, step, a); then != want {
		t.Fatalf("%s, parked %v, debit applied %v, %s answered %+v:\n%+v, want %+v", s.State, s.Parked, s.DebitApplied, step, a, then, want)
	}
	if then.Drop {
		if !reflect.DeepEqual(next, s) {
			t.Fatalf("dropped, but %+v became %+v", s, next)
		}
		return
	}
	record, found := next.Step(step)
	switch {
	case next.State != then.Next || next.Parked != then.Park || (next.ParkReason != "") != then.Park:
		t.Fatalf("%+v led to %+v", then, next)
	case !found || record.Key != s.StepKey(step) || record.Name != step:
		t.Fatalf("the step is recorded as %+v", record)
	case a.Outcome == "" && (record.LastError != a.Error || record.Outcome != "" || !record.AnsweredAt.IsZero()):
		t.Fatalf("no answer is recorded as %+v", record)
	case a.Outcome != "" && (record.Outcome != string(a.Outcome) || record.LastError != "" || !record.AnsweredAt.Equal(now) || record.AmountMoved != a.AmountMoved):
		t.Fatalf("%+v is recorded as %+v", a, record)
	case (next.State != s.State) != next.ProgressAt.Equal(now):
		t.Fatalf("from %s to %s, progress at %s", s.State, next.State, next.ProgressAt)
	case next.DebitApplied != (s.DebitApplied || s.State == saga.Debiting && next.State == saga.Crediting):
		t.Fatalf("debit applied %v, from %+v", next.DebitApplied, s)
	case len(s.Steps) != 0:
		t.Fatal("the saga that was given has changed")
	}
}

func TestDecideSaysWhyItParks(t *testing.T) {
	for name, c := range map[string]struct {
		state  saga.State
		step   saga.StepName
		change func(*saga.Answer)
		words  string
	}{
		"another key":          {saga.Debiting, saga.StepDebit, func(a *saga.Answer) { a.Key = stepkey.StepKey{1} }, "another key"},
		"another amount":       {saga.Crediting, saga.StepCredit, func(a *saga.Answer) { a.Amount = 1 }, "another amount, 1"},
		"moved too little":     {saga.Crediting, saga.StepCredit, func(a *saga.Answer) { a.AmountMoved = 1 }, "moved 1"},
		"refused, but moved":   {saga.Crediting, saga.StepCredit, func(a *saga.Answer) { a.Outcome = saga.OutcomeRefused }, "moved 4000"},
		"key reused":           {saga.Crediting, saga.StepCredit, func(a *saga.Answer) { a.Outcome, a.AmountMoved, a.Detail = saga.OutcomeKeyReused, 0, "account" }, "KEY_REUSED: account"},
		"expired":              {saga.Cancelling, saga.StepCancel, func(a *saga.Answer) { a.Outcome, a.AmountMoved = saga.OutcomeExpired, 0 }, "EXPIRED"},
		"invalid cancel":       {saga.Cancelling, saga.StepCancel, func(a *saga.Answer) { a.Outcome, a.AmountMoved, a.Detail = saga.OutcomeInvalid, 0, "step" }, "INVALID: step"},
		"invalid refund":       {saga.Refunding, saga.StepRefund, func(a *saga.Answer) { a.Outcome, a.AmountMoved, a.Detail = saga.OutcomeInvalid, 0, "debit_key" }, "INVALID: debit_key"},
		"refund moved nothing": {saga.Refunding, saga.StepRefund, func(a *saga.Answer) { a.AmountMoved, a.DebitOutcome = 0, saga.OutcomeCancelled }, "moved nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			s := at(c.state)
			s.DebitApplied = c.state != saga.Debiting
			a := honest(s, c.step, saga.OutcomeApplied)
			c.change(&a)
			next, then := saga.Decide(s, c.step, a, now)
			if !then.Park || !next.Parked || next.State != c.state || !strings.Contains(next.ParkReason, c.words) {
				t.Errorf("%+v, because %q, want words with %q", then, next.ParkReason, c.words)
			}
			if !saga.MustSaveBefore(s, next) {
				t.Error("parked without being saved")
			}
		})
	}
}

func TestReasonsForTheClient(t *testing.T) {
	refused := func(s saga.Saga, step saga.StepName, reason string) saga.Answer {
		a := honest(s, step, saga.OutcomeRefused)
		a.Reason = reason
		return a
	}
	s, _ := saga.Decide(at(saga.Debiting), saga.StepDebit, refused(at(saga.Debiting), saga.StepDebit, "INSUFFICIENT_FUNDS"), now)
	if s.State != saga.Refused || s.Reason != "INSUFFICIENT_FUNDS" {
		t.Errorf("a refused debit: %s, %s", s.State, s.Reason)
	}

	// A refused credit: the refund keeps the credit's reason.
	s, _ = saga.Decide(at(saga.Crediting), saga.StepCredit, refused(at(saga.Crediting), saga.StepCredit, "ACCOUNT_CLOSED"), now)
	back := honest(s, saga.StepRefund, saga.OutcomeApplied)
	back.ToSuspense = true
	s, _ = saga.Decide(s, saga.StepRefund, back, now)
	if s.State != saga.Refunded || s.Reason != "ACCOUNT_CLOSED" || !s.RefundToSuspense {
		t.Errorf("a refused credit: %s, %s, to suspense %v", s.State, s.Reason, s.RefundToSuspense)
	}

	// Stopped, but it had happened: completed, without a reason.
	for _, reason := range []string{saga.ReasonCancelAsked, saga.ReasonExpired} {
		s, then := saga.DecideStop(at(saga.Crediting), reason, now)
		if s.State != saga.Cancelling || s.Reason != reason || then.Drop {
			t.Errorf("stopped: %s, %s, %+v", s.State, s.Reason, then)
		}
		done, _ := saga.Decide(s, saga.StepCancel, honest(s, saga.StepCancel, saga.OutcomeApplied), now)
		if done.State != saga.Completed || done.Reason != "" {
			t.Errorf("stopped too late: %s, %s", done.State, done.Reason)
		}
		undone, _ := saga.Decide(s, saga.StepCancel, honest(s, saga.StepCancel, saga.OutcomeCancelled), now)
		undone, _ = saga.Decide(undone, saga.StepRefund, honest(s, saga.StepRefund, saga.OutcomeApplied), now)
		if undone.State != saga.Refunded || undone.Reason != reason {
			t.Errorf("stopped in time: %s, %s", undone.State, undone.Reason)
		}
	}

	invalid, _ := saga.Decide(at(saga.Crediting), saga.StepCredit, honest(s, saga.StepCredit, saga.OutcomeInvalid), now)
	if invalid.State != saga.Cancelling || invalid.Reason != saga.ReasonInvalid {
		t.Errorf("INVALID: %s, %s", invalid.State, invalid.Reason)
	}
	for state, step := range map[saga.State]saga.StepName{saga.Debiting: saga.StepDebit, saga.Crediting: saga.StepCredit} {
		s, _ := saga.Decide(at(state), step, honest(at(state), step, saga.OutcomeCancelled), now)
		if s.Reason != saga.ReasonCancelAsked {
			t.Errorf("%s CANCELLED: %s", step, s.Reason)
		}
	}
}

func TestDecideStopAndTooOld(t *testing.T) {
	for _, state := range allStates {
		for _, parked := range []bool{false, true} {
			s := at(state)
			s.Parked = parked
			for name, c := range map[string]struct {
				decide func() (saga.Saga, saga.Then)
				want   saga.Then
			}{
				"stop": {func() (saga.Saga, saga.Then) { return saga.DecideStop(s, saga.ReasonExpired, now) }, wantThen(state, saga.Stop)},
				"age":  {func() (saga.Saga, saga.Then) { return saga.DecideTooOld(s, "old", now) }, wantThen(state, saga.TooOld)},
			} {
				next, then := c.decide()
				if parked || c.want.Drop {
					if !then.Drop || !reflect.DeepEqual(next, s) {
						t.Errorf("%s, %s, parked %v: %+v", name, state, parked, then)
					}
					continue
				}
				if then != c.want || next.State != c.want.Next || next.Parked != c.want.Park || !saga.MustSaveBefore(s, next) {
					t.Errorf("%s, %s: %+v, %+v", name, state, then, next)
				}
			}
		}
	}
}

func TestMustSaveBefore(t *testing.T) {
	for _, from := range allStates {
		for _, to := range allStates {
			want := from != to && !(from == "DEBITING" && to == "CREDITING")
			if got := saga.MustSaveBefore(at(from), at(to)); got != want {
				t.Errorf("from %s to %s: %v", from, to, got)
			}
			parked := at(to)
			parked.Parked = true
			if !saga.MustSaveBefore(at(from), parked) || !saga.MustSaveBefore(parked, at(from)) {
				t.Errorf("from %s to a parked %s need not be saved", from, to)
			}
		}
	}
}

func TestProgressEndsAttention(t *testing.T) {
	s := at(saga.Debiting)
	s.Attention, s.AttentionReason = true, "it takes long"
	unknown, _ := saga.Decide(s, saga.StepDebit, saga.Answer{Error: "refused"}, now)
	if !unknown.Attention || unknown.AttentionReason != "it takes long" {
		t.Errorf("no answer: %+v", unknown)
	}
	next, _ := saga.Decide(s, saga.StepDebit, honest(s, saga.StepDebit, saga.OutcomeApplied), now)
	if next.Attention || next.AttentionReason != "" {
		t.Errorf("progress: %+v", next)
	}
}

func TestStepsKeysAndParticipants(t *testing.T) {
	s := saga.New(id, contents, false)
	if s.State != saga.Debiting || s.CancelAsked || s.Reason != "" || s.Fingerprint != fingerprint.Of(contents) {
		t.Errorf("new: %+v", s)
	}
	c := saga.New(id, contents, true)
	if c.State != saga.Cancelling || !c.CancelAsked || c.Reason != saga.ReasonCancelAsked {
		t.Errorf("cancelled before it was asked for: %+v", c)
	}
	if s.StepKey(saga.StepCancel) != s.StepKey(saga.StepCredit) {
		t.Error("a cancel names another key than the credit's")
	}
	for step, derived := range map[saga.StepName]string{"debit": "debit", "credit": "credit", "cancel": "credit", "refund": "refund"} {
		if got, want := s.StepKey(step), stepkey.Derive(stepkey.V1, "acme", "order-1", derived); got != want {
			t.Errorf("the key of %s is %s, want %s", step, got, want)
		}
		who := "ledger"
		if step == "debit" || step == "refund" {
			who = "accounts"
		}
		if got := s.Participant(step); string(got) != who {
			t.Errorf("%s is asked of %s, want %s", step, got, who)
		}
	}
	first := s.WithStep(saga.Step{Name: "debit", Attempts: 1}).WithStep(saga.Step{Name: "credit", Attempts: 1})
	second := first.WithStep(saga.Step{Name: "debit", Attempts: 2})
	attempts := func(s saga.Saga) (list []int64) {
		for _, step := range s.Steps {
			list = append(list, step.Attempts)
		}
		return list
	}
	if !slices.Equal(attempts(first), []int64{1, 1}) || !slices.Equal(attempts(second), []int64{2, 1}) || len(s.Steps) != 0 {
		t.Errorf("steps: %v, then %v", attempts(first), attempts(second))
	}
}

// TestASuspendedRefundIsToldWhateverTellsOfIt: the refund's own answer, or that of
// a later one which found it done.
func TestASuspendedRefundIsToldWhateverTellsOfIt(t *testing.T) {
	for _, answer := range []saga.Answer{
		{Outcome: saga.OutcomeApplied, AmountMoved: 40, DebitOutcome: saga.OutcomeApplied, ToSuspense: true},
		{Outcome: saga.OutcomeRefused, Reason: "ALREADY_REFUNDED", FirstRefundMoved: 40, ToSuspense: true},
	} {
		s := saga.New(saga.ID{"t", "k"}, fingerprint.Contents{Source: "a/x", Destination: "b/y", Amount: 40, Currency: "USD"}, false)
		s.State = saga.Refunding
		answer.Key, answer.Amount = s.StepKey(saga.StepRefund), s.Amount
		if s, _ = saga.Decide(s, saga.StepRefund, answer, time.Time{}); s.State != saga.Refunded || !s.RefundToSuspense {
			t.Errorf("%+v: %s, to suspense %v", answer, s.State, s.RefundToSuspense)
		}
	}
}
