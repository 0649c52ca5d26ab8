package graph

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/quote"
)

// ClassLabels returns the labels of the model's classes, in the model's order, as text. Models that were exported from
// scikit-learn or from a library for gradient boosting hold these labels. The result is nil if the graph holds no
// labels, if two outputs have different labels, or if each class k has the label k.
func (f *File) ClassLabels() []string { return classLabels(f.Model.Graph) }

func classLabels(g *onnxpb.GraphProto) (labels []string) {
	producers := make(map[string]*onnxpb.NodeProto)
	for _, n := range g.Node {
		for _, name := range n.Output {
			producers[name] = n
		}
	}
	for _, out := range g.Output {
		found := labelsBehind(g, producers, out.GetName())
		if len(found) == 0 {
			continue
		}
		if labels != nil && !slices.Equal(labels, found) {
			return nil
		}
		labels = found
	}
	for k, label := range labels {
		if label != strconv.Itoa(k) {
			return labels
		}
	}
	return nil
}

// labelsBehind finds the node that chooses a label for an output, and returns all labels that this node can choose. The
// node lists the labels in an attribute or, if it is an ArrayFeatureExtractor, takes them from an initializer. Between
// this node and the output there may be nodes that only change the type or the shape.
func labelsBehind(g *onnxpb.GraphProto, producers map[string]*onnxpb.NodeProto, name string) []string {
	for range len(g.Node) { // a graph that is not valid may have a cycle
		n := producers[name]
		if n == nil || len(n.Input) == 0 {
			return nil
		}
		if labels := nodeLabels(n); len(labels) > 0 {
			return labels
		}
		switch n.GetOpType() {
		case "ArrayFeatureExtractor":
			return initialLabels(g, n.Input[0])
		case "Identity", "Cast", "Reshape", "Squeeze", "Flatten":
			name = n.Input[0]
		default:
			return nil
		}
	}
	return nil
}

// nodeLabels returns the class labels in the attributes of a node. Classifier nodes and ZipMap nodes that were exported
// from scikit-learn have such attributes.
func nodeLabels(n *onnxpb.NodeProto) (labels []string) {
	for _, a := range n.Attribute {
		switch a.GetName() {
		case "classlabels_int64s", "classlabels_ints":
			for _, label := range a.Ints {
				labels = append(labels, strconv.FormatInt(label, 10))
			}
		case "classlabels_strings":
			labels = append(labels, stringsOf(a)...)
		}
	}
	return labels
}

// initialLabels returns the labels in the initializer of the given name. The labels are strings or integers. It returns
// nil if the graph has no initializer of this name.
func initialLabels(g *onnxpb.GraphProto, name string) (labels []string) {
	const stringsField = 6 // number of the field string_data in TensorProto
	for _, t := range g.Initializer {
		switch {
		case t.GetName() != name:
		case t.GetDataType() == int32(onnxpb.TensorProto_STRING):
			return unknownStrings(t, stringsField)
		case t.GetDataType() == int32(onnxpb.TensorProto_INT32) && len(t.RawData) == 0:
			for _, label := range t.Int32Data {
				labels = append(labels, strconv.Itoa(int(label)))
			}
			return labels
		default:
			values, _ := int64sOf(t)
			for _, label := range values {
				labels = append(labels, strconv.FormatInt(label, 10))
			}
			return labels
		}
	}
	return nil
}

// stringsOf returns the strings of an attribute.
func stringsOf(a *onnxpb.AttributeProto) []string {
	const field = 9
	return unknownStrings(a, field)
}

// unknownStrings returns the strings in a field of the message. It is for fields that rscert's onnx.proto omits.
func unknownStrings(m proto.Message, field protowire.Number) (texts []string) {
	for rest := []byte(m.ProtoReflect().GetUnknown()); len(rest) > 0; {
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

// noteLabels adds a note that lists the labels of the model's classes.
func (a *Adaptation) noteLabels(labels []string) {
	var names []string
	for _, label := range labels {
		if _, err := strconv.Atoi(label); err != nil {
			label = fmt.Sprintf("'%s'", quote.Name(label))
		}
		names = append(names, label)
	}
	if len(names) > maxListed {
		names = append(names[:maxListed], "…")
	}
	if len(names) > 0 {
		a.Note("its classes 0, 1, … are the labels %s", strings.Join(names, ", "))
	}
}
