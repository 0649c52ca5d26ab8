package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/agreement"
	"github.com/rscert/rscert/internal/report/summary"
	"github.com/rscert/rscert/internal/runfolder"
)

// compareOptions are the flags of compare.
type compareOptions struct {
	json, quiet bool
}

func newCompare(s streams) *cobra.Command {
	var o compareOptions
	cmd := &cobra.Command{
		Use:   "compare RUN RUN",
		Short: "Count the votes that differ between two runs of one experiment",
		Long: `This command counts the votes that differ between two runs. Both runs must have the same
model, data, σ, seed and parameters, and so the same noisy inputs. The runs may differ
only in how the scores are computed (such as the device, the precision and the library)
and in the choice of the examples. Their votes differ where rounding changes which of
two nearly equal scores is larger. Both runs are valid, even if their votes differ.

From the vote counts, the command computes a lower bound on the number of votes that
differ. The true number can be much larger, because opposite changes cancel in the
counts. If both runs were made with --save-scores, the command compares the votes sample
by sample.

The command compares the examples that both runs contain, so either run can be a shard
or unfinished. It refuses runs that differ in anything except the choice of the examples
and the computation of the scores. For example, it refuses runs with different models or
different σ. To compare models, use 'rscert report --baseline'. The exit code is 0 even
if votes differ.`,
		Example: `  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --seed 18 --device cpu --out on-cpu
  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --seed 18 --device cuda --out on-gpu
  rscert compare on-cpu on-gpu
  rscert compare on-cpu on-gpu --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return badInput(fmt.Errorf("want two run folders, got %d arguments", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCompare(cmd.Context(), s, args, o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&o.json, "json", false, "print the comparison as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	return cmd
}

func runCompare(ctx context.Context, s streams, paths []string, o compareOptions) error {
	var runs [2]summary.Source
	for i, path := range paths {
		var err error
		if runs[i], err = summary.ReadAll(ctx, path); err != nil {
			return badInput(err)
		}
	}
	for i, run := range runs {
		if err := warnUnbound(s, paths[i], run.Run); err != nil {
			return err
		}
	}
	bar := progress.Start(s.progress(o.quiet), "scores", int64(min(len(runs[0].Certificates), len(runs[1].Certificates))), 0)
	found, err := agreement.Compare(ctx, runs[0], runs[1], func() { bar.Add(1, "") })
	bar.Finish()
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case err != nil:
		return badInput(err)
	case o.json:
		return report.WriteJSON(s.out, "compare", found)
	}
	return writeAgreement(s.out, found)
}

func writeAgreement(w io.Writer, a agreement.Agreement) error {
	t := report.Table{Flush: true, Columns: []report.Column{report.TextColumn(""), report.TextColumn("")}}
	line := func(name, format string, values ...any) {
		t.AddRow(report.Text(name), report.Text(fmt.Sprintf(format, values...)))
	}
	for _, side := range []struct {
		name string
		agreement.Side
	}{{"first", a.First}, {"second", a.Second}} {
		device := side.Device
		if len(side.GPUs) > 0 {
			device += fmt.Sprintf(" (%s)", strings.Join(side.GPUs, ", "))
		}
		line(side.name, "%s: %s, %s, %s of ONNX Runtime %s", side.Run, device, side.Precision, side.Provider, side.Library)
	}
	for _, d := range a.Differences {
		if d.What == runfolder.NoiseOnFlag { // the last bits of the scores can depend on where the noise is made
			line(d.What, "%s, %s", d.First, d.Second)
		}
	}
	line("examples", "%d in both%s", a.Examples, onlyIn(a))
	line("samples", "%d", a.Samples)
	least, most, how := votesThatDiffer(a.Votes)
	line("votes that differ", "%s", least)
	line("per 100,000", "%s", most)
	line("other counts", "%s", ofExamples(a.OtherCounts))
	if a.OtherSamples > 0 {
		line("stopped elsewhere", "%s", ofExamples(a.OtherSamples))
	}
	line("other top class", "%s", ofExamples(a.OtherTop))
	line("other certified class", "%s", ofExamples(a.OtherClass))
	line("abstained", "only in the first %d, only in the second %d", a.AbstainedFirst, a.AbstainedSecond)
	line("other radius", "%s%s", ofExamples(a.OtherRadius), largestRadii(a.Largest))
	if err := t.WriteText(w); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "\n%s\n", how); err != nil {
		return err
	}
	return writeChanged(w, a.Changed)
}

func onlyIn(a agreement.Agreement) string {
	if a.First.Only+a.Second.Only == 0 {
		return ""
	}
	return fmt.Sprintf(", %d only in the first, %d only in the second", a.First.Only, a.Second.Only)
}

// votesThatDiffer returns three texts about votes that differ: their number, their rate per 100,000, and how they were
// counted.
func votesThatDiffer(v agreement.Votes) (number, rate, how string) {
	low, level := report.Round(v.Low, report.Down, 0, 2), 100*v.Level
	if v.AtMost == nil {
		return fmt.Sprintf("at least %d", v.AtLeast),
			fmt.Sprintf("at least %s; with other seeds, at %g %%, at least %s", report.Round(v.Rate, report.Down, 0, 2), level, low),
			"Counted from the vote counts, where opposite changes cancel. Runs with --save-scores are compared sample by\n" +
				"sample."
	}
	number, how = fmt.Sprint(v.AtLeast), "Counted sample by sample, from the saved scores."
	if *v.AtMost > v.AtLeast {
		number = fmt.Sprintf("%d to %d", v.AtLeast, *v.AtMost)
		how += " Where the largest scores are equal, the vote is unknown."
	}
	return number, fmt.Sprintf("%s; with other seeds, at %g %%, %s to %s", report.Round(v.Rate, report.Nearest, 0, 2), level, low,
		report.Round(*v.High, report.Up, 0, 2)), how
}

func ofExamples(n int) string {
	if n == 1 {
		return "1 example"
	}
	return fmt.Sprintf("%d examples", n)
}

func largestRadii(r *agreement.Radii) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("; largest difference: example %d, %v and %v", r.Index, r.First, r.Second)
}

// writeChanged lists the first examples whose class changed.
func writeChanged(w io.Writer, changed []agreement.Class) error {
	if len(changed) == 0 {
		return nil
	}
	const most = 20
	t := report.Table{Columns: []report.Column{report.ExactColumn("example"), report.ExactColumn("label"),
		report.ExactColumn("certified"), report.ExactColumn("second"), report.ExactColumn("top class"), report.ExactColumn("second")}}
	for _, c := range changed[:min(most, len(changed))] {
		t.AddRow(report.Count(c.Index), report.Count(c.Label), certifiedClass(c.First), certifiedClass(c.Second),
			report.Count(c.TopFirst), report.Count(c.TopSecond))
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	if more := len(changed) - most; more > 0 {
		_, err := fmt.Fprintf(w, "%s%d more: see --json\n", strings.Repeat(" ", 2), more)
		return err
	}
	return nil
}

func certifiedClass(k int) report.Cell {
	if k == certify.Abstained {
		return report.Text("none")
	}
	return report.Count(k)
}
