package calib

import "math"

// A Suspicion is a property of predictions that usually comes from a mistake in the data.
type Suspicion int

// These are the suspicions.
const (
	RankedBackwards  Suspicion = iota // the AUROC is far below ½
	FirstLabelAbsent                  // no example has the label 0
	LastLabelAbsent                   // no example has the largest label
	ConstantLabels                    // all examples have the same label
)

// Suspicions returns the suspicions about the predictions. The AUROC counts as far below ½ if it is more than four
// standard errors below ½. If a classifier ranks at random, the variance of the AUROC is (n₁+n₀+1)/(12n₁n₀) for n₁ and
// n₀ examples of the two kinds (Mann–Whitney). A label counts as absent only if there are at least 20 examples for each
// class.
func Suspicions(p *Predictions, auroc float64) (found []Suspicion) {
	const perClass, errors = 20, 4
	ones := 0.0
	for _, right := range p.Correct {
		ones += indicator(right)
	}
	n := float64(p.N())
	zeros := n - ones
	if p.Quantity == ClassOneQuantity && n >= 2*perClass && ones*zeros == 0 {
		found = append(found, ConstantLabels)
	}
	if auroc < 0.5-errors*math.Sqrt((n+1)/(12*ones*zeros)) {
		found = append(found, RankedBackwards)
	}
	if p.Classes < 2 || len(p.Label) < perClass*p.Classes {
		return found
	}
	count := make([]int, p.Classes)
	for _, y := range p.Label {
		count[y]++
	}
	first, last := count[0], count[p.Classes-1]
	switch {
	case count[p.Label[0]] == len(p.Label):
		found = append(found, ConstantLabels)
	case first == 0:
		found = append(found, FirstLabelAbsent)
	case last == 0:
		found = append(found, LastLabelAbsent)
	}
	return found
}
