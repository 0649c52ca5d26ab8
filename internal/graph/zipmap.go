package graph

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/quote"
)

const machineLearning = "ai.onnx.ml"

// If the result of a ZipMap node is an output of the graph, unwrapZipMaps replaces the node by an Identity node. A
// ZipMap node turns a tensor of probabilities [N,m] into a list of dictionaries. The Identity node outputs the tensor
// itself, under the name of the list.
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
		if labels := nodeLabels(n); len(labels) > 0 {
			dims[1].Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(len(labels))}
		}
		g.Output[k] = out
		g.Node[i] = Node("Identity", n.Input, n.Output[0])
		g.Node[i].Name = proto.String(n.GetName())
		a.Change("output '%s': the tensor in front of ZipMap", quote.Name(n.Output[0]))
	}
}
