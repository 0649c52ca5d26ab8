package calibrator_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/calibrator"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/ortlib"
)

// The test compares the graph in ONNX Runtime with the map, for every method and kind of output. The outputs of the
// graph and of the map must agree to the accuracy of float32.
func TestGraphIsTheMap(t *testing.T) {
	path, err := ortlib.FindFor(ortlib.Build{}, "")
	if err != nil {
		t.Fatal(err)
	}
	runtime, err := onnx.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(4, 4))
	for _, shape := range []struct {
		input            calibrator.Input
		columns, classes int
	}{
		{calibrator.Logits, 5, 5}, {calibrator.Logits, 2, 2}, {calibrator.Logits, 1, 2},
		{calibrator.Probabilities, 5, 5}, {calibrator.Probabilities, 2, 2}, {calibrator.Probabilities, 1, 2},
	} {
		d := calibrator.Data{Input: shape.input, Columns: shape.columns, Classes: shape.classes}
		var in []float32
		for range 608 { // 608 is a multiple of the number of rows per call of ONNX Runtime
			row := make([]float64, shape.columns)
			for k := range row {
				row[k] = 4 * rng.NormFloat64()
			}
			if shape.input == calibrator.Probabilities && shape.columns == 1 {
				row[0] = rng.Float64()
			} else if shape.input == calibrator.Probabilities {
				row = calib.Softmax(row, len(row), 1)
			}
			for _, x := range row {
				in = append(in, float32(x))
				d.Values = append(d.Values, float64(float32(x)))
			}
			d.Label = append(d.Label, rng.IntN(shape.classes))
		}
		held := make([]bool, len(d.Label))
		for i := range held {
			held[i] = i%2 == 0
		}
		for _, method := range calibrator.Methods {
			// The fit uses half of the rows, and the comparison uses the held-out half, because the isotonic map jumps
			// at the examples of its fit.
			fitted, _ := d.Split(held)
			m, err := method.Fit(fitted, calibrator.Options{L2: 1e-3, L2Bias: 1e-2, Penalty: calibrator.ODIR, Bins: 8})
			if err != nil {
				t.Fatal(err)
			}
			behind, err := m.ONNX()
			if err != nil {
				t.Fatal(err)
			}
			model, err := runtime.Load(behind, onnx.LoadOptions{Device: onnx.CPU, Batch: len(d.Label), Outputs: graph.Probabilities})
			if err != nil {
				t.Fatalf("%s of %d %s: %v", method.Name, shape.columns, shape.input, err)
			}
			out := make([]float32, len(d.Label)*shape.classes)
			if err := model.Run(t.Context(), in, out); err != nil {
				t.Fatal(err)
			}
			// In a few rows, rounding moves the computed log-odds to the other side of a step of the map.
			far, worst := 0, 0.0
			for i, p := range m.Apply(d.Values) {
				if !held[i/shape.classes] {
					continue
				}
				if gap := math.Abs(p - float64(out[i])); gap > 4e-6 {
					far++
				} else {
					worst = max(worst, gap)
				}
			}
			stepped := shape.input == calibrator.Logits && (method.Name == "isotonic" || method.Name == "histogram" || method.Name == "venn-abers")
			if far > 0 && !(stepped && far <= len(out)/100) {
				t.Errorf("%s of %d %s: %d of %d differ", method.Name, shape.columns, shape.input, far, len(out))
			}
			t.Logf("%s of %d %s: worst difference %.2g", method.Name, shape.columns, shape.input, worst)
			if err := model.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// At the knots of a Venn–Abers map, the graph and the map use the same values of p₀ and p₁.
func TestGraphAtKnots(t *testing.T) {
	path, err := ortlib.FindFor(ortlib.Build{}, "")
	if err != nil {
		t.Fatal(err)
	}
	runtime, err := onnx.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	d := calibrator.Data{Input: calibrator.Probabilities, Columns: 1, Classes: 2}
	var in []float32
	for i := range 64 {
		s := float64(i%16) / 16
		d.Values, in = append(d.Values, s), append(in, float32(s))
		label := 0
		if i*i*7%17 < i%16 {
			label = 1
		}
		d.Label = append(d.Label, label)
	}
	method, err := calibrator.Choices().Parse("venn-abers")
	if err != nil {
		t.Fatal(err)
	}
	m, err := method.Fit(d, calibrator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	behind, err := m.ONNX()
	if err != nil {
		t.Fatal(err)
	}
	model, err := runtime.Load(behind, onnx.LoadOptions{Device: onnx.CPU, Batch: len(in), Outputs: graph.Probabilities})
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, 2*len(in))
	if err := model.Run(t.Context(), in, out); err != nil {
		t.Fatal(err)
	}
	for i, p := range m.Apply(d.Values) {
		if math.Abs(p-float64(out[i])) > 1e-6 {
			t.Errorf("score %v: %v, the map gives %v", d.Values[i/2], out[i], p)
		}
	}
	if err := model.Close(); err != nil {
		t.Error(err)
	}
}
