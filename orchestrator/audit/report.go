package audit

import (
	"fmt"
	"math/big"

	"giro/internal/money"
)

// FindingsMax bounds the findings and the information that a check holds; the
// counts go on.
const FindingsMax = 100

// Check is one invariant of docs/invariants.md with what was looked at.
type Check struct {
	Number int
	Title  string
	// Checked counts the things that were looked at.
	Checked int64
	// Findings say in words what breaks the invariant: at most FindingsMax, empty
	// when it holds.
	Findings     []string
	FindingCount int64
	// Note says what the audit cannot see of the invariant, or what it left out
	// this time; empty where there is nothing to say.
	Note string
	// Information names what somebody should know and what breaks nothing, such
	// as parked sagas: at most FindingsMax.
	Information      []string
	InformationCount int64
}

// Report is what an audit found.
type Report struct {
	// Checks are the ten invariants in order.
	Checks []Check
	// Transfers counts sagas, Pending those that are still running. Operations
	// counts stored debits, credits and refunds over all participants.
	Transfers, Operations, Pending int64
	// InTransit is what was debited and neither credited nor refunded, by
	// currency in minor units; a currency with nothing in transit is left out, and
	// so are RESOLVED sagas, which check 2 names apart.
	InTransit map[money.Currency]*big.Int
	// Moved: operations were stored while the books were read, each time that it
	// was tried. Check 2 then compared no clearing balances.
	Moved bool
	// OK: no invariant is broken in what was compared. Pending, parked and
	// resolved sagas do not make it false.
	OK bool
}

func (c *Check) find(format string, a ...any) {
	c.FindingCount++
	if len(c.Findings) < FindingsMax {
		c.Findings = append(c.Findings, fmt.Sprintf(format, a...))
	}
}

func (c *Check) inform(format string, a ...any) {
	c.InformationCount++
	if len(c.Information) < FindingsMax {
		c.Information = append(c.Information, fmt.Sprintf(format, a...))
	}
}

func (c *Check) note(format string, a ...any) {
	if c.Note != "" {
		c.Note += "; "
	}
	c.Note += fmt.Sprintf(format, a...)
}

var titles = [...]string{
	1:  "each participant's accounts sum to zero; each balance equals the sum of its lines; each entry balances",
	2:  "clearing accounts of any two participants hold what is in transit between them, transfer by transfer",
	3:  "at most one APPLIED operation per step key; at most one refund per debit",
	4:  "no transfer has both an APPLIED credit and a refund that moved money",
	5:  "final states agree with the participants' operations, field by field",
	6:  "a final state never changes; states only move along the table",
	7:  "every OK that a client saw is found again by its key",
	8:  "every saga that is not parked reaches a final state",
	9:  "no balance is below its floor",
	10: "every final saga has exactly one final event, and nothing else has one",
}

func newChecks() [len(titles)]Check {
	var checks [len(titles)]Check
	for number := 1; number < len(titles); number++ {
		checks[number].Number, checks[number].Title = number, titles[number]
	}
	checks[6].note("one reading cannot show it: the simulator and the store's compare-and-set do")
	checks[7].note("what clients saw is not stored: the simulator and the fault tests check it")
	return checks
}
