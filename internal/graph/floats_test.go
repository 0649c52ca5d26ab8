package graph

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// TestFloats reads tensors whose numbers are in a typed field, in raw bytes or in another file. It also checks that
// Floats refuses wrong types and wrong numbers of elements.
func TestFloats(t *testing.T) {
	want := []float64{1.5, -2, 0.0625}
	var singles, doubles, halves []byte
	for _, x := range want {
		singles = binary.LittleEndian.AppendUint32(singles, math.Float32bits(float32(x)))
		doubles = binary.LittleEndian.AppendUint64(doubles, math.Float64bits(x))
	}
	for _, h := range []uint16{0x3e00, 0xc000, 0x2c00} {
		halves = binary.LittleEndian.AppendUint16(halves, h)
	}
	f := &File{Weights: Weights{"key": {data: singles}}}
	external := &onnxpb.TensorProto{DataType: proto.Int32(int32(Float32)), Dims: []int64{3}}
	point(external, "key")
	for name, tensor := range map[string]*onnxpb.TensorProto{
		"float field":  {DataType: proto.Int32(int32(Float32)), Dims: []int64{3}, FloatData: []float32{1.5, -2, 0.0625}},
		"float bytes":  {DataType: proto.Int32(int32(Float32)), Dims: []int64{3, 1}, RawData: singles},
		"double bytes": {DataType: proto.Int32(int32(Float64)), Dims: []int64{3}, RawData: doubles},
		"half field":   {DataType: proto.Int32(int32(Float16)), Dims: []int64{3}, Int32Data: []int32{0x3e00, 0xc000, 0x2c00}},
		"half bytes":   {DataType: proto.Int32(int32(Float16)), Dims: []int64{3}, RawData: halves},
		"file":         external,
	} {
		if got, ok := f.Floats(tensor); !ok || !slices.Equal(got, want) {
			t.Errorf("%s: %v %v", name, got, ok)
		}
	}
	for name, tensor := range map[string]*onnxpb.TensorProto{
		"too few":  {DataType: proto.Int32(int32(Float32)), Dims: []int64{4}, RawData: singles},
		"no field": {DataType: proto.Int32(int32(Float32)), Dims: []int64{4}, FloatData: []float32{1}},
		"integers": {DataType: proto.Int32(int32(Int64)), Dims: []int64{1}, Int64Data: []int64{1}},
		"scalar":   {DataType: proto.Int32(int32(Float32)), RawData: singles},
	} {
		if got, ok := f.Floats(tensor); ok {
			t.Errorf("%s: %v", name, got)
		}
	}
}
