package run

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/certify"
)

// auditBins is the number of bins for the calibration errors that an audit computes. The command acce has the same
// default.
const auditBins = 15

// AuditedCalibration compares the certified calibration at a radius with the calibration under attack. Both describe
// the same examples: the audited examples that are certified at this radius and have a tested bound at this radius. The
// certified Brier score (CBS) and the certified calibration error (CCE) are maxima over all confidences within the
// tested bounds. CBS and CCE can be false only if a bound is false. A test of the bounds is therefore also a test of
// CBS and CCE.
type AuditedCalibration struct {
	Radius   float64 `json:"radius"`
	Examples int     `json:"examples"`
	CBS      float64 `json:"cbs"`   // certified Brier score of the examples counted in the field Examples
	Brier    float64 `json:"brier"` // Brier score estimated at the attacked inputs
	CCE      float64 `json:"cce"`   // certified calibration error of these examples, with 15 bins of equal width
	ECE      float64 `json:"ece"`   // calibration error estimated at the attacked inputs, with the same bins
}

// attackedConfidence is a tested bound together with the mean score at the attacked input.
type attackedConfidence struct {
	calib.Bounded
	mean float64
}

// wrongness returns the distance of the mean score from the truth. The truth is 1 if the class is correct, and 0
// otherwise.
func (c attackedConfidence) wrongness() float64 {
	if c.Correct {
		return 1 - c.mean
	}
	return c.mean
}

// confidences returns, by radius, the tested bounds on the confidence in the example's certified class. It omits radii
// above the certified radius. If several rounds tested a bound, it returns the result whose mean score is farthest from
// the truth.
func (r *rounds) confidences(c certify.Certificate) map[float64]attackedConfidence {
	worst := map[float64]attackedConfidence{}
	if c.Prediction == certify.Abstained {
		return worst
	}
	for round, tests := range r.tests {
		for i, t := range tests {
			if t.Kind != TestConfidence || t.Class != c.Prediction || t.Radius > c.Radius || r.results[round][i].Mean == nil {
				continue
			}
			found := attackedConfidence{calib.Bounded{Lower: t.Lower, Upper: t.Upper, Correct: c.Correct}, *r.results[round][i].Mean}
			if before, ok := worst[t.Radius]; !ok || found.wrongness() > before.wrongness() {
				worst[t.Radius] = found
			}
		}
	}
	return worst
}

// compareCalibration compares the certified calibration with the calibration under attack, at each radius of the run's
// bounds.
func (r *Audited) compareCalibration(byRadius map[float64][]attackedConfidence) error {
	bins, err := calib.NewBins(auditBins)
	if err != nil {
		return err
	}
	for _, radius := range slices.SortedFunc(maps.Keys(byRadius), cmp.Compare[float64]) {
		all := byRadius[radius]
		bounds, attacked := make([]calib.Bounded, len(all)), &calib.Predictions{}
		c := AuditedCalibration{Radius: radius, Examples: len(all)}
		for i, x := range all {
			bounds[i] = x.Bounded
			attacked.Confidence, attacked.Correct = append(attacked.Confidence, math.Min(1, x.mean)), append(attacked.Correct, x.Correct)
			c.Brier += x.wrongness() * x.wrongness() / float64(len(all))
		}
		if c.CBS, err = calib.CBS(bounds); err != nil {
			return err
		}
		worst, err := calib.CCE(bounds, bins)
		if err != nil {
			return err
		}
		at, err := calib.EqualWidth(attacked, auditBins, calib.LowerClosed)
		if err != nil {
			return err
		}
		c.CCE, c.ECE = worst.Value, calib.ECE(at)
		r.Calibration = append(r.Calibration, c)
	}
	return nil
}
