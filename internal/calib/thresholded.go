package calib

import "math"

// An Uncertified is an example without a certified prediction at the radius of an attack.
type Uncertified struct {
	Lower, Upper float64 // bounds on the mean score of the label
	Confidence   float64 // confidence without attack; NaN if unknown
	Correct      bool    // the prediction without attack is correct
}

// A Thresholded holds certified counts of answers under attacks within a radius. As in Stutz et al. 2020, the
// classifier answers only with a confidence of at least Tau. The confidence is the mean score of the answered class.
type Thresholded struct {
	Tau float64
	// Wrong is E, the number of examples for which an attack may cause a wrong answer. There are three cases. First, a
	// wrong class is certified, and its confidence may reach Tau. Second, the example has a row but no certified class,
	// and the score of a class other than the label may reach Tau. Third, the example has no row (see Threshold).
	Wrong int
	// Right is C, the number of examples answered rightly under every attack: the certified class is right and its
	// confidence stays at or above Tau.
	Right int
}

// Threshold returns the counts Wrong and Right at the threshold tau over the rows of a radius. The argument 'unknown'
// is the number of examples without a row. Each of these examples counts as a possible wrong answer.
//
// The scores of an example sum to at most 1. So if l is a lower bound on the label's score, no other class has a score
// above 1 − l.
func (r RadiusRows) Threshold(tau float64, unknown int) Thresholded {
	t := Thresholded{Tau: tau, Wrong: unknown}
	for _, v := range r.Intervals {
		switch {
		case v.Correct && v.Lower >= tau:
			t.Right++
		case !v.Correct && v.Upper >= tau:
			t.Wrong++
		}
	}
	for _, v := range r.Uncertified {
		// τ is a float64, so if the rounded difference is less than τ, the exact difference is also less than τ
		if 1-v.Lower >= tau {
			t.Wrong++
		}
	}
	return t
}

// Error returns a bound on the confidence-thresholded error under attack, which is the share of wrong answers among all
// answers. E is the field Wrong, and C is the field Right. The bounds of up to k examples may fail, where k is the
// argument 'failures'. The bound is
//
//	min{1, (E + k)/(E + C)}, 0 if E + k = 0.
//
// An attack makes at most E answers wrong and leaves at least C right answers. The worst attack pushes the confidence
// of all other right answers below Tau, because these answers would otherwise lower the share of wrong answers. A
// failed bound turns an example into a wrong answer. In the worst case the example is one of the C right answers, and
// then there are E + 1 wrong and C − 1 right answers. In any other case, there are at most E + 1 wrong answers and
// still C right answers. The result is rounded up.
func (t Thresholded) Error(failures int64) float64 {
	wrong, answers := float64(t.Wrong)+float64(failures), float64(t.Wrong)+float64(t.Right)
	switch {
	case wrong == 0:
		return 0
	case wrong >= answers:
		return 1
	}
	return math.Nextafter(wrong/answers, 2)
}
