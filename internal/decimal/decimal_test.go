package decimal

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestRoundingIsOutward(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		x := big.NewRat(r.Int64N(1000), 1+r.Int64N(999))
		if Of(Down(x)).Cmp(x) > 0 || Of(Up(x)).Cmp(x) < 0 {
			t.Fatalf("%v: %v, %v", x, Down(x), Up(x))
		}
		f, _ := x.Float64()
		if math.Abs(Down(x)-f) > 1e-13*(1+f) || math.Abs(Up(x)-f) > 1e-13*(1+f) {
			t.Fatalf("%v: %v, %v", x, Down(x), Up(x))
		}
	}
	if x := Down(big.NewRat(59, 100)); x != 0.59 {
		t.Errorf("59/100 is %v", x)
	}
}

func TestMeanDown(t *testing.T) {
	if got := MeanDown(Sum([]float64{0.1, 0.2, 0.3}), 3); got != 0.2 {
		t.Errorf("the mean of 0.1, 0.2 and 0.3 is %v", got)
	}
	if got := MeanDown(Sum([]float64{math.MaxFloat64, 1}), 2); got != math.MaxFloat64 {
		t.Errorf("a mean with +∞ is %v", got)
	}
}

// Sum must return the same value as a loop that adds Of(x) for each term x.
func TestSum(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var xs []float64
		want := new(big.Rat)
		for range 1 + r.IntN(40) {
			x := r.NormFloat64() * math.Pow(10, float64(r.IntN(40)-20))
			switch r.IntN(6) {
			case 0:
				x = math.Round(x)
			case 1:
				x = math.Float64frombits(r.Uint64() &^ (1 << 62)) // any magnitude below 2, including subnormal numbers
			case 2:
				x = []float64{0, math.Copysign(0, -1), math.MaxFloat64, 10, 1e22, 5e-324}[r.IntN(6)]
			}
			xs = append(xs, x)
			want.Add(want, Of(x))
		}
		if got := Sum(xs); got.Cmp(want) != 0 {
			t.Fatalf("%v: %v, want %v", xs, got, want)
		}
	}
}

// The sum of 10⁴ terms of 17 digits each fits into 128 bits, but not into 64.
func TestSumCarries(t *testing.T) {
	const x = 0.99999999999999978
	xs := make([]float64, 10000)
	for i := range xs {
		xs[i] = x
	}
	if want := new(big.Rat).Mul(Of(x), big.NewRat(10000, 1)); Sum(xs).Cmp(want) != 0 {
		t.Errorf("%v, want %v", Sum(xs), want)
	}
}
