package binomial

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// MinLevel is the smallest α that LowerBound, LowerSpan and UpperBound accept. The proofs of the relative rounding
// errors need normal float64 numbers. Tails near MinLevel are far above the smallest normal number.
const MinLevel = 1e-100

// LowerBound returns the one-sided Clopper–Pearson bound. This is a lower bound at level 1−α on the success probability
// p, if x of n trials succeeded. The bound is lower(x, n, α) = BetaInv(α; x, n−x+1), or 0 for x = 0 (Clopper & Pearson
// 1934; DLMF 8.17.5 gives the tail P(Bin(n, p) ≥ x) as an incomplete beta function). For x > 0 the bound is the p at
// which P(Bin(n, p) ≥ x) = α. An enclosure proves that the tail at the returned number is ≤ α. So the returned number
// never exceeds the exact bound. Its relative distance from the exact bound is at most 1e-9.
//
// Domain: 0 ≤ x ≤ n, MinLevel ≤ α < 1.
func LowerBound(x, n int64, alpha float64) float64 {
	p, _ := lowerBound(x, n, alpha)
	return p
}

// lowerBound computes two numbers. The result 'best' is the bound that LowerBound returns. The result 'width' estimates
// the distance, in ln p, from 'best' to the exact bound. LowerSpan starts its search for the upper end with 'width'.
func lowerBound(x, n int64, alpha float64) (best, width float64) {
	if x <= 0 {
		return 0, 0
	}
	// Let P = P(Bin(n, p) ≥ x). Then ln P is concave in ln p, with derivative x·P(Bin(n, p) = x)/P. So from any start
	// the first step of Newton's method ends at or below the root, and the further steps climb to the root.
	logAlpha := math.Log(alpha)
	u := math.Log(lowerGuess(x, n, alpha))
	for range 100 {
		p := math.Exp(u)
		if !(p > best) {
			break
		}
		if !(p < 1) {
			p = 1 - unit
		}
		tail := Tail(n, x, p)
		if tail.Upper <= alpha {
			best = p
		}
		logTerm, _ := LogTerm(n, x, p, 1-p)
		logTail := math.Log(tail.Upper)
		// Newton's method aims at a tail slightly below α. The relative difference between this target and α is 2⁻⁴⁶
		// plus four times the relative width of the enclosure. So after the last step, the tail is proved to be ≤ α.
		slack := 4*(tail.Upper-tail.Lower)/tail.Upper + 0x1p-46
		gap := logAlpha - slack - logTail
		scale := math.Exp(logTail-logTerm) / float64(x)
		width = 3*slack*scale + 8*unit
		if math.Abs(gap) < slack && best == p {
			break
		}
		u += gap * scale
	}
	return best, width
}

// LowerSpan encloses lower(x, n, α): the tail is ≤ α at the lower end and ≥ α at the upper end.
func LowerSpan(x, n int64, alpha float64) Span {
	lo, width := lowerBound(x, n, alpha)
	if x <= 0 {
		return Span{}
	}
	for ; lo > 0 && width < 1; width *= 2 {
		hi := lo * math.Exp(width)
		if hi >= 1 {
			break
		}
		if Tail(n, x, hi).Lower >= alpha {
			return Span{lo, hi}
		}
	}
	return Span{lo, 1}
}

// UpperBound returns the one-sided Clopper–Pearson upper bound at level 1−α: upper(x, n, α) = BetaInv(1−α; x+1, n−x) =
// 1 − lower(n−x, n, α), or 1 for x = n. The result is never below the exact bound.
func UpperBound(x, n int64, alpha float64) float64 {
	return math.Min(1, math.Nextafter(1-LowerBound(n-x, n, alpha), 2))
}

// lowerGuess returns a starting point for LowerBound: the lower end of Wilson's interval for k = x − ½ successes.
// Domain: 0 < x ≤ n. This end is in (0, 1) for 0 < k < n, because the product of the two ends of the interval is
// k²/(n(n+z²)).
func lowerGuess(x, n int64, alpha float64) float64 {
	z := -mathext.NormalQuantile(alpha)
	k, N := float64(x)-0.5, float64(n)
	centre := k + z*z/2
	spread := z * math.Sqrt(k*(N-k)/N+z*z/4)
	return (centre - spread) / (N + z*z)
}
