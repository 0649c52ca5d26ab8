package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/param"
)

// orderLevel is the significance level of the four tests of judgeOrder together.
const orderLevel = 0.001

// A relabelling maps labels of the data to classes of the model. Labels that are not in the map stay as they are.
type relabelling map[int]int

// judgeOrder tests whether the labels are in the order of the model's classes. It looks for a relabelling under which
// clearly more answers are right. It first tests the relabelling that adds 1 to all labels, and the relabelling that
// subtracts 1. It then derives a relabelling from the confusion matrix of one half of the examples, and tests this
// relabelling on the other half. It repeats the derivation and the test with the halves exchanged. Each of these four
// tests is McNemar's exact test with Bonferroni's correction.
func judgeOrder(predicted, labels []int) Finding {
	for _, shift := range []int{1, -1} {
		by := relabelling{}
		for _, label := range labels {
			by[label] = label + shift
		}
		if by.better(predicted, labels) {
			return by.finding(predicted, labels, param.Textf("every answer is the label %+d: do the labels count from 0, and is no class missing (%s, %s)?",
				shift, param.FirstLabel, param.ClassNames))
		}
	}
	first, second := halves(labels)
	for _, half := range [][2][]int{{first, second}, {second, first}} {
		by := suggested(pick(predicted, half[0]), pick(labels, half[0]))
		if by.better(pick(predicted, half[1]), pick(labels, half[1])) {
			return by.finding(predicted, labels, param.Textf("the confusion matrix shows another order of the classes (%s): does %s give the names in the model's order, and is no class missing?",
				by, param.ClassNames))
		}
	}
	if right, _ := agreement(predicted, labels, nil); 2*right < len(labels) {
		return Finding{AspectOrder, Unsure, param.Textf("no other order of the labels explains the answers")}
	}
	return Finding{AspectOrder, Fine, param.Textf("the answers follow the order of the labels")}
}

// The method 'better' reports whether two conditions hold under the relabelling: most answers are right, and clearly
// more answers are right than before.
func (r relabelling) better(predicted, labels []int) bool {
	var lost, gained int64
	right, now := agreement(predicted, labels, r)
	for i, k := range predicted {
		switch was, is := k == labels[i], k == r.class(labels[i]); {
		case was && !is:
			lost++
		case is && !was:
			gained++
		}
	}
	const tests = 4
	return now > right && 2*now > len(labels) && tests*binomial.McNemar(lost, gained) < orderLevel
}

// The method 'finding' returns a Finding with the outcome Suspect. Its text says what share of the answers is right
// without the relabelling, and what share with it.
func (r relabelling) finding(predicted, labels []int, why param.Text) Finding {
	right, now := agreement(predicted, labels, r)
	n := len(labels)
	return Finding{AspectOrder, Suspect, param.Textf("%s are right, %s with other labels: %s", percent(right, n), percent(now, n), why)}
}

func (r relabelling) class(label int) int {
	if class, ok := r[label]; ok {
		return class
	}
	return label
}

// String lists up to five labels that change.
func (r relabelling) String() string {
	var changed []int
	for label, class := range r {
		if label != class {
			changed = append(changed, label)
		}
	}
	slices.Sort(changed)
	var list []string
	for i, label := range changed {
		if i == 5 {
			list = append(list, "…")
			break
		}
		list = append(list, fmt.Sprintf("label %d is class %d", label, r[label]))
	}
	return strings.Join(list, ", ")
}

// agreement counts the answers that equal the labels, before and after a relabelling.
func agreement(predicted, labels []int, r relabelling) (before, after int) {
	for i, k := range predicted {
		if k == labels[i] {
			before++
		}
		if k == r.class(labels[i]) {
			after++
		}
	}
	return before, after
}

// The function 'halves' divides the examples into two halves. The examples of each label go to the two halves
// alternately.
func halves(labels []int) (first, second []int) {
	seen := map[int]int{}
	for i, label := range labels {
		if seen[label]%2 == 0 {
			first = append(first, i)
		} else {
			second = append(second, i)
		}
		seen[label]++
	}
	return first, second
}

func pick(from, at []int) []int {
	to := make([]int, len(at))
	for k, i := range at {
		to[k] = from[i]
	}
	return to
}

// The function 'suggested' returns the one-to-one relabelling that the confusion matrix suggests. It goes through the
// pairs of a label and an answer, the most frequent pair first. It skips a pair if an earlier pair already took the
// label or the answer.
func suggested(predicted, labels []int) relabelling {
	type pair struct{ label, answer int }
	counts := map[pair]int{}
	for i, k := range predicted {
		counts[pair{labels[i], k}]++
	}
	pairs := make([]pair, 0, len(counts))
	for p := range counts {
		pairs = append(pairs, p)
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(counts[b]-counts[a], a.label-b.label, a.answer-b.answer)
	})
	r, taken := relabelling{}, map[int]bool{}
	for _, p := range pairs {
		if _, has := r[p.label]; !has && !taken[p.answer] {
			r[p.label], taken[p.answer] = p.answer, true
		}
	}
	return r
}

// judgeClasses compares the largest label with the number m of the model's classes. The set-up is suspect if two
// conditions hold: the model has at least four times as many classes as the data, and most answers are above the
// largest label. In this case, the model's outputs are perhaps not scores of classes.
func judgeClasses(predicted, labels []int, m int) Finding {
	low, high := slices.Min(labels), slices.Max(labels)
	said := param.Textf("the model has %d classes; the labels of %d examples go from %d to %d", m, len(labels), low, high)
	outside := 0
	for _, k := range predicted {
		if k > high {
			outside++
		}
	}
	if 4*(high+1) <= m && 2*outside > len(labels) {
		return Finding{AspectClasses, Suspect, param.Textf("%s, and %s of the answers are classes above: are the model's outputs scores of these classes (%s)?",
			said, percent(outside, len(predicted)), param.ScoresOutput)}
	}
	return Finding{AspectClasses, Fine, said}
}
