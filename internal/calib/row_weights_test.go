package calib

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomWeights draws weights of many kinds: small whole numbers with zeros, numbers in [0, 1), and numbers of many
// magnitudes.
func randomWeights(r *rand.Rand, n int) []float64 {
	kind := r.IntN(3)
	out := make([]float64, n)
	for i := range out {
		switch kind {
		case 0:
			out[i] = float64(r.IntN(4))
		case 1:
			out[i] = r.Float64()
		default:
			out[i] = math.Exp2(100*r.Float64() - 70)
		}
	}
	out[r.IntN(n)]++ // the sum is positive
	return out
}

func mustWeights(t *testing.T, w []float64) RowWeights {
	t.Helper()
	return must(NewRowWeights(w))
}

// The test computes the largest (c−z)² for each interval, and the weighted mean of these squares, with exact fractions.
func TestWeightedCBS(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 1))
	for range 500 {
		intervals := randomIntervals(r, 1+r.IntN(8))
		w := randomWeights(r, len(intervals))
		sum, all := new(big.Rat), new(big.Rat)
		for i, v := range intervals {
			x := new(big.Rat).SetFloat64(w[i])
			all.Add(all, x)
			d := new(big.Rat).SetFloat64(v.Upper)
			if v.Correct {
				d.Sub(big.NewRat(1, 1), new(big.Rat).SetFloat64(v.Lower))
			}
			sum.Add(sum, d.Mul(d, d).Mul(d, x))
		}
		want := sum.Quo(sum, all)
		got, err := WeightedCBS(intervals, mustWeights(t, w))
		nearest, _ := want.Float64()
		if err != nil || new(big.Rat).SetFloat64(got).Cmp(want) < 0 || got > nearest+1e-15 {
			t.Fatalf("weights %v: %v (%v), want %v rounded up", w, got, err, nearest)
		}
	}
}

// The test compares WeightedCCE with the largest weighted error over all assignments of samples to bins. It also
// compares WeightedCCE with CCE for a dataset in which a sample of weight m occurs m times.
func TestWeightedCCE(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 2))
	for range 700 {
		b := mustBins(t, 1+r.IntN(4))
		intervals := randomSamples(r, b, 1+r.IntN(5))
		w := randomWeights(r, len(intervals))
		weights := mustWeights(t, w)
		worst := must(WeightedCCE(intervals, b, weights))
		if want := byAssignment(b, intervals, w); math.Abs(worst.Value-want) > rounding {
			t.Fatalf("M = %d, %v with weights %v: %v, want %v", b.Len(), intervals, w, worst.Value, want)
		}
		z := worst.Confidences(intervals)
		ece := b.WeightedECE(z, correctness(intervals), weights)
		if ece > worst.Value || worst.Value-ece > 1e-15 {
			t.Fatalf("weights %v: value %v, its confidences have ECE %v", w, worst.Value, ece)
		}
		gap, all := make([]float64, b.Len()), 0.0
		for i, v := range intervals {
			gap[b.Index(z[i])] += w[i] * (indicator(v.Correct) - z[i])
			all += w[i]
		}
		direct := 0.0
		for _, g := range gap {
			direct += math.Abs(g) / all
		}
		if math.Abs(ece-direct) > rounding {
			t.Fatalf("weights %v: ECE %v, want %v", w, ece, direct)
		}
	}
	b := mustBins(t, 7)
	for range 50 {
		intervals, w := randomSamples(r, b, 40), make([]float64, 40)
		var copies []Bounded
		for i := range w {
			w[i] = float64(r.IntN(4))
			copies = append(copies, slices.Repeat(intervals[i:i+1], int(w[i]))...)
		}
		got, want := must(WeightedCCE(intervals, b, mustWeights(t, w))), must(CCE(copies, b))
		if got.Value != want.Value {
			t.Fatalf("weights %v: %v, %v with copies", w, got.Value, want.Value)
		}
	}
}

