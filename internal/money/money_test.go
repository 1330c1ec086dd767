package money_test

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"giro/internal/money"
)

// iso4217 restates ISO 4217's list one by number of decimals, written down apart
// from the code's own list.
var iso4217 = map[int]string{
	0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
	2: `AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN BZD
		CAD CDF CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP
		GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT
		LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN
		NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB
		SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS
		UAH USD USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG`,
	3: "BHD IQD JOD KWD LYD OMR TND",
	4: "CLF UYW",
}

func TestC24TheListIsISO4217(t *testing.T) {
	want := map[money.Currency]bool{}
	for exponent, codes := range iso4217 {
		for _, code := range strings.Fields(codes) {
			c := money.Currency(code)
			want[c] = true
			if !c.Known() || c.Exponent() != exponent {
				t.Errorf("%s: known %v with %d decimals, want %d", c, c.Known(), c.Exponent(), exponent)
			}
		}
	}
	list := money.Currencies()
	for i, c := range list {
		if !want[c] {
			t.Errorf("%s is on the list, but not on ISO 4217's", c)
		}
		if i > 0 && list[i-1] >= c {
			t.Errorf("%s and %s are not in order", list[i-1], c)
		}
	}
	if len(list) != len(want) {
		t.Errorf("%d currencies, want %d", len(list), len(want))
	}
}

func TestC25UnknownCurrencies(t *testing.T) {
	for _, c := range []money.Currency{"", "eur", "Eur", " EUR", "EUR ", "EU", "EURO", "EUR\x00", "\u0415UR",
		"XXX", "XTS", "XAU", "XAG", "XPT", "XPD", "XDR", "XBA", "XSU", "XUA", "DEM", "HRK", "SLL", "ZWL", "CUC", "ANG", "BTC", "840"} {
		if c.Known() {
			t.Errorf("%q is taken as a currency", c)
		}
		if c.Exponent() != 0 {
			t.Errorf("%q has %d decimals", c, c.Exponent())
		}
		if amount, err := money.Parse("1", c); err == nil {
			t.Errorf("1 %q is read as %d", c, amount)
		}
	}
}

func TestC24Format(t *testing.T) {
	for _, c := range []struct {
		amount   money.Minor
		currency money.Currency
		want     string
	}{
		{500, "JPY", "500 JPY"}, {1234, "KWD", "1.234 KWD"}, {4000, "USD", "40.00 USD"}, {1, "CLF", "0.0001 CLF"},
		{0, "JPY", "0 JPY"}, {0, "USD", "0.00 USD"}, {5, "USD", "0.05 USD"}, {99, "USD", "0.99 USD"}, {100, "USD", "1.00 USD"},
		{-1, "KWD", "-0.001 KWD"}, {-1234, "USD", "-12.34 USD"}, {-7, "JPY", "-7 JPY"},
		{9007199254740993, "USD", "90071992547409.93 USD"},
		{math.MaxInt64, "CLF", "922337203685477.5807 CLF"}, {math.MinInt64, "USD", "-92233720368547758.08 USD"},
		{math.MinInt64, "JPY", "-9223372036854775808 JPY"}, {12, "XXX", "12 XXX"},
	} {
		if got := money.Format(c.amount, c.currency); got != c.want {
			t.Errorf("Format(%d, %s) = %q, want %q", c.amount, c.currency, got, c.want)
		}
	}
}

func TestC24C27Parse(t *testing.T) {
	for _, c := range []struct {
		text     string
		currency money.Currency
		want     money.Minor
	}{
		{"500", "JPY", 500}, {"1.234", "KWD", 1234}, {"1234", "KWD", 1234000}, {"40", "USD", 4000}, {"40.0", "USD", 4000},
		{"40.00", "USD", 4000}, {"0.01", "USD", 1}, {"0", "USD", 0}, {"90071992547409.93", "USD", 9007199254740993},
		{"46116860184273879.04", "USD", money.AmountMax}, {"4611686018427387904", "JPY", money.AmountMax},
	} {
		if got, err := money.Parse(c.text, c.currency); err != nil || got != c.want {
			t.Errorf("Parse(%q, %s) = %d, %v, want %d", c.text, c.currency, got, err, c.want)
		}
	}
	for _, c := range []struct {
		text     string
		currency money.Currency
	}{
		{"", "USD"}, {" ", "USD"}, {".", "USD"}, {"1.", "USD"}, {".5", "USD"}, {"1.234", "USD"}, {"1.0", "JPY"}, {"1.", "JPY"},
		{"-1", "USD"}, {"+1", "USD"}, {"1e3", "USD"}, {"1E3", "USD"}, {"0x10", "USD"}, {"1,000", "USD"}, {"1_000", "USD"},
		{"1 000", "USD"}, {" 1", "USD"}, {"1 ", "USD"}, {"1.2.3", "USD"}, {"NaN", "USD"}, {"Inf", "USD"}, {"\u0661", "USD"},
		{"1\x00", "USD"}, {"46116860184273879.05", "USD"}, {"4611686018427387905", "JPY"}, {"9223372036854775808", "JPY"},
		{"92233720368547758.08", "USD"}, {"922337203685477.5808", "CLF"}, {strings.Repeat("9", 1000), "USD"},
	} {
		if got, err := money.Parse(c.text, c.currency); err == nil {
			t.Errorf("Parse(%q, %s) = %d, want a refusal", c.text, c.currency, got)
		}
	}
}

func TestParseReadsWhatFormatWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		currency := rapid.SampledFrom(money.Currencies()).Draw(t, "currency")
		amount := money.Minor(rapid.Int64Range(0, int64(money.AmountMax)).Draw(t, "amount"))
		text, found := strings.CutSuffix(money.Format(amount, currency), " "+string(currency))
		if !found {
			t.Fatalf("Format(%d, %s) does not end with the currency", amount, currency)
		}
		if got, err := money.Parse(text, currency); err != nil || got != amount {
			t.Fatalf("Parse(%q, %s) = %d, %v, want %d", text, currency, got, err, amount)
		}
	})
}

func TestAddAgainstBigIntegers(t *testing.T) {
	edges := []int64{math.MinInt64, math.MinInt64 + 1, -1 << 62, -1, 0, 1, 1 << 62, math.MaxInt64 - 1, math.MaxInt64}
	number := rapid.OneOf(rapid.SampledFrom(edges), rapid.Int64())
	rapid.Check(t, func(t *rapid.T) {
		checkAdd(t, number.Draw(t, "a"), number.Draw(t, "b"))
	})
	for _, a := range edges {
		for _, b := range edges {
			checkAdd(t, a, b)
		}
	}
}

func checkAdd(t interface{ Fatal(...any) }, a, b int64) {
	sum := new(big.Int).Add(big.NewInt(a), big.NewInt(b))
	got, ok := money.Add(money.Minor(a), money.Minor(b))
	if ok != sum.IsInt64() || (ok && int64(got) != sum.Int64()) {
		t.Fatal(fmt.Sprintf("Add(%d, %d) = %d, %v, want %s", a, b, got, ok, sum))
	}
}
