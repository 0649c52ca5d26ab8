package main

import (
	"fmt"
	"io"

	"github.com/rscert/rscert/internal/calibrator"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/quote"
)

// splitClusters is what calibrate --json and temperature --json print about clusters. All rows of a cluster are on the
// same side: either in the fit or held out.
type splitClusters struct {
	Column string `json:"column"`
	Fit    int    `json:"fit"`  // number of clusters in the fit
	Test   int    `json:"test"` // number of clusters held out
	Seed   uint64 `json:"seed"` // of the random split of the clusters
	// ByRow says that the metrics count every row once, and that their intervals treat the rows as independent.
	ByRow bool `json:"metrics_by_row"`

	names []string // the cluster of each row of the input
}

// holdOutClusters divides the rows of the input into clusters, and draws the clusters that are held out. The result
// tells for each row of the input whether it is held out. If the test data are in a separate file, holdOutClusters
// draws nothing, and refuses a cluster that has rows in both files.
func (c *calibrationTask) holdOutClusters(s streams, o split) (held []bool, err error) {
	all, err := o.cluster.divide(c.table, o.seed)
	if err != nil {
		return nil, err
	}
	c.cluster = &splitClusters{Column: all.Column, Seed: o.seed, ByRow: true, names: all.names()}
	if err := warnOfClusterCopies(s, c.table.Path, c.all, all); err != nil {
		return nil, err
	}
	if o.file == "" {
		if held, err = all.of.Holdout(o.share, o.seed); err != nil {
			return nil, badInput(fmt.Errorf("%s: %w", displayPath(c.table.Path), err))
		}
		c.cluster.Test = all.of.Within(held)
		c.cluster.Fit = all.Clusters - c.cluster.Test
		return held, nil
	}
	test, err := o.cluster.divide(c.testTable, o.seed)
	if err != nil {
		return nil, err
	}
	if err := warnOfClusterCopies(s, c.testTable.Path, c.test, test); err != nil {
		return nil, err
	}
	c.cluster.Fit, c.cluster.Test = all.Clusters, test.Clusters
	fit := map[string]bool{}
	for _, g := range all.groups {
		fit[predictions.ClusterName(g)] = true
	}
	for _, g := range test.groups {
		if fit[predictions.ClusterName(g)] {
			return nil, hint.Add(badInput(c.testTable.Errorf(g.Rows[0], "the cluster %s also has rows in %s, on which the map is fitted",
				quote.Name(g.Name()), displayPath(c.table.Path))), "the metrics need other clusters")
		}
	}
	return nil, nil
}

// warnOfClusterCopies warns if rows of different clusters look like copies of each other. Rows of one cluster may be
// copies.
func warnOfClusterCopies(s streams, path string, d calibrator.Data, clusters *rowClusters) error {
	if d.Label == nil {
		return nil
	}
	p, err := predictionsOf(calibrator.Identity(d).Apply(d.Values), d)
	if err != nil {
		return nil //nolint:nilerr // if predictionsOf failed, the fit or the metrics will refuse the same rows
	}
	return warnOfCopiedPredictions(s, path, p.Only(clusters.keepAll(p.N())))
}

// print says how the clusters were divided, what the intervals assume, and which command gives intervals for clusters.
func (c *splitClusters) print(w io.Writer) {
	if c == nil {
		return
	}
	fmt.Fprintf(w, "\nclusters (column %s): %d in the fit, %d held out; no cluster is on both sides\n", c.Column, c.Fit, c.Test)
	fmt.Fprintf(w, "The metrics count every row once, and their intervals treat the rows as independent.\n"+
		"For intervals that allow for the clusters: rscert metrics FILE --cluster %s,\n"+
		"where FILE holds the calibrated held-out rows (--out, or --apply to the file of held-out rows).\n", c.Column)
}
