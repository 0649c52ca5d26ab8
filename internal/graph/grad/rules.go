package grad

import "strings"

// rules holds the rule of each operator. To support another operator, add a line to the function 'init' below, and
// write a rule in the file that holds similar operators.
var rules = make(map[operator]rule)

const (
	standard  = "" // domain of ONNX's own operators
	microsoft = "com.microsoft"
	learned   = "ai.onnx.ml"
)

func init() { // Go refuses to fill 'rules' at its declaration, because some rules read 'rules'
	add := func(domain, names string, r rule) {
		for _, name := range strings.Fields(names) {
			rules[operator{domain, name}] = r
		}
	}
	add(standard, "Identity Dropout", unary(func(_ *tape, _ *node, d string) string { return d }))
	add(standard, "Cast CastLike", cast)
	add(standard, "Neg Abs Exp Log Sqrt Reciprocal Erf Sin Cos Tan Atan Sinh Cosh", unary(functionSlope))
	add(standard, "Floor Ceil Round Sign", unary(flat))
	add(standard, "Relu Sigmoid Tanh LeakyRelu ThresholdedRelu Elu Selu Celu Softplus Softsign Mish Swish HardSigmoid HardSwish",
		unary(activationSlope))
	add(standard, "Gelu", unary(gelu))
	add(microsoft, "Gelu", unary(gelu))
	add(standard, "PRelu", pRelu)
	add(standard, "Clip", clip)
	add(standard, "Add Sub Mul Div Pow", arithmetic)
	add(standard, "Sum Mean", sumOrMean)
	add(standard, "Max Min", maxOrMin)
	add(standard, "Where", whereRule)
	add(standard, "Conv", conv)
	add(standard, "ConvTranspose", convTranspose)
	add(standard, "MatMul", matMul)
	add(standard, "Gemm", gemm)
	add(standard, "Einsum", einsum)
	add(standard, "MaxPool", maxPool)
	add(standard, "AveragePool", averagePool)
	add(standard, "GlobalAveragePool GlobalMaxPool", globalPool)
	add(standard, "ReduceSum ReduceMean ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp ReduceProd", reduction)
	add(standard, "CumSum", cumSum)
	add(standard, "TopK", topK)
	add(standard, "Softmax LogSoftmax", softmax)
	add(standard, "Attention", attention)
	add(standard, "RNN", recurrent(1, []string{"Tanh"}, rnnSlopes))
	add(standard, "LSTM", recurrent(4, []string{"Sigmoid", "Tanh", "Tanh"}, lstmSlopes))
	add(standard, "GRU", recurrent(3, []string{"Sigmoid", "Tanh"}, gruSlopes))
	add(standard, "BatchNormalization", batchNormalization)
	add(standard, "LayerNormalization", layerNormalization)
	add(standard, "RMSNormalization", rmsNormalization)
	add(standard, "InstanceNormalization GroupNormalization", groupNormalization)
	add(standard, "LpNormalization", lpNormalization)
	add(standard, "LRN", localResponse)
	add(standard, "Reshape Flatten Squeeze Unsqueeze", reshape)
	add(standard, "Transpose", transpose)
	add(standard, "Expand", expand)
	add(standard, "Tile", tile)
	add(standard, "DepthToSpace", depthToSpace)
	add(standard, "SpaceToDepth", spaceToDepth)
	add(standard, "Concat", concat)
	add(standard, "Split", split)
	add(standard, "Slice", slice)
	add(standard, "Gather", gather)
	add(standard, "GatherElements", gatherElements)
	add(standard, "GatherND", gatherND)
	add(standard, "ScatterElements ScatterND", scatter)
	add(standard, "Pad", pad)
	add(standard, "Resize Upsample", resize)
	add(standard, "QuantizeLinear", quantize)
	add(standard, "DequantizeLinear", dequantize)
	add(standard, "QLinearConv QLinearMatMul", quantisedLayerRule)
	add(microsoft, "QGemm QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu QLinearSoftmax QLinearAveragePool QLinearGlobalAveragePool QLinearConcat",
		quantisedLayerRule)
	add(learned, "Scaler", scaler)
	add(learned, "Normalizer", normalizer)
	add(learned, "FeatureVectorizer", featureVectorizer)
	add(learned, "LinearClassifier", linearClassifier)
}
