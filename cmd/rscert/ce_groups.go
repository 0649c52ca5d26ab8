package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/table"
)

// cePart is what --json prints about the bounds of a group or of a class.
type cePart struct {
	N        int                         `json:"n"`
	Estimate float64                     `json:"estimate"`
	Lower    map[string]calib.LowerBound `json:"lower"`
	Bounds   map[string]calib.Bound      `json:"bounds"`

	name   string
	sample *calib.Sample
}

// ceGroup is what --json prints about a group.
type ceGroup struct {
	predictions.RowGroup
	cePart
}

// ceGroups is what --json prints about all groups.
type ceGroups struct {
	Groups []*ceGroup `json:"groups"`
	// Mixture maps each sound method to an upper bound on the error of every mixture of the groups.
	Mixture map[string]float64 `json:"mixture"`
	// Worst is a lower bound on the error of the worst group.
	Worst float64 `json:"worst_at_least"`
}

// ceClass is what --json prints about a class.
type ceClass struct {
	Class int     `json:"class"`
	Share float64 `json:"share"` // share of this label among the rows
	cePart
}

// ceClasses is what --json prints about all classes.
type ceClasses struct {
	Classes []*ceClass `json:"classes"`
	// Worst holds, for each sound method, an upper bound on the error of the worst class. Mean holds upper bounds on
	// the mean of the errors of all classes.
	Worst        map[string]float64 `json:"worst"`
	Mean         map[string]float64 `json:"mean"`
	WorstAtLeast float64            `json:"worst_at_least"`
	MeanAtLeast  float64            `json:"mean_at_least"`
}

// divide divides the rows into the groups of --group. For --classes, it makes the binary problem of each class. Without
// --cluster, it uses only the rows in the argument 'kept'. With weights, the rows are draws from a population P, and
// the weights describe another population Q: the weight of a row is w = dQ/dP. Let W be the upper bound on all weights.
// A row is kept with probability w/W, so the kept rows of a group are independent draws from Q restricted to this
// group. So the bounds for rows without weights hold for the kept rows of a group. Methods that use the weights of all
// rows would have to know E[w] within each group, so computeParts leaves them out.
//
// With --cluster, a group keeps one row of each cluster that has rows in the group. The bounds for the whole table may
// use another row of this cluster. The bounds of a group are about a draw in two steps. The first step draws a cluster
// among the clusters that have rows in the group. The second step draws a row among the rows that are in both this
// cluster and the group.
func (r *ceReport) divide(ctx context.Context, s streams, t *table.Table, kept []int, score, label []float64, o *ceOptions) error {
	groups, err := o.groups.split(ctx, s, o.quiet, t)
	if err != nil {
		return err
	}
	if groups != nil {
		r.Groups = &ceGroups{}
	}
	for _, g := range groups {
		rows := r.Cluster.keep(g.Value.Rows)
		if r.Cluster == nil {
			rows = slices.DeleteFunc(slices.Clone(rows), func(i int) bool {
				_, found := slices.BinarySearch(kept, i)
				return !found
			})
		}
		if len(rows) == 0 {
			return badInputf("%s: %s: rejection kept none of its %d rows", t.Path, g.Name(), len(g.Value.Rows))
		}
		sample, err := calib.NewSample(selectRows(score, rows), selectRows(label, rows))
		if err != nil {
			return badInput(predictions.LocateRow(t.Select(rows), err))
		}
		r.Groups.Groups = append(r.Groups.Groups, &ceGroup{g, cePart{name: g.Name(), N: len(rows), sample: sample}})
	}
	if !o.classes {
		return nil
	}
	if o.Bandwidth != 0 {
		return badInputf("%s: --classes cannot be combined with perturbed scores", t.Path)
	}
	if len(kept) < t.N {
		t = t.Select(kept)
	}
	r.Classes, err = divideClasses(t)
	return err
}

// divideClasses makes the binary problem "is it class k" for each class k.
func divideClasses(t *table.Table) (*ceClasses, error) {
	probability, classes, label, err := predictions.ClassScores(t)
	switch {
	case err != nil:
		return nil, badInput(fmt.Errorf("--classes: %w", err))
	case classes > predictions.MaxGroups:
		return nil, badInputf("%s: --classes makes bounds of %d classes: want at most %d", t.Path, classes, predictions.MaxGroups)
	}
	c := &ceClasses{}
	for k := range classes {
		s, y := make([]float64, len(label)), make([]float64, len(label))
		count := 0
		for i, of := range label {
			if s[i] = probability[i*classes+k]; of == k {
				y[i] = 1
				count++
			}
		}
		sample, err := calib.NewSample(s, y)
		if err != nil {
			return nil, badInput(predictions.LocateRow(t, err))
		}
		c.Classes = append(c.Classes, &ceClass{k, float64(count) / float64(len(label)),
			cePart{name: fmt.Sprintf("class %d", k), N: len(label), sample: sample}})
	}
	return c, nil
}

// parts returns up to two lists. One list holds the bounds of all groups, if there are groups. The other list holds the
// bounds of all classes, if there are classes.
func (r *ceReport) parts() (all [][]*cePart) {
	if r.Groups != nil {
		all = append(all, r.Groups.parts())
	}
	if r.Classes != nil {
		all = append(all, r.Classes.parts())
	}
	return all
}

func (g *ceGroups) parts() (parts []*cePart) {
	for _, group := range g.Groups {
		parts = append(parts, &group.cePart)
	}
	return parts
}

