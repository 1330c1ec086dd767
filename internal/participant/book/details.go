package book

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"

	"giro/internal/money"
)

// Terms are what was agreed for an account. Amounts are minor units.
type Terms struct {
	// Overdraft is how far below zero the balance may fall.
	Overdraft money.Minor `json:"overdraft,omitempty"`
	// DebitMax is the most that one debit or withdrawal may take; 0: no limit of
	// its own.
	DebitMax money.Minor `json:"debit_max,omitempty"`
	// DayMax is the most that debits and withdrawals may take on one day, those
	// given back on the same day not counted; 0: no limit. What was taken before a
	// limit was agreed does not count.
	DayMax money.Minor `json:"day_max,omitempty"`
	// DayZone is the zone whose midnight ends the day, an IANA name; empty: UTC.
	DayZone string `json:"day_zone,omitempty"`
}

// Details are the contents that only a participant's own operations have.
type Details struct {
	// Terms are of Open and SetTerms.
	Terms Terms `json:"terms,omitzero"`
	// Holder is of Open and SetHolder: what is kept about an account's holder.
	Holder map[string]string `json:"holder,omitempty"`
	// Reason is of Freeze, Unfreeze and Release, for people.
	Reason string `json:"reason,omitempty"`
	// Actor is who asked for a Release. It is kept and not compared: whoever repeats
	// the call repeats the same one.
	Actor string `json:"actor,omitempty"`
	// Class is of Open.
	Class Class `json:"class,omitempty"`
	// Lines are of Journal and Reverse.
	Lines []EntryLine `json:"lines,omitempty"`
}

// String gives the one text that stands for these details; empty for none.
func (d Details) String() string {
	text, err := json.Marshal(d)
	if err != nil || string(text) == "{}" {
		return "" // maps of strings and numbers cannot fail
	}
	return string(text)
}

// Details reads an operation's text. One that is no such text has none.
func (o Operation) details() Details {
	var d Details
	if o.Details != "" && json.Unmarshal([]byte(o.Details), &d) != nil {
		return Details{}
	}
	return d
}

// Bounds of what is kept about an account.
const (
	ReasonBytesMax      = 256
	HolderPairsMax      = 16
	HolderNameBytesMax  = 64
	HolderValueBytesMax = 256
)

func validateDetails(o Operation) []Violation {
	if o.Details == "" {
		return nil
	}
	var v []Violation
	d := o.details()
	if o.Details != d.String() {
		return []Violation{{"details", "must be the text of this operation's details"}}
	}
	amount := func(field string, m money.Minor) {
		if m < 0 || m > money.AmountMax {
			v = append(v, Violation{field, "must be 0 to 2^62, in minor units"})
		}
	}
	amount("overdraft", d.Terms.Overdraft)
	amount("debit_max", d.Terms.DebitMax)
	amount("day_max", d.Terms.DayMax)
	if len(d.Terms.DayZone) > HolderNameBytesMax {
		v = append(v, Violation{"day_zone", "must be the name of a time zone"})
	}
	if len(d.Reason) > ReasonBytesMax || strings.ContainsFunc(d.Reason, unicode.IsControl) {
		v = append(v, Violation{"reason", "must be at most 256 bytes without control characters"})
	}
	if d.Class > Expense {
		v = append(v, Violation{"class", "must be a class of the chart of accounts"})
	}
	if len(d.Holder) > HolderPairsMax {
		v = append(v, Violation{"holder", "must have at most 16 pairs"})
	}
	for name, value := range d.Holder {
		if name == "" || len(name) > HolderNameBytesMax || len(value) > HolderValueBytesMax ||
			strings.ContainsFunc(name+value, unicode.IsControl) {
			v = append(v, Violation{"holder", "must have names of 1 to 64 bytes and values of at most 256, without control characters"})
			break
		}
	}
	return v
}

// differingDetails names the fields in which two texts of details differ. Another
// text of the same fields, as another version might write it, is no difference.
func differingDetails(a, b Operation) []string {
	x, y := a.details(), b.details()
	var fields []string
	differ := func(name string, different bool) {
		if different {
			fields = append(fields, name)
		}
	}
	differ("overdraft", x.Terms.Overdraft != y.Terms.Overdraft)
	differ("debit_max", x.Terms.DebitMax != y.Terms.DebitMax)
	differ("day_max", x.Terms.DayMax != y.Terms.DayMax)
	differ("day_zone", x.Terms.DayZone != y.Terms.DayZone)
	differ("holder", Details{Holder: x.Holder}.String() != Details{Holder: y.Holder}.String())
	differ("reason", x.Reason != y.Reason)
	differ("class", x.Class != y.Class)
	differ("lines", !slices.Equal(x.Lines, y.Lines))
	slices.Sort(fields)
	return fields
}

// day numbers the days of a zone, from 1970. Without a zone that is known, UTC's.
func day(t time.Time, zone *time.Location) int64 {
	if zone == nil {
		zone = time.UTC
	}
	y, m, d := t.In(zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / (24 * 60 * 60)
}

// HolderOf reads what is kept about an account's holder.
func (a Account) HolderOf() map[string]string {
	return Operation{Details: a.Holder}.details().Holder
}
