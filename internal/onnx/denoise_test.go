package onnx

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	ort "github.com/yalue/onnxruntime_go"
	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
)

// denoiserNet returns a denoiser of images [N,3,4,4]. Its tensors have the same names as tensors of the classifiers in
// these tests. The argument 'step' declares the input for the timestep t. With this input, the denoiser computes y =
// conv(x) + 0.01·t. If 'step' is nil, it computes y = tanh(conv(x)).
func denoiserNet(step *onnxpb.ValueInfoProto, channels int64) *modelBuilder {
	b := newModel("x", graph.Float32, "N", 3, 4, 4).weights("w_conv", graph.Float32, channels, 3, 3, 3).
		node("Conv", "x w_conv", "c", ints("pads", 1, 1, 1, 1))
	if step == nil {
		return b.node("Tanh", "c", "y").output("y", graph.Float32, "N", int(channels), 4, 4)
	}
	b.Graph.Input = append(b.Graph.Input, step)
	return b.node("Cast", "t", "tf", integer("to", int64(graph.Float32))).floats("hundredth", 0.01).node("Mul", "tf hundredth", "s").
		int64s("column", -1, 1, 1, 1).node("Reshape", "s column", "r").node("Add", "c r", "y").output("y", graph.Float32, "N", int(channels), 4, 4)
}

