package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/table"
)

// weightOptions are the flags for importance weights of the command 'ce'.
type weightOptions struct {
	bound       float64 // 0 stands for the bound in the column weight_bound of the file
	sensitivity float64
}

func (o weightOptions) check() error {
	switch {
	case o.bound < 0 || o.bound != o.bound:
		return badInputf("--weight-bound %v: want a positive number", o.bound)
	case !(o.sensitivity >= 1):
		return badInputf("--weight-sensitivity %v: want a number of at least 1", o.sensitivity)
	}
	return nil
}

// ceWeights is what --json prints about importance weights.
type ceWeights struct {
	Bound         float64 `json:"bound"`
	Kept          int     `json:"kept"` // rows kept by rejection
	EffectiveSize float64 `json:"effective_sample_size"`
	Estimated     bool    `json:"estimated"`
	Sensitivity   float64 `json:"sensitivity"`
}

// readWeights returns the weights of the file, and their properties. The weights are nil if all rows count alike.
func (o weightOptions) readWeights(t *table.Table) (*predictions.Weights, calib.Weighting, error) {
	known := calib.Weighting{Sensitivity: o.sensitivity}
	w, err := predictions.ReadWeights(t)
	if err != nil {
		return nil, known, badInput(err)
	}
	switch {
	case w == nil && (o.bound > 0 || o.sensitivity > 1):
		return nil, known, badInputf("%s: --weight-bound and --weight-sensitivity need a column weight", t.Path)
	case w == nil || o.bound == 0 && w.Bound == 0 && w.Equal() && w.Value[0] > 0 && !w.Estimated && o.sensitivity == 1:
		return nil, known, nil
	case o.bound > 0 && o.bound < w.Bound:
		return nil, known, badInputf("%s: --weight-bound %v, but the column weight_bound says %v", t.Path, o.bound, w.Bound)
	case o.bound == 0 && w.Bound == 0:
		return nil, known, hint.Add(
			badInputf("%s: the rows have weights: want --weight-bound W, an upper limit of the weights in the whole population", t.Path),
			"the largest weight in the file is %g, but other examples of the population may have larger weights; "+
				"remove the column weight to treat all rows alike", slices.Max(w.Value))
	}
	known.Bound, known.Estimated = max(o.bound, w.Bound), w.Estimated
	return w, known, nil
}

// weighRows reads the weights, if there are any. It sets o.Weighted. Rejection sampling keeps each row at random, with
// a probability proportional to the row's weight. weighRows returns the indices of the kept rows. Without weights it
// returns all rows.
func (r *ceReport) weighRows(t *table.Table, score, label []float64, o *ceOptions) (kept []int, err error) {
	w, known, err := o.weights.readWeights(t)
	switch {
	case err != nil:
		return nil, err
	case w == nil:
		for i := range score {
			kept = append(kept, i)
		}
		return kept, nil
	}
	if o.Weighted, err = calib.NewWeightedSample(score, label, w.Value, known); err != nil {
		return nil, badInput(predictions.LocateRow(t, err))
	}
	for i, keep := range calib.KeepByWeight(w.Value, known.Bound, o.Seed) {
		if keep {
			kept = append(kept, i)
		}
	}
	r.Weights = &ceWeights{Bound: known.Bound, Kept: len(kept), EffectiveSize: calib.EffectiveSize(w.Value),
		Estimated: known.Estimated, Sensitivity: known.Sensitivity}
	switch {
	case len(kept) == 0:
		return nil, badInputf("%s: with --weight-bound %g, none of the %d rows was kept", t.Path, known.Bound, t.N)
	case (o.groups.given() || o.classes) && !r.Weights.exact():
		return nil, badInputf("%s: --group and --classes need exact weights, and these weights are not exact", t.Path)
	}
	return kept, nil
}

// selectRows returns the values of the given rows, in the order of the argument 'rows'.
func selectRows(value []float64, rows []int) []float64 {
	out := make([]float64, len(rows))
	for k, i := range rows {
		out[k] = value[i]
	}
	return out
}

// exact reports whether the weights are exact: they are not estimates, and --weight-sensitivity is 1. It is true if
// there are no weights.
func (w *ceWeights) exact() bool { return w == nil || !w.Estimated && w.Sensitivity == 1 }

// qualify does nothing if the weights are exact. Otherwise, it marks a bound as not sound if the bound needs exact
// weights.
func (r *ceReport) qualify(methods []calib.BoundMethod) {
	if r.Weights.exact() {
		return
	}
	covered := r.Weights.Sensitivity > 1
	for _, m := range methods {
		b := r.Bounds[m.Name]
		b.Sound = b.Sound && covered && m.Assumption == calib.BoundedWeightedVariation
		b.OfSample = 0
		r.Bounds[m.Name] = b
	}
	for name, b := range r.Lower {
		b.Sound = covered && name == weightedLower
		r.Lower[name] = b
	}
}

// weightedLower is the name of the lower bound that uses the weights of all rows. The names of the other lower bounds
// are in calib.LowerMethods.
const weightedLower = "betting-weighted"

// print describes the weights of n rows.
func (w *ceWeights) print(out io.Writer, n int, seed uint64) {
	if w == nil {
		return
	}
	fmt.Fprintf(out, "weights of at most %g: the effective sample size of the %d rows is %.1f\n", w.Bound, n, w.EffectiveSize)
	fmt.Fprintf(out, "rejection kept each row with probability weight/%g (seed %d): %d rows\n", w.Bound, seed, w.Kept)
	if w.Estimated {
		fmt.Fprintln(out, "The weights are estimates, and no data bound their error. The bounds are about the population\n"+
			"that these weights describe, which may differ from the target.")
	}
	fmt.Fprintln(out)
}
