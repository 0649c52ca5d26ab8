package certify

// splitTangent is the method 'tangent' without selection samples. The first k = TangentSamples of the n estimation
// samples fix the function S_0 of the type 'tangent'. Only the other n − k samples enter the mean of the function ψ,
// which follows from S_0 (see the type 'tangent'). The constant S_0 = ½ would be sound too. But in the measurement of
// docs/confidence.md (n = 1,000, R = 0.25), its intervals are three times as wide as the intervals of the method
// 'standard'.
//
// Proof. k depends on n alone, and the first k samples are independent of the others. Given the first k samples, ψ is a
// fixed function, and the values ψ(f_A) of the other n − k samples are independent. Their expectation is the mean that
// the method 'tangent' bounds. So, given the first k samples, each side of the interval fails with probability at most
// its part of α. This holds for all values of the first k samples, so it also holds unconditionally. The class is
// certified from all n samples. The union bound needs no independence, so the parts of α add up as they do for n0 > 0
// (ConfidenceBound).
type splitTangent struct {
	first    []float64 // the first samples, at most k (the capacity of the slice)
	start    func(first []float64) *tangent
	*tangent // nil until 'first' is full
}

func newSplitTangent(a *ScoreAccumulator, k int64, alpha float64) *splitTangent {
	p, n := a.attackParams(), a.example.N-k
	side := func() lowerMean { return a.certifier.start(p.Confidence.Bound, n, alpha) }
	return &splitTangent{
		first: make([]float64, 0, k),
		start: func(first []float64) *tangent { return newTangent(p, first, n, alpha, side) },
	}
}

// TangentSamples returns how many of the n estimation samples serve to choose the function of ConfidenceTangent. If
// there are no selection samples (n0 = 0), the method 'tangent' computes its function from this number of estimation
// samples. This number is n/20, but at least 1 and at most 1,024. TangentSamples returns 0 if there are selection
// samples, if n is below 2, if no radii are given, or if the method is not ConfidenceTangent. For n from 100 to 1,000,
// n/20 is near the best number (docs/scores-tables.md).
func (p ConfidenceParams) TangentSamples(n0, n int64) int64 {
	if p.Method != ConfidenceTangent || len(p.Radii) == 0 || n0 > 0 || n < 2 {
		return 0
	}
	return min(max(n/20, 1), maxFirst)
}

func (s *splitTangent) add(x float64) {
	if s.tangent != nil {
		s.tangent.add(x)
		return
	}
	if s.first = append(s.first, x); len(s.first) == cap(s.first) {
		s.tangent = s.start(s.first)
	}
}
