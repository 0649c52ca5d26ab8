package certify

import (
	"math"

	"github.com/rscert/rscert/internal/binomial"
)

// probability returns an upper bound on P_q(x1 ≥ t(x2)) for counts (x1, x2, x3) ~ Multinomial(n, (q1, q2, 1−q1−q2)):
//
//	Σ_x2 Bin(x2; n, q2) · S(x2),  S(x2) = P(Bin(n−x2, r) ≥ t(x2)),  r = q1/(1−q2).
//
// The sum runs from large x2 to small x2. In this order S rises, and every term is positive:
//
//	P(Bin(N+1, r) ≥ t) = P(Bin(N, r) ≥ t) + r·P(Bin(N, r) = t−1)
//	P(Bin(N, r) ≥ t−1) = P(Bin(N, r) ≥ t) + P(Bin(N, r) = t−1)
//
// Each term is the previous term times a factor, so K steps cause a relative error of at most 10K·unit. Two bounds
// cover the values of x2 outside the range of summation. Above this range, S is at most its value at the upper end.
// Below this range, S is at most 1, and the masses of x2 fall at least geometrically.
//
// Domain: q1, q2 ≥ 0, q1+q2 ≤ 1 up to rounding. The result decreases in q2 and increases in q1.
func (e *event) probability(q1, q2 float64) float64 {
	n := e.order.n
	if q2 <= 0 {
		return binomial.Tail(n, e.threshold(0, 0), q1).Upper
	}
	r := math.Max(q1/(1-q2)*(1+4*unit), 1e-300) // raising r raises S
	if !(r < 1) {
		return e.withoutRest(q2)
	}
	N := float64(n)
	top := e.last(q2)
	start, t, logp, errTerm := e.first(top, int64(N*q1), r)
	if start < 0 {
		// S(0) is the largest value of S. It is a sum of at most N terms, each below e⁻⁶⁰⁰.
		return math.Exp(tooSmall) * N
	}
	tail := binomial.Tail(n-start, t, r)
	s := tail.Upper
	term := math.Exp(logp)
	logw, errW := binomial.LogTerm(n, start, q2, 1-q2)
	if logw < -700 {
		return e.lowerTail(start, q2) + math.Exp(tooSmall)*N
	}
	w := math.Exp(logw)
	odds := (1 - q2) / q2
	rest := 1 - r
	sum := e.upperTail(start, top, w, odds, s)
	steps := 0
	x2 := start
	N2 := n - x2 // trials left for x1
	for {
		sum += w * s
		if x2 == 0 {
			break
		}
		if s > 1-0x1p-40 {
			// S is now within 2⁻⁴⁰ of 1, so the code adds the whole of P(X2 < x2) and ends the sum.
			sum += e.lowerTail(x2-1, q2)
			break
		}
		factor := float64(x2) * odds / float64(n-x2+1)
		if factor < 1 && w*factor < 0x1p-36*sum*(1-factor) {
			sum += w * factor / (1 - factor)
			break
		}
		w *= factor
		x2--
		next := e.threshold(x2, t)
		if t-next > 64 || term == 0 {
			t = next
			N2 = n - x2
			tail := binomial.Tail(N2, t, r)
			s = tail.Upper
			lp, le := binomial.LogTerm(N2, t, r, rest)
			term = math.Exp(lp)
			errTerm = math.Max(errTerm, le)
			steps++
			continue
		}
		d := float64(N2 + 1 - t)
		s += term * float64(t) * rest / d
		term *= float64(N2+1) * rest / d
		N2++
		steps++
		for ; t > next; t-- {
			term *= float64(t) * rest / (float64(N2-t+1) * r)
			s += term
			steps++
		}
		if s > 1 {
			s = 1
		}
	}
	rel := errTerm + errW + float64(10*steps+64)*unit
	return math.Min(1, sum*(1+2*rel))
}

// tooSmall is a limit for the logarithms of terms. For a term whose logarithm is below this limit, the code uses an
// upper bound instead of the term itself.
const tooSmall = -600

