package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/run"
)

// auditOptions are the flags of audit.
type auditOptions struct {
	plan        run.AuditPlan
	json, quiet bool
}

func newAudit(s streams) *cobra.Command {
	var o auditOptions
	cmd := &cobra.Command{
		Use:   "audit RUN",
		Short: "Attack the smoothed classifier of a run to test its certificates",
		Long: `This command attacks the smoothed classifier of a run and compares the perturbations
with the run's certificates. The certified radius is a lower bound on the size of the
smallest perturbation that changes the answer. Every perturbation that changes the
answer gives an upper bound. The command prints both bounds. The certificates and the
perturbations also give bounds on the robust accuracy. The command prints these bounds
for radius 0 and for up to eight larger radii.

The command chooses examples by a hash of the data, not by the results. For each example
it searches for perturbed inputs, and writes them to the audit's folder. If the data use
a grid of values (a lattice) that is not too fine for the scale of the noise, the inputs
are on this grid. After the search, the command draws a new seed. It verifies the inputs
with fresh noise from this seed. With a probability of at least 1 − gamma, every
verified statement of the audit is true.

With --rounds, the command searches several times for each example. For each example, a
fixed part of gamma is reserved for one kind of test: the tests whether a perturbed
input changes the answer. The probability that any of these tests errs is at most this
part. The tests that follow directly after search k get the share 6/(π²k²) of this part.
The shares of all searches add up to at most 1.

A verified change of the answer at a distance within the certified radius contradicts
the certificate. Even a certificate of a sound method can be wrong, with probability at
most alpha, so a few contradictions can be due to chance. The command compares their
number with the binomial distribution. It also certifies each contradicted example
again, with fresh noise and alpha = 1e-6, and checks whether the perturbation also
contradicts the new certificate. The command tests bounds on the confidence (certify
--confidence-radii) in the same way.

The exit code is 3 if there are more contradictions than chance explains. If the
certificates are sound, the run gets this exit code with probability at most 0.001. So
this exit code is strong evidence that the certificates, the run or rscert itself are
wrong. 'rscert verify' may find the cause.

The folder of the audit (default: RUN/audit) holds audit.json and audit.jsonl. --resume
continues an audit that was stopped. 'rscert report RUN' draws the bounds on the robust
accuracy as curves.`,
		Example: `  rscert audit run
  rscert audit run --examples 1000 --out audit-1000
  rscert audit run --resume --json
  rscert audit run --model cnn.onnx --data mnist/
  rscert audit run --examples 20 --restarts 1 --steps 40 --screen 5000 --verify-samples 20000`,
		Args: oneArgument("one run folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.plan.Run = args[0]
			return runAudit(cmd.Context(), s, o)
		},
	}
	addAuditFlags(cmd, &o)
	return cmd
}

