package onnx

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/x448/float16"
	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// This file builds the test models from the same few weights, with one function per model. For a given image, most of
// the models compute the same scores, but in different ways. The models are stored in the folder testdata. The
// testscripts of cmd/rscert also use them. TestModelFiles -update writes them.

var update = flag.Bool("update", false, "write testdata")

// An image [3,4,4] has testLen values. Most models have testClasses classes.
const (
	testLen     = 48
	testClasses = 4
)

var testModels = map[string]func() *modelBuilder{
	"nchw": func() *modelBuilder {
		return newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "y", graph.Float32).output("y", graph.Float32, "N", 4)
	},
	// These models have inputs of other shapes and types. Most of them compute the scores of the model "nchw".
	"nhwc": func() *modelBuilder {
		return newModel("image", graph.Float32, "N", 4, 4, 3).
			node("Transpose", "image", "x", ints("perm", 0, 3, 1, 2)).convnet("x", "y", graph.Float32).output("y", graph.Float32, "N", 4)
	},
	"flat": func() *modelBuilder {
		return newModel("row", graph.Float32, "N", 48).reshape("row", "x", -1, 3, 4, 4).convnet("x", "y", graph.Float32).output("y", graph.Float32, "N", 4)
	},
	"free_size": func() *modelBuilder { // height and width are free
		return newModel("x", graph.Float32, "N", 3, "H", "W").conv("x", "c", graph.Float32).node("GlobalAveragePool", "c", "p").
			node("Flatten", "p", "f").weights("w2", graph.Float32, 2, 4).node("MatMul", "f w2", "y").output("y", graph.Float32, "N", 4)
	},
	"unbatched": func() *modelBuilder {
		return newModel("x", graph.Float32, 3, 4, 4).reshape("x", "b", 1, 3, 4, 4).convnet("b", "s", graph.Float32).
			reshape("s", "y", 4).output("y", graph.Float32, 4)
	},
	"float16": func() *modelBuilder {
		return newModel("x", graph.Float16, "N", 3, 4, 4).convnet("x", "y", graph.Float16).output("y", graph.Float16, "N", 4)
	},
	"float64": func() *modelBuilder {
		return newModel("x", graph.Float64, "N", 48).weights("w", graph.Float64, 48, 4).node("MatMul", "x w", "y").output("y", graph.Float64, "N", 4)
	},
	"scores_4d": func() *modelBuilder { // a fully convolutional classifier
		return newModel("x", graph.Float32, "N", 3, 4, 4).weights("w4", graph.Float32, 4, 3, 4, 4).
			node("Conv", "x w4", "y").output("y", graph.Float32, "N", 4, 1, 1)
	},
	"old": func() *modelBuilder { // IR version 3, in which weights are also inputs
		b := newModel("x", graph.Float32, 1, 3, 4, 4).conv("x", "c", graph.Float32).reshape("c", "f", 1, -1).gemm("f", "y", graph.Float32).output("y", graph.Float32, 1, 4)
		b.IrVersion = proto.Int64(3)
		for _, t := range b.Graph.Initializer {
			dims := make([]any, len(t.Dims))
			for i, d := range t.Dims {
				dims[i] = int(d)
			}
			b.Graph.Input = append(b.Graph.Input, value(t.GetName(), graph.ElemType(t.GetDataType()), dims...))
		}
		return b
	},

	"opset_6": func() *modelBuilder { // a graph of this old operator set cannot make the noise
		b := newModel("x", graph.Float32, "N", 48).weights("w", graph.Float32, 48, 4).node("MatMul", "x w", "y").output("y", graph.Float32, "N", 4)
		b.OpsetImport[0].Version = proto.Int64(6)
		return b
	},

	// The batch size of these models is fixed, but rscert can make it free.
	"fixed_infer": func() *modelBuilder { // the Reshape has the target [1,-1]
		return newModel("x", graph.Float32, 1, 3, 4, 4).conv("x", "c", graph.Float32).reshape("c", "f", 1, -1).
			gemm("f", "y", graph.Float32).output("y", graph.Float32, 1, 4)
	},
	"fixed_full": func() *modelBuilder { // a Constant holds [1,32]; "c" and "f" are declared with batch size 1
		b := newModel("x", graph.Float32, 1, 3, 4, 4).conv("x", "c", graph.Float32)
		b.Graph.Node = append(b.Graph.Node, graph.Node("Constant", nil, "target", &onnxpb.AttributeProto{Name: proto.String("value"),
			Type: onnxpb.AttributeProto_TENSOR.Enum(), T: intsTensor([]int64{1, 32})}))
		b.Graph.ValueInfo = append(b.Graph.ValueInfo, value("c", graph.Float32, 1, 2, 4, 4), value("f", graph.Float32, 1, 32))
		return b.node("Reshape", "c target", "f").gemm("f", "y", graph.Float32).output("y", graph.Float32, 1, 4)
	},
	"fixed_shared": func() *modelBuilder { // a second Reshape, whose input is a weight, uses the same target [1,-1]
		return newModel("x", graph.Float32, 1, 3, 4, 4).conv("x", "c", graph.Float32).int64s("target", 1, -1).node("Reshape", "c target", "f").
			weights("shift", graph.Float32, 2, 16).node("Reshape", "shift target", "s").node("Add", "f s", "g").
			gemm("g", "y", graph.Float32).output("y", graph.Float32, 1, 4)
	},
	"fixed_concat": func() *modelBuilder { // the target is [1, C·H·W]; nodes of the graph compute C·H·W
		return newModel("x", graph.Float32, 1, 3, 4, 4).conv("x", "c", graph.Float32).node("Shape", "c", "shape").
			int64s("from", 1).int64s("to", 4).int64s("axis", 0).int64s("one", 1).node("Slice", "shape from to axis", "chw").
			node("ReduceProd", "chw", "size", integer("keepdims", 1)).node("Concat", "one size", "target", integer("axis", 0)).
			node("Reshape", "c target", "f").gemm("f", "y", graph.Float32).output("y", graph.Float32, 1, 4)
	},
	"fixed_token": func() *modelBuilder { // a class token in front of the patches, as in a vision transformer
		return newModel("x", graph.Float32, 1, 3, 4, 4).conv("x", "c", graph.Float32).reshape("c", "patches", 1, 2, 16).
			weights("token", graph.Float32, 1, 1, 16).node("Concat", "token patches", "t", integer("axis", 1)).
			int64s("like", 1, 3, 16).node("Expand", "t like", "e").reshape("e", "f", 1, 48).
			weights("w3", graph.Float32, 48, 4).node("MatMul", "f w3", "y").output("y", graph.Float32, 1, 4)
	},
	"fixed_8": func() *modelBuilder {
		return newModel("x", graph.Float32, 8, 3, 4, 4).conv("x", "c", graph.Float32).reshape("c", "f", 8, 32).
			gemm("f", "y", graph.Float32).output("y", graph.Float32, 8, 4)
	},
	"fixed_8_expand": func() *modelBuilder {
		return newModel("x", graph.Float32, 8, 48).int64s("like", 8, 3, 48).int64s("column", 8, 1, 48).node("Reshape", "x column", "c").
			node("Expand", "c like", "e").reshape("e", "f", 8, 144).weights("w6", graph.Float32, 144, 4).
			node("MatMul", "f w6", "y").output("y", graph.Float32, 8, 4)
	},
	"baked": func() *modelBuilder { // the batch size is declared as free, but a Reshape has the fixed batch size 1
		return newModel("x", graph.Float32, "N", 3, 4, 4).conv("x", "c", graph.Float32).reshape("c", "f", 1, 32).
			gemm("f", "y", graph.Float32).output("y", graph.Float32, "N", 4)
	},

	// The batch size of these models is fixed. rscert can make it free only for the model "constant".
	"stuck": func() *modelBuilder { // a Reshape merges the batch into the vector of values
		return newModel("x", graph.Float32, 1, 3, 4, 4).conv("x", "c", graph.Float32).reshape("c", "v", -1).
			weights("w5", graph.Float32, 32, 4).node("MatMul", "v w5", "s").reshape("s", "y", 1, 4).output("y", graph.Float32, 1, 4)
	},
	"stuck_8": func() *modelBuilder {
		return newModel("x", graph.Float32, 8, 3, 4, 4).conv("x", "c", graph.Float32).reshape("c", "v", 256).reshape("v", "f", -1, 32).
			weights("s8", graph.Float32, 8, 1).node("Sub", "s8 s8", "zero").gemm("f", "g", graph.Float32).node("Add", "g zero", "y").output("y", graph.Float32, 8, 4)
	},
	"mixing": func() *modelBuilder { // batches run without an error, but mix the values of the samples
		return newModel("x", graph.Float32, 1, 48).reshape("x", "v", 48, -1).node("Transpose", "v", "t", ints("perm", 1, 0)).
			weights("w", graph.Float32, 48, 4).node("MatMul", "t w", "y").output("y", graph.Float32, 1, 4)
	},
	"constant": func() *modelBuilder { // the model ignores its input, so its scores cannot show whether batches work
		return newModel("x", graph.Float32, 1, 48).weights("w", graph.Float32, 48, 4).node("MatMul", "x w", "s").
			node("Sub", "s s", "y").output("y", graph.Float32, 1, 4)
	},

	// In all of these models except "nan", a sample's scores also depend on the other samples of the batch, on the
	// batch size or on random numbers.
	"batch_mean": func() *modelBuilder { // the model computes like batch normalisation in training mode
		return newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "s", graph.Float32).
			node("ReduceMean", "s", "mean", ints("axes", 0)).node("Sub", "s mean", "y").output("y", graph.Float32, "N", 4)
	},
	"batch_mean_slight": func() *modelBuilder { // other samples change the scores by less than the loader's tolerance
		return newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "s", graph.Float32).node("ReduceMean", "s", "mean", ints("axes", 0)).
			floats("tiny", 1e-6).node("Mul", "mean tiny", "d").node("Add", "s d", "y").output("y", graph.Float32, "N", 4)
	},
	"batch_size": func() *modelBuilder { // the model imitates kernels whose rounding depends on the batch size
		return newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "s", graph.Float32).node("Shape", "x", "shape").int64s("zero", 0).
			node("Gather", "shape zero", "n").node("Cast", "n", "nf", integer("to", int64(graph.Float32))).
			floats("tiny", 1e-6).node("Mul", "nf tiny", "d").node("Add", "s d", "y").output("y", graph.Float32, "N", 4)
	},
	"batch_of_8_mean": func() *modelBuilder {
		return newModel("x", graph.Float32, 8, 48).reshape("x", "v", 384).reshape("v", "r", 8, 48).weights("s8", graph.Float32, 8, 1).
			node("Add", "r s8", "a").weights("w", graph.Float32, 48, 4).node("MatMul", "a w", "s").
			node("ReduceMean", "s", "mean", ints("axes", 0)).node("Sub", "s mean", "y").output("y", graph.Float32, 8, 4)
	},
	"random": func() *modelBuilder {
		return newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "s", graph.Float32).node("RandomNormalLike", "s", "r").
			node("Add", "s r", "y").output("y", graph.Float32, "N", 4)
	},
	"nan": func() *modelBuilder { // the scores are NaN if the image has a value below −1
		return newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "s", graph.Float32).
			node("ReduceMin", "x", "min", ints("axes", 1, 2, 3), integer("keepdims", 0)).floats("one", 1).node("Add", "min one", "a").
			node("Sqrt", "a", "root").node("Unsqueeze", "root", "column", ints("axes", 1)).node("Add", "s column", "y").output("y", graph.Float32, "N", 4)
	},

	// These models have various kinds of outputs.
	"softmax": func() *modelBuilder {
		return newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "s", graph.Float32).node("Softmax", "s", "y", integer("axis", 1)).output("y", graph.Float32, "N", 4)
	},
	"softmax_batch": func() *modelBuilder { // a softmax over the batch, by mistake
		b := newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "s", graph.Float32).node("Softmax", "s", "y", integer("axis", 0)).output("y", graph.Float32, "N", 4)
		b.OpsetImport[0].Version = proto.Int64(13) // in older versions, axis 0 meant the whole tensor
		return b
	},
	"log_softmax": func() *modelBuilder {
		return newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "s", graph.Float32).node("LogSoftmax", "s", "y", integer("axis", 1)).output("y", graph.Float32, "N", 4)
	},
	"sigmoid": func() *modelBuilder {
		return newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "s", graph.Float32).node("Sigmoid", "s", "y").output("y", graph.Float32, "N", 4)
	},
	"tanh": func() *modelBuilder {
		return newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "s", graph.Float32).node("Tanh", "s", "y").output("y", graph.Float32, "N", 4)
	},
	"own_softmax": func() *modelBuilder {
		return newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "s", graph.Float32).node("Exp", "s", "e").
			node("ReduceSum", "e", "sum", ints("axes", 1)).node("Div", "e sum", "y").output("y", graph.Float32, "N", 4)
	},
	"label_and_scores": func() *modelBuilder {
		return newModel("x", graph.Float32, "N", 3, 4, 4).convnet("x", "scores", graph.Float32).
			node("ArgMax", "scores", "label", integer("axis", 1), integer("keepdims", 0)).
			output("label", graph.ElemType(onnxpb.TensorProto_INT64), "N").output("scores", graph.Float32, "N", 4)
	},
	"features_and_scores": func() *modelBuilder {
		return newModel("x", graph.Float32, "N", 3, 4, 4).conv("x", "c", graph.Float32).node("Flatten", "c", "features").
			gemm("features", "scores", graph.Float32).output("features", graph.Float32, "N", 32).output("scores", graph.Float32, "N", 4)
	},

	// rscert refuses most of these models, because they are not classifiers or because it cannot run them.
	"one_output": func() *modelBuilder {
		return newModel("x", graph.Float32, "N", 48).weights("w1", graph.Float32, 48, 1).node("MatMul", "x w1", "y").output("y", graph.Float32, "N", 1)
	},
	"one_relu": func() *modelBuilder {
		return newModel("x", graph.Float32, "N", 48).weights("w1", graph.Float32, 48, 1).node("MatMul", "x w1", "z").node("Relu", "z", "y").output("y", graph.Float32, "N", 1)
	},
	"truth_input": func() *modelBuilder {
		return newModel("x", graph.ElemType(onnxpb.TensorProto_BOOL), "N", 48).node("Cast", "x", "f", integer("to", int64(graph.Float32))).
			weights("w", graph.Float32, 48, 4).node("MatMul", "f w", "y").output("y", graph.Float32, "N", 4)
	},
	"text_input": func() *modelBuilder {
		b := newModel("x", graph.Float32, "N", 48)
		b.Graph.Input = append(b.Graph.Input, value("word", graph.String, "N", 1))
		return b.weights("w", graph.Float32, 48, 4).node("MatMul", "x w", "y").output("y", graph.Float32, "N", 4)
	},
	"token_input": func() *modelBuilder {
		return newModel("ids", graph.ElemType(onnxpb.TensorProto_INT64), "N", 7).weights("table", graph.Float32, 20, 4).node("Cast", "ids", "i", integer("to", int64(onnxpb.TensorProto_INT32))).
			node("Gather", "table i", "e").node("ReduceMean", "e", "y", ints("axes", 1), integer("keepdims", 0)).output("y", graph.Float32, "N", 4)
	},
	"label_only": func() *modelBuilder {
		return newModel("x", graph.Float32, "N", 48).node("ArgMax", "x", "label", integer("axis", 1), integer("keepdims", 0)).
			output("label", graph.ElemType(onnxpb.TensorProto_INT64), "N")
	},
	// each column has its own input of shape [N,1] or [N]; the inputs have several types; the model returns its inputs
	"table": func() *modelBuilder {
		b := newModel("age", graph.ElemType(onnxpb.TensorProto_INT64), "N", 1)
		b.Graph.Input = append(b.Graph.Input, value("body height", graph.Float64, "N", 1), value("weight", graph.Float32, "N"), value("flag", graph.ElemType(onnxpb.TensorProto_UINT8), "N", 1))
		float := integer("to", int64(graph.Float32))
		return b.node("Cast", "age", "a", float).add(graph.Node("Cast", []string{"body height"}, "b", float), "", "").reshape("weight", "w", -1, 1).node("Cast", "flag", "f", float).
			node("Concat", "a b w f", "y", integer("axis", 1)).output("y", graph.Float32, "N", 4)
	},
	"two_inputs": func() *modelBuilder {
		b := newModel("x", graph.Float32, "N", 48)
		b.Graph.Input = append(b.Graph.Input, value("mask", graph.Float32, "N", 48))
		return b.node("Mul", "x mask", "z").weights("w", graph.Float32, 48, 4).node("MatMul", "z w", "y").output("y", graph.Float32, "N", 4)
	},
	"bytes_input": func() *modelBuilder {
		return newModel("x", graph.ElemType(onnxpb.TensorProto_UINT8), "N", 48).node("Cast", "x", "f", integer("to", int64(graph.Float32))).
			weights("w", graph.Float32, 48, 4).node("MatMul", "f w", "y").output("y", graph.Float32, "N", 4)
	},
	"segmentation": func() *modelBuilder {
		return newModel("x", graph.Float32, "N", 3, 4, 4).conv("x", "y", graph.Float32).output("y", graph.Float32, "N", 2, 4, 4)
	},
	"unknown_operator": func() *modelBuilder {
		return newModel("x", graph.Float32, "N", 48).node("Frobnicate", "x", "y").output("y", graph.Float32, "N", 4)
	},
}

