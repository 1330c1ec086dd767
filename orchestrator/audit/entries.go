package audit

import (
	"maps"
	"math/big"
	"slices"

	"giro/internal/money"
	"giro/internal/names"
	participantv1 "giro/proto/giro/participant/v1"
)

// Accounts of the participants' own, as the wire names them.
const (
	clearingPrefix  = "clearing:"
	suspenseAccount = "suspense:refund"
)

// judgeSums looks at what a participant says of its own books (1 and 9).
func (b *Books) judgeSums(p names.Participant, sums *participantv1.SumsResponse) {
	check := &b.checks[1]
	for _, c := range sums.GetCurrencies() {
		check.Checked++
		b.checks[9].Checked += c.GetAccountCount()
		total, ok := new(big.Int).SetString(c.GetTotal(), 10)
		switch {
		case !ok:
			check.find("tenant %s: %s says that its accounts in %s sum to %q, which is no number",
				c.GetTenant(), p, c.GetCurrency(), c.GetTotal())
		case total.Sign() != 0:
			check.find("tenant %s: the accounts of %s in %s should sum to 0, but sum to %s minor units",
				c.GetTenant(), p, c.GetCurrency(), total)
		}
	}
	for _, f := range sums.GetFaults() {
		b.judgeFault(p, f)
	}
}

func (b *Books) judgeFault(p names.Participant, f *participantv1.AccountFault) {
	lines, ok := new(big.Int).SetString(f.GetLines(), 10)
	balance := amount(f.GetBalance(), f.GetCurrency())
	below := f.GetBalance() < f.GetFloor()
	switch {
	case !ok:
		b.checks[1].find("tenant %s: account %s at %s holds %s, but its lines sum to %q, which is no number",
			f.GetTenant(), f.GetAccount(), p, balance, f.GetLines())
	case lines.Cmp(big.NewInt(f.GetBalance())) != 0:
		b.checks[1].find("tenant %s: account %s at %s holds %s (%d minor units), but its lines sum to %s minor units",
			f.GetTenant(), f.GetAccount(), p, balance, f.GetBalance(), lines)
	case !below:
		b.checks[1].find("tenant %s: %s names account %s, which holds %s, as faulty",
			f.GetTenant(), p, f.GetAccount(), balance)
	}
	if below {
		b.checks[9].find("tenant %s: account %s at %s holds %s, which is below its floor of %s",
			f.GetTenant(), f.GetAccount(), p, balance, amount(f.GetFloor(), f.GetCurrency()))
	}
}

// judgeEntry looks at the lines of one stored operation: they sum to zero, only
// an APPLIED one has any, and they say what the operation says. It names the
// first fault: one wrong line is often several.
func (b *Books) judgeEntry(p names.Participant, stored *participantv1.StoredOperation) {
	check := &b.checks[1]
	check.Checked++
	o, answer := stored.GetOperation(), stored.GetAnswer()
	find := func(format string, a ...any) {
		check.find("tenant %s, transfer %s: %s %s at %s "+format,
			append([]any{o.GetTenant(), o.GetTransferKey(), o.GetStep(), o.GetKey(), p}, a...)...)
	}
	outcome := answer.GetOutcome()
	switch outcome {
	case applied:
	case refused, cancelled:
		if n := len(stored.GetLines()); n > 0 || answer.GetAmountMoved() != 0 {
			find("is %s and should have moved nothing, but has %d lines and says that it moved %s",
				word(outcome), n, amount(answer.GetAmountMoved(), o.GetCurrency()))
		}
		return
	default:
		find("is stored as %s; only APPLIED, REFUSED and CANCELLED are", word(outcome))
		return
	}
	sums, nets := addLines(stored.GetLines())
	for _, currency := range slices.Sorted(maps.Keys(sums)) {
		if sum := sums[currency]; sum.Sign() != 0 {
			find("has lines in %s that should sum to 0, but sum to %s minor units", currency, sum)
			return
		}
	}
	if _, protocol := steps[o.GetKind()]; !protocol {
		return // what a participant's own operations move is its own affair
	}
	judgeEffect(o, answer, nets, find)
}

// judgeEffect compares an applied operation's lines with what it says it did.
func judgeEffect(o *participantv1.Operation, answer *participantv1.Answer, nets map[posting]*big.Int, find func(string, ...any)) {
	moved := answer.GetAmountMoved()
	if moved != o.GetAmount() && (o.GetKind() != refund || moved != 0) {
		find("should have moved %s, but says that it moved %s",
			amount(o.GetAmount(), o.GetCurrency()), amount(moved, o.GetCurrency()))
		return
	}
	account := posting{o.GetAccount(), o.GetCurrency()}
	if answer.GetRefundToSuspense() {
		account.account = suspenseAccount
	}
	against := posting{clearingPrefix + string(names.AccountRef(o.GetCounterparty()).Participant()), o.GetCurrency()}
	change := big.NewInt(moved)
	if o.GetKind() == debit {
		change.Neg(change)
	}
	expected := map[posting]*big.Int{}
	if moved != 0 {
		expected[account], expected[against] = change, new(big.Int).Neg(change)
	}
	for _, at := range []posting{account, against} {
		if want, got := orZero(expected[at]), orZero(nets[at]); want.Cmp(got) != 0 {
			find("should have changed %s by %s minor units of %s, but its lines there sum to %s",
				at.account, want, at.currency, got)
			return
		}
	}
	for at, got := range nets {
		if at != account && at != against && got.Sign() != 0 {
			find("should have changed nothing but %s and %s, but has lines of %s at %s",
				account.account, against.account, got, at.account)
			return
		}
	}
}

// posting is an account in a currency.
type posting struct{ account, currency string }

func addLines(lines []*participantv1.Line) (sums map[string]*big.Int, nets map[posting]*big.Int) {
	sums, nets = map[string]*big.Int{}, map[posting]*big.Int{}
	for _, line := range lines {
		change := big.NewInt(line.GetAmount())
		at := posting{line.GetAccount(), line.GetCurrency()}
		sums[line.GetCurrency()] = change.Add(change, orZero(sums[line.GetCurrency()]))
		nets[at] = new(big.Int).Add(orZero(nets[at]), big.NewInt(line.GetAmount()))
	}
	return sums, nets
}

func orZero(n *big.Int) *big.Int {
	if n == nil {
		return new(big.Int)
	}
	return n
}

// amount shows minor units for people.
func amount(minor int64, currency string) string {
	return money.Format(money.Minor(minor), money.Currency(currency))
}

// word is an outcome in the protocol's words.
func word(o participantv1.Outcome) string {
	const prefix = "OUTCOME_"
	if name := o.String(); len(name) > len(prefix) && name[:len(prefix)] == prefix {
		return name[len(prefix):]
	}
	return o.String()
}
