// Package render writes the services' messages for people: aligned, with true
// keys, and amounts with their currency's decimals.
package render

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"giro/internal/money"
	adminv1 "giro/proto/giro/admin/v1"
	transferv1 "giro/proto/giro/transfer/v1"
)

// Amount shows minor units, as in "40.00 USD".
func Amount(minor int64, currency string) string {
	return money.Format(money.Minor(minor), money.Currency(currency))
}

// State is a transfer's state without the enum's prefix.
func State(s transferv1.State) string { return strings.TrimPrefix(s.String(), "STATE_") }

// SagaState is a saga's state without the enum's prefix.
func SagaState(s adminv1.SagaState) string { return strings.TrimPrefix(s.String(), "SAGA_STATE_") }

// Final says that a public state never changes any more.
func Final(s transferv1.State) bool {
	return s != transferv1.State_STATE_PENDING && s != transferv1.State_STATE_UNSPECIFIED
}

// Instant is in UTC with milliseconds; "-" if it is unset.
func Instant(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().UTC().Format("2006-01-02T15:04:05.000Z")
}

// Became says in words what a transfer's state means for the money.
func Became(t *transferv1.Transfer) string {
	switch t.GetState() {
	case transferv1.State_STATE_PENDING:
		return "still being carried out"
	case transferv1.State_STATE_COMPLETED:
		return "debited and credited"
	case transferv1.State_STATE_REFUSED:
		return "the debit was refused, nothing moved"
	case transferv1.State_STATE_REFUNDED:
		if t.GetRefundToSuspense() {
			return "debited, and given back to the participant's suspense account"
		}
		return "debited, and given back"
	case transferv1.State_STATE_CANCELLED:
		return "stopped before anything moved"
	case transferv1.State_STATE_RESOLVED:
		return "settled by hand"
	}
	return "not known"
}

// Again says in words what a replay of this state has done.
func Again(s transferv1.State) string {
	switch s {
	case transferv1.State_STATE_REFUSED, transferv1.State_STATE_CANCELLED:
		return "the same answer as then"
	case transferv1.State_STATE_PENDING:
		return "it is the same transfer, still under way"
	}
	return "nothing moved again"
}

// Fields writes name and value pairs, aligned; empty values are left out.
func Fields(w io.Writer, pairs ...string) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(table, "%s\t%s\n", pairs[i], pairs[i+1])
		}
	}
	_ = table.Flush()
}

// Transfer writes one transfer.
func Transfer(w io.Writer, t *transferv1.Transfer) {
	state := State(t.GetState())
	if t.GetReason() != "" {
		state += ", " + t.GetReason()
	}
	Fields(w,
		"key", t.GetKey(),
		"state", state+" ("+Became(t)+")",
		"amount", Amount(t.GetAmount(), t.GetCurrency()),
		"from", t.GetSource(),
		"to", t.GetDestination(),
		"memo", t.GetMemo(),
		"metadata", pairs(t.GetMetadata()),
		"accepted", Instant(t.GetCreateTime()),
		"changed", Instant(t.GetUpdateTime()),
		"expires", known(t.GetExpireTime()))
}

// Saga writes one saga as a timeline: what was sent when, and what was answered.
func Saga(w io.Writer, s *adminv1.Saga) {
	t := s.GetTransfer()
	fmt.Fprintf(w, "%s  %s  %s -> %s\n", t.GetKey(), Amount(t.GetAmount(), t.GetCurrency()), t.GetSource(), t.GetDestination())
	state := SagaState(s.GetState())
	if t.GetReason() != "" {
		state += ", " + t.GetReason()
	}
	owner := ""
	if s.GetOwner() != "" {
		owner = fmt.Sprintf("%s (epoch %d)", s.GetOwner(), s.GetEpoch())
	}
	flags := ""
	if s.GetCancelAsked() {
		flags = "yes"
	}
	Fields(w,
		"tenant", s.GetTenant(),
		"state", state,
		"cancel asked", flags,
		"parked", flagged(s.GetParked(), s.GetParkReason()),
		"attention", flagged(s.GetNeedsAttention(), s.GetAttentionReason()),
		"accepted", Instant(t.GetCreateTime()),
		"changed", Instant(t.GetUpdateTime()),
		"next try", known(s.GetDueTime()),
		"owner", owner,
		"version", fmt.Sprint(s.GetVersion()))
	if len(s.GetSteps()) == 0 {
		fmt.Fprintln(w, "no step has been recorded yet")
		return
	}
	fmt.Fprintln(w)
	Steps(w, s)
}

// Steps writes the steps of a saga, one a line, in the order they were sent.
func Steps(w io.Writer, s *adminv1.Saga) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "STEP\tAT\tKEY\tATTEMPTS\tFIRST SENT\tANSWERED\tANSWER")
	for _, step := range s.GetSteps() {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", step.GetName(), step.GetParticipant(), step.GetKey(),
			step.GetAttempts(), Instant(step.GetFirstSentTime()), Instant(step.GetAnswerTime()),
			Answer(step, s.GetTransfer().GetCurrency()))
	}
	_ = table.Flush()
}

// Answer says in a few words what a step was answered.
func Answer(step *adminv1.Step, currency string) string {
	text := step.GetAnswer()
	switch {
	case text == "" && step.GetLastError() != "":
		return "unknown: " + step.GetLastError()
	case text == "":
		return "unknown"
	case step.GetName() == "cancel":
		text = "the credit is " + text
	}
	if step.GetReason() != "" {
		text += ", " + step.GetReason()
	}
	if step.GetAnswer() == "APPLIED" {
		text += ", " + Amount(step.GetAmountMoved(), currency)
	}
	if step.GetReplayed() {
		text += ", by an earlier attempt"
	}
	return text
}

// Since shows how long something took, in steps that people read.
func Since(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

func known(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return Instant(t)
}

func flagged(on bool, reason string) string {
	switch {
	case !on:
		return ""
	case reason == "":
		return "yes"
	}
	return reason
}

func pairs(m map[string]string) string {
	list := make([]string, 0, len(m))
	for k, v := range m {
		list = append(list, k+"="+v)
	}
	sort.Strings(list)
	return strings.Join(list, " ")
}
