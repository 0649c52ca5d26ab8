package conformal

import (
	"container/heap"
	"math"
	"math/big"

	"github.com/rscert/rscert/internal/binomial"
)

// unitWeight is the integer that stands for the weight 1. Weights are integer multiples of 2⁻³², so sums of weights are
// exact.
const unitWeight = 1 << 32

// A polynomial is B_w(p) = Σ_k w(k)·P(Bin(d, p) = k). Its element k is the weight w(k) in units of 2⁻³². The weights
// are nondecreasing and at most 1.
type polynomial []int64

// newPolynomial rounds weights down to multiples of 2⁻³². Where the weights decrease, it lowers earlier weights so that
// the result is nondecreasing.
func newPolynomial(weights []float64) polynomial {
	b := make(polynomial, len(weights))
	ceiling := int64(unitWeight)
	for k := len(weights) - 1; k >= 0; k-- {
		ceiling = min(ceiling, int64(math.Floor(weights[k]*unitWeight)))
		b[k] = ceiling
	}
	return b
}

func (b polynomial) degree() int { return len(b) - 1 }

// weights returns w(0), …, w(d). The conversion is exact.
func (b polynomial) weights() []float64 {
	w := make([]float64, len(b))
	for k, u := range b {
		w[k] = float64(u) / unitWeight
	}
	return w
}

// The method 'lowered' returns the polynomial minus a slack of units/2³².
func (b polynomial) lowered(units int64) polynomial {
	c := make(polynomial, len(b))
	for k, u := range b {
		c[k] = u - units
	}
	return c
}

// The method 'high' returns an upper bound on B_w(p), by de Casteljau's algorithm. A step computes (1−p)x + py from
// numbers x and y. Both have absolute values of at most W, the largest |w(k)|. The step rounds 1−p, two products and a
// sum, so it adds an error of at most 4W·unit. Later steps do not magnify an error, because they take means.
func (b polynomial) high(p float64, scratch []float64) float64 {
	x := scratch[:len(b)]
	for k, u := range b {
		x[k] = float64(u)
	}
	q := 1 - p
	for d := len(x) - 1; d > 0; d-- {
		for k := range d {
			x[k] = q*x[k] + p*x[k+1]
		}
	}
	most := math.Max(math.Abs(float64(b[0])), math.Abs(float64(b[len(b)-1])))
	return (x[0] + 5*float64(len(b))*unit*most) / unitWeight
}

// mean returns ∫B_w dπ for π = (1−2c)δ₁ + 2c·Unif (see the type 'population').
func (b polynomial) mean(c float64) float64 {
	sum := 0.0
	for _, u := range b {
		sum += float64(u)
	}
	return ((1-2*c)*float64(b[b.degree()]) + 2*c*sum/float64(len(b))) / unitWeight
}

// The method 'elevated' represents the same polynomial with the degree m ≥ d. It returns the new weights, rounded down:
//
//	w_m(N) = Σ_k w_d(k)·C(N,k)·C(m−N,d−k)/C(m,d),
//
// the mean of w_d over a hypergeometric distribution. All numbers are integers, so each weight is rounded once.
func (b polynomial) elevated(m int64) polynomial {
	d := int64(b.degree())
	if m == d {
		return b
	}
	var all, sum, term, c big.Int
	all.Binomial(m, d)
	e := make(polynomial, m+1)
	for n := range m + 1 {
		sum.SetInt64(0)
		for k := max(0, d-(m-n)); k <= min(d, n); k++ {
			term.Binomial(n, k)
			term.Mul(&term, c.Binomial(m-n, d-k))
			sum.Add(&sum, term.Mul(&term, c.SetInt64(b[k])))
		}
		e[n] = sum.Div(&sum, &all).Int64() // Div rounds down, because the divisor is positive
	}
	return e
}

