package calib

import "math"

// quadraticDual is the dual bound of BinnedQuadratic as a function of μ.
type quadraticDual struct {
	bins      []quadraticBin
	lambda    float64
	x         float64
	kappa     float64
	variation float64
	observed  float64 // X
	guess     float64 // estimate of the best μ
	// Let p be the share of the scores that a bin holds. For this bin, the method 'peak' may return up to p·tolerance
	// more than the largest value that it found.
	tolerance float64
}

// dualPoint is the dual bound of BinnedQuadratic at one value of its parameter μ. It omits the summand ln(1/δ_b)/(nκ).
type dualPoint struct {
	mu float64
	// the bound without its variation term; in BinnedQuadratic: μ(X + x/λ) + Σ_b max_q {u_b(q) + (μ/λ) ln A_b(q)}
	gap   float64
	jumps float64 // ΣJ_b
	sum   float64
}

func newQuadraticDual(s *Sample, plan quadraticPlan, x, variation float64) *quadraticDual {
	n := float64(s.N())
	d := &quadraticDual{lambda: plan.lambda, x: x, kappa: quadraticKappa(n), variation: variation, tolerance: 1e-3 * plan.value}
	for i := range plan.bins {
		b := newQuadraticBin(s, &plan.bins[i], plan.lambda, d.kappa)
		d.observed += b.observed
		d.bins = append(d.bins, b)
	}
	_, d.guess = quadraticForecast(plan.bins, n, plan.lambda, x/plan.lambda+max(0, d.observed), variation)
	return d
}

// minimise returns the dual bound at a μ near the μ with the smallest bound. The dual bound is convex in μ. minimise
// uses golden-section search over ln μ.
func (d *quadraticDual) minimise() dualPoint {
	const golden, width, steps = 0.6180339887498949, 3.0, 14
	lo, hi := math.Log(d.guess)-width, math.Log(d.guess)+width
	left, right := hi-golden*(hi-lo), lo+golden*(hi-lo)
	atLeft, atRight := d.at(math.Exp(left)), d.at(math.Exp(right))
	for range steps {
		if atLeft.sum <= atRight.sum {
			hi, right, atRight = right, left, atLeft
			left = hi - golden*(hi-lo)
			atLeft = d.at(math.Exp(left))
		} else {
			lo, left, atLeft = left, right, atRight
			right = lo + golden*(hi-lo)
			atRight = d.at(math.Exp(right))
		}
	}
	if atLeft.sum <= atRight.sum {
		return atLeft
	}
	return atRight
}

// The method 'at' returns the dual bound at μ.
func (d *quadraticDual) at(mu float64) dualPoint {
	price := mu / d.lambda
	at := dualPoint{mu: mu, gap: mu*d.observed + price*d.x}
	jumps := make([]float64, len(d.bins))
	most := min(1, d.variation)
	for i := range d.bins {
		b := &d.bins[i]
		at.gap += b.peak(price, b.share*d.tolerance)
		// J_b is convex and J_b(0) = 0, so J_b(v) ≤ v·J_b(most)/most for 0 ≤ v ≤ most.
		if most > 0 {
			jumps[i] = b.jump(price, most) / most
		}
	}
	at.jumps = sumOfLargest(jumps, d.variation)
	at.sum = at.gap + at.jumps
	return at
}

// scale returns (1−e^{−κR})/(κR). Step 4 of BinnedQuadratic multiplies R by this factor to get the bound on CE.
func (d *quadraticDual) scale(r float64) float64 {
	x := d.kappa * r
	if math.Abs(x) < 1e-12 {
		return 1
	}
	return -math.Expm1(-x) / x
}
