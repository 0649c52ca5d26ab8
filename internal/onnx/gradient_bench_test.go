package onnx

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rscert/rscert/internal/graph/grad"
)

// BenchmarkGradient measures the time in which scores, loss and gradient are computed together. It compares this time
// with the time of ONNX Runtime's forward pass alone. The metric 'times-forward' is the quotient of the two times. The
// two computations alternate in one process, on one thread. The models are the bundled CNN and the models in the folder
// $RSCERT_BENCH_MODELS.
func BenchmarkGradient(b *testing.B) {
	files := []string{filepath.Join("..", "..", "testdata", "mnist-cnn.onnx")}
	if made := os.Getenv("RSCERT_BENCH_MODELS"); made != "" {
		more, err := filepath.Glob(filepath.Join(made, "*.onnx"))
		if err != nil || len(more) == 0 {
			b.Fatal(made, "has no models:", err)
		}
		files = append(files, more...)
	}
	for _, file := range files {
		b.Run(strings.TrimSuffix(filepath.Base(file), ".onnx"), func(b *testing.B) { benchmarkGradient(b, file) })
	}
}

func benchmarkGradient(b *testing.B, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	const rows = 16
	m := load(b, data, LoadOptions{Device: CPU, Batch: rows})
	d, classes := m.InputLen(), m.Classes()
	x, scores := make([]float32, rows*d), make([]float32, rows*classes)
	for i := range x {
		x[i] = float32(i%251) / 251
	}
	labels, loss, gradient := make([]int64, rows), make([]float32, rows), make([]float32, rows*d)
	g, err := m.Gradient(ctx, grad.Objective{Loss: grad.CrossEntropy, Examples: rows})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	var forward, both time.Duration
	timed := func(total *time.Duration, run func() error) {
		start := time.Now()
		if err := run(); err != nil {
			b.Fatal(err)
		}
		*total += time.Since(start)
	}
	run := func() {
		timed(&forward, func() error { return m.Run(ctx, x, scores) })
		timed(&both, func() error { return g.Run(ctx, x, nil, labels, scores, loss, gradient) })
	}
	run() // the first runs reserve memory
	forward, both = 0, 0
	for b.Loop() {
		run()
	}
	b.ReportMetric(both.Seconds()/forward.Seconds(), "times-forward")
	b.ReportMetric(float64(b.N*rows)/both.Seconds(), "gradients/s")
}
