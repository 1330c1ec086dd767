package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"giro/internal/batch"
	"giro/internal/rpc"
	adminv1 "giro/proto/giro/admin/v1"
	transferv1 "giro/proto/giro/transfer/v1"
)

// fake answers as each test wants.
type fake struct {
	transferv1.UnimplementedTransferServiceServer
	adminv1.UnimplementedAdminServiceServer
	get   func(ctx context.Context) error
	audit func(ctx context.Context) error
}

func (f *fake) GetTransfer(ctx context.Context, _ *transferv1.GetTransferRequest) (*transferv1.GetTransferResponse, error) {
	return &transferv1.GetTransferResponse{}, f.get(ctx)
}

func (f *fake) CreateTransfer(context.Context, *transferv1.CreateTransferRequest) (*transferv1.CreateTransferResponse, error) {
	return &transferv1.CreateTransferResponse{}, nil
}

func (f *fake) Audit(_ *adminv1.AuditRequest, stream grpc.ServerStreamingServer[adminv1.AuditResponse]) error {
	return f.audit(stream.Context())
}

type running struct {
	conn    *grpc.ClientConn
	stop    context.CancelFunc
	stopped chan error
	log     *buffer
}

// buffer is a log that several goroutines write.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func start(t *testing.T, f *fake, config rpc.ServerConfig, opts ...grpc.DialOption) running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := running{stopped: make(chan error, 1), log: &buffer{}}
	config.Logger = slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := rpc.NewServer(config)
	transferv1.RegisterTransferServiceServer(s, f)
	adminv1.RegisterAdminServiceServer(s, f)
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	go func() { r.stopped <- s.Serve(ctx, l) }()
	t.Cleanup(r.stop)
	r.conn, err = rpc.Dial(l.Addr().String(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.conn.Close() })
	return r
}

func get(conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := transferv1.NewTransferServiceClient(conn).GetTransfer(ctx, &transferv1.GetTransferRequest{Key: "k"})
	return err
}

func TestCheckListen(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:7101", "127.8.9.1:0", "[::1]:7101", "localhost:7101", "[::ffff:127.0.0.1]:1"} {
		if err := rpc.CheckListen(addr, false); err != nil {
			t.Errorf("%s is refused: %v", addr, err)
		}
	}
	for _, addr := range []string{":7101", "0.0.0.0:7101", "[::]:7101", "10.0.0.1:7101", "example.com:7101", "localhost.evil.example:1"} {
		err := rpc.CheckListen(addr, false)
		if err == nil || !strings.Contains(err.Error(), "--insecure") || !strings.Contains(err.Error(), "loopback") {
			t.Errorf("%s: want a refusal that says why and what to do, got %v", addr, err)
		}
		if err := rpc.CheckListen(addr, true); err != nil {
			t.Errorf("%s with insecure is refused: %v", addr, err)
		}
	}
	if rpc.CheckListen("127.0.0.1", true) == nil {
		t.Error("an address without a port is taken")
	}
}

