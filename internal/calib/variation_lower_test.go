package calib

import (
	"math"
	"math/rand/v2"
	"testing"
)

// slowVariation computes the bound of VariationLower from the definitions. For the zigzags, it tries every choice of
// groups.
func slowVariation(s *Sample, delta float64) float64 {
	scores, labels := unpackAll(s)
	n := len(scores)
	finest := partitions(n) - 1
	best := 0.0
	for k := 1; k <= finest; k++ {
		var count, mean []float64
		for _, r := range slowPartition(scores, k, finest) {
			size := float64(r[1] - r[0])
			if size*float64(2*int(1)<<k) < float64(n) {
				continue
			}
			ones := 0.0
			for _, y := range labels[r[0]:r[1]] {
				ones += y
			}
			count, mean = append(count, size), append(mean, ones/size)
		}
		share := delta / float64(finest) / 2
		best = max(best, slowBands(count, mean, share), slowZigzags(count, mean, share))
	}
	return best
}

// slowBands computes the limits of each band by a search with smaller and smaller steps. Then slowestVariation finds
// the smallest sum of the steps |v_{b+1} − v_b| inside these limits.
func slowBands(count, mean []float64, share float64) float64 {
	var lower, upper []float64
	for b, y := range mean {
		limit := math.Log(2*float64(len(mean))/share) / count[b]
		l, u := y, y
		for step := 1.0; step > 1e-9; step /= 2 {
			for l-step >= 0 && klBernoulli(y, l-step) <= limit {
				l -= step
			}
			for u+step <= 1 && klBernoulli(y, u+step) <= limit {
				u += step
			}
		}
		lower, upper = append(lower, l), append(upper, u)
	}
	return slowestVariation(lower, upper)
}

// slowestVariation is the oracle of leastVariation. It uses dynamic programming. As v_b, the value in band b, it tries
// only the limits of the bands. These values suffice to reach the smallest sum.
func slowestVariation(lower, upper []float64) float64 {
	var values []float64
	values = append(append(values, lower...), upper...)
	cost := make([]float64, len(values))
	for b := range lower {
		next := make([]float64, len(values))
		for i, v := range values {
			next[i] = math.Inf(1)
			if v < lower[b] || v > upper[b] {
				continue
			}
			for j, w := range values {
				step := math.Abs(v - w)
				if b == 0 {
					step = 0
				}
				next[i] = min(next[i], cost[j]+step)
			}
		}
		cost = next
	}
	least := math.Inf(1)
	for _, c := range cost {
		least = min(least, c)
	}
	if len(lower) == 0 {
		return 0
	}
	return least
}

func slowZigzags(count, mean []float64, share float64) float64 {
	fewest := math.Inf(1)
	for _, c := range count {
		fewest = min(fewest, c)
	}
	ways, longest := map[int]float64{}, map[int]float64{}
	for set := range 1 << len(mean) {
		var chosen []float64
		for b, y := range mean {
			if set>>b&1 == 1 {
				chosen = append(chosen, y)
			}
		}
		m := len(chosen)
		if m < 2 {
			continue
		}
		for _, sign := range []float64{1, -1} {
			sum := 0.0
			for j := 1; j < m; j++ {
				sum += sign * (chosen[j] - chosen[j-1])
				sign = -sign
			}
			ways[m]++
			longest[m] = max(longest[m], sum)
		}
	}
	best := 0.0
	for m, sum := range longest {
		squares := 4*float64(m) - 6
		chance := share / float64(m*(m-1)) / ways[m]
		best = max(best, sum-math.Sqrt(squares/fewest*math.Log(1/chance)/2))
	}
	return best
}

