package acce

import (
	"context"
	"fmt"
	"slices"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/predictions"
)

// ByGroup holds the findings for groups of examples at one radius.
//
// The group of an example must be known before the noise of the example is drawn. Let δ be Dataset.Delta. For each
// group, the bounds in Certified fail with probability at most δ/G. Here G is the number of groups in the study plus
// the largest possible number of groups without a row (unseenGroups). So at each radius, with probability at least 1 −
// δ, these bounds hold for all groups at once. The largest CBS over the groups also bounds the CBS of every mixture
// Σπ_g·(group g), with shares π_g ≥ 0 that sum to 1. The largest CCE over the groups also bounds the CCE of every such
// mixture. The reason is that the Brier score is linear in the shares, and |Σπ_g·S_gm| ≤ Σπ_g·|S_gm| for the gap S_gm
// of group g in bin m.
type ByGroup struct {
	Groups []GroupResult `json:"groups"` // the groups with at least one example whose class is certified at this radius
	// The field Without lists the groups in which no example has a certified class at this radius.
	Without []predictions.RowGroup `json:"without_certified_class,omitempty"`
	Worst   WorstGroup             `json:"worst"`
	Of      int                    `json:"of"` // number of groups in the study
}

// GroupResult holds the findings for a group (see Result).
type GroupResult struct {
	predictions.RowGroup
	N           int                `json:"n"`
	ECE         *float64           `json:"ece,omitempty"`
	CBS         float64            `json:"cbs"`
	CCE         *float64           `json:"cce,omitempty"`
	Certified   *Certified         `json:"certified,omitempty"`
	Thresholded []ThresholdedError `json:"thresholded,omitempty"`
}

// WorstGroup holds the largest value of each quantity over the groups.
type WorstGroup struct {
	CBS       float64         `json:"cbs"`
	CCE       *float64        `json:"cce,omitempty"`
	Certified *WorstCertified `json:"certified,omitempty"` // nil if the study makes no statement about the dataset
}

// WorstCertified holds bounds that, with probability 1 − Delta, are true for all groups at once.
type WorstCertified struct {
	Delta float64  `json:"delta"`
	CBS   float64  `json:"cbs"`
	CCE   *float64 `json:"cce,omitempty"`
}

// part is the study of a group of examples. Its field Study.groups has an element for each radius at which at least one
// of these examples has a certified class.
type part struct {
	predictions.RowGroup
	*Study
}

// divide makes the studies of the groups.
func (s *Study) divide(rows calib.BoundRows) error {
	for _, g := range s.options.Groups {
		if err := predictions.CheckNoisy(s.table.Path, g.Column); err != nil {
			return err
		}
	}
	if err := s.checkMembers(rows.Index); err != nil {
		return err
	}
	for _, g := range s.options.Groups {
		p, err := s.part(g, rows)
		if err != nil {
			return err
		}
		s.parts = append(s.parts, p)
	}
	return nil
}

// checkMembers returns an error if one column puts an example into two groups.
func (s *Study) checkMembers(index []float64) error {
	type key struct {
		column string
		index  float64
	}
	if index == nil {
		return nil
	}
	of := map[key]string{}
	for _, g := range s.options.Groups {
		for _, i := range g.Value.Rows {
			k, name := key{g.Column, index[i]}, g.Value.Name()
			if other, ok := of[k]; ok && other != name {
				return s.table.Errorf(i, "the example with index %v is in the groups %s and %s of the column %s", index[i], other, name, g.Column)
			}
			of[k] = name
		}
	}
	return nil
}

// part makes the study of a group. Let N be the number of sampled examples, and let M be the number of examples in the
// table that are not in the group. Then at most N − M of the sampled examples are in the group. The more examples a
// group has, the more of its bounds may fail. So it is safe to assume that the group has N − M examples.
func (s *Study) part(g predictions.RowGroup, rows calib.BoundRows) (part, error) {
	sub := &Study{options: s.options, table: s.table, bins: s.bins, alpha: s.alpha, sampled: s.sampled}
	sub.options.Groups, sub.options.Solvers, sub.options.Adaptive, sub.options.Attack = nil, nil, false, false
	for _, solver := range s.options.Solvers {
		if solver.Exact {
			sub.options.Solvers = append(sub.options.Solvers, solver)
		}
	}
	if s.options.Dataset != nil {
		d := *s.options.Dataset
		d.Delta /= float64(len(s.options.Groups) + s.unseenGroups(rows))
		sub.options.Dataset = &d
	}
	members := map[int]bool{}
	for _, i := range g.Value.Rows {
		members[i] = true
	}
	if s.sampled.Examples > 0 {
		sub.sampled.Examples -= countOthers(rows, members)
	}
	for _, at := range s.groups {
		only := group{RadiusRows: at.Only(func(i int) bool { return members[i] }), radius: at.radius}
		if n := len(only.Rows) + len(only.UncertifiedRows); s.sampled.Examples > 0 && n > sub.sampled.Examples {
			return part{}, fmt.Errorf("%s: %s has %d examples at one radius, and fewer at another one: want the column index",
				s.table.Path, g.Name(), n)
		}
		if len(only.Rows) == 0 {
			continue
		}
		if err := only.weigh(s.weight); err != nil {
			return part{}, fmt.Errorf("%s: %s: %w", s.table.Path, g.Name(), err)
		}
		sub.groups = append(sub.groups, only)
	}
	return part{g, sub}, nil
}

