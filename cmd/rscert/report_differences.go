package main

import (
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/report/summary"
)

// compareRuns compares each further run with the first one, if --differences is given.
func (o reportOptions) compareRuns(runs []summary.Summary) ([]gate.Comparison, error) {
	switch {
	case !o.differences:
		return nil, nil
	case len(runs) < 2:
		return nil, badInputf("--differences: want two runs or more")
	case !summary.Comparable(runs):
		return nil, hint.Add(badInputf("--differences: the runs certify different examples, or their radii are not comparable"),
			"certify the same examples in all runs, with radii in the same norm")
	}
	all, err := gate.Differences(runs)
	return all, badInput(err)
}
