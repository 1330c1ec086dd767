package cli

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"giro/internal/rpc"
	accountv1 "giro/proto/giro/account/v1"
	transferv1 "giro/proto/giro/transfer/v1"
)

var readingLines = [][]string{
	{"transfer", "get", "order-1"}, {"saga", "show", "order-1"}, {"audit"}, {"account", "show", "accountsvc/alice"},
	{"account", "statement", "accountsvc/alice"},
}

var changingLines = [][]string{
	createLine, {"transfer", "cancel", "order-1"}, {"account", "open", "accountsvc/alice", "--currency", "USD", "--key", "k"},
	{"account", "deposit", "accountsvc/alice", "--currency", "USD", "--amount", "1", "--key", "k"},
	{"account", "freeze", "accountsvc/alice", "--key", "k"}, {"account", "close", "accountsvc/alice", "--key", "k"},
	{"account", "unfreeze", "accountsvc/alice", "--key", "k"}, {"account", "withdraw", "accountsvc/alice", "--amount", "1", "--currency", "USD", "--key", "k"},
}

// everyReason is an error for each reason that any call may give, in the words that
// the services use.
func everyReason() []error {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	return []error{
		rpc.InvalidArgument([]rpc.Violation{{Field: "key", Description: "is too long"}}),
		rpc.Unavailable(rpc.ReasonOverloaded, "too many requests wait; nothing was written: send it again, with the same key", time.Second),
		rpc.Unavailable(rpc.ReasonStopping, "the service is shutting down; nothing was written: send it again, with the same key", time.Second),
		rpc.Unanswered(context.Background(), context.DeadlineExceeded),
		rpc.Unanswered(ended, context.Canceled),
		rpc.Unanswered(context.Background(), net.ErrClosed),
		status.Error(codes.Unavailable, "gone"),
		status.Error(codes.Internal, "broken"),
	}
}

// TestAReadingCommandSpeaksOfNoChange: it has no key that could be used up, and
// whatever became of the call, nothing was changed.
func TestAReadingCommandSpeaksOfNoChange(t *testing.T) {
	for _, failed := range everyReason() {
		for _, line := range readingLines {
			s := &service{err: failed}
			code, _, errs := s.run(t, line...)
			want := "nothing was changed; to ask again:\n    giro " + strings.Join(line, " ")
			if status.Code(failed) == codes.InvalidArgument {
				want = "the request is malformed (REQUEST_INVALID)\n  key: is too long\n"
			} else if rpc.Reason(failed) == rpc.ReasonOverloaded || rpc.Reason(failed) == rpc.ReasonStopping {
				want = "nothing was done by this call; to ask again:\n    giro " + strings.Join(line, " ")
			}
			if code == ExitOK || !strings.Contains(errs, want) {
				t.Errorf("%v: exit code %d, %s\nwant %q", line, code, errs, want)
			}
			for _, wrong := range []string{"same key", "used up", "not known", "nothing was written"} {
				if strings.Contains(errs, wrong) {
					t.Errorf("%v: %q in %s", line, wrong, errs)
				}
			}
		}
	}
}

func TestAChangingCommandSaysWhatIsKnown(t *testing.T) {
	for _, failed := range everyReason() {
		want := "it is not known what became of the call; asking again is safe, with the same key:\n    giro "
		switch rpc.Reason(failed) {
		case rpc.ReasonInvalid:
			want = "nothing was done and its key is not used up (REQUEST_INVALID)\n  key: is too long\n"
		case rpc.ReasonOverloaded, rpc.ReasonStopping:
			want = "nothing was done by this call; to ask again:\n    giro "
		}
		for _, line := range changingLines {
			s := &service{err: failed}
			if code, _, errs := s.run(t, line...); code == ExitOK || !strings.Contains(errs, want) {
				t.Errorf("%v: exit code %d, %s\nwant %q", line, code, errs, want)
			}
		}
	}
}

// TestOnlySilenceAsksWhetherItRuns: a service that gives a reason does run.
func TestOnlySilenceAsksWhetherItRuns(t *testing.T) {
	const ask = "is it running there?"
	for _, c := range []struct {
		err  error
		asks bool
	}{
		{nil, true}, // nobody is there
		{rpc.Unavailable("OUTCOME_UNKNOWN", "no answer", time.Second), false},
		{rpc.Unavailable("PARTICIPANT_UNREADABLE", "participant bank could not be read: it is down", time.Second), false},
		{status.Error(codes.Internal, "broken"), false},
	} {
		at := "127.0.0.1:1"
		if c.err != nil {
			at = (&service{err: c.err}).serve(t)
		}
		if _, _, errs := run(t, "audit", "--orchestrator", at); strings.Contains(errs, ask) != c.asks {
			t.Errorf("%v: %s", c.err, errs)
		}
	}
}

