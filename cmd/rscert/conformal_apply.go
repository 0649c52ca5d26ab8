package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/conformalfile"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/run"
)

// conformalApplyOptions are the flags of conformal apply.
type conformalApplyOptions struct {
	plan          run.ConformalApply
	offLattice    string
	groups, group string
	out           string
	json, quiet   bool
}

func newConformalApply(s streams) *cobra.Command {
	var o conformalApplyOptions
	var settle func() error
	cmd := &cobra.Command{
		Use:   "apply conformal.json --data DATA",
		Short: "Compute the prediction sets of inputs",
		Long: `This command computes a prediction set for each input. It draws noisy copies of the
input, and stops when the remaining copies cannot change the set. So the set is the same
as with all copies. The file conformal.json of 'rscert conformal fit' says which
classifier, which noise and which rule make the sets. The command refuses a model whose
SHA-256 differs from the SHA-256 in conformal.json. It also refuses inputs that it
recognises as calibration examples. It recognises a calibration example if --data reads
the data file from which the calibration examples came. It also recognises attacked
copies of calibration examples, if the copies are in a folder that 'rscert attack'
wrote. It also refuses the file of scores that was used for the calibration. It cannot
recognise other copies (docs/conformal.md).

The noise is fresh: nobody can know it before the inputs are fixed. This is why the
guarantee holds under attack. With --seed, the command repeats the noise of an earlier
command. The guarantee does not hold for sets with repeated noise, and the output marks
them as not sound.

By default, the command refuses inputs off the lattice (the grid of input values) of the
calibration data. '--off-lattice round' moves such an input to the nearest lattice
point. The move shrinks the radius of the input's set by the length of the move. For all
sets, the option 'round' also adds 4/(n+1) to the allowed probability that a set misses
the label (--miss of 'rscert conformal fit'). Here n is the number of calibration
examples; with the guarantee 'label' or 'group', it is the number of calibration
examples in the smallest class or group whose threshold is not −∞ (with the threshold
−∞, the sets hold all classes).

Each line of the output holds the set of one input. It also holds, for each class, the
number of scores that reach the threshold. The fields 'rule', 'radius', 'miss',
'guarantee', 'sound' and 'arithmetic' hold the conditions of the guarantee. --out writes
.jsonl, .csv or .parquet. Without --out, the command prints a table. If 'rscert
conformal fit' used a file of scores, --data must also be a file of scores. With
--certified-size, the command draws at least m noisy copies of each input. Here m is the
number of noisy copies that the calibration drew of each example.`,
		Example: `  rscert conformal apply conformal.json --data test/ --out sets.jsonl
  rscert conformal apply conformal.json --data test/ --max 10
  rscert conformal apply conformal.json --data mnist/ --shard 1/2 --json
  rscert conformal apply conformal.json --data test.npz --labels none --out sets.parquet`,
		Args: oneArgument("one conformal.json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := settle(); err != nil {
				return err
			}
			o.plan.Path = args[0]
			if err := o.settle(cmd.Flags()); err != nil {
				return err
			}
			return runConformalApply(cmd.Context(), s, o)
		},
	}
	f := cmd.Flags()
	settle = addExperimentFlags(cmd, &o.plan.Spec, law.Additives(), func() {
		f.StringVar(&o.out, "out", "", "write the sets to this .jsonl, .csv or .parquet `file`")
		group(cmd, "Inputs and output")
		f.BoolVar(&o.plan.CertifiedSize, "certified-size", false, "draw further noisy copies, with which "+
			"'rscert conformal evaluate' bounds the mean size of the sets under attack")
		f.StringVar(&o.offLattice, "off-lattice", "refuse", "treatment of inputs off the lattice (the grid "+
			"of input values): 'refuse', or 'round' to the nearest lattice point")
		choices(f, "off-lattice", "refuse", "round")
		f.StringVar(&o.groups, "groups", "", "CSV `file` with a row for each input, in the order of the data; needed if the guarantee in conformal.json is 'group'")
		f.StringVar(&o.group, "group", "", "`column` with the name of the group, in the file of --groups")
		group(cmd, "Prediction sets")
	})
	f.BoolVar(&o.json, "json", false, "print the sets as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	group(cmd, "Output")
	return cmd
}

