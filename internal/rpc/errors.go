package rpc

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"giro/internal/batch"
)

// Domain is the ErrorInfo domain of every error that giro gives.
const Domain = "giro"

// Reasons that any call may give. The others belong to the calls that give them.
const (
	ReasonInvalid     = "REQUEST_INVALID"
	ReasonOverloaded  = "OVERLOADED"
	ReasonStopping    = "SHUTTING_DOWN"
	ReasonUnknown     = "OUTCOME_UNKNOWN"
	ReasonDeadline    = "DEADLINE_EXCEEDED"
	ReasonCancelled   = "CALL_CANCELLED"
	ReasonUnsupported = "UNIMPLEMENTED"
	ReasonInternal    = "INTERNAL"
	// ReasonKeyExpired is of a key that is older than keys are kept.
	ReasonKeyExpired = "KEY_EXPIRED"
	// ReasonUnreadable is of a reading call that needs another service.
	ReasonUnreadable = "PARTICIPANT_UNREADABLE"
)

// Bounds that keep an error within the 8 KB that headers may take, base64 and
// the text's own escapes included.
const (
	textBytesMax       = 1024
	violationsBytesMax = 3072
	fieldBytesMax      = 160
	fieldsInTextMax    = 8
)

// Error is an error of this process's own, whose text its caller may see. An error
// that came over the wire is none, whatever it holds.
type Error struct {
	status *status.Status
	// cause is what stopped the call, for the log alone.
	cause error
}

// Error is the text for the caller, with its code.
func (e *Error) Error() string { return e.status.Err().Error() }

// GRPCStatus is what goes over the wire.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// Unwrap is what stopped the call.
func (e *Error) Unwrap() error { return e.cause }

// Violation names one malformed field, in the API's field names, and says what
// it must be.
type Violation struct{ Field, Description string }

// InvalidArgument says that a request is malformed and lists every violation.
// What does not fit into a header is counted by a last entry.
func InvalidArgument(violations []Violation) error {
	detail := &errdetails.BadRequest{}
	size := 0
	for i, v := range violations {
		field, description := clip(v.Field, fieldBytesMax), clip(v.Description, 2*fieldBytesMax)
		if size += len(field) + len(description); size > violationsBytesMax {
			detail.FieldViolations = append(detail.FieldViolations, &errdetails.BadRequest_FieldViolation{
				Field: "request", Description: "has " + strconv.Itoa(len(violations)-i) + " more violations"})
			break
		}
		detail.FieldViolations = append(detail.FieldViolations,
			&errdetails.BadRequest_FieldViolation{Field: field, Description: description})
	}
	var parts []string
	for i, v := range detail.FieldViolations {
		if i == fieldsInTextMax {
			parts = append(parts, "...")
			break
		}
		parts = append(parts, v.Field+" "+v.Description)
	}
	text := "the request is malformed, nothing was done and its key is not used up: " + strings.Join(parts, "; ")
	return build(codes.InvalidArgument, ReasonInvalid, text, nil, detail)
}

// NotFound says that something is not there, or is another tenant's.
func NotFound(reason, text string) error { return build(codes.NotFound, reason, text, nil) }

// AlreadyExists says that a key or a name is taken. fields, which may be empty,
// names the request's fields that differ from what is stored.
func AlreadyExists(reason, text string, fields []string) error {
	var metadata map[string]string
	if len(fields) > 0 {
		metadata = map[string]string{"fields": clip(strings.Join(fields, ","), textBytesMax)}
	}
	return build(codes.AlreadyExists, reason, text, metadata)
}

// FailedPrecondition says that the state of things does not allow the call.
func FailedPrecondition(reason, text string) error {
	return build(codes.FailedPrecondition, reason, text, nil)
}

// Unavailable says that the call may be made again after a while. Its text must
// say whether anything was done.
func Unavailable(reason, text string, retryAfter time.Duration) error {
	return build(codes.Unavailable, reason, text, nil, &errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)})
}

// ParticipantUnreadable says that a reading call needs a participant that does not
// answer. Its words are for the log.
func ParticipantUnreadable(participant string, cause error) error {
	return because(cause, build(codes.Unavailable, ReasonUnreadable,
		"participant "+participant+" does not answer, so the whole could not be read; nothing was changed: see to it, then ask again",
		map[string]string{"participant": clip(participant, fieldBytesMax)},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}))
}

