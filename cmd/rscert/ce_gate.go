package main

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/rscert/rscert/internal/report/summary"
)

// summary returns the bounds in the form that requirements are checked against. If there are several sound upper bounds
// and all bounds hold together, summary takes the smallest upper bound. If each bound holds only by itself, summary
// takes the largest upper bound. The smallest upper bound can fail more often than any single bound.
func (r *ceReport) summary(path string) summary.Summary {
	lower := r.Lower[r.lower.String()]
	e := &summary.CalibrationError{Lower: lower.Value, LowerMethod: r.lower.String(), Examples: r.N}
	for _, name := range slices.Sorted(maps.Keys(r.Bounds)) {
		b := r.Bounds[name]
		if b.Sound && (e.UpperMethod == "" || r.Joint == (b.Value < e.Upper)) {
			e.Upper, e.UpperMethod = b.Value, name
		}
	}
	return summary.Summary{Name: filepath.Base(displayPath(path)), Path: displayPath(path), CalibrationError: e}
}
