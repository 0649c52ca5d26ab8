package graph

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/quote"
)

// This file bounds the memory that a small model file can request. When ONNX Runtime opens a session, it computes all
// nodes with constant inputs. So a file of a few hundred bytes with ConstantOfShape, Expand, Tile or Range can request
// any amount of memory.
//
// The check follows the shapes of constants through the operators that exporters usually apply to constants. It also
// follows integers that later become shapes. The check does not bound shapes that are computed by other operators.

// maxConstants limits the total memory, in bytes, of the constants that the nodes of a model compute. If a result is
// not a constant, but the check knows a lower bound of its size, the limit also applies to this result. The limit
// equals the largest size of a model's file, because a file could not store a larger constant.
const maxConstants = maxModel

// The check computes the elements of a value only if the value has at most maxFollowed elements.
const maxFollowed = 1 << 10

// knownValue describes a value whose shape is known, or at least bounded from below.
type knownValue struct {
	dims    []int64
	numbers []float64 // values of the elements, if the check computes them (see maxFollowed)
	width   int64     // size of an element in bytes
	whole   bool      // the value depends only on constants, and 'dims' gives the exact number of elements
}

func (v knownValue) elements() int64 { return saturatedProduct(v.dims) }

func (v knownValue) bytes() int64 { return saturatedProduct([]int64{v.elements(), v.width}) }

// saturatedProduct multiplies sizes. If the product exceeds math.MaxInt64, the function returns math.MaxInt64. A
// negative size counts as 0.
func saturatedProduct(sizes []int64) int64 {
	if slices.ContainsFunc(sizes, func(n int64) bool { return n <= 0 }) {
		return 0
	}
	p := uint64(1)
	for _, n := range sizes {
		high, low := bits.Mul64(p, uint64(n))
		if high != 0 || low > math.MaxInt64 {
			return math.MaxInt64
		}
		p = low
	}
	return int64(p)
}

const sizeHint = "export the model again: the file is damaged, or was made to take all memory"

// checkSizes refuses a model with a tensor that declares more elements than it holds. It also refuses a model if the
// constants that its nodes compute take more than 'limit' bytes in total.
func checkSizes(m *onnxpb.ModelProto, limit int64) (err error) {
	eachTensor(m, func(t *onnxpb.TensorProto) {
		if err == nil && t.GetDataLocation() != onnxpb.TensorProto_EXTERNAL && saturatedProduct(t.Dims) > storedElements(t) {
			err = hint.New(fmt.Sprintf("tensor '%s' declares the shape %s, and holds fewer elements", quote.Name(t.GetName()), sizesText(t.Dims)), sizeHint)
		}
	})
	if err != nil {
		return err
	}
	for _, t := range m.Graph.SparseInitializer {
		if dense := denseValue(t); dense.bytes() > limit {
			return hint.New(fmt.Sprintf("sparse tensor '%s' has the shape %s, which is too large", quote.Name(t.GetValues().GetName()), sizesText(dense.dims)), sizeHint)
		}
	}
	c := sizeCheck{limit: limit, left: limit}
	if err := c.graph(m.Graph, &sizeScope{}); err != nil {
		return err
	}
	for _, f := range m.Functions {
		if err := c.nodes(f.Node, newSizeScope(&sizeScope{function: f.GetName()})); err != nil {
			return err
		}
	}
	return nil
}

// denseValue describes the dense form of a sparse tensor. The project's onnx.proto omits the field with the tensor's
// dimensions, so denseValue decodes this field itself.
func denseValue(t *onnxpb.SparseTensorProto) knownValue {
	const field = 3
	v := knownValue{width: widthOf(t.GetValues().GetDataType()), whole: true}
	for rest := []byte(t.ProtoReflect().GetUnknown()); len(rest) > 0; {
		number, wire, n := protowire.ConsumeField(rest)
		if n < 0 {
			return v
		}
		_, _, tag := protowire.ConsumeTag(rest)
		value := rest[tag:n]
		if wire == protowire.BytesType { // a packed list of sizes
			value, _ = protowire.ConsumeBytes(value)
		}
		for number == field && len(value) > 0 {
			size, used := protowire.ConsumeVarint(value)
			if used < 0 {
				return v
			}
			v.dims, value = append(v.dims, int64(size)), value[used:]
		}
		rest = rest[n:]
	}
	return v
}

