package summary

import (
	"fmt"
	"slices"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/law"
)

// InNorm is the certified accuracy in a norm other than the norm of the run's noise. The certified radii are converted:
// each becomes the largest radius that it implies in the other norm (certify.Space.RadiusIn). The conversion needs no
// further samples.
type InNorm struct {
	Norm          law.Norm     `json:"norm"`
	Curve         []CurvePoint `json:"certified_accuracy"` // in ascending order of radius
	AverageRadius Average      `json:"average_certified_radius"`

	whole Summary // the summary with the radii in this norm
}

// Whole returns the summary of the run with the radii in this norm. It has no calibration, no audit, no distribution of
// p_A, no error among answers and no further norms, because the method In does not convert these results.
func (n InNorm) Whole() Summary { return n.whole }

// In returns the summary with radii in another norm. If o.Radii is empty, it chooses round radii.
func (s Summary) In(norm law.Norm, o Options) (InNorm, error) {
	if s.Conditions.Scaled {
		return InNorm{}, fmt.Errorf("%s: its radii are in units of each column's scale, and imply none in %s", s.Path, norm.Title())
	}
	if s.Run == nil {
		return InNorm{}, fmt.Errorf("%s: has no run.json with the number of values of an input: a radius in %s cannot be computed", s.Path, norm.Title())
	}
	from, space := s.Conditions.Norm, s.Run.Space()
	convert := func(radius float64) (float64, error) { return space.RadiusIn(norm, from, radius) }
	s.Calibration, s.Audit, s.Norms, s.PA, s.Selective, s.selection = nil, nil, nil, nil, nil, nil
	s.Conditions.Norm = norm
	rows := slices.Clone(s.Rows)
	for i, r := range rows {
		var err error
		if rows[i].Radius, err = convert(r.Radius); err != nil {
			return InNorm{}, fmt.Errorf("%s: %w", s.Path, err)
		}
	}
	s.Rows = rows
	most := s.AverageRadius.Largest
	if most != nil {
		converted, err := convert(*most * (1 + 1e-8)) // enlarged, because RadiusIn rounds down to nine digits
		if err != nil {
			return InNorm{}, fmt.Errorf("%s: %w", s.Path, err)
		}
		if most = &converted; !(converted > 0) {
			most = nil
		}
	}
	if err := s.describe(o.Radii, most); err != nil {
		return InNorm{}, fmt.Errorf("%s: %w", s.Path, err)
	}
	return InNorm{norm, s.Curve, s.AverageRadius, s}, nil
}

// describeNorms adds the certified accuracy in the requested norms.
func (s *Summary) describeNorms(o Options) error {
	for _, norm := range o.Norms {
		if norm == s.Conditions.Norm && !s.Conditions.Scaled {
			continue
		}
		in, err := s.In(norm, o)
		if err != nil {
			return err
		}
		s.Norms = append(s.Norms, in)
	}
	return nil
}

// FurtherNorms lists the norms in the Summary.Norms of the runs, each norm once. The lists Summary.Norms of two runs
// can differ, because each list omits the norm of that run's noise.
func FurtherNorms(runs []Summary) (norms []law.Norm) {
	for _, s := range runs {
		for _, n := range s.Norms {
			if !slices.Contains(norms, n.Norm) {
				norms = append(norms, n.Norm)
			}
		}
	}
	return norms
}

// AllIn returns the summary of each run, with its radii in the given norm. FurtherNorms must have listed this norm, and
// all runs must have been summarised with the same Options.Norms.
func AllIn(norm law.Norm, runs []Summary) []Summary {
	in := make([]Summary, len(runs))
	for k, s := range runs {
		in[k], _ = s.InNorm(norm)
	}
	return in
}

// InNorm returns the summary with radii in the given norm. If s has unscaled radii in this norm, it returns s itself.
// Otherwise it returns the summary that s.Norms holds for this norm. The second result is false if s.Norms has no
// summary for this norm.
func (s Summary) InNorm(norm law.Norm) (Summary, bool) {
	if s.Conditions.Norm == norm && !s.Conditions.Scaled {
		return s, true
	}
	for _, n := range s.Norms {
		if n.Norm == norm {
			return n.whole, true
		}
	}
	return Summary{}, false
}

// describe computes the curve, the average radius, the classes and the groups from the rows. If the argument 'radii' is
// empty, describe chooses round radii. The argument 'most' is the largest possible radius, or nil if it is unknown.
func (s *Summary) describe(radii []float64, most *float64) (err error) {
	if len(radii) == 0 {
		radii = certify.RadiiUpTo(largest(s.Rows))
	}
	s.Curve = nil
	for _, r := range slices.Compact(slices.Sorted(slices.Values(radii))) {
		s.Curve = append(s.Curve, s.At(r))
	}
	s.AverageRadius = s.averageRadius(most)
	s.Classes = s.classes()
	s.ByGroup, err = s.byGroup()
	return err
}
