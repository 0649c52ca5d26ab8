package graph

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
)

// This file puts a denoiser in front of a classifier. It supports denoised smoothing (Salman et al. 2020, "Denoised
// Smoothing: A Provable Defense for Pretrained Classifiers") and the one-step denoiser of a diffusion model (Carlini et
// al. 2023, "(Certified!!) Adversarial Robustness for Free!"). The two models become one graph, which serves as an
// ordinary classifier.

// DenoiserKind says what a denoiser returns for a noisy image. The zero value means no denoiser.
type DenoiserKind string

// These are the kinds of denoisers.
const (
	DenoisedImage  DenoiserKind = "image"   // the clean image
	PredictedNoise DenoiserKind = "epsilon" // the noise, as a diffusion model predicts it
	PredictedImage DenoiserKind = "x0"      // the clean image, predicted by a diffusion model
)

// DenoiserKinds lists all kinds of denoisers.
var DenoiserKinds = choice.Of("denoiser kind", DenoisedImage, PredictedNoise, PredictedImage).Describe(func(k DenoiserKind) string {
	return map[DenoiserKind]string{DenoisedImage: "a denoiser that returns the clean image", PredictedNoise: "a diffusion model that returns the noise",
		PredictedImage: "a diffusion model that returns the clean image"}[k]
})

func (k DenoiserKind) String() string { return string(k) }

// Diffusion reports whether the denoiser is a diffusion model. A diffusion model has a noise schedule and a timestep.
func (k DenoiserKind) Diffusion() bool { return k == PredictedNoise || k == PredictedImage }

// MarshalText writes the kind.
func (k DenoiserKind) MarshalText() ([]byte, error) { return []byte(k), nil }

// UnmarshalText parses a kind.
func (k *DenoiserKind) UnmarshalText(text []byte) error { return DenoiserKinds.Unmarshal(text, k) }

// Denoiser holds the parameters for joining a denoiser and a classifier.
type Denoiser struct {
	Kind DenoiserKind
	// Low and High are the values that the denoiser expects for the data values 0 and 1.
	Low, High float64
	// Timestep is the diffusion model's timestep. AlphaBar is ᾱ at this timestep. A noisy image is √ᾱ times the clean
	// image plus √(1−ᾱ) times the noise.
	Timestep int
	AlphaBar float64
	// Mean and Std normalise the classifier's input to (x − Mean)/Std. Each holds one value or one value per channel.
	// If Mean and Std are empty, the input is not normalised.
	Mean, Std []float64
}

// Denoise joins the denoiser and the classifier into one classifier, whose input is in the units of the data:
//
//	u = Low + (High−Low)·x                        the input, in the denoiser's range
//	û = D(u)                                      for DenoisedImage
//	û = clip(D(√ᾱ·u, t), Low, High)               for PredictedImage
//	û = clip((√ᾱ·u − √(1−ᾱ)·D(√ᾱ·u, t))/√ᾱ, Low, High)    for PredictedNoise
//	scores = C(((û−Low)/(High−Low) − Mean)/Std)
//
// Here x is the input, D the denoiser, t its timestep, and C the classifier. ᾱ is the field AlphaBar. The sizes of D's
// input and output must match the sizes of C's input. If a diffusion model also learns the variance of the diffusion
// step, its output has twice as many channels as the image. Only the first half of the channels is used. If the sizes
// do not match, the error names them.
func Denoise(denoiser, classifier *File, d Denoiser) (*File, error) {
	front, back := proto.CloneOf(denoiser.Model), proto.CloneOf(classifier.Model)
	into, err := describe(back)
	if err != nil {
		return nil, err
	}
	if len(into.Inputs) != 1 || !imageLike(into.Inputs[0]) {
		return nil, fmt.Errorf("the classifier behind a denoiser has to take one batch of images of floats, not %s", List(into.Inputs))
	}
	j := &join{Denoiser: d, image: into.Inputs[0]}
	if err := j.read(front); err != nil {
		return nil, fmt.Errorf("the denoiser: %w", err)
	}
	imports, err := joinOpsets(bridgeOpset, front, back)
	if err != nil {
		return nil, err
	}
	j.rename(front, back.Graph)
	if err := j.bridge(); err != nil {
		return nil, err
	}
	pair := back
	// The joined model has at least IR version 4, because before this version every weight must also be an input.
	pair.IrVersion = proto.Int64(max(4, front.GetIrVersion(), back.GetIrVersion()))
	pair.OpsetImport = imports
	pair.Functions = slices.Concat(front.Functions, back.Functions)
	g := pair.Graph
	g.Input = []*onnxpb.ValueInfoProto{j.noisy}
	g.Node = slices.Concat(j.before.Nodes, front.Graph.Node, j.behind.Nodes, g.Node)
	g.Initializer = slices.Concat(front.Graph.Initializer, g.Initializer)
	g.SparseInitializer = slices.Concat(front.Graph.SparseInitializer, g.SparseInitializer)
	dropValueInfo(g)
	weights := make(Weights)
	for _, from := range []Weights{denoiser.Weights, classifier.Weights} {
		for key, w := range from { // keys are random, so keys of different models do not collide
			weights[key] = w
		}
	}
	return &File{Model: pair, Weights: weights}, nil
}

