package calib

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The function 'copied' draws n rows. The rows are numbered from 0. The sample holds row i 'copies' times if i is a
// multiple of 'every', and once otherwise.
func copied(n, copies int, every int, seed uint64, score func(*rand.Rand) float64, eta func(float64) float64) *Sample {
	rng := rand.New(rand.NewPCG(seed, 12))
	var scores, labels []float64
	for i := range n {
		s := score(rng)
		y := indicator(rng.Float64() < eta(s))
		times := 1
		if i%every == 0 {
			times = copies
		}
		for range times {
			scores, labels = append(scores, s), append(labels, y)
		}
	}
	return must(NewSample(scores, labels))
}

func TestLooksCopied(t *testing.T) {
	rounded := func(digits float64) func(*rand.Rand) float64 {
		return func(r *rand.Rand) float64 { return math.Round(r.Float64()*digits) / digits }
	}
	for _, c := range []struct {
		what   string
		s      func(seed uint64) *Sample
		copied bool
	}{
		{"ten copies", func(seed uint64) *Sample { return copied(300, 10, 1, seed, uniform, uniform01) }, true},
		{"two copies", func(seed uint64) *Sample { return copied(1000, 2, 1, seed, uniform, uniform01) }, true},
		{"a third is copied", func(seed uint64) *Sample { return copied(1000, 2, 3, seed, uniform, uniform01) }, true},
		{"copies of rounded scores", func(seed uint64) *Sample { return copied(2000, 2, 1, seed, rounded(10_000), uniform01) }, true},
		{"independent", func(seed uint64) *Sample { return copied(1000, 1, 1, seed, uniform, uniform01) }, false},
		{"two digits", func(seed uint64) *Sample { return copied(1000, 1, 1, seed, rounded(100), uniform01) }, false},
		{"three digits", func(seed uint64) *Sample { return copied(1000, 1, 1, seed, rounded(1000), uniform01) }, false},
		{"a step", func(seed uint64) *Sample { return copied(1000, 1, 1, seed, rounded(300), math.Round) }, false},
		{"a comb", func(seed uint64) *Sample {
			return copied(2000, 1, 1, seed, rounded(400), func(s float64) float64 { return math.Mod(math.Floor(8*s), 2) })
		}, false},
		{"one atom", func(seed uint64) *Sample {
			return copied(1000, 1, 1, seed, func(*rand.Rand) float64 { return 0.5 }, uniform01)
		}, false},
		{"one label", func(seed uint64) *Sample {
			return copied(1000, 1, 1, seed, rounded(50), func(float64) float64 { return 0 })
		}, false},
	} {
		for seed := range uint64(30) {
			if got := LooksCopied(c.s(seed)); got != c.copied {
				t.Errorf("%s, seed %d: %v", c.what, seed, got)
				break
			}
		}
	}
	if LooksCopied(&Sample{}) {
		t.Error("no rows")
	}
}

// The function 'disagreements' returns the same two sums as a direct computation over all pairs of rows.
func TestDisagreements(t *testing.T) {
	s := copied(120, 3, 2, 4, func(r *rand.Rand) float64 { return math.Round(20*r.Float64()) / 20 }, uniform01)
	scores, labels := unpackAll(s)
	// the share with different labels, among the pairs of a row with score a and a row with score b
	share := func(a, b float64) float64 {
		differ, pairs := 0.0, 0.0
		for i := range scores {
			for j := range scores {
				if i != j && scores[i] == a && scores[j] == b {
					pairs++
					differ += math.Abs(labels[i] - labels[j])
				}
			}
		}
		return differ / pairs
	}
	var within, across float64
	before := math.NaN()
	for i, x := range scores {
		if i > 0 && scores[i-1] == x || occurrences(scores, x) < 2 {
			continue
		}
		within += share(x, x)
		if !math.IsNaN(before) {
			across += share(before, x)
		}
		before = x
	}
	gotWithin, gotAcross := s.disagreements()
	same(t, "within", gotWithin, within, 1e-12)
	same(t, "across", gotAcross, across, 1e-12)
	// There are 25 sets of equal scores. The labels of a set are equal, and the label alternates from set to set. A
	// calibration function of total variation 24 explains these labels, so they are no proof of copies.
	var x, y []float64
	for k := range 25 {
		for range 4 {
			x, y = append(x, float64(k)/25), append(y, float64(k%2))
		}
	}
	if LooksCopied(must(NewSample(x, y))) {
		t.Error("alternating labels look copied")
	}
}
