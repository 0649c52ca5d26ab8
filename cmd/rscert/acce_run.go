package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/runfolder"
)

// acceRun is what a run folder knows beyond its bounds.csv.
type acceRun struct {
	bounds   string // the file
	alpha    float64
	examples int
	label    bool // the label was certified, not the predicted class
}

// findACCERun returns nil if path is not a folder.
func findACCERun(path string) (*acceRun, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return nil, nil // reading it will say what is wrong
	}
	run, err := runfolder.Read(path)
	if err != nil {
		return nil, badInput(err)
	}
	if run.Parameters.ConfidenceRadii == nil {
		return nil, withHint(badInputf("%s: the run has no bounds on the confidence", path),
			"give certify --confidence-radii, or make bounds with 'rscert confidence'")
	}
	certificates, err := runfolder.ReadCertificates(path)
	if err != nil {
		return nil, badInput(err)
	}
	for _, c := range certificates {
		if !c.Sound {
			return nil, badInputf("%s: the class of example %d was certified by %s, which is not sound", path, c.Index, c.Method)
		}
	}
	return &acceRun{
		bounds: filepath.Join(path, runfolder.BoundsFile), alpha: run.Parameters.Alpha, examples: len(certificates),
		label: run.Parameters.Class == certify.Label.String(),
	}, nil
}

// inheritRun takes what is not given from the run, and refuses what weakens it.
func (o *acceOptions) inheritRun(run *acceRun, path string, warnings io.Writer) error {
	switch {
	case o.alpha != nil && *o.alpha < run.alpha:
		return badInputf("--alpha %v: the run's bounds fail with probability up to %v", *o.alpha, run.alpha)
	case o.examples != 0 && o.examples < run.examples:
		return badInputf("--examples %d: the run has sampled %d", o.examples, run.examples)
	case run.label:
		fmt.Fprintf(warnings, "warning: %s certifies the label: the bounds leave out all wrong predictions\n", path)
	}
	if o.alpha == nil {
		o.alpha = &run.alpha
	}
	if o.examples == 0 {
		o.examples = run.examples
	}
	return nil
}