func TestVariationLowerIsTheFormula(t *testing.T) {
	positive := 0
	for name, law := range oddScores {
		for _, n := range []int{1, 4, 8, 33, 60} {
			for shape, eta := range map[string]func(float64) float64{
				"steep": math.Round, "flat": func(float64) float64 { return 0.3 },
				"comb": func(x float64) float64 { return math.Mod(math.Floor(3*x), 2) },
			} {
				for _, delta := range []float64{0.9, 0.05} {
					s := draw(n, uint64(n), law, eta)
					got, err := VariationLower(s, delta)
					if err != nil || got.Delta != delta || !got.Sound {
						t.Fatal(got, err)
					}
					if got.Value > 0 {
						positive++
					}
					if want := slowVariation(s, delta); got.Value > want || got.Value < want-1e-8 {
						t.Errorf("%s n %d, %s, δ %v: %v, want %v", name, n, shape, delta, got.Value, want)
					}
				}
			}
		}
	}
	if positive < 20 {
		t.Errorf("only %d positive bounds", positive)
	}
	for _, bad := range []float64{0, 1, math.NaN()} {
		if _, err := VariationLower(draw(9, 1, uniform, uniform01), bad); err == nil {
			t.Errorf("delta %v is accepted", bad)
		}
	}
	if _, err := VariationLower(&Sample{}, 0.1); err == nil {
		t.Error("no rows are accepted")
	}
}

// The test compares leastVariation with a search through all paths whose values are multiples of 1/8. The ends of all
// bands are multiples of 1/8, too.
func TestLeastVariationOnAGrid(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		n := 1 + r.IntN(5)
		lower, upper := make([]float64, n), make([]float64, n)
		for b := range lower {
			x, y := float64(r.IntN(9))/8, float64(r.IntN(9))/8
			lower[b], upper[b] = min(x, y), max(x, y)
		}
		want := math.Inf(1)
		var walk func(b int, last, sum float64)
		walk = func(b int, last, sum float64) {
			if sum >= want {
				return
			}
			if b == n {
				want = sum
				return
			}
			for v := lower[b]; v <= upper[b]; v += 0.125 {
				step := 0.0
				if b > 0 {
					step = math.Abs(v - last)
				}
				walk(b+1, v, sum+step)
			}
		}
		walk(0, 0, 0)
		if got := leastVariation(lower, upper); got != want {
			t.Fatalf("%v %v: %v, want %v", lower, upper, got, want)
		}
	}
}

// hostileVariations holds distributions of pairs (score, label). For each distribution, the field 'variation' is the
// total variation of its η. Several distributions make the bound tight: their η jumps between atoms or between wide
// flat pieces, so that a group mean can attain the extremes of η.
var hostileVariations = []struct {
	name      string
	score     func(*rand.Rand) float64
	eta       func(float64) float64
	variation float64
}{
	{"constant ½", uniform, func(float64) float64 { return 0.5 }, 0},
	{"constant, rare", uniform, func(float64) float64 { return 0.02 }, 0},
	{"one atom", func(*rand.Rand) float64 { return 0.3 }, func(float64) float64 { return 0.5 }, 0},
	{"two atoms", func(r *rand.Rand) float64 { return float64(r.IntN(2)) }, func(s float64) float64 { return 0.45 + 0.1*s }, 0.1},
	{"certain step", uniform, math.Round, 1},
	{"identity", uniform, uniform01, 1},
	{"certain comb", uniform, func(s float64) float64 { return math.Mod(math.Floor(8*s), 2) }, 7},
	{"faint comb", uniform, func(s float64) float64 { return 0.45 + 0.1*math.Mod(math.Floor(8*s), 2) }, 0.7},
	{"comb of atoms", func(r *rand.Rand) float64 { return float64(r.IntN(16)) / 15 },
		func(s float64) float64 { return 0.3 + 0.4*math.Mod(math.Round(15*s), 2) }, 6},
	{"atom in a crowd", func(r *rand.Rand) float64 {
		if r.IntN(2) == 0 {
			return 0.5
		}
		return r.Float64()
	}, func(s float64) float64 {
		if s == 0.5 {
			return 0.7
		}
		return 0.3
	}, 0.8},
}

