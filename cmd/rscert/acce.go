package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/admm"
	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/tabular"
)

// acceOptions are the flags of acce as given.
type acceOptions struct {
	bins     int
	solvers  []string
	radii    []float64
	delta    float64
	alpha    float64
	examples int
	adaptive bool
	out      string
	json     bool
	quiet    bool
}

func newACCE(s streams) *cobra.Command {
	var o acceOptions
	cmd := &cobra.Command{
		Use:   "acce bounds.csv | RUN",
		Short: "Bound the calibration under attack: CBS, exact CCE, ADMM, dECE",
		Long: `ACCE takes bounds on each prediction's confidence within a radius and tells how
bad calibration can get when an adversary moves every confidence within its
bounds (Emde et al. 2025):

  CBS    certified Brier score: the largest top-label Brier score (Theorem 3.3)
  CCE    certified calibration error: the largest expected calibration error
         over --bins equal-width bins [lo,hi), by --solver exact

The other solvers find confidences with a large calibration error, not the
largest. They are estimates from below and certify nothing:

  admm   best of the 16 runs of the paper's ADMM (Algorithm 1, appendix I.1)
  dece   gradient ascent on the differentiable calibration error (appendix M)
  brier  calibration error of the confidences with the largest Brier score

With --adaptive, bounds from both sides on the largest calibration error with
--bins bins of equal count (AdaECE): one that an attack attains, and one that
holds for every way to bin.

CBS and CCE hold if every bound in the file holds. Each bound holds with
probability 1 − alpha for itself. For all at once give --delta, --alpha and
--examples: with probability 1 − delta at most k of the n bounds fail, k the
1 − delta quantile of Bin(examples, alpha), so the Brier score is at most
CBS + k/n and the calibration error at most CCE + 2k/n. This needs independent
noise for each example. --examples counts all that were sampled: 'rscert
confidence' leaves out those whose class is not certified, which is decided by
the same noise.

The file has columns lower, upper (in [0,1]) and correct (0 or 1); index,
confidence (without attack), radius and examples (as --examples) where known.
CSV, JSON lines or npz; .gz; - for stdin. Of a run folder, bounds.csv is read;
alpha and the number of examples are the run's.`,
		Example: `  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --confidence-radii 0.25,0.5 --out run
  rscert acce run --delta 0.05
  rscert confidence scores.npz --sigma 0.5 --radii 0.25,0.5 --out bounds.csv
  rscert acce bounds.csv
  rscert acce bounds.csv --delta 0.05 --alpha 0.001 --examples 1000 --json
  rscert acce bounds.csv --radius 0.25 --solver exact,admm,dece,brier --out attack.csv`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			f := cmd.Flags()
			return runACCE(cmd.Context(), s, args[0], o, f.Changed("delta"), given(cmd, "alpha", &o.alpha))
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&o.bins, "bins", 15, "equal-width bins of the calibration error")
	f.StringSliceVar(&o.solvers, "solver", []string{"exact"}, "exact; admm, dece, brier (estimates from below)")
	f.BoolVar(&o.adaptive, "adaptive", false, "bound the calibration error with equal-count bins too")
	f.Float64SliceVar(&o.radii, "radius", nil, "take the rows with these `radii` (default all, each for itself)")
	f.Float64Var(&o.delta, "delta", 0, "allowed failure probability of a statement about the whole dataset")
	f.Float64Var(&o.alpha, "alpha", 0, "failure probability of each of the bounds, for --delta")
	f.IntVar(&o.examples, "examples", 0, "examples that were sampled, those that the file leaves out too, for --delta")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.out, "out", "", "CSV `file` for the confidences that attain the result: the attack")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	return cmd
}

// acceSolvers says which solvers to run.
type acceSolvers struct{ exact, admm, dece, brier bool }

func parseACCESolvers(names []string) (s acceSolvers, err error) {
	known := map[string]*bool{"exact": &s.exact, "admm": &s.admm, "dece": &s.dece, "brier": &s.brier}
	for _, name := range names {
		use, ok := known[name]
		if !ok {
			return s, badInputf("--solver %q: want exact, admm, dece or brier", name)
		}
		if *use {
			return s, badInputf("--solver %s is given twice", name)
		}
		*use = true
	}
	if len(names) == 0 {
		return s, badInputf("--solver names no solver")
	}
	return s, nil
}

