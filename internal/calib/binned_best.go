package calib

import "math"

// BinnedBest returns an upper bound on the calibration error. It combines the bounds BinnedBentkus and BinnedQuadratic,
// which make the same assumption. If the classifier is nearly calibrated and there are enough scores, BinnedQuadratic
// is nearly always the smaller bound.
//
// Write Q(δ) and B(δ) for BinnedQuadratic and BinnedBentkus at level δ. The share w(c) of δ depends only on c and on
// the number n of scores. BinnedBest refutes a value c of the calibration error if Q(w(c)δ) < c or B((1−w(c))δ) < c.
// For the true value c = CE, w(c) is a fixed number. So by the union bound, BinnedBest refutes the true value with
// probability at most w(c)δ + (1−w(c))δ = δ. With probability ≥ 1−δ, CE is therefore at most the largest value that is
// not refuted.
//
// w(c) is constant in each range of bestRanges, and it is small for large c. If one of the two methods, BinnedQuadratic
// or BinnedBentkus, is likely to give the smaller bound for CE near c, this method gets most of δ. Otherwise each bound
// gets half of δ. If c is far above CE, even a bound with a small part of δ can refute c. In the range (low, high], the
// largest value that is not refuted is min(Q, B, high), if this is above low.
//
// The field OfSample of the result combines the fields OfSample of the two bounds in the same way. This is valid
// because, given the scores, the calibration error of the sample is a fixed number, as CE is.
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

// A bestRange is a range of values of the calibration error. It begins just above the field 'low'. The field
// 'quadratic' is the share w of δ for BinnedQuadratic in this range. BinnedBentkus gets the rest.
type bestRange struct{ low, quadratic float64 }

// bestRanges returns the ranges of BinnedBest for a sample of n scores. These are ranges of values of the calibration
// error. Each range has its own division of δ between the two bounds. The range with the largest values comes first and
// ends at
// 1. Each other range ends where the range before it begins. If CE is larger than a small multiple of n^{−2/5},
// BinnedBentkus nearly always gives a smaller bound than BinnedQuadratic. For smaller CE, n and the distribution of the
// scores decide which bound is smaller. With few scores, BinnedQuadratic is hardly ever the smaller bound. With many
// scores, it is nearly always the smaller bound.
func bestRanges(n float64) []bestRange {
	const few, many = 300, 50_000
	scale := math.Pow(n, -0.4)
	large := bestRange{4 * scale, 0.05}
	switch {
	case n < few:
		return []bestRange{{0, 0.05}}
	case n < many:
		return []bestRange{large, {0, 0.5}}
	}
	return []bestRange{large, {1.75 * scale, 0.5}, {0, 0.8}}
}

// keeps reports whether the range contains values that the argument 'bound' does not refute. These are the values at or
// below 'bound'.
func (r bestRange) keeps(bound float64) bool { return bound > r.low || r.low == 0 }

// bound computes BinnedBentkus and BinnedQuadratic, and returns the smaller bound. The range r determines the share of
// δ for each of them. If BinnedBentkus refutes the whole range, bound does not compute BinnedQuadratic.
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
