package summary

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/decimal"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/table"
)

// Grouping says how to divide the examples into groups.
type Grouping struct {
	Columns []string
	// Table has a column named 'index', and the columns of the groups. If Table is nil, the only possible column is
	// "label", the true class.
	Table *table.Table
}

// ByGroup holds the certified accuracy of groups of examples. Let G be the number of groups. A group has two lower
// bounds at each radius: GroupPoint.Certified and GroupPoint.Population. Each uses δ/G. So, with probability 1 − Delta,
// GroupPoint.Certified holds for all groups and all radii at once. With the same probability, GroupPoint.Population
// holds for all groups at each single radius, but not for all radii at once. The groups must not depend on the noise.
type ByGroup struct {
	Delta  float64 `json:"delta"`
	Groups []Group `json:"groups"`
	// Worst holds, for each radius, the smallest accuracy, the smallest Certified and the smallest Population among the
	// groups. Let the groups be mixed in any proportions. The accuracy of the mixture is a weighted mean of the groups'
	// accuracies, so it is at least the smallest accuracy.
	Worst []GroupPoint `json:"worst"`
}

// Group holds the certified accuracy of a group.
type Group struct {
	predictions.RowGroup
	Examples int `json:"examples"`
	// Failures is an upper bound on the number of wrong certificates of the group. With G groups, this bound holds with
	// probability 1 − δ/G. It is the 1 − δ/G quantile of Bin(N, α), where N is the number of sampled examples of the
	// group. If the rows omit sampled examples, N and G also allow for these examples (groupFailures). Failures is nil
	// without Summary.Dataset.
	Failures *int64       `json:"failures,omitempty"`
	Curve    []GroupPoint `json:"certified_accuracy"` // at the radii of Summary.Curve
}

// GroupPoint is the certified accuracy of a group at a radius. With G groups, the interval of Accuracy has the
// confidence level 1 − (1 − Level)/G.
type GroupPoint struct {
	Radius   float64 `json:"radius"`
	Accuracy Share   `json:"accuracy"`
	// Certified is (Accuracy.Count − Group.Failures)/Accuracy.Of, a lower bound for these examples. This bound holds at
	// all radii at once. Certified is nil if Summary.Dataset is nil.
	Certified *float64 `json:"certified,omitempty"`
	// Population is a lower bound on the accuracy under attacks within this radius, in the population from which the
	// group's examples were drawn. Population is nil if Summary.Dataset is nil, or if certificates of sampled examples
	// may be missing.
	Population *float64 `json:"population,omitempty"`
}

// grouped holds the rows of each group.
type grouped struct {
	delta   float64
	columns int // number of columns whose values define the groups
	groups  []predictions.RowGroup
}

// group divides the rows into the groups that g describes.
func (g *Grouping) group(path string, rows []Row, delta float64) (*grouped, error) {
	if g == nil {
		return nil, nil
	}
	for _, column := range g.Columns {
		if err := predictions.CheckNoisy(path, column); err != nil {
			return nil, err
		}
	}
	out := &grouped{delta: delta, columns: len(g.Columns)}
	index := make([]float64, len(rows))
	for i, r := range rows {
		index[i] = float64(r.Index)
	}
	if g.Table != nil {
		var err error
		if out.groups, err = predictions.GroupByIndex(index, g.Table, g.Columns); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return out, nil
	}
	for _, column := range g.Columns {
		if column != "label" {
			return nil, hint.Add(param.Errorf("%s: %s %s: the certificates state no group but the label", path, param.Group, column),
				"give a file with the columns index and %s by %s", column, param.Groups)
		}
	}
	labels := make([]int, len(rows))
	for i, r := range rows {
		labels[i] = r.Label
	}
	out.groups = slices.DeleteFunc(predictions.GroupLabels(labels), func(g predictions.RowGroup) bool {
		return g.Value.Value == certify.UnknownLabel
	})
	if n := len(out.groups); n == 0 || n > predictions.MaxGroups {
		return nil, fmt.Errorf("%s: %d classes have examples: want 1 to %d for groups", path, n, predictions.MaxGroups)
	}
	return out, nil
}

// ofBounds divides the rows of t into the groups of g. The table t holds bounds on the confidence. A row of t belongs
// to the groups of the example with the same index.
func (g *grouped) ofBounds(rows []Row, t *table.Table) []predictions.RowGroup {
	index, ok := t.Column("index")
	if g == nil || !ok {
		return nil
	}
	at := map[float64][]int{}
	for i, x := range index {
		at[x] = append(at[x], i)
	}
	var out []predictions.RowGroup
	for _, group := range g.groups {
		of := group
		of.Value.Rows = nil
		for _, i := range group.Value.Rows {
			of.Value.Rows = append(of.Value.Rows, at[float64(rows[i].Index)]...)
		}
		out = append(out, of)
	}
	return out
}

