package calib

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/rscert/rscert/internal/fixedpoint"
)

// RowWeights holds weights w_i ≥ 0 of the rows of a dataset, as whole numbers of units. With the zero value, all rows
// have the same weight.
//
// A metric with these weights is about the rows themselves. It is a weighted mean over the rows. Let c_i be 1 if row i
// is correct and 0 otherwise, and let z_i be its confidence. For example, the weighted Brier score is
// Σw_i(c_i−z_i)²/Σw_i, and the weighted calibration error is Σ_m|Σ_{i in bin m} w_i(c_i−z_i)|/Σw_i. The metric
// estimates a quantity of the population that the weights describe, but no bound in this file allows for the error of
// this estimate.
type RowWeights struct {
	units []int // w_i in units, rounded down; nil: 1 for each row
	total int   // Σ units
	// inexact says that some w_i is not a whole number of units.
	inexact bool
}

// NewRowWeights converts weights. It expresses them in a unit that is a power of 2. In this unit, the sum of the
// weights is between 2⁵⁹ and 2⁶². An error about a weight is a *RowError.
func NewRowWeights(weight []float64) (RowWeights, error) {
	if err := CheckWeights(weight, math.MaxFloat64); err != nil {
		return RowWeights{}, err
	}
	sum := 0.0
	for _, w := range weight {
		sum += w
	}
	if sum == 0 || math.IsInf(sum, 1) {
		return RowWeights{}, errors.New("the sum of the weights is 0 or too large")
	}
	const bits = 60
	scale := bits - math.Ilogb(sum)
	w := RowWeights{units: make([]int, len(weight))}
	for i, x := range weight {
		scaled := math.Ldexp(x, scale)
		w.units[i] = int(scaled)
		w.total += w.units[i]
		w.inexact = w.inexact || float64(w.units[i]) != scaled || scaled == 0 && x > 0
	}
	return w, nil
}

// check returns an error if there are weights and their number is not n.
func (w RowWeights) check(n int) error {
	if w.units != nil && len(w.units) != n {
		return fmt.Errorf("%d rows, %d weights", n, len(w.units))
	}
	return nil
}

// The method 'of' returns the weight of row i as a whole number of units (see NewRowWeights).
func (w RowWeights) of(i int) int {
	if w.units == nil {
		return 1
	}
	return w.units[i]
}

// sum returns the total weight of n rows in units.
func (w RowWeights) sum(n int) int {
	if w.units == nil {
		return n
	}
	return w.total
}

// slack bounds the error of a weighted mean of n numbers g_i in [−1, 1] if the mean uses the rounded weights. Let s be
// the number of units in a weight of 1, u_i the rounded weights in units, and U the sum of the u_i. Then s·w_i = u_i +
// ε_i with 0 ≤ ε_i < 1. So Σs·w_i·g_i differs from Σu_i·g_i by less than n, and Σs·w_i is at least U and less than U +
// n. Therefore the two means differ by less than 2n/U.
func (w RowWeights) slack(n int) float64 {
	if !w.inexact {
		return 0
	}
	return math.Nextafter(2*float64(n)/float64(w.total)*(1+0x1p-50), 1)
}

// meanUp returns an upper bound on the weighted mean of n numbers in [−1, 1]. The argument 'total' is the weighted sum
// of these numbers, with the weights in units.
func (w RowWeights) meanUp(total fixedpoint.Sum, n int) float64 {
	mean := total.MeanUp(w.sum(n))
	if w.inexact {
		mean = math.Nextafter(mean+w.slack(n), 2)
	}
	return mean
}

// meanDown returns a lower bound on the weighted mean of n numbers in [−1, 1].
func (w RowWeights) meanDown(total fixedpoint.Sum, n int) float64 {
	mean := total.MeanDown(w.sum(n))
	if w.inexact {
		mean = math.Nextafter(mean-w.slack(n), -2)
	}
	return mean
}

// LargestShare returns the largest share of the total weight that k of n rows can have. This is the sum of the k
// largest weights divided by the sum of all weights, rounded up. Without weights it is k/n.
func (w RowWeights) LargestShare(k int64, n int) float64 {
	if w.units == nil {
		return math.Nextafter(float64(k)/float64(n), 2)
	}
	largest := slices.Sorted(slices.Values(w.units))
	slices.Reverse(largest)
	sum := 0
	for _, u := range largest[:min(k, int64(n))] {
		if w.inexact {
			u++ // the weight was rounded down
		}
		sum += u
	}
	return min(1, fixedpoint.Product(sum, fixedpoint.One).MeanUp(w.total))
}

// WeightedCBS returns the certified Brier score with weights, the largest Σw_i(c_i−z_i)²/Σw_i over all confidences in
// the intervals. Here c_i is the correctness and z_i the confidence of row i. Each term has its own z_i, so the sum is
// largest at the same z_i as in CBS. The result is rounded up.
func WeightedCBS(intervals []Bounded, w RowWeights) (float64, error) {
	if err := errors.Join(CheckBounded(intervals), w.check(len(intervals))); err != nil {
		return 0, err
	}
	var sum fixedpoint.Sum
	for i, v := range intervals {
		gap := fixedpoint.Ceil(v.Upper)
		if v.Correct {
			gap = fixedpoint.One - fixedpoint.Floor(v.Lower)
		}
		sum.AddProduct(w.of(i), fixedpoint.SquareUp(gap))
	}
	return w.meanUp(sum, len(intervals)), nil
}
