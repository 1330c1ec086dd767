package server

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"giro/internal/participant/book"
	"giro/internal/stepkey"
	participantv1 "giro/proto/giro/participant/v1"
)

// TestNumbersOfBookAndProtoAgree pins what the mapping takes for granted.
func TestNumbersOfBookAndProtoAgree(t *testing.T) {
	outcomes := map[book.Outcome]participantv1.Outcome{
		0:              participantv1.Outcome_OUTCOME_UNSPECIFIED,
		book.Applied:   participantv1.Outcome_OUTCOME_APPLIED,
		book.Refused:   participantv1.Outcome_OUTCOME_REFUSED,
		book.Cancelled: participantv1.Outcome_OUTCOME_CANCELLED,
		book.KeyReused: participantv1.Outcome_OUTCOME_KEY_REUSED,
		book.Invalid:   participantv1.Outcome_OUTCOME_INVALID,
		book.NotFound:  participantv1.Outcome_OUTCOME_NOT_FOUND,
	}
	for ours, theirs := range outcomes {
		if int32(ours) != int32(theirs) {
			t.Errorf("%v is %d in the book", theirs, ours)
		}
	}
	for r := range book.Reason(20) {
		name, named := participantv1.RefusalReason_name[int32(r)]
		if named && r != 0 && name != "REFUSAL_REASON_"+r.String() {
			t.Errorf("reason %d is %s in the book and %s in the proto", r, r, name)
		}
		if !named && protoReason(r) != 0 {
			t.Errorf("reason %s has no name in the proto and is sent as %v", r, protoReason(r))
		}
	}
	for _, k := range []book.Kind{book.Debit, book.Credit, book.Refund, book.Cancel} {
		if kindOf(protoKind(k)) != k {
			t.Errorf("%s does not come back", k)
		}
	}
	for _, k := range []book.Kind{book.Open, book.Deposit, book.Freeze, book.Unfreeze, book.Close} {
		if protoKind(k) != participantv1.OperationKind_OPERATION_KIND_LOCAL || localKind(k.String()) != k {
			t.Errorf("%s is no local operation", k)
		}
	}
}

// TestEveryFieldOfAnOperationIsMapped fails for a field that the mapping forgets.
func TestEveryFieldOfAnOperationIsMapped(t *testing.T) {
	full := &participantv1.Operation{Kind: participantv1.OperationKind_OPERATION_KIND_REFUND, Tenant: "acme", TransferKey: "t", Step: "refund",
		Key: stepkey.Event("acme", stepkey.StepKey{1}).String(), Account: "a", Amount: 5, Currency: "USD", Counterparty: "b/c",
		DebitKey: stepkey.Event("acme", stepkey.StepKey{2}).String()}
	fields := full.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if !full.ProtoReflect().Has(fields.Get(i)) {
			t.Errorf("the example leaves out %s", fields.Get(i).Name())
		}
	}
	if back := toProto(fromProto(book.Refund, full)); !proto.Equal(full, back) {
		t.Errorf("there and back:\n%v\n%v", full, back)
	}
	answer := storedAnswer(book.Stored{Outcome: book.Refused, Operation: book.Operation{Key: stepkey.StepKey{1}, Amount: 1},
		AmountMoved: 1, BalanceAfter: 1, Reason: 8, DebitOutcome: 1, FirstRefundKey: stepkey.StepKey{1}, FirstRefundMoved: 1, ToSuspense: true})
	elsewhere := map[protoreflect.Name]bool{"first_time": true, "replayed": true, "differing_fields": true, "violations": true}
	fields = answer.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); !answer.ProtoReflect().Has(f) && !elsewhere[f.Name()] {
			t.Errorf("the answer leaves out %s", f.Name())
		}
	}
}
