package conformal

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/rscert/rscert/internal/binomial"
)

// An Outcome is the prediction set of a query whose true class is known.
type Outcome struct {
	Index int // position in the data, named in errors
	Label int
	Group string
	Set   []int
	Draws int64 // number of draws; fewer than m′ if the query stopped early
}

// An Evaluator computes the coverage, the sizes and other figures of the prediction sets of labelled queries.
type Evaluator struct {
	predictor *Predictor
	alpha     float64
	all       tally
	classes   []tally
	sizes     []tally
	groups    map[string]*tally
	draws     int64
	correct   int64
	size      sizeBound
}

// Evaluator returns an empty Evaluator. Each side of a confidence interval fails with probability at most alpha/2.
func (p *Predictor) Evaluator(alpha float64) *Evaluator {
	return &Evaluator{
		predictor: p, alpha: alpha,
		classes: make([]tally, p.Labels), sizes: make([]tally, p.Labels+1), groups: map[string]*tally{},
	}
}

// Add adds a query.
func (e *Evaluator) Add(o Outcome) error {
	if o.Label < 0 || o.Label >= e.predictor.Labels {
		return fmt.Errorf("query %d: label %d: want 0 to %d", o.Index, o.Label, e.predictor.Labels-1)
	}
	for i, y := range o.Set {
		if y < 0 || y >= e.predictor.Labels || i > 0 && y <= o.Set[i-1] {
			return fmt.Errorf("query %d: set %v: want increasing classes from 0 to %d", o.Index, o.Set, e.predictor.Labels-1)
		}
	}
	covered := slices.Contains(o.Set, o.Label)
	if e.groups[o.Group] == nil {
		e.groups[o.Group] = &tally{}
	}
	for _, t := range []*tally{&e.all, &e.classes[o.Label], &e.sizes[len(o.Set)], e.groups[o.Group]} {
		t.add(covered, len(o.Set))
	}
	if covered && len(o.Set) == 1 {
		e.correct++
	}
	e.draws += o.Draws
	return nil
}

// AddCounts adds a clean query to the computation of the certified size. The query has Design.M scores for each class.
// counts[y] is the number of scores of class y that reach the threshold of this class. The noise must be independent of
// the query's input. The number of draws must not depend on the counts. So do not add the counts of a query that
// stopped early.
func (e *Evaluator) AddCounts(counts []int64) error {
	p := e.predictor
	if len(counts) != p.Labels {
		return fmt.Errorf("%d counts: want %d, one for each class", len(counts), p.Labels)
	}
	for y, n := range counts {
		if n < 0 || n > p.M {
			return fmt.Errorf("class %d has %d of %d draws", y, n, p.M)
		}
	}
	if e.size.weights == nil {
		w, err := p.sizeWeights(p.Labels)
		if err != nil {
			return err
		}
		e.size.weights = w
	}
	e.size.add(counts)
	return nil
}

// A tally counts queries and covered queries, and adds up the sizes of the sets of all these queries.
type tally struct{ n, covered, size int64 }

func (t *tally) add(covered bool, size int) {
	t.n++
	t.size += int64(size)
	if covered {
		t.covered++
	}
}

// Coverage counts queries whose sets contain the true class.
type Coverage struct {
	N        int64   `json:"n"`
	Covered  int64   `json:"covered"`
	Coverage float64 `json:"coverage"`
	Lower    float64 `json:"lower"` // Clopper–Pearson, each side at alpha/2
	Upper    float64 `json:"upper"`
	Alpha    float64 `json:"alpha"`
}

func (t tally) coverage(alpha float64) Coverage {
	return Coverage{
		N: t.n, Covered: t.covered, Coverage: float64(t.covered) / float64(t.n), Alpha: alpha,
		Lower: binomial.LowerBound(t.covered, t.n, alpha/2), Upper: binomial.UpperBound(t.covered, t.n, alpha/2),
	}
}

// Stratum is the coverage of a part of the queries.
type Stratum struct {
	Name     string  `json:"name"` // class, size or group
	MeanSize float64 `json:"mean_size"`
	Coverage
}

func (t tally) stratum(name string, alpha float64) Stratum {
	return Stratum{Name: name, MeanSize: float64(t.size) / float64(t.n), Coverage: t.coverage(alpha)}
}

// strata returns a Stratum for each tally that has queries. The name of the Stratum is the index of the tally.
func strata(tallies []tally, alpha float64) []Stratum {
	list := []Stratum{}
	for i, t := range tallies {
		if t.n > 0 {
			list = append(list, t.stratum(strconv.Itoa(i), alpha))
		}
	}
	return list
}