// A modelBuilder builds a model node by node.
type modelBuilder struct {
	*onnxpb.ModelProto
	rng *rand.Rand
}

func newModel(input string, t graph.ElemType, dims ...any) *modelBuilder {
	return &modelBuilder{
		&onnxpb.ModelProto{
			IrVersion: proto.Int64(6), ProducerName: proto.String("rscert tests"),
			OpsetImport: []*onnxpb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(11)}},
			Graph:       &onnxpb.GraphProto{Name: proto.String("classifier"), Input: []*onnxpb.ValueInfoProto{value(input, t, dims...)}},
		},
		rand.New(rand.NewPCG(3, 4)),
	}
}

// convnet adds nodes that compute scores y [N,4] from images x [N,3,4,4].
func (b *modelBuilder) convnet(x, y string, t graph.ElemType) *modelBuilder {
	return b.conv(x, "c", t).node("Flatten", "c", "f").gemm("f", y, t)
}

func (b *modelBuilder) conv(x, y string, t graph.ElemType) *modelBuilder {
	return b.weights("w_conv", t, 2, 3, 3, 3).node("Conv", x+" w_conv", "linear", ints("pads", 1, 1, 1, 1)).node("Relu", "linear", y)
}

func (b *modelBuilder) gemm(x, y string, t graph.ElemType) *modelBuilder {
	return b.weights("w_gemm", t, 4, 32).weights("b_gemm", t, 4).node("Gemm", x+" w_gemm b_gemm", y, integer("transB", 1))
}

