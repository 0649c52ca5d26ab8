package conformal

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A query may stop as soon as all classes are decided. Its set must then equal the set after all m′ draws.
func TestDecideIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	saved := 0
	for range 300 {
		m := 1 + r.Int64N(30)
		p := &Predictor{Design: Design{QueryM: m, QueryT: 1 + r.Int64N(m)}, Labels: 4}
		counts := make([]int64, 4)
		var early []int
		stopped := false
		for drawn := int64(1); drawn <= m; drawn++ {
			for y := range counts {
				if r.Float64() < 0.1+0.25*float64(y) {
					counts[y]++
				}
			}
			verdicts, decided := p.Decide(nil, counts, drawn)
			if decided == slices.Contains(verdicts, Undecided) {
				t.Fatalf("decided %v with %v", decided, verdicts)
			}
			set, err := p.Set(counts, drawn)
			if (err == nil) != decided {
				t.Fatalf("decided %v, but Set returns %v", decided, err)
			}
			if decided && !stopped {
				early, stopped = set, true
				saved += int(m - drawn)
			}
		}
		want := []int{}
		for y, n := range counts {
			if n >= p.QueryT {
				want = append(want, y)
			}
		}
		if !stopped || !slices.Equal(early, want) {
			t.Fatalf("set %v, want %v", early, want)
		}
	}
	if saved < 500 {
		t.Errorf("stopping saved %d draws", saved)
	}
}

func TestSetRefusesOtherCounts(t *testing.T) {
	p := &Predictor{Design: Design{QueryM: 3, QueryT: 2}, Labels: 2}
	for _, tt := range []struct {
		counts []int64
		drawn  int64
	}{{[]int64{1}, 3}, {[]int64{1, 3}, 4}, {[]int64{1, 1}, 2}, {[]int64{1, 1}, -1}} {
		if set, err := p.Set(tt.counts, tt.drawn); err == nil {
			t.Errorf("%v after %d draws: set %v", tt.counts, tt.drawn, set)
		}
	}
}

// CountDraw must increment the count of a class if the score is equal to the threshold. It must treat a score that is
// not a number as −∞.
func TestCountDraw(t *testing.T) {
	counts := make([]int64, 5)
	inf := math.Inf(1)
	CountDraw(counts, []float64{0.5, math.Nextafter(0.5, 0), math.NaN(), math.NaN(), -inf}, []float64{0.5, 0.5, 0, -inf, -inf})
	if !slices.Equal(counts, []int64{1, 0, 0, 1, 1}) {
		t.Errorf("counts %v", counts)
	}
}

func TestHex(t *testing.T) {
	for _, x := range []float64{0, -1.5, 0.1, math.Inf(-1), math.SmallestNonzeroFloat64} {
		text, _ := Hex(x).MarshalText()
		var got Hex
		if err := got.UnmarshalText(text); err != nil || float64(got) != x {
			t.Errorf("%v is read back from %s as %v (%v)", x, text, got, err)
		}
	}
	for _, text := range []string{"", "NaN", "x", "+Inf"} {
		if new(Hex).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is read as a threshold", text)
		}
	}
}
