// Package rpctest serves giro's services to tests, over real gRPC, and throws
// hostile requests at them.
package rpctest

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"giro/internal/rpc"
)

// Serve serves what register registers on a free loopback port until the test
// ends, and gives its address.
func Serve(t testing.TB, register func(grpc.ServiceRegistrar)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := rpc.NewServer(rpc.ServerConfig{Logger: slog.New(slog.DiscardHandler), StopSecondsMax: 1})
	register(s)
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Addr().String()
}

// Dial connects to an address until the test ends.
func Dial(t testing.TB, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := rpc.Dial(addr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

var hostileTexts = []string{"", " ", "\x00", "a\x00b", "a\nb", "\x1b[2J", "é", "\u2028", "../..", "a/b/c", "A", "suspense:refund",
	"clearing:ledger", "'; drop table operations; --", "00000000-0000-0000-0000-000000000000", strings.Repeat("a", 64), strings.Repeat("a", 129),
	strings.Repeat("\x00", 5000), strings.Repeat("k", 1<<20), "AQ", "ZZZ", "usd", " USD"}

var hostileInts = []int64{0, -1, 1, math.MinInt64, math.MaxInt64, math.MinInt32, math.MaxInt32, 1 << 62, 1<<62 + 1}

// Hostile calls every unary method of a service with one hostile value in each
// field of a request that is good otherwise, and then with random mixtures, and
// fails where the answer is not one that a caller's fault may have: it is never
// INTERNAL or UNKNOWN. good fills in a request as a plain client would.
func Hostile(t *testing.T, conn *grpc.ClientConn, service protoreflect.ServiceDescriptor, good func(proto.Message)) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range service.Methods().Len() {
		method := service.Methods().Get(i)
		if method.IsStreamingClient() || method.IsStreamingServer() {
			continue
		}
		call := func(name string, change func(protoreflect.Message)) {
			in, out := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
			good(in)
			change(in)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			err := conn.Invoke(ctx, "/"+string(service.FullName())+"/"+string(method.Name()), in, out)
			switch code := status.Code(err); code {
			case codes.OK, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition:
				if err != nil && rpc.Reason(err) == "" {
					t.Errorf("%s, %s: no reason: %v", method.Name(), name, err)
				}
			default:
				t.Errorf("%s, %s: %v", method.Name(), name, err)
			}
		}
		call("nothing set", func(m protoreflect.Message) { proto.Reset(m.Interface()) })
		fields := leaves(method.Input(), nil)
		for _, path := range fields {
			for _, value := range hostile(path[len(path)-1]) {
				call(pathName(path), func(m protoreflect.Message) { set(m, path, value) })
			}
		}
		for range 50 * min(1, len(fields)) {
			call("a mixture", func(m protoreflect.Message) {
				for _, path := range fields {
					if values := hostile(path[len(path)-1]); random.IntN(3) == 0 {
						set(m, path, values[random.IntN(len(values))])
					}
				}
			})
		}
	}
}

// leaves lists the fields of a message and of those in it, two deep.
func leaves(d protoreflect.MessageDescriptor, prefix []protoreflect.FieldDescriptor) [][]protoreflect.FieldDescriptor {
	var list [][]protoreflect.FieldDescriptor
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		path := append(prefix[:len(prefix):len(prefix)], f)
		switch {
		case f.IsMap():
		case f.Kind() == protoreflect.MessageKind && len(path) < 3:
			list = append(list, leaves(f.Message(), path)...)
		case !f.IsList() && hostile(f) != nil:
			list = append(list, path)
		}
	}
	return list
}

func hostile(f protoreflect.FieldDescriptor) []protoreflect.Value {
	var values []protoreflect.Value
	switch f.Kind() {
	case protoreflect.StringKind:
		for _, s := range hostileTexts {
			values = append(values, protoreflect.ValueOfString(s))
		}
	case protoreflect.Int64Kind:
		for _, n := range hostileInts {
			values = append(values, protoreflect.ValueOfInt64(n))
		}
	case protoreflect.Int32Kind:
		for _, n := range hostileInts {
			values = append(values, protoreflect.ValueOfInt32(int32(n))) //nolint:gosec // any value will do
		}
	case protoreflect.EnumKind:
		for _, n := range []protoreflect.EnumNumber{0, 1, 2, 3, 4, 5, 6, 99, -1} {
			values = append(values, protoreflect.ValueOfEnum(n))
		}
	}
	return values
}

func set(m protoreflect.Message, path []protoreflect.FieldDescriptor, value protoreflect.Value) {
	f := path[0]
	switch {
	case len(path) == 1:
		m.Set(f, value)
	case f.IsList():
		list := m.Mutable(f).List()
		if list.Len() == 0 {
			list.Append(list.NewElement())
		}
		set(list.Get(list.Len()-1).Message(), path[1:], value)
	default:
		set(m.Mutable(f).Message(), path[1:], value)
	}
}

func pathName(path []protoreflect.FieldDescriptor) string {
	var names []string
	for _, f := range path {
		names = append(names, string(f.Name()))
	}
	return strings.Join(names, ".")
}

// Fill gives a function that sets the fields of a request by their names, those
// that it has.
func Fill(values map[string]any) func(proto.Message) {
	return func(m proto.Message) {
		fields := m.ProtoReflect().Descriptor().Fields()
		for name, value := range values {
			if f := fields.ByName(protoreflect.Name(name)); f != nil {
				m.ProtoReflect().Set(f, protoreflect.ValueOf(value))
			}
		}
	}
}

// Keyed walks a service: each method is either one that only reads or has a
// request in changing. That request has a key with rules, is refused without it,
// and the same again is a replay with the time of the first.
func Keyed(t *testing.T, conn *grpc.ClientConn, service protoreflect.ServiceDescriptor, reading []string, changing map[string]proto.Message) {
	t.Helper()
	for i := range service.Methods().Len() {
		method := service.Methods().Get(i)
		name := string(method.Name())
		request, changes := changing[name]
		if !changes {
			if !slices.Contains(reading, name) {
				t.Errorf("%s is new: give it a key and a case here, or list it as one that only reads", name)
			}
			continue
		}
		call := func(in proto.Message) (protoreflect.Message, error) {
			out := dynamicpb.NewMessage(method.Output())
			err := conn.Invoke(t.Context(), "/"+string(service.FullName())+"/"+name, in, out)
			return out, err
		}
		keyField := method.Input().Fields().ByName("key")
		replayed, firstTime := method.Output().Fields().ByName("replayed"), method.Output().Fields().ByName("first_time")
		if keyField == nil || replayed == nil || firstTime == nil {
			t.Errorf("%s changes something: it needs key, replayed and first_time", name)
			continue
		}
		keyless := proto.Clone(request)
		keyless.ProtoReflect().Clear(keyField)
		if _, err := call(keyless); status.Code(err) != codes.InvalidArgument || len(rpc.FieldViolations(err)) != 1 || rpc.FieldViolations(err)[0].Field != "key" {
			t.Errorf("%s without a key: %v", name, err)
		}
		first, err := call(request)
		if err != nil || first.Get(replayed).Bool() {
			t.Errorf("%s: %v %v", name, first, err)
			continue
		}
		again, err := call(request)
		if err != nil || !again.Get(replayed).Bool() || !again.Get(firstTime).Equal(first.Get(firstTime)) {
			t.Errorf("%s again: %v, first %v, error %v", name, again, first, err)
		}
	}
}
