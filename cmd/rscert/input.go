package main

import (
	"context"
	"os"
	"slices"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/table"
	"github.com/rscert/rscert/internal/warning"
)

// readTable reads a table and shows its progress. It returns every error as an error in the input (exit code 2).
func readTable(ctx context.Context, s streams, path string, quiet bool, opt table.Options) (*table.Table, error) {
	size := int64(-1)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	bar := progress.Start(s.progress(quiet), "reading", size, 0)
	defer bar.Finish()
	opt.Progress = func(n int64) { bar.Add(n, "") }
	opt.Input = s.in
	t, err := table.Read(ctx, path, opt)
	return t, badInput(err)
}

// alikeHint is the hint of this error: the input has weights, but the command or the flag counts every row once.
const alikeHint = "remove the column to treat all rows alike"

// readUnweighted calls readTable for commands that count every row once. It refuses a table whose column 'weight' holds
// different weights, because a result that ignores the weights would be about another population.
func readUnweighted(ctx context.Context, s streams, path string, quiet bool, opt table.Options) (*table.Table, error) {
	opt.Optional = append(slices.Clone(opt.Optional), "weight")
	t, err := readTable(ctx, s, path, quiet, opt)
	if err != nil {
		return nil, err
	}
	weights, _ := t.Column("weight")
	for i, w := range weights {
		if w != weights[0] {
			return nil, hint.Add(badInput(t.Errorf(i, "column weight: this command counts every row once, and the weights differ")),
				alikeHint+"; 'rscert metrics', 'rscert ce' and 'rscert acce' use weights")
		}
	}
	return t, nil
}

// warnOfEstimatedWeights warns if the weights of a table are estimates. It returns an error if the columns of the
// weights are malformed.
func warnOfEstimatedWeights(s streams, t *table.Table, path, consequence string) error {
	switch w, err := predictions.ReadWeights(t); {
	case err != nil:
		return badInput(err)
	case w == nil || !w.Estimated:
		return nil
	}
	return s.warnf(warning.EstimatedWeights, "%s: the weights are estimates (column weight_estimated), and %s", displayPath(path), consequence)
}

func displayPath(path string) string {
	if path == table.Stdin {
		return "stdin"
	}
	return path
}
