package calib

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ThresholdAtTPR returns the largest τ such that, on held-out clean data, at least a share tpr of the correct answers
// have confidence ≥ τ (Stutz, Hein & Schiele 2020). It follows listing 1 of Stutz's article, but does not round tpr to
// two digits.
func ThresholdAtTPR(confidence []float64, correct []bool, tpr float64) (float64, error) {
	if !(tpr > 0 && tpr <= 1) {
		return 0, fmt.Errorf("TPR %v is outside (0, 1]", tpr)
	}
	var c []float64
	for i, ok := range correct {
		if ok {
			c = append(c, confidence[i])
		}
	}
	if len(c) == 0 {
		return 0, errors.New("no correct answer to set the threshold by")
	}
	slices.Sort(c)
	// Up to k answers may fall below τ, where k is the largest number with n−k ≥ tpr·n. k < n, because tpr·n > 0.
	n := len(c)
	k := n - int(math.Ceil(tpr*float64(n)*(1-0x1p-50)))
	return c[k], nil
}

// Attacked is a classifier's answer on an example before and after an attack.
type Attacked struct {
	Correct, AdversarialCorrect       bool
	Confidence, AdversarialConfidence float64
}

// RobustTestError returns the confidence-thresholded robust test error (listing 2 of Stutz's article). It is the share
// of wrong answers among the examples that the classifier answers with confidence ≥ τ, clean or attacked. If the answer
// without an attack is wrong, the example counts only if its clean confidence is at least τ. The attacks must maximise
// confidence. The result estimates the error from below, because better attacks may exist. It is NaN if no example is
// answered.
func RobustTestError(examples []Attacked, tau float64) float64 {
	var wrong, answered float64
	for _, e := range examples {
		clean := e.Confidence >= tau
		attack := e.Correct && !e.AdversarialCorrect && e.AdversarialConfidence >= tau
		if clean && !e.Correct || attack {
			wrong++
		}
		if clean || attack {
			answered++
		}
	}
	return wrong / answered
}

// ThresholdedError returns the confidence-thresholded clean error. The result wrong is the share of wrong answers among
// the answers with confidence ≥ τ, or NaN if no example is answered. The result answered is the share of examples with
// confidence ≥ τ.
func ThresholdedError(confidence []float64, right []bool, tau float64) (wrong, answered float64) {
	for i, c := range confidence {
		if c >= tau {
			answered++
			wrong += indicator(!right[i])
		}
	}
	return wrong / answered, answered / float64(len(confidence))
}

// Worse returns the worse of an example's answers under two attacks. The worse answer is the same for every τ. If both
// answers are wrong, the answer with the larger confidence is worse. If only one answer is wrong, this answer is worse.
// If both answers are right, Worse may return either.
func Worse(a, b Attacked) Attacked {
	switch {
	case a.AdversarialCorrect != b.AdversarialCorrect:
		if a.AdversarialCorrect {
			return b
		}
	case b.AdversarialConfidence > a.AdversarialConfidence:
		return b
	}
	return a
}

// Rejection holds the errors of a classifier that answers only with a confidence of at least Threshold.
type Rejection struct {
	Threshold       float64
	Wrong, Answered float64 // ThresholdedError at Threshold; Wrong is NaN if no example is answered
	Unthresholded   float64 // share of wrong answers without a threshold
}

// RejectAtTPR takes the threshold from held-out clean predictions (ThresholdAtTPR) and computes the errors of p. It
// returns an error if no held-out answer is correct or if tpr is outside (0, 1].
func RejectAtTPR(p, heldOut *Predictions, tpr float64) (Rejection, error) {
	confidence, right := heldOut.Answers()
	tau, err := ThresholdAtTPR(confidence, right, tpr)
	if err != nil {
		return Rejection{}, err
	}
	confidence, right = p.Answers()
	r := Rejection{Threshold: tau}
	r.Wrong, r.Answered = ThresholdedError(confidence, right, tau)
	r.Unthresholded, _ = ThresholdedError(confidence, right, 0)
	return r, nil
}

// WorstOf returns the worst answer on each example under several attacks on the same examples (Worse).
func WorstOf(attacks ...[]Attacked) []Attacked {
	if len(attacks) == 0 {
		return nil
	}
	worst := slices.Clone(attacks[0])
	for _, attack := range attacks[1:] {
		for i, answer := range attack {
			worst[i] = Worse(worst[i], answer)
		}
	}
	return worst
}
