package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/tabular"
)

// ceOptions are the flags of ce as given.
type ceOptions struct {
	methods   []string
	delta     float64
	variation float64
	bandwidth float64
	folds     int
	seed      uint64
	joint     bool
	perturb   bool
	json      bool
	quiet     bool
}

func newCE(s streams) *cobra.Command {
	var o ceOptions
	cmd := &cobra.Command{
		Use:   "ce scores.csv",
		Short: "Bound the calibration error of a binary classifier from above",
		Long: `CE bounds the calibration error E|s − P(y=1|s)| of a binary classifier from
above, with probability at least 1 − delta, for any distribution of the scores
(Ciosek et al. 2025). Each method has an assumption, without which no bound from
finite data exists:

  tv               P(y=1|s) has total variation at most --variation (1 if it
                   only ascends or only descends in s)
  nw, lipschitz    the scores were perturbed with the sech kernel of bandwidth
                   --bandwidth ('rscert perturb', or --perturb here). The bound
                   is on the calibration error of the perturbed scores, so these
                   are the ones to use the classifier with.
  nw-second-order  like nw, with a smaller bound on the smoother's bias
  ciosek-nw        nw as printed in the paper. Not sound: it can be too small
                   far more often than delta.

Each method's bound holds with probability 1 − delta for itself; with --joint
delta is divided among the methods, so that all hold at once, and with them the
smallest. Choose the method, the bandwidth and the variation before you look at
the bounds, or use --joint.

The file has columns score (in [0,1]) and label (0 or 1); for a classifier of
more classes, confidence and correct. CSV, JSON lines or npz; .gz; - for stdin.`,
		Example: `  rscert ce scores.csv
  rscert perturb scores.csv --bandwidth 0.015625 --out perturbed.csv
  rscert ce perturbed.csv --bandwidth 0.015625
  rscert ce scores.csv --method nw --bandwidth 0.015625 --perturb --json`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen := cmd.Flags().Changed("method")
			return runCE(cmd.Context(), s, args[0], o, chosen)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&o.methods, "method", []string{"tv", "nw", "lipschitz"}, "bounds to compute: tv, nw, nw-second-order, lipschitz, ciosek-nw (not sound)")
	f.Float64Var(&o.delta, "delta", 0.05, "allowed failure probability of a bound")
	f.Float64Var(&o.variation, "variation", 1, "assumed total variation of P(y=1|s), for tv")
	f.Float64Var(&o.bandwidth, "bandwidth", 0, "`h` with which the scores were perturbed, for nw and lipschitz")
	f.IntVar(&o.folds, "folds", 5, "folds of the cross-fitting, for tv and nw")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the folds, and of --perturb")
	f.BoolVar(&o.joint, "joint", false, "divide delta among the methods: all bounds hold at once")
	f.BoolVar(&o.perturb, "perturb", false, "perturb the scores with --bandwidth first, as 'rscert perturb' does")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	return cmd
}

// oneFile is the Args of commands that read one file.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one input file, got %d arguments", len(args))
	}
	return nil
}

// ceMethod is one bound by its name on the command line.
type ceMethod struct {
	name      string
	perturbed bool // assumes perturbed scores
	compute   func(sample *calib.Sample, delta float64, o ceOptions) (calib.Bound, error)
}

func nadarayaWatson(kind calib.NadarayaWatsonKind) func(*calib.Sample, float64, ceOptions) (calib.Bound, error) {
	return func(sample *calib.Sample, delta float64, o ceOptions) (calib.Bound, error) {
		return calib.NadarayaWatson(sample, o.crossFit(delta), o.bandwidth, kind)
	}
}

var ceMethods = []ceMethod{
	{"tv", false, func(sample *calib.Sample, delta float64, o ceOptions) (calib.Bound, error) {
		return calib.TotalVariation(sample, o.crossFit(delta), o.variation)
	}},
	{"nw", true, nadarayaWatson(calib.Repaired)},
	{"nw-second-order", true, nadarayaWatson(calib.SecondOrder)},
	{"lipschitz", true, func(sample *calib.Sample, delta float64, o ceOptions) (calib.Bound, error) {
		return calib.Lipschitz(sample, delta, o.bandwidth)
	}},
	{"ciosek-nw", true, nadarayaWatson(calib.Printed)},
}

