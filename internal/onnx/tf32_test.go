package onnx

import (
	"context"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// imitateTF32 adds nodes to the convolutional net that the function 'probe' builds, and returns the result. These nodes
// round both factors of the convolutions and of the matrix product to 11 bits of precision, as TF32 does on a GPU. The
// nodes use Veltkamp's split in float32, x·(2¹³+1) − (x·(2¹³+1) − x).
func imitateTF32(t *testing.T) program {
	t.Helper()
	g, err := probe(probeBatch)
	if err != nil {
		t.Fatal(err)
	}
	var m onnxpb.ModelProto
	if err := proto.Unmarshal(g.model, &m); err != nil {
		t.Fatal(err)
	}
	m.Graph.Initializer = append(m.Graph.Initializer,
		&onnxpb.TensorProto{Name: proto.String("split"), DataType: proto.Int32(int32(graph.Float32)), FloatData: []float32{1<<13 + 1}})
	var nodes []*onnxpb.NodeProto
	rounded := 0
	for _, n := range m.Graph.Node {
		if op := n.GetOpType(); op == "Conv" || op == "Gemm" {
			for i, x := range n.Input {
				nodes = append(nodes, graph.Node("Mul", []string{x, "split"}, x+"_m"), graph.Node("Sub", []string{x + "_m", x}, x+"_d"),
					graph.Node("Sub", []string{x + "_m", x + "_d"}, x+"_r"))
				n.Input[i] = x + "_r"
				rounded++
			}
		}
		nodes = append(nodes, n)
	}
	m.Graph.Node = nodes
	if rounded != 8 {
		t.Fatalf("%d factors are rounded", rounded)
	}
	if g.model, err = proto.Marshal(&m); err != nil {
		t.Fatal(err)
	}
	return g
}

// TestTF32IsTold checks that the probe distinguishes float32 from an imitation of TF32 on the CPU. The largest error of
// the imitation must not be close to the threshold that separates the two precisions.
func TestTF32IsTold(t *testing.T) {
	openRuntime(t)
	run := func(g program) []float32 {
		s, scores, err := runProbeOf(context.Background(), g, CPU, F32)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		return scores
	}
	plainGraph, err := probe(probeBatch)
	if err != nil {
		t.Fatal(err)
	}
	exact, rounded := run(plainGraph), run(imitateTF32(t))
	var worst, largest float64
	for i := range exact {
		worst, largest = max(worst, math.Abs(float64(rounded[i]-exact[i]))), max(largest, math.Abs(float64(exact[i])))
	}
	t.Logf("largest error %.1e of the largest score", worst/largest)
	if e := worst / largest; e < 2e-4 || e > 1e-3 {
		t.Errorf("the error is %g of the largest score", e)
	}
	has := cudaProvider.precisions
	if got := precisionOf(rounded, exact, has); got != TF32 {
		t.Errorf("TF32 is taken for %v", got)
	}
	if got := precisionOf(exact, exact, has); got != F32 {
		t.Errorf("float32 is taken for %v", got)
	}
}

// A device that computes in float32 must be accepted if TF32 is requested, and refused if float16 is requested.
func TestTF32IsAllowed(t *testing.T) {
	r := openRuntime(t)
	p := units([]string{"A"}, failOn(nil))
	p.precisions = cudaProvider.precisions
	for _, precision := range p.precisions {
		if err := r.checkArithmetic(t.Context(), Device{p, "0"}, precision); err != nil {
			t.Errorf("%v: %v", precision, err)
		}
	}
	p.device, p.precisions = "others", []Precision{F16, TF32}
	if err := r.checkArithmetic(t.Context(), Device{p, "0"}, F16); err == nil {
		t.Error("float32 is taken for float16")
	}
}

// The significands of float32, bfloat16, float16 and TF32 have 24, 8, 11 and 11 bits, including the leading bit.
func TestUnit(t *testing.T) {
	for precision, bits := range map[Precision]int{F32: 24, BF16: 8, F16: 11, TF32: 11} {
		if got, want := precision.unit(), math.Ldexp(1, -bits); got != want {
			t.Errorf("half a unit in the last place of 1 is %g for %v, want %g", got, precision, want)
		}
	}
}