// If all weights are 1, every result is the same as without weights, to the last bit. With other equal weights, the
// results differ by at most 1e-15.
func TestEqualWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 3))
	b := mustBins(t, 15)
	for _, each := range []float64{1, 3, 0.1, 1e-300, 1e300} {
		intervals, clean := certified(r, 321)
		w := mustWeights(t, slices.Repeat([]float64{each}, len(intervals)))
		same := func(what string, got, plain float64) {
			if math.Abs(got-plain) > 1e-15 || each == 1 && got != plain {
				t.Errorf("%s with weights %v: %v, without weights %v", what, each, got, plain)
			}
		}
		same("CBS", must(WeightedCBS(intervals, w)), must(CBS(intervals)))
		same("CCE", must(WeightedCCE(intervals, b, w)).Value, must(CCE(intervals, b)).Value)
		same("ECE", b.WeightedECE(clean, correctness(intervals), w), b.ECE(clean, correctness(intervals)))
		same("share", w.LargestShare(3, 321), RowWeights{}.LargestShare(3, 321))
	}
}

// Let the intervals of up to k samples fail. Then the metrics stay below the bounds that WithFailures returns. Its
// argument is the sum of the k largest weights, divided by the sum of all weights. The test tries every choice of
// failed samples. A failed sample can have any confidence from 0 to 1, and it is correct or wrong at random.
func TestWeightedFailures(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 4))
	nearest := math.Inf(1)
	for range 150 {
		b := mustBins(t, 1+r.IntN(3))
		n := 2 + r.IntN(5)
		k := 1 + r.IntN(2)
		intervals, w := randomSamples(r, b, n), randomWeights(r, n)
		weights := mustWeights(t, w)
		cce := must(WeightedCCE(intervals, b, weights)).Value
		bound := AttackBounds{CBS: must(WeightedCBS(intervals, weights)), CCE: &cce}.WithFailures(weights.LargestShare(int64(k), n))
		for which := range 1 << n {
			failed := slices.Clone(intervals)
			count := 0
			for i := range n {
				if which>>i&1 == 1 {
					count++
					failed[i] = Bounded{Lower: 0, Upper: 1, Correct: r.IntN(2) == 0}
				}
			}
			if count > k {
				continue
			}
			ece, brier := byAssignment(b, failed, w), must(WeightedCBS(failed, weights))
			if ece > *bound.CCE+rounding || brier > bound.CBS+rounding {
				t.Fatalf("weights %v, %d fail: ECE %v and Brier score %v, bounds %v and %v", w, count, ece, brier, *bound.CCE, bound.CBS)
			}
			nearest = min(nearest, *bound.CCE-ece)
		}
	}
	if nearest > 1e-9 {
		t.Errorf("the nearest attack is %v below the bound", nearest)
	}
	// Two samples with weight 3 have the weighted gaps 3 and −3, which cancel. If the interval of one of these samples
	// fails, the error can grow by 2·3/7.
	b, w := mustBins(t, 1), mustWeights(t, []float64{3, 1, 3})
	intervals := []Bounded{{Correct: true}, {Lower: 1, Upper: 1, Correct: true}, {Lower: 1, Upper: 1}}
	if cce := must(WeightedCCE(intervals, b, w)).Value; cce != 0 {
		t.Errorf("CCE %v, want 0", cce)
	}
	s, err := StateForAll(AttackBounds{CBS: 0.125, CCE: new(float64), LargestGap: new(float64)}, 3, w, Sampled{Examples: 1000}, 0.0001, 0.05)
	if err != nil || s.Failures != 1 || math.Abs(*s.CCE-6./7) > 1e-15 || math.Abs(s.CBS-(0.125+3./7)) > 1e-15 || math.Abs(*s.LargestGap-3./7) > 1e-15 {
		t.Errorf("statement %+v (%v)", s, err)
	}
}

// LargestShare returns the exact share of the k largest weights, rounded up.
func TestLargestShare(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 5))
	for range 300 {
		n := 1 + r.IntN(20)
		w := randomWeights(r, n)
		k := r.IntN(n + 3)
		sorted := slices.Sorted(slices.Values(w))
		sum, all := new(big.Rat), new(big.Rat)
		for i, x := range sorted {
			all.Add(all, new(big.Rat).SetFloat64(x))
			if i >= n-k {
				sum.Add(sum, new(big.Rat).SetFloat64(x))
			}
		}
		want := sum.Quo(sum, all)
		nearest, _ := want.Float64()
		got := mustWeights(t, w).LargestShare(int64(k), n)
		if new(big.Rat).SetFloat64(got).Cmp(want) < 0 || got > nearest+1e-15 || got > 1 {
			t.Fatalf("%d of %v: %v, want %v rounded up", k, w, got, nearest)
		}
	}
}

