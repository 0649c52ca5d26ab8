package grad_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/grad"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/onnx"
)

// linearModel returns an ONNX file with a model whose scores are x·w. The weights w have the shape [values, classes].
func linearModel(t *testing.T, opset int64, w [][]float64) []byte {
	t.Helper()
	f := newFunction(graph.Float32, opset, []int64{4, int64(len(w))})
	f.Graph.Input[0].GetType().GetTensorType().Shape.Dim[0].Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "n"}
	y := f.op("MatMul", in("x", f.floats([]int64{int64(len(w)), int64(len(w[0]))}, slices.Concat(w...)...)))
	f.Graph.Output = []*onnxpb.ValueInfoProto{graph.FloatTensor(y, []int64{0, int64(len(w[0]))})}
	f.Graph.Output[0].GetType().GetTensorType().Shape.Dim[0].Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "n"}
	data, err := proto.Marshal(f.ModelProto)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestTargetedDLR compares the loss with Croce & Hein's equation 7. It compares the gradient with the equation's
// derivative, worked out by hand. It tests all pairs of a label and a target. For some pairs, the label's logit is
// among the four largest, and for others it is not. The target's logit, too, is among the four largest for some pairs
// and not for others.
func TestTargetedDLR(t *testing.T) {
	const values, classes = 3, 6
	rng := rand.New(rand.NewPCG(3, 4))
	w := make([][]float64, values)
	for i := range w {
		for range classes {
			w[i] = append(w[i], rng.NormFloat64())
		}
	}
	for _, opset := range []int64{9, 17} {
		m, err := openLibrary(t).Load(linearModel(t, opset, w), onnx.LoadOptions{Device: onnx.CPU})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		const pairs = classes * (classes - 1)
		g, err := m.Gradient(t.Context(), grad.Objective{Loss: grad.TargetedDLR, Examples: pairs})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		var x []float32
		var labels []int64
		var wantLoss, wantGradient []float64
		for pair := range pairs {
			label, target := pair/(classes-1), pair%(classes-1)
			if target >= label {
				target++
			}
			input := []float64{float64(float32(rng.NormFloat64())), .5, -.25}
			loss, gradient := targetedDLR(w, input, label, target)
			x, labels = append(x, singles(input)...), append(labels, int64(label), int64(target))
			wantLoss, wantGradient = append(wantLoss, loss), append(wantGradient, gradient...)
		}
		scores, losses, gradient := make([]float32, pairs*classes), make([]float32, pairs), make([]float32, pairs*values)
		if err := g.Run(t.Context(), x, nil, labels, scores, losses, gradient); err != nil {
			t.Fatal(err)
		}
		compare(t, "loss", losses, wantLoss)
		compare(t, "gradient", gradient, wantGradient)
	}
}

// targetedDLR returns the loss TargetedDLR of the scores x·w, and the gradient of this loss with respect to x.
func targetedDLR(w [][]float64, x []float64, label, target int) (loss float64, gradient []float64) {
	classes := len(w[0])
	z, order := make([]float64, classes), make([]int, classes)
	for k := range z {
		order[k] = k
		for i, v := range x {
			z[k] += v * w[i][k]
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		if z[a] > z[b] {
			return -1
		}
		return 1
	})
	span := z[order[0]] - (z[order[2]]+z[order[3]])/2
	loss = -(z[label] - z[target]) / span
	inLogits := make([]float64, classes)
	inLogits[target] += 1 / span
	inLogits[label] -= 1 / span
	inLogits[order[0]] -= loss / span
	inLogits[order[2]] += loss / span / 2
	inLogits[order[3]] += loss / span / 2
	for i := range x {
		sum := 0.
		for k, d := range inLogits {
			sum += d * w[i][k]
		}
		gradient = append(gradient, sum)
	}
	return loss, gradient
}