// A server that is told to stop while it starts has stopped, and nothing failed.
func TestStopBeforeStart(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for range 20 { // whichever comes first
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := rpc.NewServer(rpc.ServerConfig{}).Serve(ctx, l); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServeRefusesAnOpenListener(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := rpc.NewServer(rpc.ServerConfig{}).Serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Fatalf("want a refusal, got %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Fatal("the refused listener is still open")
	}
}

func TestErrorsOfEveryKind(t *testing.T) {
	giro := rpc.FailedPrecondition("ACCOUNT_FROZEN", "the account is frozen")
	cases := []struct {
		name   string
		given  error
		code   codes.Code
		reason string
		retry  bool
	}{
		{"own", giro, codes.FailedPrecondition, "ACCOUNT_FROZEN", false},
		{"own, wrapped", fmt.Errorf("secret-dsn: %w", giro), codes.FailedPrecondition, "ACCOUNT_FROZEN", false},
		{"plain", errors.New("secret-dsn"), codes.Unavailable, rpc.ReasonUnknown, true},
		{"another's status", status.Error(codes.Internal, "secret-dsn"), codes.Unavailable, rpc.ReasonUnknown, true},
		{"another's exists", status.Error(codes.AlreadyExists, "secret-dsn"), codes.Unavailable, rpc.ReasonUnknown, true},
		{"unknown", status.Error(codes.Unknown, "secret-dsn"), codes.Unavailable, rpc.ReasonUnknown, true},
		{"deadline", fmt.Errorf("secret-dsn: %w", context.DeadlineExceeded), codes.DeadlineExceeded, rpc.ReasonDeadline, false},
		{"cancelled below, not by the caller", fmt.Errorf("secret-dsn: %w", context.Canceled), codes.Unavailable, rpc.ReasonUnknown, true},
		{"full", fmt.Errorf("secret-dsn: %w", batch.ErrFull), codes.Unavailable, rpc.ReasonOverloaded, true},
		{"closed", batch.ErrClosed, codes.Unavailable, rpc.ReasonStopping, true},
		{"unimplemented", status.Error(codes.Unimplemented, "secret-dsn"), codes.Unimplemented, rpc.ReasonUnsupported, false},
	}
	f := &fake{}
	r := start(t, f, rpc.ServerConfig{})
	for _, c := range cases {
		f.get = func(context.Context) error { return c.given }
		f.audit = f.get
		stream, err := adminv1.NewAdminServiceClient(r.conn).Audit(t.Context(), &adminv1.AuditRequest{})
		if err != nil {
			t.Fatal(err)
		}
		_, streamErr := stream.Recv()
		for _, err := range []error{get(r.conn), streamErr} {
			_, retry := rpc.RetryAfter(err)
			if status.Code(err) != c.code || rpc.Reason(err) != c.reason || retry != c.retry {
				t.Errorf("%s: got %v, reason %q, retry %v", c.name, err, rpc.Reason(err), retry)
			}
			if c.given != cases[1].given && strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: inner text gets out: %v", c.name, err)
			}
		}
	}
	if !strings.Contains(r.log.String(), "secret-dsn") {
		t.Error("the inner text is not in the log either")
	}
}

func TestPanicGivesNothingAwayAndIsLogged(t *testing.T) {
	f := &fake{get: func(context.Context) error { panic("secret") }}
	f.audit = f.get
	r := start(t, f, rpc.ServerConfig{})
	stream, err := adminv1.NewAdminServiceClient(r.conn).Audit(t.Context(), &adminv1.AuditRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, streamErr := stream.Recv()
	for _, err := range []error{get(r.conn), streamErr} {
		if status.Code(err) != codes.Internal || rpc.Reason(err) != rpc.ReasonInternal || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v", err)
		}
	}
	if log := r.log.String(); strings.Count(log, "msg=panic") != 2 || !strings.Contains(log, "secret") || strings.Count(log, "code=Internal") != 2 {
		t.Errorf("the log: %s", log)
	}
}

func TestAccessLogHoldsNoContents(t *testing.T) {
	r := start(t, &fake{}, rpc.ServerConfig{}, rpc.WithPrincipal("acme", "jane-roe"))
	_, err := transferv1.NewTransferServiceClient(r.conn).CreateTransfer(t.Context(), &transferv1.CreateTransferRequest{
		Key: "private-key", Source: "a/b", Destination: "c/d", Amount: 0, Currency: "USD"})
	if status.Code(err) != codes.InvalidArgument {
		t.Fatal(err)
	}
	log := r.log.String()
	if !strings.Contains(log, "code=InvalidArgument") || !strings.Contains(log, "reason="+rpc.ReasonInvalid) || !strings.Contains(log, "level=INFO") {
		t.Errorf("the log does not tell of the refused call: %s", log)
	}
	for _, word := range []string{"private-key", "acme", "jane-roe"} {
		if strings.Contains(log, word) {
			t.Errorf("the log holds %q: %s", word, log)
		}
	}
}

func TestPrincipal(t *testing.T) {
	var seen rpc.Principal
	f := &fake{get: func(ctx context.Context) error { seen = rpc.PrincipalFrom(ctx); return nil }}
	f.audit = f.get
	call := func(t *testing.T, conn *grpc.ClientConn, pairs ...string) (unary, streamed error) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), pairs...)
		_, unary = transferv1.NewTransferServiceClient(conn).GetTransfer(ctx, &transferv1.GetTransferRequest{Key: "k"})
		stream, err := adminv1.NewAdminServiceClient(conn).Audit(ctx, &adminv1.AuditRequest{})
		if err != nil {
			t.Fatal(err)
		}
		_, streamed = stream.Recv()
		return unary, streamed
	}
	r := start(t, f, rpc.ServerConfig{})
	if err := get(r.conn); err != nil || seen != (rpc.Principal{Tenant: "default", Actor: "developer", Development: true}) {
		t.Fatalf("%v %+v", err, seen)
	}
	dialled := start(t, f, rpc.ServerConfig{}, rpc.WithPrincipal("acme", "jane"))
	if err := get(dialled.conn); err != nil || seen != (rpc.Principal{Tenant: "acme", Actor: "jane", Development: true}) {
		t.Fatalf("%v %+v", err, seen)
	}
	bad := [][]string{
		{"giro-tenant", "Acme"}, {"giro-tenant", ""}, {"giro-tenant", strings.Repeat("a", 64)}, {"giro-tenant", "a/b"},
		{"giro-tenant", "a", "giro-tenant", "a"},
		{"giro-actor", ""}, {"giro-actor", strings.Repeat("x", 129)}, {"giro-actor", "a", "giro-actor", "b"},
	}
	for _, pairs := range bad {
		unary, streamed := call(t, r.conn, pairs...)
		for _, err := range []error{unary, streamed} {
			if v := rpc.FieldViolations(err); status.Code(err) != codes.InvalidArgument || len(v) != 1 || v[0].Field != pairs[0] {
				t.Errorf("%q: got %v", pairs, err)
			}
		}
	}
	unary, _ := call(t, r.conn, "giro-tenant", "A", "giro-actor", "")
	if v := rpc.FieldViolations(unary); len(v) != 2 {
		t.Errorf("want both violations in one answer, got %v", unary)
	}
	if p := rpc.PrincipalFrom(t.Context()); p.Tenant.Valid() {
		t.Errorf("outside a server somebody calls: %+v", p)
	}
}

