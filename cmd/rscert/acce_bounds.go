package main

import (
	"context"
	"fmt"
	"io"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/table"
)

// recordsVotes reports whether a run has all the data from which its certificates can be computed again. Runs of format
// 2 and later have these data.
func recordsVotes(run *runfolder.Run) bool {
	if run == nil {
		return false
	}
	_, checksums := run.Format()
	return checksums
}

// findBounds reads the bounds in a file or run folder, and warns of their limitations.
func findBounds(ctx context.Context, path string, warnings io.Writer) (runfolder.Bounds, error) {
	if path == table.Stdin {
		return runfolder.Bounds{File: path}, nil
	}
	evidence, err := runfolder.Find(path)
	if err != nil {
		return runfolder.Bounds{}, badInput(err)
	}
	bounds, err := evidence.Bounds()
	if err == nil && recordsVotes(evidence.Run) {
		err = evidence.EachRecord(ctx, func(runfolder.Record) error { return nil })
	}
	if err != nil {
		return runfolder.Bounds{}, badInput(err)
	}
	if bounds.Label {
		fmt.Fprintf(warnings, "warning: %s certifies the label: wrong predictions have no bounds\n", quote.Line(path))
	}
	if bounds.Unfinished > 0 {
		fmt.Fprintf(warnings, "warning: %s: the run is not finished: %d examples are missing\n", quote.Line(path), bounds.Unfinished)
	}
	if evidence.Run != nil && bounds.Arithmetic != certify.Exact {
		fmt.Fprintf(warnings, "warning: %s: the noise was added in floats: the bounds assume idealised arithmetic\n", quote.Line(path))
	}
	return bounds, nil
}