func (o ceOptions) crossFit(delta float64) calib.CrossFit {
	return calib.CrossFit{Delta: delta, Folds: o.folds, Seed: o.seed}
}

// parseCEMethods resolves --method. Without --bandwidth the default is tv
// alone: the others' assumption is then not known to hold.
func parseCEMethods(o ceOptions, chosen bool) ([]ceMethod, error) {
	var methods []ceMethod
	for _, name := range o.methods {
		k := slices.IndexFunc(ceMethods, func(m ceMethod) bool { return m.name == name })
		if k < 0 {
			var names []string
			for _, m := range ceMethods {
				names = append(names, m.name)
			}
			return nil, badInputf("--method %q: want %s", name, strings.Join(names, ", "))
		}
		if slices.ContainsFunc(methods, func(m ceMethod) bool { return m.name == name }) {
			return nil, badInputf("--method %s is given twice", name)
		}
		m := ceMethods[k]
		if m.perturbed && o.bandwidth == 0 {
			if !chosen {
				continue
			}
			return nil, withHint(badInputf("--method %s needs --bandwidth", name),
				"perturb the scores with 'rscert perturb' or --perturb; 'rscert perturb --auroc' shows what a bandwidth costs")
		}
		methods = append(methods, m)
	}
	if len(methods) == 0 {
		return nil, badInputf("--method names no method")
	}
	return methods, nil
}

// ceReport is what --json prints.
type ceReport struct {
	N         int                    `json:"n"`
	Delta     float64                `json:"delta"`
	Joint     bool                   `json:"joint"`
	Folds     int                    `json:"folds"`
	Seed      uint64                 `json:"seed"`
	Variation float64                `json:"variation"`
	Bandwidth float64                `json:"bandwidth,omitempty"`
	Perturbed bool                   `json:"perturbed"` // by this command
	Bounds    map[string]calib.Bound `json:"bounds"`
}

func runCE(ctx context.Context, s streams, path string, o ceOptions, chosen bool) error {
	if !(o.delta > 0 && o.delta < 1) {
		return badInputf("--delta %v: want a number between 0 and 1", o.delta)
	}
	if o.bandwidth < 0 || math.IsNaN(o.bandwidth) || math.IsInf(o.bandwidth, 0) {
		return badInputf("--bandwidth %v: want a positive number", o.bandwidth)
	}
	if !(o.variation >= 0) || math.IsInf(o.variation, 0) {
		return badInputf("--variation %v: want a number from 0 on", o.variation)
	}
	if o.folds < 2 || o.folds > 255 {
		return badInputf("--folds %d: want 2 to 255", o.folds)
	}
	if o.perturb && o.bandwidth == 0 {
		return badInputf("--perturb needs --bandwidth")
	}
	methods, err := parseCEMethods(o, chosen)
	if err != nil {
		return err
	}
	table, err := readTable(ctx, s, path, o.quiet, tabular.Options{Optional: []string{"score", "label", "confidence", "correct"}})
	if err != nil {
		return err
	}
	score, label, err := scoresAndLabels(table)
	if err != nil {
		return err
	}
	if o.perturb {
		if err := perturbScores(table, score, calib.Sech{Bandwidth: o.bandwidth, Seed: o.seed}, 0); err != nil {
			return err
		}
	}
	sample, err := calib.NewSample(score, label)
	if err != nil {
		return rowError(table, err)
	}
	table, score, label = nil, nil, nil // the sample holds all that is needed

	r := ceReport{N: sample.N(), Delta: o.delta, Joint: o.joint, Folds: o.folds, Seed: o.seed, Variation: o.variation,
		Bandwidth: o.bandwidth, Perturbed: o.perturb, Bounds: map[string]calib.Bound{}}
	delta := o.delta
	if o.joint {
		delta /= float64(len(methods))
	}
	bar := progress.Start(progress.Options{Writer: s.err, Terminal: s.terminal(), Quiet: o.quiet}, "bounds", int64(len(methods)), 0)
	defer bar.Finish()
	for _, m := range methods {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := m.compute(sample, delta, o)
		if err != nil {
			// Flags are checked: what is left is too few rows.
			return badInput(fmt.Errorf("%s: %s: %w", displayPath(path), m.name, err))
		}
		r.Bounds[m.name] = b
		bar.Add(1, m.name)
	}
	bar.Finish()
	if o.json {
		return json.NewEncoder(s.out).Encode(r)
	}
	return r.print(s, methods, len(o.methods) > len(methods))
}

