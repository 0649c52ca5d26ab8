package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/attack"
	"github.com/rscert/rscert/internal/graph/grad"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/spec"
)

// attackOptions are the flags of the command 'attack'.
type attackOptions struct {
	plan        run.AttackPlan
	methods     []attack.Method
	smoothed    smoothedOptions
	box         []float64
	plots       []string
	plotSize    picture.Size
	verify      string
	json, quiet bool
}

func newAttack(s streams) *cobra.Command {
	var o attackOptions
	var settle func() error
	cmd := &cobra.Command{
		Use:   "attack --model MODEL --data DATA --norm linf|l2 --eps E",
		Short: "Find small perturbations that a classifier gets wrong",
		Long: `For each example x, this command looks for a perturbed input x' with ‖x'−x‖ ≤ E that the
model gets wrong. E is the value of --eps. The command prints the accuracy of the model
under attack. This accuracy is an upper bound on the robust accuracy, because another
attack may find more such inputs. With --smoothed or --run, the command attacks the
smoothed classifier instead of the model. For the smoothed classifier, the norm is l2.
If the data use a grid of values (a lattice) that is not too fine for the scale of the
noise, the perturbed inputs stay on this grid (docs/attacks.md). With '--noise float',
the perturbed inputs may leave the grid. --keep all needs --smoothed or --run. With
--keep all, the search has another aim: for every example, it looks for the input with
‖x'−x‖ ≤ E at which the label has the smallest probability under noise. The command
writes this input even if the answer does not change. 'rscert conformal apply' computes
the prediction sets of the written inputs.

E is in the units of the data, before --mean and --std. Every value of a perturbed input
stays in the range --box. The perturbed inputs satisfy ‖x'−x‖ ≤ E exactly. Without a
lattice, this holds for the stored float32 numbers. For inputs on a lattice, it holds
for the lattice points, and the stored numbers are these points rounded to float32. To
confirm every success, rscert runs the perturbed input through the original model, not
through the graph that computes the gradients. Results do not depend on --batch or
--threads.

The methods:

` + attackList() + `
The methods 'square' and 'square-conf' work on every model. All other methods need the
gradients of the model. To compute them, rscert writes an ONNX graph of its own. If
rscert has no gradient for an operator of the model, the error names the operator.
Attacks that follow gradients can fail on a model that hides its gradients. rscert
prints a warning if it detects hidden gradients, but it cannot detect every such model.

--attack takes several names, separated by commas. Each attack runs only on the examples
that the earlier attacks did not break. An attack on the confidence (see below) runs
alone: give no other name with it.

With several methods or a preset such as 'standard', each method has settings of its
own. The command then refuses --steps and --step-size, and also a value of --restarts
above 1. With a single method, these flags have the following defaults:

  --steps      40 for pgd; 100 for apgd-ce, apgd-dlr, apgd-t, fab, fab-t and ace;
               1000 for square, pgd-conf, apgd-conf and apgd-conf-t; 5000 for
               square-conf; 150 with --smoothed or --run
  --restarts   10 for pgd-conf and apgd-conf; 4 with --smoothed or --run;
               otherwise 1
  --step-size  2.5·eps/steps for pgd; eps/6 (linf) or eps/20 (l2) for pgd-conf; 10 for ace

For an attack that aims at several classes, --restarts is the number of starts for each
class. Some attacks make their first start at the example itself: fab, fab-t (for each
class) and the attack on the smoothed classifier. All other starts that --restarts
counts are random. The attack pgd-conf makes one more start, at the example itself;
--restarts does not count this start. For pgd, --step-size is the length of each step;
for pgd-conf, it is the length of the first step. Both are in the units of the data. For
ace, --step-size is the initial learning rate.

The method 'ace' and the methods whose names end in -conf or -conf-t attack the
confidence. The method 'ace' tests calibration. The other attacks on the confidence are
for classifiers that do not answer if the confidence is below a threshold. Attacks on
the confidence also attack the examples that the model gets wrong without an attack. For
attacks on the confidence, the command also prints a table of the accuracy and the
calibration, without the attack and under the attack. --plot draws the reliability
diagrams without the attack and under the attack.

--out makes a folder (docs/attacks.md lists its files). attack.json holds the parameters
of the attack and the result for each example. adversarial.npz holds the inputs that the
attack found (array x) and their labels (array y), in the order of attack.json.
adversarial.npz is a dataset, so --data can read it. The attack 'ace' makes four attacks
on each example. For 'ace', the folder holds four datasets instead of adversarial.npz,
one for each of these attacks. With --keep all, the file worst.npz holds an input for
each example. If an attack is killed, --resume keeps its finished examples and
continues.

--verify checks a finished attack. For every stored input, it checks the norm of the
perturbation and the class, and that the input lies in the box. For an attack on the
smoothed classifier (--smoothed or --run), --verify does not check the classes. The exit
code is 3 if a result is not confirmed.`,
		Example: `  rscert attack --model cnn.onnx --data mnist/ --norm linf --eps 0.1 --out attack
  rscert attack --model cnn.onnx --data mnist/ --norm l2 --eps 1 --steps 100 --restarts 5 --loss margin
  rscert attack --model cnn.onnx --data mnist/ --norm linf --eps 0.1 --attack fgsm --max 100 --json
  rscert attack --model cnn.onnx --data mnist/ --norm linf --eps 0.1 --attack standard --max 1000
  rscert attack --model cnn.onnx --data mnist/ --norm linf --eps 0.1 --attack apgd-ce,square
  rscert attack --model forest.onnx --data table.csv --norm linf --eps 0.2 --box=-inf,inf --attack square
  rscert attack --model cnn.onnx --data mnist/ --norm linf --eps 0.1 --attack ace --out ace --plot ace.svg
  rscert attack --model cnn.onnx --data mnist/ --norm linf --eps 0.1 --attack pgd-conf --out conf
  rscert attack --verify ace
  rscert attack --model cnn.onnx --data mnist/ --smoothed --sigma 0.5 --eps 2 --max 20
  rscert attack --run run --eps 2 --smoothed=stein --max 20
  rscert attack --model cnn.onnx --data mnist/ --smoothed --sigma 0.5 --eps 0.5 --keep all --steps 20 --out worst`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := settle(); err != nil {
				return err
			}
			if o.smoothed.chosen(cmd) {
				return runSmoothedAttack(cmd, s, o)
			}
			if err := smoothedFlags(cmd); err != nil {
				return err
			}
			return runAttack(cmd.Context(), s, o)
		},
	}
	settle = addAttackFlags(cmd, &o)
	return cmd
}

