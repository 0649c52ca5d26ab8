package graph

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/quote"
)

// This file joins several classifiers into one graph that averages their scores. The joined graph serves as an ordinary
// classifier: one input, one output with the scores.

// Average says what an ensemble averages. The zero value means no ensemble.
type Average string

// These are the kinds of averages.
const (
	AverageLogits        Average = "logits"
	AverageProbabilities Average = "probabilities"
)

// Averages lists all kinds of averages.
var Averages = choice.Of("average", AverageLogits, AverageProbabilities)

func (a Average) String() string { return string(a) }

// MarshalText writes the kind.
func (a Average) MarshalText() ([]byte, error) { return []byte(a), nil }

// UnmarshalText parses a kind.
func (a *Average) UnmarshalText(text []byte) error { return Averages.Unmarshal(text, a) }

// Outputs returns the kind of the scores that the ensemble returns.
func (a Average) Outputs() OutputKind {
	if a == AverageProbabilities {
		return Probabilities
	}
	return Logits
}

// Ensemble holds the parameters for joining classifiers.
type Ensemble struct {
	Average Average
	// Outputs is the kind of the scores of every member. If Outputs is OutputsAuto, Join derives the kind of each
	// member from the member's graph.
	Outputs OutputKind
	// Output is the name of the output that holds the scores, in every member and in the ensemble. If Output is empty,
	// chooseOutput must find exactly one output with scores in each member.
	Output string
}

// EnsembleMember identifies a classifier of an ensemble.
type EnsembleMember struct {
	SHA256  string
	Outputs OutputKind // logits or probabilities
}

// EnsembleDigest returns the SHA-256 that identifies the graph of an ensemble. It is the digest of a text in which
// every line ends with a newline. The first line gives a version number and the kind of average. The version number
// changes if a later version of rscert joins the same members in another way. Each further line describes one member,
// in the order of the members: its SHA-256, two spaces, and the kind of its outputs.
func EnsembleDigest(a Average, members []EnsembleMember) string {
	var text strings.Builder
	fmt.Fprintf(&text, "rscert ensemble 1: mean of %s\n", a)
	for _, m := range members {
		fmt.Fprintf(&text, "%s  %s\n", m.SHA256, m.Outputs)
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:])
}

// Join joins classifiers into one. The joined classifier's scores for an input are the average of the members' scores:
//
//	scores = (s₁(x) + … + s_K(x))/K    s_k are the logits, or the probabilities, of member k
//
// The members must take the same input and have the same number of classes. The argument 'names' holds the names of the
// members' files. If a member does not fit, the error gives the name of its file and the reason. For each member, Join
// also returns its digest and the kind of its scores.
func (e Ensemble) Join(files []*File, names []string) (*File, []EnsembleMember, error) {
	j := &joint{Ensemble: e, names: names}
	j.prefix = "ensemble."
	for strings.HasPrefix(e.Output, j.prefix) {
		j.prefix += "."
	}
	models := make([]*onnxpb.ModelProto, len(files))
	weights := make(Weights)
	var size int64
	for _, f := range files {
		size += int64(proto.Size(f.Model))
		for key, w := range f.Weights { // keys are random, so keys of different models do not collide
			weights[key] = w
		}
	}
	if size > maxModel {
		return nil, nil, fmt.Errorf("the models of the ensemble together: %w", errTooLarge)
	}
	for k, f := range files {
		models[k] = proto.CloneOf(f.Model)
		if err := j.add(models[k], f.SHA256()); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", quote.Name(names[k]), err)
		}
	}
	imports, err := joinOpsets(bridgeOpset, models...)
	if err != nil {
		return nil, nil, err
	}
	j.opset = importsOf(models[0])[""]
	m, err := j.build(models)
	if err != nil {
		return nil, nil, err
	}
	m.OpsetImport = imports
	return &File{Model: m, Weights: weights, sha256: EnsembleDigest(e.Average, j.sums)}, j.sums, nil
}

// A joint holds the state while classifiers are joined.
type joint struct {
	Ensemble
	names     []string
	contracts []Contract
	sums      []EnsembleMember
	prefix    string // prefix of all names in the joined graph, except the output's name if the user chose that name
	opset     int64  // version of ONNX's operators
}

