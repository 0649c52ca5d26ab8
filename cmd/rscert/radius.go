package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/comparison"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/runfolder"
)

// radiusOptions are the flags of the command 'radius'.
type radiusOptions struct {
	methods      []runfolder.Method
	target       certify.Target
	margins      []certify.MarginKind
	combines     []certify.Combine
	temperatures []float64
	n0           int64
	sizes        []int64
	repeats      int
	seed         *uint64
	radii        []float64
	by           scale
	perClass     bool
	gainOver     string
	out          string
	plots        []string
	curve        comparison.Curve
	plotSize     picture.Size
	json, quiet  bool

	given runfolder.Given
}

// scale is the quantity that determines the columns of the table: the certified radius or the certified margin.
type scale string

const (
	byRadius scale = "radius"
	byMargin scale = "margin"
)

var scales = choice.Of("quantity", byRadius, byMargin).Describe(func(s scale) string {
	return map[scale]string{byRadius: "the certified radius", byMargin: "the certified margin, as in the tables of Moutaouakil 2024; --radii then lists margins"}[s]
})

func (s scale) String() string { return string(s) }

func newRadius(s streams) *cobra.Command {
	var o radiusOptions
	var seed uint64
	cmd := &cobra.Command{
		Use:   "radius RUN… | votes.jsonl… | scores.npz…",
		Short: "Certify saved votes or scores again, without the model",
		Long: `This command computes the certificates of a run or file again from its votes or scores.
You can choose other methods, or another alpha, class or margin. For several methods it
prints a table that compares them. A sound method gives valid certificates if you chose
the method before you saw the votes or scores. Do not choose the best of several methods
by their results here: that is not sound. Instead, compare the methods on other votes,
or divide alpha by the number of methods. Parameters that you do not give come from the
run. A file without a run needs --sigma.

These methods certify votes:
` + listed(certify.VoteMethods()) + `
Scores come from scores.npz, or from a run with --save-scores. --combine chooses how to
bound the margin between two mean scores. The following methods bound mean scores:
` + listed(certify.MeanBounds()) + `
Let p_A be the probability of the class, and p_B the largest probability of another
class. There are two margins: '--margin first' is p_A−p_B, and '--margin second' is
Φ⁻¹(p_A)−Φ⁻¹(p_B). For Gaussian noise, the radius is σ√(π/2) times the first margin, or
σ/2 times the second margin. If you know a Lipschitz constant L of the smoothed
probabilities, give it with --lipschitz. With L, the radius for the first margin M is
max{σ√(π/2)·M, M/(√2·L)}.

A run of 'certify --stop' may have stopped sampling some examples early. The certificate
of such an example uses only a share of alpha. Sampling can stop only at certain numbers
of samples, and the stopping rule fixes a share of alpha for each of these numbers.

--sizes shows what the certificates would be with fewer samples. For each size n in
--sizes, the command certifies from n samples per example. If the input holds scores,
the command takes the first n samples. A file of votes holds only counts, so the command
draws n of the example's votes at random, without replacement. Such a subsample is as
good as n fresh votes. To keep the certificates sound, fix n and --seed before you see
the votes. Without --seed, the operating system draws a seed, and --json records it. If
you use such a seed, run the command only once. --repeats K draws K subsamples, and the
table shows the mean ± the standard deviation over these K subsamples.

The table has a row for each combination of run, method, size, temperature, margin and
value of --combine. In the table, the name betting+bonferroni means the method betting
with --combine bonferroni. --gain-over compares each row with the row of another method.
--plot draws the rows as curves, with one line for each method. Each combination of run,
size, temperature and margin has its own panel. With --curve size, one panel holds all
sizes, and the size is its horizontal axis.`,
		Example: `  rscert radius run --method clopper-pearson,bonferroni,margin
  rscert radius run --alpha 0.01 --margin first --out certificates.jsonl
  rscert radius votes.jsonl --sigma 0.25 --class label --json
  rscert radius scores.npz --sigma 0.5 --n0 100 --method betting,hoeffding
  rscert radius run --method bonferroni,margin --sizes 100,1000,10000 --repeats 20 --gain-over bonferroni
  rscert radius run --method bonferroni,moutaouakil --margin first,second --sizes 100,1000 --curve margin --plot n.svg
  rscert radius run --method betting --combine bonferroni,directed --temperature 0.1,1,10 --plot temperature.svg`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("want one run folder, votes.jsonl or scores.npz, or several")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.given = runfolder.Given{
				Alpha: given(cmd, "alpha", &o.target.Alpha), Sigma: given(cmd, "sigma", &o.target.Sigma),
				Lipschitz: given(cmd, "lipschitz", &o.target.Lipschitz), Class: given(cmd, "class", &o.target.Class),
				Law: given(cmd, "law", &o.target.Law), TopK: given(cmd, "top-k", &o.target.TopK), None: given(cmd, "none", &o.target.None),
			}
			o.seed = given(cmd, "seed", &seed)
			return runRadius(cmd.Context(), s, args, o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	choiceListVar(f, &o.methods, "method", nil, runfolder.Methods(), "methods, separated by commas; default: the method of the run; without a run, 'margin' for votes and 'betting' for scores")
	targetFlags(cmd, &o.target, "largest probability that the certificate of an example is wrong", law.Laws)
	choiceListVar(f, &o.margins, "margin", nil, methods(certify.MarginKinds()), "one or both margins, separated by commas; p_A is the probability of the class, and p_B the largest probability of another class; default: the margin of the run; without a run, '"+certify.SecondMargin.String()+"': "+methods(certify.MarginKinds()).Described())
	f.Float64Var(&o.target.Lipschitz, "lipschitz", 0, "for --margin first, a known Lipschitz constant L of the smoothed probabilities; 0 means that L is unknown, and rscert uses the constant that the noise guarantees")
	claimFlags(f, &o.target.TopK, &o.target.None)
	choiceListVar(f, &o.combines, "combine", nil, methods(certify.Combines()), "ways to bound the margin between two mean scores, separated by commas; default: the way of the run; without a run, '"+certify.Directed.String()+"': "+methods(certify.Combines()).Described())
	f.Float64SliceVar(&o.temperatures, "temperature", nil, "`temperatures` for saved scores, as multiples of the temperature at which the scores were saved; default: 1")
	integerVar(f, &o.n0, "n0", 0, "use the first `k` scores to select the class, if the file has no separate selection samples")
	f.Int64SliceVar(&o.sizes, "sizes", nil, "certify with only these `numbers` of estimation samples per example; the input must hold at least that many")
	integerVar(f, &o.repeats, "repeats", 1, "number of subsamples of the votes for each size in --sizes")
	integerVar(f, &seed, "seed", 0, "seed of the subsamples for --sizes; choose it before you see the votes; default: a seed that the operating system draws")
	radiiVar(f, &o.radii, "radii", "`radii` for which the table shows the certified accuracy; default: round numbers")
	choiceVar(f, &o.by, "by", byRadius, scales, "`quantity` in the columns of the table: "+scales.Described())
	f.BoolVar(&o.perClass, "per-class", false, "for each method, also print a table with one row per class")
	f.StringVar(&o.gainOver, "gain-over", "", "compare each row with the row of this `method` in the table, such as 'bonferroni' or 'betting+bonferroni'")
	f.StringVar(&o.out, "out", "", "write the certificates to this JSON lines `file`; cannot be combined with --sizes, several inputs or lists of values")
	f.StringSliceVar(&o.plots, "plot", nil, "draw a curve to this .svg, .png or .pdf `file`")
	choiceVar(f, &o.curve, "curve", comparison.RadiusCurve, comparison.Curves, "`name` of the curve: "+comparison.Curves.Described())
	f.TextVar(&o.plotSize, "plot-size", picture.Size{}, "`size` of the figure in centimetres, such as 15x10")
	f.BoolVar(&o.json, "json", false, "print the summaries as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	return cmd
}

// targetFlags adds flags to the commands 'radius' and 'confidence'. If the input is a run, the run determines the
// defaults of these flags. The argument 'alpha' says what --alpha means. The help texts of --law and --sigma name only
// the given laws.
func targetFlags[L law.Law](cmd *cobra.Command, t *certify.Target, alpha string, laws []L) {
	f := cmd.Flags()
	choiceVar(f, &t.Class, "class", certify.Predicted, methods(certify.Classes()), "class to certify; default: the choice of the run, or else 'predicted': "+methods(certify.Classes()).Described())
	f.Float64Var(&t.Alpha, "alpha", 0.001, alpha+"; for a run, the value of the run replaces the default")
	lawFlags(f, &t.Sigma, &t.Law, laws)
	f.Lookup("sigma").Usage += "; default: the value of the run"
}

func runRadius(ctx context.Context, s streams, paths []string, o radiusOptions) error {
	formats, err := o.check(paths)
	if err != nil {
		return err
	}
	if len(o.sizes) > 0 && o.seed == nil {
		seed, err := experiment.DrawSeed()
		if err != nil {
			return err
		}
		o.seed = &seed
	}
	found := radiusReport{File: paths[0]}
	if len(o.sizes) > 0 {
		found.Seed = o.seed
	}
	for k, name := range nameRuns(paths) {
		if len(paths) == 1 {
			name = ""
		}
		rows, err := o.certify(ctx, s, paths[k], name)
		if err != nil {
			return err
		}
		found.Methods = append(found.Methods, rows...)
	}
	if err := found.summarize(o); err != nil {
		return err
	}
	if err := found.check(); err != nil {
		return err
	}
	if o.plotSize == (picture.Size{}) {
		o.plotSize = o.curve.DefaultSize(found.Methods)
	}
	if err := writePictures(o.plots, formats, func(f picture.Format) ([]byte, error) {
		content, err := o.curve.Draw(f, found.Methods, o.plotSize)
		return content, badInput(err)
	}); err != nil {
		return err
	}
	s.wrote(o.plots...)
	if o.json {
		return report.WriteJSON(s.out, "radius", found)
	}
	return found.write(s.out)
}

// check refuses impossible flags and returns the formats of the plots.
func (o radiusOptions) check(paths []string) ([]picture.Format, error) {
	if err := checkOutput("out", o.out, paths...); err != nil {
		return nil, err
	}
	if err := certify.CheckRadii(o.radii); err != nil {
		return nil, badInputf("--radii %w", err)
	}
	sorted := slices.Sorted(slices.Values(o.sizes))
	switch {
	case len(sorted) > 0 && sorted[0] < 1:
		return nil, badInputf("--sizes %d: want a number above 0", sorted[0])
	case len(slices.Compact(sorted)) < len(o.sizes):
		return nil, badInputf("--sizes: a number is given twice")
	case o.repeats < 1 || o.repeats > 100_000:
		return nil, badInputf("--repeats %d: want 1 to 100000", o.repeats)
	case len(o.sizes) == 0 && (o.repeats > 1 || o.seed != nil):
		return nil, badInputf("--repeats and --seed need --sizes")
	case o.out != "" && len(o.methods) > 1:
		return nil, badInputf("--out takes the certificates of one method, not %d", len(o.methods))
	case o.out != "" && (len(paths) > 1 || len(o.sizes) > 0 || len(o.margins) > 1 || len(o.combines) > 1 || len(o.temperatures) > 1):
		return nil, badInputf("--out takes the certificates of one run, margin, combination and temperature, from all samples")
	}
	if err := checkDistinct(append(writtenBy("plot", o.plots), written{"out", o.out})...); err != nil {
		return nil, err
	}
	return pictureFormats(o.plots, paths...)
}

// grid returns the settings of all certificates that the command computes.
func (o radiusOptions) grid(path string) (run.RecertificationGrid, error) {
	evidence, err := runfolder.Find(path)
	if err != nil {
		return run.RecertificationGrid{}, badInput(err)
	}
	if o.out != "" && evidence.Run != nil && evidence.Run.Parameters.Only.Given() {
		return run.RecertificationGrid{}, hint.Add(badInputf("--out: %s: %s, and a file of certificates does not record this selection", path, evidence.Run.Parameters.Only.Says()),
			"leave --out out: the printed results name the selection")
	}
	grid := run.RecertificationGrid{
		Evidence: evidence, Methods: o.methods, Combines: o.combines, Temperatures: o.temperatures,
		N0: o.n0, Sizes: o.sizes, Repeats: o.repeats,
	}
	if o.seed != nil {
		grid.Seed = *o.seed
	}
	if len(o.temperatures) == 0 {
		grid.Temperatures = []float64{1}
	}
	if len(o.combines) == 0 {
		grid.Combines = []certify.Combine{evidence.Combine(nil)}
	}
	margins := []*certify.MarginKind{nil} // nil: the margin of the run
	if len(o.margins) > 0 {
		margins = margins[:0]
	}
	for _, m := range o.margins {
		margins = append(margins, &m)
	}
	for _, m := range margins {
		g := o.given
		g.Margin = m
		target, err := evidence.ClassTarget(g)
		if err != nil {
			return grid, badInput(err)
		}
		grid.Targets = append(grid.Targets, target)
	}
	return grid, nil
}

// certify certifies a run or a file and returns a row for each setting. The argument 'name' is the name of the run in
// the table, or empty.
func (o radiusOptions) certify(ctx context.Context, s streams, path, name string) ([]*comparison.Row, error) {
	grid, err := o.grid(path)
	if err != nil {
		return nil, err
	}
	if err := warnChosen(s, path, grid.Evidence.Run); err != nil {
		return nil, err
	}
	var rows []*comparison.Row
	for _, p := range grid.Points() {
		row := &comparison.Row{Setting: comparison.Setting{File: name, Size: p.Size}}
		if len(grid.Targets) > 1 {
			row.MarginKind = p.Target.Margin
		}
		if len(o.temperatures) > 0 {
			row.Temperature = p.Temperature
		}
		rows = append(rows, row)
	}
	err = grid.Certify(ctx, s.progress(o.quiet), func(point int, certs []certify.Certificate) error {
		rows[point].Add(certs, grid.Evidence.Sampled(len(certs)))
		if o.out == "" {
			return nil
		}
		return runfolder.WriteCertificates(o.out, grid.Evidence.CountSampled(certs))
	})
	return rows, err
}

// radiusReport is what 'rscert radius --json' prints.
type radiusReport struct {
	File    string            `json:"file"`
	Seed    *uint64           `json:"seed,omitempty"` // seed of the subsamples
	Methods []*comparison.Row `json:"methods"`
	// Note is a warning of one line. It tells the user not to choose a row by its results. It is empty if there is only
	// one row.
	Note string `json:"note,omitempty"`
}

// check returns an error if the table cannot show all rows in the same columns. This is so if the runs have radii in
// different norms or units, or if their certificates make different claims.
func (r *radiusReport) check() error {
	first := r.Methods[0]
	for _, t := range r.Methods {
		switch {
		case t.File == first.File:
		case t.Norm != first.Norm, t.Scaled, first.Scaled:
			return hint.Add(badInputf("the radii of %s and %s are in different norms or units", first.File, t.File), "certify each run by itself")
		case t.Claim != first.Claim:
			return hint.Add(badInputf("the certificates of %s and %s make different claims", first.File, t.File), "certify each run by itself")
		}
	}
	return nil
}

// summarize summarises all rows at the same radii.
func (r *radiusReport) summarize(o radiusOptions) error {
	radii := o.radii
	if len(radii) == 0 || o.by == byMargin {
		radii = comparison.Radii(r.Methods)
	}
	for _, row := range r.Methods {
		row.Summarize(radii, o.perClass)
	}
	if o.by == byMargin {
		margins := o.radii
		if len(margins) == 0 {
			margins = comparison.Margins(r.Methods)
		}
		for _, row := range r.Methods {
			row.SummarizeMargins(margins)
		}
	}
	if o.gainOver != "" {
		if err := comparison.AddGains(r.Methods, o.gainOver); err != nil {
			return badInputf("--gain-over %w", err)
		}
	}
	switch {
	case r.swept():
		r.Note = strings.ReplaceAll(certify.ChooseFirst+". "+comparison.ChooseSetting, "\n", " ")
	case len(r.Methods) > 1:
		r.Note = strings.ReplaceAll(certify.ChooseFirst, "\n", " ")
	}
	return nil
}

// swept reports whether rows differ in their settings: the file, the kind of margin, the number of samples or the
// temperature.
func (r *radiusReport) swept() bool {
	return slices.ContainsFunc(r.Methods, func(row *comparison.Row) bool { return row.Setting != r.Methods[0].Setting })
}
