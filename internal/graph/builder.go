package graph

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// Builder makes the nodes and constants of a graph. Its methods return the names of the values that they add.
type Builder struct {
	// Nodes lists the nodes added so far, each after the nodes that compute its inputs.
	Nodes []*onnxpb.NodeProto
	// Initializers lists the constants added so far, if NewInitializing made the builder. A builder made by NewBuilder
	// turns each constant into a node: before IR version 4, an initializer would also have to be an input.
	Initializers []*onnxpb.TensorProto
	name         func() string
	initializing bool
}

// NewBuilder returns a builder whose constants are nodes. The builder gets new names by calling the function 'name'.
func NewBuilder(name func() string) *Builder { return &Builder{name: name} }

// NewInitializing returns a builder whose constants are initializers.
func NewInitializing(name func() string) *Builder { return &Builder{name: name, initializing: true} }

// Numbered returns a function that generates the names prefix1, prefix2, …, for the given prefix.
func Numbered(prefix string) func() string {
	last := 0
	return func() string {
		last++
		return fmt.Sprintf("%s%d", prefix, last)
	}
}

// Add adds nodes whose outputs already have names.
func (b *Builder) Add(nodes ...*onnxpb.NodeProto) { b.Nodes = append(b.Nodes, nodes...) }

// Node adds a node with attributes.
func (b *Builder) Node(op string, inputs []string, attributes ...*onnxpb.AttributeProto) string {
	out := b.name()
	b.Add(Node(op, inputs, out, attributes...))
	return out
}

// Op adds a node without attributes.
func (b *Builder) Op(op string, inputs ...string) string { return b.Node(op, inputs) }

// Cast adds a node that converts a value to another element type.
func (b *Builder) Cast(x string, to ElemType) string {
	return b.Node("Cast", []string{x}, IntAttribute("to", int64(to)))
}

// Floats adds a float32 constant of the given shape. A nil shape means a vector.
func (b *Builder) Floats(shape []int64, v ...float32) string {
	return b.constant(Float32, shape, len(v), func(t *onnxpb.TensorProto) { t.FloatData = v })
}

// Ints adds an int64 vector.
func (b *Builder) Ints(v ...int64) string {
	return b.constant(Int64, nil, len(v), func(t *onnxpb.TensorProto) { t.Int64Data = v })
}

// int32s adds an int32 vector.
func (b *Builder) int32s(v ...int32) string {
	return b.constant(Int32, nil, len(v), func(t *onnxpb.TensorProto) {
		for _, x := range v {
			t.RawData = binary.LittleEndian.AppendUint32(t.RawData, uint32(x))
		}
	})
}

// uint64s adds a uint64 constant of the given shape. A nil shape means a vector.
func (b *Builder) uint64s(shape []int64, v ...uint64) string {
	return b.constant(Uint64, shape, len(v), func(t *onnxpb.TensorProto) {
		for _, x := range v {
			t.RawData = binary.LittleEndian.AppendUint64(t.RawData, x)
		}
	})
}

// scalar is the shape of a single number.
var scalar = []int64{}

func (b *Builder) constant(of ElemType, shape []int64, length int, fill func(*onnxpb.TensorProto)) string {
	if shape == nil {
		shape = []int64{int64(length)}
	}
	t := &onnxpb.TensorProto{DataType: proto.Int32(int32(of)), Dims: shape}
	fill(t)
	if !b.initializing {
		return b.Node("Constant", nil, constantValue(t))
	}
	t.Name = proto.String(b.name())
	b.Initializers = append(b.Initializers, t)
	return t.GetName()
}
