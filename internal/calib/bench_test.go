package calib

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkTenMillion measures the times in docs/benchmarks.md. It computes six upper bounds and BettingLower on 10⁷
// scores. The upper bounds that use folds are computed with all validation points. The benchmark with the name "all"
// includes the sort of the scores, but not the parsing of a file. The binned bounds and the lower bound should take at
// most 2 s.
func BenchmarkTenMillion(b *testing.B) {
	const n = 10_000_000
	rng := rand.New(rand.NewPCG(1, 2))
	score, label := make([]float64, n), make([]float64, n)
	for i := range score {
		score[i] = rng.Float64()
		if rng.Float64() < score[i]*score[i] {
			label[i] = 1
		}
	}
	cf := CrossFit{Delta: 0.05, Folds: 5, Seed: 1}
	const h = 1.0 / 64
	var sample *Sample
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s, err := NewSample(score, label)
			if err != nil {
				b.Fatal(err)
			}
			for method, bound := range boundsOf(s, cf, h, 1) {
				if method == "tv" || method == "nw" || method == "lipschitz" {
					if _, err := bound(); err != nil {
						b.Fatal(err)
					}
				}
			}
			sample = s
		}
		b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/10⁷")
	})
	b.Run("betting", func(b *testing.B) {
		for b.Loop() {
			if _, err := BettingLower(sample, cf.Delta, cf.Seed); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/10⁷")
	})
	for _, method := range []string{"binned-tv", "binned-lipschitz", "tv", "nw", "nw-second-order", "lipschitz"} {
		b.Run(method, func(b *testing.B) {
			for b.Loop() {
				if _, err := boundsOf(sample, cf, h, 1)[method](); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/10⁷")
		})
	}
}
