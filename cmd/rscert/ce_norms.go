package main

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/report"
)

// normOptions are the flags of the command 'ce' for L_q calibration errors and for the KL divergence.
type normOptions struct {
	norms  []float64
	margin float64 // 0: no bound on the divergence
}

func (o normOptions) given() bool { return len(o.norms) > 0 || o.margin != 0 }

func (o normOptions) check(methods []calib.BoundMethod, sample *calib.Sample, path string) error {
	for _, q := range o.norms {
		if _, err := calib.NormAbove(0, q); err != nil {
			return badInputf("--norms %v: want numbers of at least 1", q)
		}
	}
	if o.margin == 0 {
		return nil
	}
	if _, _, err := calib.Divergence(0, 0, o.margin); err != nil {
		return badInputf("--score-margin %v: want a number from %v to 0.5", o.margin, calib.LeastMargin)
	}
	if assume(methods, calib.PerturbedScores) {
		return badInputf("--score-margin: perturbed scores come arbitrarily near 0 and 1")
	}
	if err := sample.CheckMargin(o.margin); err != nil {
		return badInputf("%s: --score-margin: %v", displayPath(path), err)
	}
	return nil
}

// ceNorm holds bounds on an L_q calibration error or on the KL divergence. Its maps hold one bound for each sound
// method.
type ceNorm struct {
	Q           float64            `json:"q,omitempty"`            // the q of the L_q error; 0 for the KL divergence
	ScoreMargin float64            `json:"score_margin,omitempty"` // of the divergence
	Lower       map[string]float64 `json:"lower"`
	Bounds      map[string]float64 `json:"bounds"`
}

// deriveNorms computes bounds on the L_q calibration errors and on the KL divergence. It derives them from the sound
// bounds on the calibration error.
func (r *ceReport) deriveNorms(o normOptions) error {
	for _, q := range o.norms {
		n, err := r.derive(func(lower, upper float64) (low, high float64, err error) {
			high, err = calib.NormAbove(upper, q)
			return lower, high, err
		})
		if err != nil {
			return err
		}
		n.Q = q
		r.Norms = append(r.Norms, n)
	}
	if o.margin == 0 {
		return nil
	}
	kl, err := r.derive(func(lower, upper float64) (low, high float64, err error) {
		return calib.Divergence(lower, upper, o.margin)
	})
	kl.ScoreMargin = o.margin
	r.Divergence = &kl
	return err
}

// derive applies the function 'of' to each bound alone, and keeps only the results for the sound bounds. For a lower
// bound, it passes (lower, 1) to this function. For an upper bound, it passes (0, upper).
func (r *ceReport) derive(of func(lower, upper float64) (low, high float64, err error)) (ceNorm, error) {
	n := ceNorm{Lower: map[string]float64{}, Bounds: map[string]float64{}}
	for name, b := range r.Lower {
		low, _, err := of(b.Value, 1)
		if err != nil {
			return n, err
		}
		if b.Sound {
			n.Lower[name] = low
		}
	}
	for name, b := range r.Bounds {
		_, high, err := of(0, b.Value)
		if err != nil {
			return n, err
		}
		if b.Sound {
			n.Bounds[name] = high
		}
	}
	return n, nil
}

// printNorms prints a line for each bound on an L_q calibration error or on the KL divergence.
func (r *ceReport) printNorms(out io.Writer) {
	all := r.Norms
	if r.Divergence != nil {
		all = append(slices.Clip(all), *r.Divergence)
	}
	if len(all) > 0 {
		fmt.Fprintln(out, "\nFrom the bounds above, at no further cost in probability:")
	}
	for _, n := range all {
		what := fmt.Sprintf("The L%g calibration error (E|s − P(y=1|s)|^%[1]g)^(1/%[1]g)", n.Q)
		if n.ScoreMargin != 0 {
			what = fmt.Sprintf("If every score lies in [%g, %g], the mean divergence KL(P(y=1|s)‖s) in nats", n.ScoreMargin, 1-n.ScoreMargin)
		}
		for _, name := range slices.Sorted(maps.Keys(n.Bounds)) {
			fmt.Fprintf(out, "%s is at most %s (%s).\n", what, report.Round(n.Bounds[name], report.Up, 0, 4), name)
		}
		for _, name := range slices.Sorted(maps.Keys(n.Lower)) {
			fmt.Fprintf(out, "%s is at least %s (%s).\n", what, report.Round(n.Lower[name], report.Down, 0, 4), name)
		}
	}
}
