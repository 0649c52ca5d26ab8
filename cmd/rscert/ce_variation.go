package main

import (
	"fmt"
	"io"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/report"
)

// boundVariation computes a lower bound on the total variation of P(y=1|s). With this lower bound, the data can refute
// an assumed upper bound on the variation. If no method assumes such an upper bound, boundVariation computes nothing.
// It also computes nothing for weighted rows or for perturbed scores.
func (r *ceReport) boundVariation(sample *calib.Sample, methods []calib.BoundMethod) error {
	if !assume(methods, calib.BoundedVariation) || r.Weights != nil || r.Bandwidth > 0 {
		return nil
	}
	b, err := calib.VariationLower(sample, r.Delta)
	r.VariationLower = &b
	return err
}

// refuteVariation returns an error if the lower bound on the total variation is above the assumed total variation.
func (r *ceReport) refuteVariation(rows string) error {
	b := r.VariationLower
	if b == nil || b.Value <= *r.Variation {
		return nil
	}
	return hint.Add(fmt.Errorf("%s: the total variation of P(y=1|s) is at least %s, and the assumption allows at most %g: the assumption is false, or an event of probability at most %g occurred",
		rows, roundVariation(b), *r.Variation, b.Delta),
		"this is what the upper bounds assume: %s; every bound also needs independent rows", r.Assumption)
}

// printVariation prints the lower bound on the total variation.
func (r *ceReport) printVariation(out io.Writer) {
	if b := r.VariationLower; b != nil {
		fmt.Fprintf(out, "The total variation of P(y=1|s) is at least %s with probability ≥ 1 − %g (this bound alone).\n",
			roundVariation(b), b.Delta)
	}
}

func roundVariation(b *calib.LowerBound) string { return report.Round(b.Value, report.Down, 0, 4) }
