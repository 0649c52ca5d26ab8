package graph

import (
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// This file derives two scores from the single number of a binary classifier.

// SplitLone appends nodes that turn one number into two scores: the logits [0, z], or the probabilities [1−p, p]. The
// nodes multiply by constants and add constants, in float32. For a logit z, the nodes compute 0·z + 0 and 1·z + 0. For
// a probability p, the nodes compute −p + 1 and p + 0. The rounding of 1−p to float32 does not change which score is
// larger. If p > ½, the computed 1−p is exact, so it is below p. If p < ½, the computed 1−p is at least ½, so it is
// above p. If the scores are equal, the class is 0. An infinite logit gives a NaN score, and a sample with a NaN score
// has no class.
func SplitLone(g *onnxpb.GraphProto, output string, kind OutputKind) (scores string) {
	e := newEditor(g)
	slope, offset := []float32{0, 1}, []float32{0, 0}
	if kind == Probabilities {
		slope, offset = []float32{-1, 1}, []float32{1, 0}
	}
	float, column, product, scores := e.unused("float"), e.unused("column"), e.unused("product"), e.unused("scores")
	nodes := []*onnxpb.NodeProto{
		castNode(output, float, Float32),
		Node("Reshape", []string{float, e.Ints(-1, 1)}, column),
		Node("Mul", []string{column, e.Floats(nil, slope...)}, product),
		Node("Add", []string{product, e.Floats(nil, offset...)}, scores),
	}
	e.finish()
	g.Node = append(g.Node, nodes...)
	for k, v := range g.Output {
		if v.GetName() != output {
			continue
		}
		dims := v.GetType().GetTensorType().GetShape().GetDim()
		g.Output[k] = FloatTensor(scores, []int64{1, 2})
		first := g.Output[k].GetType().GetTensorType().GetShape().Dim[0]
		if first.Value = nil; len(dims) > 0 {
			first.Value = dims[0].Value
		}
	}
	return scores
}
