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

// verifyOptions are the flags of the command 'verify'.
type verifyOptions struct {
	again       run.Again
	keyFile     string
	key         *string // points to keyFile if the flag --key is given; otherwise nil
	junit       string
	json, quiet bool
}

func newVerify(s streams) *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify RUN",
		Short: "Check a run as a third party, with or without the model",
		Long: `This command checks a run from its folder alone. It checks the format and the checksum
of every line, and it looks for missing, extra and duplicate examples. It checks that
the entries of run.json agree with each other. If the run drew its noise from a table,
the command computes this noise table again, and compares its SHA-256, its size and its
rounding error with run.json. It compares every certificate with its votes. If the run
certified by scores, the command compares every certificate with the saved scores
instead. Without saved scores, the command cannot compute the certificates again. If the
scores are saved, it also compares the bounds on the confidence with the scores. It
reports whether the certificates allow for rounding, and whether their method is sound.
It also reports whether the run tested that its outputs do not depend on the batch. In
this test, a run repeats some samples in other batches.

With --model and --data, the command also samples some examples again. It chooses a few
examples at random, and runs the model on noisy copies of them. These are the same noisy
copies as in the run. It compares the new votes and scores with the saved ones bit for
bit. This comparison exposes invented votes. It also exposes a model whose answers
depend on the batch. Old versions of rscert did not notice this dependence.

With --key, the run is valid only if it was signed with the matching secret key ('rscert
certify --sign') and no file has changed after the signature. Checksums detect
accidental changes. They do not detect a change by somebody who also recomputes the
checksums; a signature does. You can make keys with 'minisign -G' (docs/verify.md).

The last line of the output is VALID or INVALID. The exit code is 3 for an invalid
run, and 2 if there is no run to check.`,
		Example: `  rscert verify run
  rscert verify run --json
  rscert verify run --junit verify.xml
  rscert verify run --key minisign.pub
  rscert verify run --model cnn.onnx --data mnist/
  rscert verify run --model cnn.onnx --data mnist/ --examples 20 --choice-seed 7`,
		Args: oneArgument("one run folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.key = given(cmd, "key", &o.keyFile)
			return runVerify(cmd.Context(), s, args[0], o, given(cmd, "choice-seed", &o.again.ChoiceSeed))
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	modelsFlag(f, &o.again.Model, &o.again.Further, "ONNX `file` of the classifier, for sampling examples again; needs --data")
	f.StringVar(&o.again.Data, "data", "", "with --model, `path` of the dataset")
	f.StringVar(&o.again.Denoiser, "denoiser", "", "with --model, ONNX `file` of the denoiser; default: the path that the run records")
	f.StringVar(&o.again.Labels, "labels", "", "with --model, `file` with the labels; default: the path that the run records")
	f.StringVar(&o.again.ClassNames, "class-names", "", "with --model, `file` with the class names; default: the path that the run records")
	integerVar(f, &o.again.Examples, "examples", 8, "with --model, number of examples to sample again")
	integerVar(f, &o.again.ChoiceSeed, "choice-seed", 0, "with --model, seed that chooses the examples; default: the operating system draws a seed, and the command prints it")
	integerVar(f, &o.again.Threads, "threads", 0, "with --model, number of threads; 0 means one thread per core")
	libraryFlag(cmd, &o.again.Library)
	f.StringVar(&o.keyFile, "key", "", "require a signature that the public key in this minisign `file` confirms")
	f.StringVar(&o.junit, "junit", "", "write a JUnit XML `file` with one test for each check")
	f.BoolVar(&o.json, "json", false, "print the verdict as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
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
	if err := checkOutput("junit", o.junit, path, o.keyFile); err != nil {
		return err
	}
	key, err := publicKey(o.key)
	if err != nil {
		return err
	}
	if err := o.writeJUnit(gate.JUnitError(run.VerifyChecks(again != nil), errDidNotFinish)); err != nil {
		return err
	}
	verdict, err := run.Verify(ctx, path, again, key, asFlag, s.console(o.quiet))
	if err != nil {
		return errors.Join(err, o.writeJUnit(gate.JUnitError(run.VerifyChecks(again != nil), err)))
	}
	if err := o.writeJUnit(gate.JUnit(verifyOutcomes(verdict))); err != nil {
		return err
	}
	s.wrote(o.junit)
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

// sampleAgain returns the settings for sampling some examples again. It returns nil if --model and --data are not
// given.
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

// verifyOutcomes converts the checks into tests of a JUnit file. A test passes unless its check has failed. So a
// skipped check passes.
func verifyOutcomes(v run.Verdict) (outcomes []gate.Outcome) {
	for _, c := range v.Checks {
		outcomes = append(outcomes, gate.Outcome{
			Run: v.Run, Requirement: c.Name, Met: c.State != run.Failed,
			Says: strings.Join(append([]string{string(c.State) + ": " + c.Says}, c.Reasons...), "; "),
		})
	}
	return outcomes
}

// writeVerdict prints the checks, then the verdict.
func writeVerdict(w io.Writer, v run.Verdict) error {
	var b strings.Builder
	line := func(name, format string, values ...any) {
		fmt.Fprintf(&b, "%-14s %s\n", name, quote.Line(fmt.Sprintf(format, values...)))
	}
	if v.Format > 0 {
		line("run", "%s: format %d, by rscert %s", v.Run, v.Format, v.Version)
		line("claims", "%d of %d examples, by %s at alpha %v, %s = %v", v.Examples, v.Selected, v.Method, v.Alpha, v.Law.Law().Words().Symbol, v.Sigma)
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
