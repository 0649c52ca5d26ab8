package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/attack"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/spec"
)

// smoothedOptions are the flags for an attack on the smoothed classifier.
type smoothedOptions struct {
	plan run.SmoothedAttackPlan
	run  string
}

// addSmoothedFlags adds the flags for the fields of o. The noise flags set fields of the experiment e.
func addSmoothedFlags(cmd *cobra.Command, o *smoothedOptions, e *spec.Spec) {
	f, p := cmd.Flags(), &o.plan
	choiceVar(f, &p.Method, "smoothed", attack.SmoothAdv, attack.SmoothedMethods, "attack the smoothed classifier instead of the model; --smoothed without =`METHOD` means 'smoothadv'; methods: "+attack.SmoothedMethods.Described())
	f.Lookup("smoothed").NoOptDefVal = attack.SmoothAdv.String()
	f.Lookup("smoothed").DefValue = ""            // without the flag, the command attacks the model
	lawFlags(f, &e.Sigma, &e.Law, law.In(law.L2)) // the search is in L2
	choiceVar(f, &e.Noise, "noise", spec.Lattice, spec.NoiseKinds, "kind of the noise: "+spec.NoiseKinds.Described())
	f.StringVar(&o.run, "run", "", "attack the smoothed classifier of the run in this `folder`, with the model, the data and the noise of the run")
	integerVar(f, &p.Samples, "samples", attack.DefaultSmoothedSamples, "maximum number of noisy copies of the input per gradient")
	choiceVar(f, &p.Keep, "keep", attack.KeepFound, attack.Keeps, "which perturbed inputs to write to the folder of --out: "+attack.Keeps.Described())
	integerVar(f, &p.N, "n", 10_000, "number of fresh samples that determine each answer of the smoothed classifier")
	f.Float64Var(&p.Alpha, "alpha", 0.001, "for each answer and each verified perturbation, largest probability that it is wrong")
	group(cmd, "The smoothed classifier")
}

// chosen reports whether the user asked for an attack on the smoothed classifier.
func (o *smoothedOptions) chosen(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("smoothed") || o.run != ""
}

// The list 'modelOnly' holds the flags that an attack on the smoothed classifier cannot use. The list 'smoothedOnly'
// holds the flags that an attack on the model cannot use. The list 'ofRun' holds the flags that the user must not give
// with --run, because the run records their values.
var (
	modelOnly    = []string{"attack", "loss", "step-size"}
	smoothedOnly = []string{"sigma", "law", "noise", "samples", "keep", "n", "alpha"}
	ofRun        = []string{"sigma", "law", "noise", "outputs", "scores-output", "layout", "mean", "std", "precision", "resize", "crop",
		"interpolation", "label-column", "first-label", "allow-tf32", "prefer-nhwc", "conv-search"}
)

// firstGiven returns the first of the flags that the user gave, or "".
func firstGiven(cmd *cobra.Command, flags []string) string {
	for _, name := range flags {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// settle completes o.plan, the plan of the attack on the smoothed classifier. The argument 'base' is the plan of an
// attack on the model. The values that both plans share come from 'base'.
func (o *smoothedOptions) settle(cmd *cobra.Command, base run.AttackPlan) error {
	p := &o.plan
	if name := firstGiven(cmd, modelOnly); name != "" {
		return badInputf("--%s is for attacks on the model, not for --smoothed", name)
	}
	if !cmd.Flags().Changed("norm") {
		base.Threat.Norm = attack.L2
	}
	p.Threat, p.Steps, p.Out, p.Spec = base.Threat, base.Steps, base.Out, base.Spec
	p.Resume, p.Pictures = base.Resume, base.Pictures
	if cmd.Flags().Changed("restarts") {
		p.Restarts = base.Restarts
	}
	if o.run == "" {
		return nil
	}
	if name := firstGiven(cmd, ofRun); name != "" {
		return badInputf("--%s does not work with --run, because the run determines it", name)
	}
	s, r, err := run.AttackedRun(o.run, base.Spec.Models(), base.Spec.Data)
	if err != nil {
		return err
	}
	p.Run = &r
	given := base.Spec
	for name, take := range map[string]func(){
		"seed": func() { s.FixedSeed = given.FixedSeed }, "skip": func() { s.Skip = given.Skip }, "max": func() { s.Max = given.Max },
		"select": func() { s.FixedSelect = given.FixedSelect }, "device": func() { s.Device = given.Device },
		"batch": func() { s.Batch = given.Batch }, "threads": func() { s.Threads = given.Threads },
		"onnxruntime": func() { s.Library = given.Library }, "labels": func() { s.DataOptions.Labels = given.DataOptions.Labels },
		"class-names": func() { s.DataOptions.ClassNames = given.DataOptions.ClassNames },
	} {
		if cmd.Flags().Changed(name) {
			take()
		}
	}
	p.Spec = s
	return nil
}

func runSmoothedAttack(cmd *cobra.Command, s streams, o attackOptions) error {
	if err := o.smoothed.settle(cmd, o.plan); err != nil {
		return err
	}
	found, err := run.AttackSmoothed(cmd.Context(), o.smoothed.plan, s.console(o.quiet))
	if err != nil {
		return err
	}
	if o.json {
		return report.WriteJSON(s.out, "attack", found)
	}
	return writeSmoothedAttack(s.out, found)
}

func writeSmoothedAttack(w io.Writer, r *run.Attacked) error {
	n := r.Smoothed
	fmt.Fprintf(w, "%s on %s under %s %v, %d steps, starts: %d, copies: %d, l2 ≤ %g, values in [%s, %s], seed %d\n\n", r.Attack, r.Model.File,
		n.Law.Law().Words().Symbol, n.Sigma, r.Steps, r.Restarts, n.Samples, r.Epsilon, r.Box[0], r.Box[1], r.Seed)
	writeShares(w, r.Examples, []shareLine{{"smoothed accuracy", r.Accuracy}, {"robust accuracy, at most", r.Robust}})
	if p := n.Lowered; p != nil {
		fmt.Fprintf(w, "mean probability of the label under noise: %.4f, and %.4f at the inputs of worst.npz\n",
			p.Before, p.After)
	}
	fmt.Fprintf(w, "\nIntervals: Clopper–Pearson, %g %%, for examples drawn like these.\n", 100*r.Level)
	fmt.Fprintf(w, "Each answer comes from %d fresh samples. An answer, or the verification of a perturbation, is wrong with a probability of at most %g.\n", n.N, n.Alpha)
	if r.ZeroGradients > 0 {
		fmt.Fprintf(w, "The gradient was zero at %d examples: the model may hide its gradients; compare --smoothed=stein.\n", r.ZeroGradients)
	}
	if n.Abstained > 0 {
		fmt.Fprintf(w, "The smoothed classifier abstained at %d examples before the attack.\n", n.Abstained)
	}
	return nil
}

// smoothedFlags checks the flags of an attack on the model. It returns an error if the user gave a flag that has an
// effect only with --smoothed or --run.
func smoothedFlags(cmd *cobra.Command) error {
	if name := firstGiven(cmd, smoothedOnly); name != "" {
		return badInputf("--%s is for attacks on the smoothed classifier: give --smoothed or --run", name)
	}
	return nil
}