func addAuditFlags(cmd *cobra.Command, o *auditOptions) {
	f, p := cmd.Flags(), &o.plan
	b, standard := &p.Budget, run.DefaultAuditBudget
	f.SortFlags = false
	modelsFlag(f, &p.Model, &p.Further, "ONNX `file` of the classifier; default: the path that the run records")
	f.StringVar(&p.Data, "data", "", "`path` of the dataset; default: the path that the run records")
	f.StringVar(&p.Denoiser, "denoiser", "", "ONNX `file` of the denoiser; default: the path that the run records")
	f.StringVar(&p.Labels, "labels", "", "`file` with the labels; default: the path that the run records")
	f.StringVar(&p.ClassNames, "class-names", "", "`file` with the class names; default: the path that the run records")
	group(cmd, "Model and data")
	integerVar(f, &p.Examples, "examples", 128, "number of examples to attack; a hash of the data chooses them")
	integerVar(f, &b.Rounds, "rounds", standard.Rounds, "number of searches per example, each with new random starts")
	integerVar(f, &b.Restarts, "restarts", standard.Restarts, "number of starts in each search; the first start is the example itself, the others are random")
	integerVar(f, &b.Steps, "steps", standard.Steps, "number of steps from each start")
	integerVar(f, &b.Samples, "samples", standard.Samples, "maximum number of noisy copies of the input per gradient")
	integerVar(f, &b.Screen, "screen", standard.Screen, "maximum number of samples for the first check of a perturbed input; --verify-samples is for the second check")
	integerVar(f, &b.Verify, "verify-samples", standard.Verify, "maximum number of fresh samples to verify one perturbed input, or to test the answer at one example without a perturbation")
	f.Float64Var(&p.Gamma, "gamma", .001, "largest probability that any verified statement of the audit is wrong")
	group(cmd, "Budget")
	f.StringVar(&p.Out, "out", "", "`folder` to which rscert writes the audit; default: RUN/audit")
	f.BoolVar(&p.Resume, "resume", false, "continue the audit in its folder")
	integerVar(f, &p.Threads, "threads", 0, "number of threads; 0 means one thread per core")
	libraryFlag(cmd, &p.Library)
	f.BoolVar(&o.json, "json", false, "print the result as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	group(cmd, "How it is run")
}

// contradictedError says that an audit found more contradicted certificates than chance explains. The process then ends
// with exit code 3.
type contradictedError struct{ path string }

func (e contradictedError) Error() string {
	return e.path + ": more certificates are contradicted than chance explains"
}

func runAudit(ctx context.Context, s streams, o auditOptions) error {
	o.plan.Version = version()
	found, err := run.Audit(ctx, o.plan, s.console(o.quiet))
	if err != nil {
		return err
	}
	if o.json {
		err = report.WriteJSON(s.out, "audit", found)
	} else {
		err = writeAudit(s.out, found)
	}
	if err == nil && found.Contradictions.MoreThanChance {
		err = contradictedError{o.plan.Run}
	}
	return err
}

// writeAudit prints the results of an audit: medians that compare the certified radii with the distances of the
// attacks, the curves of robust accuracy, the calibration under attack, the contradictions, and the verdict.
func writeAudit(w io.Writer, r *run.Audited) error {
	var b strings.Builder
	c, g := r.Contradictions, r.Gap
	line := func(name, format string, values ...any) {
		fmt.Fprintf(&b, "%-15s %s\n", name, quote.Line(fmt.Sprintf(format, values...)))
	}
	line("audit", "%s of %s, %d of %d examples, level %g", r.Out, r.Path, r.Done, len(r.AuditHeader.Examples), r.Gamma)
	line("attacked", "%d examples with a certificate, %d with a verified change of the answer", g.Attacked, g.Verified)
	line("median", "certified L2 radius %s, verified distance %s, ratio %s", figure(g.MedianRadius), figure(g.MedianDistance), figure(g.MedianRatio))
	if len(r.Curve) > 0 {
		b.WriteString("\n" + curveTable(r) + "\n")
	}
	if len(r.Calibration) > 0 {
		b.WriteString(calibrationTable(r) + "\n")
	}
	if c.Count == 0 {
		line("contradictions", "no contradiction in %d", r.Done)
	} else {
		line("contradictions", "%d in %d, p = %.2g (examples %s); 5 %% would be %d", c.Count, r.Done, c.PValue, strings.Trim(fmt.Sprint(c.Examples), "[]"), c.Threshold)
		line("certified again", "%d contradicted again at alpha %g, p = %.2g", c.Again, 1e-6, c.AgainPValue)
	}
	verdict := "no more contradictions than chance explains"
	if c.MoreThanChance {
		verdict = "MORE CONTRADICTIONS THAN CHANCE EXPLAINS"
	}
	if !r.Sound {
		verdict += "; the method of the certificates is not sound"
	}
	fmt.Fprintf(&b, "\n%s\n", verdict)
	_, err := io.WriteString(w, b.String())
	return err
}

// figure returns a median as text, or "not found" if the median is nil. A median is nil if it is not finite or if there
// are no values.
func figure(v *float64) string {
	if v == nil {
		return "not found"
	}
	return fmt.Sprintf("%.3g", *v)
}

// calibrationTable returns a table of the certified calibration and the calibration under attack.
func calibrationTable(r *run.Audited) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-10s %-10s %-10s %-14s %-10s %s\n", "L2 radius", "examples", "CBS", "Brier, found", "CCE", "ECE, found")
	for _, c := range r.Calibration {
		fmt.Fprintf(&b, "%-10.4g %-10d %-10.4f %-14.4f %-10.4f %.4f\n", c.Radius, c.Examples, c.CBS, c.Brier, c.CCE, c.ECE)
	}
	return b.String()
}

// curveTable returns a table of the curves of robust accuracy.
func curveTable(r *run.Audited) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-10s %-12s %-12s %s\n", "L2 radius", "certified", "not broken", fmt.Sprintf("robust accuracy in the population, %g %% each side", 100*(1-r.Delta)))
	for _, p := range r.Curve {
		fmt.Fprintf(&b, "%-10.4g %-12.4f %-12.4f [%.4f, %.4f]\n", p.Radius, p.Certified, p.Images, p.Lower, p.Upper)
	}
	return b.String()
}
