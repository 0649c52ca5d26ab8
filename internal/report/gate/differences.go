package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/report/summary"
)

// Differences compares each further run with the first one, example by example. The runs may differ in their models
// and in their conditions, such as σ. They must certify the same examples, with radii in the same norm. The p-values of
// all comparisons are adjusted together.
func Differences(runs []summary.Summary) ([]Comparison, error) {
	for _, s := range runs {
		if s.Selected > s.Examples {
			return nil, &UnfinishedError{s.Path, s.Examples, s.Selected}
		}
	}
	var all []Comparison
	for _, s := range runs[1:] {
		all = append(all, compare(runs[0], s))
	}
	Adjust(all)
	return all, nil
}

// Adjust sets the adjusted p-values and the cautions of all comparisons in one report.
func Adjust(all []Comparison) {
	var rows []*AccuracyChange
	for k := range all {
		for i := range all[k].Accuracy {
			rows = append(rows, &all[k].Accuracy[i])
		}
	}
	holm(rows)
	for k := range all {
		c := &all[k]
		for i := range c.Accuracy {
			c.Accuracy[i].Differs = c.Accuracy[i].Adjusted <= 1-c.Level
		}
		c.Cautions = c.cautions()
	}
}

// holm sets the adjusted p-values of Holm 1979. Sort the p-values of the m rows in ascending order. Then
//
//	adjusted p_(i) = max over j ≤ i of min(1, (m − j + 1)·p_(j)).
//
// A row is reported as a difference if its adjusted p-value is at most the level α. A false report is a report for a
// row whose null hypothesis holds. With probability at least 1 − α, there is no false report. This holds for any
// dependence between the tests.
func holm(rows []*AccuracyChange) {
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, func(a, b *AccuracyChange) int { return cmp.Compare(a.P, b.P) })
	least := 0.0
	for i, row := range sorted {
		least = max(least, min(1, float64(len(sorted)-i)*row.P))
		row.Adjusted = least
	}
}

// Let d be the number of examples that exactly one of two runs certifies. fewestDifferences returns the smallest d for
// which McNemar's exact test can show a difference at the level a. For a given d, the smallest p-value is 2·2^−d. The
// test has this p-value if the same run certifies all d examples.
func fewestDifferences(a float64) (d int64) {
	for d = 1; binomial.McNemar(d, 0) > a; d++ {
	}
	return d
}

// cautions returns a caution if the runs have too few examples. Otherwise it can return two cautions. The first lists
// the radii at which some examples differ between the runs, but too few examples to show a difference at this level.
// The second lists the radii at which the change is not 0 and its interval is wider than the change. A caution is left
// out if its list is empty.
func (c Comparison) cautions() (all []summary.Caution) {
	a := 1 - c.Level
	fewest := fewestDifferences(a)
	if int64(c.Examples) < fewest {
		return []summary.Caution{{Code: summary.FewExamples, Says: fmt.Sprintf(
			"Few examples: at least %d are needed to show a difference at the level %.2g, and the runs have %d.", fewest, a, c.Examples)}}
	}
	var few, wide []string
	for _, row := range c.Accuracy {
		if n := int64(row.Lost + row.Gained); n > 0 && n < fewest {
			few = append(few, fmt.Sprint(row.Radius))
		}
		if row.Change != 0 && row.High-row.Low > math.Abs(row.Change) {
			wide = append(wide, fmt.Sprint(row.Radius))
		}
	}
	if len(few) > 0 {
		all = append(all, summary.Caution{Code: summary.FewDifferences, Says: fmt.Sprintf(
			"Few differences: at radius %s, fewer than %d examples differ, and no split of so few shows a difference at the level %.2g.", strings.Join(few, ", "), fewest, a)})
	}
	if len(wide) > 0 {
		all = append(all, summary.Caution{Code: summary.IntervalTooWide, Says: fmt.Sprintf(
			"Wide intervals: at radius %s, the interval of the change is wider than the change, so its size is not well known.", strings.Join(wide, ", "))})
	}
	return all
}