func TestVariationLowerCoverage(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	for _, n := range []int{40, 400, 2000} {
		for _, delta := range []float64{0.05, 0.9} {
			for _, l := range hostileVariations {
				const trials = 50
				failures, sum := 0, 0.0
				for trial := range uint64(trials) {
					got, err := VariationLower(draw(n, trial+1, l.score, l.eta), delta)
					if err != nil {
						t.Fatal(err)
					}
					sum += got.Value
					if got.Value > l.variation {
						failures++
					}
				}
				t.Logf("n %d, δ %v, %s: %d failures, mean %.4f of %v", n, delta, l.name, failures, sum/trials, l.variation)
				if tooMany(failures, trials, delta) {
					t.Errorf("n %d, δ %v, %s: %d of %d bounds above %v", n, delta, l.name, failures, trials, l.variation)
				}
			}
		}
	}
}

// VariationLower divides δ among the groups for its bands, and among the possible zigzags. The simulation shows that
// bounds which do not divide δ in this way are false too often.
func TestVariationCoverageNeedsTheUnion(t *testing.T) {
	const trials, delta, m = 60, 0.05, 8
	bands, zigzags := 0, 0
	for trial := range uint64(trials) {
		s := draw(6400, trial, uniform, func(float64) float64 { return 0.5 })
		groups := s.labelGroups(6)
		if len(groups) != 64 {
			t.Fatalf("%d groups", len(groups))
		}
		if bandVariation(groups, delta*2*64) > 0 {
			bands++
		}
		means := make([]float64, len(groups))
		for b, g := range groups {
			means[b] = g.mean()
		}
		if longestZigzags(means, m)[m-2] > math.Sqrt((4*m-6)*math.Log(1/delta)/(2*100)) {
			zigzags++
		}
	}
	if !tooMany(bands, trials, delta) || !tooMany(zigzags, trials, delta) {
		t.Errorf("only %d and %d of %d failures", bands, zigzags, trials)
	}
}

// More labels give a larger bound, and so does a larger variation. As the number of labels grows, the bound approaches
// the variation. The bound does not change if every score s becomes 1 − s and every label y becomes 1 − y.
func TestVariationLowerGrows(t *testing.T) {
	comb := func(amplitude float64) func(float64) float64 {
		return func(s float64) float64 { return 0.5 + amplitude*(math.Mod(math.Floor(8*s), 2)-0.5) }
	}
	value := func(n int, score func(*rand.Rand) float64, eta func(float64) float64) float64 {
		got, err := VariationLower(draw(n, 7, score, eta), 0.05)
		if err != nil {
			t.Fatal(err)
		}
		return got.Value
	}
	last := -1.0
	for _, n := range []int{300, 3000, 30_000, 300_000} {
		v := value(n, uniform, comb(0.8))
		t.Logf("n %d: %.4f of 5.6", n, v)
		if v < last {
			t.Errorf("n %d: %v after %v", n, v, last)
		}
		last = v
	}
	if last < 5.3 {
		t.Errorf("%v of 5.6 with 300,000 labels", last)
	}
	// A faint comb has seven jumps of 0.1, so its variation is 0.7. Its bound must come from the zigzags (see
	// zigzagVariation). In the case "rare step", η jumps once, from 0 to 0.01. In this case, the result must be the
	// bound that the comment of VariationLower calls 'Bands'.
	if v := value(100_000, uniform, comb(0.1)); v < 0.3 {
		t.Errorf("faint comb: %v of 0.7", v)
	}
	if v := value(100_000, uniform, func(s float64) float64 { return 0.01 * math.Round(s) }); v < 0.007 {
		t.Errorf("rare step: %v of 0.01", v)
	}
	if a, b := value(3000, uniform, comb(0.5)), value(3000, uniform, comb(0.9)); a >= b || a <= 0 {
		t.Errorf("amplitudes 0.5 and 0.9: %v and %v", a, b)
	}
	s := draw(4096, 7, uniform, comb(0.9))
	scores, labels := unpackAll(s)
	for i := range scores {
		scores[i], labels[i] = 1-scores[i], 1-labels[i]
	}
	mirrored, err := NewSample(scores, labels)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := VariationLower(s, 0.05)
	b, _ := VariationLower(mirrored, 0.05)
	same(t, "mirrored", b.Value, a.Value, 1e-9)
}
