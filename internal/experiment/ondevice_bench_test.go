package experiment

import (
	"math/big"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/smoothing"
)

// processorTime returns the time that the process has used on all cores. Other programs on the machine hardly affect
// this time.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkNoiseOn compares two variants: noise and votes in the model's graph, and noise and votes on the host. Both
// variants use the same CPU cores. An op is one round. A round runs the host's variant for half a second of processor
// time or more, and then the graph's variant with the same number of samples. The ratio of a round is the processor
// time of the host's variant, divided by the processor time of the graph's variant. The metric 'ratio' is the median of
// these ratios over the rounds.
func BenchmarkNoiseOn(b *testing.B) {
	workers := smoothing.DefaultWorkers()
	for _, m := range benchModels() {
		b.Run(m.name, func(b *testing.B) {
			model, _ := m.open(b, workers)
			arrangement, err := model.Fit(m.shape, graph.CHW)
			if err != nil {
				b.Fatal(err)
			}
			made := &noise{Arrangement: arrangement, channel: func(int) int { return 0 },
				data: dataset.Lattice{Kind: dataset.ByteLattice, Step: big.NewRat(1, 255), High: 1}}
			if err := made.prepare(law.Gaussian, m.sigma, []float64{0}, []float64{1}); err != nil {
				b.Fatal(err)
			}
			input, _, err := made.input(make([]float32, model.InputLen()))
			if err != nil {
				b.Fatal(err)
			}
			n := int64(workers * model.Batch())
			took := func(device bool) time.Duration {
				err := model.StopNoise()
				if err == nil && device {
					if err = model.StartNoise(made.lattice); err == nil {
						err = smoothing.CheckNoise(b.Context(), model, made.channel)
					}
				}
				if err != nil {
					b.Fatal(err)
				}
				if err := draw(b.Context(), model, input, workers, n); err != nil { // this first call allocates buffers
					b.Fatal(err)
				}
				for started := processorTime(); ; n *= 2 {
					if err := draw(b.Context(), model, input, workers, n); err != nil {
						b.Fatal(err)
					}
					if elapsed := processorTime() - started; elapsed > time.Second/2 || device {
						return elapsed
					}
					started = processorTime()
				}
			}
			var ratios []float64
			b.ResetTimer()
			for b.Loop() {
				here := took(false)
				ratios = append(ratios, float64(here)/float64(took(true)))
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "ratio")
		})
	}
}
