package server

import (
	"crypto/sha256"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/stepkey"
	participantv1 "giro/proto/giro/participant/v1"
)

// noKind stands for a kind that no operation has. The book answers it as any
// other: KEY_REUSED under a known key, else INVALID.
const noKind book.Kind = 255

// kindOf gives the book's kind of a request, and zero for one that is not given.
// The participant's own kinds are listed and never accepted here.
func kindOf(kind participantv1.OperationKind) book.Kind {
	switch kind {
	case participantv1.OperationKind_OPERATION_KIND_UNSPECIFIED:
		return 0
	case participantv1.OperationKind_OPERATION_KIND_DEBIT:
		return book.Debit
	case participantv1.OperationKind_OPERATION_KIND_CREDIT:
		return book.Credit
	case participantv1.OperationKind_OPERATION_KIND_REFUND:
		return book.Refund
	case participantv1.OperationKind_OPERATION_KIND_CANCEL:
		return book.Cancel
	}
	return noKind
}

func protoKind(kind book.Kind) participantv1.OperationKind {
	switch kind {
	case book.Debit:
		return participantv1.OperationKind_OPERATION_KIND_DEBIT
	case book.Credit:
		return participantv1.OperationKind_OPERATION_KIND_CREDIT
	case book.Refund:
		return participantv1.OperationKind_OPERATION_KIND_REFUND
	case book.Cancel:
		return participantv1.OperationKind_OPERATION_KIND_CANCEL
	}
	return participantv1.OperationKind_OPERATION_KIND_LOCAL
}

// fromProto gives an operation as the book reads it. Malformed keys are not lost:
// a key becomes the zero key, which is INVALID; so does a refund's debit_key. On
// anything else a malformed debit_key becomes a key that is nobody's, so that it
// still differs from what is stored, and is still a violation.
func fromProto(kind book.Kind, o *participantv1.Operation) book.Operation {
	key, _ := stepkey.Parse(o.GetKey()) // the zero key if malformed
	return book.Operation{
		Kind:         kind,
		Tenant:       names.Tenant(o.GetTenant()),
		TransferKey:  names.TransferKey(o.GetTransferKey()),
		Step:         o.GetStep(),
		Key:          key,
		Account:      names.Account(o.GetAccount()),
		Amount:       money.Minor(o.GetAmount()),
		Currency:     money.Currency(o.GetCurrency()),
		Counterparty: names.AccountRef(o.GetCounterparty()),
		DebitKey:     debitKey(kind, o.GetDebitKey()),
	}
}

func debitKey(kind book.Kind, text string) stepkey.StepKey {
	key, err := stepkey.Parse(text)
	if text == "" || err == nil && !key.IsZero() || kind == book.Refund {
		return key
	}
	sum := sha256.Sum256([]byte(text))
	copy(key[:], sum[:])
	return key
}

// toProto gives an operation as it is stored.
func toProto(o book.Operation) *participantv1.Operation {
	return &participantv1.Operation{
		Kind:         protoKind(o.Kind),
		Tenant:       string(o.Tenant),
		TransferKey:  string(o.TransferKey),
		Step:         o.Step,
		Key:          keyText(o.Key),
		Account:      string(o.Account),
		Amount:       int64(o.Amount),
		Currency:     string(o.Currency),
		Counterparty: string(o.Counterparty),
		DebitKey:     keyText(o.DebitKey),
	}
}

// answerTo gives the book's answer with the request's own key and amount, as they
// were sent.
func answerTo(asked *participantv1.Operation, a book.Answer) *participantv1.Answer {
	out := storedAnswer(a.Stored)
	out.Key, out.Amount = asked.GetKey(), asked.GetAmount()
	out.Replayed = a.Replayed
	out.DifferingFields = a.Differing
	for _, v := range a.Violations {
		out.Violations = append(out.Violations, &participantv1.Violation{Field: v.Field, Description: v.Description})
	}
	return out
}

func storedAnswer(s book.Stored) *participantv1.Answer {
	return &participantv1.Answer{
		Outcome:           participantv1.Outcome(s.Outcome), // the same numbers, pinned by a test
		Key:               keyText(s.Key),
		Amount:            int64(s.Amount),
		AmountMoved:       int64(s.AmountMoved),
		BalanceAfter:      int64(s.BalanceAfter),
		FirstTime:         instant(s.FirstTime),
		Reason:            protoReason(s.Reason),
		DebitOutcome:      participantv1.Outcome(s.DebitOutcome),
		FirstRefundKey:    keyText(s.FirstRefundKey),
		FirstRefundAmount: int64(s.FirstRefundMoved),
		RefundToSuspense:  s.ToSuspense,
	}
}

// protoReason leaves out the reasons of a participant's own operations, which the
// protocol has no names for.
func protoReason(r book.Reason) participantv1.RefusalReason {
	if _, named := participantv1.RefusalReason_name[int32(r)]; named {
		return participantv1.RefusalReason(r)
	}
	return participantv1.RefusalReason_REFUSAL_REASON_UNSPECIFIED
}

func listedOperation(l store.Listed) *participantv1.StoredOperation {
	out := &participantv1.StoredOperation{Operation: toProto(l.Operation), Answer: storedAnswer(l.Stored)}
	out.Answer.Replayed = true
	for _, line := range l.Lines {
		out.Lines = append(out.Lines, &participantv1.Line{
			Account: string(line.Account), Currency: string(line.Currency), Amount: int64(line.Amount)})
	}
	return out
}

func sumsResponse(sums store.Sums) *participantv1.SumsResponse {
	out := &participantv1.SumsResponse{OperationCount: sums.OperationCount}
	for _, c := range sums.Currencies {
		out.Currencies = append(out.Currencies, &participantv1.CurrencySum{
			Tenant: string(c.Tenant), Currency: string(c.Currency), Total: c.Total, AccountCount: c.AccountCount})
	}
	for _, c := range sums.Clearing {
		out.Clearing = append(out.Clearing, &participantv1.ClearingSum{
			Tenant: string(c.Tenant), Currency: string(c.Currency), Participant: string(c.Participant), Balance: c.Balance})
	}
	for _, f := range sums.Faults {
		out.Faults = append(out.Faults, &participantv1.AccountFault{
			Tenant: string(f.Tenant), Account: string(f.Account.Account), Currency: string(f.Currency),
			Balance: int64(f.Balance), Lines: f.Lines, Floor: int64(f.Floor)})
	}
	return out
}

// keyText is empty for a key that is not there.
func keyText(k stepkey.StepKey) string {
	if k.IsZero() {
		return ""
	}
	return k.String()
}

func instant(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
