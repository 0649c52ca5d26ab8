package onnx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/warning"
)

// This file turns the single number of a binary classifier into two scores.

// loneKind infers whether a model's single number is a logit z or the probability p of class 1. If a logit were taken
// for a probability, the border between the classes would be at z = ½. If a probability were taken for a logit, the
// border would be at p = 0. So if the kind is unclear, the user must state it.
func (l *loader) loneKind(opt LoadOptions, numbers []float32) (graph.OutputKind, error) {
	low, high, finite := rangeOf(numbers)
	within := finite && low >= 0 && high <= 1
	// A model may get its single number by indexing, as in z[:, 0]. So Producer goes back past Gather and Slice.
	from := graph.Producer(l.model.Graph, l.contract.Output.Name, "Gather", "Slice")
	switch opt.Outputs {
	case graph.Probabilities:
		if !within {
			return 0, hint.Add(fmt.Errorf("the model's one output is no probability: on random inputs it is %g to %g", low, high),
				"use %s logits, or export the model with its sigmoid", param.Outputs)
		}
		return graph.Probabilities, nil
	case graph.Logits:
		if from == "Sigmoid" {
			l.warn(warning.ModelOutputs, "the model ends in Sigmoid, but its output is taken for a logit, as told")
		}
		return graph.Logits, nil
	}
	switch {
	case from == "Sigmoid" && within:
		return graph.Probabilities, nil
	case strings.HasSuffix(from, "Regressor"): // unclear, because regressors may return the labels 0 and 1
	case !within && finite && (low < 0 || slices.Contains(graph.Unbounded, from)):
		return graph.Logits, nil
	}
	return 0, hint.Add(fmt.Errorf("model output '%s' is one number for each sample, from %s, and on random inputs it is %g to %g: "+
		"this can be the logit of the second of two classes, or its probability, or the output of a model that is no classifier", quote.Name(l.contract.Output.Name), from, low, high),
		"say so with %s logits (class 1 above 0) or %s probabilities (class 1 above ½)", param.Outputs, param.Outputs)
}

// rangeOf returns the range of the finite numbers. The result 'finite' reports whether any number is finite.
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

// makeTwo turns a model with one number per sample into a model with two scores.
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
	name := quote.Name(l.contract.Output.Name)
	l.contract.Output.Name = graph.SplitLone(l.model.Graph, l.contract.Output.Name, kind)
	l.contract.Output.Type = graph.Float32
	l.lone, l.single, l.tried = kind, true, false
	l.closeSessions()
	said := "one logit z: classes 0 and 1 have the logits 0 and z"
	if kind == graph.Probabilities {
		said = "one probability p: classes 0 and 1 have 1−p and p"
	}
	l.adapted.Change("output '%s' is %s", name, said)
	l.adapted.Note("%s", said)
	return nil
}
