package render

import (
	"errors"
	"fmt"
	"io"
	"math/big"
	"sort"
	"strings"

	"giro/internal/money"
	adminv1 "giro/proto/giro/admin/v1"
)

// ErrNoVerdict is returned where an audit's stream ended before its verdict.
var ErrNoVerdict = errors.New("the audit's stream ended without a verdict")

// AuditStream is the reading side of an audit.
type AuditStream interface {
	Recv() (*adminv1.AuditResponse, error)
}

// Audit reads an audit to its end and writes every check and, last, the verdict
// line; before it, where there was nothing to check, what none says. Progress goes
// to progress, over and over on one line; nil: nowhere.
func Audit(w io.Writer, progress io.Writer, none string, stream AuditStream) (*adminv1.AuditVerdict, error) {
	var verdict *adminv1.AuditVerdict
	wrote, rows := false, false
	clear := func() {
		if wrote {
			fmt.Fprint(progress, "\r\x1b[K")
			wrote = false
		}
	}
	for {
		item, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			clear()
			return nil, err
		}
		switch {
		case item.GetProgress() != nil && progress != nil:
			p := item.GetProgress()
			fmt.Fprintf(progress, "\r\x1b[Kreading %s: %d", p.GetSource(), p.GetRows())
			wrote = true
		case item.GetCheck() != nil:
			clear()
			c := item.GetCheck()
			rows = rows || c.GetChecked() > 0 || c.GetFindingCount() > 0
			Check(w, c)
		case item.GetVerdict() != nil:
			verdict = item.GetVerdict()
		}
	}
	clear()
	if verdict == nil {
		return nil, ErrNoVerdict
	}
	if !rows && verdict.GetTransfers()+verdict.GetOperations() == 0 {
		fmt.Fprintln(w, none)
	}
	fmt.Fprintln(w, Verdict(verdict))
	return verdict, nil
}

// What an audit says of one invariant.
const (
	Holds  = "holds"
	Broken = "broken"
	// Unseen: this audit cannot see it, so it claims nothing.
	Unseen = "unseen"
)

// Result is what the audit says of the invariant.
func Result(c *adminv1.AuditCheck) string {
	switch {
	case c.GetFindingCount() > 0:
		return Broken
	case c.GetChecked() == 0 && c.GetNote() != "":
		return Unseen
	}
	return Holds
}

// Check writes one invariant with what was checked, and what was found.
func Check(w io.Writer, c *adminv1.AuditCheck) {
	result, checked := Result(c), fmt.Sprintf(" (%d checked)", c.GetChecked())
	switch result {
	case Broken:
		result = fmt.Sprintf("BROKEN %d times", c.GetFindingCount())
	case Unseen:
		checked = ""
	}
	fmt.Fprintf(w, "%2d  %-6s  %s%s\n", c.GetNumber(), result, c.GetTitle(), checked)
	if c.GetNote() != "" {
		fmt.Fprintf(w, "            %s\n", c.GetNote())
	}
	for _, information := range c.GetInformation() {
		fmt.Fprintf(w, "            %s\n", information)
	}
	for _, finding := range c.GetFindings() {
		fmt.Fprintf(w, "      %s\n", finding)
	}
	if more := c.GetFindingCount() - int64(len(c.GetFindings())); more > 0 {
		fmt.Fprintf(w, "      and %d more\n", more)
	}
}

// Verdict is the line that closes an audit.
func Verdict(v *adminv1.AuditVerdict) string {
	word := "OK"
	if !v.GetOk() {
		word = "FAILED"
	}
	return fmt.Sprintf("audit: %s (%d transfers, %d operations, in transit %s)",
		word, v.GetTransfers(), v.GetOperations(), inTransit(v.GetInTransit()))
}

func inTransit(amounts map[string]string) string {
	var list []string
	for currency, text := range amounts {
		if amount, ok := new(big.Int).SetString(text, 10); !ok || amount.Sign() != 0 {
			list = append(list, decimal(text, money.Currency(currency)))
		}
	}
	if len(list) == 0 {
		return "0"
	}
	sort.Strings(list)
	return strings.Join(list, ", ")
}

// decimal shows minor units that may not fit 64 bits.
func decimal(text string, currency money.Currency) string {
	digits, negative := strings.CutPrefix(text, "-")
	sign := ""
	if negative {
		sign = "-"
	}
	exponent := currency.Exponent()
	if exponent == 0 {
		return text + " " + string(currency)
	}
	if len(digits) <= exponent {
		digits = strings.Repeat("0", exponent-len(digits)+1) + digits
	}
	at := len(digits) - exponent
	return sign + digits[:at] + "." + digits[at:] + " " + string(currency)
}
