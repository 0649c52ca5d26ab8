package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/rscert/rscert/internal/acce/acceplot"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/reliability"
)

// describeAcceCurves lists the figures for the help text.
func describeAcceCurves() string {
	var b strings.Builder
	for _, c := range acceplot.Curves.Values() {
		fmt.Fprintf(&b, "  %-12s %s\n", c, acceplot.Curves.What(c))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// checkCurve refuses flags that do not fit the figure. The argument 'inputs' is the number of inputs.
func (o acceOptions) checkCurve(inputs int) error {
	switch {
	case o.curve != acceplot.UnderAttack && len(o.plots) == 0:
		return hint.Add(badInputf("--curve %s: no file for the figure", o.curve), "add --plot FILE")
	case len(o.names) > 0 && !o.curve.OfSeveral():
		return hint.Add(badInputf("--names is for the figures solvers and cbs"), "add --curve solvers or --curve cbs")
	case len(o.names) > 0 && len(o.names) != inputs:
		return badInputf("--names: %d names for %d inputs", len(o.names), inputs)
	case inputs > 1 && o.out != "":
		return badInputf("--out %s: the file is for one input, and there are %d inputs", o.out, inputs)
	case inputs > 1 && o.search.trace != "":
		return badInputf("--trace %s: the file is for one input, and there are %d inputs", o.search.trace, inputs)
	}
	return nil
}

// draw draws the figure and writes it to the files of --plot.
func (o acceOptions) draw(formats []picture.Format, all []solvedBounds) error {
	if len(formats) == 0 {
		return nil
	}
	var size picture.Size
	if o.plotSize != nil {
		size = *o.plotSize
	}
	draw, err := o.figure(all, size)
	if err == nil {
		err = writePictures(o.plots, formats, draw)
	}
	return err
}

// figure returns a function that draws the figure in a format.
func (o acceOptions) figure(all []solvedBounds, size picture.Size) (func(picture.Format) ([]byte, error), error) {
	switch {
	case o.curve.OfSeveral():
		inputs := o.figureInputs(all)
		err := acceplot.CheckRadii(inputs)
		return func(format picture.Format) ([]byte, error) { return o.curve.ByRadius(format, inputs, size) }, badInput(err)
	case o.curve.OfSteps():
		run, err := all[0].study.LargestRun()
		return func(format picture.Format) ([]byte, error) { return o.curve.Steps(format, run, size) }, badInput(err)
	}
	attack, err := reliability.OfStudy(all[0].study, all[0].results)
	attack.Title = filepath.Base(displayPath(all[0].path)) + ": calibration under attack"
	attack.Size = size
	return attack.Draw, err
}

// figureInputs returns the results with the names of their inputs.
func (o acceOptions) figureInputs(all []solvedBounds) (inputs []acceplot.Input) {
	var paths []string
	for _, solved := range all {
		paths = append(paths, displayPath(solved.path))
	}
	names := nameRuns(paths)
	copy(names, o.names)
	for k, solved := range all {
		inputs = append(inputs, acceplot.Input{Name: names[k], Results: solved.results})
	}
	return inputs
}
