package attack

import (
	"cmp"
	"container/heap"
	"math"
	"math/big"
	"slices"
)

// Lattice is the set of inputs in which every value is Step·k for an integer k from Low to High. The certificates of a
// run on a lattice are statements about inputs on this lattice.
type Lattice struct {
	Step      *big.Rat
	Low, High int
}

// Value returns the float32 nearest to Step·k.
func (l Lattice) Value(k int) float32 {
	v, _ := new(big.Rat).Mul(l.Step, big.NewRat(int64(k), 1)).Float32()
	return v
}

// Index returns the integer k that makes Step·k nearest to v. |k| must be below 2²³.
func (l Lattice) Index(v float32) int {
	step, _ := l.Step.Float64()
	return int(math.RoundToEven(float64(v) / step))
}

// Within returns the part of the lattice whose values are in the threat's box. At least one value of the lattice must
// be in the box.
func (l Lattice) Within(t Threat) Lattice {
	if v := l.Value(l.Low); v < t.Low {
		for l.Low = l.Index(t.Low) - 1; l.Value(l.Low) < t.Low; {
			l.Low++
		}
	}
	if v := l.Value(l.High); v > t.High {
		for l.High = l.Index(t.High) + 1; l.Value(l.High) > t.High; {
			l.High--
		}
	}
	return l
}

// Move returns a lattice point x + Step·k that goes far in a direction: Σ k·direction is large, and Step·‖k‖₂ ≤ radius
// holds exactly. The input x must be on the lattice. The result 'distance' is Step·‖k‖₂, rounded up, but at most the
// radius.
//
// Move first sets k to λ·direction, rounded and clipped to the ends of the lattice. It takes the largest λ that keeps
// Step·‖k‖₂ ≤ radius. Then Move adds single units while this bound still holds. A unit moves one coordinate of k by 1
// in the coordinate's direction. If a unit moves coordinate i, its gain is |direction_i|. Its cost is the increase of
// ‖k‖₂², which is 2|k_i|+1. The unit with the largest ratio of gain to cost comes first. Move returns the same point as
// a search that starts at k = 0 and adds all units in this order, because that search passes through the rounded
// λ·direction.
//
// Let S be the sum Σ k·direction for the point that Move returns, and let u be the first unit that would break the
// bound Step·‖k‖₂ ≤ radius. For every allowed k, the sum Σ k·direction is at most S plus the gain of u.
func (l Lattice) Move(x []float32, direction []float64, radius float64) (moved []float32, distance float64) {
	var all []mover
	for i, u := range direction {
		k := l.Index(x[i])
		room := l.High - k
		if u < 0 {
			room = k - l.Low
		}
		if math.Abs(u) > 0 && room > 0 {
			all = append(all, mover{place: i, gain: math.Abs(u), room: int64(room)})
		}
	}
	budget := l.budget(radius)
	scale(all, budget)
	used := fill(all, budget)
	moved = slices.Clone(x)
	for _, m := range all {
		units := int(m.units)
		if direction[m.place] < 0 {
			units = -units
		}
		if units != 0 {
			moved[m.place] = l.Value(l.Index(x[m.place]) + units)
		}
	}
	return moved, l.length(used)
}

// budget returns ⌊(radius/Step)²⌋, exactly, but at most 2⁶².
func (l Lattice) budget(radius float64) int64 {
	const most = 1 << 62
	r := new(big.Rat).SetFloat64(radius)
	switch {
	case !(radius > 0):
		return 0
	case r == nil: // the radius is infinite
		return most
	}
	r.Quo(r, l.Step)
	r.Mul(r, r)
	floor := new(big.Int).Quo(r.Num(), r.Denom())
	if !floor.IsInt64() {
		return most
	}
	return min(floor.Int64(), most)
}

// length returns Step·√square, rounded up.
func (l Lattice) length(square int64) float64 {
	exact := new(big.Rat).Mul(l.Step, l.Step)
	exact.Mul(exact, new(big.Rat).SetInt64(square))
	approximate, _ := exact.Float64()
	d := math.Sqrt(approximate)
	short := func(d float64) bool {
		r := new(big.Rat).SetFloat64(d)
		return r.Mul(r, r).Cmp(exact) < 0
	}
	for d > 0 && !short(math.Nextafter(d, 0)) {
		d = math.Nextafter(d, 0)
	}
	for short(d) {
		d = math.Nextafter(d, math.Inf(1))
	}
	return d
}

// mover is a coordinate that can move by whole units, which are steps of the lattice. The field 'units' is the current
// number of units, and the field 'room' is the largest possible number.
type mover struct {
	place       int
	gain        float64 // one unit raises Σ k·direction by this gain
	units, room int64
}

// scaled returns the number of units (lattice steps) for a factor λ. This number is λ·gain, rounded, but at most the
// field 'room'.
func (m mover) scaled(lambda float64) int64 {
	return int64(math.Floor(min(lambda*m.gain, float64(m.room)) + .5))
}

// worth returns the gain of one more unit, divided by the cost of this unit. The cost is the increase of units².
func (m mover) worth() float64 { return m.gain / float64(2*m.units+1) }

// scale sets the units of each coordinate to λ times the coordinate's gain, rounded. It takes the largest λ for which
// the sum of units² over all coordinates is at most the argument 'budget'.
func scale(all []mover, budget int64) {
	fits := func(lambda float64) bool {
		sum := int64(0)
		for _, m := range all {
			k := m.scaled(lambda)
			if sum += k * k; sum > budget {
				return false
			}
		}
		return true
	}
	most := 0.
	for _, m := range all {
		most = max(most, m.gain)
	}
	low, high := 0., 1/most
	for range 64 { // after 64 doublings of λ, only coordinates with a negligible gain could still move further
		if !fits(high) {
			break
		}
		low, high = high, 2*high
	}
	for range 64 {
		if middle := (low + high) / 2; fits(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	for i := range all {
		all[i].units = all[i].scaled(low)
	}
}

// fill moves coordinates by further units as long as the sum of units² over all coordinates is at most the budget. The
// unit with the largest worth comes first. fill returns the sum of squares.
func fill(all []mover, budget int64) (used int64) {
	var next worths
	for i := range all {
		used += all[i].units * all[i].units
		next = append(next, &all[i])
	}
	heap.Init(&next)
	for len(next) > 0 {
		m := next[0]
		if m.units == m.room || used+2*m.units+1 > budget {
			heap.Pop(&next) // this unit does not fit, and the coordinate's later units cost more
			continue
		}
		used += 2*m.units + 1
		m.units++
		heap.Fix(&next, 0)
	}
	return used
}

// worths is a heap of coordinates. The coordinate whose next unit has the largest worth comes first.
type worths []*mover

func (w worths) Len() int      { return len(w) }
func (w worths) Swap(i, j int) { w[i], w[j] = w[j], w[i] }
func (w worths) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(w[j].worth(), w[i].worth()), cmp.Compare(w[i].place, w[j].place)) < 0
}
func (w *worths) Push(m any) { *w = append(*w, m.(*mover)) }
func (w *worths) Pop() any {
	last := len(*w) - 1
	m := (*w)[last]
	*w = (*w)[:last]
	return m
}