// Unanswered turns whatever stopped a call into an error for its caller. An error
// of giro's own stays as it is. A full or closed queue is UNAVAILABLE, and nothing
// was done; the end of the caller's own context keeps its code; all else is
// UNAVAILABLE, and it is not known what was done. No inner text gets out.
// The error wraps what stopped the call, which the interceptor logs.
func Unanswered(ctx context.Context, err error) error {
	var own *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return own
	case errors.Is(err, batch.ErrFull):
		return Unavailable(ReasonOverloaded, "too many requests wait; nothing was written: send it again, with the same key", 250*time.Millisecond)
	case errors.Is(err, batch.ErrClosed):
		return Unavailable(ReasonStopping, "the service is shutting down; nothing was written: send it again, with the same key", 500*time.Millisecond)
	case errors.Is(ctx.Err(), context.Canceled):
		return build(codes.Canceled, ReasonCancelled, "the caller gave the call up; what became of it is not known: ask again with the same key", nil)
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded:
		return because(err, build(codes.DeadlineExceeded, ReasonDeadline, "no answer in time; what became of the call is not known: ask again with the same key", nil))
	case unimplemented(err):
		return build(codes.Unimplemented, ReasonUnsupported, "there is no such call here; nothing was done", nil)
	}
	return because(err, Unavailable(ReasonUnknown, "no answer; what became of the call is not known: ask again with the same key", time.Second))
}

// unimplemented says that this server has no such call; the same code from another
// one, wrapped on its way, says nothing of this one.
func unimplemented(err error) bool {
	s, direct := err.(interface{ GRPCStatus() *status.Status })
	return direct && s.GRPCStatus().Code() == codes.Unimplemented
}

// because gives the error with what led to it.
func because(cause, err error) error {
	var own *Error
	if errors.As(err, &own) {
		return &Error{status: own.status, cause: cause}
	}
	return err
}

// Reason is the error's reason in UPPER_SNAKE, or empty if it is no error of giro's.
func Reason(err error) string { return info(err).GetReason() }

// FieldViolations lists what an INVALID_ARGUMENT error says of the request.
func FieldViolations(err error) []Violation {
	var list []Violation
	for _, detail := range status.Convert(err).Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, v := range bad.GetFieldViolations() {
				list = append(list, Violation{v.GetField(), v.GetDescription()})
			}
		}
	}
	return list
}

// DifferingFields lists the fields that an ALREADY_EXISTS error names.
func DifferingFields(err error) []string {
	if fields := info(err).GetMetadata()["fields"]; fields != "" {
		return strings.Split(fields, ",")
	}
	return nil
}

// RetryAfter is how long to wait before the call is made again, and false if the
// error does not say.
func RetryAfter(err error) (time.Duration, bool) {
	for _, detail := range status.Convert(err).Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			return retry.GetRetryDelay().AsDuration(), true
		}
	}
	return 0, false
}

func info(err error) *errdetails.ErrorInfo {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok {
		return nil
	}
	for _, detail := range s.Details() {
		if i, ok := detail.(*errdetails.ErrorInfo); ok && i.GetDomain() == Domain {
			return i
		}
	}
	return nil
}

// build makes a status with one ErrorInfo and the details given, which are at
// most one.
func build(code codes.Code, reason, text string, metadata map[string]string, details ...protoadapt.MessageV1) error {
	first := &errdetails.ErrorInfo{Domain: Domain, Reason: reason, Metadata: metadata}
	s := status.New(code, clip(text, textBytesMax))
	with, err := s.WithDetails(slices.Insert(details, 0, protoadapt.MessageV1(first))...)
	if err != nil {
		// It fails only for code OK, which no constructor passes.
		return &Error{status: s}
	}
	return &Error{status: with}
}

// clip cuts text that is too long and escapes what a terminal or a header should
// not get: a name out of a request may hold anything.
func clip(s string, bytesMax int) string {
	if len(s) > bytesMax {
		s = s[:bytesMax-3] + "..."
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			quoted := strconv.QuoteToASCII(s)
			return clipASCII(quoted[1:len(quoted)-1], bytesMax)
		}
	}
	return s
}

func clipASCII(s string, bytesMax int) string {
	if len(s) > bytesMax {
		return s[:bytesMax-3] + "..."
	}
	return s
}
