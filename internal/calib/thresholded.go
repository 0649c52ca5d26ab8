package calib

import "math"

// Uncertified is an example whose prediction is not certified within the radius of an
// attack.
type Uncertified struct {
	Lower, Upper float64 // bounds on the mean score of its label
	Confidence   float64 // without attack, of the prediction; NaN if it is not known
	Correct      bool    // the prediction without attack
}

// Thresholded counts the examples of a classifier that answers only where its confidence is
// at least Tau, under an attack within a radius (Stutz et al. 2020, certified). A confidence
// is the mean score of the class that is answered.
type Thresholded struct {
	Tau float64
	// Wrong is E, the examples that an attack may have answered wrongly: those of a wrong
	// certified class whose confidence may reach Tau, and those without a certified class
	// where another class than the label may.
	Wrong int
	// Right is C, the examples that are answered rightly whatever the attack: those of a
	// right certified class whose confidence stays at Tau or above.
	Right int
}

// Threshold counts the rows of a radius, and so many examples of which nothing is known:
// they may all be answered wrongly.
//
// The scores of an example sum to 1 at most, so with a lower bound l on the label's no
// other class has a score above 1 − l.
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
		if math.Nextafter(1-v.Lower, 2) >= tau {
			t.Wrong++
		}
	}
	return t
}

// Error bounds the confidence-thresholded error under attack, the share of wrong answers
// among all, when up to failures of the examples' bounds do not hold:
//
//	min{1, (E + k)/(E + C)}, 0 if E + k = 0.
//
// An attack can have at most E answers wrong; C right answers stand, and it does best to
// silence all others, which only dilute the wrong ones. A failed bound turns an example
// into a wrong answer: of the C, which makes E + 1 and C − 1 of them; of the others, which
// makes E + 1 and is less. Rounded up.
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
