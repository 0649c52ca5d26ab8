package certify

import (
	"math"

	"github.com/rscert/rscert/internal/binomial"
)

// exactMargin is the exact margin search: Buehler's optimal lower bound for outcomes ordered by their bonferroni margin
// T,
//
//	sup{ L : P_q(T ≥ T(x)) ≤ α for all q with g(q) ≤ L }.
//
// Here x is the observed outcome, q is a distribution of the outcomes, and g(q) is its margin.
//
// Moutaouakil 2024 §4 poses this problem as a signomial program over (q1, q2, q3), the probabilities of the class, the
// true runner-up and the rest. A search over one dimension is enough. Moving mass from q3 to q1, from q2 to q1 or from
// q2 to q3 never lowers P_q(T ≥ T(x)). So the worst q lie on the frontier g(q) = L. The true runner-up is unknown, so
// the method uses the largest count of any other class. This count is at least the count of the true runner-up, and a
// larger count never raises the bound.
//
// Among all lower bounds that are nondecreasing in T, Buehler's bound is the largest (Buehler 1957). So it is not below
// the bonferroni margin. The method returns the larger of two numbers: the margin that the search proves, and the
// rounded bonferroni margin. Both numbers are at most the exact bound, so the result is a 1−α bound. (The larger of two
// arbitrary 1−α bounds need not be a 1−α bound.)
//
// With two classes, the method orders outcomes by x1 alone, and the bound is the Clopper–Pearson bound at level 1−α.
// This bound needs only p_B ≤ 1−p_A, which also holds if some samples vote for no class. With more than mostOthers
// votes for other classes the method returns the bonferroni margin.
func (c *VoteCertifier) exactMargin(o observation) marginBound {
	if o.two {
		return c.clopperPearson(o)
	}
	b := c.bonferroni(o)
	if o.beaten() {
		// The rival has at least t times as many votes as the class. So some distribution with the margin 0 (q1 = q2 =
		// ½ if t = 1) makes the event T ≥ T(x) likely. No margin above 0 can be certified.
		b.margin = math.Min(b.margin, 0)
		return b
	}
	if o.n-o.a > mostOthers {
		return b
	}
	s := c.newSearch(o)
	b.margin = math.Max(b.margin, s.margin(b.margin))
	return b
}

// mostOthers is the largest number of votes for other classes that the search accepts. The time of the search grows
// linearly with these votes and reaches 10 s or more at mostOthers.
const mostOthers = 1 << 19

// The method 'order' returns the order of outcomes for the ranking r. The first call with r builds the order with the
// function 'make'. Later calls with r return the same order.
func (c *VoteCertifier) order(r ranking, make func() *order) *order {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.orders[r]
	if o == nil {
		o = make()
		c.orders[r] = o
	}
	return o
}

// A frontier is the set of all distributions q with g(q) = margin, where margin > 0. This set is the curve q1 =
// F(margin + Q(q2)). A contest is the comparison that proves a claim. If the factor t of the contest is not 1, the set
// is another curve: the frontier in the comment on the type 'ranks'. The curve's parameter y = √q2 rises from 0; the
// curve ends where q3 = 0. On the frontier, q1 is a concave function of q2.
type frontier struct {
	scale  scale
	margin float64
}

// lift is a factor that raises q1 by more than the rounding errors of q1. These errors come from F and from the
// rounding of its argument z. They grow with |z|. If F is Φ, |z| is below 40. The factor is safe, because a larger q1
// never lowers P_q(event).
const lift = 1 + 0x1p-40

func (f frontier) end() (q1, q2 float64) { return f.scale.end(f.margin) }

func (f frontier) point(y float64) (q1, q2, slope float64) { return f.scale.point(f.margin, y) }

func (f frontier) reach(q1 float64) float64 { return f.scale.reach(f.margin, q1) }

// A node is a distribution (q1, q2, q3), with an upper bound on the logarithm of the probability of the search's event
// (see the type 'event').
type node struct {
	q    [3]float64
	logP float64
}

// A search finds the margin of one observation.
type search struct {
	event    *event
	scale    scale
	alpha    float64
	logAlpha float64
}

