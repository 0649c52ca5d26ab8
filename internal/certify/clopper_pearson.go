package certify

import "math"

// LowerBound is the one-sided Clopper–Pearson bound: a lower bound at level
// 1−α on the success probability p of a binomial of n trials with x successes,
// lower(x, n, α) = BetaInv(α; x, n−x+1), 0 for x = 0 (Clopper & Pearson 1934).
// It is the p at which P(Bin(n, p) ≥ x) = α; the number returned has been shown,
// by an enclosure of that tail, to have a tail ≤ α, so it is never above the
// bound, and below it by a relative 1e-9 at most.
//
// Domain: 0 ≤ x ≤ n, 0 < α < 1.
func LowerBound(x, n int64, alpha float64) float64 {
	p, _ := lowerBound(x, n, alpha)
	return p
}

// lowerBound returns LowerBound and the width, in ln p, of the last Newton step
// that led to it: about as far as the root can be.
func lowerBound(x, n int64, alpha float64) (best, width float64) {
	if x <= 0 {
		return 0, 0
	}
	// ln P is concave in ln p, with derivative x·b(x; n, p)/P. So Newton's method
	// on it lands at or under the root from anywhere and then climbs to it.
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
		tail := binomialTail(n, x, p)
		if tail.hi <= alpha {
			best = p
		}
		logTerm, _ := binomialLog(n, x, p, 1-p)
		logTail := math.Log(tail.hi)
		// Aim under α by four times the width of the enclosure, so that the last
		// step ends on the proved side.
		slack := 4*(tail.hi-tail.lo)/tail.hi + 0x1p-46
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

// lowerSpan encloses lower(x, n, α): the tail at lo is ≤ α, at hi ≥ α.
func lowerSpan(x, n int64, alpha float64) span {
	lo, width := lowerBound(x, n, alpha)
	if x <= 0 {
		return span{}
	}
	for ; lo > 0 && width < 1; width *= 2 {
		hi := lo * math.Exp(width)
		if hi >= 1 {
			break
		}
		if binomialTail(n, x, hi).lo >= alpha {
			return span{lo, hi}
		}
	}
	return span{lo, 1}
}

// UpperBound is the one-sided Clopper–Pearson upper bound at level 1−α,
// upper(x, n, α) = BetaInv(1−α; x+1, n−x) = 1 − lower(n−x, n, α), 1 for x = n.
// Never below that number.
func UpperBound(x, n int64, alpha float64) float64 {
	return math.Min(1, math.Nextafter(1-LowerBound(n-x, n, alpha), 2))
}

// lowerGuess is a starting point for LowerBound, in (0, 1): Wilson's interval.
func lowerGuess(x, n int64, alpha float64) float64 {
	z := -quantileNear(alpha)
	k, N := float64(x)-0.5, float64(n)
	centre := k + z*z/2
	spread := z * math.Sqrt(k*(N-k)/N+z*z/4)
	p := (centre - spread) / (N + z*z)
	return math.Min(math.Max(p, 1e-3*alpha/N), 1-1e-3/N)
}

// clopperPearson bounds the margin of the class with x of n votes as Cohen,
// Rosenfeld & Kolter (2019, CERTIFY) do: p_A ≥ p at level 1−α and p_B ≤ 1−p, so
// the second margin is at least 2Φ⁻¹(p), R2 = σΦ⁻¹(p), and the first 2p−1. It
// abstains unless p > ½.
func clopperPearson(kind MarginKind, x, n int64, alpha float64) bounded {
	p := LowerBound(x, n, alpha)
	b := bounded{bounds: map[string]float64{"p_a": RoundDown(p)}}
	if p <= 0.5 {
		return b
	}
	if kind == FirstMargin {
		b.margin = below(2*p - 1)
	} else {
		b.margin = 2 * quantileLow(p)
	}
	return b
}
