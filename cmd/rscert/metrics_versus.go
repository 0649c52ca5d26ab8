package main

import (
	"context"
	"fmt"
	"io"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/report"
)

// versus compares the input with the predictions of another classifier on the same rows.
type versus struct {
	File        string                   `json:"file"`
	Differences []calib.PairedDifference `json:"differences"`
	ECE         calib.ECEDifference      `json:"ece"`
}

// compareWith reads the predictions in the file of --versus, and compares them row by row with p, the predictions of
// the input. If there are clusters, it compares one row of each cluster. Without --versus it returns nil. If the input
// is a run, the argument 'meanScores' says whether p holds mean scores (true) or vote shares (false).
func compareWith(
	ctx context.Context, s streams, input string, p *calib.Predictions, clusters *rowClusters, meanScores bool, o metricsOptions,
) (*versus, error) {
	if o.versus == "" {
		return nil, nil
	}
	cluster := o.cluster
	cluster.optional = true
	other, table, err := readPredictions(ctx, s, o.versus,
		metricsOptions{quiet: o.quiet, radius: o.radius, quantity: o.quantity, probabilities: o.probabilities, cluster: cluster})
	if err != nil {
		return nil, err
	}
	if holdsVotes(input) && holdsVotes(o.versus) && meanScores != (table != nil) {
		return nil, hint.Add(badInputf("--versus: one of %s and %s has mean scores, the other one only vote shares",
			displayPath(input), displayPath(o.versus)),
			"--probabilities vote-shares compares the vote shares of both")
	}
	if p.Weight != nil || other.Weight != nil {
		return nil, hint.Add(badInputf("--versus counts every row once, and the rows have weights (column weight)"), alikeHint+" in both files")
	}
	if clusters != nil && other.N() == p.N() { // if the numbers of rows differ, ComparePaired returns an error
		if err := calib.CheckPaired(p, other); err != nil {
			return nil, badInput(fmt.Errorf("--versus: %s: %w", displayPath(o.versus), err))
		}
		kept := clusters.keepAll(p.N())
		p, other = p.Only(kept), other.Only(kept)
	}
	found, err := calib.ComparePaired(p, other, o.Level, o.Seed)
	if err != nil {
		return nil, badInput(fmt.Errorf("--versus: %s: %w", displayPath(o.versus), err))
	}
	ece, err := calib.CompareECE(p, other, o.MetricOptions)
	return &versus{o.versus, found, ece}, badInput(err)
}

// print prints a row for each loss.
func (v *versus) print(w io.Writer) error {
	fmt.Fprintf(w, "\nagainst %s, row by row:\n", displayPath(v.File))
	t := report.Table{Columns: []report.Column{report.TextColumn("loss"), report.RoundedColumn("here", report.Nearest, 4),
		report.RoundedColumn("there", report.Nearest, 4), report.TextColumn("difference"), report.TextColumn("p")}}
	for _, d := range v.Differences {
		t.AddRow(report.Text(d.Name), report.Number(d.First), report.Number(d.Second),
			report.Text(fmt.Sprintf("%s  [%s, %s]", signed(d.Difference, 4), signed(d.Low, 4), signed(d.High, 4))),
			report.Text(fmt.Sprintf("%.2g", d.P)))
	}
	t.AddRow(report.Text("ECE"), report.Number(v.ECE.First), report.Number(v.ECE.Second),
		report.Text(fmt.Sprintf("%s  [%s, %s]", signed(v.ECE.Difference, 4), report.Round(v.ECE.Low, report.Down, 0, 4),
			report.Round(v.ECE.High, report.Up, 0, 4))), report.Text("–"))
	if err := t.WriteText(w); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "The interval of the ECE combines the intervals of both ECEs, so it is wider than an interval row by row.")
	return err
}