func TestDeadlines(t *testing.T) {
	var left time.Duration
	f := &fake{get: func(ctx context.Context) error {
		deadline, _ := ctx.Deadline()
		left = time.Until(deadline)
		return nil
	}}
	f.audit = f.get
	r := start(t, f, rpc.ServerConfig{})
	client := transferv1.NewTransferServiceClient(r.conn)
	if _, err := client.GetTransfer(context.Background(), &transferv1.GetTransferRequest{Key: "k"}); err != nil || left < 20*time.Second || left > 30*time.Second {
		t.Errorf("a call without a deadline got %v (%v)", left, err)
	}
	if err := get(r.conn); err != nil || left > 10*time.Second {
		t.Errorf("a call with 10 s got %v (%v)", left, err)
	}
	stream, err := adminv1.NewAdminServiceClient(r.conn).Audit(context.Background(), &adminv1.AuditRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _ = stream.Recv(); left < 50*time.Minute || left > time.Hour {
		t.Errorf("a stream without a deadline got %v", left)
	}
	f.get = func(ctx context.Context) error { <-ctx.Done(); return errors.New("inner") }
	short := start(t, f, rpc.ServerConfig{DeadlineSeconds: 1})
	_, err = transferv1.NewTransferServiceClient(short.conn).GetTransfer(context.Background(), &transferv1.GetTransferRequest{Key: "k"})
	if status.Code(err) != codes.DeadlineExceeded || rpc.Reason(err) != rpc.ReasonDeadline {
		t.Errorf("the server's own deadline: got %v", err)
	}
}

// raw sends bytes as they are.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error)   { return *v.(*[]byte), nil }
func (raw) Unmarshal(b []byte, v any) error { *v.(*[]byte) = b; return nil }
func (raw) Name() string                    { return "proto" }
func rawCall(conn *grpc.ClientConn, method string, b []byte) error {
	var out []byte
	return conn.Invoke(context.Background(), method, &b, &out, grpc.ForceCodec(raw{}))
}

func TestUndecodableRequestIsTheCallersFault(t *testing.T) {
	f := &fake{get: func(context.Context) error { return nil }, audit: func(context.Context) error { return nil }}
	r := start(t, f, rpc.ServerConfig{})
	invalidUTF8 := []byte{0x0a, 0x01, 0xff} // field 1 of both messages, a string
	for _, b := range [][]byte{invalidUTF8, {0x0a, 0x7f}, {0xff, 0xff}} {
		err := rawCall(r.conn, transferv1.TransferService_GetTransfer_FullMethodName, b)
		if status.Code(err) != codes.InvalidArgument || rpc.Reason(err) != rpc.ReasonInvalid {
			t.Errorf("%x: got %v", b, err)
		}
		stream, err := r.conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, adminv1.AdminService_Audit_FullMethodName, grpc.ForceCodec(raw{}))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.SendMsg(&b); err != nil {
			t.Fatal(err)
		}
		_ = stream.CloseSend()
		var out []byte
		if err := stream.RecvMsg(&out); status.Code(err) != codes.InvalidArgument || rpc.Reason(err) != rpc.ReasonInvalid {
			t.Errorf("stream %x: got %v", b, err)
		}
	}
	if err := get(r.conn); err != nil {
		t.Fatal(err)
	}
}

