package summary

import (
	"fmt"
	"math"
	"slices"
)

// PA describes how the lower bounds on p_A are distributed over the examples. p_A is the probability that the model
// gives the certified class under the noise. A wrong or abstained example counts as 0, as in the average radius.
//
// The radius of Gaussian or Laplace noise grows without limit as p_A approaches 1. So easy examples dominate the
// average radius, and more samples raise this average. In the distribution of the bounds on p_A, the easy examples are
// recognisable, because their bounds are near Largest. Largest grows with the number of samples.
type PA struct {
	Shares []PAShare `json:"shares"` // in ascending order of AtLeast
	// Median is the largest number x such that at least half of the examples have a bound of at least x.
	Median float64 `json:"median"`
	// Largest is the maximum of the bounds of all examples.
	Largest float64 `json:"largest"`

	bounds []float64 // ascending
}

// PAShare is the share of examples whose certified class is right and whose bound on p_A is at least AtLeast.
type PAShare struct {
	AtLeast float64 `json:"at_least"`
	Share   Share   `json:"share"`
}

// paLevels are the values of AtLeast in PA.Shares.
var paLevels = []float64{0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999}

// describePA returns the distribution of the bounds on p_A.
func (s Summary) describePA() (*PA, error) {
	p := &PA{bounds: make([]float64, len(s.Rows))}
	for i, r := range s.Rows {
		switch {
		case math.IsNaN(r.PA):
			return nil, fmt.Errorf("%s: the certificate of example %d has no bound p_a: the methods margin, bonferroni and clopper-pearson give one", s.Path, r.Index)
		case r.Correct:
			p.bounds[i] = r.PA
		}
	}
	slices.Sort(p.bounds)
	n := len(p.bounds)
	for _, level := range paLevels {
		p.Shares = append(p.Shares, PAShare{level, newShare(p.Reach(level), n, s.Level)})
	}
	p.Median, p.Largest = p.bounds[n/2], p.bounds[n-1]
	return p, nil
}

// Reach counts the examples whose bound on p_A is at least x.
func (p *PA) Reach(x float64) int {
	first, _ := slices.BinarySearch(p.bounds, x)
	return len(p.bounds) - first
}

// Steps returns the positive bounds in ascending order, without repetitions.
func (p *PA) Steps() []float64 {
	first, _ := slices.BinarySearch(p.bounds, math.SmallestNonzeroFloat64)
	return slices.Compact(slices.Clone(p.bounds[first:]))
}
