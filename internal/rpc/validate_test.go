package rpc_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"giro/internal/rpc"
	accountv1 "giro/proto/giro/account/v1"
	participantv1 "giro/proto/giro/participant/v1"
	transferv1 "giro/proto/giro/transfer/v1"
)

func goodTransfer() *transferv1.CreateTransferRequest {
	return &transferv1.CreateTransferRequest{Key: "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b",
		Source: "accounts/alice", Destination: "ledger/merchant", Amount: 4000, Currency: "USD",
		Memo: "rent, März", Metadata: map[string]string{"invoice": "2026-117"}, Expiry: durationpb.New(3600e9)}
}

func violations(t *testing.T, m proto.Message) map[string]string {
	t.Helper()
	list, err := rpc.Violations(m)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, v := range list {
		if v.Description == "" {
			t.Errorf("%s: no description", v.Field)
		}
		got[v.Field] = v.Description
	}
	return got
}

// TestC09C14C25C65Violations has one case for each rule; it names every field that must be
// named, and no other.
func TestC09C14C25C65Violations(t *testing.T) {
	cases := map[string]struct {
		change func(*transferv1.CreateTransferRequest)
		fields []string
	}{
		"good":                {func(*transferv1.CreateTransferRequest) {}, nil},
		"nothing set":         {func(r *transferv1.CreateTransferRequest) { proto.Reset(r) }, []string{"key", "source", "destination", "amount", "currency"}},
		"C14 empty key":       {func(r *transferv1.CreateTransferRequest) { r.Key = "" }, []string{"key"}},
		"C14 blank key":       {func(r *transferv1.CreateTransferRequest) { r.Key = "   " }, []string{"key"}},
		"long key":            {func(r *transferv1.CreateTransferRequest) { r.Key = strings.Repeat("k", 129) }, []string{"key"}},
		"key with newline":    {func(r *transferv1.CreateTransferRequest) { r.Key = "k\n" }, []string{"key"}},
		"C09 upper case":      {func(r *transferv1.CreateTransferRequest) { r.Source = "accounts/Alice" }, []string{"source"}},
		"C09 to itself":       {func(r *transferv1.CreateTransferRequest) { r.Destination = r.Source }, []string{"destination"}},
		"no slash":            {func(r *transferv1.CreateTransferRequest) { r.Source = "alice" }, []string{"source"}},
		"two slashes":         {func(r *transferv1.CreateTransferRequest) { r.Source = "a/b/c" }, []string{"source"}},
		"the book's own":      {func(r *transferv1.CreateTransferRequest) { r.Source = "accounts/suspense:refund" }, []string{"source"}},
		"amount 0":            {func(r *transferv1.CreateTransferRequest) { r.Amount = 0 }, []string{"amount"}},
		"amount -1":           {func(r *transferv1.CreateTransferRequest) { r.Amount = -1 }, []string{"amount"}},
		"amount min":          {func(r *transferv1.CreateTransferRequest) { r.Amount = math.MinInt64 }, []string{"amount"}},
		"amount 2^62":         {func(r *transferv1.CreateTransferRequest) { r.Amount = 1 << 62 }, nil},
		"amount 2^62+1":       {func(r *transferv1.CreateTransferRequest) { r.Amount = 1<<62 + 1 }, []string{"amount"}},
		"C25 lower case":      {func(r *transferv1.CreateTransferRequest) { r.Currency = "eur" }, []string{"currency"}},
		"C25 blank before":    {func(r *transferv1.CreateTransferRequest) { r.Currency = " EUR" }, []string{"currency"}},
		"C25 omitted":         {func(r *transferv1.CreateTransferRequest) { r.Currency = "" }, []string{"currency"}},
		"C24 not on the list": {func(r *transferv1.CreateTransferRequest) { r.Currency = "XXX" }, []string{"currency"}},
		"memo with NUL":       {func(r *transferv1.CreateTransferRequest) { r.Memo = "a\x00b" }, []string{"memo"}},
		"memo with ESC":       {func(r *transferv1.CreateTransferRequest) { r.Memo = "\x1b[31m" }, []string{"memo"}},
		"memo too long":       {func(r *transferv1.CreateTransferRequest) { r.Memo = strings.Repeat("é", 257) }, []string{"memo"}},
		"metadata value":      {func(r *transferv1.CreateTransferRequest) { r.Metadata["x"] = "\u0085" }, []string{`metadata["x"]`}},
		"metadata key":        {func(r *transferv1.CreateTransferRequest) { r.Metadata["a\tb"] = "v" }, []string{"metadata"}},
		"metadata empty key":  {func(r *transferv1.CreateTransferRequest) { r.Metadata[""] = "v" }, []string{`metadata[""]`}},
		"expiry 0":            {func(r *transferv1.CreateTransferRequest) { r.Expiry = durationpb.New(0) }, []string{"expiry"}},
		"expiry 1 ns":         {func(r *transferv1.CreateTransferRequest) { r.Expiry = durationpb.New(1) }, []string{"expiry"}},
		"expiry 300 years":    {func(r *transferv1.CreateTransferRequest) { r.Expiry = &durationpb.Duration{Seconds: 300 * 365 * 86400} }, []string{"expiry"}},
		"all at once": {func(r *transferv1.CreateTransferRequest) {
			r.Key, r.Amount, r.Currency, r.Memo, r.Destination = "", -1, "ABC", "\x00", r.Source
		}, []string{"key", "amount", "currency", "memo", "destination"}},
	}
	for name, c := range cases {
		r := goodTransfer()
		c.change(r)
		got := violations(t, r)
		for _, field := range c.fields {
			if _, named := got[field]; !named {
				t.Errorf("%s: %s is not named in %v", name, field, got)
			}
		}
		if len(got) != len(c.fields) {
			t.Errorf("%s: want %v, got %v", name, c.fields, got)
		}
	}
}

