package main

import (
	"fmt"

	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/runfolder"
)

// warnUnbound warns if the lines of a run do not say to which run they belong. The run is nil for a file that belongs
// to no run.
func warnUnbound(s streams, path string, run *runfolder.Run) {
	if run != nil && !run.Bound() {
		fmt.Fprintf(s.err, "warning: %s: lines of format %d name no run, so lines of another run may pass\n",
			quote.Line(path), run.Schema)
	}
}

// warnUnboundFile calls warnUnbound for the run at a path, or for the run of the file at this path.
func warnUnboundFile(s streams, path string) {
	if !holdsVotes(path) && !runfolder.Owns(path) {
		return
	}
	if evidence, err := runfolder.Find(path); err == nil {
		warnUnbound(s, path, evidence.Run)
	}
}
