package graph

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/quote"
)

// ElemType is ONNX's number for the element type of a tensor.
type ElemType int32

// These element types are allowed for a model's input and scores.
const (
	Float32 = ElemType(onnxpb.TensorProto_FLOAT)
	Float64 = ElemType(onnxpb.TensorProto_DOUBLE)
	Float16 = ElemType(onnxpb.TensorProto_FLOAT16)
)

// These are other element types.
const (
	BFloat16 = ElemType(onnxpb.TensorProto_BFLOAT16)
	Bool     = ElemType(onnxpb.TensorProto_BOOL)
	Int32    = ElemType(onnxpb.TensorProto_INT32)
	Int64    = ElemType(onnxpb.TensorProto_INT64)
	Uint64   = ElemType(onnxpb.TensorProto_UINT64)
	String   = ElemType(onnxpb.TensorProto_STRING)
)

func (t ElemType) String() string {
	switch t {
	case Float32:
		return "float32"
	case Float64:
		return "float64"
	case Float16:
		return "float16"
	}
	if name, ok := onnxpb.TensorProto_DataType_name[int32(t)]; ok {
		return strings.ToLower(name)
	}
	return "type " + strconv.Itoa(int(t))
}

// IsFloat reports whether t is one of the floating-point types that rscert accepts for a model's input and scores.
func (t ElemType) IsFloat() bool { return t == Float32 || t == Float64 || t == Float16 }

// Dim is one dimension of a tensor: a size, or a name if the size is known only at run time.
type Dim struct {
	Size int    // −1 if symbolic
	Name string // name of a symbolic dimension, possibly empty
}

func (d Dim) String() string {
	switch {
	case d.Size >= 0:
		return strconv.Itoa(d.Size)
	case d.Name != "":
		return quote.Name(d.Name)
	}
	return "?"
}

// TensorInfo describes an input or output of a model as the model's graph declares it.
type TensorInfo struct {
	Name    string
	Type    ElemType
	Shape   []Dim
	Unknown bool   // the graph declares no shape
	Kind    string // "tensor", "sequence", "map", …
}

func (t TensorInfo) String() string {
	if t.Kind != "tensor" {
		return fmt.Sprintf("'%s' (a %s)", quote.Name(t.Name), t.Kind)
	}
	return fmt.Sprintf("'%s' %s %s", quote.Name(t.Name), t.Type, t.shape())
}

func (t TensorInfo) shape() string {
	if t.Unknown {
		return "[…]"
	}
	var dims []string
	for i, d := range t.Shape {
		if i == maxPrintedDims {
			dims = append(dims, "…")
			break
		}
		dims = append(dims, d.String())
	}
	return "[" + strings.Join(dims, ",") + "]"
}

// Info describes a model as its file declares it.
type Info struct {
	Inputs  []TensorInfo // inputs without an initializer
	Outputs []TensorInfo
	Opset   int64 // version of the default operator domain
	// Producer is the program that wrote the file, for example "pytorch 2.4.0".
	Producer string
}

// maxPrintedDims limits how many dimensions of a shape are printed.
const maxPrintedDims = 8

// maxDim limits the size of a dimension. A larger size indicates a damaged file.
const maxDim = 1<<31 - 1

// parseProto parses a model file. It refuses damaged files and files without a graph.
func parseProto(model []byte) (*onnxpb.ModelProto, error) {
	if len(model) > maxModel {
		return nil, errTooLarge
	}
	if err := otherFormat(model); err != nil {
		return nil, err
	}
	if err := checkFields(model); err != nil {
		return nil, err
	}
	m := new(onnxpb.ModelProto)
	if err := proto.Unmarshal(model, m); err != nil {
		return nil, errDamaged
	}
	if m.Graph == nil || len(m.Graph.Node) == 0 || len(m.Graph.Output) == 0 {
		return nil, errors.New("not an ONNX model: it holds no graph")
	}
	return m, nil
}

// The function 'describe' lists the inputs and outputs of a model, and names the program that wrote the file.
func describe(m *onnxpb.ModelProto) (*Info, error) {
	info := &Info{Producer: quote.Name(strings.TrimSpace(m.GetProducerName() + " " + m.GetProducerVersion()))}
	for _, o := range m.OpsetImport {
		if o.GetDomain() == "" || o.GetDomain() == "ai.onnx" {
			info.Opset = o.GetVersion()
		}
	}
	filled := make(map[string]bool)
	for _, t := range m.Graph.Initializer {
		filled[t.GetName()] = true
	}
	for _, v := range m.Graph.Input {
		if filled[v.GetName()] {
			continue // before IR version 4, weights are also inputs
		}
		t, err := tensorInfo(v)
		if err != nil {
			return nil, fmt.Errorf("input %w", err)
		}
		info.Inputs = append(info.Inputs, t)
	}
	for _, v := range m.Graph.Output {
		t, err := tensorInfo(v)
		if err != nil {
			return nil, fmt.Errorf("output %w", err)
		}
		info.Outputs = append(info.Outputs, t)
	}
	return info, nil
}

func tensorInfo(v *onnxpb.ValueInfoProto) (TensorInfo, error) {
	info := TensorInfo{Name: v.GetName(), Kind: "tensor", Unknown: true}
	t := v.GetType().GetTensorType()
	if t == nil {
		switch {
		case v.GetType().GetSequenceType() != nil:
			info.Kind = "sequence"
		case v.GetType().GetMapType() != nil:
			info.Kind = "map"
		default:
			info.Kind = "value of unknown type"
		}
		return info, nil
	}
	info.Type = ElemType(t.GetElemType())
	if t.Shape == nil {
		return info, nil
	}
	info.Unknown = false
	info.Shape = make([]Dim, len(t.Shape.Dim))
	for i, d := range t.Shape.Dim {
		info.Shape[i] = Dim{Size: -1, Name: d.GetDimParam()}
		if _, fixed := d.GetValue().(*onnxpb.TensorShapeProto_Dimension_DimValue); fixed {
			size := d.GetDimValue()
			if size > maxDim {
				return info, fmt.Errorf("'%s': dimension %d is %d", quote.Name(info.Name), i, size)
			}
			if size > 0 { // some exporters write 0 or −1 for a free dimension
				info.Shape[i] = Dim{Size: int(size)}
			}
		}
	}
	return info, nil
}

// otherFormat recognises files of some formats other than ONNX. For such a file it returns an error with advice.
func otherFormat(file []byte) error {
	for _, f := range []struct{ magic, what, advice string }{
		{"\x1f\x8b", "a gzip file", "unpack it first: gunzip FILE"},
		{"PK\x03\x04", "a zip archive, as PyTorch and Keras write them", "export the model as ONNX (docs/my-model.md)"},
		{"\x89HDF", "HDF5, as Keras writes it", "export the model as ONNX (docs/my-model.md)"},
	} {
		if bytes.HasPrefix(file, []byte(f.magic)) {
			return hint.New("not an ONNX model: "+f.what, f.advice)
		}
	}
	return nil
}
