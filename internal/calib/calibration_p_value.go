package calib

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Spiegelhalter returns the statistic Z of Spiegelhalter's (1986) test of perfect calibration, and the two-sided
// p-value of this test. The statistic is
//
//	Z = Σ(correct − c)(1 − 2c) / √(Σ(1 − 2c)² c(1 − c)),
//
// where c is the confidence of an example. Z is approximately standard normal for many independent examples with
// calibrated predictions. With few examples, or with confidences near 0 and 1, the p-value is not exact. The test
// detects only errors that correlate with 1 − 2c. It detects no error at c = ½. Z and the p-value are NaN if the
// denominator is 0 or the predictions have weights.
func Spiegelhalter(p *Predictions) (z, pValue float64) {
	if p.Weight != nil {
		return math.NaN(), math.NaN()
	}
	var sum, variance float64
	for i, c := range p.Confidence {
		d := 1 - 2*c
		sum += p.residual(i) * d
		variance += d * d * c * (1 - c)
	}
	if variance == 0 {
		return math.NaN(), math.NaN()
	}
	z = sum / math.Sqrt(variance)
	return z, 2 * distuv.UnitNormal.CDF(-math.Abs(z))
}

// CalibrationTest returns a p-value of the following hypothesis. Given all confidences, every example is correct with a
// probability equal to its confidence, independently of the other examples. The p-value is valid for every number of
// examples: if the hypothesis is true, P(p ≤ α) ≤ α.
//
// Take a calibrated prediction with confidence c, and let x = correct − c. Then |x| ≤ 1, and x has mean 0 and variance
// c(1−c). So E exp(±λx) ≤ exp(c(1−c)(e^λ − 1 − λ)) for λ ≥ 0 (Bennett 1962). Let R_m and V_m be the sums of x and of
// c(1−c) in bin m of a fixed partition. Then
//
//	E_m(±λ) = exp(±λR_m − V_m(e^λ − 1 − λ))
//
// has expectation at most 1. Products of E_m over bins, and averages of such products, have expectation at most 1 too.
// The test averages four numbers. Three of them use products of E_m over all bins. The first product has equal signs in
// all bins (for over- or underconfidence as a whole). The second product has one sign in the bins below ½ and the
// opposite sign in the bins above ½. The third product has a separate sign for each bin. The fourth is the mean of E_m
// over the bins. Each of the four is itself an average over signs and over a grid of values of λ. This grid depends
// only on the V_m. By Markov's inequality the reciprocal of the average is a p-value. If the reciprocal is above 1, the
// p-value is 1. It is NaN if the predictions have weights.
func CalibrationTest(p *Predictions) (pValue float64) {
	if p.Weight != nil {
		return math.NaN()
	}
	return math.Exp(-max(0, p.logEvidence()))
}

// logEvidence returns ln of the average of the four numbers that CalibrationTest describes.
func (p *Predictions) logEvidence() float64 {
	const bins = 16
	var r, v [bins]float64
	for i, c := range p.Confidence {
		if c == indicator(!p.Correct[i]) {
			return math.Inf(1) // under the hypothesis this outcome has probability 0
		}
		k := min(int(c*bins), bins-1)
		r[k] += p.residual(i)
		v[k] += c * (1 - c)
	}
	var level, slope, variance, separate float64
	var single []float64
	for k := range bins {
		sign := 1.0
		if k < bins/2 {
			sign = -1
		}
		level += r[k]
		slope += sign * r[k]
		variance += v[k]
		e := logBet(r[k], v[k])
		separate += e
		single = append(single, e)
	}
	return logMean([]float64{logBet(level, variance), logBet(slope, variance), separate, logMean(single)})
}

// logBet returns ln of the average of E_m(±λ) in CalibrationTest, with r = R_m and v = V_m. It averages exp(±λr − v(e^λ
// − 1 − λ)) over both signs and over λ = min(4, √(2u/v)) for u = 1, 2, 4, …, 4096. The best λ for r is near r/v, so the
// best u is near r²/2v.
func logBet(r, v float64) float64 {
	const grid = 13
	terms := make([]float64, 0, 2*grid)
	for j := range grid {
		lambda := 4.0
		if v > 0 {
			lambda = min(4, math.Sqrt(float64(uint(2)<<j)/v))
		}
		cost := v * (math.Expm1(lambda) - lambda)
		terms = append(terms, lambda*r-cost, -lambda*r-cost)
	}
	return logMean(terms)
}

// logMean returns ln of the mean of exp(x_i) over the elements of x, which must not be empty.
func logMean(x []float64) float64 {
	most := math.Inf(-1)
	for _, y := range x {
		most = max(most, y)
	}
	sum := 0.0
	for _, y := range x {
		sum += math.Exp(y - most)
	}
	return most + math.Log(sum/float64(len(x)))
}
