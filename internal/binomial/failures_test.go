package binomial

import (
	"math/big"
	"testing"
)

// tailAbove computes P(Bin(n, p) > k) to 200 bits, as a sum of terms of the binomial expansion.
func tailAbove(n, k int64, p float64) *big.Float {
	const bits = 200
	value := func(x float64) *big.Float { return new(big.Float).SetPrec(bits).SetFloat64(x) }
	q := new(big.Float).SetPrec(bits).Sub(value(1), value(p))
	term, sum := value(1), value(0)
	for range n {
		term.Mul(term, value(p))
	}
	odds := new(big.Float).SetPrec(bits).Quo(q, value(p))
	for j := n; j > k; j-- { // the variable 'term' is P(Bin(n, p) = j)
		sum.Add(sum, term)
		term.Mul(term, odds).Mul(term, value(float64(j))).Quo(term, value(float64(n-j+1)))
	}
	return sum
}

func TestFailureQuantile(t *testing.T) {
	for _, n := range []int64{1, 2, 10, 500, 1000, 7000} {
		for _, alpha := range []float64{0.001, 0.01, 0.3} {
			for _, delta := range []float64{0.05, 0.001, 1e-9} {
				if n > 1000 && alpha > 0.001 {
					continue // tailAbove would be slow
				}
				k, err := FailureQuantile(n, alpha, delta)
				if err != nil {
					t.Fatal(err)
				}
				limit, below := big.NewFloat(delta), big.NewFloat(delta*(1-1e-10))
				if k < n && tailAbove(n, k, alpha).Cmp(limit) > 0 {
					t.Errorf("n = %d, α = %g, δ = %g: k = %d is exceeded more often", n, alpha, delta, k)
				}
				if k > 0 && tailAbove(n, k-1, alpha).Cmp(below) <= 0 {
					t.Errorf("n = %d, α = %g, δ = %g: %d would do, got %d", n, alpha, delta, k-1, k)
				}
			}
		}
	}
}

// P(Bin(1, ½) > 0) is exactly ½, and P(Bin(2, ½) > 1) is exactly ¼. The tail must be at most δ, so a tail equal to δ is
// small enough. Rounding may only increase the computed k.
func TestFailureQuantileAtTheLimit(t *testing.T) {
	for _, tt := range []struct {
		n     int64
		delta float64
		exact int64
	}{{1, 0.5, 0}, {2, 0.25, 1}, {2, 0.75, 0}} {
		k, err := FailureQuantile(tt.n, 0.5, tt.delta)
		if err != nil || k < tt.exact || k > tt.exact+1 {
			t.Errorf("n = %d, δ = %g: %d, %v", tt.n, tt.delta, k, err)
		}
	}
}

func TestFailureQuantileLarge(t *testing.T) {
	// The mean is 10⁴, and the standard deviation is 100. The 0.95 quantile is about 1.645 standard deviations above
	// the mean.
	k, err := FailureQuantile(10_000_000, 0.001, 0.05)
	if err != nil || k < 10160 || k > 10170 {
		t.Errorf("%d, %v", k, err)
	}
}

func TestFailureQuantileDomain(t *testing.T) {
	for _, tt := range []struct {
		n            int64
		alpha, delta float64
	}{{0, 0.1, 0.1}, {1, 0, 0.1}, {1, 1, 0.1}, {1, 0.1, 0}, {1, 0.1, 1}, {1, -1, 0.5}} {
		if k, err := FailureQuantile(tt.n, tt.alpha, tt.delta); err == nil || k != 0 {
			t.Errorf("%+v: %d, %v", tt, k, err)
		}
	}
}