// bridgeOpset is the oldest operator set that contains all the operators added here.
const bridgeOpset = 10

// A join holds the state while a denoiser and a classifier are joined.
type join struct {
	Denoiser
	image    TensorInfo  // the classifier's input
	input    TensorInfo  // the denoiser's input
	step     *TensorInfo // the denoiser's input for the timestep; nil if there is none
	output   TensorInfo
	variance bool // true if the second half of the output's channels holds the variance

	prefix, added  string // prefixes for the denoiser's names and for new names
	noisy          *onnxpb.ValueInfoProto
	before, behind *Builder // nodes before and behind the denoiser
}

// imageLike reports whether an input can be a batch of images or rows.
func imageLike(in TensorInfo) bool {
	return in.Kind == "tensor" && !in.Unknown && len(in.Shape) >= 2 && in.Type.IsFloat()
}

// The method 'read' finds the denoiser's inputs and its output, and checks them against the classifier's input.
func (j *join) read(m *onnxpb.ModelProto) error {
	info, err := describe(m)
	if err != nil {
		return err
	}
	if err := j.readInputs(info.Inputs); err != nil {
		return err
	}
	return j.readOutput(info.Outputs)
}

func (j *join) readInputs(inputs []TensorInfo) error {
	for _, in := range inputs {
		switch {
		case imageLike(in) && j.input.Name == "" && !isStep(in):
			j.input = in
		case j.Kind.Diffusion() && isStep(in) && j.step == nil:
			j.step = &in
		default:
			return hint.Add(param.Errorf("its input %s is neither an image nor a timestep of %s %s", in, param.DenoiserKind, j.Kind),
				"export it with one image as input and, of a diffusion model, one timestep")
		}
	}
	if j.input.Name == "" {
		return fmt.Errorf("it has no image as input, but %s", List(inputs))
	}
	if !agree(j.input.Shape, j.image.Shape, 1) {
		return fmt.Errorf("it takes images %s, the classifier %s: their sizes must be the same", j.input.shape(), j.image.shape())
	}
	return nil
}

func (j *join) readOutput(outputs []TensorInfo) error {
	var images []TensorInfo
	for _, out := range outputs {
		if out.Kind == "tensor" && out.Type.IsFloat() && (out.Unknown || agree(out.Shape, j.input.Shape, 1) || j.learnsVariance(out)) {
			images = append(images, out)
		}
	}
	if len(images) != 1 {
		return hint.New(fmt.Sprintf("%d of its outputs can be an image %s: %s", len(images), j.input.shape(), List(outputs)),
			"export it with the image (or the noise) as its only output")
	}
	j.output, j.variance = images[0], j.learnsVariance(images[0])
	return nil
}

// isStep reports whether an input can be a timestep. A timestep is one number for all samples or one number per sample.
func isStep(in TensorInfo) bool {
	switch onnxpb.TensorProto_DataType(in.Type) {
	case onnxpb.TensorProto_INT64, onnxpb.TensorProto_INT32, onnxpb.TensorProto_FLOAT, onnxpb.TensorProto_DOUBLE, onnxpb.TensorProto_FLOAT16:
		return in.Kind == "tensor" && !in.Unknown && (len(in.Shape) <= 1 || len(in.Shape) == 2 && in.Shape[1].Size == 1)
	}
	return false
}

