package rpc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// edge holds what the interceptors need. The access log is the outermost, so that
// it sees what the caller gets: refused requests and panics too.
type edge struct {
	log                      *slog.Logger
	deadline, streamDeadline time.Duration
}

func (e edge) logUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	start := time.Now()
	resp, err := handler(ctx, req)
	e.logCall(ctx, info.FullMethod, start, err)
	return resp, err
}

func (e edge) logStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	start := time.Now()
	err := handler(srv, ss)
	e.logCall(ss.Context(), info.FullMethod, start, err)
	return err
}

// logCall writes one line for a call, with no word of its contents.
func (e edge) logCall(ctx context.Context, method string, start time.Time, err error) {
	code := status.Code(err)
	level := slog.LevelWarn
	switch code {
	case codes.OK:
		level = slog.LevelDebug
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.Canceled, codes.Unimplemented:
		level = slog.LevelInfo
	case codes.Internal:
		level = slog.LevelError
	}
	e.log.LogAttrs(ctx, level, "call", slog.String("method", method), slog.String("code", code.String()),
		slog.String("reason", Reason(err)), slog.Float64("seconds", time.Since(start).Seconds()))
}

func (e edge) recoverUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = e.panicked(ctx, info.FullMethod, p)
		}
	}()
	return handler(ctx, req)
}

func (e edge) recoverStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = e.panicked(ss.Context(), info.FullMethod, p)
		}
	}()
	return handler(srv, ss)
}

func (e edge) panicked(ctx context.Context, method string, p any) error {
	e.log.LogAttrs(ctx, slog.LevelError, "panic", slog.String("method", method), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	return build(codes.Internal, ReasonInternal, "a fault of the service; what became of the call is not known: ask again with the same key", nil)
}

func (e edge) principalUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	p, err := developmentPrincipal(ctx)
	if err != nil {
		return nil, err
	}
	return handler(ContextWithPrincipal(ctx, p), req)
}

func (e edge) deadlineUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if _, given := ctx.Deadline(); given {
		return handler(ctx, req)
	}
	ctx, cancel := context.WithTimeout(ctx, e.deadline)
	defer cancel()
	return handler(ctx, req)
}

// validateUnary judges requests by their protos' rules. A CreateTransferRequest
// with memo, metadata and expiry costs about 10 us of processor time, which
// is nothing beside a commit, so no call checks by hand (BenchmarkViolations).
func (e edge) validateUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := e.validate(ctx, req, info.Server); err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

// Judge may be implemented by a service that knows of violations which no proto
// rule can tell. It is asked where a request is malformed already, so that all of
// its violations are named at once; what else is well formed, the service judges
// itself.
type Judge interface {
	FurtherViolations(message proto.Message) []Violation
}

func (e edge) validate(ctx context.Context, req, service any) error {
	message, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	if err := undecodable(message); err != nil {
		return err
	}
	judge, _ := service.(Judge)
	malformed, err := Malformed(message, judge)
	if err != nil {
		return e.sanitise(ctx, string(message.ProtoReflect().Descriptor().FullName()), err)
	}
	return malformed
}

// Malformed gives the INVALID_ARGUMENT error for a message that breaks its rules, with
// what the judge (nil: nobody) has to add, or nil. It is for what a call judges itself:
// the items of a batch. The second error is not nil only where the rules are broken.
func Malformed(message proto.Message, judge Judge) (malformed, broken error) {
	violations, err := Violations(message)
	if err != nil || len(violations) == 0 {
		return nil, err
	}
	if judge != nil {
		violations = append(violations, judge.FurtherViolations(message)...)
	}
	return InvalidArgument(violations), nil
}

func (e edge) sanitiseUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	resp, err := handler(ctx, req)
	if err != nil {
		return nil, e.sanitise(ctx, info.FullMethod, err)
	}
	return resp, nil
}

func (e edge) sanitiseStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return e.sanitise(ss.Context(), info.FullMethod, handler(srv, ss))
}

// sanitise keeps inner text in the log. Health and reflection are gRPC's own and
// have their own errors.
func (e edge) sanitise(ctx context.Context, method string, err error) error {
	if err == nil || strings.HasPrefix(method, "/grpc.") {
		return err
	}
	outer := Unanswered(ctx, err)
	if cause := errors.Unwrap(outer); cause != nil {
		e.log.LogAttrs(ctx, slog.LevelWarn, "inner error", slog.String("method", method), slog.String("error", cause.Error()))
	}
	return outer
}

// contextStream gives a stream its principal and deadline, and validates each
// message as it arrives.
func (e edge) contextStream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	p, err := developmentPrincipal(ss.Context())
	if err != nil {
		return err
	}
	ctx := ContextWithPrincipal(ss.Context(), p)
	if _, given := ctx.Deadline(); !given {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.streamDeadline)
		defer cancel()
	}
	return handler(srv, &stream{ServerStream: ss, ctx: ctx, edge: e, service: srv})
}

type stream struct {
	grpc.ServerStream
	ctx     context.Context
	edge    edge
	service any
}

// Context is the stream's, with principal and deadline.
func (s *stream) Context() context.Context { return s.ctx }

// RecvMsg refuses what is malformed.
func (s *stream) RecvMsg(message any) error {
	err := s.ServerStream.RecvMsg(message)
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case err != nil:
		return err
	}
	return s.edge.validate(s.ctx, message, s.service)
}
