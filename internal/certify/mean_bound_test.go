package certify

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// exactBetting is MATH.md §2's betting bound as it is written: all samples kept,
// the capital of one m at a time, compared after every sample, and bisection.
func exactBetting(samples []float64, alpha float64) float64 {
	n := float64(len(samples))
	rejects := func(m float64) bool {
		logK, sum, dev := 0.0, 0.5, 0.25
		for i, x := range samples {
			t := float64(i + 1)
			lambda := math.Sqrt(2 * math.Log(1/alpha) / (n * dev / t))
			logK += math.Log1p(math.Min(lambda, 0.75/m) * (x - m))
			if logK >= math.Log(1/alpha) {
				return true
			}
			sum += x
			dev += (x - sum/(t+1)) * (x - sum/(t+1))
		}
		return false
	}
	lo, hi := 0.0, 1.0
	for range 40 {
		if mid := (lo + hi) / 2; rejects(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// distributions on [0,1] that the bounds are tried on, with their means.
var distributions = []struct {
	name string
	mean float64
	draw func(r *rand.Rand) float64
}{
	{"all 1", 1, func(*rand.Rand) float64 { return 1 }},
	{"two-point 0.999", 0.999, bernoulli(0.999)},
	{"two-point 0.9", 0.9, bernoulli(0.9)},
	{"two-point 0.5", 0.5, bernoulli(0.5)},
	{"two-point 0.01", 0.01, bernoulli(0.01)},
	{"near 1", 0.99, func(r *rand.Rand) float64 { return math.Pow(r.Float64(), 1.0/99) }},
	{"near 0", 0.01, func(r *rand.Rand) float64 { return 1 - math.Pow(r.Float64(), 1.0/99) }},
	{"uniform", 0.5, func(r *rand.Rand) float64 { return r.Float64() }},
	{"atoms and between", 0.94, func(r *rand.Rand) float64 {
		switch u := r.Float64(); {
		case u < 0.9:
			return 1
		case u < 0.92:
			return 0
		default:
			return r.Float64()
		}
	}},
}

func bernoulli(p float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 {
		if r.Float64() < p {
			return 1
		}
		return 0
	}
}

func draw(r *rand.Rand, n int, from func(*rand.Rand) float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = from(r)
	}
	return x
}

func TestScratchWidths(t *testing.T) {
	for _, d := range distributions {
		for _, n := range []int{100, 300, 1000, 10000, 100000} {
			r := rand.New(rand.NewPCG(1, 2))
			s := fmt.Sprintf("%-18s n=%6d", d.name, n)
			reps := min(20, 200000/n)
			for _, b := range MeanBounds() {
				var w float64
				r := rand.New(rand.NewPCG(1, 2))
				for range reps {
					w += d.mean - LowerMean(b, draw(r, n, d.draw), 0.001)
				}
				s += fmt.Sprintf(" %s %.6f", b, w/float64(reps))
			}
			s += fmt.Sprintf(" exact %.6f", d.mean-exactBetting(draw(r, n, d.draw), 0.001))
			t.Log(s)
		}
	}
}