// The function 'agree' reports whether the sizes of a and b are compatible. In each dimension the two sizes must be
// equal, or at least one of them must be free. In the second dimension, the size of b is first multiplied by the
// argument 'channels'.
func agree(a, b []Dim, channels int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		want := b[i].Size
		if i == 1 && want > 0 {
			want *= channels
		}
		if a[i].Size >= 0 && want >= 0 && a[i].Size != want {
			return false
		}
	}
	return true
}

// learnsVariance reports whether a diffusion model's output has twice as many channels as the image that the model
// takes. The second half of the channels then holds the variance of the diffusion step.
func (j *join) learnsVariance(out TensorInfo) bool {
	return j.Kind.Diffusion() && !out.Unknown && len(out.Shape) >= 3 && j.channels() > 0 && out.Shape[1].Size == 2*j.channels() &&
		agree(out.Shape, j.input.Shape, 2)
}

// The method 'channels' returns the size of the images' second dimension, or −1 if neither model fixes it.
func (j *join) channels() int { return max(j.input.Shape[1].Size, j.image.Shape[1].Size) }

// rename adds a prefix to all names of the denoiser. No name in the classifier starts with this prefix. rename also
// chooses another prefix for the names of new values.
func (j *join) rename(front *onnxpb.ModelProto, classifier *onnxpb.GraphProto) {
	dots := "."
	EachName(classifier, func(name string) string {
		for strings.HasPrefix(name, "denoiser"+dots) || strings.HasPrefix(name, "pair"+dots) {
			dots += "."
		}
		return name
	})
	j.prefix, j.added = "denoiser"+dots, "pair"+dots
	name := Numbered(j.added)
	j.before, j.behind = NewBuilder(name), NewBuilder(name)
	prefixNames(front, j.prefix)
	j.input.Name, j.output.Name = j.prefix+j.input.Name, j.prefix+j.output.Name
	if j.step != nil {
		j.step.Name = j.prefix + j.step.Name
	}
}

// EachName replaces every name of a value or a node by the result of the function 'visit', in the graph and its
// subgraphs.
func EachName(g *onnxpb.GraphProto, visit func(string) string) {
	set := func(name **string) {
		if *name != nil {
			*name = proto.String(visit(**name))
		}
	}
	for _, t := range g.Initializer {
		set(&t.Name)
	}
	for _, t := range g.SparseInitializer {
		if t.Values != nil {
			set(&t.Values.Name)
		}
	}
	for _, v := range slices.Concat(g.Input, g.Output, g.ValueInfo) {
		set(&v.Name)
	}
	for _, n := range g.Node {
		set(&n.Name)
		for _, names := range [][]string{n.Input, n.Output} {
			for i, name := range names {
				names[i] = visit(name)
			}
		}
		for _, a := range n.Attribute {
			for _, sub := range subgraphs(a) {
				EachName(sub, visit)
			}
		}
	}
}

// bridge adds the nodes before the denoiser and the nodes between the denoiser and the classifier.
func (j *join) bridge() error {
	signal, noise := 1.0, 0.0 // √ᾱ and √(1−ᾱ)
	if j.Kind.Diffusion() {
		signal, noise = math.Sqrt(j.AlphaBar), math.Sqrt(1-j.AlphaBar)
	}
	span := j.High - j.Low

	noisy := j.added + "input"
	j.noisy = &onnxpb.ValueInfoProto{Name: proto.String(noisy), Type: j.noisyType()}
	out := j.before
	scaled := j.affine(out, noisy, signal*span, signal*j.Low)
	out.Add(castNode(scaled, j.input.Name, j.input.Type))
	if j.step != nil {
		j.addStep(noisy)
	}

	out = j.behind
	value := out.Cast(j.output.Name, Float32)
	if j.variance {
		value = out.Node("Slice", []string{value, out.Ints(0), out.Ints(int64(j.channels())), out.Ints(1)})
	}
	if j.Kind == PredictedNoise { // (input − √(1−ᾱ)·output)/√ᾱ, with the denoiser's input and output
		value = j.affine(out, value, -noise/signal, 0)
		value = out.Node("Add", []string{j.affine(out, scaled, 1/signal, 0), value})
	}
	if j.Kind.Diffusion() {
		value = out.Node("Max", []string{value, out.Floats(nil, float32(j.Low))})
		value = out.Node("Min", []string{value, out.Floats(nil, float32(j.High))})
	}
	value = j.affine(out, value, 1/span, -j.Low/span)
	value, err := j.normalise(out, value)
	if err != nil {
		return err
	}
	out.Add(castNode(value, j.image.Name, j.image.Type))
	return nil
}

