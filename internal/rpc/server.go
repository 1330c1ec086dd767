// Package rpc is what every gRPC server and client of giro shares: how a server
// listens, stops, judges requests and names errors, and how a client finds it.
package rpc

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
)

// ServerConfig bounds a server. The zero value of a field stands for its default.
type ServerConfig struct {
	// Logger gets the access log, panics and the text of inner errors; default
	// slog.Default.
	Logger *slog.Logger
	// Insecure lets the server listen where other machines reach it.
	Insecure bool
	// DeadlineSeconds is the deadline of a unary call that brings none; default 30.
	DeadlineSeconds int
	// StreamDeadlineSeconds is that of a stream; default 3,600.
	StreamDeadlineSeconds int
	// ReceiveBytesMax is the largest request; default 4 MiB.
	ReceiveBytesMax int
	// StreamsMax is the most calls of one connection at once; default 10,000.
	StreamsMax int
	// StopSecondsMax is how long calls under way may take to end when the server
	// stops; default 10. What is left then loses its answer and nothing else.
	StopSecondsMax int
}

// streamWorkers are the goroutines that calls run on while there are as many or fewer
// at once: their stacks have grown already. More calls get goroutines of their own.
const streamWorkers = 512

// headersBytesMax bounds a call's metadata.
const headersBytesMax = 64 << 10

// Server is a gRPC server with giro's interceptors, health and reflection.
type Server struct {
	config ServerConfig
	grpc   *grpc.Server
	health *health.Server
}

// NewServer makes a server. Services are registered before Serve.
func NewServer(config ServerConfig) *Server {
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	orDefault := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	orDefault(&config.DeadlineSeconds, 30)
	orDefault(&config.StreamDeadlineSeconds, 3600)
	orDefault(&config.ReceiveBytesMax, 4<<20)
	orDefault(&config.StreamsMax, 10_000)
	orDefault(&config.StopSecondsMax, 10)
	e := edge{
		log:            config.Logger,
		deadline:       time.Duration(config.DeadlineSeconds) * time.Second,
		streamDeadline: time.Duration(config.StreamDeadlineSeconds) * time.Second,
	}
	s := &Server{config: config, health: health.NewServer(), grpc: grpc.NewServer(
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(config.ReceiveBytesMax),
		grpc.MaxHeaderListSize(headersBytesMax),
		grpc.MaxConcurrentStreams(uint32(config.StreamsMax)),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(e.logUnary, e.recoverUnary, e.principalUnary, e.deadlineUnary, e.validateUnary, e.sanitiseUnary),
		grpc.ChainStreamInterceptor(e.logStream, e.recoverStream, e.contextStream, e.sanitiseStream),
	)}
	healthv1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	return s
}

// RegisterService registers a service, so that Server is a grpc.ServiceRegistrar.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, implementation any) {
	s.grpc.RegisterService(desc, implementation)
}

// Serve answers on the listener until ctx ends. Then it reports NOT_SERVING,
// takes no new calls, lets those under way end within StopSecondsMax, cuts off the
// rest, and returns nil. It closes the listener in any case, and refuses one that
// other machines reach unless Insecure is set.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if err := checkListener(l, s.config.Insecure); err != nil {
		_ = l.Close() // the refusal is the error that counts
		return err
	}
	for name := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(name, healthv1.HealthCheckResponse_SERVING)
	}
	served := make(chan error, 1)
	go func() { served <- s.grpc.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	s.health.Shutdown()
	graceful := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(graceful)
	}()
	select {
	case <-graceful:
	case <-time.After(time.Duration(s.config.StopSecondsMax) * time.Second):
		// Handlers that do not heed their context are left behind: GracefulStop
		// would wait for them for ever.
		s.grpc.Stop()
	}
	if err := <-served; !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil // ctx had ended before it began
}
