package onnx

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkRun measures how the speed on one core depends on the batch size.
func BenchmarkRun(b *testing.B) {
	r := openRuntime(b)
	for _, model := range []string{"cifar10_resnet_2b", "mnist-net_256x2"} {
		for _, batch := range []int{0, 1, 4, 16, 32, 64, 128, 256, 1024} {
			b.Run(fmt.Sprintf("%s/batch=%d", model, batch), func(b *testing.B) {
				m, err := r.Load(shared(b, "vnncomp2021/"+model+".onnx"), LoadOptions{Batch: batch, Device: CPU})
				if err != nil {
					b.Fatal(err)
				}
				defer m.Close()
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				in, out := make([]float32, m.Batch()*m.InputLen()), make([]float32, m.Batch()*m.Classes())
				for b.Loop() {
					if err := m.Run(ctx, in, out); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N*m.Batch())/b.Elapsed().Seconds(), "samples/s")
			})
		}
	}
}

// BenchmarkRunOverhead runs a model that computes almost nothing, so it measures the cost of Run itself.
func BenchmarkRunOverhead(b *testing.B) {
	m := load(b, testModel(b, "scores_4d"), LoadOptions{Batch: 16})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	in, out := make([]float32, 16*m.InputLen()), make([]float32, 16*m.Classes())
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Run(ctx, in, out); err != nil {
			b.Fatal(err)
		}
	}
}
