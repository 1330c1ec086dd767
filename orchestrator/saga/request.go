package saga

import (
	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/stepkey"
)

// Request is the operation that a step asks a participant for. Cancel and Refund
// carry the contents of what they name, so that the participant can compare.
type Request struct {
	Step        StepName
	Participant names.Participant
	Tenant      names.Tenant
	TransferKey names.TransferKey
	// OperationStep is the step whose key it is: a cancel names the credit's.
	OperationStep string
	Key           stepkey.StepKey
	Account       names.Account
	// Amount is in minor units.
	Amount       money.Minor
	Currency     money.Currency
	Counterparty names.AccountRef
	// DebitKey is set for a refund.
	DebitKey stepkey.StepKey
}

// Request gives the operation for a step. It is a function of the transfer alone:
// every attempt, of every replica, sends the same.
func (s Saga) Request(step StepName) Request {
	r := Request{Step: step, Participant: s.Participant(step), Tenant: s.Tenant, TransferKey: s.ID.Key,
		OperationStep: string(step), Key: s.StepKey(step), Amount: s.Amount, Currency: s.Currency}
	switch step {
	case StepDebit, StepRefund:
		r.Account, r.Counterparty = s.Source.Account(), s.Destination
	case StepCredit, StepCancel:
		r.Account, r.Counterparty = s.Destination.Account(), s.Source
	}
	if step == StepCancel {
		r.OperationStep = string(StepCredit)
	}
	if step == StepRefund {
		r.DebitKey = s.StepKey(StepDebit)
	}
	return r
}
