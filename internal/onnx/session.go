package onnx

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/quote"
)

// session is a graph opened in ONNX Runtime. Several goroutines may run it.
type session struct {
	ort       *ort.DynamicAdvancedSession
	inputs    []string // names, in ort's order
	outputs   []string
	provider  *provider
	options   map[string]string // set by the provider
	loops     bool              // the graph has loops, which may not end
	weights   graph.Weights     // used in place
	abandoned atomic.Bool       // a run did not end: do not destroy the session

	slots chan struct{} // limit concurrent calls; nil: no limit

	mu   sync.Mutex
	free []*ort.RunOptions // not in use
}

// program is a model ready to be opened.
type program struct {
	model   []byte
	inputs  []string            // the names
	outputs []string            // the output with the scores first
	loops   bool                // it has loops, which may not end
	frugal  bool                // runs reuse memory as they go; planning it ahead takes twice as much for a backward pass
	tensors []graph.Initializer // the model's, with their data in weights
	weights graph.Weights
}

// openSession opens a graph on a device.
//
// A session runs on one thread, nodes one after another. The shapes alone then fix the order of every sum, and several
// goroutines running samples at once use the cores better than threads that wait for each other in every node.
func openSession(g program, p *provider, s settings) (*session, error) {
	return openProfiled(g, p, s, p.strict, "")
}

// openProfiled opens a graph. If strict, the whole graph must run on the provider. If prefix is set, runs write a
// profile to files with that prefix.
func openProfiled(g program, p *provider, s settings, strict bool, profile string) (open *session, err error) {
	p.runOnThread(func() { open, err = openHere(g, p, s, strict, profile) })
	return open, err
}

func openHere(g program, p *provider, s settings, strict bool, profile string) (*session, error) {
	o, err := ort.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	defer o.Destroy()
	err = errors.Join(
		o.SetIntraOpNumThreads(1),
		o.SetInterOpNumThreads(1),
		o.SetExecutionMode(ort.ExecutionModeSequential),
		o.SetGraphOptimizationLevel(ort.GraphOptimizationLevelEnableAll),
		o.SetLogSeverityLevel(ort.LoggingLevelFatal),
	)
	if err == nil && profile != "" {
		err = o.EnableProfiling(profile)
	}
	if err == nil && g.frugal {
		err = o.SetMemPattern(false)
	}
	var set map[string]string
	if err == nil {
		set, err = p.options(o, s)
	}
	if err == nil && strict {
		err = o.AddSessionConfigEntry("session.disable_cpu_ep_fallback", "1")
	}
	if err != nil {
		return nil, plain(err)
	}
	for _, t := range g.tensors {
		if err := addWeight(o, t); err != nil {
			return nil, fmt.Errorf("weight '%s': %w", quote.Name(t.Name), plain(err))
		}
	}
	open, err := ort.NewDynamicAdvancedSessionWithONNXData(g.model, g.inputs, g.outputs, o)
	if err != nil {
		return nil, plain(err)
	}
	ready := &session{ort: open, inputs: g.inputs, outputs: g.outputs, provider: p, loops: g.loops, options: set, weights: g.weights}
	if p.calls > 0 {
		ready.slots = make(chan struct{}, p.calls)
	}
	return ready, nil
}

// plain removes source positions and codes from an error of ONNX Runtime and keeps its first line.
func plain(err error) error {
	if err == nil {
		return nil
	}
	if _, advised := hint.Of(err); advised { // not from ONNX Runtime
		return err
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	if _, after, found := strings.Cut(text, "[ONNXRuntimeError] : "); found {
		if parts := strings.SplitN(after, " : ", 3); len(parts) == 3 {
			text = parts[2]
		}
	}
	if _, after, found := strings.Cut(text, " with error: "); found { // from a library that it loads
		text = after
	}
	return errors.New(printableText(strings.TrimSpace(text)))
}

// scores runs the graph once on its first input, in, and writes its first output to out.
func (s *session) scores(ctx context.Context, inShape, outShape ort.Shape, in, out []float32) error {
	return s.run(ctx, []tensor{&held[float32]{s.inputs[0], inShape, in}}, []tensor{&held[float32]{s.outputs[0], outShape, out}})
}

// run runs the graph once. in holds all inputs, out the requested outputs in any order.
func (s *session) run(ctx context.Context, in, out []tensor) error {
	if len(in) != len(s.inputs) {
		return fmt.Errorf("the graph has %d inputs, %d are given", len(s.inputs), len(in))
	}
	return s.call(ctx, func(options *ort.RunOptions) error {
		var pin runtime.Pinner // C keeps the pointers until the tensors are destroyed
		defer pin.Unpin()
		given, err := openTensors(s.inputs, in, &pin)
		defer destroyTensors(given)
		if err != nil {
			return err
		}
		made, err := openTensors(s.outputs, out, &pin)
		defer destroyTensors(made) // including outputs that ONNX Runtime makes
		if err != nil {
			return err
		}
		if err := s.ort.RunWithOptions(given, made, options); err != nil {
			return err
		}
		for _, t := range out {
			if err := t.take(made[slices.Index(s.outputs, t.label())]); err != nil {
				return err
			}
		}
		return nil
	})
}

// call runs the graph by calling f. Cancelling ctx stops it between two nodes.
func (s *session) call(ctx context.Context, f func(*ort.RunOptions) error) error {
	if s.slots != nil {
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	options, err := s.runOptions()
	if err != nil {
		return err
	}
	if s.loops {
		return s.callLoop(ctx, options, f)
	}
	terminated := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = options.Terminate()
		close(terminated)
	})
	err = f(options)
	if stop() {
		s.keep(options)
		return plain(err)
	}
	<-terminated
	_ = options.Destroy()
	return ctx.Err()
}

// patience is how long a cancelled run of a model with loops may take to stop.
const patience = 5 * time.Second

// abandoned is set once a run ignores its cancellation. ONNX Runtime then stays open: one of its threads works until
// the process ends.
var abandoned atomic.Bool

// abandonedSessions keeps abandoned sessions' memory alive.
var abandonedSessions sync.Map

// callLoop is call for a model with loops. A loop that never ends and whose body has no nodes cannot be stopped between
// two nodes. callLoop abandons it; f owns everything that ONNX Runtime still uses. (The goroutine costs 8 µs a run.)
func (s *session) callLoop(ctx context.Context, options *ort.RunOptions, f func(*ort.RunOptions) error) error {
	done := make(chan error, 1)
	go func() { done <- f(options) }()
	select {
	case err := <-done:
		s.keep(options)
		return plain(err)
	case <-ctx.Done():
	}
	_ = options.Terminate()
	select {
	case <-done:
		_ = options.Destroy()
	case <-time.After(patience):
		s.abandoned.Store(true)
		abandonedSessions.Store(s, true)
		abandoned.Store(true)
	}
	return ctx.Err()
}

// keep saves options of a run that was not cancelled for another run.
func (s *session) keep(options *ort.RunOptions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, options)
}

func (s *session) runOptions() (*ort.RunOptions, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		o := s.free[n-1]
		s.free = s.free[:n-1]
		return o, nil
	}
	return ort.NewRunOptions()
}

func (s *session) close() error {
	if s.abandoned.Load() {
		return nil
	}
	for _, o := range s.free {
		_ = o.Destroy()
	}
	s.free = nil
	var err error
	s.provider.runOnThread(func() { err = s.ort.Destroy() })
	s.weights = nil // not earlier
	return err
}
