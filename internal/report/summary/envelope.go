package summary

import (
	"maps"
	"slices"

	"github.com/rscert/rscert/internal/decimal"
)

// EnvelopePoint is the best certified accuracy of several runs at a radius.
type EnvelopePoint struct {
	Radius   float64 `json:"radius"`
	Accuracy Share   `json:"accuracy"`
	Run      string  `json:"run"` // name of the first run with this accuracy
	// Certified is the largest of the runs' lower bounds on the certified accuracy of the summarised examples. Let k be
	// the number of runs from which the best one is chosen, including runs that have not begun. With probability 1 − δ,
	// the bound holds for all radii at once and for any choice among the k runs, because the statement about each run
	// uses δ/k. Certified is nil if no run has a bound on the number of its wrong certificates.
	Certified *float64 `json:"certified,omitempty"`
}

// Envelope is the upper envelope of the certified accuracy curves of several runs. Papers draw the envelope of runs
// with different σ. It does not describe a single classifier: different runs may be best at different radii, and the
// results decide which run is the best. The argument k is the number of runs from which the best one is chosen. It is
// larger than the number of summaries if some runs of a sweep have not begun.
func Envelope(runs []Summary, k int) ([]EnvelopePoint, error) {
	radii := map[float64]bool{}
	for _, s := range runs {
		for _, p := range s.Curve {
			radii[p.Radius] = true
		}
	}
	var envelope []EnvelopePoint
	for _, r := range slices.Sorted(maps.Keys(radii)) {
		envelope = append(envelope, EnvelopeAt(runs, r))
	}
	return certifyPoints(envelope, runs, k)
}

// EnvelopeAt returns the envelope at a radius.
func EnvelopeAt(runs []Summary, radius float64) EnvelopePoint {
	var best EnvelopePoint
	for k, s := range runs {
		if a := s.At(radius).Accuracy; k == 0 || a.Rat().Cmp(best.Accuracy.Rat()) > 0 {
			best = EnvelopePoint{Radius: radius, Accuracy: a, Run: s.Name}
		}
	}
	return best
}

// certifyPoints sets the field Certified of each point to a lower bound on the certified accuracy at the point's
// radius. The bound allows for the choice of the best of k runs.
func certifyPoints(points []EnvelopePoint, runs []Summary, k int) ([]EnvelopePoint, error) {
	for _, s := range runs {
		failures, known, err := s.failuresOfChoice(k)
		if err != nil {
			return nil, err
		}
		if !known {
			continue
		}
		for i, p := range points {
			bound := shareLess(s.CertifiedAt(decimal.Of(p.Radius)), failures, s.Examples)
			if p.Certified == nil || bound > *p.Certified {
				points[i].Certified = &bound
			}
		}
	}
	return points, nil
}

// failuresOfChoice returns an upper bound on the number of wrong certificates of the run. The bound allows for the
// choice of the best of k runs. The second result is false if no such bound is known.
func (s Summary) failuresOfChoice(k int) (int64, bool, error) {
	d := s.Dataset
	switch {
	case d == nil || s.NotCounted:
		return 0, false, nil
	case s.Conditions.Deterministic:
		return 0, true, nil
	}
	each := d.Delta
	if s.Choices != k { // otherwise the summary already allows for the choice of the best of k runs
		each = EachDelta(each, k)
	}
	paid, err := newStatement(d.Examples, d.Alpha, each)
	if err != nil {
		return 0, false, err
	}
	return paid.Failures, true, nil
}