// byGroup computes the accuracies of the groups at the radii of the curve.
func (s Summary) byGroup() (*ByGroup, error) {
	if s.grouped == nil {
		return nil, nil
	}
	out := &ByGroup{Delta: s.grouped.delta}
	level := 1 - (1-s.Level)/float64(len(s.grouped.groups))
	for k, g := range s.grouped.groups {
		group := Group{RowGroup: g, Examples: len(g.Value.Rows)}
		if s.Dataset != nil {
			failures, err := s.groupFailures(k)
			if err != nil {
				return nil, err
			}
			group.Failures = &failures
		}
		for _, p := range s.Curve {
			count := s.groupCertifiedAt(k, decimal.Of(p.Radius))
			at := GroupPoint{Radius: p.Radius, Accuracy: newShare(count, group.Examples, level)}
			if group.Failures != nil {
				certified := shareLess(count, *group.Failures, group.Examples)
				at.Certified, at.Population = &certified, s.populationAccuracy(count, group.Examples)
			}
			group.Curve = append(group.Curve, at)
		}
		out.Groups = append(out.Groups, group)
	}
	out.Worst = worstPoints(out.Groups)
	return out, nil
}

// groupFailures returns Group.Failures for group k: an upper bound on the number of wrong certificates of the group.
// The number of sampled examples of the group is at most the number of its rows plus the number of all examples that
// the rows omit. The noise may decide which examples the rows omit. For each column, an omitted example may be in a
// group that the rows do not show. So groupFailures divides δ by the number of all groups, including these possible
// groups.
func (s Summary) groupFailures(k int) (int64, error) {
	listed := len(s.grouped.groups[k].Value.Rows)
	if s.Conditions.Deterministic {
		return 0, nil
	}
	missing := max(0, s.Selected-s.Examples)
	sampled, groups := int64(listed+missing), len(s.grouped.groups)+s.grouped.columns*missing
	failures, err := binomial.FailureQuantile(sampled, s.Dataset.Alpha, s.grouped.delta/float64(groups))
	return min(failures, sampled), err
}

// populationAccuracy returns a lower bound on the accuracy under attack in the population of a group. With G groups,
// the bound holds with probability 1 − δ/G. Let q be the probability that an example of the population counts as
// certified. An example that an attack can break counts as certified with probability at most α. So q ≤ a + α(1 − a)
// for the accuracy a under attack, and a ≥ (q − α)/(1 − α). The result uses the lower Clopper–Pearson bound at δ/G in
// place of q. populationAccuracy returns nil if some sampled examples are missing.
func (s Summary) populationAccuracy(count, of int) *float64 {
	if s.NotCounted || s.Selected != s.Examples {
		return nil
	}
	alpha := s.Dataset.Alpha
	q := binomial.LowerBound(int64(count), int64(of), s.grouped.delta/float64(len(s.grouped.groups)))
	a := certify.RoundDown(max(0, (q-alpha)/(1-alpha)*(1-1e-12)))
	return &a
}

// groupCertifiedAt counts the examples of group k whose certified class is the label and whose radius is at least r.
func (s Summary) groupCertifiedAt(k int, r *big.Rat) int {
	return certifiedAt(func(yield func(Row) bool) {
		for _, i := range s.grouped.groups[k].Value.Rows {
			if !yield(s.Rows[i]) {
				return
			}
		}
	}, r)
}

// worstPoints returns, for each radius, the smallest accuracy, the smallest Certified and the smallest Population among
// the groups.
func worstPoints(groups []Group) []GroupPoint {
	worst := append([]GroupPoint(nil), groups[0].Curve...)
	least := func(a, b *float64) *float64 {
		if a == nil || b == nil || *a < *b {
			return a
		}
		return b
	}
	for _, g := range groups[1:] {
		for k, p := range g.Curve {
			w := &worst[k]
			if p.Accuracy.Rat().Cmp(w.Accuracy.Rat()) < 0 {
				w.Accuracy = p.Accuracy
			}
			w.Certified, w.Population = least(w.Certified, p.Certified), least(w.Population, p.Population)
		}
	}
	return worst
}

// WorstGroupAt is the certified accuracy of the worst group at a radius.
type WorstGroupAt struct {
	Name     string
	Count    int
	Of       int
	Failures int64
}

// Rat returns (Count − Failures)/Of, or 0 if this number is negative.
func (w WorstGroupAt) Rat() *big.Rat {
	return big.NewRat(max(0, int64(w.Count)-w.Failures), int64(w.Of))
}

// WorstGroupAt returns the group with the smallest certified accuracy at a radius. If the argument 'allow' is true,
// Group.Failures is subtracted from the number of certified examples of each group, because so many of its certificates
// may be wrong. In this case, Summary.Dataset must not be nil. The result 'ok' is false if there are no groups.
func (s Summary) WorstGroupAt(r *big.Rat, allow bool) (worst WorstGroupAt, ok bool) {
	if s.ByGroup == nil {
		return WorstGroupAt{}, false
	}
	for k, g := range s.ByGroup.Groups {
		at := WorstGroupAt{Name: g.Name(), Count: s.groupCertifiedAt(k, r), Of: g.Examples}
		if allow {
			at.Failures = *g.Failures
		}
		if k == 0 || at.Rat().Cmp(worst.Rat()) < 0 {
			worst = at
		}
	}
	return worst, true
}
