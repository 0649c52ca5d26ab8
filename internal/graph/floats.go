package graph

import (
	"encoding/binary"
	"math"

	"github.com/x448/float16"

	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// Floats returns the elements of a constant tensor of floats. The elements may be in the model's file or in another
// file. The result 'ok' is false if the tensor's elements are not floats, or if the number of elements does not fit the
// tensor's shape.
func (f *File) Floats(t *onnxpb.TensorProto) (values []float64, ok bool) {
	data := t.RawData
	if w, external := weightOf(f.Weights, t); external {
		data = w.data
	}
	n := saturatedProduct(t.Dims)
	if len(t.Dims) == 0 {
		n = 1
	}
	var element func(b []byte) float64
	width := 0
	switch ElemType(t.GetDataType()) {
	case Float32:
		if len(data) == 0 {
			for _, x := range t.FloatData {
				values = append(values, float64(x))
			}
			return values, int64(len(values)) == n
		}
		width, element = 4, func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) }
	case Float64:
		width, element = 8, func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }
	case Float16:
		if len(data) == 0 { // the field int32_data holds the bits of each number
			for _, x := range t.Int32Data {
				values = append(values, float64(float16.Frombits(uint16(x)).Float32()))
			}
			return values, int64(len(values)) == n
		}
		width = 2
		element = func(b []byte) float64 { return float64(float16.Frombits(binary.LittleEndian.Uint16(b)).Float32()) }
	default:
		return nil, false
	}
	if int64(len(data)) != n*int64(width) {
		return nil, false
	}
	values = make([]float64, n)
	for i := range values {
		values[i] = element(data[i*width:])
	}
	return values, true
}

// Ints returns the elements of an int64 tensor. The second result is false if the tensor has another type, or if its
// elements are not in the graph (see readExternal).
func (f *File) Ints(t *onnxpb.TensorProto) ([]int64, bool) { return int64sOf(t) }
