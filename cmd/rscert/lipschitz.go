package main

import (
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/lipschitz"
	"github.com/rscert/rscert/internal/report"
)

// lipschitzOptions are the flags of lipschitz.
type lipschitzOptions struct {
	output      string
	outputs     graph.OutputKind
	shape       []int64
	std         []float64
	temperature float64
	json        bool
}

func newLipschitz(s streams) *cobra.Command {
	var o lipschitzOptions
	cmd := &cobra.Command{
		Use:   "lipschitz MODEL.onnx",
		Short: "Bound the Lipschitz constant of a model from its weights",
		Long: `This command computes an upper bound L on the Lipschitz constant of a model: if two
inputs have L2 distance r, their outputs have L2 distance at most L·r. The flag
--lipschitz of 'rscert radius' and 'rscert certify' takes the constant of the class
probabilities. If the model's outputs are logits, the command prints this constant too.
You can use the flag --lipschitz only together with '--margin first'.

The bound is the product of the bounds of the layers. For a matrix or a convolution, the
command bounds the norm by repeated squaring of the Gram matrix (Delattre et al. 2023).
It rounds all results up. Where a layer adds two values, as in a residual connection,
the command adds their bounds. A softmax has the Lipschitz constant 1/2. So with a
temperature T, the constant of the probabilities is the constant of the logits divided
by 2T. The command refuses an operator for which it knows no bound, and names the node.

The bound holds for a model that computes with real numbers. It does not include the
rounding errors of the model's own arithmetic. The bound also holds for the mean scores
of a smoothed classifier (certify --scores). It does not hold for vote shares, because a
vote jumps where two scores are equal.

Give the same --std as for 'rscert certify'. The data are divided by these numbers
before they enter the model, and this changes the constant.

The bound is often far above the true constant. It assumes that every layer stretches a
change of its input by the largest factor that is possible for this layer. Usually no
change of the input is stretched that much by all layers.

For any model, the noise alone gives the smoothed classifier the Lipschitz constant
1/(σ√π). So only an L below 1/(σ√π) makes certificates better.`,
		Example: `  rscert lipschitz model.onnx
  rscert lipschitz model.onnx --shape 1,3,32,32 --std 0.2,0.2,0.2 --temperature 2 --json`,
		Args: oneFile,
		RunE: func(_ *cobra.Command, args []string) error { return runLipschitz(s, args[0], o) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.output, "output", "", "`name` of the model's output; default: the only output")
	choiceVar(f, &o.outputs, "outputs", graph.OutputsAuto, graph.OutputKinds, "`kind` of the model's outputs: "+graph.OutputKinds.Described())
	f.Int64SliceVar(&o.shape, "shape", nil, "`sizes` of the model's input, if the model leaves them open, such as 1,3,32,32")
	f.Float64SliceVar(&o.std, "std", nil, "`numbers` by which the data are divided before they enter the model")
	f.Float64Var(&o.temperature, "temperature", 1, "`number` by which the logits are divided before the softmax")
	f.BoolVar(&o.json, "json", false, "print the result as one JSON document")
	return cmd
}

func (o lipschitzOptions) check() error {
	if !(o.temperature > 0) || math.IsInf(o.temperature, 0) {
		return badInputf("--temperature %v: want a positive number", o.temperature)
	}
	for _, x := range o.std {
		if !(x > 0) || math.IsInf(x, 0) {
			return badInputf("--std %v: want positive numbers", x)
		}
	}
	for _, n := range o.shape {
		if n < 1 {
			return badInputf("--shape %d: want positive sizes", n)
		}
	}
	return nil
}

// lipschitzReport is what lipschitz --json prints.
type lipschitzReport struct {
	Model       string           `json:"model"`
	SHA256      string           `json:"model_sha256"`
	Output      string           `json:"output"`
	Outputs     graph.OutputKind `json:"outputs"`
	Input       float64          `json:"input_scale"` // the largest 1/std; 1 without --std
	Temperature float64          `json:"temperature"`
	// Bound is an upper bound on the Lipschitz constant of the output. Probabilities is an upper bound on the Lipschitz
	// constant of the class probabilities. Both are in the units of the data.
	Bound         float64           `json:"bound"`
	Probabilities float64           `json:"probabilities"`
	Layers        []lipschitz.Layer `json:"layers"`
}

func runLipschitz(s streams, path string, o lipschitzOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	file, err := graph.ReadModel(path)
	if err != nil {
		return badInput(err)
	}
	m, err := lipschitz.Of(file, o.output, o.shape)
	if err != nil {
		return badInput(fmt.Errorf("%s: %w", displayPath(path), err))
	}
	r := lipschitzReport{Model: path, SHA256: file.SHA256(), Output: m.Output, Outputs: o.outputs, Input: 1,
		Temperature: o.temperature, Layers: m.Layers}
	if r.Outputs == graph.OutputsAuto {
		r.Outputs = m.Kind
	}
	for k, x := range o.std {
		if k == 0 || 1/x > r.Input {
			r.Input = 1 / x
		}
	}
	r.Bound = m.Bound * r.Input * lipschitz.Up
	switch r.Outputs {
	case graph.Logits:
		r.Probabilities = r.Bound / 2 / o.temperature * lipschitz.Up
	case graph.Probabilities:
		if r.Probabilities = r.Bound; o.temperature != 1 {
			return badInputf("%s: --temperature needs logits, and the output holds probabilities", displayPath(path))
		}
	default:
		return hint.Add(badInputf("%s: the last operator does not say whether the output holds logits or probabilities", displayPath(path)),
			"--outputs says so")
	}
	if o.json {
		return report.WriteJSON(s.out, "lipschitz", r)
	}
	return r.print(s.out)
}

func (r lipschitzReport) print(w io.Writer) error {
	t := report.Table{Columns: []report.Column{report.TextColumn("node"), report.TextColumn("operator"),
		report.RoundedColumn("factor", report.Up, 4), report.RoundedColumn("bound", report.Up, 4)}}
	for _, l := range r.Layers {
		t.AddRow(report.Text(l.Name), report.Text(l.Op), report.Number(l.Factor), report.Number(l.Bound))
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	if r.Input != 1 {
		fmt.Fprintf(w, "\nThe division by --std multiplies the constant by at most %s.\n", report.Round(r.Input, report.Up, 0, 4))
	}
	fmt.Fprintf(w, "\nLipschitz constant of the %s, from L2 to L2: at most %s.\n", r.Outputs, report.Round(r.Bound, report.Up, 0, 4))
	if r.Outputs == graph.Logits {
		fmt.Fprintf(w, "Lipschitz constant of the probabilities (softmax at temperature %g): at most %s.\n", r.Temperature,
			report.Round(r.Probabilities, report.Up, 0, 4))
	}
	_, err := fmt.Fprintln(w, "The bound holds for the model in real numbers, and for mean scores under noise, not for vote shares.")
	return err
}
