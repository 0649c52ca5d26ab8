// Package serve answers over HTTP with the smoothed classifier of a run, by the Open Inference Protocol v2 (KServe,
// NVIDIA Triton).
//
// All requests share one sampler (run.Answerer). Each request has noise of its own, from a key that the system draws
// after the input has arrived. So earlier answers say nothing about the noise of a later one.
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

	"golang.org/x/net/netutil"
	"golang.org/x/sync/semaphore"

	"github.com/rscert/rscert/internal/auditlog"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/spec"
)

// Config holds the settings of a server.
type Config struct {
	Listen string // address
	Name   string // name of the model in the protocol
	// Version is the version of rscert.
	Version string

	MaxBody     int64         // bytes of a request
	Queue       int           // maximum number of inputs that wait for answers
	Samples     int64         // maximum number of samples that a request may need
	Connections int           // maximum number of connections
	Timeout     time.Duration // of the answer to a request
	ReadTimeout time.Duration // of a request's arrival
	Drain       time.Duration // of the requests that are running when the server stops

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
	tokens  [sha256.Size]byte
	log     *auditlog.Log
	metrics *metrics
	waiting atomic.Int64        // inputs that wait for answers
	bodies  *semaphore.Weighted // bytes of the bodies of running requests
}

// classifier answers questions. It is a run.Answerer.
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

// headerTimeout limits the arrival of a request's header, and idleTimeout the pause between requests of a connection.
const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 60 * time.Second
	maxHeader     = 64 << 10
)

// allBodies limits the bytes of the bodies of all running requests, unless two of the largest are longer.
const allBodies = 64 << 20

func newServer(c Config) *Server {
	// Decoding takes a multiple of a body's memory.
	return &Server{config: c, bodies: semaphore.NewWeighted(max(allBodies, 2*c.MaxBody)), metrics: newMetrics(), tokens: sha256.Sum256(c.Token)}
}

// Serve listens, opens the classifier, and answers until ctx ends. The running requests then have config.Drain to
// finish. The function open opens the classifier; until it returns, the server answers that it is live but not ready.
// Serve closes the classifier. The function listening, if not nil, receives the address.
func Serve(ctx context.Context, c Config, open func(context.Context) (*run.Answerer, error), listening func(net.Addr)) error {
	if err := c.Validate(); err != nil {
		return err
	}
	s := newServer(c)
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return spec.BadInput(err)
	}
	if listening != nil {
		listening(listener.Addr())
	}
	listener = netutil.LimitListener(listener, c.Connections)
	if c.TLS != nil {
		listener = tls.NewListener(listener, c.TLS)
	}
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: c.ReadTimeout, IdleTimeout: idleTimeout,
		WriteTimeout: c.ReadTimeout + c.Timeout + headerTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(c.Slog.Handler(), slog.LevelDebug),
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	served := make(chan error, 1)
	go func() {
		err := server.Serve(listener)
		fail(err)
		served <- err
	}()
	err = s.work(ctx, server, open)
	_ = server.Close()
	if stopped := <-served; !errors.Is(stopped, http.ErrServerClosed) {
		err = errors.Join(err, stopped)
	}
	return err
}

// work opens the classifier and runs its sampler until ctx ends and the requests have drained.
func (s *Server) work(ctx context.Context, server *http.Server, open func(context.Context) (*run.Answerer, error)) error {
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
	if err := server.Shutdown(drain); err != nil {
		s.config.Slog.Warn("requests were cut off", "waiting", s.waiting.Load())
		_ = server.Close()
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

// record writes the answers to a question to the audit log.
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
