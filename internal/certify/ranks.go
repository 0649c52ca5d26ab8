package certify

import "math"

// The type 'ranks' is the scale of a contest with a factor t. A contest is a comparison of two events that proves a
// claim (see the type 'contest'). q1 and q2 are the probabilities of these two events. F and Q are the distribution
// function and the quantile function of the law. The claim of the contest holds within the distance ρ if
//
//	t·F(Q(q1)−ρ) > F(Q(q2)+ρ).
//
// The margin is 2ρ for the largest such ρ. So the theorem that turns the second margin into a radius also holds for
// this margin. For t = 1 this margin is the second margin. The frontier of a margin is q1 = F(ρ + Q(F(Q(q2)+ρ)/t)). On
// the frontier, q1 is a concave function of q2. The reason for the concavity is that the function q ↦ F(Q(q)+ρ) is
// concave and nondecreasing. With g for this function, q1 = g(g(q2)/t).
//
// If all votes are for the class, t > 1 gives a larger margin than t = 1, and t < 1 gives a smaller margin.
type ranks struct {
	quantiles
	t float64

	ends map[float64][2]float64 // cache of the frontier's end (q1, q2) for each margin; nil if there is no cache
}

// The method 'stays' reports whether t·F(a−ρ) exceeds F(b+ρ), where a = Q(q1) and b = Q(q2). If the factor 'safety' is
// above 1, the result 'true' is correct in spite of rounding errors. If this factor is below 1, the result 'false' is
// correct in spite of rounding errors.
func (s *ranks) stays(a, b, rho, safety float64) bool {
	p, errP := s.CDF(a - rho)
	q, errQ := s.CDF(b + rho)
	if safety > 1 {
		return s.t*p*(1-errP) >= q*(1+errQ)*safety && p > 1e-300
	}
	return s.t*p*(1+errP) >= q*(1-errQ)*safety
}

// rho returns a number ρ with t·F(a−ρ) ≥ F(b+ρ). It is at most 10⁻¹² below the largest such number. The result is −Inf
// if a is −Inf, if b is +Inf, or if the search finds no such number.
func (s *ranks) rho(a, b float64) float64 {
	if math.IsInf(a, -1) || math.IsInf(b, 1) {
		return math.Inf(-1)
	}
	middle := (a - b) / 2 // the answer for t = 1
	lo, hi := middle, middle
	for step := 0.125; !s.stays(a, b, lo, lift); step *= 2 {
		if step > 1e3 {
			return math.Inf(-1)
		}
		lo = middle - step
	}
	for step := 0.125; s.stays(a, b, hi, lift); step *= 2 {
		if step > 1e3 {
			return lo
		}
		hi = middle + step
	}
	for range 60 {
		mid := lo + (hi-lo)/2
		if s.stays(a, b, mid, lift) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

func (s *ranks) margin(a, b float64) float64 { return 2 * s.rho(s.low(a), -s.low(b)) }

func (s *ranks) oneSided(p float64) float64 { return s.margin(p, p) }

func (s *ranks) widest() float64 {
	most := s.Quantile(1)
	if math.IsInf(most, 1) || s.t == 1 {
		return 2 * most
	}
	return 2 * s.rho(most, s.Quantile(0))
}

// rise returns a number at or just above F(ρ + Q(F(z+ρ)/t)), and the derivative of this expression with respect to
// F(z).
func (s *ranks) rise(z, rho float64) (q1, slope float64) {
	w, _ := s.CDF(z + rho)
	w *= lift / s.t
	if w >= 1 {
		return 1, 0
	}
	inner := s.high(w)
	q1, _ = s.CDF(inner + rho)
	return q1 * lift, s.Slope(z, rho) / s.t * s.Slope(inner, rho)
}

func (s *ranks) end(margin float64) (q1, q2 float64) {
	if e, ok := s.ends[margin]; ok {
		return e[0], e[1]
	}
	rho := margin / 2
	beyond := func(z float64) bool {
		q1, _ := s.rise(z, rho)
		q2, _ := s.CDF(z)
		return q1+q2 >= 1
	}
	lo, hi := -rho, -rho // the answer for t = 1
	for step := 0.125; !beyond(hi); step *= 2 {
		hi = -rho + step
	}
	for step := 0.125; beyond(lo) && step < 1e3; step *= 2 {
		lo = -rho - step
	}
	for range 60 {
		if mid := lo + (hi-lo)/2; beyond(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	q1, _ = s.rise(hi, rho)
	q2, _ = s.CDF(hi)
	if s.ends != nil {
		s.ends[margin] = [2]float64{q1, q2}
	}
	return q1, q2
}

func (s *ranks) point(margin, y float64) (q1, q2, slope float64) {
	z := s.Quantile(y * y)
	q2, _ = s.CDF(z)
	q1, slope = s.rise(z, margin/2)
	return q1, q2, slope
}

func (s *ranks) reach(margin, q1 float64) float64 {
	rho := margin / 2
	back := func(q, slack float64) float64 {
		z := s.low(q) - rho
		z -= 8*unit*(math.Abs(z)+margin+1) + slack
		p, _ := s.CDF(z)
		return p
	}
	w := back(q1, 1e-9) * s.t
	if w >= 1 {
		return 1
	}
	return math.Sqrt(back(w, 1e-9))
}

// rankEvent returns the event {T ≥ T(a, b)}. Here T is the margin of the contest, computed from the bonferroni bounds
// on the two probabilities. The event includes every outcome that may tie with (a, b). The argument o must be a result
// of bonferroniOrder for s.quantiles.
func rankEvent(s *ranks, o *order, a, b int64) *event {
	level := s.rho(o.enclose(a).Lower, -o.enclose(o.n-b).Lower)
	e := &event{order: o, level: level, known: make(map[int64]*eventPage)}
	e.member = func(x1, x2 int64) bool {
		from, to := o.enclose(x1).Upper, o.enclose(o.n-x2).Upper
		return !math.IsInf(from, -1) && s.stays(from, -to, level, 1/lift)
	}
	return e
}
