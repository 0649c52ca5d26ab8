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
}

// compareWith reads the file of --versus and compares the predictions p of the input with it, row by row. Without
// --versus it returns nil. If the input is a run, meanScores tells whether p holds mean scores, not vote shares.
func compareWith(
	ctx context.Context, s streams, input string, p *calib.Predictions, meanScores bool, o metricsOptions,
) (*versus, error) {
	if o.versus == "" {
		return nil, nil
	}
	other, table, err := readPredictions(ctx, s, o.versus,
		metricsOptions{quiet: o.quiet, radius: o.radius, quantity: o.quantity, probabilities: o.probabilities})
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
	found, err := calib.ComparePaired(p, other, o.Level, o.Seed)
	if err != nil {
		return nil, badInput(fmt.Errorf("--versus: %s: %w", displayPath(o.versus), err))
	}
	return &versus{o.versus, found}, nil
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
	return t.WriteText(w)
}
