package calibrator

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// VennAbersCurve holds the functions p₀(x) and p₁(x) of an inductive Venn–Abers predictor (Vovk, Petej & Fedorova
// 2015). Add the example (x, y) to the examples of the fit. Then p_y(x) is the value of their isotonic regression at x.
// The two functions are constant between the knots in At. Let a be the number of knots ≤ x, and b the number of knots <
// x. Then p₀(x) = P0[a] and p₁(x) = P1[b].
//
// Let (x, Y) be a new example that is exchangeable with the examples of the fit. Then p_Y(x) is perfectly calibrated:
// P(Y = 1 | p_Y(x)) = p_Y(x) (theorem 1 of Vovk et al.). The theorem says nothing about the single probability that the
// method 'value' returns.
type VennAbersCurve struct {
	At []float64 `json:"at"` // ascending
	P0 []float64 `json:"p0"`
	P1 []float64 `json:"p1"`
}

// interval returns p₀ and p₁ at x.
func (c VennAbersCurve) interval(x float64) (p0, p1 float64) {
	below := sort.SearchFloat64s(c.At, x)
	upTo := below
	for upTo < len(c.At) && c.At[upTo] == x {
		upTo++
	}
	return c.P0[upTo], c.P1[below]
}

// value returns p₁/(1 − p₀ + p₁), which minimises the largest regret of the logarithmic loss (Vovk et al., section 4).
func (c VennAbersCurve) value(x float64) float64 {
	p0, p1 := c.interval(x)
	return p1 / (1 - p0 + p1)
}

// fitVennAbers computes the functions p₀ and p₁ of each class. Their argument x is the probability of the class, or its
// log-odds if the outputs are logits.
func fitVennAbers(d Data, _ Options) (m Map, err error) {
	err = d.eachClass(func(b binary) error {
		x := b.s
		if b.input == Logits {
			x = b.d
		}
		m.VennAbers = append(m.VennAbers, vennAbers(x, b.is))
		return nil
	})
	return m, err
}

// vennAbers computes the curve of the examples (x[i], is[i]). A value in x becomes a knot only if p₀ or p₁ jumps there.
func vennAbers(x []float64, is []bool) VennAbersCurve {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	var at, count, ones, zeros []float64 // one element for each different value in x
	for k, i := range order {
		if k == 0 || x[i] != x[order[k-1]] {
			at, count, ones, zeros = append(at, x[i]), append(count, 0), append(ones, 0), append(zeros, 0)
		}
		last := len(at) - 1
		count[last]++
		if is[i] {
			ones[last]++
		} else {
			zeros[last]++
		}
	}
	p1 := append(withOne(count, ones), 1)
	// To compute p₀, reverse the order of x and exchange the labels 0 and 1. Then p₁ of the new problem is 1 − p₀.
	slices.Reverse(count)
	slices.Reverse(zeros)
	p0 := []float64{0}
	for _, p := range slices.Backward(withOne(count, zeros)) {
		p0 = append(p0, 1-p)
	}
	c := VennAbersCurve{P0: p0[:1], P1: p1[:1]}
	for k, t := range at {
		if p0[k+1] != p0[k] || p1[k+1] != p1[k] {
			c.At, c.P0, c.P1 = append(c.At, t), append(c.P0, p0[k+1]), append(c.P1, p1[k+1])
		}
	}
	return c
}

// point is a corner of a diagram of two cumulative sums. The field 'count' is the number of examples, and the field
// 'ones' is the number of examples with the label 1.
type point struct{ count, ones float64 }

// The method 'below' reports whether p lies on or below the line through a and b. The point b must be to the right of
// a.
func (p point) below(a, b point) bool {
	return (p.ones-a.ones)*(b.count-a.count) <= (b.ones-a.ones)*(p.count-a.count)
}

// All examples with the same value of x form a group. withOne returns p₁ at the x of each group. Group i has count_i
// examples, of which ones_i have the label 1. The isotonic regression is the slope of the greatest convex minorant of
// the points P_j = (Σ_{i≤j} count_i, Σ_{i≤j} ones_i) (Barlow et al. 1972). Add one more example with the label 1 to
// group i. Relative to the other points, this moves the points P_0 … P_{i−1} by (−1, −1). The same holds if the x of
// the added example lies between the groups i−1 and i. Let Q_j = P_j − (1, 1). Then p₁ of group i is the slope of a
// line that is called the lower bridge. It is the common lower tangent of the points Q_j, j < i, and the points P_j, j
// ≥ i.
//
// The bridge starts at the point in the variable 'start' and ends at the last element of the slice 'stack'. This slice
// holds corners of the lower hull of the points P_j, j ≥ i, from right to left. It holds only the corners that can
// still be an end of the bridge. As i grows, p₁ grows. So the bridge changes only if the new point Q_{i−1} lies on or
// below the bridge, and then the bridge starts at Q_{i−1}. A corner that has left the stack is never an end of a later
// bridge. The reason is that Q_{i−1} replaces P_{i−1} and lies on the line through P_{i−1} with slope 1. No line
// through two of the points P_j is steeper. So Q_{i−1} lies on or below every line through P_{i−1} and a later corner.
// Let P_j be a point between P_{i−1} and the later corner, and let P_j lie above the line through these two points.
// Then P_j is also above the line from Q_{i−1} to the later corner. So every point enters and leaves the stack at most
// once. All coordinates are whole numbers, so the comparisons are exact.
func withOne(count, ones []float64) []float64 {
	corners := make([]point, len(count)+1)
	for i := range count {
		corners[i+1] = point{corners[i].count + count[i], corners[i].ones + ones[i]}
	}
	var stack []point
	for i := len(count); i > 0; i-- {
		for len(stack) > 1 && stack[len(stack)-2].below(corners[i], stack[len(stack)-1]) {
			stack = stack[:len(stack)-1]
		}
		stack = append(stack, corners[i])
	}
	out := make([]float64, len(count))
	start := point{math.NaN(), math.NaN()}
	for i := range out {
		moved := point{corners[i].count - 1, corners[i].ones - 1}
		if i == 0 || moved.below(start, stack[len(stack)-1]) {
			start = moved
			// This loop also removes P_{i−1} if it is the last element of the stack. The line from Q_{i−1} to P_{i−1}
			// has slope 1, and the next corner lies on or below this line.
			for len(stack) > 1 && stack[len(stack)-2].below(start, stack[len(stack)-1]) {
				stack = stack[:len(stack)-1]
			}
		}
		end := stack[len(stack)-1]
		out[i] = (end.ones - start.ones) / (end.count - start.count)
	}
	return out
}
