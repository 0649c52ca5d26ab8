package main

import (
	"fmt"
	"io"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/table"
)

// findBounds finds the bounds that path is or holds, and warns of what a reader of them
// should know.
func findBounds(path string, warnings io.Writer) (runfolder.Bounds, error) {
	if path == table.Stdin {
		return runfolder.Bounds{File: path}, nil
	}
	evidence, err := runfolder.Find(path)
	if err != nil {
		return runfolder.Bounds{}, badInput(err)
	}
	bounds, err := evidence.Bounds()
	if err != nil {
		return runfolder.Bounds{}, badInput(err)
	}
	if bounds.Label {
		fmt.Fprintf(warnings, "warning: %s certifies the label: the bounds leave out all wrong predictions\n", path)
	}
	if bounds.Unfinished > 0 {
		fmt.Fprintf(warnings, "warning: %s: the run is not finished: %d examples are not sampled yet\n", path, bounds.Unfinished)
	}
	if evidence.Run != nil && bounds.Arithmetic != certify.Exact {
		fmt.Fprintf(warnings, "warning: %s: the noise was added in floats: the bounds are of idealised arithmetic\n", path)
	}
	return bounds, nil
}
