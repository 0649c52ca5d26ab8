package attack

import (
	"cmp"
	"math"
	"slices"
)

// towards returns the smallest d, in the threat's norm, among all d with w·d = gap and x + d in the box. If the box
// forbids every such d, towards returns the d that keeps x + d in the box and brings w·d closest to gap.
//
// Where w_i ≠ 0, the solution has |d_i| = min(λ·s_i, c_i), and d_i has the sign of w_i·gap. Here c_i is the distance
// from x_i to the end of the box in the direction of this sign, and s_i is 1 for Linf and |w_i| for L2. The factor λ
// solves Σ |w_i|·min(λ·s_i, c_i) = |gap|. The left side of this equation is piecewise linear in λ, with corners at
// c_i/s_i. The method therefore sorts the corners and finds λ exactly, up to rounding (Croce & Hein 2020, FAB, section
// 3.1). For Linf several d can have the smallest norm. Among these d, the method 'towards' returns the d that is zero
// where w is zero.
func (t Threat) towards(x []float32, w []float64, gap float64) []float64 {
	corners := make([]corner, 0, len(x))
	for i, v := range w {
		if speed := t.speed(v); speed > 0 {
			room := t.room(x[i], v*gap)
			corners = append(corners, corner{room / speed, math.Abs(v) * speed, math.Abs(v) * room})
		}
	}
	lambda := reach(corners, math.Abs(gap))
	d := make([]float64, len(x))
	for i, v := range w {
		if speed := t.speed(v); speed > 0 {
			d[i] = math.Copysign(min(lambda*speed, t.room(x[i], v*gap)), v*gap)
		}
	}
	return d
}

// corner describes one term of Σ |w_i|·min(λ·s_i, c_i) as a function of λ. The term is rate·λ for every λ up to the
// field "at". For every larger λ, the term equals the field "stays".
type corner struct{ at, rate, stays float64 }

// reach returns the smallest λ at which the terms of all corners add up to 'gap'. If the sum stays below 'gap' for
// every λ, reach returns +∞.
func reach(corners []corner, gap float64) float64 {
	slices.SortFunc(corners, func(a, b corner) int { return cmp.Compare(a.at, b.at) })
	rates := make([]float64, len(corners)+1) // rates[k] is the sum of the rates of the corners k, k+1, …
	for k, c := range slices.Backward(corners) {
		rates[k] = rates[k+1] + c.rate
	}
	stayed := 0.
	for k, c := range corners {
		if stayed+rates[k]*c.at >= gap {
			return (gap - stayed) / rates[k]
		}
		stayed += c.stays
	}
	return math.Inf(1)
}

// speed returns the factor s_i of a value with the weight w. The comment of the method 'towards' defines s_i. The value
// moves by λ·s_i, unless it reaches the end of the box.
func (t Threat) speed(w float64) float64 {
	if t.Norm == L2 || w == 0 {
		return math.Abs(w)
	}
	return 1
}

// room is the distance from x to the upper end of the box if the argument 'direction' is positive, and to the lower end
// otherwise.
func (t Threat) room(x float32, direction float64) float64 {
	if direction > 0 {
		return max(0, float64(t.High)-float64(x))
	}
	return max(0, float64(x)-float64(t.Low))
}

// length is the norm of a perturbation. Unlike Distance, length does not round up, so its result is no upper bound on
// the exact norm.
func (n Norm) length(d []float64) float64 {
	sum, most := 0., 0.
	for _, v := range d {
		sum += v * v
		most = max(most, math.Abs(v))
	}
	if n == L2 {
		return math.Sqrt(sum)
	}
	return most
}

// dual is the dual norm of a gradient g: the L1 norm for Linf, and the L2 norm for L2. The hyperplane g·d = gap has the
// distance |gap|/dual(g) from d = 0.
func (n Norm) dual(g []float32) float64 {
	squares, sum := 0., 0.
	for _, v := range g {
		squares += float64(v) * float64(v)
		sum += math.Abs(float64(v))
	}
	if n == L2 {
		return math.Sqrt(squares)
	}
	return sum
}
