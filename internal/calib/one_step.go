package calib

import "math"

// oneStep computes a bound on the calibration error from a number A. A belongs to a partition: it is the sum of the
// partition's mean gap and the partition's remainder (both are defined below). BinnedVariation and BinnedLipschitz use
// oneStep.
//
// For both bounds, the partition depends on the scores alone. The mean gap is F(y) = (1/n)Σ|s_i − (Πy)_i|. Here Π is an
// orthogonal projection of the labels, to bin means or to lines fitted in the bins. The remainder is R ≥ (1/n)Σ|η_i −
// (Πη)_i| with η_i = η(s_i). So A = F(y) + R and
//
//	(1/n)Σ|s_i−η_i| ≤ F(η) + R.
//
// F is convex. Its subgradient at η has coefficients h_i/n, where h = Π·sign(Πη − s). Given the scores, the h_i are
// fixed numbers, with Σh_i² ≤ n for every projection and |h_i| ≤ 1 for bin means. The inequality F(y) ≥ F(η) +
// (1/n)Σh_i(y_i−η_i) implies
//
//	A ≥ (1/n)ΣW_i,  W_i = |s_i−η_i| + h_i(y_i−η_i).
//
// Given the scores, the labels are independent, and W_i has mean |s_i−η_i|. So A is at least the average of n variables
// with mean CE. It remains to bound how far this average can fall below CE.
//
// For bin means: E[e^{−λΣW} | scores] is a product, and each factor is convex in h_i. So the product is largest at h_i
// = ±1, and
//
//	E e^{−λΣW} ≤ (E e^{−λW*})ⁿ,  W* = |s−η| ± (y−η), where the sign is a function of s,
//
// although each h_i depends on all scores. W* has mean CE, W* ≥ −1, and E W*² = E(s−η)² + E η(1−η) = E(s−y)² = β, the
// Brier score. So Bennett's inequality in Hoeffding's form (1963, Theorem 3) holds with the variance v = β − c² and the
// upper limit 1 + c for c − W*:
//
//	P(A ≤ c − t) ≤ exp(−n·kl((v+(1+c)t)/((1+c)²+v) ‖ v/((1+c)²+v))),  c = CE.
//
// For every projection (to bin means or to lines), the labels give E[e^{−λΣh(y−η)} | scores] ≤ e^{λ²Σh²/8} ≤ e^{nλ²/8}
// (Hoeffding's lemma). The scores give E e^{−λ|s−η|} ≤ 1 − c + c·e^{−λ} (convexity). Together these give
//
//	P(A ≤ a) ≤ exp(−n·sup_λ [−λa − λ²/8 − ln(1−c+c·e^{−λ})]).
//
// For every c, the right side is at most e^{−nt²} with t = c − a. If c is near ½, the right side is close to this
// value. If c is far from ½, the right side is clearly smaller than this value.
//
// The exponents of both bounds on P (the first for bin means, the second for every projection) increase in c. The
// second exponent increases because 1 − c + c·e^{−λ} decreases in c. The first exponent is sup_λ [−λa − ln φ(c)], where
// φ(c) is the largest E e^{−λW} over W ≥ −1 with mean c and E W² ≤ β. A law on two points attains φ(c): W is −1 with
// probability p, and x = (c+p)/(1−p) ≥ 0 otherwise. So φ(c) = a₀ + a₁c + a₂β, where q(w) = a₀ + a₁w + a₂w², a₂ ≥ 0,
// touches e^{−λw} at x. The derivative of φ in c is a₁ = −λe^{−λx} − 2a₂x < 0. So the values of c that the data do not
// refute form an interval [0, c⁺], which bisection finds. Because CE² ≤ β, values of c above √β are refuted as well.
//
// Failure probabilities: there are K pairs, each of one partition and one kind of projection (bin means or lines). The
// bound of each pair fails with probability at most δ₁/K. Each exponent refutes c if A is below some limit. These
// limits do not depend on the data, so both exponents may use δ₁ in full, and the larger exponent is valid. β is
// unknown. Its upper bound fails with probability at most δ₂ = δ/10, and δ₁ = δ − δ₂. (If the second exponent used δ,
// this exponent and the bound on β could together fail with probability δ + δ₂.)
type oneStep struct {
	n      float64
	brier  float64 // β⁺, the upper bound on β
	budget float64 // ln(K/δ₁)/n
}

const brierShare = 0.1 // δ₂/δ

func newOneStep(s *Sample, delta float64, candidates int) oneStep {
	n := float64(s.N())
	return oneStep{
		n:      n,
		brier:  klAbove(s.brier()+meanRoundoff(s.N()), math.Log(1/(brierShare*delta))/n),
		budget: math.Log(float64(candidates)/((1-brierShare)*delta)) / n * (1 + 1e-9),
	}
}

