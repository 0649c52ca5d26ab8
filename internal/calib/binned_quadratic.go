package calib

import (
	"math"
)

// BinnedQuadratic returns an upper bound on the calibration error of a classifier. Like BinnedVariation, it assumes
// that the calibration function η has a total variation of at most V. Near calibration the distance between the bound
// and the error is of order n^{−2/5}, compared with n^{−1/3} for BinnedVariation. The reason is that one statistic, X,
// covers the squared gaps g² of all bins together (see below). For larger errors BinnedVariation is better.
//
// The bins b depend on the scores alone. A bin has m scores with mean s̄, and N of its labels are 1. Let η̄ be the mean
// of η_i = η(s_i) in the bin, and let V_b be the variation of η in the bin. Let g = s̄−η̄, p = m/n and d_i = s_i−η_i.
// The statistic of the bin is
//
//	X_b(N) = (m·s̄−N)²/m − N(m−N)/(m(m−1)),  E X_b = m·g² − var_b(η)·m/(m−1),  X = ΣX_b.
//
// 1. Given the scores, the labels are independent. Put G_b = −(1/λ) ln E e^{−λX_b}. By Markov's inequality, ΣG_b ≤ X +
// x/λ with probability ≥ 1−e^{−x}.
//
// 2. Put φ(N) = e^{−λX_b(N)}. Let A_b(q) be the value of E φ if each of the m labels is 1 with the same probability q.
// Then E φ ≤ A_b(η̄)·exp(ρ·m·var_b(η)/2). Proof: E φ is linear in each η_i and symmetric. Let R be the sum of all
// labels of the bin except the labels of i and j. Let Δ²φ(R) = φ(R) − 2φ(R+1) + φ(R+2). If η_i and η_j are replaced by
// their mean, E φ falls by at most E[−Δ²φ(R)]·(η_i−η_j)²/4. The second difference of X_b is 2/(m−1), so φ(R)φ(R+2) =
// r²φ(R+1)² with r = e^{−λ/(m−1)}. Define z by φ(R) = r·z·φ(R+1); then φ(R+2) = (r/z)·φ(R+1). So −Δ²φ(R) = φ(R+1)(2 −
// r(z+1/z)), which is at most φ(R+1)(2−2r). −Δ²φ(R) is positive only if z+1/z < 2/r, that is, |ln z| < w = arcosh(1/r).
// For such z, φ(R), φ(R+1) and φ(R+2) are at least r·e^{−w}·φ(R+1). So −Δ²φ(R) ≤ ρ·E φ(R+Y) for the sum Y of any two
// labels, with ρ = 2(1/r−1)e^w. Each replacement changes E φ by a factor of at least 1/(1+ρ(η_i−η_j)²/4), and lowers
// Ση_i² by (η_i−η_j)²/2. Repeated replacements bring all probabilities to η̄ in the limit, and Ση_i² has then fallen by
// m·var_b(η). ∎
//
// 3. mean_b|d| ≤ f_b(η̄) + e_b·V_b with f_b(q) = mean_b|s_i−q|, and mean_b d² ≤ g² + (sd_b(s) + V_b·√(e_b/2))². Here
// e_b is 2w(1−w) if one score has a share w > ½ of the bin, and ½ otherwise. The mean absolute deviation of the η_i is
// at most e_b·V_b (see BinnedVariation). By the same argument, their variance is at most e_b·V_b²/2.
//
// 4. Let κ ∈ (0, 1) and ω = (−ln(1−κ)−κ)/κ². Then e^{−u−ωu²} ≤ 1−u for 0 ≤ u ≤ κ, because (−ln(1−u)−u)/u² increases in
// u. So E e^{−κ|d|−ωκ²d²} ≤ 1−κ·CE. Let δ_b = 0.03δ (this index b does not stand for a bin). By Markov's inequality,
// with probability ≥ 1−δ_b,
//
//	−ln(1−κ·CE)/κ ≤ R,  R = (1/n)Σ|d_i| + ωκ(1/n)Σd_i² + ln(1/δ_b)/(nκ).
//
// So CE ≤ (1−e^{−κR})/κ, which is about R − κR²/2. The scores are random in this step, so κ must not depend on them.
// quadraticKappa depends on n only.
//
// 5. Steps 1 and 2 say which values of η̄ and V_b the data allow. Steps 3 and 4 bound CE in terms of η̄ and V_b. For
// every μ ≥ 0, Lagrange's weak duality bounds R by
//
//	μ(X + x/λ) + ln(1/δ_b)/(nκ) + Σ_b max_q {u_b(q) + (μ/λ) ln A_b(q)} + Σ_b J_b(V_b)
//	u_b(q) = p[f_b(q) + ωκ((q−s̄)² + sd_b²)]
//	J_b(v) = p·e_b·v + ωκ·p[(sd_b+v√(e_b/2))² − sd_b²] + (μ/λ)ρ·m·e_b·v²/4.
//
// J_b is convex and J_b(0) = 0. All V_b are at most 1, and their sum is at most V. So the sum ΣJ_b(V_b) is at most the
// sum of the ⌊V⌋ largest J_b(1), plus V−⌊V⌋ times the next largest J_b(1). For V < 1 it is at most the largest J_b(V).
// The code searches for the μ with the smallest bound. No union bound is needed for μ, because every μ gives a valid
// bound. If there are at least pathFrom scores, quadraticPath gives a second bound on R, which also follows from steps
// 1 to 4. The result uses the smaller of the two bounds.
//
// x = ln(1/(0.97δ)) and δ_b = 0.03δ. λ and the number of bins minimise the result of quadraticForecast, which
// approximates the bound for a calibrated classifier. quadraticForecast uses the scores alone. For the maximum over q,
// quadraticBin.peak evaluates u_b(q) + (μ/λ) ln A_b(q) at some points, but its result bounds this function between
// these points too.
//
// The terms of the result are the parts of R, multiplied by (1−e^{−κR})/(κR). The computation of the field OfSample
// omits step 4.
func BinnedQuadratic(s *Sample, delta, variation float64) (Bound, error) {
	return s.boundQuadratic(delta, variation, math.Inf(1))
}

