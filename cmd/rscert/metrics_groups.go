package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/table"
)

// metricGroups is what --json prints about all groups.
type metricGroups struct {
	Groups []metricGroup          `json:"groups"`
	Worst  map[string]worstMetric `json:"worst"`
}

// metricGroup is what --json prints about a group.
type metricGroup struct {
	predictions.RowGroup
	N             int     `json:"n"`
	EffectiveSize float64 `json:"effective_sample_size,omitempty"` // effective sample size of the weights
	calibration
}

// worstMetric is the worst value of a metric among all groups.
type worstMetric struct {
	Group predictions.RowGroup `json:"group"`
	// Estimate is the value of the worst group. If the interval of each group is exact, Estimate also has an interval.
	// This interval is for the worst of the groups' true values.
	Estimate *estimate `json:"estimate"`
}

// groupMetric is a metric for which the command reports the worst group.
type groupMetric struct {
	key, name string
	smallest  bool // whether the smallest value is the worst
	of        func(calibration) *estimate
}

var groupMetrics = []groupMetric{
	{"accuracy", "accuracy", true, func(c calibration) *estimate { return c.Accuracy }},
	{"ece", "ECE", false, func(c calibration) *estimate { return c.ECE }},
	{"adaece", "", false, func(c calibration) *estimate { return c.AdaECE }},
	{"smooth_ece", "", false, func(c calibration) *estimate { return c.SmoothECE }},
	{"mce", "", false, func(c calibration) *estimate { return c.MCE }},
	{"classwise_ece", "", false, func(c calibration) *estimate { return c.ClasswiseECE }},
	{"brier", "Brier score", false, func(c calibration) *estimate { return c.Brier }},
	{"multiclass_brier", "", false, func(c calibration) *estimate { return c.Multiclass }},
	{"nll", "", false, func(c calibration) *estimate { return c.NLL }},
	{"top_label_nll", "", false, func(c calibration) *estimate { return c.TopLabelNLL }},
}

// measureGroups computes the metrics of each group of the predictions p. The table t holds the rows of p. If the
// predictions are votes of a run, t is nil. If there are clusters, each group keeps only one of its rows from each
// cluster.
func measureGroups(
	ctx context.Context, s streams, path string, p *calib.Predictions, clusters *rowClusters, t *table.Table, o metricsOptions,
) (*metricGroups, error) {
	if !o.groups.given() {
		return nil, nil
	}
	var groups []predictions.RowGroup
	var err error
	if t != nil {
		groups, err = o.groups.split(ctx, s, o.quiet, t)
	} else {
		groups, err = o.groups.splitVotes(ctx, s, o.quiet, path, p)
	}
	if err != nil {
		return nil, err
	}
	var parts []*calib.Predictions
	for _, g := range groups {
		parts = append(parts, p.Only(clusters.keep(g.Value.Rows)))
	}
	all, err := calib.MeasureGroups(parts, o.MetricOptions)
	if err != nil {
		return nil, err
	}
	out := &metricGroups{Worst: map[string]worstMetric{}}
	for k, m := range all {
		g := metricGroup{RowGroup: groups[k], N: parts[k].N(), calibration: newCalibration(m)}
		if parts[k].Weight != nil {
			g.EffectiveSize = calib.EffectiveSize(parts[k].Weight)
		}
		out.Groups = append(out.Groups, g)
	}
	for _, m := range groupMetrics {
		if worst := m.worst(out.Groups); worst != nil {
			out.Worst[m.key] = *worst
		}
	}
	return out, nil
}

// splitVotes divides the examples of a run into groups, by their labels or by the file of --groups.
func (o groupOptions) splitVotes(ctx context.Context, s streams, quiet bool, path string, p *calib.Predictions) ([]predictions.RowGroup, error) {
	if o.file == "" {
		if len(o.columns) > 1 || o.columns[0] != "label" || p.Label == nil {
			return nil, hint.Add(badInputf("%s: --group %s: a run knows no group of an example but its label", displayPath(path), o.columns[0]),
				"give a file with the columns index and %s by --groups", o.columns[0])
		}
		return predictions.GroupLabels(p.Label), nil
	}
	of, err := o.readFile(ctx, s, quiet)
	if err != nil {
		return nil, err
	}
	groups, err := predictions.GroupByIndex(p.Index, of, o.columns)
	var row *calib.RowError
	if errors.As(err, &row) {
		err = fmt.Errorf("%s: %s", displayPath(path), row.Reason)
	}
	return groups, badInput(err)
}

// worst returns the worst value of the metric, or nil if a group has no value.
func (m groupMetric) worst(groups []metricGroup) *worstMetric {
	var all []calib.Estimate
	for _, g := range groups {
		e := m.of(g.calibration)
		if e == nil || math.IsNaN(float64(e.Value)) {
			return nil
		}
		all = append(all, calib.Estimate{Value: float64(e.Value), Lower: float64(e.Low), Upper: float64(e.High), Method: calib.IntervalMethod(e.Interval)})
	}
	worst, at := calib.WorstEstimate(all, !m.smallest)
	if worst.Method == calib.Bootstrap || worst.Method == "" { // there is no interval for all groups together
		return &worstMetric{groups[at].RowGroup, pointEstimate(worst.Value)}
	}
	return &worstMetric{groups[at].RowGroup, newEstimate(worst)}
}

// print prints a table with a row for each group, and then the worst group for each metric.
func (g *metricGroups) print(w io.Writer, level float64) error {
	if g == nil {
		return nil
	}
	t := report.Table{Columns: []report.Column{report.TextColumn("group"), report.ExactColumn("n")}}
	for _, m := range groupMetrics {
		if m.name != "" {
			t.Columns = append(t.Columns, report.Column{Name: m.name, Decimals: 4}, report.Column{Decimals: 4})
		}
	}
	for _, group := range g.Groups {
		row := []report.Cell{report.Text(group.Name()), report.Count(group.N)}
		for _, m := range groupMetrics {
			if m.name != "" {
				e := m.of(group.calibration)
				row = append(row, e.Value, e.interval())
			}
		}
		t.AddRow(row...)
	}
	fmt.Fprintln(w)
	if err := t.WriteText(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nEach column of intervals holds for all %d groups together with probability ≥ %g.\n", len(g.Groups), level)
	for _, m := range groupMetrics {
		worst, ok := g.Worst[m.key]
		if m.name == "" || !ok {
			continue
		}
		extreme := "largest"
		if m.smallest {
			extreme = "smallest"
		}
		fmt.Fprintf(w, "The %s %s is that of %s, %.4f; the %s true value of a group is in [%s, %s].\n", extreme, m.name,
			worst.Group.Name(), float64(worst.Estimate.Value), extreme,
			report.Round(float64(worst.Estimate.Low), report.Down, 0, 4), report.Round(float64(worst.Estimate.High), report.Up, 0, 4))
	}
	return nil
}
