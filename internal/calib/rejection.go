package calib

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ThresholdAtTPR chooses a threshold on held-out clean data. It returns the largest τ for which at least a share tpr of
// the correct answers have confidence ≥ τ (Stutz, Hein & Schiele 2020). It follows listing 1 of Stutz's article, but
// does not round tpr to two digits.
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

// Answers holds a classifier's answers to examples: the confidence in each answer, and whether the answer is right.
type Answers struct {
	Confidence []float64
	Right      []bool
}

// AnswersOf returns the answers of predictions.
func AnswersOf(p *Predictions) Answers {
	confidence, right := p.Answers()
	return Answers{confidence, right}
}

// The method 'keep' returns the answers to the examples i with marks[i] == mark.
func (a Answers) keep(marks []bool, mark bool) (kept Answers) {
	for i, m := range marks {
		if m == mark {
			kept.Confidence, kept.Right = append(kept.Confidence, a.Confidence[i]), append(kept.Right, a.Right[i])
		}
	}
	return kept
}

// The type 'ascending' holds ascending confidences.
type ascending []float64

// The method 'reaching' returns the number of confidences that are at least τ.
func (a ascending) reaching(tau float64) float64 {
	below, _ := slices.BinarySearch(a, tau)
	return float64(len(a) - below)
}

// share returns the share of the confidences that are at least τ. The share is NaN if there are no confidences.
func (a ascending) share(tau float64) float64 { return a.reaching(tau) / float64(len(a)) }

// RejectionCurve holds the errors of a classifier for every confidence threshold. The classifier answers only if its
// confidence is at or above the threshold. If there are several attacks, the curve keeps the worst case of each
// example. The worst case consists of two confidences: the highest confidence of a wrong answer, and the highest
// confidence of any answer. These two numbers are enough to evaluate equation (2) of Stutz's article for several
// attacks, at every threshold.
type RejectionCurve struct {
	attacked bool

	clean, wrongClean, rightClean ascending // confidences of the clean answers
	// The next two fields are for equation (2). They count clean answers and answers under attack alike. The field
	// 'answers' holds the highest confidence of any answer, for each example. The field 'wrong' holds the highest
	// confidence of a wrong answer, for each example that has a wrong answer.
	answers, wrong ascending
	// An example is fooled if its clean answer is right and an answer under attack is wrong. For each fooled example,
	// the field 'fooled' has the highest confidence of the wrong answers under attack.
	fooled ascending
	// The field 'listed' is for the denominator of listing 2 of Stutz's article. For a fooled example, it holds the
	// clean confidence or the value in the field 'fooled', whichever is higher. For any other example, it holds the
	// clean confidence.
	listed ascending
}

// NewRejectionCurve merges the answers under the attacks into the worst case of each example. All attacks have the same
// examples in the same order as the clean answers. Without attacks, the curve has only clean errors.
func NewRejectionCurve(clean Answers, attacks ...Answers) *RejectionCurve {
	c := &RejectionCurve{attacked: len(attacks) > 0}
	const none = -1 // below every confidence
	for i, confidence := range clean.Confidence {
		highest, wrong := confidence, float64(none)
		for _, attack := range attacks {
			highest = max(highest, attack.Confidence[i])
			if !attack.Right[i] {
				wrong = max(wrong, attack.Confidence[i])
			}
		}
		c.clean, c.answers = append(c.clean, confidence), append(c.answers, highest)
		switch {
		case !clean.Right[i]:
			c.wrongClean, c.listed = append(c.wrongClean, confidence), append(c.listed, confidence)
			c.wrong = append(c.wrong, max(wrong, confidence))
		case wrong == none:
			c.rightClean, c.listed = append(c.rightClean, confidence), append(c.listed, confidence)
		default:
			c.rightClean, c.listed = append(c.rightClean, confidence), append(c.listed, max(wrong, confidence))
			c.wrong, c.fooled = append(c.wrong, wrong), append(c.fooled, wrong)
		}
	}
	for _, values := range []ascending{c.clean, c.wrongClean, c.rightClean, c.answers, c.wrong, c.fooled, c.listed} {
		slices.Sort(values)
	}
	return c
}

// RejectionErrors holds the errors of a classifier that answers only with a confidence of at least Threshold. A field
// is NaN if its denominator is 0.
type RejectionErrors struct {
	Threshold float64
	// TruePositives is the share of answers with a confidence of at least Threshold among the clean answers that are
	// right.
	TruePositives float64
	// CleanError is the confidence-thresholded clean error: the share of wrong answers among the clean answers that
	// reach the threshold. CleanAnswered is the share of the clean answers that reach the threshold.
	CleanError, CleanAnswered float64

	// Robust is the confidence-thresholded robust test error by equation (2) of Stutz's article:
	//
	//	#{examples with a wrong answer of confidence ≥ τ} / #{examples with an answer of confidence ≥ τ},
	//
	// where the answers of an example are its clean answer and its answers under the attacks. In the equation, an
	// example has the answers under all possible attacks. Robust counts the answers under the given attacks only. A
	// stronger attack can increase the numerator and the denominator. So Robust is not a bound on the value of the
	// equation. Robust and the next two fields are NaN without attacks.
	Robust float64
	// Listed is the confidence-thresholded robust test error by listing 2 of the article. The listing ignores the
	// attacks on an example whose clean answer is wrong, and it ignores right answers under attack.
	Listed float64
	// An example is fooled if its clean answer is right and an answer under attack is wrong. FalsePositives is a share
	// of the fooled examples. It counts the fooled examples with at least one wrong answer under attack whose
	// confidence is at least Threshold.
	FalsePositives float64
}

