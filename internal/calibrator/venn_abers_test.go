package calibrator

import (
	"math"
	"math/rand/v2"
	"testing"
)

// refit computes p_y(x) from its definition. It adds the example (x, y) and applies the min-max formula of isotonic
// regression.
func refit(values []float64, is []bool, x float64, y float64) float64 {
	best := math.Inf(-1)
	for _, from := range append([]float64{x}, values...) {
		if from > x {
			continue
		}
		least := math.Inf(1)
		for _, to := range append([]float64{x}, values...) {
			if to < x {
				continue
			}
			n, sum := 1.0, y
			for i, v := range values {
				if v >= from && v <= to {
					n++
					sum += float64(index(is[i]))
				}
			}
			least = min(least, sum/n)
		}
		best = max(best, least)
	}
	return best
}

// The functions p₀ and p₁ of a curve must agree with the function 'refit'. The test compares them at the values of the
// fit, between these values, and outside their range.
func TestVennAbersIsTheRefit(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	for trial := range 300 {
		n := 1 + rng.IntN(14)
		levels := []int{3, 8, 1000}[trial%3]
		values, is := make([]float64, n), make([]bool, n)
		for i := range values {
			values[i] = float64(rng.IntN(levels)) / float64(levels)
			switch trial % 4 {
			case 0:
				is[i] = rng.IntN(2) == 1
			case 1:
				is[i] = rng.Float64() < values[i]
			case 2:
				is[i] = rng.Float64() > values[i]
			default:
				is[i] = values[i] > 0.5 // separable
			}
		}
		c := vennAbers(values, is)
		if len(c.P0) != len(c.At)+1 || len(c.P1) != len(c.At)+1 {
			t.Fatalf("%d knots, %d and %d values", len(c.At), len(c.P0), len(c.P1))
		}
		tests := []float64{-1, 2, rng.Float64()}
		for _, v := range values {
			tests = append(tests, v, math.Nextafter(v, -1), math.Nextafter(v, 2))
		}
		for _, x := range tests {
			p0, p1 := c.interval(x)
			near(t, "p0", p0, refit(values, is, x, 0), 1e-12)
			near(t, "p1", p1, refit(values, is, x, 1), 1e-12)
			near(t, "merged", c.value(x), p1/(1-p0+p1), 1e-15)
			if t.Failed() {
				t.Fatalf("values %v, labels %v, x %v", values, is, x)
			}
		}
	}
}

// p_Y is p₁ if the true label Y is 1, and p₀ if Y is 0. It is a calibrated probability of the label 1: among the
// examples with the same p_Y, the share with Y = 1 is p_Y.
func TestVennAbersIsCalibrated(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 2))
	const n, trials = 5, 100_000
	count, ones := map[float64]float64{}, map[float64]float64{}
	values, is := make([]float64, n), make([]bool, n)
	for range trials {
		draw := func() (float64, bool) {
			x := float64(rng.IntN(4)) / 4
			return x, rng.Float64() < 0.2+x*(1-x)*3 // not monotone
		}
		for i := range values {
			values[i], is[i] = draw()
		}
		x, y := draw()
		p, p1 := vennAbers(values, is).interval(x)
		if y {
			p = p1
		}
		p = math.Round(p*1e9) / 1e9
		count[p]++
		ones[p] += float64(index(y))
	}
	for p, m := range count {
		if se := math.Sqrt(p*(1-p)/m) + 1e-9; math.Abs(ones[p]/m-p) > 5*se {
			t.Errorf("p_Y = %v: the share of label 1 among %v is %v", p, m, ones[p]/m)
		}
	}
}

// The test fits a million examples. With a quadratic running time it would take too long. It also checks that p₀ ≤ p₁,
// and that p₀ and p₁ never decrease.
func TestVennAbersIsFast(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 3))
	const n = 1_000_000
	values, is := make([]float64, n), make([]bool, n)
	for i := range values {
		values[i] = rng.Float64()
		is[i] = rng.Float64() < values[i]
	}
	c := vennAbers(values, is)
	for k := range c.P0 {
		if c.P0[k] > c.P1[k] || k > 0 && (c.P0[k] < c.P0[k-1] || c.P1[k] < c.P1[k-1]) {
			t.Fatalf("knot %d: p0 %v, p1 %v", k, c.P0[k], c.P1[k])
		}
	}
}
