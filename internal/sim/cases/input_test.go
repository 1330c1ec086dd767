package cases

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"giro/internal/rpc"
	adminv1 "giro/proto/giro/admin/v1"
	transferv1 "giro/proto/giro/transfer/v1"
)

type creating = transferv1.CreateTransferRequest

// hostile requests, and the fields that the answer must name, all of them.
var hostile = map[string]struct {
	change func(*creating)
	fields string
}{
	"C65 nothing set":             {func(r *creating) { proto.Reset(r) }, "amount currency destination key source"},
	"C14 no key":                  {func(r *creating) { r.Key = "" }, "key"},
	"C14 blank key":               {func(r *creating) { r.Key = "   " }, "key"},
	"key of 129":                  {func(r *creating) { r.Key = strings.Repeat("k", 129) }, "key"},
	"key with a newline":          {func(r *creating) { r.Key = "k\n" }, "key"},
	"key with NUL":                {func(r *creating) { r.Key = "k\x00" }, "key"},
	"account with NUL":            {func(r *creating) { r.Source = "accounts/al\x00ice" }, "source"},
	"account with ESC":            {func(r *creating) { r.Destination = "ledger/\x1b[2J" }, "destination"},
	"C08 amount 0":                {func(r *creating) { r.Amount = 0 }, "amount"},
	"C08 amount -1":               {func(r *creating) { r.Amount = -1 }, "amount"},
	"C08 smallest amount":         {func(r *creating) { r.Amount = math.MinInt64 }, "amount"},
	"largest amount":              {func(r *creating) { r.Amount = math.MaxInt64 }, "amount"},
	"C24 unknown currency":        {func(r *creating) { r.Currency = "XXX" }, "currency"},
	"C25 lower-case currency":     {func(r *creating) { r.Currency = "usd" }, "currency"},
	"C25 blank before":            {func(r *creating) { r.Currency = " USD" }, "currency"},
	"C25 no currency":             {func(r *creating) { r.Currency = "" }, "currency"},
	"C09 to itself":               {func(r *creating) { r.Destination = r.Source }, "destination"},
	"C09 to itself in upper case": {func(r *creating) { r.Destination = "accounts/ALICE" }, "destination"},
	"unknown participant":         {func(r *creating) { r.Source = "bank/alice" }, "source"},
	"two unknown participants":    {func(r *creating) { r.Source, r.Destination = "bank/a", "bank/b" }, "destination source"},
	"clearing account":            {func(r *creating) { r.Destination = "ledger/clearing:accounts" }, "destination"},
	"expiry 0":                    {func(r *creating) { r.Expiry = durationpb.New(0) }, "expiry"},
	"negative expiry":             {func(r *creating) { r.Expiry = durationpb.New(-time.Hour) }, "expiry"},
	"expiry 1 ns":                 {func(r *creating) { r.Expiry = durationpb.New(1) }, "expiry"},
	"expiry 300 years":            {func(r *creating) { r.Expiry = &durationpb.Duration{Seconds: 300 * 365 * 86400} }, "expiry"},
	"expiry beyond a duration":    {func(r *creating) { r.Expiry = &durationpb.Duration{Seconds: math.MaxInt64} }, "expiry"},
	"expiry with nanos of no use": {func(r *creating) { r.Expiry = &durationpb.Duration{Seconds: 5, Nanos: math.MinInt32} }, "expiry"},
	"17 metadata pairs":           {func(r *creating) { r.Metadata = pairs(17) }, "metadata"},
	"memo of 513":                 {func(r *creating) { r.Memo = strings.Repeat("m", 513) }, "memo"},
	"memo of 1 MiB":               {func(r *creating) { r.Memo = strings.Repeat("m", 1<<20) }, "memo"},
	"memo with NUL":               {func(r *creating) { r.Memo = "a\x00b" }, "memo"},
	"unknown participant and more": {func(r *creating) { r.Destination, r.Amount, r.Currency = "bank/bob", 0, "usd" },
		"amount currency destination"},
	"everything at once": {func(r *creating) {
		r.Key, r.Source, r.Destination, r.Amount, r.Currency = "", "bank/a", "x", -1, "XXX"
		r.Memo, r.Metadata, r.Expiry = "\x00", pairs(17), durationpb.New(0)
	}, "amount currency destination expiry key memo metadata source"},
}