func TestStreamRequestsAreValidated(t *testing.T) {
	r := start(t, &fake{audit: func(context.Context) error { return nil }}, rpc.ServerConfig{})
	stream, err := adminv1.NewAdminServiceClient(r.conn).Audit(t.Context(), &adminv1.AuditRequest{Tenant: "A B"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	if v := rpc.FieldViolations(err); len(v) != 1 || v[0].Field != "tenant" {
		t.Errorf("got %v", err)
	}
}

func TestHealthReflectionAndStop(t *testing.T) {
	inside, release := make(chan struct{}), make(chan struct{})
	f := &fake{get: func(context.Context) error { close(inside); <-release; return nil }}
	r := start(t, f, rpc.ServerConfig{})
	health := healthv1.NewHealthClient(r.conn)
	watch, err := health.Watch(t.Context(), &healthv1.HealthCheckRequest{Service: "giro.transfer.v1.TransferService"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := watch.Recv(); err != nil || got.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Fatalf("%v %v", got, err)
	}
	reflected, err := reflectionv1.NewServerReflectionClient(r.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := reflected.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	list, err := reflected.Recv()
	if err != nil || len(list.GetListServicesResponse().GetService()) < 4 {
		t.Fatalf("%v %v", list, err)
	}
	_ = reflected.CloseSend()

	underWay := make(chan error, 1)
	go func() { underWay <- get(r.conn) }()
	<-inside
	r.stop()
	if got, err := watch.Recv(); err != nil || got.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Fatalf("when it stops: %v %v", got, err)
	}
	close(release)
	if err := <-underWay; err != nil {
		t.Errorf("a call under way was cut off: %v", err)
	}
}

func TestStopIsBounded(t *testing.T) {
	inside, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	f := &fake{get: func(context.Context) error { close(inside); <-release; return nil }}
	r := start(t, f, rpc.ServerConfig{StopSecondsMax: 1})
	underWay := make(chan error, 1)
	go func() { underWay <- get(r.conn) }()
	<-inside
	before := time.Now()
	r.stop()
	if err := <-r.stopped; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if waited := time.Since(before); waited < time.Second || waited > 8*time.Second {
		t.Errorf("stopped after %v, want about 1 s", waited)
	}
	if err := <-underWay; err == nil {
		t.Error("the call that was cut off says OK")
	}
}

// TestC20NothingRetriesBelowTheCaller counts what arrives when the server says
// UNAVAILABLE.
func TestC20NothingRetriesBelowTheCaller(t *testing.T) {
	arrived := 0
	f := &fake{get: func(context.Context) error {
		arrived++
		return rpc.Unavailable("STORE_DOWN", "try again", time.Millisecond)
	}}
	r := start(t, f, rpc.ServerConfig{})
	if err := get(r.conn); status.Code(err) != codes.Unavailable {
		t.Fatal(err)
	}
	if arrived != 1 {
		t.Errorf("one call arrived %d times", arrived)
	}
}

func TestDialFindsARestartedServer(t *testing.T) {
	f := &fake{get: func(context.Context) error { return nil }}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	conn, err := rpc.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for range 2 {
		s := rpc.NewServer(rpc.ServerConfig{Logger: slog.New(slog.DiscardHandler)})
		transferv1.RegisterTransferServiceServer(s, f)
		ctx, stop := context.WithCancel(context.Background())
		stopped := make(chan error, 1)
		go func() { stopped <- s.Serve(ctx, l) }()
		deadline := time.Now().Add(10 * time.Second)
		for err = get(conn); err != nil && time.Now().Before(deadline); err = get(conn) {
		}
		if err != nil {
			t.Fatalf("not found again: %v", err)
		}
		stop()
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
		if l, err = net.Listen("tcp", addr); err != nil {
			t.Fatal(err)
		}
	}
	_ = l.Close()
}

func TestErrorsStayWithinHeaders(t *testing.T) {
	var many []rpc.Violation
	for i := range 10_000 {
		many = append(many, rpc.Violation{Field: fmt.Sprintf("metadata[%q]", strings.Repeat("\x00é", 1000)), Description: strings.Repeat("x", i)})
	}
	huge := strings.Repeat("\u2028", 100_000)
	for name, err := range map[string]error{
		"violations": rpc.InvalidArgument(many),
		"text":       rpc.NotFound("X_NOT_FOUND", huge),
		"fields":     rpc.AlreadyExists("X_EXISTS", huge, []string{huge}),
		"retry":      rpc.Unavailable("X", huge, time.Second),
	} {
		s := status.Convert(err)
		if size := proto.Size(s.Proto())*4/3 + len(s.Message()); size > 7<<10 {
			t.Errorf("%s: %d bytes of headers", name, size)
		}
		if len(s.Details()) < 1 || len(s.Details()) > 2 {
			t.Errorf("%s: %d details", name, len(s.Details()))
		}
	}
	v := rpc.FieldViolations(rpc.InvalidArgument(many))
	if last := v[len(v)-1]; !strings.Contains(last.Description, "more violations") {
		t.Errorf("what was left out is not counted: %v", last)
	}
	if fields := rpc.DifferingFields(rpc.AlreadyExists("R", "t", []string{"amount", "currency"})); len(fields) != 2 || fields[0] != "amount" {
		t.Errorf("got %q", fields)
	}
	if rpc.Reason(nil) != "" || rpc.Reason(errors.New("x")) != "" || rpc.FieldViolations(errors.New("x")) != nil {
		t.Error("an error of somebody else's has a reason")
	}
}

func TestPageTokens(t *testing.T) {
	token := rpc.PageToken("accounts/acme", "a", "", "\x00z")
	if place, err := rpc.ParsePageToken(token, "accounts/acme", 3); err != nil || place[0] != "a" || place[1] != "" || place[2] != "\x00z" {
		t.Fatalf("%q %v", place, err)
	}
	if place, err := rpc.ParsePageToken("", "accounts/acme", 2); err != nil || len(place) != 2 || place[0] != "" {
		t.Fatalf("%q %v", place, err)
	}
	bad := map[string]string{
		"another scope":  rpc.PageToken("accounts/other", "a", "", "\x00z"),
		"fewer parts":    rpc.PageToken("accounts/acme", "a", ""),
		"more parts":     rpc.PageToken("accounts/acme", "a", "", "", ""),
		"cut":            token[:len(token)-2],
		"not base64":     "!!",
		"padded":         token + "=",
		"version":        "Ag" + token[2:],
		"length too big": "Af__________AQ",
		"control":        "\x00",
	}
	for name, token := range bad {
		_, err := rpc.ParsePageToken(token, "accounts/acme", 3)
		if v := rpc.FieldViolations(err); status.Code(err) != codes.InvalidArgument || len(v) != 1 || v[0].Field != "page_token" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for size, want := range map[int32]int{0: 100, 1: 1, 1000: 1000, 1001: 1000, 1 << 30: 1000} {
		if got, err := rpc.PageSize(size); err != nil || got != want {
			t.Errorf("size %d: %d %v", size, got, err)
		}
	}
	if _, err := rpc.PageSize(-1); status.Code(err) != codes.InvalidArgument {
		t.Errorf("size -1: %v", err)
	}
}

func FuzzParsePageToken(f *testing.F) {
	f.Add(rpc.PageToken("s", "a", "b"))
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, token string) {
		place, err := rpc.ParsePageToken(token, "s", 2)
		if err != nil {
			if status.Code(err) != codes.InvalidArgument {
				t.Fatal(err)
			}
			return
		}
		if token != "" && len(place) != 2 {
			t.Fatalf("%q", place)
		}
	})
}

// TestWhatAHandlerSaysItselfIsLoggedToo: handlers turn most errors into the
// caller's words themselves.
func TestWhatAHandlerSaysItselfIsLoggedToo(t *testing.T) {
	f := &fake{}
	r := start(t, f, rpc.ServerConfig{})
	f.get = func(ctx context.Context) error { return rpc.Unanswered(ctx, errors.New("disk full")) }
	if err := get(r.conn); rpc.Reason(err) != rpc.ReasonUnknown || strings.Contains(err.Error(), "disk full") {
		t.Errorf("the caller hears %v", err)
	}
	if !strings.Contains(r.log.String(), "disk full") {
		t.Errorf("the log: %s", r.log.String())
	}
}

// TestAnothersWordsAreNoneOfOurs: an error of another giro service, passed on
// inside, is no answer to this call.
func TestAnothersWordsAreNoneOfOurs(t *testing.T) {
	inner, f := &fake{}, &fake{}
	theirs, r := start(t, inner, rpc.ServerConfig{}), start(t, f, rpc.ServerConfig{})
	inner.get = func(context.Context) error { return rpc.FailedPrecondition("ACCOUNT_FROZEN", "the account of jane") }
	f.get = func(context.Context) error { return fmt.Errorf("participant x: %w", get(theirs.conn)) }
	err := get(r.conn)
	if status.Code(err) != codes.Unavailable || rpc.Reason(err) != rpc.ReasonUnknown || strings.Contains(err.Error(), "jane") {
		t.Errorf("got %v", err)
	}
	f.get = func(ctx context.Context) error {
		return fmt.Errorf("x: %w", status.Error(codes.Unimplemented, "no such call"))
	}
	if err := get(r.conn); status.Code(err) != codes.Unavailable {
		t.Errorf("another's UNIMPLEMENTED: %v", err)
	}
}
