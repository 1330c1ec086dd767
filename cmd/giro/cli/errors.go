package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// failure is an error with its exit code and what to do next.
type failure struct {
	code    int
	message string
	// next are lines that say what to do; they may be empty.
	next []string
}

func (f *failure) Error() string { return f.message }

// usage is a mistake in the command line that the parser could not see.
func usage(format string, args ...any) error {
	return &failure{code: ExitUsage, message: fmt.Sprintf(format, args...)}
}

// quiet ends with a code, where all has been said.
func quiet(code int) error { return &failure{code: code} }

// report writes an error for people and gives its exit code.
func report(w io.Writer, err error) int {
	if err == nil {
		return ExitOK
	}
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{code: ExitFailed, message: err.Error()}
	}
	if f.message != "" {
		fmt.Fprintln(w, "giro:", f.message)
	}
	for _, line := range f.next {
		fmt.Fprintln(w, "  "+line)
	}
	return f.code
}

// definite are the codes after which it is known that the call did nothing more.
// After every other one it is not known.
var definite = map[codes.Code]bool{
	codes.InvalidArgument:    true,
	codes.AlreadyExists:      true,
	codes.NotFound:           true,
	codes.FailedPrecondition: true,
	codes.Unimplemented:      true,
	codes.PermissionDenied:   true,
	codes.Unauthenticated:    true,
}

// explain turns a service's error into one message with its reason, every
// violation, and what to do next. again is the command that asks again.
func explain(err error, service, address, again string) error {
	s := statusOf(err)
	f := &failure{code: ExitUnknown, message: fmt.Sprintf("%s at %s: %s", service, address, s.Message())}
	if definite[s.Code()] {
		f.code = ExitRefused
		f.message = fmt.Sprintf("%s says no: %s", service, s.Message())
	}
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			f.message += " (" + d.GetReason() + ")"
			f.next = append(f.next, advice[d.GetReason()]...)
		case *errdetails.BadRequest:
			// The message lists the violations too, on one line.
			f.message = strings.Replace(f.message, s.Message(), before(s.Message(), ": "), 1)
			for _, v := range d.GetFieldViolations() {
				f.next = append(f.next, v.GetField()+": "+v.GetDescription())
			}
		case *errdetails.PreconditionFailure:
			for _, v := range d.GetViolations() {
				f.next = append(f.next, strings.TrimSpace(v.GetType()+" "+v.GetSubject()+": "+v.GetDescription()))
			}
		case *errdetails.RetryInfo:
			f.next = append(f.next, fmt.Sprintf("it asks to wait %s first", d.GetRetryDelay().AsDuration()))
		}
	}
	if f.code == ExitUnknown {
		if s.Code() == codes.Unavailable {
			f.next = append(f.next, "is it running there? "+flagHint(service))
		}
		f.next = append(f.next, "it is not known what became of the call; asking again is safe:", "  "+again)
	}
	return f
}

func flagHint(service string) string {
	return fmt.Sprintf("(--%s or GIRO_%s names another address)", service, strings.ToUpper(service))
}

// advice is what to do after a reason, in words.
var advice = map[string][]string{
	"TRANSFER_KEY_REUSED": {
		"this key stands for another transfer, and nothing moved;",
		"to see it: giro transfer get KEY; a new transfer takes a new key",
	},
	"KEY_REUSED": {"this key stands for another request, and nothing changed; a new request takes a new key"},
	"KEY_EXPIRED": {
		"what became of it is not known any more: do not pay again under another key without looking",
	},
	"TRANSFER_NOT_FOUND": {"this tenant has no transfer under this key; a key is compared byte for byte"},
}

func statusOf(err error) *status.Status {
	if s, ok := status.FromError(err); ok {
		return s
	}
	return status.FromContextError(cause(err))
}

func cause(err error) error {
	for _, known := range []error{context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, known) {
			return known
		}
	}
	return err
}

func before(text, separator string) string {
	head, _, _ := strings.Cut(text, separator)
	return head
}