// The function 'apply' runs a model with one image input on 16 samples. If the model also has an input for the
// timestep, 'apply' replaces this input by a constant.
func apply(t *testing.T, b *modelBuilder, step int, x []float32, sample int) []float32 {
	t.Helper()
	m := proto.CloneOf(b.ModelProto)
	if len(m.Graph.Input) == 2 {
		info := m.Graph.Input[1]
		m.Graph.Input = m.Graph.Input[:1]
		constant := newModel("", graph.Float32).floats("t", float32(step)).Graph.Initializer[0]
		constant.Name = proto.String("step")
		m.Graph.Initializer = append(m.Graph.Initializer, constant)
		m.Graph.Node = slices.Concat([]*onnxpb.NodeProto{graph.Node("Cast", []string{"step"}, "t", integer("to", int64(info.GetType().GetTensorType().GetElemType())))}, m.Graph.Node)
	}
	s, err := openSession(program{model: (&modelBuilder{ModelProto: m}).bytes(t), inputs: []string{m.Graph.Input[0].GetName()}, outputs: []string{m.Graph.Output[0].GetName()}},
		&cpuProvider, settings{workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	in := ort.Shape{16}
	for _, d := range m.Graph.Input[0].GetType().GetTensorType().GetShape().Dim[1:] {
		in = append(in, d.GetDimValue())
	}
	out := make([]float32, 16*sample)
	shape := ort.Shape{16, int64(sample)}
	if dims := m.Graph.Output[0].GetType().GetTensorType().GetShape().Dim; len(dims) == 4 {
		shape = ort.Shape{16, dims[1].GetDimValue(), 4, 4}
	}
	if err := s.scores(t.Context(), in, shape, x, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// The function 'expected' returns the scores that the joined model must have for 16 samples. It runs the two models
// separately and joins them by the formulas in the documentation of Denoise.
func expected(t *testing.T, denoiser, classifier *modelBuilder, d graph.Denoiser, x []float32) []float32 {
	t.Helper()
	alpha := 1.0
	if d.Kind.Diffusion() {
		alpha = d.AlphaBar
	}
	signal, noise := math.Sqrt(alpha), math.Sqrt(1-alpha)
	scaled := make([]float32, len(x))
	for i, v := range x {
		scaled[i] = float32(signal * (d.Low + (d.High-d.Low)*float64(v)))
	}
	channels := int(denoiser.Graph.Output[0].GetType().GetTensorType().GetShape().Dim[1].GetDimValue())
	raw := apply(t, denoiser, d.Timestep, scaled, channels*16)
	clean := make([]float32, len(x))
	for i := range clean {
		n, rest := i/48, i%48
		v := float64(raw[n*channels*16+rest])
		if d.Kind == graph.PredictedNoise {
			v = (float64(scaled[i]) - noise*v) / signal
		}
		if d.Kind.Diffusion() {
			v = min(max(v, d.Low), d.High)
		}
		v = (v - d.Low) / (d.High - d.Low)
		c := rest / 16
		if len(d.Mean) > 0 {
			v -= d.Mean[min(c, len(d.Mean)-1)]
		}
		if len(d.Std) > 0 {
			v /= d.Std[min(c, len(d.Std)-1)]
		}
		clean[i] = float32(v)
	}
	return apply(t, classifier, 0, clean, 4)
}

// TestDenoise compares the joined model with separate runs of its two models. It covers every kind of denoiser and
// every form of the timestep's input.
func TestDenoise(t *testing.T) {
	r := openRuntime(t)
	classifier := testModels["nchw"]()
	const i64, i32 = graph.ElemType(onnxpb.TensorProto_INT64), graph.ElemType(onnxpb.TensorProto_INT32)
	image := graph.Denoiser{Kind: graph.DenoisedImage, High: 1}
	epsilon := graph.Denoiser{Kind: graph.PredictedNoise, Low: -1, High: 1, Timestep: 258, AlphaBar: 0.4}
	x0 := graph.Denoiser{Kind: graph.PredictedImage, Low: -1, High: 1, Timestep: 31, AlphaBar: 0.7}
	normalised := epsilon
	normalised.Mean, normalised.Std = []float64{0.4, 0.5, 0.6}, []float64{0.2}
	wide := image
	wide.Low, wide.High, wide.Mean, wide.Std = -2, 3, []float64{0.1}, []float64{0.2, 0.3, 0.5}
	samples := randomSamples(48)[:16]
	x := slices.Concat(samples...)
	for _, c := range []struct {
		name     string
		d        graph.Denoiser
		step     *onnxpb.ValueInfoProto
		channels int64
	}{
		{"image", image, nil, 3},
		{"image in a range, normalised", wide, nil, 3},
		{"noise, a step a sample", epsilon, value("t", i64, "N"), 3},
		{"noise, one step", epsilon, value("t", i64), 3},
		{"noise, a vector of one step", epsilon, value("t", i32, 1), 3},
		{"noise, a column of steps", epsilon, value("t", graph.Float32, "N", 1), 3},
		{"noise, without a step", epsilon, nil, 3},
		{"noise and variance, normalised", normalised, value("t", i64, "N"), 6},
		{"clean image", x0, value("t", graph.Float64, "N"), 3},
		{"clean image and variance", x0, value("t", i64, "N"), 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := denoiserNet(c.step, c.channels)
			pair, err := graph.Denoise(d.file(t), classifier.file(t), c.d)
			if err != nil {
				t.Fatal(err)
			}
			m, err := r.LoadFile(t.Context(), pair, LoadOptions{Device: CPU, Batch: 16, Example: []int{3, 4, 4}})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if len(warningsOf(m)) > 0 || m.Batch() != 16 {
				t.Errorf("%v, batch %d", warningsOf(m), m.Batch())
			}
			want := expected(t, d, classifier, c.d, x)
			largest := 0.0
			for i, got := range slices.Concat(scores(t, m, samples)...) {
				largest = max(largest, math.Abs(float64(want[i])))
				if math.Abs(float64(got-want[i])) > 1e-4*max(1, math.Abs(float64(want[i]))) {
					t.Fatalf("score %d is %v, want %v", i, got, want[i])
				}
			}
			if largest < 0.1 {
				t.Error("the scores say nothing")
			}
		})
	}
}

// TestDenoisePairs joins models that differ in batch size, IR version, operator set or names. One denoiser contains a
// function, and one contains a branch.
func TestDenoisePairs(t *testing.T) {
	r := openRuntime(t)
	samples := randomSamples(48)[:16]
	image := graph.Denoiser{Kind: graph.DenoisedImage, High: 1}
	d := denoiserNet(nil, 3)
	want := expected(t, d, testModels["nchw"](), image, slices.Concat(samples...))
	// The following models compute the same functions as the denoiser and the classifier, but in another form.
	fixed := denoiserNet(nil, 3)
	for _, v := range []*onnxpb.ValueInfoProto{fixed.Graph.Input[0], fixed.Graph.Output[0]} {
		v.Type.GetTensorType().Shape.Dim[0].Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: 1}
	}
	newer := denoiserNet(nil, 3)
	newer.OpsetImport[0].Version, newer.IrVersion = proto.Int64(15), proto.Int64(8)
	function := denoiserNet(nil, 3)
	function.IrVersion = proto.Int64(8)
	function.OpsetImport[0].Version = proto.Int64(15)
	function.OpsetImport = append(function.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: proto.String("own"), Version: proto.Int64(1)})
	function.Graph.Node[1].Domain, function.Graph.Node[1].OpType = proto.String("own"), proto.String("Relu")
	f := &onnxpb.FunctionProto{}
	if err := proto.Unmarshal(functionOf(t, "Relu", "own", "Tanh", 13), f); err != nil {
		t.Fatal(err)
	}
	function.Functions = []*onnxpb.FunctionProto{f}
	branch := denoiserNet(nil, 3)
	tanh := branch.Graph.Node[1]
	then := &onnxpb.GraphProto{Name: proto.String("then"), Node: []*onnxpb.NodeProto{graph.Node("Tanh", []string{"c"}, "z")},
		Output: []*onnxpb.ValueInfoProto{value("z", graph.Float32, "N", 3, 4, 4)}}
	otherwise := proto.CloneOf(then)
	branch.Graph.Initializer = append(branch.Graph.Initializer, truth("on", 1))
	*tanh = onnxpb.NodeProto{OpType: proto.String("If"), Input: []string{"on"}, Output: []string{"y"},
		Attribute: []*onnxpb.AttributeProto{graphAttribute("then_branch", then), graphAttribute("else_branch", otherwise)}}
	named := testModels["nchw"]()
	rename(named.Graph, func(name string) string { return "denoiser." + name })
	old := denoiserNet(nil, 3)
	old.IrVersion = proto.Int64(3)
	old.Graph.Input = append(old.Graph.Input, value("w_conv", graph.Float32, 3, 3, 3, 3))
	dotted := testModels["nchw"]()
	rename(dotted.Graph, func(name string) string {
		return "pair." + cmp.Or(map[string]string{"x": "input", "c": "1"}[name], name)
	})
	for name, c := range map[string]struct{ denoiser, classifier *modelBuilder }{
		"names of what is added":    {d, dotted},
		"both old":                  {old, testModels["old"]()},
		"names":                     {d, named},
		"the denoiser's batch of 1": {fixed, testModels["nchw"]()},
		"a batch of 1":              {d, testModels["fixed_full"]()},
		"both of 1":                 {fixed, testModels["fixed_infer"]()},
		"old":                       {fixed, testModels["old"]()},
		"newer denoiser":            {newer, testModels["nchw"]()},
		"function":                  {function, testModels["nchw"]()},
		"branch":                    {branch, testModels["nchw"]()},
	} {
		t.Run(name, func(t *testing.T) {
			before := [][]byte{c.denoiser.bytes(t), c.classifier.bytes(t)}
			front, back := c.denoiser.file(t), c.classifier.file(t)
			pair, err := graph.Denoise(front, back, image)
			if err != nil {
				t.Fatal(err)
			}
			m, err := r.LoadFile(t.Context(), pair, LoadOptions{Device: CPU, Batch: 16})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			warnings := strings.Join(warningsOf(m), "\n")
			if inside := name == "function" || name == "branch"; inside != strings.Contains(warnings, "it runs 1 at a time") || !inside && warnings != "" {
				// rscert warns about functions and branches, because its proof that samples are independent does not
				// look inside them
				t.Error(warningsOf(m))
			}
			for i, got := range slices.Concat(scores(t, m, samples)...) {
				if math.Abs(float64(got-want[i])) > 1e-4 {
					t.Fatalf("score %d is %v, want %v", i, got, want[i])
				}
			}
			for i, file := range []*graph.File{front, back} {
				if !proto.Equal(file.Model, parsed(t, before[i])) {
					t.Error("a model was changed")
				}
			}
		})
	}
}

// functionOf encodes an ONNX function that consists of one node. The argument 'opset' is the version of ONNX's
// operators. The node computes the function's output from the function's input.
func functionOf(t *testing.T, name, domain, op string, opset int64) []byte {
	f := &onnxpb.FunctionProto{Name: proto.String(name), Domain: proto.String(domain), Node: []*onnxpb.NodeProto{graph.Node(op, []string{"a"}, "b")},
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(opset)}}}
	file, err := proto.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return append(file, "\x22\x01a\x2a\x01b"...) // fields 4 and 5: input "a", output "b"
}

