package saga_test

import (
	"fmt"
	"strings"
	"testing"

	"giro/orchestrator/saga"
)

var allStates = []saga.State{"DEBITING", "CREDITING", "CANCELLING", "REFUNDING", "COMPLETED", "REFUSED", "REFUNDED", "CANCELLED", "RESOLVED"}

// protocol restates the table of the protocol, written down apart from the
// code's. What a running state does not name parks it, "drop" changes nothing.
var protocol = map[saga.State]map[saga.On]string{
	"DEBITING": {
		"debit APPLIED":           "CREDITING",
		"debit REFUSED":           "REFUSED",
		"debit CANCELLED":         "CANCELLED",
		"cancel asked or expired": "CANCELLING",
		"INVALID":                 "CANCELLING",
	},
	"CREDITING": {
		"credit APPLIED":          "COMPLETED",
		"credit REFUSED":          "REFUNDING",
		"credit CANCELLED":        "REFUNDING",
		"cancel asked or expired": "CANCELLING",
		"INVALID":                 "CANCELLING",
	},
	"CANCELLING": {
		"cancel says APPLIED":     "COMPLETED",
		"cancel says CANCELLED":   "REFUNDING",
		"cancel says REFUSED":     "REFUNDING",
		"cancel asked or expired": "drop",
	},
	"REFUNDING": {
		"refund APPLIED, amount moved":                                             "REFUNDED",
		"refund APPLIED, nothing moved, the debit was REFUSED":                     "REFUSED",
		"refund APPLIED, nothing moved, the debit is CANCELLED":                    "CANCELLED",
		"refund REFUSED, ALREADY_REFUNDED, and the first moved the debit's amount": "REFUNDED",
		"cancel asked or expired":                                                  "drop",
	},
}

// everyRunning is what holds in all running states.
var everyRunning = map[saga.On]string{
	"unknown": "retry",
	"an answer to a step that the saga no longer awaits":               "drop",
	"KEY_REUSED, EXPIRED, another key or amount echoed, anything else": "park",
	"older than the largest age":                                       "park",
	"an operator unparks":                                              "unpark",
}

var final = map[saga.State]bool{"COMPLETED": true, "REFUSED": true, "REFUNDED": true, "CANCELLED": true, "RESOLVED": true}

// wantThen is what the protocol says of a state and a happening.
func wantThen(state saga.State, on saga.On) saga.Then {
	word := "park"
	switch {
	case final[state]:
		word = "drop"
	case protocol[state][on] != "":
		word = protocol[state][on]
	case everyRunning[on] != "":
		word = everyRunning[on]
	}
	switch word {
	case "park":
		return saga.Then{Next: state, Park: true}
	case "unpark":
		return saga.Then{Next: state, Unpark: true}
	case "retry":
		return saga.Then{Next: state, Retry: true}
	case "drop":
		return saga.Then{Next: state, Drop: true}
	}
	return saga.Then{Next: saga.State(word)}
}

func TestTableIsTheProtocolsAndTotal(t *testing.T) {
	known := map[saga.On]bool{}
	for _, on := range saga.Happenings {
		if known[on] {
			t.Errorf("%q is listed twice", on)
		}
		known[on] = true
	}
	for _, state := range allStates {
		if state.Final() != final[state] {
			t.Errorf("%s: final %v", state, state.Final())
		}
		for on := range protocol[state] {
			if !known[on] {
				t.Errorf("%q is not among the happenings", on)
			}
		}
		for _, on := range append([]saga.On{"", "what nobody thought of"}, saga.Happenings...) {
			if got, want := saga.Table(state, on), wantThen(state, on); got != want {
				t.Errorf("%s on %q: %+v, want %+v", state, on, got, want)
			}
		}
	}
	if got := fmt.Sprint(append(append([]saga.State{}, saga.Running...), saga.Finals...)); got != fmt.Sprint(allStates) {
		t.Errorf("the states are %s", got)
	}
	if len(saga.Happenings) != 20 {
		t.Errorf("%d happenings: the restated table does not know them all", len(saga.Happenings))
	}
}

// A refund is owed only after the credit's key said no.
func TestNoWayToRefundingButTheCreditsNo(t *testing.T) {
	no := map[saga.On]bool{saga.CreditRefused: true, saga.CreditCancelled: true, saga.CancelRefused: true, saga.CancelCancelled: true}
	for _, state := range allStates {
		for _, on := range saga.Happenings {
			then := saga.Table(state, on)
			if then.Next == saga.Refunding && state != saga.Refunding && !no[on] {
				t.Errorf("%s on %q leads to REFUNDING", state, on)
			}
			if state == saga.Debiting && then.Next == saga.Refunding {
				t.Errorf("DEBITING on %q leads to REFUNDING", on)
			}
			if then.Next == saga.Resolved && state != saga.Resolved {
				t.Errorf("%s on %q is RESOLVED without an operator", state, on)
			}
			if ways := count(then.Park, then.Unpark, then.Drop, then.Retry); ways > 1 || (ways == 1) != (then.Next == state) {
				t.Errorf("%s on %q: %+v", state, on, then)
			}
		}
	}
}

func count(flags ...bool) int {
	n := 0
	for _, f := range flags {
		if f {
			n++
		}
	}
	return n
}

func TestMarkdownIsStableAndTotal(t *testing.T) {
	text := saga.Markdown()
	if text != saga.Markdown() {
		t.Fatal("printed twice, it differs")
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != 2+len(allStates)*len(saga.Happenings) || lines[0] != "| state | on | next |" || lines[1] != "| --- | --- | --- |" {
		t.Fatalf("%d lines, headed %q", len(lines), lines[:2])
	}
	for i, line := range lines[2:] {
		state, on := allStates[i/len(saga.Happenings)], saga.Happenings[i%len(saga.Happenings)]
		then := wantThen(state, on)
		next := string(then.Next)
		switch {
		case then.Drop:
			next = "no change"
		case then.Retry:
			next = "the same state, the same key, after a backoff"
		case then.Park:
			next = "parked, in " + next
		case then.Unpark:
			next = "the same state, tried again"
		case final[then.Next]:
			next += ", final"
		}
		if want := fmt.Sprintf("| %s | %s | %s |", state, on, next); line != want {
			t.Errorf("line %d is %q, want %q", i+3, line, want)
		}
	}
}