// attackList lists the attacks, one per line.
func attackList() string {
	var list strings.Builder
	for _, m := range attack.Methods.Values() {
		fmt.Fprintf(&list, "  %-11s  %s\n", m, attack.Methods.What(m))
	}
	return list.String()
}

// addAttackFlags adds the flags of attack. The command calls the function 'settle' after it has parsed the flags.
func addAttackFlags(cmd *cobra.Command, o *attackOptions) (settle func() error) {
	f, p := cmd.Flags(), &o.plan
	e := &p.Spec
	f.SortFlags = false
	modelFlag(f, e, "ONNX `file` of the classifier")
	f.StringVar(&e.Data, "data", "", "`path` of the dataset, in any format that 'rscert certify' reads; see docs/my-data.md")
	choiceVar(f, &p.Threat.Norm, "norm", attack.Linf, attack.Norms, "norm of the perturbation: "+attack.Norms.String())
	perturbationVar(f, &p.Threat.Epsilon, "eps", "largest norm `E` of a perturbation, in the units of the data")
	f.Float64SliceVar(&o.box, "box", nil, "range `LOW,HIGH` in which every value of a perturbed input stays; --box=-inf,inf sets no limits; default: 0,1")
	choiceListVar(f, &o.methods, "attack", []attack.Method{attack.PGD}, attack.Methods, "`attacks` to run in turn, separated by commas: "+attack.Methods.String())
	choiceVar(f, &p.Loss, "loss", grad.CrossEntropy, grad.Losses, "loss that 'fgsm' and 'pgd' maximise: "+grad.Losses.Described())
	integerVar(f, &p.Steps, "steps", 0, "number of steps of each attack, or of queries for 'square' and 'square-conf'; 0 means the attack's default")
	f.Float64Var(&p.StepSize, "step-size", 0, "step size of 'pgd' and 'pgd-conf', or initial learning rate of 'ace'; 0 means the attack's default")
	f.Float64Var(&p.Momentum, "momentum", 0, "weight of the earlier gradients in each step of 'pgd', usually 0.9 or 1; 0 means no momentum")
	f.BoolVar(&p.Targeted, "targeted", false, "make 'pgd' aim at up to nine wrong classes in the order of their scores; the attack succeeds if the model answers any wrong class")
	integerVar(f, &p.Restarts, "restarts", 0, "number of starts of each attack, except 'fgsm', 'ace', 'square' and 'square-conf'; 0 means the attack's default")
	f.StringVar(&p.Out, "out", "", "new `folder` to which rscert writes the result and the adversarial inputs")
	f.BoolVar(&p.Resume, "resume", false, "continue the attack in the folder of --out; if the folder holds no attack, start one")
	integerVar(f, &p.Pictures, "pictures", 0, "write this many `pictures` to the folder of --out; each shows an example, the perturbation and the adversarial input")
	f.StringVar(&o.verify, "verify", "", "check the finished attack in this `folder` instead of running an attack")
	f.BoolVar(&o.json, "json", false, "print the result as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	group(cmd, "The attack")
	integerVar(f, &p.Bins, "bins", run.DefaultAttackBins, "number of bins in the calibration errors")
	f.StringSliceVar(&o.plots, "plot", nil, "`file` (.svg, .png or .pdf) for the reliability diagrams without the attack and under the attack")
	f.TextVar(&o.plotSize, "plot-size", picture.Size{}, "`size` of the figure of --plot in centimetres, such as 15x10")
	group(cmd, "Attacks on confidence")
	addSmoothedFlags(cmd, &o.smoothed, e)
	addDataFlags(cmd, &e.DataOptions)
	addModelFlags(cmd, e)
	// The shared usage text speaks of the noisy input, but an attack on the model adds no noise.
	f.Lookup("mean").Usage = "`values` to subtract from the input before it enters the model: one value, or one per channel"
	f.Lookup("std").Usage = "`values` by which to divide the input after --mean is subtracted: one value, or one per channel"
	integerVar(f, &e.Seed, "seed", 0, "seed of the random starts, of the random squares of the attacks 'square' and 'square-conf', and of the noise of the smoothed classifier; default: drawn by the operating system and recorded in the result")
	integerVar(f, &e.Skip, "skip", 1, "use only every `k`-th example of the dataset")
	integerVar(f, &e.Max, "max", 0, "maximum number of examples; 0 means all examples")
	choiceVar(f, &e.Select, "select", spec.First, spec.Selections, "which examples --max keeps (default: 'spread' for data sorted by class, otherwise 'first'): "+spec.Selections.Described())
	e.Shard = spec.Whole
	group(cmd, "Examples")
	var tf32 bool
	addDeviceFlags(cmd, e, &tf32)
	f.Lookup("device").Usage = "device that runs the model: " + strings.ReplaceAll(onnx.Devices(), ",…", "") + "; an attack runs on one device, and 'cuda' means the first working GPU"
	f.Lookup("noise-on").Hidden = true // an attack on the model adds no noise
	group(cmd, "How it is run")
	return func() error {
		e.FixedSeed, e.FixedSelect = given(cmd, "seed", &e.Seed), given(cmd, "select", &e.Select)
		e.ModelLayout = !cmd.Flags().Changed("layout")
		if o.box == nil {
			o.box = []float64{0, 1}
		}
		if len(o.box) != 2 {
			return badInputf("--box %v: want LOW,HIGH", o.box)
		}
		p.Method = attack.Sequence(o.methods...)
		p.Threat.Low, p.Threat.High = float32(o.box[0]), float32(o.box[1])
		if !tf32 {
			return nil
		}
		return choosePrecision(e, cmd.Flags().Changed("precision"))
	}
}

func runAttack(ctx context.Context, s streams, o attackOptions) error {
	if o.verify != "" {
		return verifyAttack(ctx, s, o)
	}
	formats, err := pictureFormats(o.plots, append(o.plan.Spec.Models(), o.plan.Spec.Data)...)
	if err != nil {
		return err
	}
	if len(formats) > 0 && !o.plan.Method.ChangesConfidence() {
		return badInputf("--plot works only with attacks on confidence, such as --attack %s or %s", attack.ACE, attack.PGDConf)
	}
	found, err := run.Attack(ctx, o.plan, s.console(o.quiet))
	if err != nil {
		return err
	}
	for _, w := range found.Warnings {
		if err := s.warnf(w.Check, "%s", w.Text); err != nil {
			return err
		}
	}
	if err := o.plot(formats, found); err != nil {
		return err
	}
	s.wrote(append([]string{o.plan.Out}, o.plots...)...)
	if o.json {
		return report.WriteJSON(s.out, "attack", found)
	}
	return writeAttack(s.out, found)
}

func writeAttack(w io.Writer, r *run.Attacked) error {
	how := string(r.Attack)
	if len(r.Stages) == 1 {
		how = describeAttack(r.Stages[0])
	}
	fmt.Fprintf(w, "%s on %s, %s ≤ %g, values in [%s, %s], seed %d\n\n", how, r.Model.File, r.Norm, r.Epsilon, r.Box[0], r.Box[1], r.Seed)
	lines := []shareLine{{"accuracy", r.Accuracy}}
	if len(r.Stages) > 1 {
		for _, stage := range r.Stages {
			lines = append(lines, shareLine{"  after " + string(stage.Attack), stage.Robust})
		}
	}
	if r.Attack != attack.ACE { // ACE changes no predicted class
		lines = append(lines, shareLine{"robust accuracy, at most", r.Robust})
	}
	writeShares(w, r.Examples, lines)
	if r.Confidences != nil {
		fmt.Fprintln(w)
		if err := tabulateConfidences(r.Confidences).WriteText(w); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\nIntervals: Clopper–Pearson, %g %%, for examples drawn like these.\n", 100*r.Level)
	return nil
}

// describeAttack returns a text with the name of an attack and its settings.
func describeAttack(s run.AttackStage) string {
	how := string(s.Attack)
	if s.Loss != "" {
		how += ", loss " + string(s.Loss)
	}
	switch s.Attack {
	case attack.FGSM:
		return how
	case attack.PGD:
		how += fmt.Sprintf(", %d steps of %.3g", s.Steps, s.StepSize)
	case attack.ACE:
		return how + fmt.Sprintf(", %d steps, learning rate %g", s.Steps, s.StepSize)
	case attack.PGDConf:
		return how + fmt.Sprintf(", %d steps of %.3g at first, random starts: %d", s.Steps, s.StepSize, s.Restarts)
	case attack.Square:
		return how + fmt.Sprintf(", %d queries", s.Steps)
	default:
		how += fmt.Sprintf(", %d steps", s.Steps)
	}
	if s.Momentum > 0 {
		how += fmt.Sprintf(", momentum %g", s.Momentum)
	}
	if s.Targets > 0 {
		how += fmt.Sprintf(", classes aimed at: %d", s.Targets)
	}
	starts := "random starts"
	if s.Attack == attack.FAB || s.Attack == attack.FABT { // their first start is the example itself, not random
		starts = "starts"
	}
	return how + fmt.Sprintf(", %s: %d", starts, s.Restarts)
}

// shareLine is a named share of all examples.
type shareLine struct {
	name string
	run.Share
}

// writeShares prints shares with their intervals.
func writeShares(w io.Writer, examples int, lines []shareLine) {
	for _, line := range lines {
		fmt.Fprintf(w, "%-25s %.4f  [%.4f, %.4f]  %d of %d\n", line.name, line.Share.Share, line.Low, line.High, line.Count, examples)
	}
}
