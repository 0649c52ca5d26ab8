package calib

import (
	"errors"
	"fmt"
	"math"
)

// PairedDifference compares a mean loss of two classifiers on the same examples.
type PairedDifference struct {
	Name       string  `json:"name"`
	First      float64 `json:"first"`
	Second     float64 `json:"second"`
	Difference float64 `json:"difference"` // First − Second
	// With a probability of at least the argument 'level' of ComparePaired, the interval from Low to High contains the
	// difference in the population.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	P    float64 `json:"p"` // two-sided p-value of the hypothesis that the difference is 0
}

// clippedProbability is the lower limit of the probabilities in the clipped NLL of ComparePaired.
const clippedProbability = 0.01

// ComparePaired compares the error rates, the Brier scores and the clipped NLLs of two classifiers. Row i of both
// classifiers is the same example. The difference of an example's two losses is bounded. If the examples are
// independent and identically distributed, the differences are too, so the betting interval of MeanInterval holds for
// every number of examples. Variation that is common to both classifiers cancels. The clipped NLL is −ln max(p, 0.01),
// where p is the probability that the classifier gave to the actual outcome. The plain NLL has no bound and therefore
// no valid interval. Each interval by itself holds with a probability of at least the argument 'level'. An ECE is not a
// mean over examples, so the betting interval cannot bound the difference of two ECEs. CompareECE bounds this
// difference with an interval that is wider than a betting interval.
//
// An error about a row is a *RowError.
func ComparePaired(first, second *Predictions, level float64, seed uint64) ([]PairedDifference, error) {
	if err := CheckPaired(first, second); err != nil {
		return nil, err
	}
	worst := -math.Log(clippedProbability)
	var found []PairedDifference
	for _, loss := range []struct {
		name string
		most float64
		of   func(p *Predictions, i int) float64
	}{
		{"error rate", 1, func(p *Predictions, i int) float64 { return indicator(!p.answersRight(i)) }},
		{"Brier", 1, (*Predictions).brierTerm},
		{"clipped NLL", worst, func(p *Predictions, i int) float64 { return min(worst, p.topLabelNLLTerm(i)) }},
	} {
		n := first.N()
		d := PairedDifference{Name: loss.name}
		for i := range n {
			d.First += loss.of(first, i) / float64(n)
			d.Second += loss.of(second, i) / float64(n)
		}
		d.Difference = d.First - d.Second
		unit := func(i int) float64 {
			return clamp01((loss.of(first, i)-loss.of(second, i))/(2*loss.most) + 0.5)
		}
		const rounding = 1e-12 // rounding error of the mean of unit(i) over the examples
		low, high := MeanInterval(n, unit, 1-level, seed)
		d.Low = loss.most * (2*max(0, low-rounding) - 1)
		d.High = loss.most * (2*min(1, high+rounding) - 1)
		d.P = MeanPValue(n, unit, 0.5, 1-level, seed)
		found = append(found, d)
	}
	return found, nil
}

// ECEDifference compares the ECEs of two classifiers on the same examples.
type ECEDifference struct {
	First      float64 `json:"first"`
	Second     float64 `json:"second"`
	Difference float64 `json:"difference"` // First − Second
	// The interval from Low to High contains θ₁ − θ₂ with a probability of at least the level of CompareECE. Here θ₁
	// belongs to the first classifier and θ₂ to the second. Each of them is an ECE in which every outcome is replaced
	// by its probability given the confidence (see ECEEstimate).
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// CompareECE compares the ECEs of two classifiers, with bins of equal width. Let θ₁ and θ₂ be the values θ of
// ECEEstimate for the two classifiers. Let [l₁, u₁] and [l₂, u₂] be the intervals of ECEEstimate for θ₁ and θ₂, each at
// the level 1 − (1 − o.Level)/2. By the union bound, both intervals hold together with a probability of at least
// o.Level, however the two classifiers depend on each other. Then
//
//	l₁ − u₂ ≤ θ₁ − θ₂ ≤ u₁ − l₂.
//
// The interval is valid for every number of independent examples. It does not use the fact that variation common to
// both classifiers cancels. So it is much wider than an interval of ComparePaired.
func CompareECE(first, second *Predictions, o MetricOptions) (ECEDifference, error) {
	if err := CheckPaired(first, second); err != nil {
		return ECEDifference{}, err
	}
	var found [2]Estimate
	for k, p := range []*Predictions{first, second} {
		bins, err := EqualWidth(p, o.Bins, o.Edge)
		if err != nil {
			return ECEDifference{}, err
		}
		found[k] = ECEEstimate(p, bins, 1-(1-o.Level)/2)
	}
	return ECEDifference{
		First: found[0].Value, Second: found[1].Value, Difference: found[0].Value - found[1].Value,
		Low:  math.Nextafter(found[0].Lower-found[1].Upper, -2),
		High: math.Nextafter(found[0].Upper-found[1].Lower, 2),
	}, nil
}

// CheckPaired returns an error if the rows of the two classifiers cannot be the same examples in the same order. It
// also refuses weights and empty data.
func CheckPaired(first, second *Predictions) error {
	switch {
	case first.Weight != nil || second.Weight != nil:
		return errors.New("a paired comparison has no weights")
	case first.N() != second.N():
		return fmt.Errorf("%d rows here, %d rows there", first.N(), second.N())
	case first.N() == 0:
		return errNoRows
	case first.Quantity != second.Quantity:
		return fmt.Errorf("%s here, %s there", first.Quantity, second.Quantity)
	}
	for i := range first.Correct {
		different := first.Quantity == ClassOneQuantity && first.Correct[i] != second.Correct[i]
		if first.Label != nil && second.Label != nil {
			different = first.Label[i] != second.Label[i]
		}
		if different {
			return &RowError{i, "the labels differ, so the rows are not the same examples"}
		}
		if first.Index != nil && second.Index != nil && first.Index[i] != second.Index[i] {
			return &RowError{i, fmt.Sprintf("index %v here, %v there: the rows are not the same examples",
				first.Index[i], second.Index[i])}
		}
	}
	return nil
}
