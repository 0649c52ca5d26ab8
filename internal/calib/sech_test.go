package calib

import (
	"math"
	"slices"
	"testing"
)

// A Kolmogorov–Smirnov test compares the perturbed scores with their distribution function, which has a closed form.
func TestSechDistribution(t *testing.T) {
	const n = 20_000
	for _, h := range []float64{1.0 / 1024, 1.0 / 64, 0.2, 3} {
		for _, s0 := range []float64{0, 0.003, 0.5, 0.97, 1} {
			k := Sech{h, 7}
			x := make([]float64, n)
			for i := range x {
				x[i] = k.Perturb(s0, i)
			}
			slices.Sort(x)
			low, high := math.Atan(math.Sinh(s0/h)), math.Atan(math.Sinh((1-s0)/h))
			worst := 0.0
			for i, v := range x {
				if !(v >= 0 && v <= 1) {
					t.Fatalf("h %v: %v is outside [0, 1]", h, v)
				}
				f := (low + math.Atan(math.Sinh((v-s0)/h))) / (low + high)
				worst = max(worst, math.Abs(f-float64(i)/n), math.Abs(f-float64(i+1)/n))
			}
			// P(D > d) ≤ 2exp(−2nd²), which is one in a million at this limit.
			if limit := math.Sqrt(math.Log(2e6) / (2 * n)); worst > limit {
				t.Errorf("h %v, s0 %v: distance %v > %v", h, s0, worst, limit)
			}
		}
	}
}

// The test compares the uniform numbers and the perturbed scores with golden values, because the perturbation of a row
// must not change between versions. Otherwise users could not reproduce their bounds. The uniform numbers are compared
// exactly. The perturbed scores are compared with a tolerance, because functions such as tan and asinh may differ in
// the last bits between platforms.
func TestSechGolden(t *testing.T) {
	for _, tt := range []struct {
		seed uint64
		row  int
		u, s float64
	}{
		{1, 0, 0.7385740412228257, 0.7129920128366383},
		{1, 1, 0.8294061047819994, 0.7201959644322986},
		{1, 1_000_000, 0.19982100870220892, 0.68241977716615},
		{2, 0, 0.6663944001340978, 0.7085674798003886},
	} {
		k := Sech{1.0 / 64, tt.seed}
		if u, s := k.uniform(tt.row), k.Perturb(0.7, tt.row); u != tt.u || math.Abs(s-tt.s) > 1e-14 {
			t.Errorf("{%d, %d, %v, %v},", tt.seed, tt.row, u, s)
		}
	}
}

// With a small h, Perturb hardly changes the score. With a large h, the perturbed score is nearly uniform in [0, 1].
func TestSechLimits(t *testing.T) {
	if s := (Sech{1e-12, 1}).Perturb(0.25, 5); math.Abs(s-0.25) > 1e-10 {
		t.Error(s)
	}
	k := Sech{1e6, 1}
	if s := k.Perturb(0.25, 5); math.Abs(s-k.uniform(5)) > 1e-6 {
		t.Error(s, k.uniform(5))
	}
}
