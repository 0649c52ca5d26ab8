package graph

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/quote"
)

const machineLearning = "ai.onnx.ml"

// unwrapZipMaps removes ZipMap nodes. A ZipMap node turns a tensor of probabilities [N,m] into a list of dictionaries,
// which is an output of the graph. unwrapZipMaps makes the tensor the output and gives it the output's name.
func (a *Adaptation) unwrapZipMaps(m *onnxpb.ModelProto) {
	g := m.Graph
	for i, n := range g.Node {
		if n.GetOpType() != "ZipMap" || n.GetDomain() != machineLearning || len(n.Input) != 1 || len(n.Output) != 1 {
			continue
		}
		k := slices.IndexFunc(g.Output, func(v *onnxpb.ValueInfoProto) bool { return v.GetName() == n.Output[0] })
		if k < 0 {
			continue
		}
		Opset(m)
		out := FloatTensor(n.Output[0], []int64{1, 1})
		dims := out.GetType().GetTensorType().GetShape().Dim
		dims[0].Value, dims[1].Value = nil, nil // free, because a ZipMap node need not say how many classes there are
		if ints, texts := classLabels(n); len(ints)+len(texts) > 0 {
			dims[1].Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(len(ints) + len(texts))}
			a.noteLabels(ints, texts)
		}
		g.Output[k] = out
		g.Node[i] = Node("Identity", n.Input, n.Output[0])
		g.Node[i].Name = proto.String(n.GetName())
		a.Change("output '%s': the tensor in front of ZipMap", quote.Name(n.Output[0]))
	}
}

// noteLabels adds a note that lists the labels of the model's classes, unless each class k has the label k.
func (a *Adaptation) noteLabels(ints []int64, texts []string) {
	var names []string
	plain := len(texts) == 0
	for k, label := range ints {
		plain = plain && label == int64(k)
		names = append(names, fmt.Sprint(label))
	}
	for _, t := range texts {
		names = append(names, fmt.Sprintf("'%s'", quote.Name(t)))
	}
	if plain {
		return
	}
	if len(names) > maxListed {
		names = append(names[:maxListed], "…")
	}
	a.Notes = append(a.Notes, fmt.Sprintf("its classes 0, 1, … are the labels %s", strings.Join(names, ", ")))
}

// classLabels returns the class labels stored in one of scikit-learn's nodes.
func classLabels(n *onnxpb.NodeProto) (ints []int64, texts []string) {
	for _, a := range n.Attribute {
		switch a.GetName() {
		case "classlabels_int64s", "classlabels_ints":
			ints = a.Ints
		case "classlabels_strings":
			texts = stringsOf(a)
		}
	}
	return ints, texts
}

// stringsOf parses the strings of the attribute. They are in field 9, which rscert's onnx.proto omits.
func stringsOf(a *onnxpb.AttributeProto) (texts []string) {
	const field = 9
	for rest := []byte(a.ProtoReflect().GetUnknown()); len(rest) > 0; {
		number, wire, n := protowire.ConsumeField(rest)
		if n < 0 {
			return nil
		}
		if number == field && wire == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(rest)
			text, _ := protowire.ConsumeBytes(rest[tag:])
			texts = append(texts, string(text))
		}
		rest = rest[n:]
	}
	return texts
}
