package decimal

import (
	"math/rand/v2"
	"testing"
)

func BenchmarkSum(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	xs := make([]float64, 1e5)
	for i := range xs {
		xs[i] = r.Float64() * 2
	}
	for b.Loop() {
		Sum(xs)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(xs)), "ns/term")
}
