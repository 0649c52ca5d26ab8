package graph

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// This file rewrites users' models into the form that the rest of the package expects. In this form a model has one
// input, whose rows hold floats, and one tensor of scores. An edit adds deterministic nodes before or after the model's
// own nodes, or removes a ZipMap node. The certified classifier is the edited model. Adaptation.Changes records every
// edit.

// Intake says how rscert converts the values that it passes to a model's input.
type Intake int

// The intake Floats leaves the values unchanged. The intakes Integers and Bytes round the values.
const (
	Floats   Intake = iota
	Integers        // values are rounded to the nearest integer (halves up) and clamped to the type's range
	Bytes           // values are rounded to the nearest integer (halves up) and clamped to 0…255
)

// Adaptation records the edits that the function 'adapt' made to a model.
type Adaptation struct {
	Input   string // the input's element type and shape, as the file declares them
	Output  string // the element type and shape of the output with the scores
	Intake  Intake
	Changes []string // one line per edit; run.json lists these lines
	Notes   []string // notes for the user
}

// adapt edits the model's graph, and adds a note that lists the labels of the model's classes. It removes ZipMap nodes,
// so that the output is a tensor and not a list of maps. If each input is one column of a table, adapt joins the inputs
// into one. If an input takes integers, adapt adds nodes that round the values. The argument 'info' describes the file.
// The argument 'columns' lists the names of the data's columns; it is nil if the columns are unnamed.
func adapt(m *onnxpb.ModelProto, info *Info, columns []string) (a Adaptation, err error) {
	a.Input = List(info.Inputs)
	a.noteLabels(classLabels(m.Graph))
	a.unwrapZipMaps(m)
	if err = checkTokens(m, info); err != nil {
		return a, err
	}
	if oneColumnEach(info.Inputs) {
		err = a.joinColumns(m, info.Inputs, columns)
	} else if len(info.Inputs) == 1 {
		a.roundInput(m.Graph, info.Inputs[0])
	}
	return a, err
}

// Adapt returns a copy of the model that is ready to run. The copy has one input of rows of floats, and one output with
// the scores. The argument 'output' names that output; if it is empty, Adapt chooses the output. The argument 'columns'
// lists the names of the data's columns; it is nil if the columns are unnamed. Adapt refuses a model that cannot take
// this form. It also refuses a model that draws random numbers or has unknown operators.
func (f *File) Adapt(columns []string, output string) (*Classifier, error) {
	m := editable(f.Model)
	sortNodes(m.Graph) // sorting fails if the graph has a cycle; ONNX Runtime reports this later
	info, err := describe(m)
	if err != nil {
		return nil, err
	}
	if err := checkOperators(m); err != nil {
		return nil, err
	}
	if err := checkTrees(m); err != nil {
		return nil, err
	}
	if err := checkSizes(m, min(maxConstants, roomForModels())); err != nil {
		return nil, err
	}
	a, err := adapt(m, info, columns)
	if err != nil {
		return nil, err
	}
	declared := info.Outputs
	if info, err = describe(m); err != nil {
		return nil, err
	}
	c, err := readContract(info, output)
	if err != nil {
		return nil, err
	}
	a.Output = declaredOutput(declared, c.Output.Name)
	return &Classifier{Proto: m, Weights: f.Weights, Contract: c, Adapted: a, Outputs: info.Outputs}, nil
}

// Classifier is a model that is ready to run.
type Classifier struct {
	Proto    *onnxpb.ModelProto
	Weights  Weights
	Contract Contract
	Adapted  Adaptation
	Outputs  []TensorInfo // all outputs of the edited model
}

// declaredOutput returns the named output as the file declares it.
func declaredOutput(outputs []TensorInfo, name string) string {
	k := slices.IndexFunc(outputs, func(o TensorInfo) bool { return o.Name == name })
	return outputs[k].String()
}

// Change records an edit of the model.
func (a *Adaptation) Change(format string, args ...any) {
	a.Changes = append(a.Changes, fmt.Sprintf(format, args...))
}

// The function 'editable' returns a copy of the model whose graph can be edited. Callers may replace nodes and inputs
// of the copy. They must not change a node or a tensor in place, because the copy shares its nodes and tensors with the
// model.
func editable(m *onnxpb.ModelProto) *onnxpb.ModelProto {
	g := &onnxpb.GraphProto{
		Name: m.Graph.Name, Node: slices.Clone(m.Graph.Node), Initializer: m.Graph.Initializer, SparseInitializer: m.Graph.SparseInitializer,
		ValueInfo: m.Graph.ValueInfo,
	}
	for _, v := range m.Graph.Input {
		g.Input = append(g.Input, proto.CloneOf(v))
	}
	for _, v := range m.Graph.Output {
		g.Output = append(g.Output, proto.CloneOf(v))
	}
	g.ProtoReflect().SetUnknown(m.Graph.ProtoReflect().GetUnknown())
	c := &onnxpb.ModelProto{
		IrVersion: m.IrVersion, ProducerName: m.ProducerName, ProducerVersion: m.ProducerVersion, Graph: g,
		OpsetImport: slices.Clone(m.OpsetImport), Functions: m.Functions,
	}
	c.ProtoReflect().SetUnknown(m.ProtoReflect().GetUnknown())
	return c
}

// Opset returns the version of ONNX's own operators in the model. If the model does not import these operators, because
// it uses none of them, Opset adds the import.
func Opset(m *onnxpb.ModelProto) int64 {
	for _, o := range m.OpsetImport {
		if domainOf(o.GetDomain()) == "" {
			return o.GetVersion()
		}
	}
	const any = 13
	m.OpsetImport = append(m.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: proto.String(""), Version: proto.Int64(any)})
	return any
}

// setType sets the declared type of a graph's input or output.
func setType(v *onnxpb.ValueInfoProto, t ElemType) {
	v.GetType().GetTensorType().ElemType = proto.Int32(int32(t))
}

// Note adds a note for the user.
func (a *Adaptation) Note(format string, args ...any) {
	a.Notes = append(a.Notes, fmt.Sprintf(format, args...))
}