// The method 'add' checks the next member and records it.
func (j *joint) add(m *onnxpb.ModelProto, sum string) error {
	info, err := describe(m)
	if err != nil {
		return err
	}
	c, err := readContract(info, j.Output)
	if err != nil {
		return err
	}
	if c.Batch == NoBatch || !imageLike(c.Input) {
		return hint.New(fmt.Sprintf("its input %s is no batch of floats", c.Input),
			"the models of an ensemble share one input of floats: export this one with a batch dimension and an input of floats")
	}
	kind, err := j.kind(m.Graph, c.Output)
	if err != nil {
		return err
	}
	if classesOf(c.Output) == 0 {
		return hint.New(fmt.Sprintf("its output %s does not say how many classes it has", c.Output),
			"declare the shape of the output in the file, for example by onnx.shape_inference.infer_shapes")
	}
	if len(j.contracts) > 0 {
		if err := j.match(c); err != nil {
			return err
		}
	}
	j.contracts = append(j.contracts, c)
	j.sums = append(j.sums, EnsembleMember{SHA256: sum, Outputs: kind})
	return nil
}

// The method 'match' checks that a member takes the same input as the earlier members, and that it has as many classes
// as they have.
func (j *joint) match(c Contract) error {
	first := j.contracts[0]
	// Compare the input with the inputs of all earlier members. The first member alone does not suffice, because it may
	// leave a size free, and two later members may fix this size differently.
	for _, other := range j.contracts {
		if !agree(c.Input.Shape, other.Input.Shape, 1) {
			return fmt.Errorf("it takes inputs %s, another model of the ensemble %s: their sizes must be the same", c.Input.shape(), other.Input.shape())
		}
	}
	if m, want := classesOf(c.Output), classesOf(first.Output); m != want {
		return fmt.Errorf("it has %d scores a sample, %s has %d: the models of an ensemble need the same classes", m, quote.Name(j.names[0]), want)
	}
	return nil
}

// classesOf returns the number of scores for each sample, or 0 if the graph does not declare it.
func classesOf(o TensorInfo) int {
	if o.Unknown {
		return 0
	}
	row := rowOf(o)
	if len(o.Shape) == 1 {
		row = nil // one number for each sample
	}
	return Product(append([]int{1}, row...))
}

// kind returns the kind of a member's scores. It refuses probabilities if the ensemble averages logits.
func (j *joint) kind(g *onnxpb.GraphProto, output TensorInfo) (OutputKind, error) {
	kind, node := j.Outputs, Producer(g, output.Name)
	switch {
	case kind != OutputsAuto:
	case node == "Softmax", slices.Contains(classifiers, node), node == "Sigmoid" && classesOf(output) == 1:
		kind = Probabilities
	case slices.Contains(Unbounded, node):
		kind = Logits
	default:
		return kind, hint.Add(fmt.Errorf("its scores come from %s, and may be logits or probabilities", node), "say which of the two all models return: %s", param.Outputs)
	}
	if kind == Probabilities && j.Average == AverageLogits {
		return kind, hint.Add(errors.New("it returns probabilities, and the ensemble averages logits"), "average probabilities by %s %s", param.Average, AverageProbabilities)
	}
	return kind, nil
}

