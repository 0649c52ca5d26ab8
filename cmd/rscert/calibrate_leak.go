package main

import (
	"os"
	"slices"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/calibrator"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/warning"
)

// checkHeldOut refuses the test data if all their rows are rows of the fit, and warns if some are. Rows in two
// different files can be equal by chance. If chance can explain the equal rows, checkHeldOut accepts the test data
// without a warning. Metrics on rows of the fit are too good, and their intervals and tests are not valid.
func (c *calibrationTask) checkHeldOut(s streams, file string) error {
	fit, err1 := os.Stat(c.table.Path)
	test, err2 := os.Stat(file)
	if err1 == nil && err2 == nil && os.SameFile(fit, test) {
		return badInputf("%s: the map is fitted on this file: the metrics need other rows", displayPath(file))
	}
	if c.test.Columns != c.all.Columns || c.test.N() == 0 {
		return nil // either there are no test rows, or sameShape will refuse them because of their number of columns
	}
	shared := c.test.SharedWith(c.all)
	switch {
	case shared.ByChance:
	case shared.All():
		return badInputf("%s: all rows are rows of %s, on which the map is fitted: the metrics need other rows",
			displayPath(file), displayPath(c.table.Path))
	default:
		return s.warnf(warning.FittedRows, "%s: %d of %d rows equal rows of %s, on which the map is fitted: the metrics are too good",
			displayPath(file), shared.Rows, shared.Of, displayPath(c.table.Path))
	}
	return nil
}

// warnOfFittedRows warns if the saved map was fitted on some rows of the input. It also sets c.refit, so that --out
// marks all rows as fitted.
func (c *calibrationTask) warnOfFittedRows(s streams, file string) error {
	if c.found.Rows == nil || c.all.N() == 0 {
		return nil
	}
	if shared := c.found.Rows.In(c.all); !shared.ByChance {
		c.refit = true
		return s.warnf(warning.FittedRows, "%s: about %.0f %% of the %d rows on which %s was fitted are in this file: metrics on them are too good, and --out marks all rows as fitted",
			displayPath(c.table.Path), 100*float64(shared.Rows)/float64(shared.Of), c.found.Rows.N, file)
	}
	return nil
}

// warnOfOneClass warns if all rows of the fit have the same label.
func warnOfOneClass(s streams, path string, label []int) error {
	if len(label) > 0 && slices.Min(label) == slices.Max(label) {
		return s.warnf(warning.LabelMissing, "%s: all rows of the fit have the label %d: the map says nothing about other classes",
			displayPath(path), label[0])
	}
	return nil
}

// warnOfOutputs warns of rows that look like copies of each other, and of outputs or labels that look like a mistake.
// It does nothing if there are no labels. For the rows of a fit, it leaves the warning of constant labels to
// warnOfOneClass.
func warnOfOutputs(s streams, path string, d calibrator.Data, fit bool, cluster clusterOptions) error {
	if d.Label == nil {
		return nil
	}
	p, err := predictionsOf(calibrator.Identity(d).Apply(d.Values), d)
	if err != nil {
		return nil //nolint:nilerr // if predictionsOf failed, the fit or the metrics will refuse the same rows
	}
	// rows of one cluster are allowed to be copies of each other; holdOutClusters looks for copies in different
	// clusters
	if !cluster.set {
		if err := warnOfCopiedPredictions(s, path, p); err != nil {
			return err
		}
	}
	// For two classes, predictions about class 1 contain more information than predictions about the top label.
	if one, err := predictions.SelectClassOne(p); err == nil {
		p = one
	}
	auroc, _ := calib.Rank(p).AUROC() // NaN if all entries of p.Correct are equal
	found := calib.Suspicions(p, auroc)
	if fit {
		found = slices.DeleteFunc(found, func(s calib.Suspicion) bool { return s.Kind == calib.ConstantLabels })
	}
	return warnOfSuspicions(s, path, p.Quantity, found)
}

// warnOfSeparated warns if the outputs separate the labels of the fit perfectly.
func warnOfSeparated(s streams, path string, train calibrator.Data) error {
	p, err := predictionsOf(calibrator.Identity(train).Apply(train.Values), train)
	if err != nil || !calib.Separated(p) {
		return nil //nolint:nilerr // if predictionsOf failed, the metrics will refuse the same rows
	}
	return s.warnf(warning.LabelsSeparated, "%s: the outputs tell the labels of all %d rows of the fit apart without error: "+
		"the probabilities of the map are too near 0 and 1 if other rows are less clear", displayPath(path), train.N())
}