// TestConfidence compares the loss Confidence with its formula, ln max_{j≠y} softmax(z)_j. It compares the gradient
// with the formula w_j − Σ p_k·w_k. Here w_k are the weights of class k, p = softmax(z), and j is the wrong class with
// the largest logit. The test uses all labels y.
func TestConfidence(t *testing.T) {
	w := [][]float64{{1, -2, .5, 3}, {.25, 1, -1, 2}}
	const classes = 4
	m, err := openLibrary(t).Load(linearModel(t, 17, w), onnx.LoadOptions{Device: onnx.CPU})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	g, err := m.Gradient(t.Context(), grad.Objective{Loss: grad.Confidence, Examples: classes})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	input := []float64{.5, -.75}
	var x []float32
	var labels []int64
	var wantLoss, wantGradient []float64
	for label := range classes {
		x, labels = append(x, singles(input)...), append(labels, int64(label))
		sum, best, top := 0., -1, math.Inf(-1)
		for k := range classes {
			z := input[0]*w[0][k] + input[1]*w[1][k]
			if sum += math.Exp(z); k != label && z > top {
				best, top = k, z
			}
		}
		wantLoss = append(wantLoss, top-math.Log(sum))
		for i := range w {
			d := w[i][best]
			for k := range classes {
				d -= math.Exp(input[0]*w[0][k]+input[1]*w[1][k]) / sum * w[i][k]
			}
			wantGradient = append(wantGradient, d)
		}
	}
	scores, losses, gradient := make([]float32, classes*classes), make([]float32, classes), make([]float32, classes*len(w))
	if err := g.Run(t.Context(), x, nil, labels, scores, losses, gradient); err != nil {
		t.Fatal(err)
	}
	compare(t, "loss", losses, wantLoss)
	compare(t, "gradient", gradient, wantGradient)
}

// TestLossesNeedClasses checks that Attach refuses a loss if the model has too few classes for it.
func TestLossesNeedClasses(t *testing.T) {
	for _, c := range []struct {
		loss    grad.Loss
		classes int
		message string
	}{
		{grad.DLR, 2, "loss dlr needs 3 classes, the model has 2"},
		{grad.DLR, 3, ""},
		{grad.TargetedDLR, 3, "loss dlr-targeted needs 4 classes, the model has 3"},
		{grad.TargetedDLR, 4, ""},
	} {
		m, err := openLibrary(t).Load(linearModel(t, 17, [][]float64{make([]float64, c.classes)}), onnx.LoadOptions{Device: onnx.CPU})
		if err != nil {
			t.Fatal(err)
		}
		g, err := m.Gradient(t.Context(), grad.Objective{Loss: c.loss, Examples: 1})
		if (err == nil) != (c.message == "") || err != nil && !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s with %d classes: %v", c.loss, c.classes, err)
		}
		if err == nil {
			g.Close()
		}
		m.Close()
	}
}

// TestDifference compares the loss Difference with the difference of two scores. It compares the gradient with finite
// differences along a random direction. It tests all pairs of a label and another class.
func TestDifference(t *testing.T) {
	const values, classes = 4, 5
	rng := rand.New(rand.NewPCG(5, 6))
	w := make([][]float64, values)
	for i := range w {
		for range classes {
			w[i] = append(w[i], rng.NormFloat64())
		}
	}
	const pairs = classes * (classes - 1)
	m, err := openLibrary(t).Load(linearModel(t, 17, w), onnx.LoadOptions{Device: onnx.CPU})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	g, err := m.Gradient(t.Context(), grad.Objective{Loss: grad.Difference, Examples: pairs})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var labels []int64
	for pair := range pairs {
		label, target := pair/(classes-1), pair%(classes-1)
		if target >= label {
			target++
		}
		labels = append(labels, int64(label), int64(target))
	}
	x, along := make([]float32, pairs*values), make([]float32, pairs*values)
	for i := range x {
		x[i], along[i] = rng.Float32(), float32(rng.NormFloat64())
	}
	at := func(step float32) (losses, gradient []float32) {
		moved := make([]float32, len(x))
		for i := range x {
			moved[i] = x[i] + step*along[i]
		}
		scores := make([]float32, pairs*classes)
		losses, gradient = make([]float32, pairs), make([]float32, len(x))
		if err := g.Run(t.Context(), moved, nil, labels, scores, losses, gradient); err != nil {
			t.Fatal(err)
		}
		for pair := range pairs {
			row := scores[pair*classes : (pair+1)*classes]
			if want := row[labels[2*pair+1]] - row[labels[2*pair]]; math.Abs(float64(losses[pair]-want)) > 1e-6 {
				t.Errorf("pair %v: difference %g, of the scores %g", labels[2*pair:2*pair+2], losses[pair], want)
			}
		}
		return losses, gradient
	}
	const step = .25
	above, gradient := at(step)
	below, _ := at(-step)
	for pair := range pairs {
		slope := 0.
		for i := pair * values; i < (pair+1)*values; i++ {
			slope += float64(gradient[i]) * float64(along[i])
		}
		if want := float64(above[pair]-below[pair]) / (2 * step); math.Abs(slope-want) > 1e-4 {
			t.Errorf("pair %v: slope %g, differences say %g", labels[2*pair:2*pair+2], slope, want)
		}
	}
}
