package main

import (
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/warning"
)

// warnUnbound warns if the lines of a run do not identify the run. Otherwise it warns if the run holds only examples
// that were selected by the results of another run. The run is nil for a file that belongs to no run.
func warnUnbound(s streams, path string, run *runfolder.Run) error {
	if run != nil && !run.Bound() {
		return s.warnf(warning.RunUnbound, "%s: lines of format %d name no run, so lines of another run may pass", path, run.Schema)
	}
	return warnChosen(s, path, run)
}

// warnUnboundFile calls warnUnbound if path is a run folder, a file that belongs to a run, or a file of votes. For
// other files it does nothing.
func warnUnboundFile(s streams, path string) error {
	if !holdsVotes(path) && !runfolder.Owns(path) {
		return nil
	}
	if evidence, err := runfolder.Find(path); err == nil {
		return warnUnbound(s, path, evidence.Run)
	}
	return nil
}
