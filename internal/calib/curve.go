package calib

import "math"

// CurvePoint is a point of the calibration curve: a bin of neighbouring scores.
type CurvePoint struct {
	From, To float64 // smallest and largest score
	Score    float64 // mean score
	N        int
	Eta      float64 // mean label; estimates the mean of η over the scores of the bin
	// Lower and Upper are bounds on the mean of η over the bin's scores. With probability ≥ 1−δ, the bounds of all bins
	// hold at once.
	Lower, Upper float64
}

// Curve estimates η in bins of about n^⅔ neighbouring scores; ties share a bin. The bins depend on the scores alone.
// Given the scores, the labels of a bin are independent, so the kl bound (klAbove) holds for the mean of their
// expectations (Hoeffding 1963, Theorem 1). Each of the B bins uses δ/(2B) for its lower end and δ/(2B) for its upper
// end. The intervals need no assumption. They bound the mean of η over the scores of a bin, and they say nothing about
// η between these scores.
func Curve(s *Sample, delta float64) ([]CurvePoint, error) {
	if err := s.check(delta); err != nil {
		return nil, err
	}
	var points []CurvePoint
	s.eachPartition(func(k int, bins []bin) {
		if k != curvePartition(s.N()) {
			return
		}
		points = make([]CurvePoint, len(bins))
		for i := range bins {
			b := &bins[i]
			p := CurvePoint{Score: b.score, N: b.to - b.from, Eta: b.labels / b.n}
			p.From, _ = unpack(s.packed[b.from])
			p.To, _ = unpack(s.packed[b.to-1])
			budget := math.Log(2*float64(len(bins))/delta) / b.n * (1 + 1e-9)
			p.Lower, p.Upper = 1-klAbove(1-p.Eta, budget), klAbove(p.Eta, budget)
			points[i] = p
		}
	})
	return points, nil
}

// curvePartition returns the number k of the partition into 2ᵏ ≈ ∛n bins.
func curvePartition(n int) int {
	return min(partitions(n)-1, int(math.Round(math.Log2(float64(n))/3)))
}

// EstimateError returns a point estimate of the calibration error, without any guarantee: Σ p_b·√max(0, D_b² − v_b)
// over the bins b of Curve. p_b is the share of the scores in the bin. D_b is the mean of s−y in the bin. v_b estimates
// the noise in D_b². It is the unbiased variance of the bin's labels, divided by the number of labels (the debiasing of
// Kumar, Liang & Ma 2019, bin by bin). Without v_b a calibrated classifier would get an estimate far from 0. Errors of
// opposite signs within a bin cancel.
func EstimateError(s *Sample) float64 {
	total := 0.0
	s.eachPartition(func(k int, bins []bin) {
		if k != curvePartition(s.N()) {
			return
		}
		for i := range bins {
			b := &bins[i]
			mean := b.labels / b.n
			d := b.score - mean
			noise := mean * (1 - mean) / max(1, b.n-1)
			total += b.n * math.Sqrt(max(0, d*d-noise))
		}
	})
	return total / float64(max(1, s.N()))
}