// Evaluation holds figures of the prediction sets of labelled queries.
type Evaluation struct {
	Coverage
	MeanSize        float64           `json:"mean_size"`
	MeanDraws       float64           `json:"mean_draws"`
	Empty           int64             `json:"empty"`
	Singletons      int64             `json:"singletons"`
	Correct         int64             `json:"correct_singletons"` // number of sets that hold only the true class
	Sizes           []int64           `json:"sizes"`              // sizes[k] is the number of sets of size k
	BySize          []Stratum         `json:"by_size"`
	ByClass         []Stratum         `json:"by_class"`
	ByGroup         []Stratum         `json:"by_group,omitempty"` // for the guarantee Group
	Exchangeability []Exchangeability `json:"exchangeability,omitempty"`
	CertifiedSize   *CertifiedSize    `json:"certified_size,omitempty"`
}

// Evaluation returns the figures of all queries so far. Each interval holds by itself with probability 1 − alpha, if
// the queries are independent. No guarantee holds for the strata in BySize, because these strata depend on the sets
// themselves.
func (e *Evaluator) Evaluation() (*Evaluation, error) {
	switch {
	case e.all.n == 0:
		return nil, errors.New("no sets to evaluate")
	case !(e.alpha >= binomial.MinLevel && e.alpha < 1):
		return nil, fmt.Errorf("alpha %v is outside (0, 1)", e.alpha)
	}
	n := float64(e.all.n)
	v := &Evaluation{
		Coverage: e.all.coverage(e.alpha), MeanSize: float64(e.all.size) / n, MeanDraws: float64(e.draws) / n,
		Empty: e.sizes[0].n, Singletons: e.sizes[1].n, Correct: e.correct,
		BySize: strata(e.sizes, e.alpha), ByClass: strata(e.classes, e.alpha),
		Exchangeability: e.exchangeability(), CertifiedSize: e.size.certified(e.alpha),
	}
	for _, t := range e.sizes {
		v.Sizes = append(v.Sizes, t.n)
	}
	if e.predictor.Guarantee == Group {
		for _, name := range e.groupNames() {
			v.ByGroup = append(v.ByGroup, e.groups[name].stratum(name, e.alpha))
		}
	}
	return v, nil
}

func (e *Evaluator) groupNames() []string {
	names := make([]string, 0, len(e.groups))
	for name := range e.groups {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// A sizeBound sums upper bounds on the sizes of sets under attack.
type sizeBound struct {
	weights        []float64 // W(0), …, W(m); nil before the first query
	n              int64
	sum, sumSquare float64
	// the largest possible sum of weights for a query: the sum if every class has the weight W(m)
	most float64
}

func (s *sizeBound) add(counts []int64) {
	total := 0.0
	for _, n := range counts {
		total += s.weights[n]
	}
	s.n++
	s.sum += total
	s.sumSquare += total * total
	s.most = float64(len(counts)) * s.weights[len(s.weights)-1]
}

// CertifiedSize bounds the mean size of sets under the worst attack within the radius (certified_size.go).
type CertifiedSize struct {
	N int64 `json:"n"` // queries
	// mean of ΣW(N_y) over the queries; the expectation of Mean is an upper bound on the mean size of sets under attack
	Mean  float64 `json:"mean"`
	Upper float64 `json:"upper"` // upper confidence bound on the expectation of Mean, for independent queries
	Alpha float64 `json:"alpha"` // failure probability of Upper
}

// The method 'certified' returns the certified size, or nil if there are no queries. Upper is the empirical Bernstein
// bound of Maurer and Pontil 2009, Theorem 4, for variables in [0, most]:
//
//	mean + √(2V·ln(2/α)/n) + 7·most·ln(2/α)/(3(n−1)),  V the sample variance.
func (s *sizeBound) certified(alpha float64) *CertifiedSize {
	if s.n == 0 {
		return nil
	}
	n := float64(s.n)
	c := &CertifiedSize{N: s.n, Mean: s.sum / n, Upper: s.most, Alpha: alpha}
	if s.n > 1 {
		variance := math.Max(0, s.sumSquare-s.sum*s.sum/n) / (n - 1)
		log := math.Log(2 / alpha)
		c.Upper = math.Min(s.most, c.Mean+math.Sqrt(2*variance*log/n)+7*s.most*log/(3*(n-1)))
	}
	return c
}
