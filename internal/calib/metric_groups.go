package calib

// Only is a method that returns the predictions of the given rows.
func (p *Predictions) Only(rows []int) *Predictions {
	out := &Predictions{Quantity: p.Quantity, Classes: p.Classes}
	for _, i := range rows {
		out.Confidence, out.Correct = append(out.Confidence, p.Confidence[i]), append(out.Correct, p.Correct[i])
		if p.Weight != nil {
			out.Weight = append(out.Weight, p.Weight[i])
		}
		if p.Probability != nil {
			out.Probability = append(out.Probability, p.Probability[i*p.Classes:(i+1)*p.Classes]...)
		}
		if p.Label != nil {
			out.Label = append(out.Label, p.Label[i])
		}
		if p.Index != nil {
			out.Index = append(out.Index, p.Index[i])
		}
	}
	return out
}

// MeasureGroups computes the metrics of each of G groups. If an interval is valid for every number of examples, its
// confidence level is 1 − (1 − o.Level)/G. So by the union bound, the intervals of one metric hold for all groups
// together with probability at least o.Level. Groups may overlap. A bootstrap interval keeps the level o.Level, because
// no level makes it exact. Each bootstrap interval and each test of calibration refers to its own group, not to all
// groups together.
func MeasureGroups(groups []*Predictions, o MetricOptions) ([]Metrics, error) {
	level := o.Level
	o.Level = 1 - (1-level)/float64(len(groups))
	var all []Metrics
	for _, p := range groups {
		m, err := Measure(p, o)
		if err != nil {
			return nil, err
		}
		m.NLL = NLLEstimate(p, level, o.Seed)
		all = append(all, m)
	}
	return all, nil
}

// WorstEstimate returns the smallest of the groups' values of a metric, and the position of the group with this value.
// If the argument 'most' is true, it takes the largest value instead. The lower end of the result is the smallest (or
// largest) of the groups' lower ends, and its upper end is the smallest (or largest) of their upper ends. So if the
// intervals of all groups hold, the interval of the result covers the true extreme. If a group has no interval, the
// ends of the result are NaN.
func WorstEstimate(groups []Estimate, most bool) (worst Estimate, at int) {
	better := func(a, b float64) float64 { return min(a, b) }
	if most {
		better = func(a, b float64) float64 { return max(a, b) }
	}
	worst = groups[0]
	for k, e := range groups[1:] {
		if e.Value != worst.Value && better(e.Value, worst.Value) == e.Value {
			worst.Value, at = e.Value, k+1
		}
		worst.Lower, worst.Upper = better(worst.Lower, e.Lower), better(worst.Upper, e.Upper)
	}
	return worst, at
}
