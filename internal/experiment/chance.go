package experiment

import (
	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/param"
)

// These constants are limits for the tests in judgeAccuracy.
const (
	chanceLevel  = 0.05 // above this p-value, the accuracy may be chance
	uselessLevel = 0.05 // below this p-value, the accuracy is too low for a useful model
	baseLevel    = 0.001
	fewAnswers   = 10 // smallest number of answers that are suspect if all of them are equal
)

// judgeAccuracy tests the accuracy of the answers against chance, for m classes. The tests are exact binomial tests of
// the number k of right answers among n:
//
//   - The accuracy may be chance if P(Bin(n, 1/m) ≥ k) > 0.05 and not all answers are right.
//   - The accuracy is too low for a useful model if P(Bin(n, u) ≤ k) < 0.05, where u = 1/m + (1 − 1/m)/4 is a quarter
//     of the way from chance to 1.
//
// If both hold, the set-up is suspect. If only the first holds, there are too few examples to decide. If more than a
// tenth of the labels differ from the most frequent label, the set-up is also suspect in two other cases. In the first
// case, there are at least ten answers and all of them are equal. In the second case, a classifier that always answers
// the most frequent label would be right more often than the model (McNemar's exact test, p-value below 0.001).
func judgeAccuracy(predicted, labels []int, m int) Finding {
	n, right := len(predicted), 0
	for i, k := range predicted {
		if k == labels[i] {
			right++
		}
	}
	common, most := mostFrequent(labels)
	answer, same := mostFrequent(predicted)
	chance := 1 / float64(max(m, 2))
	useful := chance + (1-chance)/4
	said := param.Textf("the model is right on %s of %d examples without noise", percent(right, n), n)
	mixed := 10*most < 9*n // more than a tenth of the labels differ from the most frequent label
	maybeChance := right < n && upper(n, right, chance) > chanceLevel
	switch {
	case maybeChance && lower(n, right, useful) < uselessLevel:
		return Finding{AspectAccuracy, Suspect, param.Textf("%s, near chance", said)}
	case same == n && mixed && n >= fewAnswers:
		return Finding{AspectAccuracy, Suspect, param.Textf("%s: it answers class %d to all of them, near chance", said, answer)}
	case mixed && right < most && binomial.McNemar(differences(predicted, labels, common)) < baseLevel:
		return Finding{AspectAccuracy, Suspect, param.Textf("%s, near chance: always answering class %d is right on %s", said, common, percent(most, n))}
	case maybeChance:
		return Finding{AspectAccuracy, Unsure, param.Textf("%s: too few examples to tell this from chance (%.3g %%)", said, 100*chance)}
	}
	return Finding{AspectAccuracy, Fine, param.Textf("%s; chance is %.3g %%", said, 100*chance)}
}

// The function 'upper' returns P(Bin(n, p) ≥ k).
func upper(n, k int, p float64) float64 { return binomial.Tail(int64(n), int64(k), p).Upper }

// The function 'lower' returns P(Bin(n, p) ≤ k) = P(Bin(n, 1−p) ≥ n−k).
func lower(n, k int, p float64) float64 { return binomial.Tail(int64(n), int64(n-k), 1-p).Upper }

// The function 'differences' compares the model with a classifier that always answers the class 'common'. The result
// 'lost' counts the examples that only this classifier gets right, and the result 'gained' counts the examples that
// only the model gets right.
func differences(predicted, labels []int, common int) (lost, gained int64) {
	for i, k := range predicted {
		switch {
		case k == labels[i] && labels[i] != common:
			gained++
		case k != labels[i] && labels[i] == common:
			lost++
		}
	}
	return lost, gained
}

// mostFrequent returns the most frequent of the given classes, and how often it occurs.
func mostFrequent(classes []int) (class, times int) {
	counts := map[int]int{}
	for _, k := range classes {
		if counts[k]++; counts[k] > times {
			class, times = k, counts[k]
		}
	}
	return class, times
}