func TestAParticipantThatCannotBeReadIsNamedPlainly(t *testing.T) {
	s := &service{err: rpc.Unavailable("PARTICIPANT_UNREADABLE", "participant bank could not be read: it is down", time.Second)}
	code, _, errs := s.run(t, "audit")
	want := ": participant bank could not be read: it is down (PARTICIPANT_UNREADABLE)\n  it asks to wait 1s first\n  nothing was changed; to ask again:\n  "
	if code != ExitUnknown || !strings.Contains(errs, want) {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

// accountsOnly is a service at an address where somebody looks for another.
func accountsOnly(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	accountv1.RegisterAccountServiceServer(server, &service{})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return l.Addr().String()
}

func TestAnotherServiceAtTheAddress(t *testing.T) {
	at := accountsOnly(t)
	for _, c := range []struct {
		line []string
		flag string
		is   string
	}{
		{createLine, "--orchestrator", "the orchestrator"},
		{[]string{"transfer", "get", "k"}, "--orchestrator", "the orchestrator"},
		{[]string{"audit"}, "--orchestrator", "the orchestrator"},
		{[]string{"saga", "show", "k"}, "--orchestrator", "the orchestrator"},
		{[]string{"account", "show", "ledgersvc/shop"}, "--ledgersvc", "ledgersvc"},
		{[]string{"account", "open", "ledgersvc/shop", "--currency", "USD", "--key", "k"}, "--ledgersvc", "ledgersvc"},
	} {
		code, _, errs := run(t, slices.Concat(c.line, []string{c.flag, at})...)
		if code != ExitUsage || !strings.HasPrefix(errs, "giro: what answers at "+at+" is not "+c.is+"; nothing was done ("+c.flag+" or GIRO_") {
			t.Errorf("%v: exit code %d, %s", c.line, code, errs)
		}
	}
	code, _, errs := run(t, "account", "close", "accountsvc/alice", "--key", "k", "--accountsvc", (&service{}).serve(t))
	if code != ExitOK {
		t.Errorf("the right one: exit code %d, %s", code, errs)
	}
}

// proxy answers every call itself, as something between us and the service may.
func proxy(t *testing.T, answer error) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return answer }))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return l.Addr().String()
}

// TestAProxysNoIsNoAnswer: the call may have gone through before.
func TestAProxysNoIsNoAnswer(t *testing.T) {
	for _, code := range []codes.Code{codes.PermissionDenied, codes.NotFound, codes.InvalidArgument, codes.AlreadyExists, codes.Unimplemented, codes.ResourceExhausted} {
		at := proxy(t, status.Error(code, "not here"))
		exit, _, errs := run(t, slices.Concat(createLine, []string{"--orchestrator", at})...)
		if exit != ExitUnknown || !strings.Contains(errs, "not here") || !strings.Contains(errs, "it is not known what became of the call") {
			t.Errorf("%s: exit code %d, %s", code, exit, errs)
		}
	}
}

func TestAnAddressNeedsAPort(t *testing.T) {
	for _, at := range []string{"localhost", "localhost:", "10.0.0.1"} {
		code, _, errs := run(t, slices.Concat(createLine, []string{"--orchestrator", at})...)
		if code != ExitUsage || !strings.Contains(errs, "must be HOST:PORT") {
			t.Errorf("%s: exit code %d, %s", at, code, errs)
		}
	}
}

func TestAReplaySaysWhatItDid(t *testing.T) {
	for state, says := range map[transferv1.State]string{
		transferv1.State_STATE_COMPLETED: "; nothing moved again\n",
		transferv1.State_STATE_REFUNDED:  "; nothing moved again\n",
		transferv1.State_STATE_REFUSED:   "; the same answer as then\n",
		transferv1.State_STATE_CANCELLED: "; the same answer as then\n",
		transferv1.State_STATE_PENDING:   "; it is the same transfer, still under way\n",
	} {
		s := &service{transfer: transferIn(state, ""), replayed: true}
		if _, out, _ := s.run(t, createLine...); !strings.HasSuffix(out, "replayed: this key was first accepted 2026-01-02T03:04:05.000Z"+says) {
			t.Errorf("%s: %s", state, out)
		}
	}
}
