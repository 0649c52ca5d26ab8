package main

import (
	"fmt"

	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/runfolder"
)

// warnUnbound warns that the lines of a run name no run. The run may be nil, for a file from elsewhere.
func warnUnbound(s streams, path string, run *runfolder.Run) {
	if run != nil && !run.Bound() {
		fmt.Fprintf(s.err, "warning: %s: lines of format %d name no run, so lines of another run may pass\n",
			quote.Line(path), run.Schema)
	}
}

// warnUnboundFile is warnUnbound for a run or a file that may belong to one.
func warnUnboundFile(s streams, path string) {
	if !holdsVotes(path) && !runfolder.Owns(path) {
		return
	}
	if evidence, err := runfolder.Find(path); err == nil {
		warnUnbound(s, path, evidence.Run)
	}
}
