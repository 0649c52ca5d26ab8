package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rscert/rscert/internal/serve/oip"
)

// maxStreams is the maximum number of calls that a client may make at once on one connection. Further calls wait.
const maxStreams = 64

// If a client sends nothing for the time pingAfter, the server pings the client. If no answer arrives within
// pingTimeout, the server closes the connection. It also closes the connection of a client that pings the server more
// often than once per minPing.
const (
	pingAfter   = 30 * time.Second
	pingTimeout = 10 * time.Second
	minPing     = 5 * time.Second
)

// newGRPC returns the gRPC server.
func (s *Server) newGRPC() *grpc.Server {
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(grpcproto.Name)}),
		grpc.MaxRecvMsgSize(int(min(s.config.MaxBody, math.MaxInt32))),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.ConnectionTimeout(headerTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: idleTimeout, Time: pingAfter, Timeout: pingTimeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.InTapHandle(s.limitTime),
	}
	if s.config.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.config.TLS)))
	}
	server := grpc.NewServer(options...)
	server.RegisterService(s.service(), nil)
	return server
}

// service describes the calls. Each call has one message, but is declared as a stream. The server can therefore check
// the token and the limits before it reads the message.
func (s *Server) service() *grpc.ServiceDesc {
	generated := oip.GRPCInferenceService_ServiceDesc
	d := &grpc.ServiceDesc{ServiceName: generated.ServiceName, Metadata: generated.Metadata}
	add := func(method string, answer callHandler) {
		d.Streams = append(d.Streams, grpc.StreamDesc{StreamName: method, ServerStreams: true, Handler: s.call(answer)})
	}
	// The messages of ServerLive and ServerReady are empty, so the server answers without waiting for the message.
	add("ServerLive", func(grpc.ServerStream) (proto.Message, error) { return &oip.ServerLiveResponse{Live: true}, nil })
	add("ServerReady", func(grpc.ServerStream) (proto.Message, error) {
		return &oip.ServerReadyResponse{Ready: s.checkReady() == nil}, nil
	})
	add("ModelReady", authorised(s, s.unclaimed, s.grpcModelReady))
	add("ServerMetadata", authorised(s, s.unclaimed, s.grpcServerMetadata))
	add("ModelMetadata", authorised(s, s.unclaimed, s.grpcModelMetadata))
	add("ModelInfer", authorised(s, s.enter, s.grpcInfer))
	return d
}

// callHandler answers a call.
type callHandler = func(stream grpc.ServerStream) (proto.Message, error)

// authorised returns a handler that refuses calls without the token. The function 'enter' returns a claim for a call,
// which is the call's share of the server's limits (see limits.go). It returns an error if a limit of the server is
// reached.
func authorised[M any, P interface {
	*M
	proto.Message
}](s *Server, enter func() (*claim, error), answer func(context.Context, *claim, P) (proto.Message, error)) callHandler {
	return func(stream grpc.ServerStream) (proto.Message, error) {
		headers, _ := metadata.FromIncomingContext(stream.Context())
		header := append(headers.Get("authorization"), "")[0]
		if !s.hasToken(header) {
			return nil, errNoToken
		}
		c, err := enter()
		if err != nil {
			return nil, err
		}
		defer c.release()
		data, err := s.receive(stream, c)
		if err != nil {
			return nil, err
		}
		r := P(new(M))
		if err := unmarshal(data, r); err != nil {
			return nil, err
		}
		return answer(stream.Context(), c, r)
	}
}

// call wraps the handler of a call. The wrapper logs and counts the calls, and turns errors and panics into gRPC
// errors.
func (s *Server) call(answer callHandler) grpc.StreamHandler {
	return func(_ any, stream grpc.ServerStream) (err error) {
		began, ctx := time.Now(), stream.Context()
		method, _ := grpc.MethodFromServerStream(stream)
		client := "unknown"
		if p, ok := peer.FromContext(ctx); ok {
			client = p.Addr.String()
			defer s.connections.begin(routeOf(p.LocalAddr, p.Addr))()
		}
		defer clockOf(ctx).stop()
		defer func() {
			if p := recover(); p != nil {
				err = status.Error(codes.Internal, s.rescued(method, p).Error())
			}
			code := status.Code(err).String()
			s.metrics.request(method, code, time.Since(began))
			s.config.Slog.Info("request", "method", "gRPC", "path", method, "status", code,
				"seconds", time.Since(began).Seconds(), "client", client)
		}()
		m, err := answer(stream)
		if err != nil {
			return s.grpcError(method, err)
		}
		return stream.SendMsg(m)
	}
}

// grpcError returns the gRPC form of an error.
func (s *Server) grpcError(method string, err error) error {
	if errors.Is(err, context.Canceled) {
		return status.Error(codes.Canceled, "the client has gone, or the server is closing")
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	st := statusOf(err)
	if st == http.StatusInternalServerError {
		err = s.hide(method, err)
	}
	answer := status.New(codeOf(st), spellPlain(err))
	if mayRetry(st) {
		if detailed, err := answer.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}); err == nil {
			answer = detailed
		}
	}
	return answer.Err()
}

// codeOf returns the gRPC code for an HTTP status.
func codeOf(status int) codes.Code {
	switch status {
	case http.StatusBadRequest:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusNotFound:
		return codes.NotFound
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusServiceUnavailable:
		return codes.Unavailable
	case http.StatusGatewayTimeout:
		return codes.DeadlineExceeded
	}
	return codes.Internal
}

// clock ends the context of a call if the message takes too long to arrive or the client takes too long to read the
// answer.
type clock struct {
	timer *time.Timer
	end   context.CancelCauseFunc
}

type clockKey struct{}

func clockOf(ctx context.Context) *clock { return ctx.Value(clockKey{}).(*clock) }

func (c *clock) stop() {
	c.timer.Stop()
	c.end(nil)
}

// context.Cause returns errSlow for a context that its clock has ended (see the type 'clock').
var errSlow = errors.New("the client took too long")

// timedContext is a context with a clock. Its method Err returns DeadlineExceeded if the clock has ended the context.
type timedContext struct{ context.Context }

// Err returns the reason why the context ended, or nil.
func (c timedContext) Err() error {
	if errors.Is(context.Cause(c.Context), errSlow) {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

// limitTime starts the clock of a call.
func (s *Server) limitTime(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, end := context.WithCancelCause(ctx)
	timer := time.AfterFunc(s.config.ReadTimeout, func() { end(errSlow) })
	return context.WithValue(timedContext{ctx}, clockKey{}, &clock{timer, end}), nil
}

// receive reads the message of a call. It lets only a few messages arrive at the same time, because the server learns
// the length of a message only when the message has arrived.
func (s *Server) receive(stream grpc.ServerStream, c *claim) (data []byte, err error) {
	ctx := stream.Context()
	if err := s.arriving.Acquire(ctx, 1); err != nil {
		return nil, problem{http.StatusTooManyRequests, errors.New("too many messages arrive at once")}
	}
	defer s.arriving.Release(1)
	if err := stream.RecvMsg(&data); err != nil {
		return nil, cmp.Or(ctx.Err(), err) // err is gRPC's own error, for example for a message that is too long
	}
	clockOf(ctx).timer.Reset(s.config.Timeout + headerTimeout)
	return data, c.take(int64(len(data)))
}

// codec leaves the messages of clients as bytes, and encodes answers.
type codec struct{ encoding.CodecV2 }

// Unmarshal copies the bytes of a message to v.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	p, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("a message is read into %T", v)
	}
	*p = data.Materialize()
	return nil
}
