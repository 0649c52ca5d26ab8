package run

import (
	"context"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/smoothing"
)

// timed is a Classifier that adds up the time spent in it.
type timed struct {
	smoothing.Classifier
	inside *atomic.Int64 // nanoseconds, of all workers together
}

func (t timed) Run(ctx context.Context, in, out []float32) error {
	started := time.Now()
	err := t.Classifier.Run(ctx, in, out)
	t.inside.Add(int64(time.Since(started)))
	return err
}

// counting is an experiment that draws n samples of an input.
type counting struct {
	input smoothing.Input
	n     int64
}

func (c counting) Input() (int, smoothing.Input)       { return 0, c.input }
func (c counting) Goal(smoothing.Votes) (int64, error) { return c.n, nil }
func (counting) Finish(smoothing.Votes) error          { return nil }
func (counting) Emit() error                           { return nil }

// BenchmarkSampling draws samples of real models on the CPU as certify does. An
// op is a sample; %outside-ort is the part of the workers' time that is not spent
// in ONNX Runtime: noise, votes, scheduling and waiting.
func BenchmarkSampling(b *testing.B) {
	ort, err := OpenLibrary(onnx.Device{}, "")
	if err != nil {
		b.Fatal(err)
	}
	defer ort.Close()
	workers := runtime.GOMAXPROCS(0)
	for _, m := range []struct {
		name, file string
		shape      []int
		sigma      float64
	}{
		{"mnist-cnn", "../../testdata/mnist-cnn.onnx", []int{1, 28, 28}, 0.5},
		{"cifar10-resnet-2b", "../../../shared/data/vnncomp2021/cifar10_resnet_2b.onnx", []int{3, 32, 32}, 0.02},
	} {
		bytes, err := os.ReadFile(m.file)
		if errors.Is(err, fs.ErrNotExist) {
			b.Logf("%s is not here: left out", m.file)
			continue
		}
		if err != nil {
			b.Fatal(err)
		}
		model, err := ort.Load(bytes, onnx.LoadOptions{Workers: workers, Example: m.shape})
		if err != nil {
			b.Fatal(err)
		}
		arrangement, err := model.Fit(m.shape, onnx.CHW)
		if err != nil {
			b.Fatal(err)
		}
		noise := &noise{Arrangement: arrangement, channel: func(int) int { return 0 },
			data: dataset.Lattice{Kind: dataset.ByteLattice, Step: big.NewRat(1, 255), High: 1}}
		if err := noise.prepare(m.sigma, []float64{0}, []float64{1}); err != nil {
			b.Fatal(err)
		}
		clean := make([]float32, model.InputLen())
		for i := range clean {
			clean[i] = float32(i%256) / 255
		}
		input, _, err := noise.input(clean)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(m.name, func(b *testing.B) {
			var inside atomic.Int64
			sampler := smoothing.Sampler{
				Classifier: timed{model, &inside}, Seed: 1, Workers: workers,
			}
			queue := []smoothing.Experiment{counting{input, int64(b.N)}}
			err := sampler.Run(b.Context(), func() (smoothing.Experiment, error) {
				if len(queue) == 0 {
					return nil, nil
				}
				e := queue[0]
				queue = nil
				return e, nil
			})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "samples/s")
			b.ReportMetric(100*(1-float64(inside.Load())/float64(workers)/float64(b.Elapsed())), "%outside-ort")
		})
		if err := model.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
