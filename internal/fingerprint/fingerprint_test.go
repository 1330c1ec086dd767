package fingerprint_test

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"giro/internal/fingerprint"
	"giro/internal/money"
	"giro/internal/names"
)

// golden vectors were computed by another program, in another language, from the
// written encoding. They never change: stored rows compare with them for ever.
var golden = []struct {
	source, destination names.AccountRef
	amount              money.Minor
	currency            money.Currency
	sum                 string
}{
	{"accounts/alice", "ledger/shop", 4000, "USD", "01654ab1d9436ac14891f4f1f88b90610f50c07b1ce270cac51694ce16718487a8"},
	{"accounts/alice", "ledger/shop", 4001, "USD", "01696ebbd47d842ef05b52b296419430c0bc02744caf130791ab941c0f662d6d2b"},
	{"ledger/shop", "accounts/alice", 4000, "USD", "01b3322cf1634d9f263839b6a1425254d382f76421927b73dd433f23eafa695aaf"},
	{"accounts/alice", "ledger/shop", 4000, "EUR", "015045ea1ce135c7edabcbdf83de2c46d317952b2be5ffe0a4a3c564842a555a9b"},
	{"accounts/alice", "ledger/shop", 500, "JPY", "01346dc441bb1f02d518127862a0b9fefa8a17b3c897e94dabfe284d72fde14553"},
	{"accounts/a", "l/b", money.AmountMax, "KWD", "01f66a541e8b355807d042ef0adc3577f9e458f2c142d777322a4d873fc98879a2"},
	{"accounts/alicel", "edger/shop", 4000, "USD", "01411903d45189001966ae6d44176e314eeb6f3d0f517797727490a86771b1aa7b"},
	{names.AccountRef("p/" + strings.Repeat("a", 63)), names.AccountRef("q/" + strings.Repeat("b", 63)), 1, "CLF", "01b6ef956bc595aaf77375934a028080198b9956ff7419e19c5ac6319c5e54107e"},
	{"", "", 0, "", "016bc0e3863cbbd05f48d84e48a8b82eab3374b61e1f7d5b067dcf628d65116c8d"},
	{"a/b", "c/d", -1, "USD", "015b41596be433d1d72030fe4936f7c0539181d90715486fde5b9be631e8e0b323"},
}

func TestC37C38GoldenFingerprints(t *testing.T) {
	for _, g := range golden {
		c := fingerprint.Contents{Source: g.source, Destination: g.destination, Amount: g.amount, Currency: g.currency}
		sum := fingerprint.Of(c)
		if got := hex.EncodeToString(sum[:]); got != g.sum {
			t.Errorf("%+v: %s, want %s", c, got, g.sum)
		}
		if sum[0] != byte(fingerprint.V1) {
			t.Errorf("%+v: version %d in front", c, sum[0])
		}
	}
}

// Two contents have one fingerprint exactly where no field differs, and Differing
// names each that does, in order.
func TestC35DifferingAndSumAgree(t *testing.T) {
	ref := rapid.SampledFrom([]names.AccountRef{"a/b", "a/bc", "ab/c", "a/b ", "A/b", ""})
	contents := rapid.Custom(func(t *rapid.T) fingerprint.Contents {
		return fingerprint.Contents{Source: ref.Draw(t, "source"), Destination: ref.Draw(t, "destination"),
			Amount:   money.Minor(rapid.SampledFrom([]int64{0, 10, 100, -10, 1 << 62}).Draw(t, "amount")),
			Currency: rapid.SampledFrom([]money.Currency{"USD", "EUR", "usd", ""}).Draw(t, "currency")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := contents.Draw(t, "a"), contents.Draw(t, "b")
		var want []string
		if a.Source != b.Source {
			want = append(want, "source")
		}
		if a.Destination != b.Destination {
			want = append(want, "destination")
		}
		if a.Amount != b.Amount {
			want = append(want, "amount")
		}
		if a.Currency != b.Currency {
			want = append(want, "currency")
		}
		if got := fingerprint.Differing(a, b); !slices.Equal(got, want) {
			t.Fatalf("%+v and %+v: %v, want %v", a, b, got, want)
		}
		if same := fingerprint.Of(a) == fingerprint.Of(b); same != (len(want) == 0) {
			t.Fatalf("%+v and %+v: same fingerprint %v", a, b, same)
		}
	})
}

func TestC35DifferingNamesOneField(t *testing.T) {
	first := fingerprint.Contents{Source: "accounts/a", Destination: "ledger/b", Amount: 10, Currency: "EUR"}
	for _, c := range []struct {
		field  string
		change func(*fingerprint.Contents)
	}{
		{"amount", func(c *fingerprint.Contents) { c.Amount = 1000 }},
		{"destination", func(c *fingerprint.Contents) { c.Destination = "ledger/c" }},
		{"source", func(c *fingerprint.Contents) { c.Source = "accounts/A" }},
		{"currency", func(c *fingerprint.Contents) { c.Currency = "USD" }},
	} {
		second := first
		c.change(&second)
		if got := fingerprint.Differing(first, second); !slices.Equal(got, []string{c.field}) {
			t.Errorf("%v, want %s", got, c.field)
		}
		if fingerprint.Of(first) == fingerprint.Of(second) {
			t.Errorf("another %s gives the same fingerprint", c.field)
		}
	}
	if got := fingerprint.Differing(first, first); len(got) != 0 {
		t.Errorf("the same contents differ in %v", got)
	}
}
