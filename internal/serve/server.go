// Package serve answers requests over HTTP and gRPC with the smoothed classifier of a run. It follows the Open
// Inference Protocol v2 (KServe, NVIDIA Triton).
//
// HTTP and gRPC differ only in how a request is decoded into a query and how its answers are encoded. They share the
// limits, checks, answers, audit log and metrics.
//
// All requests share one sampler (run.Answerer). Each request has its own noise. The operating system draws the key of
// this noise after the input has arrived. Earlier answers therefore reveal nothing about the noise of later answers.
package serve

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"

	"github.com/rscert/rscert/internal/auditlog"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/spec"
)

// Config holds the settings of a server.
type Config struct {
	Listen     string // address for HTTP
	GRPCListen string // address for gRPC; empty: no gRPC
	Name       string // name of the model in the protocol
	// Version is the version of rscert.
	Version string

	MaxBody int64 // maximum number of bytes of a request
	Queue   int   // maximum number of inputs that wait for answers
	Samples int64 // maximum number of samples that a request may need
	// Connections is the maximum number of running requests. The maximum number of connections is this number plus
	// spareConnections.
	Connections int
	Timeout     time.Duration // maximum time to answer a request
	ReadTimeout time.Duration // maximum time for a request to arrive
	Drain       time.Duration // time to finish the running requests when the server stops

	TLS   *tls.Config // nil: no TLS
	Token []byte      // bearer token; nil: none is needed
	Log   string      // path of the audit log; empty: none
	Slog  *slog.Logger
}

// Validate checks the limits. Its errors are InputErrors.
func (c Config) Validate() error {
	for _, limit := range []struct {
		name  string
		value float64
	}{
		{"max-body", float64(c.MaxBody)}, {"queue", float64(c.Queue)}, {"max-samples", float64(c.Samples)}, {"connections", float64(c.Connections)},
		{"timeout", c.Timeout.Seconds()}, {"read-timeout", c.ReadTimeout.Seconds()}, {"drain", c.Drain.Seconds()},
	} {
		if !(limit.value > 0) {
			return spec.BadInputf("--%s: want more than 0", limit.name)
		}
	}
	return nil
}

// Server is a server of one classifier.
type Server struct {
	config  Config
	ready   atomic.Pointer[opened] // nil until the model has passed its checks
	tokens  [sha256.Size]byte      // hash of the bearer token
	log     *auditlog.Log
	metrics *metrics

	connections *connections
	running     atomic.Int64        // requests that use the sampler
	waiting     atomic.Int64        // inputs that wait for answers
	bodies      *semaphore.Weighted // bytes of the bodies of running requests
	arriving    *semaphore.Weighted // gRPC messages that are arriving
}

// classifier has the methods of run.Answerer that the server uses.
type classifier interface {
	About() run.Description
	ImageOptions() dataset.Options
	Samples(q run.Question) (int64, error)
	Ask(ctx context.Context, q run.Question) (run.Answered, error)
}

// opened is a classifier that has passed its checks.
type opened struct{ classifier }

// answerer returns the classifier. The server must be ready.
func (s *Server) answerer() classifier { return s.ready.Load() }

// headerTimeout limits the arrival of a request's header, and idleTimeout limits the pause between requests of a
// connection.
const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 60 * time.Second
	maxHeader     = 64 << 10
)

// allBodies is the maximum number of bytes of the bodies of all running requests together. If 2·Config.MaxBody is
// greater, newServer uses 2·Config.MaxBody instead.
const allBodies = 64 << 20

func newServer(c Config) *Server {
	// the values decoded from the bodies can take several times as much memory as the bodies
	bodies := max(allBodies, 2*c.MaxBody)
	return &Server{
		config: c, metrics: newMetrics(), tokens: sha256.Sum256(c.Token),
		connections: newConnections(c.Connections + spareConnections),
		bodies:      semaphore.NewWeighted(bodies), arriving: semaphore.NewWeighted(bodies / c.MaxBody),
	}
}

// opener opens the classifier.
type opener = func(context.Context) (*run.Answerer, error)

// fronts are the HTTP server and the gRPC server.
type fronts struct {
	http *http.Server
	grpc *grpc.Server // nil: no gRPC
}

// shutdown makes the servers accept no more connections. It waits for the running requests, at most until ctx ends.
func (f fronts) shutdown(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if f.grpc != nil {
			f.grpc.GracefulStop()
		}
	}()
	err := f.http.Shutdown(ctx)
	select {
	case <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return err
}

// close cuts off the running requests.
func (f fronts) close() {
	_ = f.http.Close()
	if f.grpc != nil {
		f.grpc.Stop()
	}
}

// fronts returns the HTTP server, and the gRPC server if there is one. The servers do not listen yet.
func (s *Server) fronts() fronts {
	c := s.config
	f := fronts{http: &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: c.ReadTimeout, IdleTimeout: idleTimeout,
		WriteTimeout: c.ReadTimeout + c.Timeout + headerTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(c.Slog.Handler(), slog.LevelDebug),
	}}
	if c.GRPCListen != "" {
		f.grpc = s.newGRPC()
	}
	return f
}

