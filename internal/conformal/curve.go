package conformal

import (
	"math"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/law"
)

// The constant 'unit' is the unit round-off of float64.
const unit = 0x1p-53

// The constant 'least' is the smallest probability above 0 that the bounds on F use. It is far above the subnormal
// numbers.
const least = 1e-300

// The constant 'farthest' is the largest |z| for which the proofs evaluate F(z).
const farthest = 35

// A target is the function (H∘g)^Q. For Q submissions of a query, it is the right side of the theorem's condition (for
// Q = 1, see the package comment). Probabilities are written p = F(z), where F is the distribution function of the law,
// so that g(F(z)) = F(z − shift). The methods that return bounds round outward.
type target struct {
	law law.Additive
	// ρ·(1 + 2⁻⁴⁸); the factor covers the rounding errors of the radii, of their sum, of the scale and of the quotient
	shift   float64
	draws   int64 // m′
	need    int64 // t′
	queries int64 // Q
}

// newTarget returns the target for sets that contain a class if at least t′ of its m′ scores reach the threshold. The
// argument 'draws' is m′, and the argument 'need' is t′.
func newTarget(l law.Additive, shift float64, draws, need, queries int64) target {
	return target{l, shift * (1 + 0x1p-48), draws, need, queries}
}

func down(x float64) float64 { return math.Nextafter(x, math.Inf(-1)) }
func up(x float64) float64   { return math.Nextafter(x, math.Inf(1)) }

// The method 'low' returns a lower bound on F(z). For z < −farthest it returns 0. For z > farthest it returns a lower
// bound on F(farthest).
func (g target) low(z float64) float64 {
	if z < -farthest {
		return 0
	}
	p, e := g.law.CDF(math.Min(z, farthest))
	if p < least {
		return 0
	}
	return p * (1 - e)
}

// The method 'high' returns an upper bound on F(z), at most 1.
func (g target) high(z float64) float64 {
	if math.IsInf(z, 1) {
		return 1
	}
	p, e := g.law.CDF(math.Max(z, -farthest))
	return math.Min(1, math.Max(p, least)*(1+e))
}

// attackedLow returns a lower bound on g(p) for all p ≥ F(z). The smallest of these g(p) is g(F(z)) = F(z − ρ).
func (g target) attackedLow(z float64) float64 { return g.low(down(z - g.shift)) }

// attackedMiss returns an upper bound on 1 − g(p) for all p ≥ F(z). The largest of these values is 1 − F(z − ρ) = F(ρ −
// z), because the law is symmetric.
func (g target) attackedMiss(z float64) float64 { return g.high(up(g.shift - z)) }

// floor returns a lower bound on (H∘g)^Q for all p ≥ F(z).
func (g target) floor(z float64) float64 {
	return powerDown(binomial.Tail(g.draws, g.need, g.attackedLow(z)).Lower, g.queries)
}

// missCeiling returns an upper bound on 1 − (H∘g)^Q for all p ≥ F(z). The bound is accurate where (H∘g)^Q is close to
// 1. With h = 1 − H∘g, the function 1 − (H∘g)^Q equals 1 − (1−h)^Q, which is at most Qh.
func (g target) missCeiling(z float64) float64 {
	h := binomial.Tail(g.draws, g.draws-g.need+1, g.attackedMiss(z)).Upper
	if g.queries == 1 || h >= 1 {
		return h
	}
	return math.Min(up(float64(g.queries)*h), up(1-powerDown(down(1-h), g.queries)))
}

// powerDown returns a lower bound on x^q for 0 ≤ x ≤ 1, q ≥ 1. It computes x^q by repeated squaring. Each product adds
// one rounding to the relative errors of its factors, so the relative error of x^q is at most 2q·unit.
func powerDown(x float64, q int64) float64 {
	if q == 1 {
		return x
	}
	y := 1.0
	for n := q; n > 0; n /= 2 {
		if n%2 == 1 {
			y *= x
		}
		x *= x
	}
	if y < least {
		return 0
	}
	return y * (1 - 4*float64(q)*unit)
}
