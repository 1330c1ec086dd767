package book

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"giro/internal/money"
	"giro/internal/names"
)

// Limits are what a participant takes. What exceeds them is Refused.
type Limits struct {
	// AmountMax is the largest amount of one debit, credit or deposit, minor
	// units.
	AmountMax money.Minor
}

// DefaultLimits take every amount that giro can move.
var DefaultLimits = Limits{AmountMax: money.AmountMax}

// ValidateIdentity judges what every operation needs, whatever else it carries:
// without it a key can neither be looked up nor stored.
func ValidateIdentity(o Operation) []Violation {
	var v []Violation
	if !o.Tenant.Valid() {
		v = append(v, Violation{"tenant", "must be " + names.PartGrammar})
	}
	if !o.TransferKey.Valid() {
		v = append(v, Violation{"transfer_key", "must be " + names.TransferKeyGrammar})
	}
	if o.Key.IsZero() {
		v = append(v, Violation{"key", "must be a UUID in canonical lower-case text"})
	}
	return append(v, validateStep(o)...)
}

func validateStep(o Operation) []Violation {
	switch o.Kind {
	case Debit, Credit, Refund, Open, Deposit, Freeze, Unfreeze, Close, Withdraw, SetTerms, SetHolder, Release, Journal, Reverse:
		if o.Step != o.Kind.String() {
			return []Violation{{"step", "must be " + o.Kind.String() + " for this operation"}}
		}
	case Cancel:
		if o.Step != Debit.String() && o.Step != Credit.String() {
			return []Violation{{"step", "must be debit or credit: only these can be cancelled"}}
		}
	default:
		return []Violation{{"kind", "must be a debit, credit, refund or cancel"}}
	}
	return nil
}

// ValidateContents judges the rest of an operation that may move money. Cancel
// and Refund are not judged by it: what cannot be done can still be undone.
func ValidateContents(o Operation, limits Limits) []Violation {
	switch o.Kind {
	case Cancel:
		return nil
	case Refund:
		if o.DebitKey.IsZero() {
			return []Violation{{"debit_key", "must be a UUID in canonical lower-case text"}}
		}
		if o.DebitKey == o.Key {
			return []Violation{{"debit_key", "must differ from the refund's own key"}}
		}
		return nil
	}
	if o.Kind == Journal || o.Kind == Reverse {
		return validateEntry(o)
	}
	var v []Violation
	if !o.Account.Valid() {
		v = append(v, Violation{"account", "must be " + names.PartGrammar})
	}
	v = append(v, validateDetails(o)...)
	switch o.Kind {
	case Freeze, Unfreeze, Close, SetTerms, SetHolder:
		return v
	case Release:
		if o.DebitKey.IsZero() {
			v = append(v, Violation{"debit_key", "must be a UUID in canonical lower-case text"})
		}
		return v
	}
	if !o.Currency.Known() {
		v = append(v, Violation{"currency", "must be an ISO 4217 code in upper case"})
	}
	if o.Kind == Open {
		return v
	}
	if o.Amount < 1 || o.Amount > limits.AmountMax {
		v = append(v, Violation{"amount", "must be 1 to 2^62, in minor units"})
	}
	switch {
	case external(o.Kind) && !names.Account(o.Counterparty).Valid():
		v = append(v, Violation{"external", "must be " + names.PartGrammar})
	case !external(o.Kind) && !o.Counterparty.Valid():
		v = append(v, Violation{"counterparty", "must be " + names.AccountRefGrammar})
	}
	if !o.DebitKey.IsZero() {
		v = append(v, Violation{"debit_key", "is for a refund only"})
	}
	return v
}

func validateEntry(o Operation) []Violation {
	v := append(validateDetails(o), validateLines(o.details().Lines)...)
	if !o.Currency.Known() {
		v = append(v, Violation{"currency", "must be an ISO 4217 code in upper case"})
	}
	if o.Kind == Reverse && o.DebitKey.IsZero() {
		v = append(v, Violation{"debit_key", "must be the key of a journal entry"})
	}
	return v
}

// external says whether the kind moves money between an account and the outside.
func external(k Kind) bool { return k == Deposit || k == Withdraw }

// Differing names the fields in which a request differs from what is stored
// under its key. asked is taken as the kind that it names: for Cancel, the
// step's.
func Differing(stored Stored, asked Operation) []string {
	kind := asked.Kind
	if kind == Cancel {
		kind = KindOfStep(asked.Step)
	}
	var fields []string
	differ := func(name string, different bool) {
		if different {
			fields = append(fields, name)
		}
	}
	differ("transfer_key", stored.TransferKey != asked.TransferKey)
	differ("step", stored.Step != asked.Step)
	differ("kind", stored.Kind != kind)
	if stored.Outcome == Cancelled {
		return fields // a tombstone matches any contents of its transfer key and step
	}
	asked = storable(asked)
	if kind == Release {
		asked.Currency = stored.Currency // the refund's, which the request does not name
	}
	differ("account", stored.Account != asked.Account)
	differ("amount", stored.Amount != asked.Amount)
	differ("currency", stored.Currency != asked.Currency)
	differ("counterparty", stored.Counterparty != asked.Counterparty)
	differ("debit_key", stored.DebitKey != asked.DebitKey)
	if stored.Details != asked.Details {
		fields = append(fields, differingDetails(stored.Operation, asked)...)
	}
	return fields
}

// differingDebit names the fields in which a Refund's contents differ from the
// debit that it names.
func differingDebit(debit Stored, refund Operation) []string {
	asked := refund
	asked.Kind, asked.Step, asked.Key, asked.DebitKey = Debit, Debit.String(), refund.DebitKey, debit.DebitKey
	return Differing(debit, asked)
}

// KindOfStep is the kind that is stored under a step's name, or 0.
func KindOfStep(step string) Kind {
	for _, k := range []Kind{Debit, Credit, Refund, Open, Deposit, Freeze, Unfreeze, Close, Withdraw, SetTerms, SetHolder, Release, Journal, JournalLine, Reverse, BroughtForward} {
		if k.String() == step {
			return k
		}
	}
	return 0
}

// storable gives the contents as a database can hold them. A Refund's are never
// validated, so a text that is too long, holds a NUL or is no UTF-8 is stored as its hash;
// what is within the grammar stands for itself.
func storable(o Operation) Operation {
	o.Account = names.Account(storableText(string(o.Account)))
	o.Currency = money.Currency(storableText(string(o.Currency)))
	o.Counterparty = names.AccountRef(storableText(string(o.Counterparty)))
	return o
}

func storableText(s string) string {
	if len(s) <= 2*names.PartLengthMax+1 && !strings.ContainsRune(s, 0) && utf8.ValidString(s) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}
