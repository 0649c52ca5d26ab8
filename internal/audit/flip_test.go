package audit

import (
	"math"
	"math/big"
	"testing"
)

// exactFlip returns the exact evidence E of Flip. The arguments a and b are the numbers of votes for A and for B. E is
// 2^{a+b+1} times the integral of θ^b(1−θ)^a over (½, 1). exactFlip expands (1−θ)^a and integrates each term.
func exactFlip(a, b int64) *big.Rat {
	sum := new(big.Rat)
	half := big.NewRat(1, 2)
	for i := int64(0); i <= a; i++ {
		power := b + i + 1
		low := new(big.Rat).SetInt64(1)
		for range power {
			low.Mul(low, half)
		}
		term := new(big.Rat).SetInt(new(big.Int).Binomial(a, i))
		term.Mul(term, new(big.Rat).Sub(big.NewRat(1, 1), low))
		term.Mul(term, big.NewRat(1, power))
		if i%2 == 1 {
			term.Neg(term)
		}
		sum.Add(sum, term)
	}
	return sum.Mul(sum, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(a+b+1))))
}

// The expected values were computed without this package. With 17 votes for the rival and none for the class, E is (2¹⁸
// − 1)/18.
func TestFlipValues(t *testing.T) {
	for _, c := range []struct {
		b, a int64
		want float64
	}{{17, 0, 14563.5}, {40, 10, 4298.2}} {
		if got := math.Exp(Flip(c.a, c.b)); math.Abs(got-c.want) > .06 {
			t.Errorf("(%d, %d): evidence %v, want %v", c.b, c.a, got, c.want)
		}
	}
	if got := FlipPValue(0, 17); math.Abs(got-7.6e-6) > .05e-6 || got < math.Ldexp(1, -17) {
		t.Errorf("17 of 17: p = %v, want 7.6e-6, at least 2⁻¹⁷", got)
	}
	if got := FlipPValue(1, 2); got < .5 || got > .5+1e-12 {
		t.Errorf("2 of 3: p = %v, want .5", got)
	}
}

// The test compares Flip with exact rational arithmetic. Flip's logarithm must be close to the exact logarithm, but not
// above it.
func TestFlipIsRoundedDown(t *testing.T) {
	for k := int64(0); k <= 40; k++ {
		for a := int64(0); a <= k; a++ {
			exact, _ := exactFlip(a, k-a).Float64()
			got := Flip(a, k-a)
			if got > math.Log(exact)*(1+4*unit)+4*unit || got < math.Log(exact)-1e-12*(1+math.Abs(math.Log(exact))) {
				t.Errorf("(%d, %d): ln E = %v, exactly %v", k-a, a, got, math.Log(exact))
			}
		}
	}
}

// At p_A = p_B the evidence is a martingale: its mean is 1 after any number of votes.
func TestFlipIsMartingale(t *testing.T) {
	for _, k := range []int64{1, 2, 10, 100} {
		mean := 0.
		for a := int64(0); a <= k; a++ {
			c, _ := new(big.Float).SetInt(new(big.Int).Binomial(k, a)).Float64()
			mean += math.Exp(Flip(a, k-a)) * c * math.Ldexp(1, -int(k))
		}
		if math.Abs(mean-1) > 1e-12 {
			t.Errorf("after %d votes: mean evidence %v, want 1", k, mean)
		}
	}
}

// crossing returns the probability that the evidence E of Flip reaches 1/γ within n votes. Each vote is for B with
// probability theta, and for A otherwise. It sums over all sequences of votes.
func crossing(n int, theta, gamma float64) float64 {
	alive, crossed := []float64{1}, 0.
	for k := 1; k <= n; k++ {
		next := make([]float64, k+1)
		for b, p := range alive {
			next[b] += p * (1 - theta)
			next[b+1] += p * theta
		}
		for b, p := range next {
			if p > 0 && Rejected(Flip(int64(k-b), int64(b)), gamma) {
				crossed += p
				next[b] = 0
			}
		}
		alive = next
	}
	return crossed
}

// At p_A = p_B, the probability that Flip ever rejects within 400 votes is at most γ. If each vote is for B with
// probability 70 %, Flip rejects within these votes with a probability of at least 99 %. The test sums over all
// sequences of votes.
func TestFlipLevel(t *testing.T) {
	for _, gamma := range []float64{.05, .01, .001} {
		if p := crossing(400, .5, gamma); p > gamma {
			t.Errorf("P(reject at %v) = %v at p_A = p_B", gamma, p)
		}
		if p := crossing(400, .5, gamma); p < gamma/20 {
			t.Errorf("P(reject at %v) = %v at p_A = p_B: the test never rejects", gamma, p)
		}
		if p := crossing(400, .7, gamma); p < .99 {
			t.Errorf("P(reject at %v) = %v at θ = .7", gamma, p)
		}
	}
}

func TestPValue(t *testing.T) {
	for _, c := range [][2]float64{{-3, 1}, {0, 1}, {math.Log(2), .5}, {math.Log(1e5), 1e-5}} {
		if got := PValue(c[0]); got < c[1] || got > c[1]*(1+1e-12) {
			t.Errorf("ln E = %v: p = %v, want %v", c[0], got, c[1])
		}
	}
	if PValue(1e4) <= 0 {
		t.Error("p-value 0")
	}
	if Rejected(math.Log(1000)*(1-1e-9), .001) || !Rejected(math.Log(1000)*(1+1e-9), .001) || Rejected(math.Inf(1), 0) {
		t.Error("rejection is not at 1/γ")
	}
}