// build joins the graphs.
func (j *joint) build(models []*onnxpb.ModelProto) (*onnxpb.ModelProto, error) {
	name := Numbered(j.prefix + "value")
	before, behind := NewBuilder(name), NewBuilder(name)
	shared := j.prefix + "input"
	g := &onnxpb.GraphProto{Name: proto.String("ensemble"), Input: []*onnxpb.ValueInfoProto{j.input(shared)}}
	m := &onnxpb.ModelProto{IrVersion: proto.Int64(4), Graph: g} // from IR version 4 on, weights need not be inputs
	var scores []string
	var nodes []*onnxpb.NodeProto
	for k, member := range models {
		prefix := fmt.Sprintf("%s%d.", j.prefix, k)
		prefixNames(member, prefix)
		c := j.contracts[k]
		before.Add(castNode(shared, prefix+c.Input.Name, c.Input.Type))
		scores = append(scores, j.scores(behind, prefix+c.Output.Name, j.sums[k].Outputs))
		dropValueInfo(member.Graph)
		nodes = append(nodes, member.Graph.Node...)
		g.Initializer = append(g.Initializer, member.Graph.Initializer...)
		g.SparseInitializer = append(g.SparseInitializer, member.Graph.SparseInitializer...)
		m.Functions = append(m.Functions, member.Functions...)
		m.IrVersion = proto.Int64(max(m.GetIrVersion(), member.GetIrVersion()))
	}
	out := j.Output
	if out == "" {
		out = j.prefix + "scores"
	}
	j.mean(behind, scores, out)
	g.Node = slices.Concat(before.Nodes, nodes, behind.Nodes)
	declared := FloatTensor(out, []int64{1, int64(classesOf(j.contracts[0].Output))})
	declared.Type.GetTensorType().Shape.Dim[0] = proto.CloneOf(g.Input[0].Type.GetTensorType().Shape.Dim[0])
	g.Output = []*onnxpb.ValueInfoProto{declared}
	return m, nil
}

// input declares the input that all members share. Its element type is float32, and a size is fixed if any member fixes
// it.
func (j *joint) input(name string) *onnxpb.ValueInfoProto {
	shape := new(onnxpb.TensorShapeProto)
	for i, d := range j.contracts[0].Input.Shape {
		dim := &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: d.Name}}
		for _, c := range j.contracts {
			if size := c.Input.Shape[i].Size; size >= 0 {
				dim.Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(size)}
			}
		}
		shape.Dim = append(shape.Dim, dim)
	}
	return &onnxpb.ValueInfoProto{Name: proto.String(name), Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
		TensorType: &onnxpb.TypeProto_Tensor{ElemType: proto.Int32(int32(Float32)), Shape: shape}}}}
}

// The method 'scores' adds nodes that convert a member's scores to the kind that the ensemble averages, logits or
// probabilities. The result is a float32 value of shape [N, 1, m].
func (j *joint) scores(out *Builder, value string, kind OutputKind) string {
	m := classesOf(j.contracts[0].Output)
	value = out.Cast(value, Float32)
	if kind == Logits && j.Average == AverageProbabilities {
		value = out.Op("Reshape", value, out.Ints(-1, int64(m)))
		if m == 1 { // one score means two classes; the score is the logit of the second class
			value = out.Op("Sigmoid", value)
		} else {
			value = out.Node("Softmax", []string{value}, IntAttribute("axis", 1))
		}
	}
	return out.Op("Reshape", value, out.Ints(-1, 1, int64(m)))
}

// mean adds nodes that compute the mean of values of shape [N, 1, m]. The nodes join the values by Concat, which fails
// if the values have different sizes. A sum of the values might broadcast them instead of failing.
func (j *joint) mean(out *Builder, values []string, to string) {
	const axesAreInput = 18 // from this operator set on, the axes of ReduceMean are an input
	all := out.Node("Concat", values, IntAttribute("axis", 1))
	inputs, attributes := []string{all}, []*onnxpb.AttributeProto{IntAttribute("keepdims", 0)}
	if j.opset >= axesAreInput {
		inputs = append(inputs, out.Ints(1))
	} else {
		attributes = append(attributes, &onnxpb.AttributeProto{Name: proto.String("axes"), Type: onnxpb.AttributeProto_INTS.Enum(), Ints: []int64{1}})
	}
	out.Add(Node("ReduceMean", inputs, to, attributes...))
}

// prefixNames puts a prefix in front of the names of a model's values and of the functions that the model defines.
func prefixNames(m *onnxpb.ModelProto, prefix string) {
	EachName(m.Graph, func(name string) string {
		if name == "" {
			return "" // an omitted input
		}
		return prefix + name
	})
	local := localFunctions(m)
	_ = eachNode(m, func(_ *scope, n *onnxpb.NodeProto) error {
		if local[opKey{domainOf(n.GetDomain()), n.GetOpType()}] {
			n.OpType = proto.String(prefix + n.GetOpType())
		}
		return nil
	})
	for _, f := range m.Functions {
		f.Name = proto.String(prefix + f.GetName())
	}
}
