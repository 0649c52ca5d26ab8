package calib

import (
	"math"

	"github.com/rscert/rscert/internal/binomial"
)

// BinnedBentkus returns an upper bound on the calibration error. It makes the same assumption as BinnedVariation and
// uses the same partitions. Two parts of its concentration step are sharper than in BinnedVariation:
//
//   - The inequality of Bentkus (2004) replaces Bennett's (see bentkusTail).
//   - Partition k gets the share w_k of δ₁ in place of the share 1/K. The share w_k is proportional to 1/(1+(k−k*)²)
//     with k* = log₂(2.5·n^⅓). The best partition is near k* for a calibrated classifier. The shares depend on n only.
//
// Let A_k be the number A of oneStep for partition k, and let c_k be the largest c that A_k does not refute at level
// w_k·δ₁. Then CE ≤ min_k c_k with probability ≥ 1−δ.
//
// Proof that Bentkus' inequality applies to the number A of the comment of oneStep. Let f(u) = (u−τ)₊². Given the
// scores, E f(Σ(c−W_i)) is convex in each h_i, so it is largest at some h_i = ±1. For such an h_i, the term
// −h_i(y_i−η_i) of c−W_i takes one of two values. Its mean is 0, and its variance is η_i(1−η_i). Choose the sign of h_i
// that makes the larger of these two values as large as possible. By the lemma of bentkusTail, this sign gives the
// larger E f, whatever the other summands are. This sign depends on η_i alone. Let W*_i be W_i with this sign as h_i.
// Then E f(Σ(c−W_i)) ≤ E f(Σ(c−W*_i)). The c − W*_i are independent, identically distributed and at most 1+c. Their
// mean is 0, and their variance is at most β − c².
//
// For each level, the largest c that A_k does not refute is well defined. To see this, take the maximum of E (τ'−ΣW*)₊²
// over all W* ≥ −1 with mean c and E W*² ≤ β. This maximum decreases in c. The proof in oneStep holds with (τ'−w)₊² in
// place of e^{−λw}.
func BinnedBentkus(s *Sample, delta, variation float64) (Bound, error) {
	if err := checkVariation(s, delta, variation); err != nil {
		return Bound{}, err
	}
	n := float64(s.N())
	share := partitionShares(s.N())
	best, value, ofSample := candidate{gap: math.Inf(1)}, math.Inf(1), 1.0
	step := newOneStep(s, delta, 1)
	s.eachPartition(func(k int, bins []bin) {
		remainder := variationRemainder(bins, variation) / n
		if remainder >= value {
			return
		}
		c := candidate{gap: s.meanGap(bins), remainder: remainder, bins: len(bins)}
		o := step.withShare(share[k])
		ofSample = min(ofSample, o.sample(c.sum(), true))
		if v := o.populationBentkus(c.sum()); v < value {
			best, value = c, v
		}
	})
	terms := Terms{{"gap", best.gap}, {"variation", best.remainder}, {"concentration", max(0, value-best.sum())}}
	chosen := Terms{{"bins", float64(best.bins)}, {"brier", step.brier}}
	eps := binnedRoundoff(n)
	b, err := newBound(terms, chosen, delta, eps, true)
	b.OfSample = min(1, ofSample+eps)
	return b, err
}

// partitionShares returns the shares w_k of BinnedBentkus for a sample of n points. Their sum is 1.
func partitionShares(n int) []float64 {
	likely := math.Log2(2.5 * math.Cbrt(float64(n)))
	w, sum := make([]float64, partitions(n)), 0.0
	for k := range w {
		d := float64(k) - likely
		w[k] = 1 / (1 + d*d)
		sum += w[k]
	}
	for k := range w {
		w[k] /= sum
	}
	return w
}

// withShare returns a copy of o in which the failure probability δ₁ is multiplied by w.
func (o oneStep) withShare(w float64) oneStep {
	o.budget += math.Log(1/w) / o.n * (1 + 1e-9)
	return o
}

// populationBentkus returns the same bound as o.population(a, true), except that Bentkus' inequality replaces
// Bennett's.
func (o oneStep) populationBentkus(a float64) float64 {
	return o.largest(a, func(c float64) float64 {
		return max(mixedExponent(a, c), -math.Log(bentkusTail(int(o.n), c-a, o.brier-c*c, 1+c))/o.n)
	})
}

