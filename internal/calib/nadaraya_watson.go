package calib

import (
	"fmt"
	"math"
	"sort"
)

// NadarayaWatsonKind selects the bound that NadarayaWatson computes.
type NadarayaWatsonKind int

const (
	// Repaired is Proposition 2 of Ciosek et al. 2025 with its wrong step repaired.
	Repaired NadarayaWatsonKind = iota
	// SecondOrder is the same bound as Repaired, except that it uses a tighter bound on the bias of the smoother.
	SecondOrder
	// Printed is Proposition 2 as printed in the paper. It is not sound.
	Printed
)

// Sound returns false only for the printed bound.
func (k NadarayaWatsonKind) Sound() bool { return k != Printed }

// NadarayaWatson returns an upper bound on the calibration error of a classifier whose scores were perturbed by Sech
// with bandwidth h. The perturbation bounds the first two derivatives of the calibration function η(s) = P(y=1|s) by b1
// and b2. The surrogate of η is the kernel smoother
//
//	η̂(s) = Σ_train w_i(s) y_i,  w_i ∝ (1 − ((s−s_i)/h′)²)₊  (Epanechnikov)
//	g(s)  = b1 Σ w_i|s−s_i| + ½b2 Σ w_i(s−s_i)² + ½√(Σw_i²)
//
// where g bounds the mean error of η̂: E_Y|η̂(s) − η(s)| ≤ g(s), with the expectation over the training labels Y (Lemma
// 6). The bound is
//
//	CE ≤ mean|η̂(s)−s| + mean g(s) + BB + R·BB     (Proposition 2)
//
// with means over validation points. BB is the radius that the function bernstein returns, h′ is the smoother's
// bandwidth, and R is a bound on g. The bound is cross-fitted over K folds, with δ/K for each fold.
//
// The printed proof replaces the realised D = E_s|η̂(s)−η(s)| by its expectation over Y. This step is wrong: if all
// scores are equal, η̂−η is a single error, which is nearly normal with standard deviation ≤ g. For η = ½ the absolute
// value of this error exceeds g in a third of all samples. In half of these samples, η̂ errs towards s. Then the bound
// is too small, for every δ. So Printed is not sound. Printed keeps R = b1h′ + ½b2h′² + ½ and the other details of the
// paper. It uses the weights of temperedSmoother. Of the validation points of a fold, it uses only a random part
// (printedValidation). Each of the two inequalities of Printed fails with probability at most δ/2K. The b2 of Printed
// is the paper's b2, which is three times the b2 of the function 'derivatives'.
//
// Repaired adds the term that the wrong step of the printed proof omits. D changes by at most c_i = E_s[w_i(s)] when
// label i changes, so by McDiarmid's inequality, given the training scores,
//
//	D ≤ E_Y[D] + √(½ ln(1/δ3) Σc_i²),
//
// where Σc_i² = E[Q(s,s′)] for independent scores s and s′, with Q(s,s′) = Σ_i w_i(s)w_i(s′). By Cauchy–Schwarz, Q ≤
// √(W(s)W(s′)) with W = Σw_i². If |s−s′| ≥ 2h′, then Q = 0. The code forms disjoint random pairs of validation points
// and takes the mean of this bound on Q over the pairs. This mean plus its radius BB at level 1−δ4 bounds Σc_i² (δ4 is
// chosen below). The method does not use the smoother at a score s with W(s) > κ or g(s) ≥ max(s, 1−s). At such an s it
// sets η̂(s) = s and g(s) = max(s, 1−s) ≥ |s − η(s)|. Then the labels do not matter at s, so s adds nothing to c_i.
// Therefore g ≤ 1 and Q ≤ κ at all scores. BB needs the length of an interval that contains the variable. This length
// is 1 for g and κ for Q. There are four inequalities: two with BB in Proposition 2, McDiarmid's inequality, and the
// one with BB for the pairs. Each of them fails with probability at most δ/4K. So δ3 = δ4 = δ/4K.
//
// SecondOrder expands η around s, whereas the paper expands η around each s_i. Then the first-order term of the bias
// E_Y[η̂(s)] − η(s) is η′(s)·Σ w_i(s_i−s), and the bias has the bound
//
//	|bias| ≤ b1|Σ w_i(s_i−s)| + ½b2 Σ w_i(s_i−s)²,
//
// where the first term nearly vanishes. Because η is b1-Lipschitz, b1 Σ w_i|s_i−s| is also a bound on |bias|. g uses
// the smaller of these two bounds. plugIn chooses h′ for this smaller g.
func NadarayaWatson(s *Sample, cf CrossFit, bandwidth float64, kind NadarayaWatsonKind) (Bound, error) {
	if err := cf.check(s.N()); err != nil {
		return Bound{}, err
	}
	if err := checkBandwidth(bandwidth); err != nil {
		return Bound{}, err
	}
	if kind < Repaired || kind > Printed {
		return Bound{}, fmt.Errorf("unknown kind %d", kind)
	}
	eps := make([]float64, cf.Folds)
	terms, chosen := cf.run(s, func(part split, k int) (terms, chosen Terms) {
		sm := newSmoother(part.train, bandwidth, kind)
		eps[k] = sm.roundoff()
		if kind == Printed {
			subset := newStream(cf.Seed, streamPrinted+uint64(k)<<8)
			return newTempered(sm).printed(part.valid, cf.Delta/float64(cf.Folds)/2, subset)
		}
		pairs := newStream(cf.Seed, streamPairs+uint64(k)<<8)
		return sm.repaired(part.valid, cf.partShare(), pairs)
	})
	worst := 0.0
	for _, e := range eps {
		worst = max(worst, e)
	}
	return newBound(terms, chosen, cf.Delta, worst, kind.Sound())
}