// excess returns an upper bound on B_w − (H∘g)^Q over all p in [0, 1]. Apart from rounding, the bound exceeds the
// maximum of B_w − (H∘g)^Q by at most the tolerance. If the search halves maxSearch cells before it reaches this
// accuracy, the bound may be larger.
func (b polynomial) excess(g target, tolerance float64) float64 {
	return b.search(g, func(bound, seen float64) bool { return bound <= seen+tolerance })
}

// The method 'valid' reports whether B_w ≤ (H∘g)^Q is proved.
func (b polynomial) valid(g target) bool {
	return b.trivial(g) || b.search(g, func(bound, seen float64) bool { return bound <= 0 || seen > 0 }) <= 0
}

// The method 'trivial' reports whether four conditions hold: there is no attack, Q = 1, the degree is m′, and w(k) ≤
// 1{k ≥ t′} for every k. Let v be the weights v(k) = 1{k ≥ t′}. Then B_v = H and w ≤ v, so B_w ≤ H. A search could not
// prove B_w ≤ H if both sides are equal.
func (b polynomial) trivial(g target) bool {
	if g.shift != 0 || g.queries != 1 || int64(b.degree()) != g.draws {
		return false
	}
	for k, u := range b {
		if int64(k) < g.need && u > 0 || u > unitWeight {
			return false
		}
	}
	return true
}

// maxSearch is the maximum number of cells that one search halves.
const maxSearch = 1 << 19

// search returns an upper bound on B_w − (H∘g)^Q over all p in [0, 1]. The search divides the values z, where p = F(z),
// into cells [l, r]. Both terms of the difference increase with p. So on a cell, the difference is at most B_w(F(r)) −
// (H∘g)^Q(F(l)). Each step of the search halves the cell with the largest such bound. The function 'stop' receives this
// bound, and the largest difference that the search has found at a point so far. The search ends when 'stop' returns
// true. The outermost cells are unbounded.
func (b polynomial) search(g target, stop func(bound, seen float64) bool) float64 {
	s := search{polynomial: b, target: g, seen: math.Inf(-1), scratch: make([]float64, len(b))}
	const width = 1.0 / 16
	edge := math.Inf(-1)
	for z := -12.0; z <= 12+g.shift; z += width {
		s.add(edge, z)
		edge = z
	}
	s.add(edge, math.Inf(1))
	for work := 0; ; work++ {
		c := heap.Pop(&s.cells).(cell)
		mid := c.l + (c.r-c.l)/2
		if stop(c.bound, s.seen) || !(c.l < mid && mid < c.r) || work == maxSearch {
			return c.bound
		}
		s.add(c.l, mid)
		s.add(mid, c.r)
	}
}

// A cell is an interval [l, r] of z, together with an upper bound on B_w − (H∘g)^Q in this interval.
type cell struct{ l, r, bound float64 }

// A search holds the state of one call of the method polynomial.search.
type search struct {
	polynomial
	target
	seen    float64 // largest difference found at a point: a lower bound on the maximum, apart from rounding
	scratch []float64
	cells   cells
}

// add adds a cell, and evaluates the difference at the cell's right end.
func (s *search) add(l, r float64) {
	value := s.polynomial.high(s.target.high(r), s.scratch)
	heap.Push(&s.cells, cell{l, r, up(value - s.floor(l))})
	s.seen = math.Max(s.seen, value-s.floor(r))
}

// The type 'cells' is a heap with the largest bound first.
type cells []cell

func (c cells) Len() int           { return len(c) }
func (c cells) Less(i, j int) bool { return c[i].bound > c[j].bound }
func (c cells) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *cells) Push(x any)        { *c = append(*c, x.(cell)) }
func (c *cells) Pop() any {
	last := len(*c) - 1
	x := (*c)[last]
	*c = (*c)[:last]
	return x
}

// value approximates (H∘g)^Q(F(z)).
func (g target) value(z float64) float64 {
	p, _ := g.law.CDF(z - g.shift)
	return math.Pow(binomial.Tail(g.draws, g.need, math.Min(p, 1)).Upper, float64(g.queries))
}
