package graph

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// The function 'constants' returns a model with the constants and nodes that the function 'build' adds.
func constants(build func(b *Builder)) *onnxpb.ModelProto {
	b := NewInitializing(Numbered("c"))
	build(b)
	m := modelOf(b.Nodes...)
	m.Graph.Initializer = b.Initializers
	return m
}

// TestCheckSizes checks models of a few hundred bytes that compute constants. checkSizes must refuse constants of more
// than 64 MiB, and accept smaller constants. The test covers operators that can compute a large constant from small
// ones.
func TestCheckSizes(t *testing.T) {
	const limit = 64 << 20
	scalar := func(b *Builder, v int64) string { return b.Op("Squeeze", b.Ints(v)) }
	big := int64(1) << 40
	sparse := &onnxpb.SparseTensorProto{Values: &onnxpb.TensorProto{DataType: proto.Int32(int32(Float32)), Dims: []int64{1}, FloatData: []float32{1}}, Indices: intsTensor([]int64{0})}
	sparse.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), uint64(big)))
	body := constants(func(b *Builder) { b.Op("ConstantOfShape", b.Ints(big)) }).Graph
	inFunction := constants(func(b *Builder) { b.Op("Relu", "x") })
	inFunction.Functions = []*onnxpb.FunctionProto{{Name: proto.String("f"), Node: []*onnxpb.NodeProto{
		Node("Constant", nil, "shape", constantValue(intsTensor([]int64{big}))), Node("ConstantOfShape", []string{"shape"}, "y")}}}
	withSparse := constants(func(b *Builder) { b.Op("Relu", "x") })
	withSparse.Graph.SparseInitializer = []*onnxpb.SparseTensorProto{sparse}
	for name, m := range map[string]*onnxpb.ModelProto{
		"ConstantOfShape":   constants(func(b *Builder) { b.Op("ConstantOfShape", b.Ints(1<<12, 1<<13)) }),
		"overflowing":       constants(func(b *Builder) { b.Op("ConstantOfShape", b.Ints(math.MaxInt64, math.MaxInt64)) }),
		"Expand of a value": constants(func(b *Builder) { b.Op("Expand", "x", b.Ints(1<<13, 1<<14)) }),
		"Expand":            constants(func(b *Builder) { b.Op("Expand", b.Floats(nil, 1), b.Ints(1<<13, 1<<12)) }),
		"Tile":              constants(func(b *Builder) { b.Op("Tile", b.Floats(nil, 1, 2, 3, 4), b.Ints(1<<23)) }),
		"Range":             constants(func(b *Builder) { b.Op("Range", scalar(b, 0), scalar(b, 1<<24), scalar(b, 1)) }),
		"Range of floats": constants(func(b *Builder) {
			b.Op("Range", b.Floats([]int64{}, 0), b.Floats([]int64{}, 1), b.Floats([]int64{}, 1e-9))
		}),
		"OneHot":     constants(func(b *Builder) { b.Op("OneHot", b.Ints(0, 1, 2, 3), b.Ints(1<<23), b.Floats(nil, 0, 1)) }),
		"Pad":        constants(func(b *Builder) { b.Op("Pad", b.Floats(nil, 1), b.Ints(1<<25, 0)) }),
		"Resize":     constants(func(b *Builder) { b.Op("Resize", "x", "", "", b.Ints(1, 1, 1<<14, 1<<13)) }),
		"HannWindow": constants(func(b *Builder) { b.Op("HannWindow", scalar(b, 1<<25)) }),
		"MatMul": constants(func(b *Builder) {
			b.Op("MatMul", b.Op("ConstantOfShape", b.Ints(1<<13, 1)), b.Op("ConstantOfShape", b.Ints(1, 1<<13)))
		}),
		"broadcast": constants(func(b *Builder) {
			b.Op("Add", b.Op("ConstantOfShape", b.Ints(1<<13, 1)), b.Op("ConstantOfShape", b.Ints(1<<13)))
		}),
		"computed shape":   constants(func(b *Builder) { n := b.Ints(1 << 13); b.Op("ConstantOfShape", b.Op("Mul", n, n)) }),
		"power of a shape": constants(func(b *Builder) { b.Op("ConstantOfShape", b.Op("Pow", b.Ints(10), b.Ints(10))) }),
		"joined shape": constants(func(b *Builder) {
			n := b.Ints(1 << 13)
			b.Op("ConstantOfShape", b.Node("Concat", []string{n, n}, IntAttribute("axis", 0)))
		}),
		"filled shape": constants(func(b *Builder) {
			b.Op("ConstantOfShape", b.Node("ConstantOfShape", []string{b.Ints(5)}, constantValue(intsTensor([]int64{64}))))
		}),
		"shape of a constant": constants(func(b *Builder) {
			b.Op("ConstantOfShape", b.Op("Shape", b.Op("ConstantOfShape", b.Ints(1<<12, 1<<13))))
		}),
		"joined constants": constants(func(b *Builder) {
			c := b.Op("ConstantOfShape", b.Ints(1<<22))
			b.Node("Concat", []string{c, c, c, c}, IntAttribute("axis", 0))
		}),
		"many": constants(func(b *Builder) {
			for range 9 {
				b.Op("ConstantOfShape", b.Ints(1<<21))
			}
		}),
		"doubles": constants(func(b *Builder) {
			b.Node("ConstantOfShape", []string{b.Ints(1<<23 + 1)}, constantValue(&onnxpb.TensorProto{DataType: proto.Int32(int32(Float64)), Dims: []int64{1}, RawData: make([]byte, 8)}))
		}),
		"in a branch":   modelOf(Node("If", []string{"c"}, "z", &onnxpb.AttributeProto{Name: proto.String("then_branch"), G: body})),
		"in a function": inFunction,
		"sparse":        withSparse,
		"sparse value": constants(func(b *Builder) {
			b.Node("Constant", nil, &onnxpb.AttributeProto{Name: proto.String("sparse_value"), SparseTensor: sparse})
		}),
	} {
		if err := checkSizes(m, limit); err == nil || !strings.Contains(err.Error(), "constants of more than 64 MiB") && !strings.Contains(err.Error(), "too large") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for name, m := range map[string]*onnxpb.ModelProto{
		"ConstantOfShape": constants(func(b *Builder) { b.Op("ConstantOfShape", b.Ints(1<<12, 1<<12)) }),
		"empty":           constants(func(b *Builder) { b.Op("ConstantOfShape", b.Ints(0, big)) }),
		"scalar":          constants(func(b *Builder) { b.Op("ConstantOfShape", b.Ints()) }),
		"Tile":            constants(func(b *Builder) { b.Op("Tile", b.Floats(nil, 1, 2, 3, 4), b.Ints(1<<22)) }),
		"Range":           constants(func(b *Builder) { b.Op("Range", scalar(b, 10), scalar(b, 0), scalar(b, -1)) }),
		"unknown shape":   constants(func(b *Builder) { b.Op("ConstantOfShape", b.Op("Shape", "x")) }),
		"Reshape":         constants(func(b *Builder) { b.Op("Reshape", b.Op("ConstantOfShape", b.Ints(1<<12, 1<<11)), b.Ints(-1, 1<<20)) }),
		"many activations": constants(func(b *Builder) {
			for range 100 {
				b.Op("Expand", "x", b.Ints(1<<22))
			}
		}),
	} {
		if err := checkSizes(m, limit); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStoredSizes checks that rscert refuses tensors that declare more elements than they hold.
func TestStoredSizes(t *testing.T) {
	for name, c := range map[string]struct {
		tensor *onnxpb.TensorProto
		ok     bool
	}{
		"no data":     {&onnxpb.TensorProto{DataType: proto.Int32(int32(Float32)), Dims: []int64{1 << 33}}, false},
		"raw":         {&onnxpb.TensorProto{DataType: proto.Int32(int32(Float32)), Dims: []int64{2, 3}, RawData: make([]byte, 24)}, true},
		"raw, short":  {&onnxpb.TensorProto{DataType: proto.Int32(int32(Float32)), Dims: []int64{2, 4}, RawData: make([]byte, 24)}, false},
		"half bytes":  {&onnxpb.TensorProto{DataType: proto.Int32(22), Dims: []int64{6}, RawData: make([]byte, 3)}, true},
		"floats":      {&onnxpb.TensorProto{DataType: proto.Int32(int32(Float32)), Dims: []int64{2}, FloatData: []float32{1, 2}}, true},
		"few floats":  {&onnxpb.TensorProto{DataType: proto.Int32(int32(Float32)), Dims: []int64{5}, FloatData: []float32{1, 2}}, false},
		"nothing":     {&onnxpb.TensorProto{DataType: proto.Int32(int32(Float32)), Dims: []int64{0, 1 << 40}}, true},
		"in a file":   {&onnxpb.TensorProto{DataType: proto.Int32(int32(Float32)), Dims: []int64{9}, DataLocation: onnxpb.TensorProto_EXTERNAL.Enum()}, true},
		"overflowing": {&onnxpb.TensorProto{DataType: proto.Int32(int32(Float32)), Dims: []int64{1 << 62, 1 << 62}, RawData: make([]byte, 24)}, false},
	} {
		m := modelOf(Node("Relu", []string{"x"}, "y"))
		m.Graph.Initializer = []*onnxpb.TensorProto{c.tensor}
		if err := checkSizes(m, 1<<30); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