// rename replaces the names of all values of a graph. The graph must not contain subgraphs.
func rename(g *onnxpb.GraphProto, replace func(string) string) {
	for _, t := range g.Initializer {
		t.Name = proto.String(replace(t.GetName()))
	}
	for _, v := range slices.Concat(g.Input, g.Output, g.ValueInfo) {
		v.Name = proto.String(replace(v.GetName()))
	}
	for _, n := range g.Node {
		for i, name := range n.Input {
			n.Input[i] = replace(name)
		}
		for i, name := range n.Output {
			n.Output[i] = replace(name)
		}
	}
}

func parsed(t *testing.T, model []byte) *onnxpb.ModelProto {
	t.Helper()
	m := new(onnxpb.ModelProto)
	if err := proto.Unmarshal(model, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestDenoiseExternal joins two models whose weights are in files with equal names.
func TestDenoiseExternal(t *testing.T) {
	r := openRuntime(t)
	d := newModel("x", graph.Float32, "N", 3, 4, 4).weights("w_in", graph.Float32, 16, 3, 3, 3).node("Conv", "x w_in", "c", ints("pads", 1, 1, 1, 1)).
		weights("w_out", graph.Float32, 3, 16, 3, 3).node("Conv", "c w_out", "y", ints("pads", 1, 1, 1, 1)).output("y", graph.Float32, "N", 3, 4, 4)
	image := graph.Denoiser{Kind: graph.DenoisedImage, High: 1}
	load := func(front, back *graph.File) [][]float32 {
		pair, err := graph.Denoise(front, back, image)
		if err != nil {
			t.Fatal(err)
		}
		m, err := r.LoadFile(t.Context(), pair, LoadOptions{Device: CPU, Batch: 16})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		return scores(t, m, randomSamples(48)[:16])
	}
	want := load(d.file(t), wide().file(t))
	split := func(b *modelBuilder) *graph.File {
		b = &modelBuilder{ModelProto: proto.CloneOf(b.ModelProto)}
		dir := t.TempDir()
		writeFile(t, dir+"/w", moved(b, "w", 64))
		file, err := graph.ReadModel(writeFile(t, dir+"/m.onnx", b.bytes(t)))
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	for i, row := range load(split(d), split(wide())) {
		if !sameBits(row, want[i]) {
			t.Fatalf("sample %d: %v, want %v", i, row, want[i])
		}
	}
}

// TestDenoiseRefused checks the errors about two models that cannot be joined.
func TestDenoiseRefused(t *testing.T) {
	epsilon := graph.Denoiser{Kind: graph.PredictedNoise, Low: -1, High: 1, AlphaBar: 0.5}
	image := graph.Denoiser{Kind: graph.DenoisedImage, High: 1}
	threeMeans := image
	threeMeans.Mean = []float64{1, 2}
	step := value("t", int64s, "N")
	larger := newModel("x", graph.Float32, "N", 3, 8, 8).node("Tanh", "x", "y").output("y", graph.Float32, "N", 3, 8, 8)
	grey := newModel("x", graph.Float32, "N", 1, 4, 4).node("Tanh", "x", "y").output("y", graph.Float32, "N", 1, 4, 4)
	shrinks := newModel("x", graph.Float32, "N", 3, 4, 4).node("Tanh", "x", "y").output("y", graph.Float32, "N", 3, 2, 2)
	two := denoiserNet(nil, 3).node("Tanh", "y", "z").output("z", graph.Float32, "N", 3, 4, 4)
	mean := denoiserNet(nil, 3)
	mean.Graph.Node[1] = graph.Node("ReduceMean", []string{"c"}, "y", ints("axes", 1))
	newest := testModels["nchw"]()
	newest.OpsetImport[0].Version, newest.IrVersion = proto.Int64(18), proto.Int64(8)
	unknown := testModels["nchw"]()
	unknown.OpsetImport[0].Version = proto.Int64(99)
	none := denoiserNet(nil, 3)
	none.OpsetImport = nil
	otherDomain := func(version int64, b *modelBuilder) *modelBuilder {
		b.OpsetImport = append(b.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: proto.String("ai.onnx.ml"), Version: proto.Int64(version)})
		return b
	}
	plain := testModels["nchw"]()
	for _, c := range []struct {
		denoiser, classifier *modelBuilder
		d                    graph.Denoiser
		want                 string
	}{
		{larger, plain, image, "the denoiser: it takes images [N,3,8,8], the classifier [N,3,4,4]: their sizes must be the same"},
		{grey, plain, image, "it takes images [N,1,4,4], the classifier [N,3,4,4]"},
		{denoiserNet(nil, 3), testModels["nhwc"](), image, "their sizes must be the same"},
		{denoiserNet(nil, 3), testModels["flat"](), image, "their sizes must be the same"},
		{denoiserNet(nil, 3), testModels["two_inputs"](), image, "the classifier behind a denoiser has to take one batch of images"},
		{denoiserNet(nil, 3), testModels["bytes_input"](), image, "the classifier behind a denoiser has to take one batch of images"},
		{shrinks, plain, image, "0 of its outputs can be an image [N,3,4,4]: 'y' float32 [N,3,2,2]"},
		{two, plain, image, "2 of its outputs can be an image"},
		{denoiserNet(nil, 6), plain, image, "0 of its outputs"},
		{denoiserNet(nil, 9), plain, epsilon, "0 of its outputs"},
		{denoiserNet(step, 3), plain, image, "its input 't' int64 [N] is neither an image nor a timestep of denoiser-kind image"},
		{denoiserNet(value("t", boolean, "N"), 3), plain, epsilon, "its input 't' bool [N] is neither"},
		{denoiserNet(value("t", graph.Float32, "N", 3, 4, 4), 3), plain, epsilon, "its input 't' float32 [N,3,4,4] is neither"},
		{denoiserNet(nil, 3), plain, threeMeans, "mean and std have 2 values; the classifier's input has 3 channels"},
		{mean, newest, image, "ReduceMean of operator set 11 may not mean the same in 18"},
		{denoiserNet(nil, 3), unknown, image, "of operator set 11 may not mean the same in 99"},
		{none, plain, image, "a model does not say which version"},
		{otherDomain(1, denoiserNet(nil, 3)), otherDomain(3, testModels["nchw"]()), image, "operators of 'ai.onnx.ml' are of version 1 in one model and 3 in another"},
	} {
		_, err := graph.Denoise(c.denoiser.file(t), c.classifier.file(t), c.d)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want %q", err, c.want)
		}
		var e *hint.Error
		if strings.Contains(c.want, "operator") && (!errors.As(err, &e) || !strings.Contains(e.Hint(), "version_converter")) {
			t.Errorf("%q: no hint", c.want)
		}
	}
}

// TestDenoisePython compares the scores of joined models with the scores that scripts/denoiser_golden.py computed. The
// script runs two sessions of Python's ONNX Runtime and computes the rest with NumPy. The diffusion model was exported
// from PyTorch and learns its variance. It has a newer operator set than the classifier.
func TestDenoisePython(t *testing.T) {
	read := func(path string) *graph.File {
		file, err := graph.ReadModel(path)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	classifier, diffusion := read("../../testdata/mnist-cnn.onnx"), read("testdata/diffusion.onnx")
	x := make([]float32, 784)
	for i := range x {
		x[i] = float32(float64(i*37%255)/255 + 0.5*math.Sin(float64(i)))
	}
	for kind, c := range map[graph.DenoiserKind]struct {
		denoiser *graph.File
		want     []float32
	}{
		graph.DenoisedImage: {read("../../testdata/mnist-denoiser.onnx"),
			[]float32{4.92745, -12.56876, 5.85176, 1.06321, -6.29947, -3.16988, -2.40363, -8.04004, 3.96101, -2.83594}},
		graph.PredictedNoise: {diffusion, []float32{3.09037, -8.62189, 2.72667, 0.23791, -5.10791, -1.50563, -2.00486, -5.07867, 4.37126, -2.01796}},
		graph.PredictedImage: {diffusion, []float32{0.74630, -6.79640, 1.99827, 2.71374, -9.49786, 1.24706, -0.14884, -7.05430, 3.44165, -5.56060}},
	} {
		d := graph.Denoiser{Kind: kind, High: 1, Mean: []float64{0.1307}, Std: []float64{0.3081}}
		if kind.Diffusion() {
			// timestep and ᾱ of a linear noise schedule; at this timestep √(1−ᾱ) ≈ √ᾱ
			d.Low, d.Timestep, d.AlphaBar = -1, 258, 0.5002447287382928
		}
		pair, err := graph.Denoise(c.denoiser, classifier, d)
		if err != nil {
			t.Fatal(err)
		}
		m, err := openRuntime(t).LoadFile(t.Context(), pair, LoadOptions{Device: CPU, Batch: 16})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if len(warningsOf(m)) > 0 {
			t.Error(warningsOf(m))
		}
		for k, got := range scores(t, m, [][]float32{x})[0] {
			if math.Abs(float64(got-c.want[k])) > 1e-4*max(1, math.Abs(float64(c.want[k]))) {
				t.Errorf("%s: score %d is %v, want %v", kind, k, got, c.want[k])
			}
		}
	}
}

// TestOpenVINODenoise runs one joined model on OpenVINO in every precision. It compares the scores with the scores of
// the CPU provider in float32. The joined model consists of the diffusion model of TestDenoisePython and
// mnist-torch.onnx.
func TestOpenVINODenoise(t *testing.T) {
	classifier, err := graph.ReadModel("../../testdata/mnist-torch.onnx")
	if err != nil {
		t.Fatal(err)
	}
	diffusion, err := graph.ReadModel("testdata/diffusion.onnx")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := graph.Denoise(diffusion, classifier, graph.Denoiser{Kind: graph.PredictedNoise, Low: -1, High: 1, Timestep: 258, AlphaBar: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	inPrecisions(t, func(t *testing.T, r *Runtime, d Device, p Precision) {
		xs := randomSamples(784)[:16]
		load := func(opt LoadOptions) *Model {
			m, err := r.LoadFile(t.Context(), pair, opt)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = m.Close() })
			return m
		}
		exact := scores(t, load(LoadOptions{Device: CPU, Batch: 16}), xs)
		for i, row := range scores(t, load(LoadOptions{Device: d, Precision: p, Batch: 16}), xs) {
			for k, got := range row {
				if math.Abs(float64(got-exact[i][k])) > 256*p.unit()*max(1, math.Abs(float64(exact[i][k]))) {
					t.Fatalf("sample %d: score %d is %v, in float32 %v", i, k, got, exact[i][k])
				}
			}
		}
	})
}
