package onnx

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/rscert/rscert/internal/ortlib"
)

// BenchmarkAlone runs the file $RSCERT_BENCH_MODEL directly in ONNX Runtime. It uses rscert's options for the device
// $RSCERT_BENCH_DEVICE, but no other part of rscert. scripts/gpu_check.py runs this benchmark and compares its speed
// with the speed of rscert's sampling. The variant 'bound' keeps its inputs on the device, and the variant 'sent' sends
// them with each call. Each call has $RSCERT_BENCH_BATCH samples. In the variant callers=N, N calls run concurrently.
func BenchmarkAlone(b *testing.B) {
	file := os.Getenv("RSCERT_BENCH_MODEL")
	if file == "" {
		b.Skip("RSCERT_BENCH_MODEL names no model")
	}
	batch, err := strconv.Atoi(os.Getenv("RSCERT_BENCH_BATCH"))
	if err != nil {
		b.Fatalf("RSCERT_BENCH_BATCH: %v", err)
	}
	path, d := os.Getenv(ortlib.Env), device(b, os.Getenv("RSCERT_BENCH_DEVICE"))
	if path == "" {
		if path, err = ortlib.FindFor(d.Build(), ""); err != nil {
			b.Fatal(err)
		}
	}
	r, err := Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	a, err := openAlone(file, d, int64(batch))
	if err != nil {
		b.Fatal(err)
	}
	defer a.session.Destroy()
	most := 2 // on a GPU, two concurrent calls suffice to hide the host's work between calls
	if !d.provider.ownMemory {
		most = runtime.GOMAXPROCS(0)
	}
	for callers := 1; callers <= most; callers++ {
		for _, way := range []struct {
			name string
			call func(*ort.Tensor[float32], *ort.Tensor[float32]) (call func() error, end func() error, err error)
		}{{"bound", a.bound}, {"sent", a.sent}} {
			b.Run(fmt.Sprintf("%s/callers=%d", way.name, callers), func(b *testing.B) {
				calls := make([]func() error, callers)
				for i := range calls {
					in, out, err := a.tensors()
					if err != nil {
						b.Fatal(err)
					}
					defer in.Destroy()
					defer out.Destroy()
					call, end, err := way.call(in, out)
					if err != nil {
						b.Fatal(err)
					}
					defer func() { _ = end() }()
					if err := call(); err != nil { // the first call chooses the kernels
						b.Fatal(err)
					}
					calls[i] = call
				}
				repeat(b, calls)
				b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "samples/s")
			})
		}
	}
}

// The function 'repeat' calls the given functions b.N times in total. The functions run concurrently and share these
// calls.
func repeat(b *testing.B, calls []func() error) {
	var made atomic.Int64
	failed := make(chan error, len(calls))
	b.ResetTimer()
	for _, call := range calls {
		go func() {
			var err error
			for err == nil && made.Add(1) <= int64(b.N) {
				err = call()
			}
			failed <- err
		}()
	}
	for range calls {
		if err := <-failed; err != nil {
			b.Error(err)
		}
	}
	b.StopTimer()
}

// The type 'alone' holds a session that ONNX Runtime opened directly from a model's file.
type alone struct {
	session         *ort.DynamicAdvancedSession
	input, output   string
	inSize, outSize ort.Shape
}

func openAlone(file string, d Device, batch int64) (*alone, error) {
	inputs, outputs, err := ort.GetInputOutputInfo(file)
	if err != nil {
		return nil, err
	}
	a := &alone{input: inputs[0].Name, output: outputs[0].Name, inSize: inputs[0].Dimensions, outSize: outputs[0].Dimensions}
	a.inSize[0], a.outSize[0] = batch, batch
	o, err := ort.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	defer o.Destroy()
	if err := o.SetIntraOpNumThreads(1); err != nil {
		return nil, err
	}
	if _, err := d.provider.options(o, settings{unit: d.unit, workers: 1}); err != nil {
		return nil, err
	}
	a.session, err = ort.NewDynamicAdvancedSession(file, []string{a.input}, []string{a.output}, o)
	return a, err
}

// tensors returns an input and memory for its output, both on the host.
func (a *alone) tensors() (in, out *ort.Tensor[float32], err error) {
	x := make([]float32, a.inSize.FlattenedSize())
	for i := range x {
		x[i] = float32(i%251)/125 - 1
	}
	if in, err = ort.NewTensor(a.inSize, x); err != nil {
		return nil, nil, err
	}
	out, err = ort.NewEmptyTensor[float32](a.outSize)
	return in, out, err
}

func (a *alone) sent(in, out *ort.Tensor[float32]) (call, end func() error, err error) {
	return func() error { return a.session.Run([]ort.Value{in}, []ort.Value{out}) }, func() error { return nil }, nil
}

// The method 'bound' binds the input and the output to the session (IoBinding of ONNX Runtime). It returns a function
// that runs the session with this binding. A device with its own memory copies the input only once.
func (a *alone) bound(in, out *ort.Tensor[float32]) (call, end func() error, err error) {
	binding, err := a.session.CreateIoBinding()
	if err != nil {
		return nil, nil, err
	}
	if err := binding.BindInput(a.input, in); err != nil {
		return nil, nil, err
	}
	if err := binding.BindOutput(a.output, out); err != nil {
		return nil, nil, err
	}
	return func() error { return a.session.RunWithBinding(binding) }, binding.Destroy, nil
}
