package binomial

import (
	"math"
	"math/big"
	"testing"
)

// The wanted p-value is 2·Σ C(n, k)/2ⁿ over all k ≥ max(lost, gained), or 1 if this number is larger than 1. The test
// computes the sum with integers.
func TestMcNemar(t *testing.T) {
	for lost := range int64(30) {
		for gained := range int64(30) {
			n, sum := lost+gained, new(big.Int)
			for k := max(lost, gained); k <= n; k++ {
				sum.Add(sum, new(big.Int).Binomial(n, k))
			}
			p := new(big.Rat).SetFrac(sum, new(big.Int).Lsh(big.NewInt(1), uint(n)))
			want, _ := p.Add(p, p).Float64()
			want = min(want, 1)
			got := McNemar(lost, gained)
			if got < want*(1-1e-15) || got > want*(1+1e-9) {
				t.Errorf("McNemar(%d, %d) = %v, want %v", lost, gained, got, want)
			}
			if math.Abs(got-McNemar(gained, lost)) > 0 {
				t.Errorf("McNemar(%d, %d) is not symmetric", lost, gained)
			}
		}
	}
}

// Under the null hypothesis, the probability that the test rejects is at most the level of the test. The probability is
// over all outcomes with lost + gained = n.
func TestMcNemarLevel(t *testing.T) {
	const n = 25
	for _, level := range []float64{0.01, 0.05, 0.2} {
		reject := 0.0
		for k := range int64(n + 1) {
			if McNemar(k, n-k) <= level {
				c, _ := new(big.Float).SetInt(new(big.Int).Binomial(n, k)).Float64()
				reject += c / (1 << n)
			}
		}
		if reject > level {
			t.Errorf("level %v: rejects with probability %v", level, reject)
		}
	}
}
