package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/attack"
	"github.com/rscert/rscert/internal/graph/grad"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/spec"
)

// attackOptions are the flags of attack beside those of the experiment.
type attackOptions struct {
	plan        run.AttackPlan
	smoothed    smoothedOptions
	box         []float64
	json, quiet bool
}

func newAttack(s streams) *cobra.Command {
	var o attackOptions
	var settle func() error
	cmd := &cobra.Command{
		Use:   "attack --model MODEL --data DATA --norm linf|l2 --eps E",
		Short: "Attack a classifier: find small perturbations that it gets wrong",
		Long: `Attack looks for perturbed inputs x' with ‖x'−x‖ ≤ E that the model gets wrong, and
prints its accuracy under attack. That is an upper bound on robust accuracy: another
attack may break more. It attacks the model itself or, with --smoothed or --run, the
smoothed classifier, in the norm l2 and on the lattice of the data (docs/attacks.md).

The perturbation is in the units of the data, before --mean and --std, and every value
stays in --box. The bound holds exactly for the stored float32 numbers, and the model
itself confirms every success. Results do not depend on --batch or --threads.

The methods:
` + attackList() + `
fgsm and pgd need the model's gradients, which rscert writes as an ONNX graph. Where an
operator has no gradient the error names it; square works on every model. Attacks by
gradients can fail on a model that hides its gradients: compare them with square.

--out makes a folder: attack.json, with the parameters and the result of each example,
and adversarial.npz, with the inputs found (x) and their labels (y), in the order of
attack.json. 'rscert attack --data adversarial.npz' reads it as a dataset.`,
		Example: `  rscert attack --model cnn.onnx --data mnist/ --norm linf --eps 0.1 --out attack
  rscert attack --model cnn.onnx --data mnist/ --norm l2 --eps 1 --steps 100 --restarts 5 --loss margin
  rscert attack --model cnn.onnx --data mnist/ --norm linf --eps 0.1 --attack fgsm --max 100 --json
  rscert attack --model forest.onnx --data table.csv --norm linf --eps 0.2 --box=-inf,inf --attack square
  rscert attack --model cnn.onnx --data mnist/ --smoothed --sigma 0.5 --eps 2 --max 20
  rscert attack --run run --eps 2 --smoothed=stein --max 20`,
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

// attackList lists the attacks, one a line.
func attackList() string {
	var list strings.Builder
	for _, m := range attack.Methods.Values() {
		fmt.Fprintf(&list, "  %-8s %s\n", m, attack.Methods.What(m))
	}
	return list.String()
}

// addAttackFlags adds the flags; the command calls settle once they are parsed.
func addAttackFlags(cmd *cobra.Command, o *attackOptions) (settle func() error) {
	f, p := cmd.Flags(), &o.plan
	e := &p.Spec
	f.SortFlags = false
	f.StringVar(&e.Model, "model", "", "ONNX `file` of the classifier")
	f.StringVar(&e.Data, "data", "", "`path` of the dataset, as for 'rscert certify'; see docs/my-data.md")
	choiceVar(f, &p.Threat.Norm, "norm", attack.Linf, attack.Norms, "norm of the perturbation: "+attack.Norms.String())
	f.Float64Var(&p.Threat.Epsilon, "eps", 0, "largest norm `E` of a perturbation, in the units of the data")
	f.Float64SliceVar(&o.box, "box", nil, "range `LOW,HIGH` of the data's values; without limits: --box=-inf,inf; default: 0,1")
	choiceVar(f, &p.Method, "attack", attack.PGD, attack.Methods, attack.Methods.Described())
	choiceVar(f, &p.Loss, "loss", grad.CrossEntropy, grad.Losses, "what fgsm and pgd make large: "+grad.Losses.Described())
	integerVar(f, &p.Steps, "steps", 0, "steps of pgd, or queries of square; 0 = 40 steps, 1000 queries")
	f.Float64Var(&p.StepSize, "step-size", 0, "length of a step of pgd; 0 = 2.5·eps/steps")
	integerVar(f, &p.Restarts, "restarts", 1, "random starts of pgd")
	f.StringVar(&p.Out, "out", "", "new `folder` for the result and the adversarial inputs")
	f.BoolVar(&o.json, "json", false, "print the result as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	group(cmd, "The attack")
	addSmoothedFlags(cmd, &o.smoothed, e)
	addDataFlags(cmd, &e.DataOptions)
	addModelFlags(cmd, e)
	integerVar(f, &e.Seed, "seed", 0, "seed of the random starts and squares, to repeat an attack; default: drawn from the system and recorded")
	integerVar(f, &e.Skip, "skip", 1, "take every `k`-th example of the dataset")
	integerVar(f, &e.Max, "max", 0, "take at most this many examples; 0 = all")
	choiceVar(f, &e.Select, "select", spec.First, spec.Selections, "which examples --max takes: first, or spread over all examples; if not given, spread for data that are sorted by class")
	e.Shard = spec.Whole
	group(cmd, "Examples")
	var tf32 bool
	addDeviceFlags(cmd, e, &tf32)
	f.Lookup("noise-on").Hidden = true // there is no noise
	group(cmd, "How it is run")
	return func() error {
		e.FixedSeed, e.FixedSelect = given(cmd, "seed", &e.Seed), given(cmd, "select", &e.Select)
		if o.box == nil {
			o.box = []float64{0, 1}
		}
		if len(o.box) != 2 {
			return badInputf("--box %v: want LOW,HIGH", o.box)
		}
		p.Threat.Low, p.Threat.High = float32(o.box[0]), float32(o.box[1])
		if !tf32 {
			return nil
		}
		return choosePrecision(e, cmd.Flags().Changed("precision"))
	}
}

func runAttack(ctx context.Context, s streams, o attackOptions) error {
	found, err := run.Attack(ctx, o.plan, s.console(o.quiet))
	if err != nil {
		return err
	}
	if o.json {
		return report.WriteJSON(s.out, "attack", found)
	}
	return writeAttack(s.out, found)
}

func writeAttack(w io.Writer, r *run.Attacked) error {
	how := fmt.Sprintf("%s, %d steps", r.Attack, r.Steps)
	switch r.Attack {
	case attack.FGSM:
		how = fmt.Sprintf("%s, loss %s", r.Attack, r.Loss)
	case attack.PGD:
		how = fmt.Sprintf("%s, loss %s, %d steps of %.3g, random starts: %d", r.Attack, r.Loss, r.Steps, r.StepSize, r.Restarts)
	case attack.Square:
		how = fmt.Sprintf("%s, %d queries", r.Attack, r.Steps)
	}
	fmt.Fprintf(w, "%s on %s, %s ≤ %g, values in [%s, %s], seed %d\n\n", how, r.Model.File, r.Norm, r.Epsilon, r.Box[0], r.Box[1], r.Seed)
	writeShares(w, r, "accuracy")
	fmt.Fprintf(w, "\nIntervals: Clopper–Pearson, %g %%, for examples drawn like these.\n", 100*r.Level)
	if r.ZeroGradients > 0 {
		fmt.Fprintf(w, "The gradient was zero at %d examples: the model may hide its gradients; compare --attack square.\n", r.ZeroGradients)
	}
	return nil
}

// writeShares prints the accuracies before and after an attack.
func writeShares(w io.Writer, r *run.Attacked, before string) {
	for _, line := range []struct {
		name string
		run.Share
	}{{before, r.Accuracy}, {"robust accuracy, at most", r.Robust}} {
		fmt.Fprintf(w, "%-25s %.4f  [%.4f, %.4f]  %d of %d\n", line.name, line.Share.Share, line.Low, line.High, line.Count, r.Examples)
	}
}