// smoother holds one fold's training points and the smoother's parameters.
type smoother struct {
	train  []uint64
	h      float64 // h′, the smoother's bandwidth
	b1, b2 float64
	kind   NadarayaWatsonKind
}

func newSmoother(train []uint64, bandwidth float64, kind NadarayaWatsonKind) smoother {
	b1, b2 := derivatives(bandwidth)
	if kind == Printed {
		b2 = paperSecondDerivative(bandwidth)
	}
	return smoother{train, plugIn(b1, b2, len(train), kind), b1, b2, kind}
}

// plugIn returns the h′ that minimises a·h′ + b·h′² + c/√h′, clipped to [1e-4, ¼]. plugIn uses a = ⅜b1, b = b2/10 and c
// = 1.15/(2√(2n)). With these values the minimised function is the average of g for uniform scores (Ciosek et al. 2025,
// appendix E). With h′ = t² the derivative vanishes at 2bt⁵ + at³ = c/2; the left side increases in t. For SecondOrder,
// plugIn uses a = 0 instead. plugIn uses only the number of training points, not the points themselves.
func plugIn(b1, b2 float64, n int, kind NadarayaWatsonKind) float64 {
	a, b, c := 3*b1/8, b2/10, 1.15/(2*math.Sqrt(2*float64(n)))
	if kind == SecondOrder {
		a = 0
	}
	lo, hi := 0.01, 0.5 // square roots of the limits of h′
	for range 60 {
		t := (lo + hi) / 2
		if 2*b*math.Pow(t, 5)+a*t*t*t < c/2 {
			lo = t
		} else {
			hi = t
		}
	}
	return hi * hi
}

// A window holds kernel sums over the training points around one score, with u = |s−s_i|/h′ and k = 1−u².
type window struct {
	n float64 // number of points
	k float64 // Σk
	// Σku, the sum of kernel value k times scaled distance u, over the points below s and over the points above s
	left, right float64
	ku2         float64 // Σku²
	kk          float64 // Σk²
	ky          float64 // Σky
}

// degenerate is a limit for Σk, the sum of the kernel's values. It is stated as a share of the largest possible Σk. If
// Σk is below this share, Repaired and SecondOrder do not use the smoother at this score. Most points of the window
// then lie near its edge, where 1−u² loses digits by cancellation.
const degenerate = 0.01

func (w window) usable() bool { return w.n > 0 && w.k >= degenerate*w.n }

// squares returns Σw².
func (w window) squares() float64 { return w.kk / (w.k * w.k) }

func (w window) estimate() float64 { return min(1, max(0, w.ky/w.k)) }

