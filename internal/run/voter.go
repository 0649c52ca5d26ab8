package run

import (
	"slices"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
)

// If c.RejectBelow is set, voter returns a function that computes the vote of a sample. Otherwise voter returns nil.
// The vote is −1 (no vote) unless the sample's confidence is at least c.RejectBelow. The confidence is the largest
// class probability. If the outputs are logits, the probabilities are the softmax at the run's temperature.
func voter(c runfolder.Certification, outputs graph.OutputKind) func([]float32) int {
	least, temperature := c.RejectBelow, c.Temperature
	if !(least > 0) {
		return nil
	}
	confidence := func(row []float32) float64 { return certify.Confidence(row, temperature) }
	if outputs != graph.Logits {
		confidence = func(row []float32) float64 { return float64(slices.Max(row)) }
	}
	return func(row []float32) int {
		vote := smoothing.Vote(row)
		if vote >= 0 && !(confidence(row) >= least) {
			return -1
		}
		return vote
	}
}
