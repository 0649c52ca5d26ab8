package conformal

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/decimal"
)

// A Point is one calibration example: the scores of its true class at Design.M noisy copies.
type Point struct {
	Scores []float64
	Label  int
	Group  string // the example's group; used only with the guarantee Group
}

// A Calibrator collects the scores of the calibration examples. The result does not depend on their order.
type Calibrator struct {
	design *Design
	points []Point
}

// Calibrator returns an empty Calibrator.
func (d *Design) Calibrator() *Calibrator { return &Calibrator{design: d} }

// Add adds an example. The Calibrator does not keep the slice p.Scores. A score that is not a number counts as −∞.
func (c *Calibrator) Add(p Point) error {
	switch d := c.design; {
	case int64(len(p.Scores)) != d.M:
		return fmt.Errorf("%d scores of an example: want %d, one for each draw", len(p.Scores), d.M)
	case p.Label < 0:
		return fmt.Errorf("label %d: must be 0 or more", p.Label)
	}
	sorted := make([]float64, len(p.Scores))
	for i, s := range p.Scores {
		sorted[i] = number(s)
	}
	slices.SortFunc(sorted, func(a, b float64) int { return cmp.Compare(b, a) })
	if t := c.design.T; t > 0 {
		sorted = []float64{sorted[t-1]} // t or more scores reach τ if and only if sorted[t-1] ≥ τ
	}
	p.Scores = sorted
	c.points = append(c.points, p)
	return nil
}

// Predictor computes the thresholds. The argument 'labels' is the number of classes.
func (c *Calibrator) Predictor(labels int) (*Predictor, error) {
	if labels < 1 {
		return nil, fmt.Errorf("%d classes: want 1 or more", labels)
	}
	p := &Predictor{Design: *c.design, Labels: labels, N: int64(len(c.points))}
	for _, point := range c.points {
		if point.Label >= labels {
			return nil, fmt.Errorf("label %d: want less than %d, the number of classes", point.Label, labels)
		}
	}
	points := c.points
	if p.Rule == BinCP {
		p.T, p.QueryT = p.binCPCounts(p.N)
		points = nth(points, p.T)
	}
	t, err := p.newThresholds()
	if err != nil {
		return nil, err
	}
	for _, part := range p.parts(points) {
		part.K, part.Tau = t.threshold(part.points)
		part.N = int64(len(part.points))
		p.Cells = append(p.Cells, part.Cell)
	}
	p.Statement = p.Claim()
	return p, nil
}

// The function 'nth' returns copies of the points, each with only its t-th largest score, or with −∞ if t exceeds the
// number of scores.
func nth(points []Point, t int64) []Point {
	points = slices.Clone(points)
	for i, p := range points {
		if t > int64(len(p.Scores)) {
			points[i].Scores = []float64{math.Inf(-1)}
		} else {
			points[i].Scores = p.Scores[t-1 : t]
		}
	}
	return points
}

// A part holds the calibration examples of a Cell.
type part struct {
	Cell
	points []Point
}

// The method 'parts' splits the examples as the guarantee requires: into one part for each label, into one part for
// each group, or into a single part.
func (p *Predictor) parts(points []Point) []part {
	switch p.Guarantee {
	case Label:
		parts := make([]part, p.Labels)
		for y := range parts {
			parts[y].Label = &y
		}
		for _, q := range points {
			parts[q.Label].points = append(parts[q.Label].points, q)
		}
		return parts
	case Group:
		groups := map[string][]Point{}
		for _, q := range points {
			groups[q.Group] = append(groups[q.Group], q)
		}
		var parts []part
		for _, name := range slices.Sorted(maps.Keys(groups)) {
			parts = append(parts, part{Cell{Group: name}, groups[name]})
		}
		return parts
	}
	return []part{{points: points}}
}

// The type 'thresholds' computes the threshold τ̂ for a part of the calibration examples.
type thresholds struct {
	*Design
	credits polynomial // w(0), …, w(m); nil if the Design has no weights
	// miss is a·(1−Nη) and delta is δ·(1−Nη) (see FiniteWords); for BinCP, Spent is subtracted from miss
	miss, delta *big.Rat
}

func (p *Predictor) newThresholds() (*thresholds, error) {
	t := &thresholds{Design: &p.Design}
	t.miss, t.delta = p.level(p.N)
	if p.Rule == BinCP {
		t.miss.Sub(t.miss, decimal.Of(p.Spent))
	}
	if len(p.Weights) == 0 {
		return t, nil
	}
	b, err := p.polynomial()
	if err != nil {
		return nil, err
	}
	if t.credits = b.elevated(p.M); t.credits[0] < -leastWeight*unitWeight {
		return nil, errors.New("weights are below the limit")
	}
	return t, nil
}