// The exact result is a weighted mean, which the test computes with fractions. NewRowWeights rounds weights of very
// different sizes. Even so, WeightedCCE must be at least this mean, and WeightedECE at most this mean.
func TestWeightedMeansAreRoundedOutward(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 6))
	rounded := 0
	for range 300 {
		n := 1 + r.IntN(30)
		w := make([]float64, n)
		for i := range w {
			w[i] = math.Exp2(-80 * r.Float64())
		}
		weights := mustWeights(t, w)
		if weights.inexact {
			rounded++
		}
		intervals := make([]Bounded, n)
		sum, all := new(big.Rat), new(big.Rat)
		for i := range w {
			u := r.Float64()
			intervals[i] = Bounded{0, u, false}
			x := new(big.Rat).SetFloat64(w[i])
			all.Add(all, x)
			sum.Add(sum, new(big.Rat).Mul(x, new(big.Rat).SetFloat64(u)))
		}
		want := sum.Quo(sum, all)
		z := make([]float64, n)
		for i, v := range intervals {
			z[i] = v.Upper
		}
		b := mustBins(t, 1)
		up, down := must(WeightedCCE(intervals, b, weights)).Value, b.WeightedECE(z, correctness(intervals), weights)
		exactly := func(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }
		if exactly(up).Cmp(want) < 0 || exactly(down).Cmp(want) > 0 || up-down > 1e-15 {
			t.Fatalf("weights %v: [%v, %v], want %v inside", w, down, up, want)
		}
	}
	if rounded < 100 {
		t.Errorf("only %d of 300 sets of weights were rounded", rounded)
	}
}

// With 1024 rows, a unit is 2⁻⁵⁰, so 1 + 3·2⁻⁵² is rounded down by 3/4 of a unit. Without an allowance for this
// rounding, the bounds would be wrong.
func TestRoundedWeights(t *testing.T) {
	const n = 1024
	const odd = 1 + 3*0x1p-52
	heavy, light := slices.Repeat([]float64{1}, n), slices.Repeat([]float64{odd}, n)
	heavy[0], light[0] = odd, 1
	share := func(first, other float64) *big.Rat {
		x, rest := new(big.Rat).SetFloat64(first), new(big.Rat).SetFloat64(other)
		return x.Quo(x, rest.Mul(rest, big.NewRat(n-1, 1)).Add(rest, x))
	}
	intervals := make([]Bounded, n)
	intervals[0].Lower, intervals[0].Upper = 1, 1
	z := make([]float64, n)
	z[0] = 1
	b := mustBins(t, 1)
	most, least := share(odd, 1), share(1, odd)
	exactly := func(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }
	w := mustWeights(t, heavy)
	for what, got := range map[string]float64{"share": w.LargestShare(1, n), "CBS": must(WeightedCBS(intervals, w)), "CCE": must(WeightedCCE(intervals, b, w)).Value} {
		if exactly(got).Cmp(most) < 0 || got > 0x1p-10+1e-14 {
			t.Errorf("%s %v is below %v", what, got, most)
		}
	}
	if got := b.WeightedECE(z, correctness(intervals), mustWeights(t, light)); exactly(got).Cmp(least) > 0 || got < 0x1p-10-1e-14 {
		t.Errorf("ECE %v is above %v", got, least)
	}
}

func TestBadRowWeights(t *testing.T) {
	for _, w := range [][]float64{{}, {0, 0}, {1, -1}, {math.NaN()}, {math.Inf(1)}, {math.MaxFloat64, math.MaxFloat64}} {
		if _, err := NewRowWeights(w); err == nil {
			t.Errorf("%v is accepted", w)
		}
	}
	w := mustWeights(t, []float64{1, 2})
	if _, err := WeightedCBS([]Bounded{{}}, w); err == nil {
		t.Error("CBS: two weights of one row")
	}
	if _, err := WeightedCCE([]Bounded{{}}, mustBins(t, 1), w); err == nil {
		t.Error("CCE: two weights of one row")
	}
}

// NewRowWeights rounds a weight of less than one unit to 0, and must then set the field 'inexact'.
func TestLostWeight(t *testing.T) {
	for _, weight := range [][]float64{{1, 5e-324}, {1e308, 5e-324}, {1, 0x1p-70}} {
		w, err := NewRowWeights(weight)
		if err != nil || !w.inexact || w.units[1] != 0 {
			t.Errorf("%v: %+v, %v", weight, w, err)
		}
	}
	if w, err := NewRowWeights([]float64{1, 0, 3}); err != nil || w.inexact {
		t.Errorf("%+v, %v", w, err)
	}
}
