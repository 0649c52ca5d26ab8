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

// A session is a graph that is open in ONNX Runtime. Several goroutines may run the graph at the same time.
type session struct {
	ort       *ort.DynamicAdvancedSession
	inputs    []string // names of the inputs; the field 'ort' takes the values in this order
	outputs   []string
	provider  *provider
	options   map[string]string // set by the provider
	loops     bool              // the graph has loops, which might never end
	weights   graph.Weights     // external weights; the session uses their memory until it is closed
	abandoned atomic.Bool       // a run did not end, so the session must not be destroyed

	slots chan struct{} // limits the concurrent calls; nil means no limit

	mu   sync.Mutex
	free []*ort.RunOptions // options that are not in use
}

// A program is a model that is ready to be opened.
type program struct {
	model   []byte
	inputs  []string // names of the inputs
	outputs []string // names of the outputs; the output with the scores comes first
	loops   bool     // the graph has loops, which might never end
	// if this is set, ONNX Runtime's memory pattern is off; if it were on, a gradient would take twice the memory
	frugal  bool
	tensors []graph.Initializer // the model's initializers that have their data in the field 'weights'
	weights graph.Weights
}

// openSession opens a graph on a device.
//
// A call runs on one thread, one node after another. So the shapes alone determine the order of every sum. Several
// goroutines with concurrent calls use the cores better than threads that wait for each other in every node.
func openSession(g program, p *provider, s settings) (*session, error) {
	return openProfiled(g, p, s, p.strict, "")
}

// openProfiled opens a graph. If the argument 'strict' is true, the whole graph must run on the provider. If the
// argument 'profile' is not "", runs write a profile to files whose names begin with this text.
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

// plain shortens an error of ONNX Runtime. It removes source positions and codes and keeps only the first line.
func plain(err error) error {
	if err == nil {
		return nil
	}
	if _, advised := hint.Of(err); advised { // this error is not from ONNX Runtime
		return err
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	if _, after, found := strings.Cut(text, "[ONNXRuntimeError] : "); found {
		if parts := strings.SplitN(after, " : ", 3); len(parts) == 3 {
			text = parts[2]
		}
	}
	if _, after, found := strings.Cut(text, " with error: "); found { // the rest says why a library was not loaded
		text = after
	}
	return errors.New(printableText(strings.TrimSpace(text)))
}

// The method 'scores' runs the graph once. It uses the slice 'in' as the first input, and writes the first output to
// the slice 'out'.
func (s *session) scores(ctx context.Context, inShape, outShape ort.Shape, in, out []float32) error {
	one := &struct { // allocate all parts together, because a call of a tiny model takes only microseconds
		in, out held[float32]
		tensors [2]tensor
	}{in: held[float32]{s.inputs[0], inShape, in}, out: held[float32]{s.outputs[0], outShape, out}}
	one.tensors = [2]tensor{&one.in, &one.out}
	return s.run(ctx, one.tensors[:1], one.tensors[1:])
}

// run runs the graph once. The argument 'in' holds all inputs. The argument 'out' requests outputs, in any order.
func (s *session) run(ctx context.Context, in, out []tensor) error {
	if len(in) != len(s.inputs) {
		return fmt.Errorf("the graph has %d inputs, %d are given", len(s.inputs), len(in))
	}
	return s.call(ctx, func(options *ort.RunOptions) error {
		var pin runtime.Pinner // C keeps the pointers until the tensors are destroyed
		defer pin.Unpin()
		values := make([]ort.Value, len(s.inputs)+len(s.outputs))
		defer destroyTensors(values) // including outputs that ONNX Runtime allocates
		given, made := values[:len(s.inputs)], values[len(s.inputs):]
		if err := openTensors(given, s.inputs, in, &pin); err != nil {
			return err
		}
		if err := openTensors(made, s.outputs, out, &pin); err != nil {
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

// The method 'call' runs the graph by calling f. If ctx is cancelled, the run stops after the current node.
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

// patience is the longest time that rscert waits for the end of a cancelled run, if the model has loops. This time is
// below 4 s, because the program ends 4 s after a signal.
const patience = 3 * time.Second

// The variable 'abandoned' becomes true when a run ignores its cancellation. ONNX Runtime then stays open, because one
// of its threads works until the process ends.
var abandoned atomic.Bool

// abandonedSessions keeps the memory of abandoned sessions alive.
var abandonedSessions sync.Map

// callLoop is a variant of the method 'call' for a model with loops. ONNX Runtime can stop a run only between two
// nodes. So it cannot stop an endless loop whose body has no nodes, and callLoop abandons such a run. The function f
// refers to all memory that ONNX Runtime still uses, so this memory stays alive. callLoop starts a goroutine for the
// run, which costs 8 µs per run.
func (s *session) callLoop(ctx context.Context, options *ort.RunOptions, f func(*ort.RunOptions) error) error {
	var err error // the error of f; valid after the channel 'done' is closed
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = f(options)
	}()
	select {
	case <-done:
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

// The method 'keep' saves the options of a run for reuse by another run. The run that used the options must not have
// been cancelled.
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
	s.weights = nil // the weights must stay alive until here
	return err
}
