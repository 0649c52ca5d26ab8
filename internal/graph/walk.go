package graph

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// This file visits all parts of a model: the graph, its subgraphs (the bodies of If, Loop and Scan), and the model's
// local functions.

// A scope is a graph or a function body, with links to the scopes around it.
type scope struct {
	function  string // the enclosing local function; "" in the model's graph
	outer     *scope
	constants map[string]*onnxpb.TensorProto // initializers and Constant nodes, by the name of their value
}

// The method 'constant' returns the constant that a node of the scope sees under this name.
func (s *scope) constant(name string) *onnxpb.TensorProto {
	for ; s != nil; s = s.outer {
		if t := s.constants[name]; t != nil {
			return t
		}
	}
	return nil
}

// eachNode calls the function 'visit' for every node of the model, and returns the first error.
func eachNode(m *onnxpb.ModelProto, visit func(*scope, *onnxpb.NodeProto) error) error {
	if err := visitGraph(m.Graph, nil, visit); err != nil {
		return err
	}
	for _, f := range m.Functions {
		s := &scope{function: f.GetName(), constants: constantsOf(nil, f.Node)}
		if err := visitNodes(f.Node, s, visit); err != nil {
			return err
		}
	}
	return nil
}

func visitGraph(g *onnxpb.GraphProto, outer *scope, visit func(*scope, *onnxpb.NodeProto) error) error {
	s := &scope{outer: outer, constants: constantsOf(g.Initializer, g.Node)}
	if outer != nil {
		s.function = outer.function
	}
	return visitNodes(g.Node, s, visit)
}

func visitNodes(nodes []*onnxpb.NodeProto, s *scope, visit func(*scope, *onnxpb.NodeProto) error) error {
	for _, n := range nodes {
		if err := visit(s, n); err != nil {
			return err
		}
		for _, a := range n.Attribute {
			for _, g := range subgraphs(a) {
				if err := visitGraph(g, s, visit); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func subgraphs(a *onnxpb.AttributeProto) []*onnxpb.GraphProto {
	if a.G == nil {
		return a.Graphs
	}
	return append([]*onnxpb.GraphProto{a.G}, a.Graphs...)
}

// constantsOf finds the constants of a graph, and maps the name of each constant to its tensor.
func constantsOf(initializers []*onnxpb.TensorProto, nodes []*onnxpb.NodeProto) map[string]*onnxpb.TensorProto {
	constants := make(map[string]*onnxpb.TensorProto)
	for _, t := range initializers {
		constants[t.GetName()] = t
	}
	for _, n := range nodes {
		if n.GetOpType() != "Constant" || len(n.Output) != 1 {
			continue
		}
		for _, a := range n.Attribute {
			switch {
			case a.GetName() == "value" && a.T != nil:
				constants[n.Output[0]] = a.T
			case a.GetName() == "value_ints":
				constants[n.Output[0]] = intsTensor(a.Ints)
			}
		}
	}
	return constants
}

// eachTensor calls f for every tensor stored in the model's file: weights, sparse weights, and tensors in attributes.
func eachTensor(m *onnxpb.ModelProto, f func(*onnxpb.TensorProto)) {
	v := tensorVisit(f)
	v.graph(m.Graph)
	for _, function := range m.Functions {
		v.attributes(function.AttributeProto)
		v.nodes(function.Node)
	}
}

// A tensorVisit is a function that gets each tensor of a model. Its methods visit parts of the model.
type tensorVisit func(*onnxpb.TensorProto)

func (v tensorVisit) graph(g *onnxpb.GraphProto) {
	v.all(g.Initializer)
	for _, t := range g.SparseInitializer {
		v.sparse(t)
	}
	v.nodes(g.Node)
}

func (v tensorVisit) nodes(all []*onnxpb.NodeProto) {
	for _, n := range all {
		v.attributes(n.Attribute)
	}
}

func (v tensorVisit) attributes(all []*onnxpb.AttributeProto) {
	for _, a := range all {
		v.all([]*onnxpb.TensorProto{a.T})
		v.all(a.Tensors)
		v.sparse(a.SparseTensor)
		for _, t := range a.SparseTensors {
			v.sparse(t)
		}
		for _, g := range subgraphs(a) {
			v.graph(g)
		}
	}
}

func (v tensorVisit) sparse(t *onnxpb.SparseTensorProto) {
	v.all([]*onnxpb.TensorProto{t.GetValues(), t.GetIndices()})
}

func (v tensorVisit) all(tensors []*onnxpb.TensorProto) {
	for _, t := range tensors {
		if t != nil {
			v(t)
		}
	}
}

// These constants limit the number of fields in a model, and the nesting of its messages. A message of two bytes in the
// file can take 250 bytes of memory when it is parsed, so maxFields messages can take a gigabyte. A packed number of
// one byte in the file takes eight bytes of memory. Every packedPerUnit bytes of packed numbers count as one field, so
// packed numbers can also take a gigabyte. The largest models in use have some 10⁵ nodes, and about ten messages and
// fields per node.
const (
	maxFields     = 1 << 22
	packedPerUnit = 32 // number of packed bytes that count as one field
	maxNesting    = 100
)

// checkFields refuses a model with too many fields, because the parsed model would need far more memory than the file.
// It also refuses a model that nests messages more deeply than ONNX Runtime accepts. ONNX Runtime's protobuf
// library stops at 100 levels.
func checkFields(model []byte) error {
	left := maxFields
	return countFields(model, (*onnxpb.ModelProto)(nil).ProtoReflect().Descriptor(), maxNesting, &left)
}

var errDamaged = errors.New("not an ONNX model: damaged or of another format")

func countFields(message []byte, d protoreflect.MessageDescriptor, nesting int, left *int) error {
	if nesting == 0 {
		return fmt.Errorf("not an ONNX model: its graphs are nested more than %d messages deep", maxNesting)
	}
	for len(message) > 0 {
		number, wire, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errDamaged
		}
		message = message[n:]
		size := protowire.ConsumeFieldValue(number, wire, message)
		if size < 0 {
			return errDamaged
		}
		*left--
		if f := d.Fields().ByNumber(number); f != nil && wire == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			switch f.Kind() {
			case protoreflect.MessageKind:
				if err := countFields(value, f.Message(), nesting-1, left); err != nil {
					return err
				}
			case protoreflect.Int64Kind, protoreflect.Int32Kind:
				*left -= len(value) / packedPerUnit
			}
		}
		if *left < 0 {
			return errors.New("not an ONNX model that can be read: it has millions of fields")
		}
		message = message[size:]
	}
	return nil
}
