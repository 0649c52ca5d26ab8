package graph

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// All column inputs must have the same batch dimension. Two inputs of the fixed shape [48] are two vectors, not two
// columns.
func TestOneColumnEach(t *testing.T) {
	info := func(t ElemType, dims ...int) TensorInfo {
		v := TensorInfo{Name: "x", Type: t, Kind: "tensor"}
		for _, d := range dims {
			v.Shape = append(v.Shape, Dim{Size: d})
		}
		return v
	}
	for _, c := range []struct {
		inputs []TensorInfo
		want   bool
	}{
		{[]TensorInfo{info(Float32, -1, 1), info(Float64, -1, 1)}, true},
		{[]TensorInfo{info(Float32, -1), info(Float32, -1, 1)}, true},
		{[]TensorInfo{info(Float32, 1, 1), info(Float32, 1, 1)}, true},
		{[]TensorInfo{info(Float32, 1), info(Float32, 1)}, true},
		{[]TensorInfo{info(Float32, -1, 1)}, false},
		{[]TensorInfo{info(Float32, -1, 1), info(Float32, 1, 1)}, false},
		{[]TensorInfo{info(Float32, 48), info(Float32, 48)}, false},
		{[]TensorInfo{info(Float32, -1, 1), info(Float32, -1, 2)}, false},
		{[]TensorInfo{info(Float32, -1, 1), info(String, -1, 1)}, false},
		{[]TensorInfo{info(Float32, -1, 1), {Name: "y", Kind: "sequence"}}, false},
	} {
		if got := oneColumnEach(c.inputs); got != c.want {
			t.Errorf("%v: %v", c.inputs, got)
		}
	}
}

// A model that uses none of ONNX's own operators need not import them.
func TestOpset(t *testing.T) {
	m := &onnxpb.ModelProto{OpsetImport: []*onnxpb.OperatorSetIdProto{{Domain: proto.String(machineLearning), Version: proto.Int64(1)}}}
	if v := Opset(m); v != 13 || len(m.OpsetImport) != 2 || Opset(m) != 13 || len(m.OpsetImport) != 2 {
		t.Errorf("version %d, imports %v", v, m.OpsetImport)
	}
}
