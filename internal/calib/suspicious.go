package calib

import "math"

// A Suspicion is a property of predictions that usually comes from a mistake in the data.
type Suspicion struct {
	Kind SuspicionKind
	// Value is a number that explains the suspicion; its meaning depends on Kind.
	Value float64
}

// SuspicionKind says which property of the predictions is suspicious.
type SuspicionKind int

// These are the kinds of suspicions.
const (
	RankedBackwards  SuspicionKind = iota // the AUROC is far below ½; Value is the AUROC
	FirstLabelAbsent                      // no example has the label 0
	LastLabelAbsent                       // no example has the largest label; Value is this label
	ConstantLabels                        // all examples have the same label
	LikePercentages                       // the mean score is about 100 times the share of class 1; Value is the factor
)

// Suspicions returns the properties of the predictions that usually come from a mistake in the data. The argument
// 'auroc' is their AUROC, or NaN.
//
// The AUROC counts as far below ½ if it is more than four standard errors below ½. If a classifier ranks at random, the
// variance of the AUROC is (n₁+n₀+1)/(12n₁n₀) for n₁ and n₀ examples of the two kinds (Mann–Whitney). A label counts as
// absent only if the number of examples is at least 20 times the number of classes.
//
// Scores of class 1 look like percentages if there are at least 40 examples, and if the mean score is between 30 and
// 300 times the share of class 1. Probabilities in percent have such a mean. Scores are at most 1, so class 1 is rare
// in this case.
func Suspicions(p *Predictions, auroc float64) []Suspicion {
	ones, share := 0.0, 0.0
	for _, right := range p.Correct {
		ones += indicator(right)
	}
	if p.Quantity == ClassOneQuantity {
		share = p.meanOf(func(i int) float64 { return indicator(p.Correct[i]) })
	}
	found := suspectScores(p.Quantity, float64(p.N()), ones, p.MeanConfidence()/share, auroc)
	return append(found, SuspectLabels(p.Label, p.Classes)...)
}

// Suspicions returns the suspicions about the sample, as the function Suspicions does for predictions. The argument q
// says what the scores are.
func (s *Sample) Suspicions(q Quantity) []Suspicion {
	ones, sum := 0.0, 0.0
	for _, x := range s.packed {
		score, label := unpack(x)
		ones += float64(label)
		sum += score
	}
	auroc, err := s.AUROC()
	if err != nil { // all labels are equal
		auroc = math.NaN()
	}
	return suspectScores(q, float64(s.N()), ones, sum/ones, auroc)
}

// suspectScores returns the suspicions about n scores. The argument 'ones' is the number of examples of class 1 or, for
// top-label confidences, the number of right answers. For scores of class 1, the argument 'factor' is the mean score
// divided by the share of class 1.
func suspectScores(q Quantity, n, ones, factor, auroc float64) (found []Suspicion) {
	const (
		few             = 40
		errors          = 4
		lowest, highest = 30, 300
	)
	zeros := n - ones
	if q == ClassOneQuantity && n >= few {
		switch {
		case ones*zeros == 0:
			found = append(found, Suspicion{Kind: ConstantLabels})
		case factor > lowest && factor < highest:
			found = append(found, Suspicion{LikePercentages, factor})
		}
	}
	if auroc < 0.5-errors*math.Sqrt((n+1)/(12*ones*zeros)) {
		found = append(found, Suspicion{RankedBackwards, auroc})
	}
	return found
}

// SuspectLabels returns those suspicions that need only the labels. The labels are from 0 to classes−1.
func SuspectLabels(label []int, classes int) []Suspicion {
	const perClass = 20
	if classes < 2 || len(label) < perClass*classes {
		return nil
	}
	count := make([]int, classes)
	for _, y := range label {
		count[y]++
	}
	switch {
	case count[label[0]] == len(label):
		return []Suspicion{{Kind: ConstantLabels}}
	case count[0] == 0:
		return []Suspicion{{Kind: FirstLabelAbsent}}
	case count[classes-1] == 0:
		return []Suspicion{{LastLabelAbsent, float64(classes - 1)}}
	}
	return nil
}

// Separated reports whether the probabilities tell the labels apart without error. For predictions of class 1, and for
// two classes, this means that every example with label 1 has a higher probability of class 1 than every example with
// label 0. For more classes, it means that in every example the label has the largest probability. If the labels are
// separated in this way, a calibration map can reach probabilities of 0 and 1. If all examples have the same label,
// Separated returns false.
func Separated(p *Predictions) bool {
	one, right := p.Confidence, p.Correct
	switch {
	case p.Quantity == ClassOneQuantity:
	case p.Probability == nil:
		return false
	case p.Classes > 2:
		varied, correct := false, true
		for i, y := range p.Label {
			varied, correct = varied || y != p.Label[0], correct && p.Correct[i]
		}
		return varied && correct
	default:
		one, right = make([]float64, p.N()), make([]bool, p.N())
		for i, y := range p.Label {
			one[i], right[i] = p.Probability[2*i+1], y == 1
		}
	}
	highest, lowest := math.Inf(-1), math.Inf(1) // highest score of label 0, lowest score of label 1
	for i, x := range one {
		if right[i] {
			lowest = min(lowest, x)
		} else {
			highest = max(highest, x)
		}
	}
	return highest < lowest && !math.IsInf(highest, 0) && !math.IsInf(lowest, 0)
}
