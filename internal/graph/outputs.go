package graph

import (
	"fmt"
	"math"
	"slices"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/quote"
)

// OutputKind says whether a classifier outputs logits or probabilities.
type OutputKind int

// These are the kinds of outputs. Users may state the kind.
const (
	OutputsAuto   OutputKind = iota // in options: rscert derives the kind from the model; in results: unknown kind
	Logits                          // the softmax of the outputs is the confidence
	Probabilities                   // each output is the confidence of its class
)

// OutputKinds lists all kinds of outputs.
var OutputKinds = choice.Of("outputs", OutputsAuto, Logits, Probabilities).Describe(func(k OutputKind) string {
	return [...]string{OutputsAuto: "rscert inspects the model", Logits: "", Probabilities: ""}[k]
})

func (k OutputKind) String() string {
	return [...]string{"auto", "logits", "probabilities"}[k]
}

// passThrough lists operators that change the shape or type of the scores but not their meaning.
var passThrough = []string{"Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout", "Transpose"}

// Unbounded lists operators whose results can be any real numbers. A classifier that ends in such an operator was
// usually exported without a softmax, so its outputs are probably logits. LogSoftmax is in the list because the softmax
// of log probabilities gives the probabilities.
var Unbounded = []string{"Gemm", "MatMul", "Add", "Sub", "Conv", "LogSoftmax", "BatchNormalization", "LayerNormalization",
	"GlobalAveragePool", "ReduceMean", "AveragePool", "MatMulNBits", "FusedGemm", "DequantizeLinear"}

// The list 'classifiers' holds operators of scikit-learn's classifiers. These operators usually output the
// probabilities of all classes, but some nodes output other scores.
var classifiers = []string{"LinearClassifier", "TreeEnsembleClassifier", "SVMClassifier", "Normalizer"}

// TellOutputs derives the kind of the model's scores from the node that computes them and from the argument 'scores'.
// This argument holds the model's scores for random samples, in rows of m values. If the node and the scores do not
// settle the kind, TellOutputs returns OutputsAuto and the reason.
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
		return Logits, "" // negative scores are not probabilities, whichever node computed them
	case distribution:
		return OutputsAuto, fmt.Sprintf("the outputs look like probabilities, but come from %s", node)
	default:
		return OutputsAuto, fmt.Sprintf("the outputs come from %s, are never negative and do not sum to 1", node)
	}
}

// rowSumSlack is the largest accepted distance between 1 and the sum of a row of probabilities. It exceeds the error
// that rounding to float16 causes in this sum: each probability then has a relative rounding error of at most 2⁻¹¹.
const rowSumSlack = 4e-3

// RowsLookLike reports whether any score is negative and whether every row of m scores sums to 1. It also returns the
// number of rows that it examined. It skips rows with NaN, because the sum of such a row is NaN. A score of −∞ counts
// as negative. Some models give masked classes the logit −∞.
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

// Producer returns the operator that computes the value. It goes back past operators that only reshape or convert the
// value, and past the operators in the argument 'more'.
func Producer(g *onnxpb.GraphProto, value string, more ...string) string {
	byOutput := make(map[string]*onnxpb.NodeProto)
	for _, n := range g.Node {
		for _, o := range n.Output {
			byOutput[o] = n
		}
	}
	for range len(g.Node) { // the number of passes is limited, because a damaged graph may have cycles
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