func (c *ceClasses) parts() (parts []*cePart) {
	for _, class := range c.Classes {
		parts = append(parts, &class.cePart)
	}
	return parts
}

// computeParts computes the bounds of all groups and of all classes. All groups together get the delta of the plan. All
// classes together get the same delta.
func (r *ceReport) computeParts(ctx context.Context, path string, plan calib.BoundPlan) error {
	if r.Groups != nil {
		all, err := computeParts(ctx, path, plan, r.Groups.parts())
		if err != nil {
			return err
		}
		worst := calib.WorstOfGroups(all)
		r.Groups.Mixture, r.Groups.Worst = worst.Upper, worst.Lower
	}
	if r.Classes != nil {
		all, err := computeParts(ctx, path, plan, r.Classes.parts())
		if err != nil {
			return err
		}
		worst, mean := calib.WorstOfGroups(all), calib.MeanOfGroups(all)
		r.Classes.Worst, r.Classes.WorstAtLeast = worst.Upper, worst.Lower
		r.Classes.Mean, r.Classes.MeanAtLeast = mean.Upper, mean.Lower
	}
	return nil
}

func computeParts(ctx context.Context, path string, plan calib.BoundPlan, parts []*cePart) ([]calib.ErrorBounds, error) {
	plan.Done = nil
	plan.Methods = slices.DeleteFunc(slices.Clone(plan.Methods), func(m calib.BoundMethod) bool {
		return m.Assumption == calib.BoundedWeightedVariation
	})
	if len(plan.Methods) == 0 {
		return nil, badInputf("--method: groups and classes need a method other than binned-tv-weighted")
	}
	var samples []*calib.Sample
	for _, part := range parts {
		samples = append(samples, part.sample)
	}
	all, err := plan.ComputeGroups(ctx, samples)
	if err != nil {
		err = fmt.Errorf("%s: a group: %w", displayPath(path), err)
		var refused *calib.BoundMethodError
		if errors.As(err, &refused) {
			return nil, badInput(err)
		}
		return nil, err
	}
	for k, found := range all {
		parts[k].Estimate, parts[k].Bounds = found.Estimate, found.Upper
		parts[k].Lower = map[string]calib.LowerBound{plan.Lower.String(): found.Lower}
	}
	return all, nil
}

// print prints the bounds of the groups.
func (g *ceGroups) print(out io.Writer, delta float64, joint bool) error {
	if g == nil {
		return nil
	}
	if err := printParts(out, "group", "groups", g.parts(), delta, joint); err != nil {
		return err
	}
	for _, m := range slices.Sorted(maps.Keys(g.Mixture)) {
		fmt.Fprintf(out, "Every mixture of these groups has a calibration error of at most %s (%s).\n",
			report.Round(g.Mixture[m], report.Up, 0, 4), m)
	}
	_, err := fmt.Fprintf(out, "At least one group has an error of %s or more.\n", report.Round(g.Worst, report.Down, 0, 4))
	return err
}

// print prints the bounds of the classes.
func (c *ceClasses) print(out io.Writer, delta float64, joint bool) error {
	if c == nil {
		return nil
	}
	if err := printParts(out, "class", "classes", c.parts(), delta, joint); err != nil {
		return err
	}
	for _, m := range slices.Sorted(maps.Keys(c.Worst)) {
		fmt.Fprintf(out, "The error of every class is at most %s, and the mean of the errors of all classes at most %s (%s).\n",
			report.Round(c.Worst[m], report.Up, 0, 4), report.Round(c.Mean[m], report.Up, 0, 4), m)
	}
	_, err := fmt.Fprintf(out, "At least one class has an error of %s or more, and the mean is at least %s.\n",
		report.Round(c.WorstAtLeast, report.Down, 0, 4), report.Round(c.MeanAtLeast, report.Down, 0, 4))
	return err
}

// printParts prints a table of the bounds of groups or classes. Below the table, it prints the probability that the
// bounds hold.
func printParts(out io.Writer, one, many string, parts []*cePart, delta float64, joint bool) error {
	methods := slices.Sorted(maps.Keys(parts[0].Bounds))
	t := report.Table{Columns: []report.Column{report.TextColumn(one), report.ExactColumn("n"),
		report.RoundedColumn("at least", report.Down, 4)}}
	unsound := false
	for _, m := range methods {
		sound := parts[0].Bounds[m].Sound
		unsound = unsound || !sound
		t.Columns = append(t.Columns, report.RoundedColumn("at most ("+nameMethod(m, sound)+")", report.Up, 4))
	}
	for _, part := range parts {
		row := []report.Cell{report.Text(part.name), report.Count(part.N)}
		for _, lower := range part.Lower {
			row = append(row, report.Number(lower.Value))
		}
		for _, m := range methods {
			row = append(row, report.Number(part.Bounds[m].Value))
		}
		t.AddRow(row...)
	}
	fmt.Fprintln(out)
	if err := t.WriteText(out); err != nil {
		return err
	}
	what := "Each column holds"
	switch {
	case joint && unsound:
		what = "The sound bounds here and above hold"
	case joint:
		what = "These bounds and the bounds above hold"
	case unsound:
		what = "Each column of sound bounds holds"
	}
	_, err := fmt.Fprintf(out, "\n%s for all %d %s together with probability ≥ 1 − %g, under the same assumption in each %s.\n",
		what, len(parts), many, delta, one)
	return err
}