// powerSums holds Σx^j and Σy·x^j, where x = (s_i−c)/h′ and c is the centre of a cell.
type powerSums struct {
	x0, x1, x2, x3, x4 float64
	y0, y1, y2         float64
}

func (m *powerSums) plus(o *powerSums) powerSums {
	return powerSums{m.x0 + o.x0, m.x1 + o.x1, m.x2 + o.x2, m.x3 + o.x3, m.x4 + o.x4,
		m.y0 + o.y0, m.y1 + o.y1, m.y2 + o.y2}
}

// addTo adds the kernel sums of the points to the window w around the score s. The argument z is (s−c)/h′, where c is
// the centre of the points' cell. If the argument 'below' is true, all points lie below s. Otherwise they lie above s.
func (m *powerSums) addTo(w *window, z float64, below bool) {
	z2 := z * z
	u1 := z*m.x0 - m.x1
	u2 := z2*m.x0 - 2*z*m.x1 + m.x2
	u3 := z2*z*m.x0 - 3*z2*m.x1 + 3*z*m.x2 - m.x3
	u4 := z2*z2*m.x0 - 4*z2*z*m.x1 + 6*z2*m.x2 - 4*z*m.x3 + m.x4
	w.n += m.x0
	w.k += m.x0 - u2
	if below {
		w.left += u1 - u3
	} else {
		w.right += u3 - u1
	}
	w.ku2 += u2 - u4
	w.kk += m.x0 - 2*u2 + u4
	w.ky += m.y0 - (z2*m.y0 - 2*z*m.y1 + m.y2)
}

// blockSize is the number of points in a block. A long sum adds the sums of blocks. So its rounding error grows with
// blockSize + n/blockSize, not with n.
const blockSize = 1024

// accumulator computes powerSums. It takes the points one at a time and adds them up in blocks.
type accumulator struct {
	total, block powerSums
	inBlock      int
}

func (a *accumulator) add(x float64, label uint64) {
	b := &a.block
	x2 := x * x
	b.x0++
	b.x1 += x
	b.x2 += x2
	b.x3 += x2 * x
	b.x4 += x2 * x2
	if label == 1 {
		b.y0++
		b.y1 += x
		b.y2 += x2
	}
	if a.inBlock++; a.inBlock == blockSize {
		a.total = a.total.plus(b)
		a.block, a.inBlock = powerSums{}, 0
	}
}

func (a *accumulator) addTo(w *window, z float64, below bool) {
	m := a.total.plus(&a.block)
	m.addTo(w, z, below)
}

// The method 'each' calls f with the window of every point. The points must be in ascending order.
//
// The axis is cut into cells as wide as h′. The window of a point in cell j consists of the end of cell j−1, all of
// cell j, and the start of cell j+1. So the sums over a window come from running sums that start at either end of a
// cell. This takes O(1) per window, and the code never subtracts long sums. The sums of a cell add powers of
// (s_i−c)/h′, where c is the centre of the cell.
func (sm smoother) each(points []uint64, f func(i int, w *window)) {
	cell := func(p uint64) int { s, _ := unpack(p); return int(s / sm.h) }
	start := func(j int) int { return sort.Search(len(sm.train), func(i int) bool { return cell(sm.train[i]) >= j }) }
	var windows []window
	for from := 0; from < len(points); {
		j := cell(points[from])
		to := from + sort.Search(len(points)-from, func(i int) bool { return cell(points[from+i]) > j })
		group := points[from:to]
		if cap(windows) < len(group) {
			windows = make([]window, len(group))
		}
		windows = windows[:len(group)]
		clear(windows)
		c0, c1, c2, c3 := start(j-1), start(j), start(j+1), start(j+2)
		sm.forward(windows, group, sm.train[c1:c2], j, 0, true)
		sm.forward(windows, group, sm.train[c2:c3], j+1, sm.h, false)
		sm.backward(windows, group, sm.train[c1:c2], j, 0, false)
		sm.backward(windows, group, sm.train[c0:c1], j-1, sm.h, true)
		for i := range windows {
			f(from+i, &windows[i])
		}
		from = to
	}
}

func (sm smoother) centre(j int) float64 { return (float64(j) + 0.5) * sm.h }

