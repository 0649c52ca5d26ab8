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

// Attacked holds a classifier's answers to an example before and after an attack.
type Attacked struct {
	Correct, AdversarialCorrect       bool
	Confidence, AdversarialConfidence float64
}

// RobustTestError estimates the confidence-thresholded robust test error by equation (2) of Stutz's article. Each attack
// holds one answer per example; all attacks have the same examples in the same order. The result is
//
//	#{examples with a wrong answer of confidence ≥ τ} / #{examples with an answer of confidence ≥ τ},
//
// where the answers of an example are its clean answer and its answers under the attacks. The result is NaN if no
// example has an answer of confidence ≥ τ. The given attacks replace the maxima of the equation. So the result is not a
// bound on the equation's value: a stronger attack can add to both counts.
func RobustTestError(attacks [][]Attacked, tau float64) float64 {
	var wrong, answered float64
	for i := range attacks[0] {
		clean := attacks[0][i].Confidence >= tau
		anyWrong, anyAnswer := clean && !attacks[0][i].Correct, clean
		for _, attack := range attacks {
			confident := attack[i].AdversarialConfidence >= tau
			anyWrong = anyWrong || confident && !attack[i].AdversarialCorrect
			anyAnswer = anyAnswer || confident
		}
		wrong += indicator(anyWrong)
		answered += indicator(anyAnswer)
	}
	return wrong / answered
}

// ListedRobustTestError estimates the confidence-thresholded robust test error by listing 2 of Stutz's article. The
// listing differs from equation (2) (see RobustTestError) in two ways. It ignores the attacks on an example whose clean
// answer is wrong, and it ignores right answers under attack. The result is NaN if no example is answered.
func ListedRobustTestError(attacks [][]Attacked, tau float64) float64 {
	var wrong, answered float64
	for i, e := range attacks[0] {
		clean, fooled := e.Confidence >= tau, false
		for _, attack := range attacks {
			fooled = fooled || e.Correct && !attack[i].AdversarialCorrect && attack[i].AdversarialConfidence >= tau
		}
		wrong += indicator(clean && !e.Correct || fooled)
		answered += indicator(clean || fooled)
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