// acceResult is what is found at one radius, and what --json prints.
type acceResult struct {
	Radius *float64 `json:"radius,omitempty"` // if the file has radii
	N      int      `json:"n"`
	Bins   int      `json:"bins"`
	ECE    *float64 `json:"ece,omitempty"` // without attack, if the file has confidences
	CBS    float64  `json:"cbs"`
	CCE    *float64 `json:"cce,omitempty"`
	ACCE   *struct {
		ADMM float64 `json:"admm"`
	} `json:"acce,omitempty"`
	DECE     *float64      `json:"dece,omitempty"`
	BrierECE *float64      `json:"brier_ece,omitempty"`
	Adaptive *acceAdaptive `json:"adaptive_ece,omitempty"`
	// Estimates are the values above that certify nothing: they are attained by
	// some confidences within the bounds, and others may do worse.
	Estimates   []string           `json:"estimates,omitempty"`
	Certified   *acceCertified     `json:"certified,omitempty"`
	Interrupted bool               `json:"interrupted,omitempty"`
	Seconds     map[string]float64 `json:"seconds"`

	attack []float64 // confidences that attain the largest value
}

// acceAdaptive encloses the largest calibration error with equal-count bins.
type acceAdaptive struct {
	Lower float64 `json:"lower"` // attained by an attack
	Upper float64 `json:"upper"` // for every way to bin
}

// acceCertified holds with probability 1 − Delta for the dataset as a whole.
type acceCertified struct {
	Delta    float64 `json:"delta"`
	Alpha    float64 `json:"alpha"`
	Examples int     `json:"examples"` // that were sampled
	// ExamplesAssumed: nobody said how many, the file's own are taken as all.
	ExamplesAssumed bool     `json:"examples_assumed,omitempty"`
	Failures        int64    `json:"failures"` // bounds that may not hold, at most
	CBS             float64  `json:"cbs"`
	CCE             *float64 `json:"cce,omitempty"`
	Adaptive        *float64 `json:"adaptive_ece,omitempty"`
}

// acceRows are the rows of one radius.
type acceRows struct {
	radius  *float64
	rows    []int // in the file
	samples []calib.Bounded
	clean   []float64 // nil if not in the file
}

func runACCE(ctx context.Context, s streams, path string, o acceOptions, wantDelta bool, alpha *float64) error {
	solvers, err := parseACCESolvers(o.solvers)
	if err != nil {
		return err
	}
	bins, err := calib.NewBins(o.bins)
	if err != nil {
		return badInputf("--bins %w", err)
	}
	if err := checkOutput("out", o.out, path); err != nil {
		return err
	}
	evidence, bounds, err := findBounds(path)
	if err != nil {
		return err
	}
	switch {
	case wantDelta && !(o.delta > 0 && o.delta < 1):
		return badInputf("--delta %v: want a number between 0 and 1", o.delta)
	case !wantDelta && (alpha != nil || o.examples != 0):
		return badInputf("--alpha and --examples are for --delta")
	}
	if wantDelta {
		if o.alpha, o.examples, err = bounds.Sampled(alpha, o.examples); err != nil {
			return badInput(err)
		}
	}
	if bounds.Label {
		fmt.Fprintf(s.err, "warning: %s certifies the label: the bounds leave out all wrong predictions\n", path)
	}
	if bounds.Unfinished > 0 {
		fmt.Fprintf(s.err, "warning: %s: the run is not finished: %d examples are not sampled yet\n", path, bounds.Unfinished)
	}
	path = evidence
	start := time.Now()
	table, err := readTable(ctx, s, path, o.quiet, tabular.Options{
		Required: []string{"lower", "upper", "correct"},
		Optional: []string{"index", "confidence", "radius", "examples"},
	})
	if err != nil {
		return err
	}
	rows := boundRows(table)
	groups, err := splitByRadius(table, rows, o)
	if err != nil {
		return err
	}
	var sampled calib.Sampled
	if wantDelta {
		if sampled, err = countSampled(table, rows, o.examples); err != nil {
			return err
		}
	}
	reading := time.Since(start).Seconds()

	var results []acceResult
	for _, g := range groups {
		r, err := g.solve(ctx, s, o, solvers, bins, sampled)
		if err != nil {
			return err
		}
		r.Seconds["read"] = reading
		results = append(results, r)
		if ctx.Err() != nil {
			break
		}
	}
	// What an interrupted search has found is shown, but is not the work asked
	// for: no file.
	if o.out != "" && ctx.Err() == nil {
		if err := durable.WriteFile(o.out, attackCSV(table, bins, groups, results)); err != nil {
			return err
		}
	}
	if o.json {
		err = printACCEJSON(s.out, results, len(groups) > 1)
	} else {
		err = printACCE(s.out, results, o, solvers, len(groups))
	}
	if err != nil {
		return err
	}
	return ctx.Err()
}

