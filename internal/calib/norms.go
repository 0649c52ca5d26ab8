package calib

import (
	"fmt"
	"math"
)

// Let CE = E|d| be the calibration error, with d = s − η(s). Bounds on CE imply bounds on other measures of
// miscalibration. The implied bounds hold whenever the bounds on CE hold, so they have no failure probability of their
// own.

// NormAbove returns an upper bound on the L_q calibration error (E|d|^q)^{1/q}, q ≥ 1, from an upper bound on CE.
// Because |d| ≤ 1, we have |d|^q ≤ |d|. So the norm is at most CE^{1/q}. If |d| is always 0 or 1, the norm equals
// CE^{1/q}. By Jensen's inequality the norm is at least CE, so each lower bound on CE is also a lower bound on the
// norm.
func NormAbove(ce, q float64) (float64, error) {
	if !(q >= 1) || math.IsInf(q, 0) {
		return 0, fmt.Errorf("norm %v is below 1 or not finite", q)
	}
	return min(1, math.Pow(ce, 1/q)*(1+powRounding)), nil
}

// powRounding exceeds the relative rounding error of every function of package math that this file calls.
const powRounding = 1e-14

// Divergence bounds the mean Kullback–Leibler divergence between η(s) and the score,
//
//	E KL(η(s)‖s) = E[η ln(η/s) + (1−η) ln((1−η)/(1−s))],
//
// in nats, from bounds on CE. All scores of the population must lie in [ε, 1−ε], 0 < ε ≤ ½. This divergence is the
// calibration part of the NLL.
//
// Upper bound: KL(η‖s) is convex in η and 0 at η = s. So for η > s it is at most its chord, (η−s)·ln(1/s)/(1−s), and
// for η < s at most (s−η)·ln(1/(1−s))/s. The function ln(1/s)/(1−s) decreases in s, so both factors are at most
// ln(1/ε)/(1−ε), and E KL ≤ CE·ln(1/ε)/(1−ε). A population with s ∈ {ε, 1−ε}, η(ε) = 1 and η(1−ε) = 1−ε attains this
// bound. Without ε there is no upper bound: a score of 0 with a positive label makes the divergence infinite, however
// small CE is.
//
// CheckMargin compares scores with the rounded 1−ε, so a score may exceed 1−ε by 2⁻⁵⁴. Therefore Divergence computes
// the upper bound for the margin ε − 2⁻⁵³, and ε must be at least LeastMargin.
//
// Lower bound: KL(η‖s) ≥ 2d² (Pinsker), and E d² ≥ CE², so E KL ≥ 2·CE². This holds without ε too.
func Divergence(lower, upper, epsilon float64) (low, high float64, err error) {
	if !(epsilon >= LeastMargin && epsilon <= 0.5) {
		return 0, 0, fmt.Errorf("score margin %v is outside %v to 0.5", epsilon, LeastMargin)
	}
	most := -math.Log(epsilon - 0x1p-53)
	return 2 * lower * lower * (1 - powRounding), min(most, upper*most/(1-epsilon)) * (1 + powRounding), nil
}

// LeastMargin is the smallest ε that Divergence accepts. For smaller ε, 1−ε could be rounded to 1.
const LeastMargin = 1e-15

// CheckMargin returns an error if a score of the sample is outside [ε, 1−ε].
func (s *Sample) CheckMargin(epsilon float64) error {
	first, _ := unpack(s.packed[0])
	last, _ := unpack(s.packed[s.N()-1])
	for _, score := range []float64{first, last} {
		if score < epsilon || score > 1-epsilon {
			return fmt.Errorf("score %v is outside [%v, %v]", score, epsilon, 1-epsilon)
		}
	}
	return nil
}
