package calib

import (
	"math"
	"math/rand/v2"
	"testing"
)

// gaussians draws n rows of two independent normal features. The first feature is scale·X, where X is normal with the
// given mean and with standard deviation 1. The second has mean −5 and standard deviation 1.
func gaussians(n int, mean, scale float64, seed uint64) Features {
	rng := rand.New(rand.NewPCG(seed, 17))
	f := Features{N: n, D: 2}
	for range n {
		f.Values = append(f.Values, scale*(mean+rng.NormFloat64()), rng.NormFloat64()-5)
	}
	return f
}

// For normal distributions with means 0 and ½ and standard deviation 1, the density ratio is exp(x/2 − 1/8). Its
// logarithm is linear in x, so the regression can represent it.
func TestRatiosOfGaussians(t *testing.T) {
	const n, scale = 20_000, 1000
	source, target := gaussians(n, 0, scale, 1), gaussians(n/4, 0.5, scale, 2)
	r, err := EstimateRatios(source, target, RatioFit{Folds: 5, Seed: 1, Bound: 50})
	if err != nil {
		t.Fatal(err)
	}
	off, mean := 0.0, 0.0
	for i, w := range r.Weight {
		off += math.Abs(w-math.Exp(source.row(i)[0]/scale/2-0.125)) / n
		mean += w / n
	}
	if off > 0.05 || math.Abs(mean-1) > 0.03 {
		t.Errorf("mean error %v, mean weight %v", off, mean)
	}
	if math.Abs(r.Before-0.5) > 0.05 || r.After > 0.03 || r.Clipped != 0 {
		t.Errorf("difference %v before, %v after; %d clipped", r.Before, r.After, r.Clipped)
	}
	// The exact ratio w has E w = 1 and E w² = e^{1/4}, so EffectiveSize divided by n is near e^{−1/4}.
	if size := EffectiveSize(r.Weight) / n; math.Abs(size-math.Exp(-0.25)) > 0.03 {
		t.Errorf("effective share %v, want %v", size, math.Exp(-0.25))
	}
}

// newtonRatios computes the weights of EstimateRatios in another way. It fits the regressions by Newton's method, in
// plain loops.
func newtonRatios(source, target Features, o RatioFit) []float64 {
	fs, ft := assignFolds(source.N, o.Folds, o.Seed), assignFolds(target.N, o.Folds, o.Seed+1)
	weights := make([]float64, source.N)
	var all []float64
	for i := range source.N {
		all = append(all, source.row(i)[0])
	}
	for i := range target.N {
		all = append(all, target.row(i)[0])
	}
	mean, variance := meanVariance(all)
	z := func(f Features, i int) float64 { return (f.row(i)[0] - mean) / math.Sqrt(variance) }
	for k := range o.Folds {
		var x, y []float64
		ns, nt := 0.0, 0.0
		for i := range source.N {
			if int(fs[i]) != k {
				x, y, ns = append(x, z(source, i)), append(y, 0), ns+1
			}
		}
		for i := range target.N {
			if int(ft[i]) != k {
				x, y, nt = append(x, z(target, i)), append(y, 1), nt+1
			}
		}
		a, b := 0.0, 0.0 // log-odds a + bx
		for range 50 {
			ga, gb, haa, hab, hbb := 0.0, b, 0.0, 0.0, 1.0 // start with the derivatives of the penalty b²/2
			for i := range x {
				p := 1 / (1 + math.Exp(-a-b*x[i]))
				ga, gb = ga+p-y[i], gb+(p-y[i])*x[i]
				haa, hab, hbb = haa+p*(1-p), hab+p*(1-p)*x[i], hbb+p*(1-p)*x[i]*x[i]
			}
			det := haa*hbb - hab*hab
			a, b = a-(hbb*ga-hab*gb)/det, b-(haa*gb-hab*ga)/det
		}
		for i := range source.N {
			if int(fs[i]) == k {
				weights[i] = min(o.Bound, ns/nt*math.Exp(a+b*z(source, i)))
			}
		}
	}
	return weights
}

func TestRatiosAgreeWithNewton(t *testing.T) {
	one := func(f Features) Features {
		g := Features{N: f.N, D: 1}
		for i := range f.N {
			g.Values = append(g.Values, f.row(i)[0])
		}
		return g
	}
	source, target := one(gaussians(300, 0, 1, 3)), one(gaussians(90, 1, 1, 4))
	o := RatioFit{Folds: 3, Seed: 7, Bound: 4}
	r, err := EstimateRatios(source, target, o)
	if err != nil {
		t.Fatal(err)
	}
	clipped := 0
	for i, want := range newtonRatios(source, target, o) {
		if math.Abs(r.Weight[i]-want) > 1e-5*want {
			t.Errorf("row %d: %v, want %v", i, r.Weight[i], want)
		}
		clipped += int(indicator(want == 4))
	}
	if clipped == 0 || r.Clipped != clipped {
		t.Errorf("%d clipped, want %d", r.Clipped, clipped)
	}
}

// The weights are finite even if a feature separates the two samples or is constant.
func TestRatiosOfOddSamples(t *testing.T) {
	apart := Features{N: 20, D: 2}
	other := Features{N: 20, D: 2}
	for i := range 20 {
		apart.Values = append(apart.Values, float64(i), 3)
		other.Values = append(other.Values, 1000+float64(i), 3)
	}
	r, err := EstimateRatios(apart, other, RatioFit{Folds: 2, Seed: 1, Bound: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range r.Weight {
		if !(w >= 0 && w <= 10) {
			t.Errorf("weight %v", w)
		}
	}
	for _, o := range []RatioFit{{Folds: 1, Bound: 10}, {Folds: 21, Bound: 10}, {Folds: 2, Bound: 0.5}, {Folds: 2, Bound: math.Inf(1)}} {
		if _, err := EstimateRatios(apart, other, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	if _, err := EstimateRatios(apart, Features{N: 20, D: 1, Values: make([]float64, 20)}, RatioFit{Folds: 2, Bound: 2}); err == nil {
		t.Error("different numbers of features: no error")
	}
}
