package main

import (
	"context"
	"fmt"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/report"
)

// cePlan is what ce --plan-gap --json prints.
type cePlan struct {
	Gap        float64        `json:"gap"`
	Delta      float64        `json:"delta"`
	Assumption string         `json:"assumption"`
	Labels     map[string]int `json:"labels"` // the number of labels, by method
}

// planCE prints how many labels each method needs for an upper bound of the size --plan-gap, if the classifier is
// calibrated. The numbers are estimates. planCE uses the scores, but no labels.
func planCE(ctx context.Context, s streams, path string, o ceOptions) error {
	if !(o.planGap > 0 && o.planGap < 1) {
		return badInputf("--plan-gap %v: want a number between 0 and 1", o.planGap)
	}
	if o.gate.given() || o.curves() || o.norms.given() || o.perturb || o.groups.given() || o.cluster.set || o.classes {
		return badInputf("--plan-gap bounds nothing: leave out --require, --curve, --fits, --plot, --norms, --score-margin, " +
			"--cluster, --perturb, --group and --classes")
	}
	columns := predictions.BinaryColumns()
	columns.Optional = append(columns.Optional, predictions.PerturbationColumns...)
	read, err := readUnweighted(ctx, s, path, o.quiet, columns)
	if err != nil {
		return err
	}
	scores, err := predictions.ScoresOnly(read)
	if err != nil {
		return badInput(err)
	}
	sample, err := calib.NewSample(scores.Score, make([]float64, len(scores.Score)))
	if err != nil {
		return badInput(predictions.LocateRow(read, err))
	}
	r := ceReport{Variation: &o.Variation}
	if err := r.readBandwidth(read, &o); err != nil {
		return err
	}
	methods, err := o.supported(path)
	if err != nil {
		return err
	}
	r.Bandwidth = o.Bandwidth
	plan := cePlan{Gap: o.planGap, Delta: o.Delta, Assumption: r.describeAssumptions(methods), Labels: map[string]int{}}
	if o.joint {
		o.Delta /= float64(calib.BoundPlan{Methods: methods}.Parts())
	}
	for _, m := range methods {
		if err := ctx.Err(); err != nil {
			return err
		}
		if plan.Labels[m.Name], err = calib.PlanSize(sample, m, o.BoundParams, o.planGap); err != nil {
			return badInput(fmt.Errorf("%s: %s: %w", displayPath(path), m.Name, err))
		}
	}
	if o.json {
		return report.WriteJSON(s.out, "ce-plan", plan)
	}
	fmt.Fprintf(s.out, "labels for an upper bound of %g, if the classifier is calibrated, and %s (an estimate)\n\n", plan.Gap, plan.Assumption)
	t := report.Table{Columns: []report.Column{report.TextColumn("method"), report.ExactColumn("labels")}}
	for _, m := range methods {
		t.AddRow(report.Text(m.Name), report.Count(plan.Labels[m.Name]))
	}
	return t.WriteText(s.out)
}
