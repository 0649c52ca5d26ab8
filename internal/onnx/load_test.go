package onnx

import (
	"context"
	"encoding/binary"
	"errors"
	"github.com/rscert/rscert/internal/param"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/ortlib"
	"github.com/rscert/rscert/internal/smoothing"
)

var _ smoothing.Classifier = (*Model)(nil)

// openRuntime opens the library that 'rscert setup' installed.
func openRuntime(t testing.TB) *Runtime {
	t.Helper()
	path, err := ortlib.FindFor(ortlib.Build{}, "")
	var missing *ortlib.NotFoundError
	if errors.As(err, &missing) {
		t.Fatalf("%v\nhint: %s", err, missing.Hint())
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// load loads a test model and closes it when the test ends.
func load(t testing.TB, model []byte, opt LoadOptions) *Model {
	t.Helper()
	m, err := openRuntime(t).Load(model, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// The function 'scores' runs all samples in batches. Copies of the last sample fill up the last batch.
func scores(t testing.TB, m smoothing.Classifier, samples [][]float32) [][]float32 {
	t.Helper()
	var all [][]float32
	in, out := make([]float32, m.Batch()*m.InputLen()), make([]float32, m.Batch()*m.Classes())
	for i := 0; i < len(samples); i += m.Batch() {
		for k := range m.Batch() {
			copy(in[k*m.InputLen():], samples[min(i+k, len(samples)-1)])
		}
		if err := m.Run(context.Background(), in, out); err != nil {
			t.Fatal(err)
		}
		for k := range min(m.Batch(), len(samples)-i) {
			all = append(all, slices.Clone(out[k*m.Classes():(k+1)*m.Classes()]))
		}
	}
	return all
}

// images returns random samples [3,4,4].
func images(n int) [][]float32 {
	rng := rand.New(rand.NewPCG(5, 6))
	all := make([][]float32, n)
	for i := range all {
		all[i] = make([]float32, testLen)
		for j := range all[i] {
			all[i][j] = float32(rng.NormFloat64())
		}
	}
	return all
}

// convnetScores computes the scores of the test models' convolutional net in float64. It takes the weights from the
// model "nchw". Many test models compute the same scores as this net. Tests compare the scores of these models with the
// result of convnetScores.
func convnetScores(x []float32) []float64 {
	weights := make(map[string][]float64)
	for _, t := range testModels["nchw"]().Graph.Initializer {
		for raw := t.RawData; len(raw) > 0; raw = raw[4:] {
			weights[t.GetName()] = append(weights[t.GetName()], float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))))
		}
	}
	var hidden []float64
	for o := range 2 {
		for r := range 4 {
			for c := range 4 {
				var sum float64
				for i := range 3 {
					for dr := range 3 {
						for dc := range 3 {
							if row, col := r+dr-1, c+dc-1; row >= 0 && row < 4 && col >= 0 && col < 4 {
								sum += weights["w_conv"][((o*3+i)*3+dr)*3+dc] * float64(x[(i*4+row)*4+col])
							}
						}
					}
				}
				hidden = append(hidden, max(sum, 0))
			}
		}
	}
	y := slices.Clone(weights["b_gemm"])
	for k := range y {
		for j, h := range hidden {
			y[k] += weights["w_gemm"][k*32+j] * h
		}
	}
	return y
}

// TestLoadSameNet runs the models that compute the convolutional net, each at several batch sizes. The scores must
// match convnetScores and must have the same bits at every size.
func TestLoadSameNet(t *testing.T) {
	xs := images(40)
	for _, c := range []struct {
		model     string
		tolerance float64 // float32 or float16 rounding for sums of 32 terms of order 1
		tile      int     // expected number of samples per call if the batch size is 20
		warning   string
	}{
		{"nchw", 1e-5, 20, ""},
		{"nhwc", 1e-5, 20, ""},
		{"flat", 1e-5, 20, ""},
		{"unbatched", 1e-5, 1, "no batch dimension: it runs 1 at a time"},
		{"float16", 3e-2, 20, ""},
		{"old", 1e-5, 20, ""},
		{"fixed_infer", 1e-5, 20, ""},
		{"fixed_full", 1e-5, 20, ""},
		{"fixed_concat", 1e-5, 20, ""},
		{"fixed_8", 1e-5, 20, ""},
		{"baked", 1e-5, 20, ""},
		{"nan", 1e9, 20, ""},
		{"label_and_scores", 1e-5, 20, ""},
	} {
		t.Run(c.model, func(t *testing.T) {
			var first [][]float32
			for _, batch := range []int{20, 1, 2, 7, 16, 33, 0} {
				m := load(t, testModel(t, c.model), LoadOptions{Batch: batch})
				if m.InputLen() != testLen || m.Classes() != testClasses || batch != 0 && m.Batch() != batch {
					t.Fatalf("InputLen %d, Classes %d, Batch %d", m.InputLen(), m.Classes(), m.Batch())
				}
				if batch == 20 && m.tile != c.tile {
					t.Errorf("runs %d samples a call, want %d", m.tile, c.tile)
				}
				if warnings := strings.Join(warningsOf(m), "\n"); !strings.Contains(warnings, c.warning) || c.warning == "" && warnings != "" {
					t.Errorf("warnings %q, want %q", warnings, c.warning)
				}
				a, err := m.Fit([]int{3, 4, 4}, graph.CHW)
				if err != nil {
					t.Fatal(err)
				}
				in := make([][]float32, len(xs))
				for i, x := range xs {
					in[i] = make([]float32, testLen)
					a.Arrange(in[i], x)
				}
				got := scores(t, m, in)
				for i, x := range xs {
					for k, want := range convnetScores(x) {
						if math.Abs(float64(got[i][k])-want) > c.tolerance {
							t.Fatalf("batch %d: score %d of image %d is %g, want %g", batch, k, i, got[i][k], want)
						}
					}
				}
				if first == nil {
					first = got
				}
				for i := range got {
					if !sameBits(got[i], first[i]) {
						t.Fatalf("batch %d: image %d scores %v, at batch 20 %v", batch, i, got[i], first[i])
					}
				}
			}
		})
	}
}

// TestLoadOthers uses models whose scores differ from the scores of the convolutional net. To compute the expected
// scores, the test runs the file's unedited model on one sample at a time.
func TestLoadOthers(t *testing.T) {
	xs := images(40)
	for _, c := range []struct {
		model   string
		native  int // batch size that the model's file declares, or 1 if it declares none
		tile    int // expected number of samples per call if the batch size is 20
		warning string
	}{
		{"float64", 1, 20, ""},
		{"free_size", 1, 20, ""},
		{"scores_4d", 1, 20, ""},
		{"fixed_shared", 1, 20, ""},
		{"fixed_token", 1, 20, ""},
		{"fixed_8_expand", 8, 20, ""},
		{"stuck", 1, 1, "batch dimension is fixed at 1 and cannot be freed"},
		{"stuck_8", 8, 1, "batch dimension is fixed at 8 and cannot be freed"},
		{"mixing", 1, 1, "cannot be freed"},
		{"constant", 1, 20, ""},
		{"batch_mean", 1, 1, "the model cannot run batches (ReduceMean 'mean' may let inputs of a batch see each other): it runs 1 at a time"},
		{"batch_mean_slight", 1, 1, "ReduceMean 'mean' may let inputs of a batch see each other"},
		{"batch_size", 1, 20, ""},
		{"softmax", 1, 20, ""},
		{"log_softmax", 1, 20, ""},
		{"own_softmax", 1, 20, ""},
		{"sigmoid", 1, 20, ""},
	} {
		t.Run(c.model, func(t *testing.T) {
			example := []int{3, 4, 4}
			m := load(t, testModel(t, c.model), LoadOptions{Batch: 20, Example: example})
			if m.tile != c.tile {
				t.Errorf("runs %d samples a call, want %d", m.tile, c.tile)
			}
			if want := (20 + c.tile - 1) / c.tile * c.tile; m.Batch() != want {
				t.Errorf("batch %d, want %d", m.Batch(), want)
			}
			if warnings := strings.Join(warningsOf(m), "\n"); !strings.Contains(warnings, c.warning) || c.warning == "" && warnings != "" {
				t.Errorf("warnings %q, want %q", warnings, c.warning)
			}
			got := scores(t, m, xs)

			// This session runs the file's graph without rscert's edits, except that the input and output become
			// float32.
			parsed := parsed(t, testModel(t, c.model))
			in, out := graph.FeedFloat32(parsed.Graph, m.contract.Input.Name, m.contract.Output.Name)
			s, err := openSession(program{model: (&modelBuilder{ModelProto: parsed}).bytes(t), inputs: []string{in}, outputs: []string{out}}, &cpuProvider, settings{workers: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			l := &loader{Model: m, ctx: t.Context()}
			for i, x := range xs {
				want, err := l.rows(s, make([]int, c.native), [][]float32{x})
				if err != nil {
					t.Fatal(err)
				}
				for k, w := range want[0] {
					if diff := math.Abs(float64(got[i][k] - w)); diff > 1e-5 || math.IsNaN(diff) != math.IsNaN(float64(w)) {
						t.Fatalf("score %d of image %d is %g, alone %g", k, i, got[i][k], w)
					}
				}
			}
			for _, batch := range []int{1, 16, 37} {
				again := scores(t, load(t, testModel(t, c.model), LoadOptions{Batch: batch, Example: example}), xs)
				for i := range got {
					if !sameBits(got[i], again[i]) {
						t.Fatalf("image %d: %v at batch 20, %v at batch %d", i, got[i], again[i], batch)
					}
				}
			}
		})
	}
}

// TestLoadBatchBits uses a matrix product that has one column for each sample. The last bits of the product may change
// with the number of columns. If they do, the model must run in calls of the reference size, 16.
func TestLoadBatchBits(t *testing.T) {
	model := newModel("x", graph.Float32, "N", 1000).weights("w", graph.Float32, 10, 1000).node("Transpose", "x", "t", ints("perm", 1, 0)).
		node("MatMul", "w t", "z").node("Transpose", "z", "y", ints("perm", 1, 0)).output("y", graph.Float32, "N", 10).bytes(t)
	m := load(t, model, LoadOptions{Device: CPU, Batch: 33})
	warnings := strings.Join(warningsOf(m), "\n")
	if m.tile == 33 && warnings == "" {
		t.Skip("this processor's matrix products have the same bits for all sizes of a batch")
	}
	if m.tile != 16 || m.Batch() != 48 || !strings.Contains(warnings, "it runs in calls of 16 samples, whatever the batch") {
		t.Errorf("runs %d of %d samples a call: %q", m.tile, m.Batch(), warnings)
	}
}

func TestLoadErrors(t *testing.T) {
	r := openRuntime(t)
	for _, c := range []struct {
		model string
		opt   LoadOptions
		want  string
		hint  string
	}{
		{"one_output", LoadOptions{Outputs: graph.Probabilities}, "the model's one output is no probability: on random inputs it is -", "outputs logits"},
		{"one_relu", LoadOptions{Outputs: graph.Probabilities}, "the model's one output is no probability: on random inputs it is 0 to ", "outputs logits"},
		{"one_relu", LoadOptions{}, "model output 'y' is one number for each sample, from Relu, and on random inputs it is 0 to ", "outputs logits (class 1 above 0)"},
		{"two_inputs", LoadOptions{}, "the model has 2 inputs, want one: 'x' float32 [N,48], 'mask' float32 [N,48]", "inside the graph"},
		{"truth_input", LoadOptions{}, "model input 'x' is of type bool, want floats or integers", "an input of numbers"},
		{"text_input", LoadOptions{}, "model input 'word' takes texts, and noise cannot be added to them", "behind their encoding"},
		{"token_input", LoadOptions{}, "model input 'ids' holds token numbers: 'table' is looked up with them", "behind its embedding"},
		{"segmentation", LoadOptions{}, "no output of the model looks like scores [N,m] of m classes: 'y' float32 [N,2,4,4]", "no classifier of the whole input"},
		{"label_only", LoadOptions{}, "no output of the model looks like scores [N,m] of m classes: 'label' int64 [N]", "as an output of floats"},
		{"features_and_scores", LoadOptions{}, "several outputs of the model look like scores [N,m]: 'features' float32 [N,32], 'scores' float32 [N,4]", "scores-output"},
		{"nchw", LoadOptions{Output: "logits"}, "the model has no output 'logits'; it has 'y' float32 [N,4]", ""},
		{"label_and_scores", LoadOptions{Output: "label"}, "model output 'label' int64 [N] cannot hold scores", ""},
		{"unknown_operator", LoadOptions{}, "ONNX Runtime cannot load the model", ""},
		{"random", LoadOptions{}, "the model draws random numbers: RandomNormalLike, node of 'r'", "model.eval()"},
		{"batch_of_8_mean", LoadOptions{}, "the model runs only 8 samples at a time, and a sample's scores change", "export it for inference"},
		{"free_size", LoadOptions{}, "model input 'x' float32 [N,3,H,W] leaves its sizes free", ""},
		{"nchw", LoadOptions{Example: []int{1, 28, 28}}, "model input 'x' wants [N,3,4,4], data has [1,28,28]", ""},
		{"free_size", LoadOptions{Example: []int{784}}, "model input 'x' wants [N,3,H,W], data has [784]", ""},
		{"nchw", LoadOptions{Batch: -1}, "a batch of -1 samples of 48 values is out of bounds", ""},
		{"nchw", LoadOptions{Batch: 1 << 30}, "is out of bounds", ""},
		{"sigmoid", LoadOptions{Scores: true}, "cannot tell whether the model gives logits or probabilities: the outputs come from Sigmoid", "outputs"},
		{"own_softmax", LoadOptions{Scores: true}, "the outputs look like probabilities, but come from Div", "outputs"},
		{"nchw", LoadOptions{Scores: true, Outputs: graph.Probabilities}, "the model's outputs are no probabilities", "outputs logits"},
	} {
		_, err := r.Load(testModel(t, c.model), c.opt)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.model, err, c.want)
			continue
		}
		if strings.ContainsAny(err.Error(), "\n") {
			t.Errorf("%s: error of several lines: %v", c.model, err)
		}
		var e *hint.Error
		if errors.As(err, &e); c.hint != "" && (e == nil || !strings.Contains(e.Hint(), c.hint)) {
			t.Errorf("%s: hint of %v, want %q", c.model, err, c.hint)
		}
	}
}

func TestOutputKinds(t *testing.T) {
	for _, c := range []struct {
		model string
		told  graph.OutputKind
		want  graph.OutputKind
	}{
		{"nchw", graph.OutputsAuto, graph.Logits},
		{"float16", graph.OutputsAuto, graph.Logits},
		{"unbatched", graph.OutputsAuto, graph.Logits},
		{"log_softmax", graph.OutputsAuto, graph.Logits},
		{"softmax", graph.OutputsAuto, graph.Probabilities},
		{"softmax", graph.Logits, graph.Logits},
		{"own_softmax", graph.OutputsAuto, graph.OutputsAuto},
		{"own_softmax", graph.Probabilities, graph.Probabilities},
		{"sigmoid", graph.OutputsAuto, graph.OutputsAuto},
		{"tanh", graph.OutputsAuto, graph.Logits}, // some scores are negative, so they are not probabilities
		{"softmax_batch", graph.OutputsAuto, graph.OutputsAuto},
		{"label_and_scores", graph.OutputsAuto, graph.Logits},
	} {
		m := load(t, testModel(t, c.model), LoadOptions{Outputs: c.told})
		if m.Outputs() != c.want {
			t.Errorf("%s, told %v: %v, want %v", c.model, c.told, m.Outputs(), c.want)
		}
	}
	if m := load(t, testModel(t, "features_and_scores"), LoadOptions{Output: "scores"}); m.Classes() != 4 || m.Outputs() != graph.Logits {
		t.Errorf("scores: %d classes, %v", m.Classes(), m.Outputs())
	}
	if m := load(t, testModel(t, "softmax"), LoadOptions{Outputs: graph.Logits}); len(warningsOf(m)) != 1 {
		t.Errorf("softmax taken for logits: warnings %q", warningsOf(m))
	}
}

// TestRunNaN runs a batch in which one sample has NaN scores. Run must return these NaNs, and no NaN for the other
// samples.
func TestRunNaN(t *testing.T) {
	m := load(t, testModel(t, "nan"), LoadOptions{Batch: 3})
	in, out := make([]float32, 3*testLen), make([]float32, 3*testClasses)
	in[testLen+7] = -2
	if err := m.Run(context.Background(), in, out); err != nil {
		t.Fatal(err)
	}
	for i, v := range out {
		if bad := i/testClasses == 1; math.IsNaN(float64(v)) != bad {
			t.Errorf("score %d of sample %d is %g", i%testClasses, i/testClasses, v)
		}
	}
}

// TestRunConcurrently runs one model from several goroutines. Each goroutine has its own samples. All goroutines share
// one context that can be cancelled.
func TestRunConcurrently(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, name := range []string{"nchw", "stuck", "float64"} {
		m := load(t, testModel(t, name), LoadOptions{Batch: 4})
		xs := images(32)
		want := scores(t, m, xs)
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				in, out := slices.Concat(xs[4*w:4*w+4]...), make([]float32, 4*m.Classes())
				for range 50 {
					if err := m.Run(ctx, in, out); err != nil {
						t.Error(err)
						return
					}
					if !sameBits(out, slices.Concat(want[4*w:4*w+4]...)) {
						t.Errorf("%s: other scores when run at once", name)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

// TestRunCancelled cancels runs that consist of one long call, and runs that consist of many short calls.
func TestRunCancelled(t *testing.T) {
	for _, name := range []string{"nchw", "stuck"} {
		m := load(t, testModel(t, name), LoadOptions{Batch: 1 << 15})
		in, out := make([]float32, m.Batch()*m.InputLen()), make([]float32, m.Batch()*m.Classes())
		for range 10 {
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error)
			go func() {
				for {
					if err := m.Run(ctx, in, out); err != nil {
						done <- err
						return
					}
				}
			}()
			runtime.Gosched()
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: error %v, want context.Canceled", name, err)
			}
		}
		// The model must still work.
		if err := m.Run(context.Background(), in, out); err != nil {
			t.Error(err)
		}
		if err := m.Run(context.Background(), in[1:], out); err == nil {
			t.Error("a run with too few values does not fail")
		}
	}
}

// TestFixedSizes tests the code for devices that need one session for each batch size, such as CUDA. The test runs this
// code on the CPU.
func TestFixedSizes(t *testing.T) {
	openRuntime(t)
	xs := images(40)
	fixed := cpuProvider
	fixed.fixSizes = true
	for _, c := range []struct {
		model string
		tile  int // expected number of samples per call if the batch size is 20
	}{{"nchw", 20}, {"float16", 20}, {"fixed_full", 20}, {"fixed_concat", 20}, {"baked", 20}, {"unbatched", 1}, {"stuck", 1}, {"batch_size", 20}, {"batch_mean", 1}} {
		opt := LoadOptions{Batch: 20}
		l, err := newLoader(t.Context(), testModels[c.model]().file(t), opt)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.loadOn(Device{provider: &fixed}, opt); err != nil {
			t.Fatal(err)
		}
		defer l.Model.Close()
		if l.tile != c.tile {
			t.Errorf("%s: runs %d samples a call, want %d", c.model, l.tile, c.tile)
		}
		want := scores(t, load(t, testModel(t, c.model), opt), xs)
		for i, got := range scores(t, l.Model, xs) {
			for k := range got {
				if math.Abs(float64(got[k]-want[i][k])) > 1e-5 {
					t.Fatalf("%s: image %d scores %v, %v with one session for all sizes", c.model, i, got, want[i])
				}
			}
		}
	}
}

func TestDevices(t *testing.T) {
	r := openRuntime(t)
	if r.CUDA() == nil {
		t.Skip("CUDA works here")
	}
	_, err := r.Load(testModel(t, "nchw"), LoadOptions{Device: device(t, "cuda:0")})
	var e *hint.Error
	if !errors.As(err, &e) || !strings.Contains(err.Error(), "device cuda:0: ") || !strings.Contains(e.Hint(), "rscert setup device cuda") {
		t.Errorf("error %v", err)
	}
	without := &Runtime{providers: []string{cpuProvider.name}}
	if err := without.works(device(t, "cuda")); err == nil || !strings.Contains(err.Error(), "no CUDA provider") {
		t.Errorf("error %v", err)
	}
	for _, d := range []Device{{}, CPU} {
		m := load(t, testModel(t, "nchw"), LoadOptions{Device: d})
		if m.Device() != CPU || m.Provider() != cpuProvider.name {
			t.Errorf("%v: runs on %v, %s", d, m.Device(), m.Provider())
		}
	}
}

// device returns the device with the given name.
func device(t testing.TB, name string) Device {
	t.Helper()
	d, err := ParseDevice(name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestParseDevice(t *testing.T) {
	for s, want := range map[string]string{"auto": "auto", "cpu": "cpu", "cuda": "cuda", "cuda:3": "cuda:3", "cuda:0,2": "cuda:0,2", "cuda:01,2": "cuda:1,2",
		"openvino": "openvino:CPU", "openvino:GPU": "openvino:GPU", "openvino:NPU": "openvino:NPU"} {
		got, err := ParseDevice(s)
		if got.String() != want || err != nil {
			t.Errorf("%s: %v, %v", s, got, err)
		}
		if again, err := ParseDevice(want); again != got || err != nil {
			t.Errorf("%s: %v, %v", want, again, err)
		}
	}
	if device(t, "auto") != (Device{}) || device(t, "cpu") != CPU {
		t.Error("auto or cpu is another device")
	}
	for _, s := range []string{"", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:0,", "cuda:,0", "cuda:0,0", "cuda:1,01", "cuda:0 1", "cuda:65536", "cpu:0", "CUDA", "openvino:", "openvino:cpu", "openvino:TPU", "openvino:CPU,GPU"} {
		if d, err := ParseDevice(s); err == nil {
			t.Errorf("%q: %v", s, d)
		}
	}
}

func TestPrecisionText(t *testing.T) {
	for want, text := range map[Precision]string{F32: "f32", BF16: "bf16", F16: "f16", TF32: "tf32"} {
		var p Precision
		if err := p.UnmarshalText([]byte(text)); p != want || err != nil || p.String() != text {
			t.Errorf("%s: %v, %v", text, p, err)
		}
	}
	for _, text := range []string{"", "F32", "float32", "bf"} {
		if err := new(Precision).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is a precision", text)
		}
	}
}

// warningsOf returns the texts of the model's warnings.
func warningsOf(m *Model) (texts []string) {
	for _, w := range m.Warnings() {
		texts = append(texts, w.Text.Spell(param.Plain))
	}
	return texts
}