func TestViolationsWithinMessages(t *testing.T) {
	got := violations(t, &transferv1.CancelTransferRequest{Key: "k", Contents: &transferv1.TransferContents{
		Source: "a/b", Destination: "a/b", Amount: 1, Currency: "ABC"}})
	if len(got) != 2 || got["contents.currency"] == "" || got["contents.destination"] != "must differ from source" {
		t.Errorf("got %v", got)
	}
	if got := violations(t, &transferv1.CancelTransferRequest{Key: "k"}); len(got) != 0 {
		t.Errorf("contents may be left out, got %v", got)
	}
}

func TestViolationsAreInWords(t *testing.T) {
	got := violations(t, &accountv1.DepositRequest{})
	want := map[string]string{
		"key":      "must be 1 to 128 characters of A-Z a-z 0-9 . _ ~ : -",
		"account":  "must be 1 to 63 characters of a-z 0-9 . _ -, starting with a letter or digit",
		"external": "must be 1 to 63 characters of a-z 0-9 . _ -, starting with a letter or digit",
		"currency": "must be an ISO 4217 code that giro takes, in upper case",
		"amount":   "must be greater than or equal to 1 and less than or equal to 4611686018427387904",
	}
	for field, words := range want {
		if got[field] != words {
			t.Errorf("%s: %q, want %q", field, got[field], words)
		}
	}
}

// TestParticipantRequestsAreNotJudgedHere: what a participant says of an item
// stands inside an OK response.
func TestParticipantRequestsAreNotJudgedHere(t *testing.T) {
	bad := &participantv1.Operation{Kind: 99, Tenant: "A", Currency: "ABC", Account: "\x00", Amount: -1}
	for _, m := range []proto.Message{
		&participantv1.DebitRequest{Operation: bad}, &participantv1.ApplyRequest{Operations: []*participantv1.Operation{bad, bad}},
		&participantv1.GetOperationRequest{Operation: bad}, &participantv1.DebitRequest{}} {
		if got := violations(t, m); len(got) != 0 {
			t.Errorf("%T: %v", m, got)
		}
	}
}

func TestTextViolations(t *testing.T) {
	for _, bad := range []string{"\x00", "a\nb", "\x7f", "\u0085", "\x1b[0m"} {
		if v := rpc.TextViolations("memo", bad); len(v) != 1 || v[0].Field != "memo" {
			t.Errorf("%q: %v", bad, v)
		}
	}
	for _, good := range []string{"", "Miete März", "日本 \U0001F4B6"} {
		if v := rpc.TextViolations("memo", good); v != nil {
			t.Errorf("%q: %v", good, v)
		}
	}
}

func BenchmarkViolations(b *testing.B) {
	r := goodTransfer()
	for b.Loop() {
		if v, err := rpc.Violations(r); err != nil || len(v) > 0 {
			b.Fatal(v, err)
		}
	}
}

// TestAHugeMapCostsLittle: it is refused for its size, together with what else is
// wrong, and what it holds is not judged pair by pair.
func TestAHugeMapCostsLittle(t *testing.T) {
	metadata := map[string]string{}
	for i := range 200_000 {
		metadata[strconv.Itoa(i)] = "\x01"
	}
	request := &transferv1.CreateTransferRequest{Key: "", Source: "a/b", Destination: "c/d", Amount: 1, Currency: "USD", Metadata: metadata}
	list, err := rpc.Violations(request)
	if err != nil || len(list) > 3000 {
		t.Errorf("%d violations, %v", len(list), err)
	}
	fields := map[string]bool{}
	for _, v := range list {
		fields[v.Field] = true
	}
	if !fields["key"] || !fields["metadata"] {
		t.Error("the key or the map itself is not named")
	}
	if len(request.GetMetadata()) != len(metadata) {
		t.Error("the request was changed")
	}
}