func pairs(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("k%d", i)] = "v"
	}
	return m
}

// named lists the fields that an error names, each once, sorted; empty if it is
// no INVALID_ARGUMENT of giro's.
func named(err error) string {
	if status.Code(err) != codes.InvalidArgument {
		return ""
	}
	seen := map[string]bool{}
	var fields []string
	for _, v := range rpc.FieldViolations(err) {
		if !seen[v.Field] {
			seen[v.Field] = true
			fields = append(fields, v.Field)
		}
	}
	return strings.Join(sorted(fields), " ")
}

// TestC08C09C14C24C25C65BadInput: every violation is named, and nothing is left
// behind, neither a saga nor an operation.
func TestC08C09C14C24C25C65BadInput(t *testing.T) {
	c := newCluster(t, memory)
	r := c.replica()
	for name, h := range hostile {
		request := pay("bad", 500)
		h.change(request)
		_, err := r.transfers.CreateTransfer(within(t, patient), request)
		if got := named(err); got != h.fields {
			t.Errorf("create, %s: named %q, want %q: %v", name, got, h.fields, err)
		}
		cancel := &transferv1.CancelTransferRequest{Key: request.GetKey(), Contents: contentsOf(request)}
		want := []string{}
		for _, f := range strings.Fields(h.fields) {
			switch f {
			case "key":
				want = append(want, f)
			case "source", "destination", "amount", "currency":
				want = append(want, "contents."+f)
			}
		}
		if len(want) > 0 {
			_, err = r.transfers.CancelTransfer(within(t, patient), cancel)
			if got := named(err); got != strings.Join(sorted(want), " ") {
				t.Errorf("cancel, %s: named %q, want %q: %v", name, got, want, err)
			}
		}
		if strings.Contains(h.fields, "key") {
			_, err = r.transfers.GetTransfer(within(t, patient), &transferv1.GetTransferRequest{Key: request.GetKey()})
			_, sagaErr := r.admin.GetSaga(within(t, patient), &adminv1.GetSagaRequest{Key: request.GetKey(), Tenant: "\x00"})
			if named(err) != "key" || named(sagaErr) != "key tenant" {
				t.Errorf("get, %s: %v; %v", name, err, sagaErr)
			}
		}
	}
	_, err := r.transfers.CreateTransfer(within(t, patient), &creating{Key: "k", Memo: strings.Repeat("m", 5<<20)})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("5 MiB: %v", err)
	}
	nothingLeft(t, c)
}

func nothingLeft(t *testing.T, c *cluster) {
	t.Helper()
	if rows, err := c.sagas.List(t.Context(), "", sagaID("", ""), 10); err != nil || len(rows) != 0 {
		t.Errorf("sagas were stored: %v %v", rows, err)
	}
	c.holds("", "", "")
	c.balances(deposited, 0)
}

// bytesCodec sends bytes as they are, as no client of giro's would.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (bytesCodec) Unmarshal(b []byte, v any) error { *(v.(*[]byte)) = b; return nil }
func (bytesCodec) Name() string                    { return "proto" }