// settle completes the plan from the flags.
func (o *conformalApplyOptions) settle(f *pflag.FlagSet) (err error) {
	p := &o.plan
	for _, flag := range append([]string{"noise-on", "scores-output"}, runDecides...) {
		if f.Lookup(flag) != nil && f.Changed(flag) {
			return badInputf("--%s comes from %s: leave the flag out", flag, p.Path)
		}
	}
	if !f.Changed("device") {
		p.Spec.Device = onnx.Device{}
	}
	if p.Round, err = parseOffLattice(o.offLattice); err != nil {
		return err
	}
	if _, err := setWriters.choose(o.out); err != nil {
		return err
	}
	p.Groups, err = readGroups(o.groups, o.group)
	return err
}

// readGroups reads the groups that --groups and --group specify. Each of these flags needs the other one.
func readGroups(path, column string) ([]string, error) {
	if path == "" && column == "" {
		return nil, nil
	}
	if path == "" || column == "" {
		return nil, badInputf("--groups and --group need each other")
	}
	groups, err := conformalfile.ReadGroups(path, column)
	return groups, badInput(err)
}

// setWriters write sets in the formats of --out.
var setWriters = rowWriters[conformalfile.Set]{
	conformalfile.WriteLines, conformalfile.WriteCSV, conformalfile.WriteParquet,
}

func runConformalApply(ctx context.Context, s streams, o conformalApplyOptions) error {
	inputs := append(o.plan.Spec.Models(), o.plan.Spec.Data, o.plan.Path, o.groups)
	if err := checkOutput("out", o.out, inputs...); err != nil {
		return err
	}
	r, err := run.ApplyConformal(ctx, o.plan, s.console(o.quiet))
	if err != nil {
		return err
	}
	if err := setWriters.write(o.out, r.Sets); err != nil {
		return err
	}
	s.wrote(o.out)
	if o.json {
		return report.WriteJSON(s.out, "conformal-apply", r)
	}
	if o.out == "" {
		if err := writeSets(s.out, r); err != nil {
			return err
		}
	}
	return writeApplied(s.out, r, o.out)
}

// writeSets prints a table of the sets.
func writeSets(w io.Writer, r *run.ConformalSets) error {
	table := report.Table{Columns: []report.Column{
		report.ExactColumn("index"), report.ExactColumn("label"), report.TextColumn("set"), report.ExactColumn("size"),
		report.ExactColumn("draws"),
	}}
	for _, s := range r.Sets {
		row := []report.Cell{report.Count(s.Index), nil, setCell(s), report.Count(s.Size), report.Count(s.Draws)}
		if s.Label != nil {
			row[1] = report.Count(*s.Label)
		}
		table.AddRow(row...)
	}
	if err := table.WriteText(w); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

// setCell returns a table cell that shows a set in braces.
func setCell(s conformalfile.Set) report.Cell {
	return report.Text("{" + strings.ReplaceAll(s.Classes(), " ", ", ") + "}")
}

// writeApplied prints the summary.
func writeApplied(w io.Writer, r *run.ConformalSets, out string) error {
	var b bytes.Buffer
	inputs := float64(max(r.Inputs, 1))
	fmt.Fprintf(&b, "%d sets of %.3f classes on average: %d empty, %d of one class", r.Inputs,
		float64(r.Classes)/inputs, r.Empty, r.Singletons)
	if r.Labelled > 0 {
		fmt.Fprintf(&b, "; %d of %d contain the label", r.Covered, r.Labelled)
	}
	fmt.Fprintf(&b, "\n%.1f draws per set on average, at most %d; rule %s, miss %.4g, seed %d\n",
		float64(r.Draws)/inputs, r.QueryM, r.Rule, r.Miss, r.NoiseSeed)
	fmt.Fprintf(&b, "\n%s\n", paragraph(r.Statement))
	if out != "" {
		fmt.Fprintf(&b, "\nthe sets are in %s\n", out)
	}
	_, err := w.Write(b.Bytes())
	return err
}