// At returns the errors at the threshold τ.
func (c *RejectionCurve) At(tau float64) RejectionErrors {
	e := RejectionErrors{
		Threshold: tau, TruePositives: c.rightClean.share(tau),
		CleanError: c.wrongClean.reaching(tau) / c.clean.reaching(tau), CleanAnswered: c.clean.share(tau),
		Robust: math.NaN(), Listed: math.NaN(), FalsePositives: math.NaN(),
	}
	if c.attacked {
		e.Robust = c.wrong.reaching(tau) / c.answers.reaching(tau)
		e.Listed = (c.wrongClean.reaching(tau) + c.fooled.reaching(tau)) / c.listed.reaching(tau)
		e.FalsePositives = c.fooled.share(tau)
	}
	return e
}

// Thresholds returns 0 and every confidence at which a count of the curve changes, in ascending order. Let t be one of
// these thresholds, and let s be the next lower one. The errors at t are the errors at every τ with s < τ ≤ t.
func (c *RejectionCurve) Thresholds() []float64 {
	all := slices.Concat([]float64{0}, c.clean, c.answers, c.wrong, c.fooled, c.listed)
	slices.Sort(all)
	return slices.Compact(all)
}

// RejectionPlan says how to choose the thresholds of a Rejection.
type RejectionPlan struct {
	TPR []float64 // true positive rates; ThresholdAtTPR computes a threshold for each of them
	Tau []float64 // further thresholds
	// HeldOut holds the clean answers that choose the thresholds. If HeldOut is nil and Share is not 0, a random share
	// of the rows chooses the thresholds, and the errors are computed on the other rows (Holdout).
	HeldOut *Answers
	Share   float64
	Seed    uint64
}

// RejectionPoint holds the errors at one threshold.
type RejectionPoint struct {
	TPR     *float64 // the true positive rate from which the threshold was chosen; nil if the threshold was given
	Worst   RejectionErrors
	Attacks []RejectionErrors // the errors under each attack alone
}

// Rejection holds the errors of a classifier at several thresholds.
type Rejection struct {
	Rows     int // number of rows from which the thresholds were chosen; 0 if no TPR was given
	Measured int // number of rows on which the errors were computed
	// Unthresholded is the point at the threshold 0.
	Unthresholded RejectionPoint
	Points        []RejectionPoint // one for each element of TPR, then one for each element of Tau
	Curve         *RejectionCurve  // the worst case of all attacks
}

// Measure computes the errors of the clean answers and of the answers under each attack. An attack may have several
// answers to each example, such as the answers of its restarts. Measure returns an error if a TPR is outside (0, 1]. It
// also returns an error if a TPR is given and all clean answers from which the thresholds are computed are wrong.
func (plan RejectionPlan) Measure(clean Answers, attacks [][]Answers) (*Rejection, error) {
	chooser := plan.HeldOut
	if chooser == nil && plan.Share != 0 {
		held, err := Holdout(len(clean.Confidence), plan.Share, plan.Seed)
		if err != nil {
			return nil, err
		}
		chosen := clean.keep(held, true)
		chooser, clean = &chosen, clean.keep(held, false)
		kept := make([][]Answers, len(attacks))
		for k, attack := range attacks {
			for _, answers := range attack {
				kept[k] = append(kept[k], answers.keep(held, false))
			}
		}
		attacks = kept
	}
	curves := []*RejectionCurve{NewRejectionCurve(clean, slices.Concat(attacks...)...)}
	for _, attack := range attacks {
		curves = append(curves, NewRejectionCurve(clean, attack...))
	}
	r := &Rejection{Measured: len(clean.Confidence), Curve: curves[0], Unthresholded: pointOf(curves, 0)}
	for _, tpr := range plan.TPR {
		tau, err := ThresholdAtTPR(chooser.Confidence, chooser.Right, tpr)
		if err != nil {
			return nil, err
		}
		point := pointOf(curves, tau)
		point.TPR, r.Rows = &tpr, len(chooser.Confidence)
		r.Points = append(r.Points, point)
	}
	for _, tau := range plan.Tau {
		r.Points = append(r.Points, pointOf(curves, tau))
	}
	return r, nil
}

// pointOf returns the errors at a threshold. The first curve is about the worst case of all attacks, and each other
// curve is about one attack.
func pointOf(curves []*RejectionCurve, tau float64) RejectionPoint {
	p := RejectionPoint{Worst: curves[0].At(tau)}
	for _, c := range curves[1:] {
		p.Attacks = append(p.Attacks, c.At(tau))
	}
	return p
}