// unseenGroups returns the largest possible number of groups that have no row in the table. The noise decides which
// examples the table leaves out, so the number of groups in the table is random. But δ must be divided by at least the
// number of groups of all sampled examples. In each column, each missing example may be in a group of its own.
func (s *Study) unseenGroups(rows calib.BoundRows) int {
	if s.options.EveryGroup {
		return 0
	}
	columns := map[string]bool{}
	for _, g := range s.options.Groups {
		columns[g.Column] = true
	}
	return len(columns) * max(0, s.sampled.Examples-countOthers(rows, nil))
}

// countOthers counts the examples that have rows outside a group. The argument 'members' holds the rows of the group.
// If the rows have no indices, countOthers counts the rows outside the group at each radius, and returns the largest
// count. The number of examples with rows outside the group is at least this count.
func countOthers(rows calib.BoundRows, members map[int]bool) int {
	seen, atRadius := map[float64]bool{}, map[float64]int{}
	most := 0
	for i := range rows.Lower {
		if members[i] {
			continue
		}
		if rows.Index != nil {
			seen[rows.Index[i]] = true
			continue
		}
		radius := 0.0
		if rows.Radius != nil {
			radius = rows.Radius[i] + 0
		}
		atRadius[radius]++
		most = max(most, atRadius[radius])
	}
	return max(most, len(seen))
}

// solveParts returns the findings for each group of examples, at the radius g.Radius.
func (s *Study) solveParts(ctx context.Context, g group) (*ByGroup, error) {
	if len(s.parts) == 0 {
		return nil, nil
	}
	by := &ByGroup{Of: len(s.parts)}
	for _, p := range s.parts {
		k := slices.IndexFunc(p.groups, func(of group) bool { return of.Radius == g.Radius })
		if k < 0 {
			by.Without = append(by.Without, p.RowGroup)
			continue
		}
		r, err := p.solve(ctx, p.groups[k])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.RowGroup.Name(), err)
		}
		by.add(GroupResult{p.RowGroup, r.N, r.ECE, r.CBS, r.CCE, r.Certified, r.Thresholded})
	}
	if c := by.Worst.Certified; c != nil {
		c.Delta = s.options.Dataset.Delta
	}
	return by, nil
}

// add adds the findings for a group.
func (b *ByGroup) add(r GroupResult) {
	largest := func(worst **float64, value *float64) {
		if value != nil && (*worst == nil || *value > **worst) {
			*worst = value
		}
	}
	b.Groups = append(b.Groups, r)
	b.Worst.CBS = max(b.Worst.CBS, r.CBS)
	largest(&b.Worst.CCE, r.CCE)
	if r.Certified == nil {
		return
	}
	if b.Worst.Certified == nil {
		b.Worst.Certified = &WorstCertified{}
	}
	b.Worst.Certified.CBS = max(b.Worst.Certified.CBS, r.Certified.CBS)
	largest(&b.Worst.Certified.CCE, r.Certified.CCE)
}

// readWeights reads the weights of the rows, and gives them to the rows of each radius. Equal weights change nothing.
func (s *Study) readWeights() error {
	w, err := predictions.ReadWeights(s.table)
	if err != nil || w == nil || w.Equal() && w.Value[0] > 0 {
		return err
	}
	switch {
	case slices.ContainsFunc(s.options.Solvers, func(o Solver) bool { return !o.Exact }):
		return param.Errorf("%s: the weights of the rows differ: want %s %s, because a search counts every row once", s.table.Path, param.Solver, Solvers[0].Name)
	case s.options.Adaptive:
		return param.Errorf("%s: the weights of the rows differ: %s counts every row once", s.table.Path, param.Adaptive)
	case len(s.options.Thresholds) > 0:
		return param.Errorf("%s: the weights of the rows differ: %s counts every row once", s.table.Path, param.Tau)
	}
	if err := calib.CheckWeights(w.Value, maxWeight); err != nil {
		return predictions.LocateRow(s.table, err)
	}
	s.weight = w.Value
	for k := range s.groups {
		if err := s.groups[k].weigh(w.Value); err != nil {
			return fmt.Errorf("%s: %w", s.table.Path, err)
		}
	}
	return nil
}

// maxWeight is the largest weight that a row may have. This limit keeps the sum of all weights finite.
const maxWeight = 1e200

// weigh gives the rows of a radius their weights. The argument 'all' holds the weights of all rows of the table. If it
// is nil, all weights are equal.
func (g *group) weigh(all []float64) (err error) {
	if all == nil {
		return nil
	}
	g.weight = make([]float64, len(g.Rows))
	for k, i := range g.Rows {
		g.weight[k] = all[i]
	}
	g.units, err = calib.NewRowWeights(g.weight)
	return err
}