func newSearch(e *event, scale scale, alpha float64) search {
	return search{event: e, scale: scale, alpha: alpha, logAlpha: math.Log(alpha)}
}

// logP returns an upper bound on ln P_q(event). It returns the bound of the method 'crude' if this bound is far below
// ln α. In this case the exact sums would take the most time, and the crude bound is accurate enough.
func (s *search) logP(q1, q2 float64) float64 {
	if crude := s.event.crude(q1, q2); crude < s.logAlpha-6 {
		return crude
	}
	return math.Log(s.event.probability(q1, q2))
}

func (s *search) node(q1, q2 float64) node {
	return node{[3]float64{q1, q2, 1 - q1 - q2}, s.logP(q1, q2)}
}

// The method 'crude' returns an upper bound on ln P_q(event) from a few binomial tails: P(X1 ≥ t(X2)) ≤ P(X2 ≤ k) +
// P(X1 ≥ t(k+1)) for any k, where t is the step function of the event.
func (e *event) crude(q1, q2 float64) float64 {
	n := float64(e.order.n)
	mean, sd := n*q2, math.Sqrt(n*q2*(1-q2))
	mean1, sd1 := n*q1, math.Sqrt(n*math.Max(0, q1*(1-q1)))
	best := 1.0
	lo, hi := 0.0, 12.0
	for range 4 {
		a := (lo + hi) / 2
		k := int64(math.Floor(mean - a*sd))
		if k < -1 {
			k = -1
		}
		t := e.threshold(min(k+1, e.order.n), int64(mean1+a*sd1))
		p1 := binomial.Tail(e.order.n, t, math.Min(q1, 1)).Upper
		p2 := 0.0
		if k >= 0 {
			p2 = e.lowerTail(k, q2)
		}
		best = math.Min(best, p1+p2)
		if p2 > p1 {
			lo = a
		} else {
			hi = a
		}
	}
	return math.Log(best)
}

// margin returns a proved lower bound on the margin, or a number ≤ 0 if it finds no proved bound above 0. The search
// starts at the argument 'floor', which is the bonferroni margin.
func (s *search) margin(floor float64) float64 {
	// The constant 'leave' is the relative gap that the search keeps between the worst probability and α. Without a gap
	// the proof would take too long. The gap lowers the margin by about 1e-5/3 of the standard deviation of the
	// observed margin.
	const leave = 1e-5
	L := math.Max(floor, leastMargin)
	at := 0.0
	for range 8 {
		var slope float64
		L, slope = s.locate(L, at)
		if !(L > leastMargin) {
			return 0
		}
		for drop := leave; drop < 1e-3; drop *= 8 {
			under := L - drop/slope
			bad := s.prove(frontier{s.scale, under})
			if bad < 0 {
				return under
			}
			at = bad
		}
		// The proof failed near the point of the frontier with y = at. The next call of 'locate' also tries this point.
	}
	return 0
}

// leastMargin is a limit for the estimated margin. If the estimate is not above this limit, the search gives up.
const leastMargin = 1e-6

// Let P(L) be the largest probability of the event on the frontier of the margin L. The method 'locate' estimates the
// root of P(L) = α and the derivative d ln P/dL at the root. The estimates have no guarantee. The argument L is the
// start of the search. If the argument 'at' is not 0, the search also tries the point whose y is 'at'.
func (s *search) locate(L, at float64) (margin, slope float64) {
	u := 0.0 // y of the point where the event is most probable, as a fraction of f.last()
	width := 0.0
	checked := false
	for range 40 {
		f := frontier{s.scale, L}
		if u == 0 {
			u, width = s.scan(f, at)
		}
		var v float64
		u, v, width = s.climb(f, u, width)
		sd := s.marginSD(f, u)
		h := 1e-3 * sd
		slope = (s.value(frontier{s.scale, L + h}, u) - v) / h
		if !(slope > 0) {
			slope = 1 / sd
		}
		move := min((s.logAlpha-v)/slope, 20*sd, (s.scale.widest()-L)/2)
		if L+move <= leastMargin {
			if L <= leastMargin {
				return 0, slope
			}
			move = leastMargin - L
		}
		L += move
		if math.Abs(move)*slope > 1e-7 {
			continue
		}
		// L has converged. If 'checked' is true, a second scan of the grid has already looked for a larger probability.
		if checked {
			return L, slope
		}
		f.margin = L
		again, around := s.scan(f, at)
		if s.value(f, again) <= s.value(f, u) {
			return L, slope
		}
		u, width, checked = again, around, true
	}
	return L, slope
}

