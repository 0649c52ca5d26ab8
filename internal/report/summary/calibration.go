package summary

import (
	"context"
	"errors"
	"math/big"
	"slices"

	"github.com/rscert/rscert/internal/acce"
	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/decimal"
)

// calibration returns the worst calibration under attack for each radius at which the source has bounds on the
// confidence.
func (s Source) calibration(o Options, g *grouped, rows []Row, missing int) ([]Calibration, error) {
	if s.Bounds == nil || s.Bounds.Table.N == 0 {
		return nil, nil
	}
	options := acce.Options{Bins: o.Bins, Solvers: acce.Solvers[:1], Thresholds: slices.Compact(slices.Sorted(slices.Values(o.Taus))),
		Dataset: &acce.Dataset{Delta: o.Delta, Alpha: s.Bounds.Alpha, Examples: s.Bounds.Examples, Optional: true},
		Groups:  g.ofBounds(rows, s.Bounds.Table), EveryGroup: missing == 0}
	study, err := acce.NewStudy(s.Bounds.Table, options)
	if errors.Is(err, calib.ErrNoneCertified) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	results, err := study.Solve(context.Background())
	if err != nil {
		return nil, err
	}
	return Calibrate(results)
}

// Calibrate summarises the results that package acce computes from bounds on the confidence. It returns an error if the
// calibration error of a result was not computed exactly.
func Calibrate(results []acce.Result) ([]Calibration, error) {
	var out []Calibration
	for _, r := range results {
		if r.CCE == nil {
			return nil, errors.New("the calibration error was not computed exactly")
		}
		c := Calibration{Radius: r.Radius, N: r.N, Bins: r.Bins, ECE: r.ECE, CBS: r.CBS, CCE: *r.CCE, ByGroup: r.ByGroup}
		var all *Statement // statement about every sampled example
		if d := r.Certified; d != nil {
			var err error
			if all, err = newStatement(d.Examples, d.Alpha, d.Delta); err != nil {
				return nil, err
			}
			c.Certified = &CertifiedCalibration{Statement{d.Delta, d.Alpha, d.Examples, d.Failures}, d.CBS, *d.CCE}
		}
		for _, e := range r.Thresholded {
			c.Thresholded = append(c.Thresholded, threshold(e, all))
		}
		out = append(out, c)
	}
	return out, nil
}

// threshold returns a certified confidence-thresholded error (Stutz, Hein & Schiele 2020; calib.Thresholded). Take the
// attack that makes the error largest. Under this attack, Wrong and Right are the numbers of wrong and right answers,
// and the classifier abstains on all other examples. If at most k bounds are wrong, the error is at most (Wrong +
// k)/(Wrong + Right). Here k also counts the wrong bounds of examples without a certified class.
func threshold(e acce.ThresholdedError, all *Statement) Thresholded {
	t := Thresholded{Tau: e.Tau, Wrong: e.Wrong, Right: e.Right}
	t.Error = decimal.Up(t.Rat(0))
	if all != nil {
		t.Failures = all.Failures
		certified := decimal.Up(t.Rat(t.Failures))
		t.Certified = &certified
	}
	return t
}

// Answered returns the number of answers, which is the denominator of the error. If there are no answers, the error is
// undefined.
func (t Thresholded) Answered() int { return t.Wrong + t.Right }

// Rat returns the largest possible error if the given number of bounds are wrong. It returns 0 if there are no answers
// and no bound is wrong.
func (t Thresholded) Rat(failures int64) *big.Rat {
	answered := int64(t.Wrong + t.Right)
	wrong := int64(t.Wrong) + failures
	switch {
	case wrong == 0:
		return new(big.Rat)
	case wrong >= answered:
		return big.NewRat(1, 1)
	}
	return big.NewRat(wrong, answered)
}
