package main

import (
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/warning"
)

// onlyFlag is the value of --only.
type onlyFlag struct{ *run.OnlyOf }

func (f onlyFlag) String() string {
	if f.OnlyOf == nil { // pflag calls String on a zero value
		return ""
	}
	return f.OnlyOf.String()
}

func (onlyFlag) Type() string { return "choice=RUN" }

// warnChosen warns if a run holds only examples that were selected by the results of another run. The run is nil for a
// file that belongs to no run.
func warnChosen(s streams, path string, run *runfolder.Run) error {
	if run == nil || !run.Parameters.Only.Given() {
		return nil
	}
	return s.warnf(warning.ChosenExamples, "%s: %s", path, run.Parameters.Only.Says())
}

// refuseGate refuses requirements on a run of selected examples.
func (o certifyOptions) refuseGate() error {
	if o.gate.given() && o.OnlyOf.Run != "" {
		return hint.Add(badInputf("--require: a requirement is about the dataset, and --only selects examples"), "check the requirement on a run of all examples")
	}
	return nil
}
