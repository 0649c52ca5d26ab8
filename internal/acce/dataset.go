package acce

import (
	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/predictions"
)

// Dataset requests bounds for the dataset as a whole (Result.Certified).
type Dataset struct {
	Delta    float64 // failure probability of the bounds for the dataset
	Alpha    float64 // failure probability of each bound in the table; 0 means the value in the column 'alpha'
	Examples int     // number of sampled examples; 0 means the number in the table
	// Optional says what happens if alpha or the number of sampled examples is unknown. If Optional is true, the study
	// then makes no statement about the dataset. Otherwise NewStudy returns an error. If Options.Thresholds are given,
	// an unknown number of sampled examples is an error in either case.
	Optional bool
}

// A ThresholdedError bounds the share of wrong answers under attack. The classifier answers only if its confidence is
// at least Tau (calib.Thresholded).
type ThresholdedError struct {
	Tau   float64 `json:"tau"`
	Wrong int     `json:"wrong"` // examples for which an attack may cause a wrong answer
	Right int     `json:"right"` // examples answered rightly under every attack
	Error float64 `json:"error"` // bound on the share of wrong answers; it holds if every bound in the table holds
	// Certified is a bound on the share of wrong answers that holds with probability 1 − δ (see Result.Certified).
	Certified *float64 `json:"certified_error,omitempty"`
}

// Clean holds the calibration error without attack. It covers all examples, also those whose class is not certified.
type Clean struct {
	N   int     `json:"n"`
	ECE float64 `json:"ece"`
}

// settleDataset sets s.sampled and s.alpha: the number of sampled examples, and the failure probability of each bound.
func (s *Study) settleDataset(rows calib.BoundRows) (err error) {
	d := Dataset{Optional: true}
	if s.options.Dataset != nil {
		d = *s.options.Dataset
	}
	if s.sampled, err = countSampled(s.table, rows, d.Examples); err != nil {
		if d.Optional && len(s.options.Thresholds) == 0 {
			s.sampled, err = calib.Sampled{}, nil
		}
		return err
	}
	if s.options.Dataset == nil {
		return nil
	}
	stated, err := rows.StatedAlpha()
	switch {
	case err != nil:
		return predictions.LocateRow(s.table, err)
	case d.Alpha != 0 && d.Alpha < stated:
		return param.Errorf("%s %v: the bounds of %s fail with probability up to %v", param.Alpha, d.Alpha, s.table.Path, stated)
	case d.Alpha == 0 && stated == 0 && !d.Optional:
		return hint.Add(param.Errorf("%s needs %s, the failure probability of each bound in the file", param.Delta, param.Alpha),
			"it is the %s of 'rscert confidence'", param.Alpha)
	}
	s.alpha = max(d.Alpha, stated)
	return nil
}

// count stores in r the numbers of examples and the calibration error without attack.
func (s *Study) count(g group, r *Result) {
	r.Quantity = s.options.Quantity
	if r.Radius != nil {
		r.Norm = s.options.Norm
	}
	if s.sampled.Examples > 0 && !s.sampled.Assumed {
		left := s.sampled.Examples - r.N
		r.Examples, r.LeftOut = s.sampled.Examples, &left
	}
	_, every := s.table.Column("certified")
	if confidence, correct := g.Answers(); every && confidence != nil && !s.options.SameExamples && s.weight == nil {
		r.Clean = &Clean{len(confidence), s.bins.ECE(confidence, func(i int) bool { return correct[i] })}
	}
}

// threshold computes bounds on the errors of a classifier that answers only when it is confident.
func (s *Study) threshold(g group, r *Result) {
	for _, tau := range s.options.Thresholds {
		t := g.Threshold(tau, s.sampled.Examples-len(g.Intervals)-len(g.Uncertified))
		e := ThresholdedError{Tau: tau, Wrong: t.Wrong, Right: t.Right, Error: t.Error(0)}
		if r.Certified != nil {
			all := t.Error(r.Certified.Failures)
			e.Certified = &all
		}
		r.Thresholded = append(r.Thresholded, e)
	}
}
