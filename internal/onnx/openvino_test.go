package onnx

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/ortlib"
)

// openOpenVINO opens the library that 'rscert setup --device openvino' installs. It skips the test if the library is
// missing.
func openOpenVINO(t testing.TB) (*Runtime, Device) {
	t.Helper()
	d := device(t, "openvino")
	path, err := ortlib.FindFor(d.Build(), "")
	var missing *ortlib.NotFoundError
	if errors.As(err, &missing) {
		t.Skipf("%v: %s", err, missing.Hint())
	}
	if opened.Runtime != nil && opened.path != path {
		if err := opened.Runtime.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if err := r.works(d); err != nil {
		t.Fatal(err)
	}
	return r, d
}

// inPrecisions runs a test in every precision that this processor supports.
func inPrecisions(t *testing.T, test func(t *testing.T, r *Runtime, d Device, p Precision)) {
	r, d := openOpenVINO(t)
	for _, p := range d.provider.precisions {
		t.Run(p.String(), func(t *testing.T) {
			if err := r.checkArithmetic(t.Context(), d, p); err != nil {
				if p == F32 {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			test(t, r, d, p)
		})
	}
}

// loadOn loads a model and closes the model when the test ends.
func loadOn(t testing.TB, r *Runtime, model []byte, opt LoadOptions) *Model {
	t.Helper()
	m, err := r.LoadContext(t.Context(), model, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// TestOpenVINOSameNet runs models that compute the convolutional net. The scores must match the scores of
// convnetScores, up to rounding errors of the precision. The scores must have the same bits for every batch size and
// number of workers.
func TestOpenVINOSameNet(t *testing.T) {
	xs := images(40)
	inPrecisions(t, func(t *testing.T, r *Runtime, d Device, p Precision) {
		// The tolerance is 64 units of the precision, because scores are sums of 32 terms of order 1.
		tolerance := 64 * p.unit()
		models := []string{"nchw", "fixed_full", "fixed_concat", "baked", "unbatched", "stuck"}
		if p != F32 { // fewer models are enough, because the runs in float32 test every kind of batch dimension
			models = []string{"nchw", "fixed_8"}
		}
		for _, name := range models {
			var first [][]float32
			for _, c := range []struct{ batch, workers int }{{20, 1}, {1, 1}, {7, 2}, {16, 3}, {33, 2}, {0, 2}} {
				m := loadOn(t, r, testModel(t, name), LoadOptions{Device: d, Precision: p, Batch: c.batch, Workers: c.workers})
				got := scores(t, m, xs)
				for i, x := range xs {
					if name == "stuck" {
						break // the scores of this model differ from the scores that convnetScores returns
					}
					for k, want := range convnetScores(x) {
						if math.Abs(float64(got[i][k])-want) > tolerance {
							t.Fatalf("%s, %+v: score %d of image %d is %g, want %g", name, c, k, i, got[i][k], want)
						}
					}
				}
				if first == nil {
					first = got
				}
				for i := range got {
					if !sameBits(got[i], first[i]) {
						t.Fatalf("%s, %+v: image %d scores %v, at batch 20 %v", name, c, i, got[i], first[i])
					}
				}
				s := m.Settings()
				if m.Precision() != p || s.Precision != p || s.Workers != c.workers || s.Batch != m.Batch() || s.Call != m.tile ||
					!strings.Contains(s.Options["load_config"], fmt.Sprintf(`"INFERENCE_PRECISION_HINT":"%s"`, p)) ||
					!strings.Contains(s.Options["load_config"], fmt.Sprintf(`"NUM_STREAMS":"%d"`, c.workers)) {
					t.Errorf("settings %+v", s)
				}
				if m.Device() != d || m.Provider() != "OpenVINOExecutionProvider" {
					t.Errorf("runs on %v, %s", m.Device(), m.Provider())
				}
			}
		}
	})
}

// TestOpenVINOBatch uses models that may let the samples of a batch affect each other. rscert must warn about such a
// model and must not run it in calls of a whole batch. If the model's file fixes a batch size above 1, and the samples
// do affect each other, rscert must refuse the model.
func TestOpenVINOBatch(t *testing.T) {
	inPrecisions(t, func(t *testing.T, r *Runtime, d Device, p Precision) {
		for name, warning := range map[string]string{
			"batch_mean": "may let inputs of a batch see each other", "mixing": "cannot be freed", "stuck_8": "cannot be freed",
		} {
			m := loadOn(t, r, testModel(t, name), LoadOptions{Device: d, Precision: p, Batch: 20})
			if m.tile == 20 || !strings.Contains(strings.Join(warningsOf(m), "\n"), warning) {
				t.Errorf("%s: runs %d samples a call; %q", name, m.tile, warningsOf(m))
			}
		}
		_, err := r.Load(testModel(t, "batch_of_8_mean"), LoadOptions{Device: d, Precision: p})
		if err == nil || !strings.Contains(err.Error(), "the model runs only 8 samples at a time") {
			t.Errorf("error %v", err)
		}
	})
}

// TestOpenVINORuns runs one model from several goroutines and cancels runs.
func TestOpenVINORuns(t *testing.T) {
	inPrecisions(t, func(t *testing.T, r *Runtime, d Device, p Precision) {
		m := loadOn(t, r, testModel(t, "nchw"), LoadOptions{Device: d, Precision: p, Batch: 4, Workers: 4})
		xs := images(32)
		want := scores(t, m, xs)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				in, out := slices.Concat(xs[4*w:4*w+4]...), make([]float32, 4*m.Classes())
				for range 50 {
					if err := m.Run(ctx, in, out); err != nil || !sameBits(out, slices.Concat(want[4*w:4*w+4]...)) {
						t.Errorf("other scores when run at once: %v", err)
						return
					}
				}
			})
		}
		wg.Wait()
		done := make(chan error)
		go func() {
			in, out := make([]float32, 4*m.InputLen()), make([]float32, 4*m.Classes())
			for {
				if err := m.Run(ctx, in, out); err != nil {
					done <- err
					return
				}
			}
		}()
		time.AfterFunc(20*time.Millisecond, cancel)
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
		if err := m.Run(context.Background(), make([]float32, 4*m.InputLen()), make([]float32, 4*m.Classes())); err != nil {
			t.Error(err)
		}
		if _, err := r.LoadContext(ctx, testModel(t, "nchw"), LoadOptions{Device: d, Precision: p}); !errors.Is(err, context.Canceled) {
			t.Errorf("load: error %v, want context.Canceled", err)
		}
	})
}

// TestOpenVINORefuses checks that rscert fails if a device is missing. rscert must also fail if a device does not
// support the precision or a node of the model. In these cases, rscert must not use another device or precision
// instead.
func TestOpenVINORefuses(t *testing.T) {
	r, d := openOpenVINO(t)
	for _, c := range []struct {
		name string
		opt  LoadOptions
		want string
	}{
		{"GPU", LoadOptions{Device: device(t, "openvino:GPU")}, "device openvino:GPU"},
		{"cpu in bf16", LoadOptions{Device: CPU, Precision: BF16}, "device cpu computes in f32, not in bf16"},
		{"auto in f16", LoadOptions{Precision: F16}, "device cpu computes in f32, not in f16"},
		{"cuda", LoadOptions{Device: device(t, "cuda")}, "the ONNX Runtime library has no CUDA provider"},
	} {
		m, err := r.Load(testModel(t, "nchw"), c.opt)
		if err == nil {
			if c.name == "GPU" { // the machine has a GPU
				_ = m.Close()
				continue
			}
			t.Fatalf("%s: it runs on %v", c.name, m.Device())
		}
		if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
	handed := net().node("Reshape", "s square", "m").node("Det", "m", "det").node("Unsqueeze", "det axis", "col").node("Add", "s col", "y").int64s("square", -1, 2, 2).int64s("axis", 1)
	_, err := r.Load(handed.bytes(t), LoadOptions{Device: d})
	if err == nil || !strings.Contains(err.Error(), "openvino:CPU cannot run all of the model: not Det '") {
		t.Errorf("error %v", err)
	}
	// The plain library has no OpenVINO. The error must say this, and explain how to get OpenVINO.
	without := &Runtime{providers: []string{cpuProvider.name}}
	_, err = without.Load(testModel(t, "nchw"), LoadOptions{Device: d})
	var e *hint.Error
	if !errors.As(err, &e) || !strings.Contains(err.Error(), "no OpenVINO provider") || !strings.Contains(e.Hint(), "rscert setup device openvino") {
		t.Errorf("error %v", err)
	}
}

// TestPrecisionOf checks that precisionOf infers the precision from the size of the errors.
func TestPrecisionOf(t *testing.T) {
	exact := []float32{1, -2, 0.5}
	for _, c := range []struct {
		relative float32
		want     Precision
	}{{0, F32}, {1e-6, F32}, {1e-3, F16}, {6e-3, BF16}} {
		if got := precisionOf([]float32{1, -2 * (1 + c.relative), 0.5}, exact, openvinoProvider.precisions); got != c.want {
			t.Errorf("error %g: %v, want %v", c.relative, got, c.want)
		}
	}
	inPrecisions(t, func(t *testing.T, r *Runtime, d Device, p Precision) {
		exact, want, err := runProbe(t.Context(), CPU, F32)
		if err != nil {
			t.Fatal(err)
		}
		defer exact.close()
		s, got, err := runProbe(t.Context(), d, p)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		var worst, largest float64
		for i := range got {
			worst, largest = max(worst, math.Abs(float64(got[i]-want[i]))), max(largest, math.Abs(float64(want[i])))
		}
		t.Logf("largest error %.1e of the largest score", worst/largest)
	})
}

// TestHandedBack checks that readProfile finds the nodes that ran on the CPU.
func TestHandedBack(t *testing.T) {
	nodes, err := readProfile([]byte(`[
		{"cat":"Session","name":"model_run","args":{}},
		{"cat":"Node","name":"a_kernel_time","args":{"op_name":"NonZero","provider":"CPUExecutionProvider"}},
		{"cat":"Node","name":"a_kernel_time","args":{"op_name":"NonZero","provider":"CPUExecutionProvider"}},
		{"cat":"Node","name":"b_kernel_time","args":{"op_name":"Conv","provider":"OpenVINOExecutionProvider"}},
		{"cat":"Node","name":"c\n_kernel_time","args":{"op_name":"Where","provider":"CPUExecutionProvider"}},
		{"cat":"Node","name":"a_fence_before","args":{"op_name":"NonZero"}}]`))
	if want := []string{"NonZero 'a'", `Where 'c\n'`}; err != nil || !slices.Equal(nodes, want) {
		t.Errorf("%q, %v", nodes, err)
	}
	if _, err := readProfile([]byte("{")); err == nil {
		t.Error("half a profile is read")
	}
}

// BenchmarkProvider runs the model $RSCERT_BENCH_MODEL on $RSCERT_BENCH_DEVICE in $RSCERT_BENCH_PRECISION. The script
// scripts/compare_providers.py calls this benchmark.
func BenchmarkProvider(b *testing.B) {
	file := os.Getenv("RSCERT_BENCH_MODEL")
	if file == "" {
		b.Skip("RSCERT_BENCH_MODEL names no model")
	}
	d := device(b, os.Getenv("RSCERT_BENCH_DEVICE"))
	var p Precision
	if err := p.UnmarshalText([]byte(os.Getenv("RSCERT_BENCH_PRECISION"))); err != nil {
		b.Fatal(err)
	}
	path, err := ortlib.FindFor(d.Build(), "")
	if err != nil {
		b.Fatal(err)
	}
	r, err := Open(path)
	if err != nil {
		b.Fatal(err)
	}
	model, err := graph.ReadModel(file)
	if err != nil {
		b.Fatal(err)
	}
	const workers = 2
	started := time.Now()
	m, err := r.LoadFile(b.Context(), model, LoadOptions{Device: d, Precision: p, Workers: workers})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	loaded := time.Since(started)
	var wg sync.WaitGroup
	var mu sync.Mutex
	calls := 0
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ResetTimer()
	for range workers {
		wg.Go(func() {
			in, out := make([]float32, m.Batch()*m.InputLen()), make([]float32, m.Batch()*m.Classes())
			for {
				mu.Lock()
				calls++
				last := calls > b.N
				mu.Unlock()
				if last {
					return
				}
				if err := m.Run(ctx, in, out); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N*m.Batch())/b.Elapsed().Seconds(), "samples/s")
	b.ReportMetric(float64(m.Batch()), "batch")
	b.ReportMetric(loaded.Seconds(), "s/load")
}

// TestOpenVINOBesideCPU opens one model in two sessions, as 'certify' does to compare clean accuracy. Both sessions are
// open at the same time. One session uses OpenVINO. The other session uses the CPU provider of the same library in
// float32.
func TestOpenVINOBesideCPU(t *testing.T) {
	xs := images(64)
	inPrecisions(t, func(t *testing.T, r *Runtime, d Device, p Precision) {
		model := testModel(t, "nchw")
		exact := scores(t, loadOn(t, r, model, LoadOptions{Device: CPU, Batch: 16}), xs)
		got := scores(t, loadOn(t, r, model, LoadOptions{Device: d, Precision: p, Batch: 16}), xs)
		same := true
		for i := range xs {
			same = same && sameBits(got[i], exact[i])
			for k := range got[i] {
				if math.Abs(float64(got[i][k]-exact[i][k])) > 64*p.unit() {
					t.Fatalf("image %d: %v, in float32 %v", i, got[i], exact[i])
				}
			}
		}
		if same && p != F32 {
			t.Error("the scores are those of float32")
		}
	})
}
