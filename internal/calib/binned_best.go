package calib

// BinnedBest returns the smaller of two upper bounds on the calibration error, each at level δ/2: BinnedBentkus and
// BinnedQuadratic. By the union bound both hold with probability ≥ 1−δ. BinnedQuadratic is the smaller one near
// calibration, for about 10⁴ scores or more. Elsewhere BinnedBentkus is smaller. At level δ/2 it is about as large as
// BinnedVariation at level δ.
func BinnedBest(s *Sample, delta, variation float64) (Bound, error) {
	best, err := BinnedBentkus(s, delta/2, variation)
	if err != nil {
		return Bound{}, err
	}
	quadratic, err := s.boundQuadratic(delta/2, variation, best.Value)
	if err != nil {
		return Bound{}, err
	}
	ofSample := min(best.OfSample, quadratic.OfSample)
	if quadratic.Value < best.Value {
		best = quadratic
	}
	best.OfSample, best.Delta = ofSample, delta
	return best, nil
}
