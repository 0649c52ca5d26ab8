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
