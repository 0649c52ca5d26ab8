package onnx

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ort "github.com/yalue/onnxruntime_go"
)

// The execution providers that rscert uses, by ONNX Runtime's names.
const (
	cpuProvider  = "CPUExecutionProvider"
	cudaProvider = "CUDAExecutionProvider"
)

// session is a graph opened in ONNX Runtime. Several goroutines may run it.
type session struct {
	ort       *ort.DynamicAdvancedSession
	loops     bool        // the graph has loops, which may not end
	abandoned atomic.Bool // a run did not end: it is not to be destroyed

	mu   sync.Mutex
	free []*ort.RunOptions // not in use
}

// openSession opens a graph whose input and output are float32.
//
// One thread inside a session, nodes one after another: the order of every sum
// is then fixed by the shapes alone, and several goroutines running samples at
// once use the cores better than threads that wait for each other in every
// node. On CUDA, kernels are chosen by heuristics rather than by timing them,
// float32 stays float32 (no TF32), and nothing falls back to the CPU unasked.
func openSession(model []byte, in, out string, loops bool, d Device) (*session, error) {
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
	if err == nil && d.kind == deviceCUDA {
		err = appendCUDA(o, d.index)
	}
	if err != nil {
		return nil, err
	}
	s, err := ort.NewDynamicAdvancedSessionWithONNXData(model, []string{in}, []string{out}, o)
	if err != nil {
		return nil, plain(err)
	}
	return &session{ort: s, loops: loops}, nil
}

// cudaWorks returns nil if the library can run models on an NVIDIA GPU. That
// CUDA is among its providers does not say so: the provider is a library of
// its own, which needs others and a driver.
func (r *Runtime) cudaWorks() error {
	if !slices.Contains(r.providers, cudaProvider) {
		return errors.New("the ONNX Runtime library has no CUDA provider")
	}
	o, err := ort.NewSessionOptions()
	if err != nil {
		return err
	}
	defer o.Destroy()
	if err := appendCUDA(o, 0); err != nil {
		return plain(err)
	}
	return nil
}

// plain strips an error of ONNX Runtime of the place in its sources and of its
// code, and keeps its first line.
func plain(err error) error {
	if err == nil {
		return nil
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	if _, after, found := strings.Cut(text, "[ONNXRuntimeError] : "); found {
		if parts := strings.SplitN(after, " : ", 3); len(parts) == 3 {
			text = parts[2]
		}
	}
	if _, after, found := strings.Cut(text, " with error: "); found { // of a library it loads
		text = after
	}
	return errors.New(printableText(strings.TrimSpace(text)))
}

func appendCUDA(o *ort.SessionOptions, index int) error {
	cuda, err := ort.NewCUDAProviderOptions()
	if err != nil {
		return err
	}
	defer cuda.Destroy()
	err = cuda.Update(map[string]string{
		"device_id":              strconv.Itoa(index),
		"use_tf32":               "0",
		"cudnn_conv_algo_search": "HEURISTIC",
	})
	if err != nil {
		return err
	}
	if err := o.AppendExecutionProviderCUDA(cuda); err != nil {
		return err
	}
	return o.AddSessionConfigEntry("session.disable_cpu_ep_fallback", "1")
}

// run runs the graph once. ONNX Runtime reads in and writes out in place.
func (s *session) run(ctx context.Context, inShape, outShape ort.Shape, in, out []float32) error {
	return s.call(ctx, func(options *ort.RunOptions) error {
		var pin runtime.Pinner // C keeps both pointers until the tensors are destroyed
		defer pin.Unpin()
		pin.Pin(&in[0])
		pin.Pin(&out[0])
		x, err := ort.NewTensor(inShape, in)
		if err != nil {
			return err
		}
		defer x.Destroy()
		y, err := ort.NewTensor(outShape, out)
		if err != nil {
			return err
		}
		defer y.Destroy()
		return s.ort.RunWithOptions([]ort.Value{x}, []ort.Value{y}, options)
	})
}

// outputShape runs the graph once to see the shape of its output.
func (s *session) outputShape(ctx context.Context, inShape ort.Shape, in []float32) (shape ort.Shape, err error) {
	err = s.call(ctx, func(options *ort.RunOptions) error {
		x, err := ort.NewTensor(inShape, in)
		if err != nil {
			return err
		}
		defer x.Destroy()
		outputs := []ort.Value{nil}
		if err := s.ort.RunWithOptions([]ort.Value{x}, outputs, options); err != nil {
			return err
		}
		defer outputs[0].Destroy()
		shape = outputs[0].GetShape()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return shape, nil
}

// call runs the graph by f. Cancelling ctx stops it between two nodes.
func (s *session) call(ctx context.Context, f func(*ort.RunOptions) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	options, err := s.options()
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

// patience is how long a cancelled run of a model with loops may take to end.
const patience = 5 * time.Second

// abandoned is set once a run did not end when it was told to. ONNX Runtime
// then stays open: it is at work in a thread that only the process's end stops.
var abandoned atomic.Bool

// callLoop is call for a model with loops: one whose body has no nodes, and
// never ends, cannot be stopped between two. It is abandoned; f owns all that
// ONNX Runtime uses meanwhile. (The goroutine costs 8 µs a run.)
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
		abandoned.Store(true)
	}
	return ctx.Err()
}

// keep puts options that were not told to terminate back for another run.
func (s *session) keep(options *ort.RunOptions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, options)
}

func (s *session) options() (*ort.RunOptions, error) {
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
	return s.ort.Destroy()
}
