package certify

import "math"

// The combination 'taylor' is the method of Moutaouakil 2024, §5.3, as the paper prints it. It bounds the second margin
// Φ⁻¹(p_A) − Φ⁻¹(p_B), where p_A and p_B are the mean scores of the class A and of the runner-up B. The method replaces
// Φ⁻¹ by its Taylor polynomial Φ_M⁻¹ at ½, because the polynomial is bounded on [0,1]. The method first tests at α/2
// that the mean of X^A is above ½. Then it bounds the mean of Φ_M⁻¹(X^A) − max_j Φ_M⁻¹(X^j) from below at α/2. If the
// test fails, the method falls back to Bonferroni. This implementation divides α as follows. The bound on the mean of
// Φ_M⁻¹(X^A) − max_j Φ_M⁻¹(X^j) uses α/2. Bonferroni uses the remaining α/2, which is α/4 for each of its two bounds.
// The test uses Bonferroni's lower bound on the mean of X^A, so it runs at α/4.
//
// The method is not sound. Φ⁻¹ and its polynomials of odd order are convex above ½, so by Jensen's inequality the mean
// of Φ_M⁻¹(X) lies above Φ_M⁻¹ of the mean of X. So the method overestimates the margin from which the radius follows.
// For example, let X^A be ½ or 1 with probability ½ each, and X^B = 1−X^A. The second margin is 2Φ⁻¹(¾) = 1.35, but the
// mean of Φ_M⁻¹(X^A) − Φ_M⁻¹(X^B) is Φ_M⁻¹(1), which is 1.88 for M = 7. (A method with only the linear term would be
// sound, but weaker than Projected.)
//
// The paper leaves M open; here M = 7. The samples are rescaled from the range of the polynomial's differences,
// [−2Φ_M⁻¹(1), 2Φ_M⁻¹(1)], to [0,1].

// probitTaylor is Φ_7⁻¹(p) = √2·erfinv_7(2p−1), from erfinv z = (√π/2)(z + (π/12)z³ +
// (7π²/480)z⁵ + (127π³/40320)z⁷ + …) (DLMF 7.17.2).
func probitTaylor(p float64) float64 {
	z := 2*p - 1
	s := z * z
	return math.Sqrt(math.Pi/2) * z * (1 + s*(math.Pi/12+s*(7*math.Pi*math.Pi/480+s*127*math.Pi*math.Pi*math.Pi/40320)))
}

// taylorSample returns the rescaled sample for the score a of A and the score b of A's strongest rival.
func taylorSample(a, b float64) float64 {
	top := 2 * probitTaylor(1)
	return min(max((probitTaylor(a)-probitTaylor(b)+top)/(2*top), 0), 1)
}

// taylorMargin returns the margin that follows from 'lower', a lower bound on the mean of the rescaled samples (see
// taylorSample).
func taylorMargin(lower float64) float64 { return (2*lower - 1) * 2 * probitTaylor(1) }
