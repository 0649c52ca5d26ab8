package summary

import (
	"context"
	"errors"
	"math/big"
	"slices"

	"github.com/rscert/rscert/internal/acce"
	"github.com/rscert/rscert/internal/calib"
)

// addBounds gives the rows their bounds on the confidence.
func (s Source) addBounds(rows []Row, at map[int]int) {
	if s.Bounds == nil {
		return
	}
	t := s.Bounds.Table
	index, ok1 := t.Column("index")
	radius, ok2 := t.Column("radius")
	lower, _ := t.Column("lower")
	upper, _ := t.Column("upper")
	if !ok1 || !ok2 {
		return
	}
	for i := range t.N {
		if k, ok := at[int(index[i])]; ok {
			rows[k].Bounds = append(rows[k].Bounds, Bound{radius[i], lower[i], upper[i]})
		}
	}
	for k := range rows {
		slices.SortFunc(rows[k].Bounds, func(a, b Bound) int {
			switch {
			case a.Radius < b.Radius:
				return -1
			case a.Radius > b.Radius:
				return 1
			}
			return 0
		})
	}
}

// calibration is how bad calibration can get, at each radius of the bounds.
func (s Source) calibration(o Options) ([]Calibration, error) {
	if s.Bounds == nil || s.Bounds.Table.N == 0 {
		return nil, nil
	}
	options := acce.Options{Bins: o.Bins, Solvers: acce.Solvers[:1]}
	if s.Bounds.Alpha > 0 {
		options.Dataset = &acce.Dataset{Delta: o.Delta, Alpha: s.Bounds.Alpha, Examples: s.Bounds.Examples}
	}
	study, err := acce.NewStudy(s.Bounds.Table, options)
	if err != nil {
		return nil, err
	}
	results, err := study.Solve(context.Background())
	if err != nil {
		return nil, err
	}
	return Calibrate(results, *s.Bounds, o.Taus)
}

// Calibrate sums up the results of a study of bounds, exact ones, and adds the confidence-thresholded errors.
func Calibrate(results []acce.Result, b Bounds, taus []float64) ([]Calibration, error) {
	var out []Calibration
	for _, r := range results {
		if r.CCE == nil {
			return nil, errors.New("the calibration error was not computed exactly")
		}
		c := Calibration{Radius: r.Radius, N: r.N, Bins: r.Bins, ECE: r.ECE, CBS: r.CBS, CCE: *r.CCE}
		if d := r.Certified; d != nil {
			c.Certified = &CertifiedCalibration{Statement{d.Delta, d.Alpha, d.Examples, d.Failures}, d.CBS, *d.CCE}
		}
		out = append(out, c)
	}
	return out, b.addThresholds(out, taus)
}

// addThresholds adds the confidence-thresholded errors; none where nobody says how many examples were sampled: those
// without bounds may be answered wrongly.
func (b Bounds) addThresholds(at []Calibration, taus []float64) error {
	rows := calib.BoundRows{}
	for name, column := range map[string]*[]float64{
		"lower": &rows.Lower, "upper": &rows.Upper, "correct": &rows.Correct, "radius": &rows.Radius, "index": &rows.Index, "examples": &rows.Examples,
	} {
		*column, _ = b.Table.Column(name)
	}
	sampled, err := rows.CountSampled(b.Examples)
	if errors.Is(err, calib.ErrLeavesOut) {
		return nil
	}
	if err != nil {
		return err
	}
	groups, err := rows.ByRadius(nil)
	if err != nil {
		return err
	}
	for k := range at {
		g := groups[slices.IndexFunc(groups, func(g calib.RadiusRows) bool { return at[k].Radius == nil || g.Radius == *at[k].Radius })]
		for _, tau := range slices.Compact(slices.Sorted(slices.Values(taus))) {
			at[k].Thresholded = append(at[k].Thresholded,
				threshold(g.Intervals, sampled.Examples-len(g.Intervals), Decimal(tau), at[k].Certified))
		}
	}
	return nil
}

// threshold is the certified confidence-thresholded error at τ (Stutz, Hein & Schiele 2020; MATH.md §4) of examples with
// these bounds, and of others whose class is not certified: nothing is known of those, so each may be answered wrongly
// with any confidence. The adversary's best is to silence every right answer that is not certain. With up to k of the
// bounds wrong, (Wrong + k)/(Wrong + Right) is the most: each takes a right answer away and adds a wrong one.
func threshold(intervals []calib.Bounded, uncertified int, tau *big.Rat, c *CertifiedCalibration) Thresholded {
	t := Thresholded{Wrong: uncertified}
	t.Tau, _ = tau.Float64()
	for _, v := range intervals {
		switch {
		case v.Correct && Decimal(v.Lower).Cmp(tau) >= 0:
			t.Right++
		case !v.Correct && Decimal(v.Upper).Cmp(tau) >= 0:
			t.Wrong++
		}
	}
	t.Error = roundUp(t.Rat(0))
	if c != nil {
		certified := roundUp(t.Rat(c.Failures))
		t.Certified = &certified
	}
	return t
}

// Rat is the largest error if so many of the bounds do not hold, 0 if nobody is answered and all hold.
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