// The method 'population' returns c⁺ for A = a (see oneStep). c⁺ is an upper bound on CE: the largest value of CE that
// the data do not refute. If the argument 'means' is true, the projection gives bin means, so |h_i| ≤ 1.
func (o oneStep) population(a float64, means bool) float64 {
	return o.largest(a, func(c float64) float64 {
		e := mixedExponent(a, c)
		if means {
			e = max(e, bennettExponent(c-a, o.brier-c*c, 1+c))
		}
		return e
	})
}

// The method 'sample' returns an upper bound on c for A = a. Here c is the mean of |s_i − η(s_i)| over the scores of
// the sample. Given the scores, c is fixed and only the labels are random. For bin means, the variables h_i(y_i−η_i)
// are at least −1, and the average of their variances is at most β − c², where β is the mean of E(s_i−y_i)².
// Hoeffding's Theorem 3 and the bound on β do not require identically distributed variables. For bin means and for
// lines, Hoeffding's inequality for the labels gives P(A ≤ a) ≤ e^{−2nt²} with t = c − a.
func (o oneStep) sample(a float64, means bool) float64 {
	return o.largest(a, func(c float64) float64 {
		e := 2 * (c - a) * (c - a)
		if means {
			e = max(e, bennettExponent(c-a, o.brier-c*c, 1))
		}
		return e
	})
}

// The method 'largest' returns the largest c from a to min(1, √β⁺) with exponent(c) ≤ o.budget. If a is not below
// min(1, √β⁺), it returns min(1, a). The function 'exponent' must increase in c.
func (o oneStep) largest(a float64, exponent func(c float64) float64) float64 {
	hi := min(1, math.Sqrt(o.brier))
	if a >= hi || exponent(hi) < o.budget {
		return max(hi, min(1, a))
	}
	lo := a
	for range 60 {
		if c := (lo + hi) / 2; exponent(c) >= o.budget {
			hi = c
		} else {
			lo = c
		}
	}
	return hi
}

// bennettExponent returns kl((v+ct)/(c²+v) ‖ v/(c²+v)). Let n independent variables have mean 0, variance ≤ v and
// values ≤ c. By Hoeffding's bound, the probability that the mean of the variables is t or more is at most
// exp(−n·bennettExponent).
func bennettExponent(t, v, c float64) float64 {
	switch {
	case t <= 0:
		return 0
	case v <= 0:
		return math.Inf(1)
	}
	return klBernoulli((v+c*t)/(c*c+v), v/(c*c+v))
}

// mixedExponent returns sup_λ [−λa − λ²/8 − ln(1−c+c·e^{−λ})] over λ ≥ 0. The expression is concave in λ. Its value at
// any λ gives a valid bound, so the search for the best λ may be inexact.
func mixedExponent(a, c float64) float64 {
	if c <= a {
		return 0
	}
	value := func(l float64) float64 { return -l*a - l*l/8 - math.Log1p(c*math.Expm1(-l)) }
	// At λ = 4(c−a) the slope −a − λ/4 + c·e^{−λ}/(1−c+c·e^{−λ}) is 0 or less, so the maximum lies at a smaller or
	// equal λ.
	lo, hi := 0.0, 4*(c-a)
	for range 40 {
		l := (lo + hi) / 2
		if e := c * math.Exp(-l); e/(1-c+e)-a-l/4 > 0 {
			lo = l
		} else {
			hi = l
		}
	}
	return value(lo)
}

// klBernoulli returns kl(q‖p) = q·ln(q/p) + (1−q)·ln((1−q)/(1−p)).
func klBernoulli(q, p float64) float64 {
	sum := 0.0
	if q > 0 {
		sum += q * math.Log1p((q-p)/p)
	}
	if q < 1 {
		sum += (1 - q) * math.Log1p((p-q)/(1-p))
	}
	return sum
}

// klAbove returns the largest p with kl(mean‖p) ≤ budget. Let the argument 'mean' be the mean of n independent
// variables in [0, 1], and let the budget be ln(1/δ)/n. Then p is an upper bound at level 1−δ on the mean of the
// variables' expectations (Hoeffding 1963, Theorem 1).
func klAbove(mean, budget float64) float64 {
	if mean >= 1 {
		return 1
	}
	lo, hi := mean, 1.0
	for range 60 {
		if p := (lo + hi) / 2; klBernoulli(mean, p) > budget {
			hi = p
		} else {
			lo = p
		}
	}
	return hi
}
