package certify

import (
	"math"
	"slices"
)

// Softmax turns k rows of m logits into k rows of m probabilities, p_j = exp(z_j/T) / Σ_i exp(z_i/T). The temperature T
// is above 0. Softmax first subtracts the largest logit of the row, so that nothing overflows. A class with the logit
// −∞ gets probability 0. A row without an answer (IsNone) becomes zeros: score 0 for every class. The two slices may be
// the same.
//
// The package has its own exponential, because math.Exp is assembly on some platforms, and scores must have the same
// bytes on all platforms.
func Softmax[F float32 | float64](logits, probs []F, m int, temperature float64) {
	var room [64]float64
	e := room[:]
	if m > len(e) {
		e = make([]float64, m)
	}
	for ; len(logits) >= m; logits, probs = logits[m:], probs[m:] {
		most := logits[0]
		for _, z := range logits[1:m] {
			most = max(most, z) // NaN if any z is NaN
		}
		if z := float64(most); math.IsNaN(z) || math.IsInf(z, 0) {
			clear(probs[:m])
			continue
		}
		var sum float64
		for j, z := range logits[:m] {
			e[j] = expNegative((float64(z) - float64(most)) / temperature)
			sum += e[j]
		}
		for j, v := range e[:m] {
			probs[j] = F(v / sum)
		}
	}
}

// Confidence returns the largest probability of a row of logits at the given temperature, or 0 for a row without an
// answer. This probability is the largest entry of the Softmax of the row, in float64.
func Confidence(logits []float32, temperature float64) float64 {
	if IsNone(logits) {
		return 0
	}
	most := float64(slices.Max(logits))
	var sum float64
	for _, z := range logits {
		sum += expNegative((float64(z) - most) / temperature)
	}
	return 1 / sum
}

// IsNone reports whether a row of logits or of probabilities is no answer: it contains NaN or +∞, or only −∞. Such a
// row votes for no class.
func IsNone(row []float32) bool {
	most := row[0]
	for _, z := range row[1:] {
		most = max(most, z) // NaN if any z is NaN
	}
	return most-most != 0
}

// ClearNone replaces every row without an answer (IsNone) by zeros, as Softmax does for logits. The argument probs
// holds k rows of m probabilities.
func ClearNone(probs []float32, m int) {
	for ; len(probs) >= m; probs = probs[m:] {
		if IsNone(probs[:m]) {
			clear(probs[:m])
		}
	}
}

// expNegative returns eˣ for x ≤ 0. Where eˣ is a normal float64, the relative error is at most 1e-15. For x < −745,
// expNegative returns 0.
//
// Let k = ⌊x/ln 2 + ½⌋ and r = x − k ln 2. Then |r| ≤ 0.3466 and eˣ = 2ᵏ·Σ rⁱ/i!. The first omitted term, r¹⁴/14!, is
// below 5e-18. ln 2 is split into two parts. The first part, ln2Hi, has trailing zeros, so that k·ln2Hi is exact. The
// explicit conversions keep compilers from fusing a product into a sum, which would change the last bit on some
// platforms.
func expNegative(x float64) float64 {
	if x < -745 {
		return 0
	}
	const ln2Hi, ln2Lo = 0x1.62e42feep-1, 0x1.a39ef35793c76p-33 // their sum is ln 2 (FreeBSD e_exp.c)
	k := math.Floor(float64(x*(1/math.Ln2)) + 0.5)
	r := (x - float64(k*ln2Hi)) - float64(k*ln2Lo)
	// This is Estrin's scheme, in pairs, fours and eights. It makes the products independent of each other, so the
	// processor can compute them in parallel.
	r2 := r * r
	r4 := r2 * r2
	pair := func(a, b float64) float64 { return a + float64(b*r) }
	p := (pair(1, 1) + float64(pair(1.0/2, 1.0/6)*r2)) +
		float64((pair(1.0/24, 1.0/120)+float64(pair(1.0/720, 1.0/5040)*r2))*r4) +
		float64((pair(1.0/40320, 1.0/362880)+float64(pair(1.0/3628800, 1.0/39916800)*r2)+
			float64(pair(1.0/479001600, 1.0/6227020800)*r4))*float64(r4*r4))
	if k < -1022 {
		return math.Ldexp(p, int(k))
	}
	return p * math.Float64frombits(uint64(1023+int64(k))<<52)
}

// Retemper turns k rows of m probabilities at temperature 1 into probabilities at temperature T, in place. The
// logarithm of a softmax equals the logits up to a constant. So the new probabilities are p^(1/T), normalised, where T
// is the argument 'temperature'. Retemper cannot restore the precision that float32 lost. A probability that was
// rounded to 0 stays 0, and a row of zeros stays a row of zeros.
func Retemper(probs []float32, m int, temperature float64) {
	if temperature == 1 {
		return
	}
	for i, p := range probs {
		probs[i] = float32(math.Log(float64(p)))
	}
	Softmax(probs, probs, m, temperature)
}
