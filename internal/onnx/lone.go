package onnx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/onnx/onnxpb"
)

// This file gives binary classifiers of one number a sample two scores.

// loneKind tells what a model's one number is: a logit z or the probability p of
// class 1. A wrong guess would put the border between the classes at z = ½ or
// p = 0, so what is not plain has to be told.
func (l *loader) loneKind(opt LoadOptions, numbers []float32) (OutputKind, error) {
	low, high, finite := rangeOf(numbers)
	within := finite && low >= 0 && high <= 1
	from := producer(l.model.Graph, l.contract.output.Name, "Gather", "Slice") // z[:, 0]
	switch opt.Outputs {
	case Probabilities:
		if !within {
			return 0, hint.New(fmt.Sprintf("the model's one output is no probability: on random inputs it is %g to %g", low, high),
				"use --outputs logits, or export the model with its sigmoid")
		}
		return Probabilities, nil
	case Logits:
		if from == "Sigmoid" {
			l.warn("the model ends in Sigmoid, but its output is taken for a logit, as told")
		}
		return Logits, nil
	}
	switch {
	case from == "Sigmoid" && within:
		return Probabilities, nil
	case strings.HasSuffix(from, "Regressor"): // may be one of labels 0 and 1
	case !within && finite && (low < 0 || slices.Contains(unbounded, from)):
		return Logits, nil
	}
	return 0, hint.New(fmt.Sprintf("model output '%s' is one number for each sample, from %s, and on random inputs it is %g to %g: "+
		"the logit of the second of two classes, its probability, or no classifier's", printable(l.contract.output.Name), from, low, high),
		"say so with --outputs logits (class 1 above 0) or --outputs probabilities (class 1 above ½)")
}

// rangeOf is the range of the finite numbers, and whether there are any.
func rangeOf(numbers []float32) (low, high float32, finite bool) {
	for _, v := range numbers {
		if v-v != 0 {
			continue
		}
		if !finite {
			low, high, finite = v, v, true
		}
		low, high = min(low, v), max(high, v)
	}
	return low, high, finite
}

// splitLone appends to the graph what makes two scores of one number: the logits
// [0, z], or the probabilities [1−p, p]. One multiplication by constants and one
// sum, in float32: 0·z + 0 and 1·z + 0, −p + 1 and p + 0. Rounding keeps the
// order of 1−p and p, and no difference of p and ½ is lost: 1−p is exact for
// p ≥ ½, and not below ½ for p < ½. Equal scores are class 0. Infinite logits
// give NaN, which is no class.
func splitLone(g *onnxpb.GraphProto, output string, kind OutputKind) (scores string) {
	e := newEditor(g)
	slope, offset := []float32{0, 1}, []float32{0, 0}
	if kind == Probabilities {
		slope, offset = []float32{-1, 1}, []float32{1, 0}
	}
	float, column, product, scores := e.name("float"), e.name("column"), e.name("product"), e.name("scores")
	nodes := []*onnxpb.NodeProto{
		castNode(output, float, Float32),
		node("Reshape", []string{float, e.intsConstant([]int64{-1, 1})}, column),
		node("Mul", []string{column, e.float32Constant(slope...)}, product),
		node("Add", []string{product, e.float32Constant(offset...)}, scores),
	}
	e.finish()
	g.Node = append(g.Node, nodes...)
	for k, v := range g.Output {
		if v.GetName() != output {
			continue
		}
		dims := v.GetType().GetTensorType().GetShape().GetDim()
		g.Output[k] = floats(scores, []int64{1, 2})
		first := g.Output[k].GetType().GetTensorType().GetShape().Dim[0]
		if first.Value = nil; len(dims) > 0 {
			first.Value = dims[0].Value
		}
	}
	return scores
}

// makeTwo makes the model, of one number a sample, one of two scores.
func (l *loader) makeTwo(opt LoadOptions, original *session, native int, pool [][]float32) error {
	var numbers []float32
	for _, x := range pool {
		row, err := l.alone(original, native, x)
		if err != nil {
			return fmt.Errorf("the model fails on a random input: %w", err)
		}
		numbers = append(numbers, row...)
	}
	kind, err := l.loneKind(opt, numbers)
	if err != nil {
		return err
	}
	name := printable(l.contract.output.Name)
	l.contract.output.Name = splitLone(l.model.Graph, l.contract.output.Name, kind)
	l.contract.output.Type = Float32
	l.lone, l.tried = kind, false
	l.closeSessions()
	said := "one logit z: classes 0 and 1 have the logits 0 and z"
	if kind == Probabilities {
		said = "one probability p: classes 0 and 1 have 1−p and p"
	}
	l.adapted.change("output '%s' is %s", name, said)
	l.adapted.note("%s", said)
	return nil
}

func (a *adapted) note(format string, args ...any) {
	a.notes = append(a.notes, fmt.Sprintf(format, args...))
}