// bentkusTail returns an upper bound on P(ΣU_i ≥ n·t) for t > 0. The n variables U_i ≤ c are independent and
// identically distributed. Their mean is 0, and their variance is at most v. The bound is (Bentkus 2004):
//
//	inf_{τ < nt} E(S−τ)₊² / (nt−τ)²,
//
// where S is the sum of n independent variables. Each of them is c with probability v/(c²+v), and −v/c otherwise.
//
// Lemma: E(U−τ)₊² ≤ E(T−τ)₊², where U is one of the U_i, and T is one of the summands of S. Proof: if τ < −v/c,
// E(U−τ)₊² ≤ E(U−τ)² ≤ v+τ² = E(T−τ)₊². Otherwise let w(u) = (c−τ)(u+v/c)/(c+v/c). w equals u−τ at u = c, and its slope
// is at most 1, so w(u)² ≥ (u−τ)₊² for u ≤ c. And E w(U)² ≤ (c−τ)²v/(c²+v) = E(T−τ)₊². ∎ By the lemma, the U_i can be
// replaced one at a time by the summands of S. The bound then follows by Markov's inequality. The resulting bound is at
// most Hoeffding's bound, because e^{λu} is a mixture of functions (u−τ)₊².
//
// S is a linear function of a binomial variable B. The event S ≥ nt is B ≥ x with x = n(v+ct)/(c²+v). The sums M_r =
// Σ_{j≥k} (j−k)^r P(B=j) contain only positive terms. The code adds up these terms for k = ⌈x⌉. A geometric series
// bounds the omitted terms, because the ratio of neighbouring terms decreases. From here on, τ is on the scale of B,
// and u = k−τ. The code then lowers k until the best τ lies between k−1 and k. For such a τ,
//
//	E(B−τ)₊²/(x−τ)² = (M_2 + 2uM_1 + u²M_0)/(x−k+u)²,  smallest at u = (M_2−aM_1)/(aM_0−M_1), a = x−k.
//
// Every τ gives a valid bound, so the choice of τ may be inexact.
func bentkusTail(n int, t, v, c float64) float64 {
	switch {
	case t <= 0:
		return 1
	case v <= 0:
		return 0
	}
	p, q := v/(c*c+v), c*c/(c*c+v)
	x := float64(n) * (v + c*t) / (c*c + v) * (1 - 1e-15)
	top := math.Ceil(x)
	if top >= float64(n) {
		top, x = float64(n), min(x, float64(n))
	}
	logp, absErr := binomial.LogTerm(int64(n), int64(top), p, q)
	// The factor 1+1e-9 covers the rounding errors of the sums. Each step multiplies by a ratio with a relative error
	// of a few times 2⁻⁵³, and there are at most a few times √n steps.
	return min(1, tailMoments(float64(n), top, q/p).least(x, q/p)*math.Exp(logp+absErr)*(1+1e-9))
}

// upperMoments holds P(B = k) and the sums M_0, M_1 and M_2 of bentkusTail for one k. All four numbers are divided by
// P(B = ⌈x⌉).
type upperMoments struct {
	n, k       float64
	term       float64 // P(B = k)/P(B = ⌈x⌉)
	m0, m1, m2 float64
}

// tailMoments returns the sums of bentkusTail for k, divided by P(B = k). The argument 'odds' is (1−p)/p.
func tailMoments(n, k, odds float64) upperMoments {
	m := upperMoments{n: n, k: k, term: 1, m0: 1}
	term := 1.0
	for d := 1.0; k+d <= n; d++ {
		ratio := (n - k - d + 1) / ((k + d) * odds)
		term *= ratio
		m.m0 += term
		m.m1 += d * term
		m.m2 += d * d * term
		// For i ≥ 1, the term at d+i is at most term·ratio^i, and (d+i)² ≤ (d+1)²i². So Σ_{i≥1} (d+i)²·term·ratio^i is
		// at most 'rest'.
		if rest := term * (d + 1) * (d + 1) * 2 * ratio / math.Pow(1-ratio, 3); ratio < 1 && rest < 1e-12*m.m0 {
			m.m0, m.m1, m.m2 = m.m0+rest, m.m1+rest, m.m2+rest
			break
		}
	}
	return m
}

// least returns the smallest value of E(B−τ)₊²/(x−τ)² over τ, divided by P(B = ⌈x⌉).
func (m upperMoments) least(x, odds float64) float64 {
	for {
		a := x - m.k
		u := 1.0
		if d := a*m.m0 - m.m1; d > 0 {
			u = max(0, (m.m2-a*m.m1)/d)
		}
		if u < 1 || m.k < 1 {
			return (m.m2 + 2*u*m.m1 + u*u*m.m0) / ((a + u) * (a + u))
		}
		m.term *= m.k * odds / (m.n - m.k + 1)
		m.m2 += 2*m.m1 + m.m0
		m.m1 += m.m0
		m.m0 += m.term
		m.k--
	}
}
