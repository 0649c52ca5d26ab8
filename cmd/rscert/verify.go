package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/run"
)

// verifyOptions are the flags of verify.
type verifyOptions struct {
	again       run.Again
	junit       string
	json, quiet bool
}

func newVerify(s streams) *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify RUN",
		Short: "Judge a run as a third party, with the model or without it",
		Long: `Verify judges a run by its folder alone: the format and the checksum of every line,
the examples (missing, too many, twice), run.json against itself and the table of the
noise, every certificate against its votes, and the bounds on the confidence against
the scores, where they were kept. It says whether the certificates are exact and
sound, and whether the run compared samples with themselves in other batches.

With --model and --data it also samples a few random examples again, as the run did,
and compares votes and saved scores bit for bit. That finds votes that were made up,
and runs of versions that did not notice that a model's answers depend on the batch.

Verify ends with VALID or INVALID, and with exit code 3 where the run is not valid; 2
means that there is no run to judge. A checksum does not stop somebody who recomputes it.`,
		Example: `  rscert verify run
  rscert verify run --json
  rscert verify run --junit verify.xml
  rscert verify run --model cnn.onnx --data mnist/
  rscert verify run --model cnn.onnx --data mnist/ --examples 20 --choice-seed 7`,
		Args: oneArgument("one run folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runVerify(cmd.Context(), s, args[0], o, given(cmd, "choice-seed", &o.again.ChoiceSeed))
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.again.Model, "model", "", "sample examples again: ONNX `file` of the classifier")
	f.StringVar(&o.again.Data, "data", "", "with --model: the dataset, by its `path`")
	f.StringVar(&o.again.Denoiser, "denoiser", "", "with --model: ONNX `file` of the denoiser; default: as recorded")
	f.StringVar(&o.again.Labels, "labels", "", "with --model: `file` of the labels; default: as recorded")
	f.StringVar(&o.again.ClassNames, "class-names", "", "with --model: `file` of the class names; default: as recorded")
	integerVar(f, &o.again.Examples, "examples", 8, "with --model: sample so many examples again")
	integerVar(f, &o.again.ChoiceSeed, "choice-seed", 0, "with --model: seed of their choice; default: drawn from the system and printed")
	integerVar(f, &o.again.Threads, "threads", 0, "with --model: threads; 0 = one a core")
	libraryFlag(cmd, &o.again.Library)
	f.StringVar(&o.junit, "junit", "", "write each check as a test to this JUnit XML `file`")
	f.BoolVar(&o.json, "json", false, "print the verdict as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	return cmd
}

// invalidError ends the process with exit code 3.
type invalidError struct{ path string }

func (e invalidError) Error() string { return e.path + ": the run is not valid" }

func runVerify(ctx context.Context, s streams, path string, o verifyOptions, choice *uint64) error {
	again, err := o.sampleAgain(choice)
	if err != nil {
		return err
	}
	if err := checkOutput("junit", o.junit, path); err != nil {
		return err
	}
	if err := o.writeJUnit(gate.JUnitError(run.VerifyChecks(again != nil), errDidNotFinish)); err != nil {
		return err
	}
	verdict, err := run.Verify(ctx, path, again, asFlag, s.console(o.quiet))
	if err != nil {
		return errors.Join(err, o.writeJUnit(gate.JUnitError(run.VerifyChecks(again != nil), err)))
	}
	if err := o.writeJUnit(gate.JUnit(verifyOutcomes(verdict))); err != nil {
		return err
	}
	if o.json {
		err = report.WriteJSON(s.out, "verify", verdict)
	} else {
		err = writeVerdict(s.out, verdict)
	}
	if err == nil && !verdict.Valid {
		err = invalidError{path}
	}
	return err
}

// sampleAgain is what the flags ask to be sampled again; nil: nothing.
func (o verifyOptions) sampleAgain(choice *uint64) (*run.Again, error) {
	q := o.again
	switch {
	case q.Examples < 1:
		return nil, badInputf("--examples %d: want at least 1", q.Examples)
	case q.Model == "" && q.Data == "":
		return nil, nil
	case q.Model == "" || q.Data == "":
		return nil, badInput(errors.New("--model and --data go together: examples are sampled again with both"))
	}
	q.Version = version()
	if choice == nil {
		var err error
		if q.ChoiceSeed, err = experiment.DrawSeed(); err != nil {
			return nil, err
		}
	}
	return &q, nil
}

func (o verifyOptions) writeJUnit(doc []byte, err error) error {
	if o.junit == "" || err != nil {
		return err
	}
	return durable.WriteFile(o.junit, doc)
}

// verifyOutcomes are the checks as tests; one that was not done has not failed.
func verifyOutcomes(v run.Verdict) (outcomes []gate.Outcome) {
	for _, c := range v.Checks {
		outcomes = append(outcomes, gate.Outcome{
			Run: v.Run, Requirement: c.Name, Met: c.State != run.Failed,
			Says: strings.Join(append([]string{string(c.State) + ": " + c.Says}, c.Reasons...), "; "),
		})
	}
	return outcomes
}

// writeVerdict prints what was found, the verdict last.
func writeVerdict(w io.Writer, v run.Verdict) error {
	var b strings.Builder
	line := func(name, format string, values ...any) {
		fmt.Fprintf(&b, "%-14s %s\n", name, quote.Line(fmt.Sprintf(format, values...)))
	}
	if v.Format > 0 {
		line("run", "%s: format %d, by rscert %s", v.Run, v.Format, v.Version)
		line("claims", "%d of %d examples, by %s at alpha %v, σ = %v", v.Examples, v.Selected, v.Method, v.Alpha, v.Sigma)
		line("sound", "%s", yesOrNo(v.Sound))
		line("arithmetic", "%s%s", v.Arithmetic, inPrecision(v.Precision))
	}
	for _, c := range v.Checks {
		line(c.Name, "%s: %s", c.State, c.Says)
		for _, reason := range c.Reasons {
			line("", "%s", reason)
		}
	}
	if a := v.Again; a != nil {
		line("choice", "--choice-seed %d: examples %s", a.ChoiceSeed, strings.Trim(fmt.Sprint(a.Examples), "[]"))
		for _, condition := range a.Conditions {
			line("differs", "%s", condition)
		}
	}
	verdict := "VALID"
	if !v.Valid {
		verdict = "INVALID"
	}
	fmt.Fprintf(&b, "\n%s\n", verdict)
	_, err := io.WriteString(w, b.String())
	return err
}

func yesOrNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no: the failure probability can exceed alpha"
}

func inPrecision(p string) string {
	if p == "" {
		return ""
	}
	return ", the model in " + p
}