// The method 'last' returns the largest x2 in the range of summation (see the method 'probability').
func (e *event) last(q2 float64) int64 {
	n := e.order.n
	mean := float64(n) * q2
	sd := math.Sqrt(mean * (1 - q2))
	top := min(n, int64(math.Ceil(mean+8*sd+12)))
	for logw, _ := binomial.LogTerm(n, top, q2, 1-q2); logw < tooSmall && float64(top) > mean; {
		top = int64(mean + (float64(top)-mean)/2)
		logw, _ = binomial.LogTerm(n, top, q2, 1-q2)
	}
	return top
}

// The first term of S(x2) is P(Bin(n−x2, r) = t(x2)). S(x2) is called tiny if the logarithm of this term is below
// tooSmall and t(x2) is above the mean (n−x2)·r. The method 'first' returns the largest x2 ≤ top whose S(x2) is not
// tiny, or −1 if there is none. It also returns the number t(x2) for this x2, the logarithm of the first term of S(x2),
// and a bound on the error of the logarithm. For all larger x2, S(x2) is tiny, because t rises with x2. The argument
// 'near' is a guess of the number t(x2) that 'first' returns.
func (e *event) first(top, near int64, r float64) (x2, t int64, logp, err float64) {
	n := e.order.n
	logTerm := func(x2 int64) (t int64, logp, err float64) {
		t = e.threshold(x2, near)
		if t > n-x2 {
			return t, math.Inf(-1), 0
		}
		logp, err = binomial.LogTerm(n-x2, t, r, 1-r)
		return t, logp, err
	}
	if t, logp, err = logTerm(top); !(logp < tooSmall && float64(t) > float64(n-top)*r) {
		return top, t, logp, err
	}
	lo, hi := int64(-1), top // S(hi) is tiny
	for lo+1 < hi {
		mid := lo + (hi-lo)/2
		t, logp, _ = logTerm(mid)
		if logp < tooSmall && float64(t) > float64(n-mid)*r {
			hi = mid
		} else {
			lo = mid
		}
	}
	if lo < 0 {
		return lo, 0, 0, 0
	}
	t, logp, err = logTerm(lo)
	return lo, t, logp, err
}

// upperTail returns an upper bound on the sum of P(X2 = x2)·S(x2) over all x2 above 'start'. The arguments are w = P(X2
// = start) and s = S(start).
func (e *event) upperTail(start, top int64, w, odds, s float64) float64 {
	n := e.order.n
	switch {
	case start < top:
		return math.Exp(tooSmall) * float64(n) // upper bound on the whole sum above 'start'
	case start == n:
		return 0
	}
	// The variable 'mass' is an upper bound on P(X2 > start). If 'ratio' is below 1, the probabilities P(X2 = x2) above
	// 'start' fall at least as fast as a geometric series with this ratio. Above 'start', S(x2) is at most s, so the
	// sum is at most mass·s.
	mass := 1.0
	if ratio := float64(n-start) / (float64(start+1) * odds); ratio < 1 {
		mass = math.Min(1, w*ratio/(1-ratio))
	}
	return mass * s
}

// lowerTail returns an upper bound on P(X2 ≤ k).
func (e *event) lowerTail(k int64, q2 float64) float64 {
	n := e.order.n
	// P(X2 ≤ k) decreases in q2, and so increases in 1−q2. So 1−q2 is rounded up.
	return binomial.Tail(n, n-k, math.Nextafter(1-q2, 2)).Upper
}

// withoutRest returns an upper bound on the probability of the event for q1 = 1−q2. Then x1 = n−x2, so the event is
// t(x2) ≤ n−x2. This inequality holds for all x2 up to a certain value.
func (e *event) withoutRest(q2 float64) float64 {
	n := e.order.n
	lo, hi := int64(-1), n+1
	for lo+1 < hi {
		mid := lo + (hi-lo)/2
		if e.holds(n-mid, mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	if lo < 0 {
		return 0
	}
	return e.lowerTail(lo, q2)
}
