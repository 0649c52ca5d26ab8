package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/table"
)

// maxGroups limits the number of groups: the bounds of more groups say little.
const maxGroups = 1000

// ceGroup is what --json prints about a group.
type ceGroup struct {
	Column   string                      `json:"column"`
	Value    float64                     `json:"value"`
	N        int                         `json:"n"`
	Estimate float64                     `json:"estimate"`
	Lower    map[string]calib.LowerBound `json:"lower"`
	Bounds   map[string]calib.Bound      `json:"bounds"`

	sample *calib.Sample
}

// name returns the group as printed.
func (g ceGroup) name() string { return g.Column + " = " + strconv.FormatFloat(g.Value, 'g', -1, 64) }

// ceGroups is what --json prints about all groups.
type ceGroups struct {
	Groups []ceGroup `json:"groups"`
	// Mixture maps each sound method to an upper bound on the error of every mixture of the groups.
	Mixture map[string]float64 `json:"mixture"`
	// Worst is a lower bound on the error of the worst group.
	Worst float64 `json:"worst_at_least"`

	lower string // key of the printed lower bound in ceGroup.Lower
}

// splitGroups divides the rows by the values of each column.
func splitGroups(t *table.Table, columns []string, score, label []float64) (*ceGroups, error) {
	if len(columns) == 0 {
		return nil, nil
	}
	g := &ceGroups{}
	for _, column := range columns {
		for _, rows := range t.GroupRows(column) {
			var s, y []float64
			for _, i := range rows.Rows {
				s, y = append(s, score[i]), append(y, label[i])
			}
			sample, err := calib.NewSample(s, y)
			if err != nil {
				return nil, badInput(predictions.LocateRow(t.Select(rows.Rows), err))
			}
			g.Groups = append(g.Groups, ceGroup{Column: column, Value: rows.Value, N: len(s), sample: sample})
		}
	}
	if len(g.Groups) > maxGroups {
		return nil, badInputf("%s: --group makes %d groups: want at most %d", t.Path, len(g.Groups), maxGroups)
	}
	return g, nil
}

// compute computes the bounds of all groups.
func (g *ceGroups) compute(ctx context.Context, path string, plan calib.BoundPlan) error {
	if g == nil {
		return nil
	}
	plan.Done, g.lower = nil, plan.Lower.String()
	var samples []*calib.Sample
	for _, group := range g.Groups {
		samples = append(samples, group.sample)
	}
	all, err := plan.ComputeGroups(ctx, samples)
	if err != nil {
		err = fmt.Errorf("%s: a group: %w", displayPath(path), err)
		var refused *calib.BoundMethodError
		if errors.As(err, &refused) {
			return badInput(err)
		}
		return err
	}
	for k, found := range all {
		group := &g.Groups[k]
		group.Estimate, group.Bounds = found.Estimate, found.Upper
		group.Lower = map[string]calib.LowerBound{g.lower: found.Lower}
	}
	worst := calib.WorstOfGroups(all)
	g.Mixture, g.Worst = worst.Upper, worst.Lower
	return nil
}

// print prints the bounds of the groups.
func (g *ceGroups) print(out io.Writer, delta float64, joint bool) error {
	if g == nil {
		return nil
	}
	methods := slices.Sorted(maps.Keys(g.Groups[0].Bounds))
	t := report.Table{Columns: []report.Column{report.TextColumn("group"), report.ExactColumn("n"),
		report.RoundedColumn("at least", report.Down, 4)}}
	for _, m := range methods {
		sound := g.Groups[0].Bounds[m].Sound
		t.Columns = append(t.Columns, report.RoundedColumn("at most ("+nameMethod(m, sound)+")", report.Up, 4))
	}
	for _, group := range g.Groups {
		row := []report.Cell{report.Text(group.name()), report.Count(group.N), report.Number(group.Lower[g.lower].Value)}
		for _, m := range methods {
			row = append(row, report.Number(group.Bounds[m].Value))
		}
		t.AddRow(row...)
	}
	fmt.Fprintln(out)
	if err := t.WriteText(out); err != nil {
		return err
	}
	what := "Each column holds"
	switch unsound := len(g.Mixture) < len(methods); {
	case joint && unsound:
		what = "The sound bounds here and above hold"
	case joint:
		what = "These bounds and the bounds above hold"
	case unsound:
		what = "Each column of sound bounds holds"
	}
	fmt.Fprintf(out, "\n%s for all %d groups together with probability ≥ 1 − %g, under the same assumption in each group.\n",
		what, len(g.Groups), delta)
	for _, m := range slices.Sorted(maps.Keys(g.Mixture)) {
		fmt.Fprintf(out, "Every mixture of these groups has a calibration error of at most %s (%s).\n",
			report.Round(g.Mixture[m], report.Up, 0, 4), m)
	}
	_, err := fmt.Fprintf(out, "At least one group has an error of %s or more.\n", report.Round(g.Worst, report.Down, 0, 4))
	return err
}