// listen opens listeners at the addresses c.Listen and c.GRPCListen. If the server has no gRPC, the listener forGRPC is
// nil.
func (c Config) listen() (forHTTP, forGRPC net.Listener, err error) {
	if forHTTP, err = net.Listen("tcp", c.Listen); err != nil || c.GRPCListen == "" {
		return forHTTP, nil, spec.BadInput(err)
	}
	if forGRPC, err = net.Listen("tcp", c.GRPCListen); err != nil {
		return nil, nil, spec.BadInput(errors.Join(err, forHTTP.Close()))
	}
	return forHTTP, forGRPC, nil
}

// Serve listens, opens the classifier, and answers until ctx ends. It then waits for the running requests, at most for
// the time c.Drain. The function 'open' opens the classifier. Until 'open' returns, the server answers that it is live
// but not ready. When ctx ends, Serve returns nil unless something else fails. If ctx ends while the function 'open'
// runs, Serve also returns nil unless something else fails. Serve closes the classifier. If the function 'listening' is
// not nil, Serve passes the two addresses to it. The address forGRPC is nil if the server does not serve gRPC.
func Serve(ctx context.Context, c Config, open opener, listening func(forHTTP, forGRPC net.Addr)) error {
	if err := c.Validate(); err != nil {
		return err
	}
	s := newServer(c)
	forHTTP, forGRPC, err := c.listen()
	if err != nil {
		return err
	}
	f, told := s.fronts(), ctx
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var serving errgroup.Group
	start := func(serve func() error) {
		serving.Go(func() error {
			err := serve()
			fail(err)
			return err
		})
	}
	var address net.Addr
	if forGRPC != nil {
		address = forGRPC.Addr()
		start(func() error { return f.grpc.Serve(limitedListener{forGRPC, s.connections}) })
	}
	if listening != nil {
		listening(forHTTP.Addr(), address)
	}
	start(func() error { return f.http.Serve(s.secure(limitedListener{forHTTP, s.connections})) })
	err = s.work(ctx, f, open)
	if s.ready.Load() == nil && told.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // the server was told to stop while it opened the classifier
	}
	f.close()
	if stopped := serving.Wait(); !errors.Is(stopped, http.ErrServerClosed) && !errors.Is(stopped, grpc.ErrServerStopped) {
		err = errors.Join(err, stopped)
	}
	return err
}

// secure adds TLS to the listener of HTTP.
func (s *Server) secure(l net.Listener) net.Listener {
	if s.config.TLS == nil {
		return l
	}
	return tls.NewListener(l, s.config.TLS)
}

// work opens the classifier and runs its sampler. When ctx ends or the sampler fails, work waits for the running
// requests, at most for the time Config.Drain.
func (s *Server) work(ctx context.Context, f fronts, open opener) error {
	a, err := open(ctx)
	if err != nil {
		return err
	}
	if err := s.openLog(a); err != nil {
		return errors.Join(err, a.Close())
	}
	sampler, stopSampler := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSampler()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(sampler) }()
	s.metrics.watch(a, &s.waiting)
	s.ready.Store(&opened{a})
	s.config.Slog.Info("ready", "model", s.config.Name, "run", a.About().RunID)

	var failed error
	select {
	case failed = <-ended:
		ended <- nil
		s.config.Slog.Error("the sampler has failed", "error", failed)
	case <-ctx.Done():
		s.config.Slog.Info("draining", "waiting", s.waiting.Load())
	}
	drain, cancel := context.WithTimeout(context.Background(), s.config.Drain)
	defer cancel()
	if err := f.shutdown(drain); err != nil {
		s.config.Slog.Warn("requests were cut off", "waiting", s.waiting.Load())
		f.close()
		stopSampler()
	}
	a.Stop()
	if err := <-ended; failed == nil && !errors.Is(err, context.Canceled) {
		failed = err
	}
	var closed error
	if s.log != nil {
		closed = s.log.Close()
	}
	return errors.Join(failed, closed, a.Close())
}

// openLog opens the audit log and begins a session.
func (s *Server) openLog(a *run.Answerer) (err error) {
	if s.config.Log == "" {
		return nil
	}
	if s.log, err = auditlog.Open(s.config.Log, a.Seed()); err != nil {
		return spec.BadInput(err)
	}
	about := a.About()
	return s.log.Begin(auditlog.Session{
		Version: s.config.Version, RunID: about.RunID, Model: about.ModelSHA, Rule: about.Rule, Alpha: about.Alpha, Budget: about.Budget,
		Round: about.Round, Library: about.Library, Device: about.Device, Batch: about.Batch,
	})
}

// record adds a query and its answers to the audit log.
func (s *Server) record(q query, r run.Answered) error {
	if s.log == nil {
		return nil
	}
	answers := make([]auditlog.Answer, len(r.Answers))
	for i, a := range r.Answers {
		answers[i] = auditlog.Answer{
			Request: q.id, Input: run.InputHash(q.question.Inputs[i]), Key: formatKey(r.Key),
			Certify: q.question.Certify, Radius: q.question.Radius, Answer: a,
		}
	}
	if err := s.log.Append(answers); err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	return nil
}