// findBounds finds the file of bounds that path is or holds.
func findBounds(path string) (file string, b runfolder.Bounds, err error) {
	if path == tabular.Stdin {
		return path, b, nil
	}
	evidence, err := runfolder.Find(path)
	if err != nil {
		return "", b, badInput(err)
	}
	if b, err = evidence.Bounds(); err != nil {
		return "", b, badInput(err)
	}
	return b.File, b, nil
}

// boundRows are the columns of the table.
func boundRows(t *tabular.Table) (b calib.BoundRows) {
	for name, to := range map[string]*[]float64{
		"lower": &b.Lower, "upper": &b.Upper, "correct": &b.Correct,
		"index": &b.Index, "confidence": &b.Confidence, "radius": &b.Radius, "examples": &b.Examples,
	} {
		*to, _ = t.Column(name)
	}
	return b
}

// splitByRadius checks the rows and puts those of each radius that is asked for together.
func splitByRadius(t *tabular.Table, b calib.BoundRows, o acceOptions) (groups []acceRows, err error) {
	found, err := b.ByRadius(o.radii)
	var row *calib.RowError
	var none *calib.NoRadiusError
	switch {
	case errors.Is(err, calib.ErrNoRadii):
		return nil, badInputf("%s: --radius is given, but there is no column radius", t.Path)
	case errors.As(err, &none):
		return nil, withHint(badInputf("%s: %w", t.Path, err), "the radii are %v", none.Found)
	case errors.As(err, &row):
		return nil, badInput(t.Errorf(row.Row, "%s", row.Reason))
	}
	for _, g := range found {
		rows := acceRows{rows: g.Rows, samples: g.Intervals, clean: g.Confidence}
		if b.Radius != nil {
			rows.radius = &g.Radius
		}
		groups = append(groups, rows)
	}
	return groups, err
}

// countSampled words what calib finds of the number of examples sampled.
func countSampled(t *tabular.Table, b calib.BoundRows, stated int) (calib.Sampled, error) {
	sampled, err := b.CountSampled(stated)
	var row *calib.RowError
	var fewer *calib.FewerError
	switch {
	case errors.Is(err, calib.ErrLeavesOut):
		err = withHint(badInputf("%s: --delta needs --examples: the file leaves examples out (gaps in index, or fewer rows at some radii)", t.Path),
			"give the number of all examples that were sampled, also of those whose class was not certified")
	case errors.As(err, &fewer):
		err = badInputf("%s: %d examples were sampled, but the file has %d", t.Path, fewer.Stated, fewer.Known)
	case errors.As(err, &row):
		err = badInput(t.Errorf(row.Row, "%s", row.Reason))
	}
	return sampled, err
}

