package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"giro/cmd/giro/serve"
	"giro/internal/rpc"
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
	err = serve.WithoutURL(err) // whichever way it came
	var f *failure
	var setting *serve.SettingError
	switch {
	case errors.As(err, &f):
	case errors.As(err, &setting):
		f = &failure{code: ExitUsage, message: setting.Error()}
	default:
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

// unanswered ends a call that brought no answer: what is known of it, and the line
// that asks again.
func (q question) unanswered(message string, hints ...string) error {
	known := "it is not known what became of the call; asking again is safe, with the same key:"
	if q.reads {
		known = "nothing was changed; to ask again:"
	}
	return q.askAgain(message, known, hints)
}

// pending ends a command whose transfer is not final yet.
func (q question) pending() error {
	return q.askAgain("the transfer is still being carried out, and goes on by itself",
		"to wait for it, ask again with the same key:", nil)
}

func (q question) askAgain(message, known string, hints []string) error {
	return &failure{code: ExitUnknown, message: message, next: append(hints, known, "  "+q.again)}
}

// definite are the codes after which it is known that the call did nothing more, if
// they come with a reason of giro's: without one, a proxy may have written them.
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
// violation, and what to do next.
func (q question) explain(err error, address string) error {
	s := status.Convert(err)
	reason := rpc.Reason(err)
	if unknown := strings.HasPrefix(s.Message(), "unknown "); unknown && s.Code() == codes.Unimplemented && reason == "" {
		return q.misdirected(s, address)
	}
	text, hints := q.words(s, reason)
	if definite[s.Code()] && reason != "" {
		return &failure{code: ExitRefused, message: q.service + " says no: " + text, next: append(hints, q.advice(reason)...)}
	}
	message := fmt.Sprintf("%s at %s: %s", q.service, address, text)
	switch {
	case reason == rpc.ReasonOverloaded || reason == rpc.ReasonStopping:
		return q.askAgain(message, "nothing was done by this call; to ask again:", hints)
	case reason == "" && s.Code() == codes.Unavailable:
		hints = append(hints, "is it running there? "+flagHint(q.service))
	}
	return q.unanswered(message, append(hints, q.advice(reason)...)...)
}

// words is what the error says, with its reason, and its details a line each.
func (q question) words(s *status.Status, reason string) (text string, details []string) {
	text = s.Message()
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.BadRequest:
			// The message lists the violations too, on one line.
			text, _, _ = strings.Cut(text, ": ")
			for _, v := range d.GetFieldViolations() {
				details = append(details, v.GetField()+": "+v.GetDescription())
			}
		case *errdetails.PreconditionFailure:
			for _, v := range d.GetViolations() {
				details = append(details, strings.TrimSpace(v.GetType()+" "+v.GetSubject()+": "+v.GetDescription()))
			}
		case *errdetails.RetryInfo:
			details = append(details, fmt.Sprintf("it asks to wait %s first", d.GetRetryDelay().AsDuration()))
		}
	}
	if own, general := generalWords[reason]; general && (q.reads || !definite[s.Code()]) {
		text = own
	}
	if reason != "" {
		text += " (" + reason + ")"
	}
	return text, details
}

// generalWords say the reasons that any call may give. The services' own words are
// for calls that have a key, and tell to ask again, as the next line does better.
var generalWords = map[string]string{
	rpc.ReasonInvalid:    "the request is malformed",
	rpc.ReasonOverloaded: "too many requests wait",
	rpc.ReasonStopping:   "it is shutting down",
	rpc.ReasonUnknown:    "it could not answer",
	rpc.ReasonDeadline:   "no answer in time",
	rpc.ReasonCancelled:  "the call was given up",
	rpc.ReasonInternal:   "it failed inside",
}

// misdirected ends a call that gRPC itself refused: whoever answers there has no
// such service, or none of this version.
func (q question) misdirected(s *status.Status, address string) error {
	if strings.HasPrefix(s.Message(), "unknown service") {
		return usage("what answers at %s is not %s; nothing was done %s", address, q.called(), flagHint(q.service))
	}
	return usage("%s at %s does not know this call: it is of another version; nothing was done (%s)", q.service, address, s.Message())
}

func (q question) called() string {
	if q.service == orchestrator {
		return "the orchestrator"
	}
	return q.service
}

func flagHint(service string) string {
	return fmt.Sprintf("(--%s or GIRO_%s names another address)", service, strings.ToUpper(service))
}

// advice is what to do after a reason, in words.
func (q question) advice(reason string) []string {
	switch reason {
	case "TRANSFER_KEY_REUSED":
		return []string{"a new transfer takes a new key; to see the one that this key stands for:", "  " + q.see}
	case "OPERATION_KEY_REUSED":
		return []string{"a new request takes a new key"}
	case rpc.ReasonKeyExpired:
		return []string{"what became of it is not known any more: do not pay again under another key without looking"}
	case "TRANSFER_NOT_FOUND":
		return []string{"this tenant has no transfer under this key; a key is compared byte for byte"}
	}
	return nil
}
