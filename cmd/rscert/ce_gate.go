package main

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/rscert/rscert/internal/report/summary"
)

// summary returns the bounds as a summary.Summary, the input for the check of requirements. With --joint, all bounds
// hold together, and the result has the smallest of the sound upper bounds. Without --joint, each bound alone holds
// with probability 1 − delta. The result then has the largest of the sound upper bounds. The smallest of several bounds
// would be a choice after seeing the data, and could fail with a probability above delta.
func (r *ceReport) summary(path string) summary.Summary {
	lower := r.Lower[r.lower.String()]
	upper := map[string]float64{}
	for name, b := range r.Bounds {
		if b.Sound {
			upper[name] = b.Value
		}
	}
	e := r.calibrationError(lower.Value, upper)
	if g := r.Groups; g != nil {
		e.WorstGroup = r.calibrationError(g.Worst, g.Mixture)
	}
	if c := r.Classes; c != nil {
		e.WorstClass, e.Classwise = r.calibrationError(c.WorstAtLeast, c.Worst), r.calibrationError(c.MeanAtLeast, c.Mean)
	}
	return summary.Summary{Name: filepath.Base(displayPath(path)), Path: displayPath(path), CalibrationError: e}
}

// calibrationError combines the lower bound with one of the sound upper bounds: the smallest if all bounds hold
// together, and otherwise the largest.
func (r *ceReport) calibrationError(lower float64, upper map[string]float64) *summary.CalibrationError {
	e := &summary.CalibrationError{Lower: lower, LowerMethod: r.lower.String(), Examples: r.N}
	for _, name := range slices.Sorted(maps.Keys(upper)) {
		if e.UpperMethod == "" || r.Joint == (upper[name] < e.Upper) {
			e.Upper, e.UpperMethod = upper[name], name
		}
	}
	return e
}
