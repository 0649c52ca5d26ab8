package certify

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/combin"
	"gonum.org/v1/gonum/stat/distuv"
)

// The counts of a subsample have the multivariate hypergeometric distribution. A χ² test compares the frequencies of
// all possible counts with this distribution. The test takes subsamples of sizes below and above half of the votes. One
// class is "no answer".
func TestSubsampleDistribution(t *testing.T) {
	v := Votes{Index: 3, Label: 0, N: 12, Counts: []int64{6, 0, 4}, None: 2}
	const turns = 20_000
	for _, n := range []int64{1, 4, 6, 9, 11} {
		seen := map[[3]int64]int{}
		for turn := range turns {
			s, err := v.Subsample(n, 17, turn)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(); err != nil || s.N != n || s.Counts[1] != 0 {
				t.Fatalf("%+v (%v)", s, err)
			}
			seen[[3]int64{s.Counts[0], s.Counts[2], s.None}]++
		}
		var chi, sum float64
		cells := 0
		for a := int64(0); a <= min(n, 6); a++ {
			for b := int64(0); b <= min(n-a, 4); b++ {
				c := n - a - b
				if c > 2 {
					continue
				}
				p := float64(combin.Binomial(6, int(a))*combin.Binomial(4, int(b))*combin.Binomial(2, int(c))) / float64(combin.Binomial(12, int(n)))
				sum += p
				d := float64(seen[[3]int64{a, b, c}]) - turns*p
				chi += d * d / (turns * p)
				cells++
			}
		}
		if math.Abs(sum-1) > 1e-12 || len(seen) > cells {
			t.Fatalf("n = %d: probabilities sum to %v, %d of %d cells seen", n, sum, len(seen), cells)
		}
		if p := (distuv.ChiSquared{K: float64(cells - 1)}).Survival(chi); p < 1e-4 {
			t.Errorf("n = %d: χ² = %v with %d cells, p = %v", n, chi, cells, p)
		}
	}
}

// Equal arguments give equal subsamples. Another seed, turn, size or index gives another subsample.
func TestSubsampleDependsOn(t *testing.T) {
	v := Votes{Index: 1, Label: 2, N0: 3, Counts0: []int64{0, 0, 3}, N: 3000, Counts: []int64{1000, 1000, 1000}, Quantisation: 0.1}
	draw := func(v Votes, n int64, seed uint64, turn int) Votes {
		t.Helper()
		before := slices.Clone(v.Counts)
		s, err := v.Subsample(n, seed, turn)
		if err != nil || !slices.Equal(v.Counts, before) {
			t.Fatalf("%v; counts are now %v", err, v.Counts)
		}
		return s
	}
	first := draw(v, 1000, 5, 0)
	if !reflect.DeepEqual(first, draw(v, 1000, 5, 0)) {
		t.Error("a repeated subsample differs")
	}
	if want := (Votes{Index: 1, Label: 2, N0: 3, Counts0: v.Counts0, N: 1000, Counts: first.Counts, Quantisation: 0.1}); !reflect.DeepEqual(first, want) {
		t.Errorf("%+v, want %+v", first, want)
	}
	next := v
	next.Index = 2
	for name, other := range map[string]Votes{"seed": draw(v, 1000, 6, 0), "turn": draw(v, 1000, 5, 1), "index": draw(next, 1000, 5, 0)} {
		if slices.Equal(first.Counts, other.Counts) {
			t.Errorf("another %s gives the same subsample %v", name, first.Counts)
		}
	}
	if whole := draw(v, 3000, 5, 0); !reflect.DeepEqual(whole, v) {
		t.Errorf("all votes: %+v", whole)
	}
}

func TestSubsampleRefuses(t *testing.T) {
	v := Votes{N: 10, Counts: []int64{4, 6}}
	stopped, fixed := v, v
	stopped.Stop, stopped.AlphaShare = StopRule{stopAtRadius, 0.5}, 0.5
	fixed.Deterministic = true
	if _, err := stopped.Subsample(5, 1, 0); !errors.Is(err, ErrStopped) {
		t.Errorf("stopped votes: %v", err)
	}
	for _, c := range []struct {
		v Votes
		n int64
	}{{v, 0}, {v, 11}, {v, -1}, {fixed, 5}} {
		if s, err := c.v.Subsample(c.n, 1, 0); err == nil {
			t.Errorf("%d votes of %+v: %+v", c.n, c.v, s)
		}
	}
}
