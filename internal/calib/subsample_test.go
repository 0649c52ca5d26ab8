package calib

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// All pairs of two of the five rows are equally likely. A subsample of all rows is the sample itself.
func TestSubsample(t *testing.T) {
	s := draw(5, 1, (*rand.Rand).Float64, uniform01)
	counts := map[[2]uint64]int{}
	const trials = 20_000
	for seed := range uint64(trials) {
		got := s.Subsample(2, seed)
		if got.N() != 2 || got.packed[0] >= got.packed[1] {
			t.Fatalf("seed %d: %v of %v", seed, got.packed, s.packed)
		}
		counts[[2]uint64(got.packed)]++
	}
	if len(counts) != 10 {
		t.Errorf("%d different pairs, want 10", len(counts))
	}
	for pair, n := range counts { // the standard deviation of n is 42
		if n < 1800 || n > 2200 {
			t.Errorf("pair %v: %d of %d", pair, n, trials)
		}
		if !slices.Contains(s.packed, pair[0]) || !slices.Contains(s.packed, pair[1]) {
			t.Errorf("pair %v is not in the sample", pair)
		}
	}
	if all := s.Subsample(5, 3); !slices.Equal(all.packed, s.packed) {
		t.Errorf("all rows: %v, want %v", all.packed, s.packed)
	}
}

// Apart from chance, the mean bound of subsamples equals the mean bound of independent samples of the same size. The
// subsamples of 20,000 rows all hold every row, so they are equal. But each has its own folds and its own order of
// bets.
func TestBySize(t *testing.T) {
	methods := []BoundMethod{*boundMethod(t, "binned-tv"), *boundMethod(t, "tv")}
	plan := BoundPlan{Methods: methods, Params: BoundParams{CrossFit: CrossFit{Delta: 0.05, Folds: 2, Seed: 1}, Variation: 1}}
	square := func(s float64) float64 { return s * s }
	s := draw(20_000, 1, (*rand.Rand).Float64, square)
	got, err := plan.BySize(t.Context(), s, []int{20_000, 500, 500}, 16)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Sizes) != 2 || got.Sizes[0].N != 500 || got.Sizes[1].N != 20_000 {
		t.Fatalf("sizes %+v", got.Sizes)
	}
	if want := EstimateError(s); got.Proxy != want {
		t.Errorf("proxy %v, want %v", got.Proxy, want)
	}
	var upper, lower moments
	for seed := range uint64(16) {
		found, err := plan.Compute(t.Context(), draw(500, seed+2, (*rand.Rand).Float64, square))
		if err != nil {
			t.Fatal(err)
		}
		upper.add(found.Upper["binned-tv"].Value)
		lower.add(found.Lower.Value)
	}
	small := got.Sizes[0]
	for _, c := range []struct {
		what string
		got  Spread
		want moments
	}{{"binned-tv", small.Upper["binned-tv"], upper}, {"betting", small.Lower, lower}} {
		sd := math.Sqrt(c.want.variance())
		if math.Abs(c.got.Mean-c.want.mean) > 2*sd || c.got.SD < sd/2 || c.got.SD > 2*sd {
			t.Errorf("%s: %+v, independent samples have mean %v and sd %v", c.what, c.got, c.want.mean, sd)
		}
	}
	whole, err := BinnedVariation(s, 0.05, 1)
	if err != nil {
		t.Fatal(err)
	}
	if all := got.Sizes[1].Upper["binned-tv"]; math.Abs(all.Mean-whole.Value) > 1e-12 || all.SD > 1e-9 {
		t.Errorf("all rows: %+v, want %v without spread", all, whole.Value)
	}
	if all := got.Sizes[1]; !(all.Upper["tv"].SD > 0) || !(all.Lower.SD > 0) {
		t.Errorf("all rows: folds and bets have one seed: %+v", all)
	}
	if tv := small.Upper["tv"]; tv.Trivial != 16 || !math.IsNaN(got.UpperSlope["tv"]) {
		t.Errorf("tv of 500 rows: %+v, slope %v", tv, got.UpperSlope["tv"])
	}
	gap := func(at SizeBounds) float64 { return at.Upper["binned-tv"].Mean - got.Proxy }
	want := math.Log(gap(got.Sizes[1])/gap(small)) / math.Log(40)
	if slope := got.UpperSlope["binned-tv"]; math.Abs(slope-want) > 1e-9 {
		t.Errorf("slope %v, want %v", slope, want)
	}
	want = math.Log((got.Proxy-got.Sizes[1].Lower.Mean)/(got.Proxy-small.Lower.Mean)) / math.Log(40)
	if small.Lower.Trivial == 0 && math.Abs(got.LowerSlope-want) > 1e-9 {
		t.Errorf("slope of the lower bound %v, want %v", got.LowerSlope, want)
	}
	for _, sizes := range [][]int{{0}, {20_001}} {
		if _, err := plan.BySize(t.Context(), s, sizes, 1); err == nil {
			t.Errorf("sizes %v: no error", sizes)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		bounds []float64
		want   Spread
	}{
		{[]float64{0.25}, Spread{Mean: 0.25}},
		{[]float64{1, 0.5}, Spread{Mean: 0.75, SD: math.Sqrt(0.125), Trivial: 1}},
	} {
		if got := newSpread(c.bounds, 1); got.Mean != c.want.Mean || math.Abs(got.SD-c.want.SD) > 1e-15 || got.Trivial != c.want.Trivial {
			t.Errorf("%v: %+v, want %+v", c.bounds, got, c.want)
		}
	}
}

// The slope comes only from the sizes that have no trivial bound and have a positive gap.
func TestBoundStudySlope(t *testing.T) {
	b := BoundStudy{Proxy: 0.1}
	for _, n := range []float64{100, 10_000, 1000, 50} {
		at := SizeBounds{N: int(n), Upper: map[string]Spread{"m": {Mean: 0.1 + 2*math.Pow(n, -0.4)}}, Lower: Spread{Mean: 0.1 - 0.5/math.Sqrt(n)}}
		if n == 50 {
			at.Upper["m"], at.Lower = Spread{Mean: 0.2, Trivial: 1}, Spread{Mean: 0.2}
		}
		b.Sizes = append(b.Sizes, at)
	}
	b.fitSlopes([]BoundMethod{{Name: "m"}, {Name: "other"}})
	if math.Abs(b.UpperSlope["m"]+0.4) > 1e-9 || math.Abs(b.LowerSlope+0.5) > 1e-9 || !math.IsNaN(b.UpperSlope["other"]) {
		t.Errorf("slopes %v and %v", b.UpperSlope, b.LowerSlope)
	}
}