// pathFrom is the smallest number of scores for which boundQuadratic uses quadraticPath. For fewer scores,
// quadraticPath hardly lowers the bound.
const pathFrom = 300

// boundQuadratic computes the bound of BinnedQuadratic. The argument 'rival' is the bound of another method.
// quadraticPath is slow, and near calibration it lowers the bound by only 10 to 20 %. So boundQuadratic first computes
// the bound on R without quadraticPath. It uses quadraticPath only if this bound minus its term ln(1/δ_b)/(nκ) is at
// most 2·rival.
func (s *Sample) boundQuadratic(delta, variation, rival float64) (Bound, error) {
	if err := checkVariation(s, delta, variation); err != nil {
		return Bound{}, err
	}
	n := float64(s.N())
	x := math.Log(1 / ((1 - quadraticScores) * delta))
	plan := s.planQuadratic(x, variation)
	d := newQuadraticDual(s, plan, x, variation)
	at, paths := d.minimise(), 0.0
	if s.N() >= pathFrom && at.sum <= 2*rival {
		if better := newQuadraticPath(d, at.mu).minimise(at.mu); better.sum < at.sum {
			at, paths = better, 1
		}
	}
	scores := math.Log(1/(quadraticScores*delta)) / (n * d.kappa)
	scale := d.scale(at.sum + scores)
	terms := Terms{{"gap", scale * at.gap}, {"variation", scale * at.jumps}, {"population", scale * scores}}
	chosen := Terms{{"bins", float64(len(plan.bins))}, {"lambda", plan.lambda}, {"mu", at.mu}, {"kappa", d.kappa}, {"paths", paths}}
	eps := binnedRoundoff(n)
	b, err := newBound(terms, chosen, delta, eps, true)
	b.OfSample = min(1, max(0, at.sum+eps))
	b.Value = max(0, b.Value)
	return b, err
}

