package graph

import (
	"fmt"
	"math"
	"slices"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/quote"
)

// OutputKind says what a classifier's outputs are.
type OutputKind int

const (
	OutputsAuto   OutputKind = iota // to be told from the model; or not known
	Logits                          // the softmax of the outputs is the confidence
	Probabilities                   // the outputs are the confidence
)

// OutputKinds are all there are.
var OutputKinds = choice.Of("outputs", OutputsAuto, Logits, Probabilities)

func (k OutputKind) String() string {
	return [...]string{"auto", "logits", "probabilities"}[k]
}

// Nodes that change the shape or type of the scores but not what they are.
var passThrough = []string{"Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout", "Transpose"}

// Nodes whose results take any real value, so that a classifier that ends in
// one was exported without a softmax. LogSoftmax is among them: the softmax of
// log probabilities is the probabilities.
var Unbounded = []string{"Gemm", "MatMul", "Add", "Sub", "Conv", "LogSoftmax", "BatchNormalization", "LayerNormalization",
	"GlobalAveragePool", "ReduceMean", "AveragePool", "MatMulNBits", "FusedGemm", "DequantizeLinear"}

// classifiers are the operators of scikit-learn's classifiers that give the
// probabilities of all classes, unless they give scores that are none.
var classifiers = []string{"LinearClassifier", "TreeEnsembleClassifier", "SVMClassifier", "Normalizer"}

// TellOutputs tells what the model's scores are: by the node they come from,
// confirmed by the scores of random samples (rows of m values). It returns
// OutputsAuto, and why, where the two do not settle it.
func TellOutputs(g *onnxpb.GraphProto, output string, scores []float32, m int) (OutputKind, string) {
	node := Producer(g, output)
	softmax := node == "Softmax"
	negative, sumsToOne, rows := RowsLookLike(scores, m)
	switch distribution := sumsToOne && !negative; {
	case rows == 0 && softmax:
		return Probabilities, ""
	case rows == 0 && slices.Contains(Unbounded, node):
		return Logits, ""
	case rows == 0:
		return OutputsAuto, fmt.Sprintf("the outputs come from %s and are NaN for all random inputs", node)
	case distribution && (softmax || slices.Contains(classifiers, node)):
		return Probabilities, ""
	case softmax:
		return OutputsAuto, "the model ends in Softmax, but not over its classes"
	case slices.Contains(Unbounded, node) && !distribution:
		return Logits, ""
	case negative:
		return Logits, "" // whatever computed them, they are no probabilities
	case distribution:
		return OutputsAuto, fmt.Sprintf("the outputs look like probabilities, but come from %s", node)
	default:
		return OutputsAuto, fmt.Sprintf("the outputs come from %s, are never negative and do not sum to 1", node)
	}
}

// rowSumSlack is how far the sum of a row of probabilities may be from 1: the
// rounding of float16 probabilities (2⁻¹¹ each, relative) with room to spare.
const rowSumSlack = 4e-3

// RowsLookLike reports whether any score is negative and whether every row of
// m sums to 1, of the rows that it counts: those without NaN, which say nothing
// of the others. −∞, the logit of a masked class, is negative.
func RowsLookLike(scores []float32, m int) (negative, sumsToOne bool, rows int) {
	sumsToOne = true
	for row := range slices.Chunk(scores, m) {
		if slices.ContainsFunc(row, func(s float32) bool { return s != s }) {
			continue
		}
		rows++
		var sum float64
		for _, s := range row {
			negative = negative || s < 0
			sum += float64(s)
		}
		if !(math.Abs(sum-1) <= rowSumSlack) {
			sumsToOne = false
		}
	}
	return negative, sumsToOne, rows
}

// Producer is the operator that computes the value, looking through those that
// only reshape or convert it, and through those in more.
func Producer(g *onnxpb.GraphProto, value string, more ...string) string {
	byOutput := make(map[string]*onnxpb.NodeProto)
	for _, n := range g.Node {
		for _, o := range n.Output {
			byOutput[o] = n
		}
	}
	for range len(g.Node) { // bounded: a damaged graph may have cycles
		n := byOutput[value]
		if n == nil {
			break
		}
		if op := n.GetOpType(); !slices.Contains(passThrough, op) && !slices.Contains(more, op) || len(n.Input) == 0 {
			return quote.Name(n.GetOpType())
		}
		value = n.Input[0]
	}
	return "the input itself"
}