func (g acceRows) solve(ctx context.Context, s streams, o acceOptions, solvers acceSolvers, bins calib.Bins, sampled calib.Sampled) (acceResult, error) {
	n := len(g.samples)
	r := acceResult{Radius: g.radius, N: n, Bins: bins.Len(), Seconds: map[string]float64{}}
	timed := func(name string, work func()) {
		start := time.Now()
		work()
		r.Seconds[name] = time.Since(start).Seconds()
	}
	var err error
	timed("cbs", func() { r.CBS, err = calib.CBS(g.samples) })
	if err != nil {
		return r, err
	}
	if g.clean != nil {
		ece := bins.ECE(g.clean, func(i int) bool { return g.samples[i].Correct })
		r.ECE = &ece
	}
	problem, err := admm.NewProblem(g.samples, g.clean, bins)
	if err != nil {
		return r, err
	}
	bestAttack := -1.0
	take := func(key string, e admm.Estimate) *float64 {
		r.Estimates = append(r.Estimates, key)
		r.Interrupted = r.Interrupted || e.Interrupted
		if !solvers.exact && e.ECE > bestAttack {
			bestAttack, r.attack = e.ECE, e.Confidences
		}
		return &e.ECE
	}
	if solvers.exact {
		var worst calib.Worst
		timed("exact", func() { worst, err = calib.CCE(g.samples, bins) })
		if err != nil {
			return r, err
		}
		r.CCE = &worst.Value
		if o.out != "" {
			r.attack = worst.Confidences(g.samples)
		}
	}
	if solvers.admm {
		grid := admm.Grid(g.clean != nil)
		var e admm.Estimate
		bar := newSearch(s, o, g, "ADMM", len(grid)*admm.Steps)
		timed("admm", func() { e = problem.Best(ctx, grid, bar.step) })
		bar.bar.Finish()
		r.ACCE = &struct {
			ADMM float64 `json:"admm"`
		}{*take("acce.admm", e)}
	}
	if solvers.dece {
		steps := admm.DECESteps
		if g.clean != nil {
			steps *= 2
		}
		var e admm.Estimate
		bar := newSearch(s, o, g, "dECE", steps)
		timed("dece", func() { e = problem.DECE(ctx, admm.DECESteps, bar.step) })
		bar.bar.Finish()
		r.DECE = take("dece", e)
	}
	if solvers.brier {
		var e admm.Estimate
		timed("brier", func() { e = problem.Brier() })
		r.BrierECE = take("brier_ece", e)
	}
	if o.adaptive {
		var a acceAdaptive
		var e admm.Estimate
		timed("adaptive", func() {
			if a.Upper, err = calib.LargestGap(g.samples); err == nil {
				e, err = problem.Adaptive()
			}
		})
		if err != nil {
			return r, err
		}
		a.Lower = min(e.ECE, a.Upper) // float64 sums against an exact one
		r.Adaptive = &a
	}
	if o.delta > 0 {
		bounds := calib.AttackBounds{CBS: r.CBS, CCE: r.CCE}
		if r.Adaptive != nil {
			bounds.LargestGap = &r.Adaptive.Upper
		}
		all, err := calib.StateForAll(bounds, n, sampled, o.alpha, o.delta)
		if err != nil {
			return r, err
		}
		r.Certified = &acceCertified{Delta: o.delta, Alpha: o.alpha, Examples: sampled.Examples, ExamplesAssumed: sampled.Assumed,
			Failures: all.Failures, CBS: all.CBS, CCE: all.CCE, Adaptive: all.LargestGap}
	}
	return r, nil
}

// search shows the largest calibration error that a solver has found.
type search struct {
	bar  *progress.Bar
	mu   sync.Mutex
	best float64
}

func newSearch(s streams, o acceOptions, g acceRows, name string, steps int) *search {
	if g.radius != nil {
		name += " at radius " + formatFloat(*g.radius)
	}
	return &search{bar: progress.Start(progress.Options{Writer: s.err, Terminal: s.terminal(), Quiet: o.quiet}, name, int64(steps), 0)}
}

func (b *search) step(steps int, ece float64) {
	b.mu.Lock()
	b.best = max(b.best, ece)
	best := b.best
	b.mu.Unlock()
	b.bar.Add(int64(steps), fmt.Sprintf("best %.4f", best))
}