// The method 'forward' adds training points of cell j to the window of each point s. It adds the points with s_i ≤ s +
// reach.
func (sm smoother) forward(windows []window, points, train []uint64, j int, reach float64, below bool) {
	if len(train) == 0 {
		return
	}
	c, inv := sm.centre(j), 1/sm.h
	var sum accumulator
	t := 0
	next, label := unpack(train[0])
	for i, p := range points {
		s, _ := unpack(p)
		for t < len(train) && next <= s+reach {
			sum.add((next-c)*inv, label)
			if t++; t < len(train) {
				next, label = unpack(train[t])
			}
		}
		sum.addTo(&windows[i], (s-c)*inv, below)
	}
}

// The method 'backward' adds training points of cell j to the window of each point s. If reach is 0, it adds the points
// with s_i > s; otherwise it adds the points with s_i ≥ s − reach.
func (sm smoother) backward(windows []window, points, train []uint64, j int, reach float64, below bool) {
	if len(train) == 0 {
		return
	}
	c, inv := sm.centre(j), 1/sm.h
	var sum accumulator
	t := len(train) - 1
	next, label := unpack(train[t])
	for i := len(points) - 1; i >= 0; i-- {
		s, _ := unpack(points[i])
		for t >= 0 && (next > s || (reach > 0 && next >= s-reach)) {
			sum.add((next-c)*inv, label)
			if t--; t >= 0 {
				next, label = unpack(train[t])
			}
		}
		sum.addTo(&windows[i], (s-c)*inv, below)
	}
}

// roundoff returns a bound on the rounding error of the means of |η̂−s| and g. z and x are the arguments of the
// polynomials in addTo and powerSums. With |z| ≤ 3/2 and |x| ≤ ½, a kernel sum over n points adds terms whose absolute
// values sum to at most (1+(|z|+|x|)²)²·n ≤ 25n. Each term is off by at most 2m units of 2⁻⁵³, where m = blockSize +
// n/blockSize. The factor 2 in 2m allows for adding up the sums of the cells in a window (up to three cells, see
// 'each'). Σk ≥ n/100 and W ≥ 1/n. So the relative error of W is at most 10⁴·50·m·2⁻⁵³, and the relative errors of the
// other ratios are smaller.
func (sm smoother) roundoff() float64 {
	m := blockSize + float64(len(sm.train))/blockSize
	return 1e4 * 50 * m * 0x1p-53 * (1 + sm.b1*sm.h + sm.b2*sm.h*sm.h/2)
}

// errorBound returns g(s).
func (sm smoother) errorBound(w *window) float64 {
	first := sm.b1 * sm.h * (w.left + w.right) / w.k
	second := sm.b2 * sm.h * sm.h / 2 * w.ku2 / w.k
	bias := first + second
	if sm.kind == SecondOrder {
		bias = min(first, sm.b1*sm.h*math.Abs(w.right-w.left)/w.k+second)
	}
	return bias + math.Sqrt(w.squares())/2
}

func (sm smoother) repaired(valid []uint64, delta float64, pairs *splitMix) (terms, chosen Terms) {
	kappa := sm.chooseKappa(len(valid), delta)
	var gap, smoothing moments
	// squares[i] is W = Σw² at validation point i. It is 0 if the method does not use the smoother at this point (see
	// NadarayaWatson).
	squares := make([]float64, len(valid))
	unused := 0
	sm.each(valid, func(i int, w *window) {
		s, _ := unpack(valid[i])
		if sm.uses(valid[i], w, kappa) {
			squares[i] = w.squares()
			gap.add(math.Abs(w.estimate() - s))
			smoothing.add(sm.errorBound(w))
			return
		}
		unused++
		gap.add(0)
		smoothing.add(max(s, 1-s))
	})
	n := len(valid)
	overlap := sm.pairOverlap(valid, squares, pairs)
	c2 := overlap.mean + bernstein(overlap.n, delta, overlap.variance(), kappa)
	return Terms{
			{"gap", gap.mean},
			{"gap_bernstein", bernstein(n, delta, gap.variance(), 1)},
			{"smoothing", smoothing.mean},
			{"smoothing_bernstein", bernstein(n, delta, smoothing.variance(), 1)},
			{"repair", math.Sqrt(math.Log(1/delta) / 2 * c2)},
		}, Terms{
			{"bandwidth", sm.h},
			{"kappa", kappa},
			{"unused", float64(unused) / float64(n)},
		}
}