// TestC38BytesOfNoClient: what is no message, or no UTF-8, is INVALID_ARGUMENT; an
// unknown field of a newer client changes nothing.
func TestC38BytesOfNoClient(t *testing.T) {
	c := newCluster(t, memory)
	r := c.replica()
	send := func(b []byte) error {
		var out []byte
		return r.raw.Invoke(within(t, patient), transferv1.TransferService_CreateTransfer_FullMethodName, b, &out, grpc.ForceCodec(bytesCodec{}))
	}
	for name, b := range map[string][]byte{
		"no message": {0xff, 0xff, 0xff}, "a length beyond the end": {0x0a, 0x7f, 'k'},
		"no UTF-8": protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte{'k', 0xc3, 0x28}),
	} {
		if err := send(b); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	nothingLeft(t, c)
	first := pay("k", 500)
	first.Memo, first.Metadata, first.Expiry = "rent", map[string]string{"a": "1", "b": "2"}, durationpb.New(time.Hour)
	stored := r.create(first).GetTransfer()
	newer, err := proto.Marshal(pay("k", 500))
	if err != nil {
		t.Fatal(err)
	}
	newer = protowire.AppendString(protowire.AppendTag(newer, 1000, protowire.BytesType), "a field of tomorrow")
	if err := send(newer); err != nil {
		t.Errorf("a newer client's retry: %v", err)
	}
	// C37: memo, metadata and expiry are the first request's.
	again := pay("k", 500)
	again.Memo, again.Metadata, again.Expiry = "other", map[string]string{"b": "2", "a": "1", "trace": "x"}, durationpb.New(time.Minute)
	if got := r.create(again); !got.GetReplayed() || !proto.Equal(got.GetTransfer(), stored) {
		t.Errorf("%v, want %v", got, stored)
	}
	c.balances(9_500, 500)
}

// TestC35OtherContents: another transfer under the same key names what differs.
func TestC35OtherContents(t *testing.T) {
	onTwo(t, func(t *testing.T, b backend) {
		c := newCluster(t, b)
		r := c.replica()
		stored := r.create(pay("k", 500)).GetTransfer()
		for want, change := range map[string]func(*creating){
			"[amount]":                             func(r *creating) { r.Amount = 9_999 },
			"[destination]":                        func(r *creating) { r.Destination = "ledger/other" },
			"[currency]":                           func(r *creating) { r.Currency = "EUR" },
			"[source]":                             func(r *creating) { r.Source = "accounts/bob" },
			"[source destination amount currency]": func(r *creating) { r.Source, r.Destination, r.Amount, r.Currency = merchant, alice, 1, "JPY" },
		} {
			request := pay("k", 500)
			change(request)
			_, err := r.transfers.CreateTransfer(within(t, patient), request)
			if status.Code(err) != codes.AlreadyExists || rpc.Reason(err) != "TRANSFER_KEY_REUSED" ||
				fmt.Sprint(rpc.DifferingFields(err)) != want {
				t.Errorf("%s: %v %v", want, rpc.DifferingFields(err), err)
			}
		}
		if got := r.get("k"); !proto.Equal(got, stored) {
			t.Errorf("%v, was %v", got, stored)
		}
		c.balances(9_500, 500)
		c.holds("", "debit APPLIED 500 (2)", "credit APPLIED 500 (2)")
	})
}

// TestC46KeyScope: one key of two tenants is two transfers, and neither sees the
// other's.
func TestC46KeyScope(t *testing.T) {
	c := newCluster(t, memory)
	r := c.replica()
	isState(t, r.create(pay("k", 500)).GetTransfer(), completed, "")
	other := grpc.PerRPCCredsCallOption{Creds: principal{rpc.TenantMetadata: "other"}}
	_, err := r.transfers.GetTransfer(within(t, patient), &transferv1.GetTransferRequest{Key: "k"}, other)
	_, never := r.transfers.GetTransfer(within(t, patient), &transferv1.GetTransferRequest{Key: "never"}, other)
	if status.Code(err) != codes.NotFound || status.Convert(err).Message() != status.Convert(never).Message() {
		t.Errorf("%v; of a key that nobody has %v", err, never)
	}
	got, err := r.transfers.CreateTransfer(within(t, patient), pay("k", 9), other)
	if err != nil || got.GetReplayed() {
		t.Fatal(got, err)
	}
	isState(t, got.GetTransfer(), refused, "ACCOUNT_NOT_FOUND")
	isState(t, r.get("k"), completed, "")
	c.balances(9_500, 500)
}

type principal map[string]string

func (p principal) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return p, nil
}
func (principal) RequireTransportSecurity() bool { return false }
