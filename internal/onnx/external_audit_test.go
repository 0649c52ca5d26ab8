//go:build audit

package onnx

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// TestAuditLargeModel runs a model with 2.4 GB of weights, most of which are 0. The model computes y = x·A·B₁·B₂·C. B₁
// and B₂ consist of zeros and ones, and the ones are spread over the whole file. The product B₁·B₂ is the identity. The
// test takes 6 GB of memory on the CPU provider, and 14 GB on OpenVINO (RSCERT_AUDIT_DEVICE=openvino).
func TestAuditLargeModel(t *testing.T) {
	const in, wide, huge = 48, 1024, 292_000
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "w.data"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := newModel("x", graph.Float32, "N", in).weights("A", graph.Float32, in, wide).weights("C", graph.Float32, wide, 4)
	offset := int64(0)
	sparse := func(name string, rows, columns int64, at func(i int64) int64) {
		for i := range int64(wide) {
			if _, err := f.WriteAt(binary.LittleEndian.AppendUint32(nil, math.Float32bits(1)), offset+4*at(i)); err != nil {
				t.Fatal(err)
			}
		}
		size := 4 * rows * columns
		b.Graph.Initializer = append(b.Graph.Initializer, &onnxpb.TensorProto{
			Name: proto.String(name), DataType: proto.Int32(int32(graph.Float32)), Dims: []int64{rows, columns},
			DataLocation: onnxpb.TensorProto_EXTERNAL.Enum(),
			ExternalData: entries("location", "w.data", "offset", strconv.FormatInt(offset, 10), "length", strconv.FormatInt(size, 10)),
		})
		offset += size
	}
	sparse("B1", wide, huge, func(i int64) int64 { return i*huge + i*285 })
	sparse("B2", huge, wide, func(i int64) int64 { return i*285*wide + i })
	if err := f.Truncate(offset); err != nil || offset <= math.MaxInt32 {
		t.Fatal(err, offset)
	}
	b.node("MatMul", "x A", "a").node("MatMul", "a B1", "b").node("MatMul", "b B2", "c").node("MatMul", "c C", "y").output("y", graph.Float32, "N", 4)
	file, err := graph.ReadModel(writeFile(t, filepath.Join(dir, "m.onnx"), b.bytes(t)))
	if err != nil {
		t.Fatal(err)
	}
	r, d := openRuntime, CPU
	if os.Getenv("RSCERT_AUDIT_DEVICE") == "openvino" {
		r, d = func(t testing.TB) *Runtime { r, _ := openOpenVINO(t); return r }, device(t, "openvino")
	}
	m, err := r(t).LoadFile(t.Context(), file, LoadOptions{Device: d, Batch: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	samples := randomSamples(in)[:16]
	got := scores(t, m, samples)
	for s, x := range samples {
		for k := range 4 {
			var want float64
			for j := range wide {
				var a float64
				for i, v := range x {
					a += float64(v) * weightAt(b, "A", i*wide+j)
				}
				want += a * weightAt(b, "C", j*4+k)
			}
			if math.Abs(want-float64(got[s][k])) > 1e-3*max(1, math.Abs(want)) {
				t.Fatalf("sample %d: score %d is %v, want %v", s, k, got[s][k], want)
			}
		}
	}
}

// weightAt returns a value of an initializer.
func weightAt(b *modelBuilder, name string, i int) float64 {
	for _, t := range b.Graph.Initializer {
		if t.GetName() == name {
			return float64(math.Float32frombits(binary.LittleEndian.Uint32(t.RawData[4*i:])))
		}
	}
	panic(name)
}