// threshold returns the threshold τ̂. It also returns the rank of τ̂ among the numbers S_i (see the method 'rank'), or
// 0 if τ̂ has no rank.
func (t *thresholds) threshold(points []Point) (rank int64, tau Hex) {
	if t.credits != nil {
		return t.weighted(points)
	}
	rank = t.rank(int64(len(points))) - t.lost()
	if rank < 1 {
		return 0, Hex(math.Inf(-1))
	}
	return rank, Hex(ranked(points, rank))
}

// The function 'ranked' takes the first score of each point, and returns the score with the given rank. The smallest
// score has rank 1.
func ranked(points []Point, rank int64) float64 {
	s := make([]float64, len(points))
	for i, p := range points {
		s[i] = p.Scores[0]
	}
	slices.Sort(s)
	return s[rank-1]
}

// rank returns the rank k of τ̂ for n examples. Let S_i be the t-th largest score of example i. For w = 1{N ≥ t}, the
// condition of the theorem in the package comment says that at most (n+1)a − 1 of the S_i are below τ. So k = ⌊(n+1)a⌋.
func (t *thresholds) rank(n int64) int64 {
	if t.Guarantee == Training {
		return t.trainingRank(n)
	}
	k := new(big.Rat).Mul(t.miss, new(big.Rat).SetInt64(n+1))
	if k.Sign() <= 0 {
		return 0
	}
	return min(n, new(big.Int).Quo(k.Num(), k.Denom()).Int64())
}

// trainingRank returns the largest k with P(Bin(n, a) ≤ k−1) ≤ δ (Vovk 2012, Proposition 2a). Given the examples, the
// probability that S_{n+1} < S_(k) is stochastically at most a Beta(k, n+1−k) variable. So this probability
// exceeds the level a with probability at most P(Bin(n, a) ≤ k−1). This bound is valid only for independent and
// identically distributed examples.
func (t *thresholds) trainingRank(n int64) int64 {
	q, exact := new(big.Rat).Sub(big.NewRat(1, 1), t.miss).Float64()
	if !exact {
		q = math.Min(1, up(q))
	}
	delta, _ := t.delta.Float64()
	delta = down(delta)
	low, high := int64(0), n
	for low < high {
		k := low + (high-low+1)/2
		if binomial.Tail(n, n-k+1, q).Upper <= delta { // P(Bin(n, a) ≤ k−1) = P(Bin(n, 1−a) ≥ n−k+1)
			low = k
		} else {
			high = k - 1
		}
	}
	return low
}

// The method 'weighted' returns τ̂ for a Design with weights. When τ falls to a score of an example, the count of the
// example rises by 1. So the sum of the theorem falls by the difference of two neighbouring weights. The sum and its
// limit are integers in units of 2⁻³².
//
// An adversary who replaces an example can lower the loss of this example by at most w(m) − w(0). So for each example
// that may have been replaced, the method adds this number to the sum. With one threshold per class, the added number
// also covers replaced labels.
//
// If the rank is k, then τ̂ is the k-th smallest score. The method returns the rank only for m = m′ = 1. In this case
// the rank does not depend on the data. The set of a query lacks the true class if and only if the class's score is
// below τ̂.
func (t *thresholds) weighted(points []Point) (rank int64, tau Hex) {
	w, n := t.credits, int64(len(points))
	limit := new(big.Rat).Mul(t.miss, new(big.Rat).SetInt64(n+1))
	limit.Mul(limit, new(big.Rat).SetInt64(unitWeight))
	budget := new(big.Int).Div(limit.Num(), limit.Denom())

	m := len(w) - 1
	sum := new(big.Int).Mul(big.NewInt(n+1), big.NewInt(unitWeight-w[0]))
	sum.Add(sum, new(big.Int).Mul(big.NewInt(int64(t.Poisoned)), big.NewInt(w[m]-w[0])))
	if t.OwnRange { // the level is a − 2/(n+1), so the limit (n+1)·level falls by 2; here the sum rises by 2 instead
		sum.Add(sum, big.NewInt(RangeRanks*unitWeight))
	}
	need := sum.Sub(sum, budget) // the differences of weights (gains) must sum to at least this number

	type gain struct {
		score float64
		units int64
	}
	var gains []gain
	for _, p := range points {
		for j, s := range p.Scores {
			if d := w[j+1] - w[j]; d > 0 {
				gains = append(gains, gain{s, d})
			}
		}
	}
	slices.SortFunc(gains, func(a, b gain) int { return cmp.Compare(b.score, a.score) })
	var total, step big.Int
	for i, g := range gains {
		total.Add(&total, step.SetInt64(g.units))
		if total.Cmp(need) >= 0 {
			if m == 1 && t.QueryM == 1 && !math.IsInf(g.score, -1) {
				rank = n - int64(i)
			}
			return rank, Hex(g.score)
		}
	}
	return 0, Hex(math.Inf(-1))
}