const quadraticScores = 0.03 // δ_b/δ

// quadraticKappa returns κ for n scores. It is near the best κ for a calibrated classifier with evenly spread scores.
// The best κ is about √(2 ln(1/δ_b)/(n·(g²+1/4B))), with g ≈ n^−0.4 and B ≈ 2n^0.4 bins.
func quadraticKappa(n float64) float64 { return min(0.75, 10*math.Pow(n, -0.3)) }

// squaresWeight returns the product ωκ of step 4 of BinnedQuadratic, rounded up.
func squaresWeight(kappa float64) float64 {
	return (-math.Log1p(-kappa) - kappa) / kappa * (1 + 1e-9)
}

// quadraticPlan holds the choices of BinnedQuadratic that depend on the scores alone.
type quadraticPlan struct {
	bins   []bin
	lambda float64
	value  float64 // result of quadraticForecast for these bins and this lambda
}

// planQuadratic returns the partition and the λ for which quadraticForecast gives the smallest bound.
func (s *Sample) planQuadratic(x, variation float64) quadraticPlan {
	best := quadraticPlan{value: math.Inf(1)}
	n := float64(s.N())
	s.eachPartition(func(_ int, bins []bin) {
		if variationRemainder(bins, variation)/n >= best.value {
			return
		}
		better := false
		for j := -10; j <= 6; j++ {
			lambda := math.Exp2(float64(j) / 2)
			if value, _ := quadraticForecast(bins, n, lambda, x/lambda, variation); value < best.value {
				best.value, best.lambda, better = value, lambda, true
			}
		}
		if better {
			best.bins = append(best.bins[:0], bins...)
		}
	})
	return best
}

// quadraticForecast approximates the bound of BinnedQuadratic for a calibrated classifier. It returns this
// approximation and the μ that gives it. The argument 'excess' is X + x/λ. If N is normal with variance mσ², then ln
// A_b is −λmg²/(1+2τ) + c_b. Here τ = λσ² and c_b = τ − ½ln(1+2τ). With u_b ≈ p|g|, the maximum of u_b + (μ/λ) ln A_b
// over g is m(1+2τ)/(4n²μ) + (μ/λ)c_b. The sum of these maxima over all bins, plus μ(X + x/λ), is a/μ + μ·b. Here a =
// Σm(1+2τ_b)/(4n²) and b = X + (x+Σc_b)/λ. The minimum of this sum over μ is 2√(ab), at μ = √(a/b). Because the scores
// of a bin differ from each other, the code replaces 2√(ab) by √(4ab+spread), where 'spread' is the mean of (s_i−s̄)²
// over all scores. For the sum ΣJ_b(V_b) the code adds V times the largest value of p·e_b + μ·e_b/2 over the bins. The
// reason is that J_b(1) is nearly p·e_b + μ·e_b/2.
func quadraticForecast(bins []bin, n, lambda, excess, variation float64) (value, mu float64) {
	a, b, spread := 0.0, excess, 0.0
	for i := range bins {
		one := 2 * lambda * bins[i].labelVariance()
		a += bins[i].n * (1 + one) / (4 * n * n)
		b += (one - math.Log1p(one)) / (2 * lambda)
		spread += bins[i].m2 / n
	}
	mu = math.Sqrt(a / b)
	jump := 0.0
	for i := range bins {
		jump = max(jump, bins[i].deviation()/n*(1+mu*n/(2*bins[i].n)))
	}
	return math.Sqrt(4*a*b+spread) + variation*jump, mu
}

// labelVariance returns the mean of s(1−s) in the bin, which is the mean variance of its labels if the scores are
// calibrated.
func (b *bin) labelVariance() float64 { return max(0, b.score*(1-b.score)-b.m2/b.n) }
