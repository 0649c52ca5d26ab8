package experiment

import (
	"context"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/smoothing"
)

// The type 'timed' is a Classifier that measures the total time spent in its calls.
type timed struct {
	smoothing.Classifier
	inside *atomic.Int64 // nanoseconds, summed over workers
}

func (t timed) Run(ctx context.Context, in, out []float32) error {
	started := time.Now()
	err := t.Classifier.Run(ctx, in, out)
	t.inside.Add(int64(time.Since(started)))
	return err
}

// The type 'counting' is a smoothing.Experiment that stops after n noisy samples of one input.
type counting struct {
	input smoothing.Input
	n     int64
}

func (c counting) Input() (int, smoothing.Input)       { return 0, c.input }
func (c counting) Goal(smoothing.Votes) (int64, error) { return c.n, nil }
func (counting) Finish(smoothing.Votes) error          { return nil }
func (counting) Emit() error                           { return nil }

// The function 'draw' runs the classifier on n noisy samples of one input.
func draw(ctx context.Context, c smoothing.Classifier, input smoothing.Input, workers int, n int64) error {
	sampler := smoothing.Sampler{Classifier: c, Seed: 1, Workers: workers}
	queue := []smoothing.Experiment{counting{input, n}}
	return sampler.Run(ctx, func() (smoothing.Experiment, error) {
		if len(queue) == 0 {
			return nil, nil
		}
		e := queue[0]
		queue = nil
		return e, nil
	})
}

// runAlone makes each worker run the model on the given number of batches. The inputs are in memory, so the workers do
// nothing else.
func runAlone(ctx context.Context, c smoothing.Classifier, workers, batches int) error {
	var wait sync.WaitGroup
	failed := make(chan error, workers)
	for range workers {
		wait.Go(func() {
			in, out := make([]float32, c.Batch()*c.InputLen()), make([]float32, c.Batch()*c.Classes())
			for i := range in {
				in[i] = float32(i%251)/125 - 1
			}
			for range batches {
				if err := c.Run(ctx, in, out); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wait.Wait()
	close(failed)
	return <-failed
}

// A benchModel describes a model: its file, the shape of its input, and the σ of the noise.
type benchModel struct {
	name, file string
	shape      []int
	sigma      float64
}

// benchModels lists a bundled model, a VNN-COMP 2021 model, and the models that scripts/bench_models.py wrote to the
// folder $RSCERT_BENCH_MODELS.
func benchModels() []benchModel {
	made := os.Getenv("RSCERT_BENCH_MODELS")
	return []benchModel{
		{"mnist-cnn", "../../testdata/mnist-cnn.onnx", []int{1, 28, 28}, 0.5},
		{"cifar10-resnet-2b", "../../../shared/data/vnncomp2021/cifar10_resnet_2b.onnx", []int{3, 32, 32}, 0.25},
		{"resnet20", filepath.Join(made, "resnet20.onnx"), []int{3, 32, 32}, 0.25},
		{"resnet110", filepath.Join(made, "resnet110.onnx"), []int{3, 32, 32}, 0.25},
		{"resnet50", filepath.Join(made, "resnet50.onnx"), []int{3, 224, 224}, 0.25},
	}
}

// open loads the model, and makes an input whose values are bytes divided by 255. It skips the benchmark if the model
// is missing.
func (m benchModel) open(b *testing.B, workers int) (*onnx.Model, smoothing.Input) {
	bytes, err := os.ReadFile(m.file)
	if errors.Is(err, fs.ErrNotExist) {
		b.Skipf("%s is not here", m.file)
	}
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	check(err)
	ort, err := OpenLibrary(onnx.Device{}, "")
	check(err)
	b.Cleanup(func() { ort.Close() })
	model, err := ort.Load(bytes, onnx.LoadOptions{Workers: workers, Example: m.shape})
	check(err)
	b.Cleanup(func() { model.Close() })
	arrangement, err := model.Fit(m.shape, graph.CHW)
	check(err)
	noise := &noise{Arrangement: arrangement, channel: func(int) int { return 0 },
		data: dataset.Lattice{Kind: dataset.ByteLattice, Step: big.NewRat(1, 255), High: 1}}
	check(noise.prepare(law.Gaussian, m.sigma, []float64{0}, []float64{1}))
	clean := make([]float32, model.InputLen())
	for i := range clean {
		clean[i] = float32(i%256) / 255
	}
	input, _, err := noise.input(clean)
	check(err)
	return model, input
}

// BenchmarkSampling runs real models on noisy inputs on the CPU, in the same way as 'certify'. An op is one sample. The
// metric '%outside-ort' is the share of the workers' time outside ONNX Runtime: noise, votes, scheduling and waiting.
func BenchmarkSampling(b *testing.B) {
	workers := smoothing.DefaultWorkers()
	for _, m := range benchModels()[:2] {
		b.Run(m.name, func(b *testing.B) {
			model, input := m.open(b, workers)
			var inside atomic.Int64
			b.ResetTimer()
			if err := draw(b.Context(), timed{model, &inside}, input, workers, int64(b.N)); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "samples/s")
			b.ReportMetric(100*(1-float64(inside.Load())/float64(workers)/float64(b.Elapsed())), "%outside-ort")
		})
	}
}

// BenchmarkSamplingAgainstONNXRuntime compares the time of sampling with the time that ONNX Runtime takes alone. Both
// variants run the model on the same number of inputs, and make the same number of single-threaded calls in parallel.
// In each op, each variant runs once, for about a second or more. The ratio of an op is the time of ONNX Runtime alone,
// divided by the time of sampling. The metric 'ratio' is the median of these ratios over all ops: other programs on the
// machine disturb a median less than a mean.
func BenchmarkSamplingAgainstONNXRuntime(b *testing.B) {
	workers := smoothing.DefaultWorkers()
	for _, m := range benchModels() {
		b.Run(m.name, func(b *testing.B) {
			model, input := m.open(b, workers)
			started := time.Now()
			if err := runAlone(b.Context(), model, workers, 1); err != nil {
				b.Fatal(err)
			}
			batches := max(8, int(time.Second/time.Since(started)))
			n := int64(batches*workers*model.Batch()) - 1 // − 1 because the model also runs on the input without noise
			var ratios []float64
			fastest := time.Duration(1 << 62)
			b.ResetTimer()
			for b.Loop() {
				started := time.Now()
				if err := runAlone(b.Context(), model, workers, batches); err != nil {
					b.Fatal(err)
				}
				alone := time.Since(started)
				started = time.Now()
				if err := draw(b.Context(), model, input, workers, n); err != nil {
					b.Fatal(err)
				}
				sampling := time.Since(started)
				fastest = min(fastest, sampling)
				ratios = append(ratios, float64(alone)/float64(sampling))
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "ratio")
			b.ReportMetric(float64(n)/fastest.Seconds(), "samples/s")
			b.ReportMetric(float64(model.Batch()), "batch")
		})
	}
}