func (r ceReport) print(s streams, methods []ceMethod, skipped bool) error {
	each := "each holds for itself"
	if r.Joint {
		each = "all hold at once"
	}
	if len(methods) == 1 {
		each = "it holds"
	}
	fmt.Fprintf(s.out, "upper bounds on the calibration error E|s − P(y=1|s)|, %d scores; %s with probability ≥ 1 − %g\n\n", r.N, each, r.Delta)
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	for _, m := range methods {
		b := r.Bounds[m.name]
		name := m.name
		if !b.Sound {
			name += " (not sound)"
		}
		var sum []string
		for _, term := range b.Terms {
			if term.Name != "rounding" {
				sum = append(sum, fmt.Sprintf("%s %.4f", strings.ReplaceAll(term.Name, "_", " "), term.Value))
			}
		}
		fmt.Fprintf(t, "  %s\t%s\t= %s\n", name, ceilDecimals(b.Value, 4), strings.Join(sum, " + "))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	if slices.ContainsFunc(methods, func(m ceMethod) bool { return !m.perturbed }) {
		fmt.Fprintf(s.out, "tv assumes that P(y=1|s) has total variation ≤ %g.\n", r.Variation)
	}
	switch {
	case slices.ContainsFunc(methods, func(m ceMethod) bool { return m.perturbed }):
		who := "were perturbed"
		if r.Perturbed {
			who = "are perturbed here"
		}
		fmt.Fprintf(s.out, "The scores %s with the sech kernel of bandwidth %g: the bounds are for the perturbed scores.\n", who, r.Bandwidth)
	case skipped:
		fmt.Fprintln(s.err, "rscert: nw and lipschitz need scores perturbed with a known --bandwidth: not computed")
	}
	return nil
}

// scoresAndLabels takes the columns score and label, or confidence and correct.
func scoresAndLabels(t *tabular.Table) (score, label []float64, err error) {
	for _, names := range [][2]string{{"score", "label"}, {"confidence", "correct"}} {
		a, ok1 := t.Column(names[0])
		b, ok2 := t.Column(names[1])
		if ok1 && ok2 {
			return a, b, nil
		}
	}
	found := "none of them"
	if names := t.Names(); len(names) > 0 {
		found = "only " + strings.Join(names, ", ")
	}
	return nil, nil, badInputf("%s: want columns score and label, or confidence and correct; found %s", t.Path, found)
}

// readTable reads a table and shows how far it is. Its errors are the input's.
func readTable(ctx context.Context, s streams, path string, quiet bool, opt tabular.Options) (*tabular.Table, error) {
	size := int64(-1)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	bar := progress.Start(progress.Options{Writer: s.err, Terminal: s.terminal(), Quiet: quiet}, "reading", size, 0)
	defer bar.Finish()
	opt.Progress = func(n int64) { bar.Add(n, "") }
	opt.Input = s.in
	t, err := tabular.Read(ctx, path, opt)
	return t, badInput(err)
}

// rowError turns a *calib.RowError into one that names the file and line.
func rowError(t *tabular.Table, err error) error {
	var row *calib.RowError
	if errors.As(err, &row) {
		return badInput(t.Errorf(row.Row, "%s", row.Reason))
	}
	return badInput(fmt.Errorf("%s: %w", t.Path, err))
}

func displayPath(path string) string {
	if path == tabular.Stdin {
		return "stdin"
	}
	return path
}