// sizeScope holds the known values of a graph. The field 'outer' points to the scope around the graph.
type sizeScope struct {
	function string
	values   map[string]knownValue
	outer    *sizeScope
}

func newSizeScope(outer *sizeScope) *sizeScope {
	return &sizeScope{function: outer.function, values: make(map[string]knownValue), outer: outer}
}

func (s *sizeScope) find(name string) (knownValue, bool) {
	for ; s != nil; s = s.outer {
		if v, ok := s.values[name]; ok {
			return v, true
		}
	}
	return knownValue{}, false
}

// sizeCheck sums the sizes of a model's constants.
type sizeCheck struct{ limit, left int64 }

func (c *sizeCheck) graph(g *onnxpb.GraphProto, outer *sizeScope) error {
	s := newSizeScope(outer)
	for _, t := range g.Initializer {
		s.values[t.GetName()] = storedValue(t)
	}
	return c.nodes(g.Node, s)
}

func (c *sizeCheck) nodes(nodes []*onnxpb.NodeProto, s *sizeScope) error {
	for _, n := range nodes {
		if err := c.node(n, s); err != nil {
			return err
		}
		for _, a := range n.Attribute {
			for _, g := range subgraphs(a) {
				if err := c.graph(g, s); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// The method 'node' checks one node, without its subgraphs.
func (c *sizeCheck) node(n *onnxpb.NodeProto, s *sizeScope) error {
	v, ok := sizeNode(n, s)
	if !ok {
		return nil
	}
	if v.whole {
		c.left -= min(v.bytes(), c.limit+1)
	}
	if v.bytes() > c.limit || c.left < 0 {
		return refuse(fmt.Sprintf("the model makes constants of more than %d MiB, one of shape %s", c.limit>>20, sizesText(v.dims)),
			&scope{function: s.function}, n, sizeHint)
	}
	if len(n.Output) > 0 {
		s.values[n.Output[0]] = v
	}
	return nil
}

// storedValue describes a tensor that the file stores.
func storedValue(t *onnxpb.TensorProto) knownValue {
	v := knownValue{dims: t.Dims, width: widthOf(t.GetDataType()), whole: true}
	if saturatedProduct(t.Dims) > maxFollowed {
		return v
	}
	if ints, ok := int64sOf(t); ok {
		for _, n := range ints {
			v.numbers = append(v.numbers, float64(n))
		}
	}
	switch ElemType(t.GetDataType()) {
	case Int32:
		for _, n := range t.Int32Data {
			v.numbers = append(v.numbers, float64(n))
		}
		for i := 0; i+4 <= len(t.RawData); i += 4 {
			v.numbers = append(v.numbers, float64(int32(binary.LittleEndian.Uint32(t.RawData[i:]))))
		}
	case Float32:
		for _, x := range t.FloatData {
			v.numbers = append(v.numbers, float64(x))
		}
		for i := 0; i+4 <= len(t.RawData); i += 4 {
			v.numbers = append(v.numbers, float64(math.Float32frombits(binary.LittleEndian.Uint32(t.RawData[i:]))))
		}
	}
	return v
}

// storedElements returns an upper bound on the number of elements that a tensor's data hold.
func storedElements(t *onnxpb.TensorProto) int64 {
	if len(t.RawData) > 0 {
		return int64(len(t.RawData)) * 8 / int64(max(elementBits[onnxpb.TensorProto_DataType(t.GetDataType())], 1))
	}
	const most = 2 // two elements of a small type can share a byte
	// Doubles, uint64s and strings are in fields that the project's onnx.proto omits. For them, the code counts the
	// bytes of the omitted fields. Each of these elements takes at least one byte.
	return most * int64(max(len(t.FloatData), len(t.Int32Data), len(t.Int64Data), len(t.ProtoReflect().GetUnknown())))
}

func sizesText(dims []int64) string {
	var texts []string
	for i, d := range dims {
		if i == maxPrintedDims {
			texts = append(texts, "…")
			break
		}
		texts = append(texts, fmt.Sprint(d))
	}
	return "[" + strings.Join(texts, ",") + "]"
}

// widthOf returns the size of an element in bytes. The size is at least 1.
func widthOf(t int32) int64 {
	return int64(max(elementBits[onnxpb.TensorProto_DataType(t)]/8, 1))
}
