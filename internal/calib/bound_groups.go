package calib

import "context"

// ComputeGroups computes the bounds for several groups of examples, each at Delta divided by the number of groups. So
// the bounds of one kind hold for all groups together with probability ≥ 1 − Delta. If Joint is set, all bounds of all
// kinds hold together with this probability. Groups may overlap. Given which rows are in which group, the rows of a
// group are independent draws from the group's population.
func (p BoundPlan) ComputeGroups(ctx context.Context, groups []*Sample) ([]ErrorBounds, error) {
	p.Params.Delta /= float64(len(groups))
	var all []ErrorBounds
	for _, s := range groups {
		found, err := p.Compute(ctx, s)
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	return all, nil
}

// WorstGroup holds bounds on the largest calibration error of several groups.
type WorstGroup struct {
	// Upper holds, for each sound method, the largest of the groups' upper bounds. This maximum also bounds the error
	// CE_Q of every mixture Q = Σπ_g P_g of the groups' populations. Proof: let ν_g(ds) = (s−η_g(s))P_g(ds). Then CE_Q
	// is the total variation of the measure Σπ_gν_g, which is at most Σπ_g·CE_g by the triangle inequality. The shares
	// π_g need not be known.
	Upper map[string]float64
	Lower float64 // at least one group has an error of Lower or more
}

// WorstOfGroups returns the bounds on the worst group from the results of ComputeGroups.
func WorstOfGroups(groups []ErrorBounds) WorstGroup {
	w := WorstGroup{Upper: map[string]float64{}}
	for _, g := range groups {
		for name, b := range g.Upper {
			if b.Sound {
				w.Upper[name] = max(w.Upper[name], b.Value)
			}
		}
		w.Lower = max(w.Lower, g.Lower.Value)
	}
	return w
}
