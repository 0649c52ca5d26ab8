package calib

import (
	"cmp"
	"math"
	"slices"
)

// RMSCE returns the root mean squared calibration error of the bins, √(Σ weight·(accuracy − confidence)²) (Hendrycks et
// al. 2019). It is at least the ECE of the same bins. Noise in a bin does not cancel, so the RMSCE of a small sample is
// too large; DebiasedL2 subtracts the noise.
func RMSCE(bins []Bin) float64 {
	sum := 0.0
	for _, b := range bins {
		gap := b.Accuracy - b.Confidence
		sum += b.Weight * gap * gap
	}
	return math.Sqrt(sum)
}

// RMSCEEstimate returns the RMSCE of the bins. The interval is for θ. θ is the RMSCE in which each outcome is replaced
// by its expectation, the probability of being correct given the confidence:
//
//	θ = √(Σ_m w_m g_m²),  w_m g_m = Σ_{i∈m} a_i(P(correct_i) − confidence_i).
//
// Here w_m is the weight of bin m, a_i is the share of example i in the total weight, and α is 1 − level. Let ĝ_m be
// g_m computed with the outcomes correct_i in place of the probabilities P(correct_i). The interval is valid for every
// n and θ (compare ECEEstimate). The proof of its two ends uses that √(Σw_m g_m²) is the largest Σw_m u_m g_m over all
// vectors u with Σw_m u_m² ≤ 1.
//
//   - above: θ = Σw_m u_m g_m for one fixed u, and Σw_m u_m ĝ_m ≤ RMSCE for every u. So θ ≤ RMSCE + d, where d is the
//     bound of the function 'deviation' at α/2 for terms a_i u_m(correct_i − confidence_i). The size of each term is
//     at most a_i/√w_m, and the sum of the squares of all terms is largest for a u that is 0 in all bins but one.
//   - below: θ ≥ Σw_m u_m g_m/√(Σw_m u_m²) for each of the 3^M patterns u_m ∈ {−1, 0, 1}, where M is the number of bins
//     that are not empty. If the function 'deviation' gets (α/2)/3^M for each pattern, all 3^M bounds hold at once. So
//     the pattern may depend on the data. For each k from 1 to M, one pattern has the signs of ĝ_m in the k bins with
//     the largest |ĝ_m|, and 0 in the others. The lower end is the largest of the bounds for these M patterns, or 0 if
//     all of them are negative.
func RMSCEEstimate(p *Predictions, bins []Bin, level float64) Estimate {
	var used []Bin
	total := 0.0
	for _, b := range bins {
		if b.N > 0 {
			used = append(used, b)
			total += b.total
		}
	}
	l := math.Log(2 / (1 - level))
	e := Estimate{Value: RMSCE(bins), Method: Martingale}
	var most, squares float64
	for _, b := range used {
		most = max(most, b.largest/total/math.Sqrt(b.Weight))
		squares = max(squares, b.squares/(total*total)/b.Weight)
	}
	e.Upper = min(1, e.Value+deviation(p.N(), most, squares, l))

	gap := func(b Bin) float64 { return math.Abs(b.Accuracy - b.Confidence) }
	slices.SortFunc(used, func(a, b Bin) int { return cmp.Compare(gap(b), gap(a)) })
	l += float64(len(used)) * math.Log(3)
	var n int
	var value, weight, sum, largest float64
	for _, b := range used {
		n += b.N
		value += b.Weight * gap(b)
		weight += b.Weight
		sum += b.squares / (total * total)
		largest = max(largest, b.largest/total)
		norm := math.Sqrt(weight)
		e.Lower = max(e.Lower, value/norm-deviation(n, largest/norm, sum/weight, l))
	}
	return e
}
