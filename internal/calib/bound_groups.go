package calib

import "context"

// ComputeGroups computes the bounds for several groups of examples. Each group gets Delta divided by the number of
// groups. So the bounds of one kind, for example all lower bounds, hold for all groups together with probability ≥ 1 −
// Delta. If Joint is set, all bounds of all kinds hold at once with this probability. Groups may overlap. The bounds
// assume that, given the assignment of rows to groups, the rows of each group are independent draws from the group's
// population.
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

// GroupBounds holds bounds on one number that describes several groups, such as their largest calibration error.
type GroupBounds struct {
	Upper map[string]float64 // holds only sound methods; the key is the method's name
	Lower float64
}

// WorstOfGroups returns bounds on the largest of the groups' errors. The argument 'groups' is the result of
// ComputeGroups. At least one group has an error of Lower or more. Upper holds, for each sound method, the largest of
// the groups' upper bounds. This maximum also bounds the error CE_Q of every mixture Q = Σπ_g P_g of the groups'
// populations. Proof: let ν_g(ds) = (s−η_g(s))P_g(ds). The total variation of the measure ν_g is CE_g, and that of the
// measure Σπ_gν_g is CE_Q. So CE_Q ≤ Σπ_g·CE_g by the triangle inequality. The shares π_g need not be known.
func WorstOfGroups(groups []ErrorBounds) GroupBounds {
	w := GroupBounds{Upper: map[string]float64{}}
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

// MeanOfGroups returns bounds on the mean of the groups' errors. The argument 'groups' is the result of ComputeGroups.
// All groups have the same weight in this mean. For example, let group k be the binary problem "is it class k". Then
// the mean over all classes k is the class-wise calibration error (Kull et al. 2019). Each bound is the mean of the
// groups' bounds. It holds if the bounds of all groups hold.
func MeanOfGroups(groups []ErrorBounds) GroupBounds {
	m := GroupBounds{Upper: map[string]float64{}}
	n := float64(len(groups))
	for _, g := range groups {
		for name, b := range g.Upper {
			if b.Sound {
				m.Upper[name] += b.Value
			}
		}
		m.Lower += g.Lower.Value
	}
	const roundoff = 0x1p-40 // far above the rounding error of a sum of 10³ numbers
	for name, sum := range m.Upper {
		m.Upper[name] = min(1, sum/n*(1+roundoff))
	}
	m.Lower *= (1 - roundoff) / n
	return m
}
