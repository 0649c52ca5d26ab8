package main

import (
	"context"
	"errors"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/table"
	"github.com/rscert/rscert/internal/warning"
)

// recordsVotes reports whether the certificates of a run can be computed again from its files. This is possible for
// runs of format 2 and later.
func recordsVotes(run *runfolder.Run) bool {
	if run == nil {
		return false
	}
	_, checksums := run.Format()
	return checksums
}

// findBounds reads the bounds in a file or run folder, and warns of their limitations.
func findBounds(ctx context.Context, path string, s streams) (runfolder.Bounds, error) {
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
	return bounds, errors.Join(warnChosen(s, path, evidence.Run), warnOfBounds(s, path, evidence.Run != nil, bounds))
}

// warnOfBounds warns of the limitations of bounds. The argument 'ofRun' tells whether the bounds come from a run
// folder. Only a run folder records whether the noise was added in floats, so only a run folder can get the warning
// about this.
func warnOfBounds(s streams, path string, ofRun bool, bounds runfolder.Bounds) error {
	var stop error
	if bounds.Label {
		stop = s.warnf(warning.LabelBounds, "%s certifies the label: wrong predictions have no bounds", path)
	}
	if stop == nil && bounds.Unfinished > 0 {
		stop = s.warnf(warning.RunUnfinished, "%s: the run is not finished: %d examples are missing", path, bounds.Unfinished)
	}
	if stop == nil && ofRun && bounds.Arithmetic != certify.Exact {
		stop = s.warnf(warning.FloatNoise, "%s: the noise was added in floats: the bounds assume idealised arithmetic", path)
	}
	return stop
}