func (b *modelBuilder) node(op, inputs, output string, attributes ...*onnxpb.AttributeProto) *modelBuilder {
	var in []string
	for _, s := range bytes.Fields([]byte(inputs)) {
		in = append(in, string(s))
	}
	b.Graph.Node = append(b.Graph.Node, graph.Node(op, in, output, attributes...))
	return b
}

func (b *modelBuilder) reshape(x, y string, target ...int64) *modelBuilder {
	return b.int64s(y+"_target", target...).node("Reshape", x+" "+y+"_target", y)
}

func (b *modelBuilder) output(name string, t graph.ElemType, dims ...any) *modelBuilder {
	b.Graph.Output = append(b.Graph.Output, value(name, t, dims...))
	return b
}

func intsTensor(v []int64) *onnxpb.TensorProto {
	return &onnxpb.TensorProto{DataType: proto.Int32(int32(graph.Int64)), Dims: []int64{int64(len(v))}, Int64Data: v}
}

func (b *modelBuilder) int64s(name string, v ...int64) *modelBuilder {
	t := intsTensor(v)
	t.Name = proto.String(name)
	b.Graph.Initializer = append(b.Graph.Initializer, t)
	return b
}

func (b *modelBuilder) floats(name string, v ...float32) *modelBuilder {
	b.Graph.Initializer = append(b.Graph.Initializer, &onnxpb.TensorProto{Name: proto.String(name),
		DataType: proto.Int32(int32(graph.Float32)), Dims: []int64{int64(len(v))}, FloatData: v})
	return b
}