// noisyType returns the type of the joined model's input. The element type is float32. A size is fixed if either model
// fixes it.
func (j *join) noisyType() *onnxpb.TypeProto {
	shape := new(onnxpb.TensorShapeProto)
	for i, d := range j.input.Shape {
		size := max(d.Size, j.image.Shape[i].Size)
		dim := &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: d.Name}}
		if size >= 0 {
			dim.Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(size)}
		}
		shape.Dim = append(shape.Dim, dim)
	}
	return &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
		TensorType: &onnxpb.TypeProto_Tensor{ElemType: proto.Int32(int32(Float32)), Shape: shape}}}
}

// addStep feeds the timestep to the denoiser. The denoiser takes the timestep either once per batch or once per sample.
func (j *join) addStep(noisy string) {
	out := j.before
	step := out.Node("Cast", []string{out.Floats(scalar, float32(j.Timestep))}, IntAttribute("to", int64(j.step.Type)))
	if len(j.step.Shape) == 0 {
		out.Add(Node("Identity", []string{step}, j.step.Name))
		return
	}
	batch := out.Node("Gather", []string{out.Node("Shape", []string{noisy}), out.Ints(0)})
	if len(j.step.Shape) == 2 {
		batch = out.Node("Concat", []string{batch, out.Ints(1)}, IntAttribute("axis", 0))
	}
	out.Add(Node("Expand", []string{step, batch}, j.step.Name))
}

// normalise adds nodes that compute (value − Mean)/Std for each channel.
func (j *join) normalise(out *Builder, value string) (string, error) {
	sizes := SizesOf(j.noisyDims())
	channels, layout := 1, CHW
	if len(j.input.Shape) == 4 {
		if sizes != nil {
			layout = layoutOf(sizes)
		}
		channels = j.channels()
		if layout == HWC {
			channels = sizes[2]
		}
	}
	var shape []int64
	for _, values := range [][]float64{j.Mean, j.Std} {
		switch {
		case len(values) > 1 && channels > 0 && len(values) != channels:
			return "", param.Errorf("%s and %s have %d values; the classifier's input has %d channels", param.Mean, param.Std, len(values), channels)
		case len(values) > 1 && layout == CHW:
			shape = []int64{int64(len(values)), 1, 1}
		case len(values) > 1:
			shape = []int64{int64(len(values))}
		}
	}
	column := func(values []float64) string {
		if len(values) == 1 {
			return out.Floats(nil, float32(values[0]))
		}
		return out.Floats(shape, float32s(values)...)
	}
	if len(j.Mean) > 0 {
		value = out.Node("Sub", []string{value, column(j.Mean)})
	}
	if len(j.Std) > 0 {
		value = out.Node("Div", []string{value, column(j.Std)})
	}
	return value, nil
}

// noisyDims returns the sizes of one sample of the joined model's input.
func (j *join) noisyDims() []Dim {
	dims := make([]Dim, len(j.input.Shape)-1)
	for i := range dims {
		dims[i] = Dim{Size: max(j.input.Shape[i+1].Size, j.image.Shape[i+1].Size)}
	}
	return dims
}

// affine adds nodes that compute scale·value + shift. It omits operations that have no effect.
func (j *join) affine(out *Builder, value string, scale, shift float64) string {
	if scale != 1 {
		value = out.Node("Mul", []string{value, out.Floats(nil, float32(scale))})
	}
	if shift != 0 {
		value = out.Node("Add", []string{value, out.Floats(nil, float32(shift))})
	}
	return value
}

func constantValue(t *onnxpb.TensorProto) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: proto.String("value"), Type: onnxpb.AttributeProto_TENSOR.Enum(), T: t}
}

func float32s(values []float64) []float32 {
	rounded := make([]float32, len(values))
	for i, v := range values {
		rounded[i] = float32(v)
	}
	return rounded
}
