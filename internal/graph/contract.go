package graph

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/quote"
)

// NoBatch marks an input without a batch dimension. FreeSize marks a batch dimension of any size.
const (
	NoBatch  = 0
	FreeSize = -1
)

// Contract describes the input and the scores that a model's file declares.
type Contract struct {
	Input, Output TensorInfo
	Batch         int   // size of the batch dimension, or NoBatch, or FreeSize
	Sample        []Dim // dimensions of the input without the batch dimension
}

// readContract finds the model's one input and the output with the scores.
func readContract(info *Info, output string) (Contract, error) {
	var c Contract
	for _, t := range info.Inputs {
		if t.Type == String {
			return c, hint.New(fmt.Sprintf("model input '%s' takes texts, and noise cannot be added to them", quote.Name(t.Name)),
				"export only the part of the model that comes behind their encoding and takes numbers")
		}
	}
	if len(info.Inputs) != 1 {
		return c, hint.New(fmt.Sprintf("the model has %d inputs, want one: %s", len(info.Inputs), List(info.Inputs)),
			"export the model with all inputs but one fixed inside the graph")
	}
	c.Input = info.Inputs[0]
	switch {
	case c.Input.Kind != "tensor":
		return c, fmt.Errorf("model input '%s' is a %s, want a tensor", quote.Name(c.Input.Name), c.Input.Kind)
	case !c.Input.Type.feedable():
		return c, hint.New(fmt.Sprintf("model input '%s' is of type %s, want floats or integers", quote.Name(c.Input.Name), c.Input.Type),
			"export the model with an input of numbers: noise cannot be added to anything else")
	case c.Input.Unknown || len(c.Input.Shape) == 0:
		return c, fmt.Errorf("model input '%s' declares no shape", quote.Name(c.Input.Name))
	}
	var err error
	if c.Output, err = chooseOutput(info.Outputs, output); err != nil {
		return c, err
	}
	c.Batch = batchSize(c.Input, c.Output)
	c.Sample = c.Input.Shape
	if c.Batch != NoBatch {
		c.Sample = c.Sample[1:]
	}
	return c, nil
}

// batchSize returns the value of Contract.Batch. An input of one dimension has no batch dimension. In any other input,
// the first dimension is the batch dimension if its size is free. Suppose that this size is fixed at n. If the output
// has two or more dimensions, and its first size is n or free, n is the batch size. If the output's shape is unknown, n
// counts as the batch size in two cases: n is 1, or the input has four dimensions. If n is 1 and the output's shape is
// [1], the batch size is 1. In all other cases the input has no batch dimension.
func batchSize(input, output TensorInfo) int {
	first, rank := input.Shape[0], len(input.Shape)
	switch {
	case rank == 1:
		return NoBatch
	case first.Size < 0:
		return FreeSize
	case output.Unknown:
		if first.Size == 1 || rank == 4 {
			return first.Size
		}
		return NoBatch
	case first.Size == 1 && len(output.Shape) == 1 && output.Shape[0].Size == 1:
		return 1 // the input is a batch of one sample, and the output is one number
	case len(output.Shape) >= 2 && (output.Shape[0].Size == first.Size || output.Shape[0].Size < 0):
		return first.Size
	}
	return NoBatch
}

// chooseOutput returns the named output. If the argument 'name' is empty, it returns the only output that can hold
// class scores. If several outputs can hold scores, chooseOutput leaves out the outputs that hold one number per
// sample, and takes the output that remains. This works only if exactly one output remains.
func chooseOutput(outputs []TensorInfo, name string) (TensorInfo, error) {
	var candidates []TensorInfo
	for _, o := range outputs {
		if o.Name == name || name == "" && scoresLike(o) {
			candidates = append(candidates, o)
		}
	}
	if len(candidates) > 1 { // leave out outputs of one number per sample, such as a loss
		if more := slices.DeleteFunc(slices.Clone(candidates), lone); len(more) == 1 {
			candidates = more
		}
	}
	switch {
	case name != "" && len(candidates) == 0:
		return TensorInfo{}, fmt.Errorf("the model has no output '%s'; it has %s", quote.Name(name), List(outputs))
	case len(candidates) == 0:
		return TensorInfo{}, hint.New("no output of the model looks like scores [N,m] of m classes: "+List(outputs), scoresHint(outputs))
	case len(candidates) > 1:
		return TensorInfo{}, hint.Add(errors.New("several outputs of the model look like scores [N,m]: "+List(outputs)),
			"name the one with the scores: %s NAME", param.ScoresOutput)
	}
	o := candidates[0]
	if o.Kind != "tensor" || !o.Type.IsFloat() {
		return o, fmt.Errorf("model output %s cannot hold scores, want a tensor of float32, float64 or float16", o)
	}
	return o, nil
}

// scoresHint returns advice on how to export scores from a model with the given outputs.
func scoresHint(outputs []TensorInfo) string {
	for _, o := range outputs {
		switch {
		case o.Kind == "sequence" || o.Kind == "map":
			return "export the scores as one float tensor (of scikit-learn models: with the option zipmap=False)"
		case o.Type.IsFloat() && len(o.Shape) >= 3:
			return "a model with scores for every pixel or token is no classifier of the whole input: export it with one row of scores a sample"
		}
	}
	return "export the scores of the classes, or their probabilities, as an output of floats"
}

// maxListed is the largest number of inputs or outputs that an error lists.
const maxListed = 8

// List returns the texts of the things, separated by commas. After maxListed things, List writes "…" in place of the
// rest.
func List[T fmt.Stringer](things []T) string {
	var names []string
	for i, t := range things {
		if i == maxListed {
			names = append(names, "…")
			break
		}
		names = append(names, t.String())
	}
	return strings.Join(names, ", ")
}

// scoresLike reports whether the output can hold class scores: a float tensor with one vector per sample.
func scoresLike(o TensorInfo) bool {
	if o.Kind != "tensor" || !o.Type.IsFloat() {
		return false
	}
	return o.Unknown || len(o.Shape) >= 1 && len(WithoutOnes(rowOf(o))) <= 1
}

// The function 'lone' reports whether the output holds one number per sample, according to the model's file.
func lone(o TensorInfo) bool {
	return !o.Unknown && (len(o.Shape) == 1 && o.Shape[0].Size < 0 || len(WithoutOnes(rowOf(o))) == 0)
}

// rowOf returns the output's sizes for one sample, with −1 for each free size.
func rowOf(o TensorInfo) []int {
	dims := o.Shape
	if len(dims) >= 2 {
		dims = dims[1:]
	}
	sizes := make([]int, len(dims))
	for i, d := range dims {
		sizes[i] = d.Size
	}
	return sizes
}

// Mismatch returns the error for an example that does not fit the input. The error shows both shapes.
func (c Contract) Mismatch(example []int) error {
	err := fmt.Errorf("model input '%s' wants %s, data has %s", quote.Name(c.Input.Name), c.Input.shape(), shapeString(example))
	sizes := SizesOf(c.Sample)
	if len(sizes) != 3 || len(example) < 2 {
		return err
	}
	h, w := sizes[1], sizes[2]
	if layoutOf(sizes) == HWC {
		h, w = sizes[0], sizes[1]
	}
	if Product(example)%(h*w) == 0 {
		return err
	}
	return hint.Add(err, "%s %dx%d resizes images of bytes to the model's input; take the size and the crop of the model's training (%s, %s)", param.Resize, h, w, param.Resize, param.Crop)
}