// value returns an upper bound on ln P_q(event), where q is the point of the frontier f with y = u·f.last().
func (s *search) value(f frontier, u float64) float64 {
	q1, q2, _ := f.point(u * f.last())
	return s.logP(q1, q2)
}

// The method 'last' returns a number slightly below the largest y of the frontier.
func (f frontier) last() float64 {
	_, q2 := f.end()
	return math.Sqrt(q2) * (1 - 0x1p-30)
}

// grid holds the values of u that a scan tries. They are evenly spaced in y. The reason is that √(x2/n), an estimate of
// y, has nearly the same standard deviation for every y. Some extra values lie near 0.
var grid = func() (u []float64) {
	for v := 1e-8; v < 0.02; v *= 10 {
		u = append(u, v)
	}
	const cells = 32
	for i := 1; i <= cells; i++ {
		u = append(u, float64(i)/cells)
	}
	return u
}()

// The method 'scan' tries the points of the grid. If the argument 'at' is not 0, it also tries the point of f with the
// parameter y = at (see frontier). It returns the u whose point of f has the largest probability P. The result 'width'
// is an argument for the method 'climb': it says how far from u to search.
func (s *search) scan(f frontier, at float64) (u, width float64) {
	best := math.Inf(-1)
	for i, x := range grid {
		if v := s.value(f, x); v > best {
			best, u, width = v, x, grid[min(i+1, len(grid)-1)]-grid[max(i-1, 0)]
		}
	}
	if x := math.Min(1, at/f.last()); x > 0 && s.value(f, x) > best {
		return x, math.Min(x, grid[len(grid)-1]-grid[len(grid)-2])
	}
	return u, width
}

// climb finds a local maximum x of the probability on f by golden section, at a distance of at most 'width' from u. The
// result v is the logarithm of the probability at x. The result 'next' is the search width to use after a small change
// of f.
func (s *search) climb(f frontier, u, width float64) (x, v, next float64) {
	lo, hi := math.Max(u-width, 1e-9), math.Min(u+width, 1)
	const golden = 0.6180339887498949
	a, b := hi-golden*(hi-lo), lo+golden*(hi-lo)
	va, vb := s.value(f, a), s.value(f, b)
	x, v = u, s.value(f, u)
	for range 24 {
		if va > vb {
			hi, b, vb = b, a, va
			a = hi - golden*(hi-lo)
			va = s.value(f, a)
		} else {
			lo, a, va = a, b, vb
			b = lo + golden*(hi-lo)
			vb = s.value(f, b)
		}
		if math.Abs(va-vb) < 1e-8 && hi-lo < width/3 {
			break
		}
	}
	if va > v {
		x, v = a, va
	}
	if vb > v {
		x, v = b, vb
	}
	// The maximum is often at u = 1, at the upper end of the search range.
	if hi == 1 {
		if ve := s.value(f, 1); ve >= v {
			x, v = 1, ve
		}
	}
	return x, v, math.Max(width/4, 4*(hi-lo))
}

// marginSD approximates the standard deviation of the observed margin at the point u of f.
func (s *search) marginSD(f frontier, u float64) float64 {
	n := float64(s.event.order.n)
	q1, q2, _ := f.point(u * f.last())
	q1, q2 = math.Min(q1, 1-1/n), math.Max(q2, 1/n)
	v1, v2 := math.Sqrt(q1*(1-q1)/n), math.Sqrt(q2*(1-q2)/n)
	return v1/s.scale.density(q1) + v2/s.scale.density(q2)
}