func formatFloat(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// attackCSV is the rows that were used, with the confidence under attack, and its
// bin, in the place of the clean one: a bounds.csv, and a predictions.csv for
// 'rscert metrics'.
func attackCSV(t *tabular.Table, bins calib.Bins, groups []acceRows, results []acceResult) []byte {
	var kept []string
	for _, name := range []string{"index", "radius"} {
		if _, ok := t.Column(name); ok {
			kept = append(kept, name)
		}
	}
	var b bytes.Buffer
	b.WriteString(strings.Join(append(slices.Clone(kept), "lower", "upper", "correct", "confidence", "bin\n"), ","))
	var line []byte
	for j, g := range groups {
		for n, i := range g.rows {
			line = line[:0]
			for _, name := range kept {
				column, _ := t.Column(name)
				line = append(strconv.AppendFloat(line, column[i], 'g', -1, 64), ',')
			}
			v := g.samples[n]
			z := results[j].attack[n]
			for _, x := range []float64{v.Lower, v.Upper} {
				line = append(strconv.AppendFloat(line, x, 'g', -1, 64), ',')
			}
			correct := byte('0')
			if v.Correct {
				correct = '1'
			}
			line = append(line, correct, ',')
			line = append(strconv.AppendFloat(line, z, 'g', -1, 64), ',')
			line = strconv.AppendInt(line, int64(bins.Index(z)), 10)
			b.Write(append(line, '\n'))
		}
	}
	return b.Bytes()
}

// printACCEJSON prints the result, or {"radii": […]} where there are several.
func printACCEJSON(w io.Writer, results []acceResult, several bool) error {
	e := json.NewEncoder(w)
	if several {
		return e.Encode(map[string][]acceResult{"radii": results})
	}
	return e.Encode(results[0])
}

func printACCE(w io.Writer, results []acceResult, o acceOptions, solvers acceSolvers, asked int) error {
	first := results[0]
	fmt.Fprintf(w, "calibration under attack, %d equal-width bins\n\n", first.Bins)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	column := func(show bool, name string) {
		if show {
			fmt.Fprint(t, name, "\t")
		}
	}
	column(first.Radius != nil, "radius")
	column(true, "n")
	column(first.ECE != nil, "ECE, no attack")
	column(true, "CBS")
	column(solvers.exact, "CCE")
	column(solvers.admm, "ADMM*")
	column(solvers.dece, "dECE*")
	column(solvers.brier, "Brier*")
	column(o.adaptive, "AdaECE ≥")
	column(o.adaptive, "AdaECE ≤")
	column(o.delta > 0, "failures ≤")
	column(o.delta > 0, "CBS, all")
	column(o.delta > 0 && solvers.exact, "CCE, all")
	column(o.delta > 0 && o.adaptive, "AdaECE, all")
	fmt.Fprintln(t)
	// Bounds are printed rounded up, values that are attained rounded down.
	up := func(x *float64) {
		if x != nil {
			fmt.Fprint(t, ceilDecimals(*x, 4), "\t")
		}
	}
	down := func(x *float64) {
		if x != nil {
			fmt.Fprint(t, floorDecimals(*x, 4), "\t")
		}
	}
	for _, r := range results {
		if r.Radius != nil {
			fmt.Fprint(t, formatFloat(*r.Radius), "\t")
		}
		fmt.Fprint(t, r.N, "\t")
		down(r.ECE)
		up(&r.CBS)
		up(r.CCE)
		if r.ACCE != nil {
			down(&r.ACCE.ADMM)
		}
		down(r.DECE)
		down(r.BrierECE)
		if r.Adaptive != nil {
			down(&r.Adaptive.Lower)
			up(&r.Adaptive.Upper)
		}
		if c := r.Certified; c != nil {
			fmt.Fprint(t, c.Failures, "\t")
			up(&c.CBS)
			up(c.CCE)
			up(c.Adaptive)
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if first.Estimates != nil {
		fmt.Fprintln(w, "* estimate from below: some confidences within the bounds are this bad, others may be worse.")
	}
	held := "CBS holds"
	if solvers.exact {
		held = "CBS and CCE hold"
	}
	fmt.Fprintf(w, "%s if every bound in the file holds.\n", held)
	for _, r := range results {
		if c := r.Certified; c != nil {
			where := "With"
			if r.Radius != nil {
				where = "Within radius " + formatFloat(*r.Radius) + ", with"
			}
			also := ""
			if c.CCE != nil {
				also += fmt.Sprintf(", the calibration error at most %s", ceilDecimals(*c.CCE, 4))
			}
			if c.Adaptive != nil {
				also += fmt.Sprintf(", with bins of any kind at most %s", ceilDecimals(*c.Adaptive, 4))
			}
			fmt.Fprintf(w, "%s probability at least 1 − %s, at most %d of the %d bounds fail: over these predictions the Brier score under attack is at most %s%s.\n",
				where, formatFloat(c.Delta), c.Failures, r.N, ceilDecimals(c.CBS, 4), also)
		}
	}
	if c := first.Certified; c != nil {
		taken := ""
		if c.ExamplesAssumed {
			taken = ", if the file leaves out none"
		}
		over := "Over"
		if len(results) > 1 {
			over = "Each radius for itself, over"
		}
		fmt.Fprintf(w, "%s the noise of %d sampled examples%s, independent, with alpha = %s each.\n", over, c.Examples, taken, formatFloat(c.Alpha))
	}
	if last := results[len(results)-1]; last.Interrupted || len(results) < asked {
		fmt.Fprintf(w, "Interrupted: %d of %d radii, estimates are the best found until then.\n", len(results), asked)
	}
	return nil
}