// The method 'uses' reports whether Repaired and SecondOrder use the smoother at the point p with the window w.
func (sm smoother) uses(p uint64, w *window, kappa float64) bool {
	s, _ := unpack(p)
	return w.usable() && w.squares() <= kappa && sm.errorBound(w) < max(s, 1-s)
}

// pairOverlap draws disjoint random pairs (s, s′) of validation points. It returns the moments of the upper bound on Q
// (see NadarayaWatson) over these pairs. This bound is √(W(s)W(s′)), or 0 if |s−s′| ≥ 2h′.
func (sm smoother) pairOverlap(valid []uint64, squares []float64, r *splitMix) moments {
	order := make([]int32, len(valid))
	for i := range order {
		order[i] = int32(i)
	}
	var overlap moments
	for i := len(order) - 1; i > 0; i -= 2 {
		for _, at := range [2]int{i, i - 1} {
			j := r.uniformBelow(at + 1)
			order[at], order[j] = order[j], order[at]
		}
		a, b := order[i], order[i-1]
		sa, _ := unpack(valid[a])
		sb, _ := unpack(valid[b])
		q := 0.0
		if math.Abs(sa-sb) < 2*sm.h {
			q = math.Sqrt(squares[a] * squares[b])
		}
		overlap.add(q)
	}
	return overlap
}

// chooseKappa returns the κ, a power of ½, that minimises an approximation of the bound. The approximation uses only a
// few thousand of the training scores. It assumes that Σc_i² = 2/n, which is roughly right if no scores are equal. Any
// choice that ignores the validation points and the labels is sound.
func (sm smoother) chooseKappa(valid int, delta float64) float64 {
	const most = 4096
	step := (len(sm.train) + most - 1) / most
	var some []uint64
	for i := step / 2; i < len(sm.train); i += step {
		some = append(some, sm.train[i])
	}
	// A point holds two numbers for a score s. The field 'squares' is W(s), and the field 'saving' is max(s, 1−s) −
	// g(s). The method uses the smoother at s if 'squares' is at most κ and 'saving' is positive.
	type point struct{ squares, saving float64 }
	var points []point
	sm.each(some, func(i int, w *window) {
		s, _ := unpack(some[i])
		if w.usable() {
			points = append(points, point{w.squares(), max(s, 1-s) - sm.errorBound(w)})
		}
	})
	sort.Slice(points, func(i, j int) bool { return points[i].squares < points[j].squares })
	pairs := float64(valid / 2)
	best, bestCost := 1.0, math.Inf(1)
	saved, next := 0.0, 0
	for k := 50; k >= 0; k-- {
		kappa := math.Ldexp(1, -k)
		for ; next < len(points) && points[next].squares <= kappa; next++ {
			saved += max(0, points[next].saving)
		}
		c2 := 2/float64(len(sm.train)) + 3*kappa*math.Log(3/delta)/pairs
		if cost := math.Sqrt(math.Log(1/delta)/2*c2) - saved/float64(len(some)); cost < bestCost {
			best, bestCost = kappa, cost
		}
	}
	return best
}

// The method 'nearest' finds the training score nearest to s. It returns the mean label at this score, its distance
// from s, and the number of training points with this score.
func (sm smoother) nearest(s float64) (estimate, distance, ties float64) {
	above := sort.Search(len(sm.train), func(i int) bool { t, _ := unpack(sm.train[i]); return t >= s })
	at := above
	if above == len(sm.train) {
		at = above - 1
	} else if above > 0 {
		l, _ := unpack(sm.train[above-1])
		if u, _ := unpack(sm.train[above]); s-l <= u-s {
			at = above - 1
		}
	}
	score, _ := unpack(sm.train[at])
	key := sm.train[at] >> 1
	first := sort.Search(len(sm.train), func(i int) bool { return sm.train[i]>>1 >= key })
	for i := first; i < len(sm.train) && sm.train[i]>>1 == key; i++ {
		estimate += float64(sm.train[i] & 1)
		ties++
	}
	return estimate / ties, math.Abs(s - score), ties
}
