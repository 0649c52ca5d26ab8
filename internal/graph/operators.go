package graph

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/quote"
)

// This file refuses models whose scores depend on more than their input.
//
// A certificate for a classifier that draws random numbers is valid only if these numbers are independent from sample
// to sample. ONNX Runtime's random numbers are not independent in this sense. ONNX Runtime seeds its generators once
// per session and continues them from run to run. A result would therefore depend on the order of the runs, on the
// batch, and on the point at which an interrupted run resumed. A comparison of two runs could miss the random numbers,
// because a model may draw them for only one in a thousand inputs.

// opKey identifies an operator.
type opKey struct{ domain, op string }

// microsoft is the domain of the operators that ONNX Runtime adds to ONNX.
const microsoft = "com.microsoft"

// alwaysRandom lists the operators that always draw random numbers.
var alwaysRandom = []opKey{
	{"", "RandomNormal"}, {"", "RandomNormalLike"}, {"", "RandomUniform"}, {"", "RandomUniformLike"},
	{"", "Multinomial"}, {"", "Bernoulli"}, {microsoft, "Sampling"},
}

// The map randomInTraining holds the operators that draw random numbers only in training. It maps each operator to the
// position of the input that turns training mode on. If a node lacks this input, it runs in inference mode.
var randomInTraining = map[opKey]int{
	{"", "Dropout"}: 2, {microsoft, "BitmaskDropout"}: 2, {microsoft, "BiasDropout"}: 4, {microsoft, "BitmaskBiasDropout"}: 4,
}

// statefulOrExternal lists operators of ONNX Runtime that keep a state or change weights in place. It also lists
// operators that run code outside the model's nodes, or run a compiled graph.
var statefulOrExternal = []opKey{
	{"org.pytorch.aten", "ATen"}, {microsoft, "ATen"}, {microsoft, "PythonOp"}, {microsoft, "PythonOpGrad"}, {microsoft, "EPContext"},
	{microsoft, "Snpe"}, {microsoft, "YieldOp"}, {microsoft, "Send"}, {microsoft, "Recv"}, {microsoft, "InPlaceAccumulator"},
	{microsoft, "InPlaceAccumulatorV2"}, {microsoft, "ZeroGradient"}, {microsoft, "SGDOptimizer"}, {microsoft, "SGDOptimizerV2"},
	{microsoft, "AdamOptimizer"}, {microsoft, "AdamWOptimizer"}, {microsoft, "LambOptimizer"},
}

// knownDomains lists the domains whose operators are part of ONNX Runtime. An operator of another domain runs code from
// a foreign library, so rscert cannot know what the operator computes or whether it draws random numbers. ONNX Runtime
// would also reject this operator, because rscert registers no custom library. rscert refuses the operator earlier,
// with an error that names it.
var knownDomains = []string{"", "ai.onnx.ml", microsoft, "com.microsoft.nchwc", "com.ms.internal.nhwc", "org.pytorch.aten"}

// checkOperators refuses a model with operators that draw random numbers, keep a state or are unknown.
func checkOperators(m *onnxpb.ModelProto) error {
	local := localFunctions(m)
	return eachNode(m, func(s *scope, n *onnxpb.NodeProto) error {
		key := opKey{domainOf(n.GetDomain()), n.GetOpType()}
		training, drop := randomInTraining[key]
		switch {
		case slices.Contains(alwaysRandom, key):
			return refuse("the model draws random numbers", s, n, InferenceHint)
		case drop && len(n.Input) > training && n.Input[training] != "":
			switch on, known := boolOf(s.constant(n.Input[training])); {
			case !known:
				return refuse("the model may draw random numbers (its training mode is no constant)", s, n, InferenceHint)
			case on:
				return refuse("the model draws random numbers (it is in training mode)", s, n, InferenceHint)
			}
		case slices.Contains(statefulOrExternal, key):
			return refuse("the model keeps a state or runs code beside its graph", s, n, InferenceHint)
		case !slices.Contains(knownDomains, key.domain) && !local[key]:
			return refuse(fmt.Sprintf("the model has an operator of the unknown domain '%s'", quote.Name(key.domain)), s, n,
				"export it with ONNX's own operators: rscert cannot know what other operators compute, and whether they draw random numbers")
		}
		return nil
	})
}

// HasLoops reports whether the model has loops. A loop may never end.
func HasLoops(m *onnxpb.ModelProto) bool {
	loop := errors.New("a loop")
	return eachNode(m, func(_ *scope, n *onnxpb.NodeProto) error {
		if n.GetOpType() == "Loop" {
			return loop
		}
		return nil
	}) != nil
}

// InferenceHint advises users whose model was exported for training.
const InferenceHint = "export it for inference (in PyTorch after model.eval())"

// The function 'refuse' returns an error that names the offending node.
func refuse(problem string, s *scope, n *onnxpb.NodeProto, advice string) error {
	where := ""
	switch {
	case n.GetName() != "":
		where = fmt.Sprintf("node '%s'", quote.Name(n.GetName()))
	case len(n.Output) > 0:
		where = fmt.Sprintf("node of '%s'", quote.Name(n.Output[0]))
	default:
		where = "a node without a name"
	}
	if s.function != "" {
		where += fmt.Sprintf(" of function '%s'", quote.Name(s.function))
	}
	return hint.New(fmt.Sprintf("%s: %s, %s", problem, quote.Name(n.GetOpType()), where), advice)
}

// domainOf returns the canonical name of a domain.
func domainOf(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}

// boolOf returns the value of a constant that holds one bool.
func boolOf(t *onnxpb.TensorProto) (value, known bool) {
	switch {
	case t.GetDataType() != int32(onnxpb.TensorProto_BOOL) || t.GetDataLocation() == onnxpb.TensorProto_EXTERNAL:
		return false, false
	case len(t.RawData) == 1:
		return t.RawData[0] != 0, true
	case len(t.Int32Data) == 1:
		return t.Int32Data[0] != 0, true
	}
	return false, false
}

// Has reports whether the model uses an operator.
func Has(m *onnxpb.ModelProto, op string) bool {
	found := errors.New("found")
	return eachNode(m, func(_ *scope, n *onnxpb.NodeProto) error {
		if n.GetOpType() == op {
			return found
		}
		return nil
	}) != nil
}