// weights adds normally distributed weights. They are scaled so that scores are of order 1.
func (b *modelBuilder) weights(name string, t graph.ElemType, dims ...int64) *modelBuilder {
	size := 1
	for _, d := range dims {
		size *= int(d)
	}
	var raw []byte
	for range size {
		switch w := b.rng.NormFloat64() / 4; t {
		case graph.Float64:
			raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(w))
		case graph.Float16:
			raw = binary.LittleEndian.AppendUint16(raw, float16.Fromfloat32(float32(w)).Bits())
		default:
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(w)))
		}
	}
	b.Graph.Initializer = append(b.Graph.Initializer, &onnxpb.TensorProto{Name: proto.String(name), DataType: proto.Int32(int32(t)), Dims: dims, RawData: raw})
	return b
}

func (b *modelBuilder) bytes(t testing.TB) []byte {
	t.Helper()
	model, err := proto.MarshalOptions{Deterministic: true}.Marshal(b.ModelProto)
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// file returns the model as if it had been parsed from a file.
func (b *modelBuilder) file(t testing.TB) *graph.File {
	t.Helper()
	file, err := graph.Parse(b.bytes(t), "", "")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// value returns the description of a graph's input or output. Integers in 'dims' are fixed sizes, and names are free
// dimensions.
func value(name string, t graph.ElemType, dims ...any) *onnxpb.ValueInfoProto {
	shape := new(onnxpb.TensorShapeProto)
	for _, d := range dims {
		dim := new(onnxpb.TensorShapeProto_Dimension)
		switch d := d.(type) {
		case int:
			dim.Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(d)}
		case string:
			dim.Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: d}
		}
		shape.Dim = append(shape.Dim, dim)
	}
	return &onnxpb.ValueInfoProto{Name: proto.String(name), Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
		TensorType: &onnxpb.TypeProto_Tensor{ElemType: proto.Int32(int32(t)), Shape: shape}}}}
}

func integer(name string, v int64) *onnxpb.AttributeProto { return graph.IntAttribute(name, v) }

func ints(name string, v ...int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: proto.String(name), Type: onnxpb.AttributeProto_INTS.Enum(), Ints: v}
}

// testModel returns the bytes of the file of a test model.
func testModel(t testing.TB, name string) []byte {
	t.Helper()
	build := testModels[name]
	if build == nil {
		t.Fatalf("no test model %q", name)
	}
	return build().bytes(t)
}

// TestModelFiles checks that testdata holds the models that this file builds.
func TestModelFiles(t *testing.T) {
	for name := range testModels {
		want, path := testModel(t, name), filepath.Join("testdata", name+".onnx")
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// Compare the parsed messages instead of the bytes, because the encoding may change.
		var a, b onnxpb.ModelProto
		if err := proto.Unmarshal(got, &a); err != nil {
			t.Fatal(path, err)
		}
		if err := proto.Unmarshal(want, &b); err != nil || !proto.Equal(&a, &b) {
			t.Errorf("%s differs from the model built here; run go test ./internal/onnx -run TestModelFiles -update", path)
		}
	}
}
