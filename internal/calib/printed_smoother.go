package calib

import "math"

// temper is the exponent in the smoother's weights for the method Printed (see temperedSmoother).
const temper = 1.2

// temperedSmoother is the smoother of Printed (Ciosek et al. 2025, section 5): it takes Epanechnikov weights with
// boundary renormalisation, raises them to the power of 1.2, and normalises them again:
//
//	w_i(s) ∝ [(1 − ((s−s_i)/h′)²)₊ / Z(s_i)]^1.2,  Z(t) = ∫_0^1 ¾(1 − ((s−t)/h′)²)₊ ds / h′
//
// The paper does not define the boundary renormalisation. It writes the kernel as k′(s|s_i), so the code takes Z(s_i)
// as the integral over [0, 1] of the kernel around s_i. (A factor that depends on s alone would cancel.) If no weight
// is positive at a score, the smoother uses the nearest training score.
//
// Because of the exponent 1.2, the sum of the weights in a window cannot be computed from sums of powers, which the
// type 'smoother' uses. So temperedSmoother slides a window over the distinct training scores.
type temperedSmoother struct {
	smoother
	atoms []atom
}

// An atom is a distinct training score.
type atom struct {
	score, n, labels float64
	scale            float64 // 1/Z
}

func newTempered(sm smoother) temperedSmoother {
	t := temperedSmoother{smoother: sm}
	for _, p := range sm.train {
		score, label := unpack(p)
		if k := len(t.atoms); k == 0 || t.atoms[k-1].score != score {
			t.atoms = append(t.atoms, atom{score: score, scale: 1 / kernelMass(score, sm.h)})
		}
		last := &t.atoms[len(t.atoms)-1]
		last.n++
		last.labels += float64(label)
	}
	return t
}

// kernelMass returns Z(t): the integral of ¾(1−u²) over the part of [−1, 1] between −t/h and (1−t)/h.
func kernelMass(t, h float64) float64 {
	low, high := max(-1, -t/h), min(1, (1-t)/h)
	integral := func(u float64) float64 { return (3*u - u*u*u) / 4 }
	return integral(high) - integral(low)
}

// A printedPoint holds η̂(s) and g(s) of Printed at a score s.
type printedPoint struct {
	estimate, error float64
	nearest         bool // no weight is positive
}

// The method 'each' calls f for every point. The points must be in ascending order.
func (t temperedSmoother) each(points []uint64, f func(i int, at printedPoint)) {
	from := 0
	for i, p := range points {
		s, _ := unpack(p)
		for from < len(t.atoms) && t.atoms[from].score <= s-t.h {
			from++
		}
		f(i, t.at(s, t.atoms[from:]))
	}
}

// The method 'at' returns η̂ and g at s. The argument 'atoms' begins with the first atom in the window.
func (t temperedSmoother) at(s float64, atoms []atom) printedPoint {
	var sum, labels, first, second, squares float64
	for _, a := range atoms {
		d := math.Abs(s - a.score)
		if d >= t.h {
			break
		}
		u := d / t.h
		w := math.Pow((1-u*u)*a.scale, temper)
		sum += a.n * w
		labels += a.labels * w
		first += a.n * w * d
		second += a.n * w * d * d
		squares += a.n * w * w
	}
	if !(sum > 0) {
		estimate, distance, ties := t.nearest(s)
		return printedPoint{estimate, t.b1*distance + t.b2*distance*distance/2 + 1/(2*math.Sqrt(ties)), true}
	}
	return printedPoint{min(1, labels/sum), t.b1*first/sum + t.b2/2*second/sum + math.Sqrt(squares)/sum/2, false}
}

// printedValidation returns the number of validation points that Printed uses in a fold (appendix E). The argument
// 'valid' is the number of validation points of the fold, and n is the number of points of the sample.
func printedValidation(valid, n int) int {
	return min(valid, 15_000, max(5_000, n/20))
}

// The method 'printed' returns the terms of Printed. It uses a random part of the validation points (see
// printedValidation).
func (t temperedSmoother) printed(valid []uint64, delta float64, r *splitMix) (terms, chosen Terms) {
	valid = draws(valid, printedValidation(len(valid), len(valid)+len(t.train)), r)
	var gap, smoothing moments
	unused := 0
	t.each(valid, func(i int, at printedPoint) {
		s, _ := unpack(valid[i])
		gap.add(math.Abs(at.estimate - s))
		smoothing.add(at.error)
		unused += int(indicator(at.nearest))
	})
	n := len(valid)
	bound := t.b1*t.h + t.b2*t.h*t.h/2 + 0.5
	return Terms{
			{"gap", gap.mean},
			{"gap_bernstein", bernstein(n, delta, gap.variance(), 1)},
			{"smoothing", smoothing.mean},
			// This is the term R·BB of Proposition 2. The variable 'bound' is R. BB is the radius of the empirical
			// Bernstein bound for the mean of g/R. The values of g/R lie in [0, 1]. R·BB equals the radius for the mean
			// of g itself. The values of g lie in an interval of length R.
			{"smoothing_bernstein", bernstein(n, delta, smoothing.variance(), bound)},
		}, Terms{
			{"bandwidth", t.h},
			{"validation", float64(n)},
			{"unused", float64(unused) / float64(n)},
		}
}
