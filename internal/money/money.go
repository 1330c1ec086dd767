// Package money holds amounts: int64 minor units with an ISO 4217 code. There
// are no floats, and the exponent serves display alone. The package is pure.
package money

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
)

// Minor is an amount in minor units (cents, for USD).
type Minor int64

// AmountMax is the largest amount of one transfer, 2^62 minor units: the
// difference of a balance and an amount can then never leave 64 bits.
const AmountMax Minor = 1 << 62

// ErrTooLarge is Parse's where an amount is well written and above AmountMax.
var ErrTooLarge = errors.New("more than giro moves at once")

// Currency is an ISO 4217 code, upper case.
type Currency string

// Known says whether the currency is on the closed list.
func (c Currency) Known() bool {
	_, ok := exponents[c]
	return ok
}

// Exponent is the number of decimals shown for the currency; 0 if unknown.
func (c Currency) Exponent() int { return exponents[c] }

// Currencies lists the closed list in order.
func Currencies() []Currency {
	list := make([]Currency, 0, len(exponents))
	for c := range exponents {
		list = append(list, c)
	}
	sort.Slice(list, func(i, j int) bool { return list[i] < list[j] })
	return list
}

// Add gives a+b, and false where that leaves 64 bits.
func Add(a, b Minor) (Minor, bool) {
	if (b > 0 && a > math.MaxInt64-b) || (b < 0 && a < math.MinInt64-b) {
		return 0, false
	}
	return a + b, true
}

// Format shows an amount with the currency's decimals, as in "40.00 USD".
func Format(amount Minor, currency Currency) string {
	exponent := currency.Exponent()
	digits := strconv.FormatInt(int64(amount), 10)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	if exponent == 0 {
		return sign + digits + " " + string(currency)
	}
	if len(digits) <= exponent {
		digits = strings.Repeat("0", exponent-len(digits)+1) + digits
	}
	whole, part := digits[:len(digits)-exponent], digits[len(digits)-exponent:]
	return sign + whole + "." + part + " " + string(currency)
}

// Parse reads an amount as people write it ("40", "40.00") into minor units. It
// takes at most the currency's decimals, and neither signs, exponents nor
// separators.
func Parse(text string, currency Currency) (Minor, error) {
	if !currency.Known() {
		return 0, fmt.Errorf("currency %q is not an ISO 4217 code that giro takes", currency)
	}
	exponent := currency.Exponent()
	whole, part, hasPoint := strings.Cut(text, ".")
	if whole == "" || !allDigits(whole) || !allDigits(part) || (hasPoint && part == "") || len(part) > exponent {
		return 0, fmt.Errorf("amount %q: write digits with at most %d decimals for %s, as in %s",
			text, exponent, currency, strings.TrimSuffix(Format(12345, currency), " "+string(currency)))
	}
	value, err := strconv.ParseInt(whole+part+strings.Repeat("0", exponent-len(part)), 10, 64)
	if err != nil || Minor(value) > AmountMax {
		return 0, fmt.Errorf("amount %q is %w", text, ErrTooLarge)
	}
	return Minor(value), nil
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
