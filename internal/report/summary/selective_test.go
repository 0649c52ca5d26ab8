package summary

import (
	"math"
	"math/big"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// The error among answers at a radius must follow from the numbers of unsafe and of answered examples. An answered
// example must not count as unsafe, even if "right or silent" is not certified for it.
func TestSelectiveAt(t *testing.T) {
	s := Summary{
		Examples: 6, Selected: 6, Dataset: &Statement{Delta: 0.05, Alpha: 0.001, Examples: 6, Failures: 1},
		selection: &Selection{answered: []float64{1, .5, -1, -1, .7, -1}, safe: []float64{1.2, .4, .3, -1, -1, .5}},
	}
	for _, c := range []struct {
		radius           float64
		unsafe, answered int
		certified        float64
	}{{0, 1, 3, 2. / 4}, {.3, 1, 3, 2. / 4}, {.5, 2, 3, 3. / 5}, {.6, 4, 2, 5. / 6}, {1, 5, 1, 1}, {2, 6, 0, 1}} {
		x, ok := s.SelectiveAt(c.radius)
		if !ok || x.Unsafe != c.unsafe || x.Answered != c.answered || x.Of != 6 || math.Abs(*x.Certified-c.certified) > 1e-12 ||
			x.Rat(0).Cmp(big.NewRat(int64(c.unsafe), int64(c.unsafe+c.answered))) != 0 {
			t.Errorf("radius %v: %+v, %v; want %+v", c.radius, x, *x.Certified, c)
		}
	}
	if got := (Selective{}).Rat(0); got.Sign() != 0 {
		t.Errorf("of no answers, %v are wrong", got)
	}
	if got := (Selective{}).Rat(2); got.Cmp(big.NewRat(1, 1)) != 0 {
		t.Errorf("of no certified answers, %v may be wrong", got)
	}
	s.Selected = 7
	if x, _ := s.SelectiveAt(0); x.Population != nil {
		t.Error("an unfinished run says something about the population")
	}
}

// The bound for the population is u/(u+c). Here u is an upper bound on the share of inputs at which an attack can make
// the answer wrong, and c is a lower bound on the share of inputs whose answer is right under every attack. Both come
// from Clopper–Pearson bounds. They also allow for wrong certificates, which have a probability of at most alpha.
func TestSelectiveInPopulation(t *testing.T) {
	const alpha, delta = 0.001, 0.05
	x := Selective{Unsafe: 20, Answered: 900, Of: 1000}
	u := distuv.Beta{Alpha: 21, Beta: 980}.Quantile(1-delta/2) / (1 - alpha)
	c := (distuv.Beta{Alpha: 900, Beta: 101}.Quantile(delta/2) - alpha) / (1 - alpha)
	if got, want := x.inPopulation(alpha, delta), u/(u+c); math.Abs(got-want) > 1e-8 || got < want {
		t.Errorf("%v, want %v rounded up", got, want)
	}
	if got := (Selective{Unsafe: 3, Of: 1000}).inPopulation(alpha, delta); got != 1 {
		t.Errorf("without an answer: %v, want 1", got)
	}
}

// If some certificates are wrong, the result of Selective.Rat must be at least the share of wrong answers in the worst
// case. In the worst case, each wrong certificate belongs to an example that counts as answered, and this example gets
// a wrong answer.
func TestSelectiveAllowsForFailures(t *testing.T) {
	for wrong := int64(0); wrong <= 3; wrong++ {
		for unsafe := range 5 {
			for answered := range 8 {
				if int64(answered) < wrong {
					continue
				}
				x := Selective{Unsafe: unsafe, Answered: answered, Of: 20}
				// the share of wrong answers in the worst case
				truth := big.NewRat(0, 1)
				if unsafe+answered > 0 {
					truth = big.NewRat(int64(unsafe)+wrong, int64(unsafe+answered))
				}
				if x.Rat(wrong).Cmp(truth) < 0 {
					t.Errorf("%+v with %d failures: %v, the error can be %v", x, wrong, x.Rat(wrong), truth)
				}
			}
		}
	}
}
