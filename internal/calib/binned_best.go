package calib

import "math"

// BinnedBest returns an upper bound on the calibration error from two bounds with the same assumption. BinnedQuadratic
// is the smaller one near calibration. Elsewhere BinnedBentkus is smaller.
//
// Write Q(δ) and B(δ) for BinnedQuadratic and BinnedBentkus at level δ, and let w(c) be a function that depends on n
// only. BinnedBest refutes a value c of the calibration error if Q(w(c)δ) < c or B((1−w(c))δ) < c. For the true value c =
// CE, w(c) is a fixed number. So by the union bound, BinnedBest refutes the true value with probability at most w(c)δ +
// (1−w(c))δ = δ. With probability ≥ 1−δ, CE is therefore at most the largest value that is not refuted.
//
// w(c) is constant in each range of bestRanges. It is large for small c and small for large c. So nearly all of δ goes to
// the bound that is the smaller one if CE is near c. The other bound, with little of δ, still refutes the values of the
// other ranges. In the range (low, high], the largest value that is not refuted is min(Q, B, high), if this is above low.
//
// OfSample is made from the fields OfSample of the two bounds in the same way. Given the scores, the error of the sample
// is a fixed number, too.
func BinnedBest(s *Sample, delta, variation float64) (Bound, error) {
	var best Bound
	found, foundOfSample := false, false
	ofSample, high := 0.0, 1.0
	for _, r := range bestRanges(float64(s.N())) {
		b, err := r.bound(s, delta, variation)
		if err != nil {
			return Bound{}, err
		}
		if !found && r.keeps(b.Value) {
			best, found = b, true
			if best.Value > high {
				best.Value, best.Terms = high, Terms{{"range", high}}
			}
		}
		if !foundOfSample && r.keeps(b.OfSample) {
			ofSample, foundOfSample = min(b.OfSample, high), true
		}
		if found && foundOfSample {
			break
		}
		high = r.low
	}
	best.OfSample, best.Delta = ofSample, delta
	return best, nil
}

// A bestRange is a range of values of the calibration error. For these values, BinnedQuadratic gets the share w of δ, and
// BinnedBentkus gets the rest.
type bestRange struct{ low, quadratic float64 }

// bestRanges returns the ranges of BinnedBest for n scores in descending order. The first range ends at 1, and each other
// range ends where the range before begins. The two bounds are about equal where CE is a small multiple of n^{−2/5}. For
// few scores, BinnedQuadratic is hardly ever the smaller bound.
func bestRanges(n float64) []bestRange {
	const most, few = 0.95, 1000
	if n < few {
		return []bestRange{{0, 1 - most}}
	}
	scale := math.Pow(n, -0.4)
	return []bestRange{{4 * scale, 1 - most}, {1.75 * scale, 0.5}, {0, most}}
}

// keeps reports whether a bound refutes only a part of the range, or nothing.
func (r bestRange) keeps(bound float64) bool { return bound > r.low || r.low == 0 }

// bound returns the smaller of the two bounds at their levels in the range. If BinnedBentkus refutes the whole range,
// BinnedQuadratic is not needed.
func (r bestRange) bound(s *Sample, delta, variation float64) (Bound, error) {
	b, err := BinnedBentkus(s, (1-r.quadratic)*delta, variation)
	if err != nil || !r.keeps(b.Value) && !r.keeps(b.OfSample) {
		return b, err
	}
	q, err := s.boundQuadratic(r.quadratic*delta, variation, b.Value)
	if err != nil {
		return Bound{}, err
	}
	ofSample := min(b.OfSample, q.OfSample)
	if q.Value < b.Value {
		b = q
	}
	b.OfSample = ofSample
	return b, nil
}
