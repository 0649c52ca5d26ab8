package grad

import (
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// Loss is a function of an example's scores and of one or two classes (see Pairs). An untargeted attack maximises the
// loss for the example's label. For targeted attacks, see Objective.Targeted.
type Loss string

// These are the losses of logits z for the class y.
const (
	// CrossEntropy is −ln softmax(z)_y.
	CrossEntropy Loss = "ce"
	// Margin is max_{j≠y} z_j − z_y (Carlini & Wagner 2017). Margin is positive where another class wins. Its gradient
	// does not vanish where the model is confident.
	Margin Loss = "margin"
	// DLR is the difference of logits ratio, −(z_y − max_{j≠y} z_j)/(z_π1 − z_π3), where z_π1 ≥ z_π2 ≥ … are the sorted
	// logits (Croce & Hein 2020, equation 6). Scaling the logits does not change DLR. DLR needs at least three classes.
	DLR Loss = "dlr"
	// TargetedDLR is −(z_y − z_t)/(z_π1 − (z_π3 + z_π4)/2) for a target t (Croce & Hein 2020, equation 7). TargetedDLR
	// needs at least four classes. Attached.Labels holds y and t of each example. If a user chooses dlr for a targeted
	// attack, the attack uses TargetedDLR.
	TargetedDLR Loss = "dlr-targeted"
	// Difference is z_t − z_y for a class t. The attack FAB uses Difference to step to the decision boundary between y
	// and t. Attached.Labels holds y and t of each example. Users cannot choose this loss.
	Difference Loss = "difference"
	// Confidence is ln max_{j≠y} softmax(z)_j, the logarithm of the confidence in a wrong class (Stutz et al. 2020).
	// Users cannot choose this loss: some attacks always use Confidence, and the others never do.
	Confidence Loss = "confidence"
)

// LeastClasses is the smallest number of classes for which the loss is defined.
func (l Loss) LeastClasses() int {
	switch l {
	case DLR:
		return 3
	case TargetedDLR:
		return 4
	}
	return 1
}

// Pairs reports whether the loss depends on two given classes. Attached.Labels then holds the label and the other class
// of each example.
func (l Loss) Pairs() bool { return l == TargetedDLR || l == Difference }

// Losses lists the losses that users can choose.
var Losses = choice.Of("loss", CrossEntropy, Margin, DLR).Describe(func(l Loss) string {
	return map[Loss]string{CrossEntropy: "cross-entropy", Margin: "the largest logit of a wrong class minus the logit of the label",
		DLR: "the loss 'difference of logits ratio' of AutoAttack; needs three classes or more"}[l]
})

func (l Loss) String() string { return string(l) }

// MarshalText writes the loss.
func (l Loss) MarshalText() ([]byte, error) { return []byte(l), nil }

// UnmarshalText reads a loss.
func (l *Loss) UnmarshalText(text []byte) error { return Losses.Unmarshal(text, l) }

// Objective describes a loss for a batch of examples.
type Objective struct {
	Loss Loss
	// If Targeted is true, the loss is negated. A large value then means that the model predicts the given class.
	// TargetedDLR and Difference need no negation.
	Targeted bool
	Examples int
	// Copies is the number of noisy copies of each example. If Copies is above 1, the loss uses the logarithm of the
	// mean softmax of the copies instead of the logits. With CrossEntropy, the loss of the copies is the loss of
	// SmoothAdv (Salman et al. 2019, equation 7). The model's batch size is Examples·Copies.
	Copies int
	// Probabilities is true if the scores are probabilities. Their logarithms then serve as logits.
	Probabilities bool
}

// Attached holds the names of the inputs and outputs of a graph with an objective.
type Attached struct {
	Input string // shape [Examples, …]
	Noise string // input for the noise of each copy, of shape [Examples, Copies, …]; "" unless Copies is above 1
	// int64; shape [Examples], one class for each example; if Loss.Pairs is true, shape [Examples, 2], the label and
	// the other class
	Labels string
	Loss   string // shape [Examples]
}

// Attach adds an objective to a model. The model's input has the given shape, whose first size is the batch size
// Examples·Copies. The model's scores hold one row per sample and one column per class. Attach replaces the graph's
// inputs by the inputs in Attached.
func Attach(m *onnxpb.ModelProto, input, scores string, shape []int64, classes int, o Objective) (Attached, error) {
	if err := checkOpset(m); err != nil {
		return Attached{}, err
	}
	if least := o.Loss.LeastClasses(); classes < least {
		return Attached{}, fmt.Errorf("loss %s needs %d classes, the model has %d", o.Loss, least, classes)
	}
	name := graph.Numbered(unusedPrefix(m.Graph))
	t := &tape{Builder: graph.NewBuilder(name), name: name, opset: graph.Opset(m)}
	a := Attached{Input: input, Labels: name()}
	if o.Copies > 1 {
		t.addNoise(m.Graph, &a, shape, o)
		m.Graph.Node = slices.Concat(t.Nodes, m.Graph.Node)
		t.Nodes = nil
	}
	a.Loss = t.loss(scores, a.Labels, int64(classes), o)
	m.Graph.Node = append(m.Graph.Node, t.Nodes...)
	labels := graph.FloatTensor(a.Labels, o.LabelShape())
	labels.GetType().GetTensorType().ElemType = proto.Int32(int32(graph.Int64))
	m.Graph.Input = append(m.Graph.Input, labels)
	m.Graph.Output = append(m.Graph.Output, graph.FloatTensor(a.Loss, []int64{int64(o.Examples)}))
	return a, nil
}

// LabelShape returns the shape of Attached.Labels.
func (o Objective) LabelShape() []int64 {
	if o.Loss.Pairs() {
		return []int64{int64(o.Examples), 2}
	}
	return []int64{int64(o.Examples)}
}

// addNoise adds nodes in front of the model. These nodes repeat each example as often as the field Copies says, and add
// noise to each copy. The examples and the noise become the graph's inputs.
func (t *tape) addNoise(g *onnxpb.GraphProto, a *Attached, shape []int64, o Objective) {
	input := a.Input
	a.Input, a.Noise = t.name(), t.name()
	sample := shape[1:]
	wide := slices.Concat([]int64{int64(o.Examples), 1}, sample)
	noisy := t.Op("Add", t.reshape(a.Input, wide), a.Noise)
	t.Add(graph.Node("Reshape", []string{noisy, t.Ints(shape...)}, input))
	g.Input = slices.DeleteFunc(g.Input, func(v *onnxpb.ValueInfoProto) bool { return v.GetName() == input })
	examples := []int64{int64(o.Examples)}
	g.Input = append(g.Input, graph.FloatTensor(a.Input, slices.Concat(examples, sample)),
		graph.FloatTensor(a.Noise, slices.Concat(examples, []int64{int64(o.Copies)}, sample)))
}

// loss adds nodes that compute the loss of each example.
func (t *tape) loss(scores, labels string, classes int64, o Objective) string {
	examples, copies := int64(o.Examples), int64(max(o.Copies, 1))
	z := t.reshape(scores, []int64{examples * copies, classes})
	if o.Probabilities { // the logarithm of 0 would be infinite
		z = t.Op("Log", t.Op("Max", z, t.Floats(nil, math.SmallestNonzeroFloat32*(1<<23))))
	}
	// z becomes the logarithm of the mean softmax. It can serve as logits: all logits with this softmax differ from it
	// only by a constant, and a constant added to all logits leaves all losses unchanged.
	if copies > 1 {
		logs := t.Node("LogSoftmax", []string{z}, graph.IntAttribute("axis", 1))
		z = t.reduce("ReduceLogSumExp", t.reshape(logs, []int64{examples, copies, classes}), []int64{1}, false)
		z = t.Op("Sub", z, t.Floats(nil, float32(math.Log(float64(copies)))))
	}
	if o.Loss.Pairs() {
		column := func(k int64) string { return t.slice(labels, []int64{k}, []int64{k + 1}, []int64{1}) }
		own, target := t.marks(column(0), examples, classes), t.marks(column(1), examples, classes)
		if o.Loss == Difference {
			return t.Op("Sub", t.marked(z, target), t.marked(z, own))
		}
		return t.targetedDLR(z, own, target)
	}
	l := t.lossOf(o.Loss, z, t.marks(labels, examples, classes))
	if o.Targeted {
		l = t.Op("Neg", l)
	}
	return l
}

// The method 'marks' adds nodes that compute a tensor of truth values, of shape [examples, classes]. The argument
// 'class' names a value that holds one class for each example. In each row, only the element of this class is true.
func (t *tape) marks(class string, examples, classes int64) string {
	return t.Op("Equal", t.reshape(class, []int64{examples, 1}), t.reshape(t.Ints(upTo(int(classes))...), []int64{1, classes}))
}

// lossOf adds nodes that compute the loss of logits z [E, m]. The argument 'own' names a tensor of truth values. In
// each row, only the element of the row's label is true.
func (t *tape) lossOf(kind Loss, z, own string) string {
	row := []int64{1}
	if kind == Confidence {
		logs := t.Node("LogSoftmax", []string{z}, graph.IntAttribute("axis", 1))
		return t.reduce("ReduceMax", t.Op("Where", own, t.Floats(nil, -math.MaxFloat32), logs), row, false)
	}
	if kind == CrossEntropy {
		logs := t.Node("LogSoftmax", []string{z}, graph.IntAttribute("axis", 1))
		return t.Op("Neg", t.reduce("ReduceSum", t.Op("Where", own, logs, t.Floats(nil, 0)), row, false))
	}
	label := t.marked(z, own)
	other := t.reduce("ReduceMax", t.Op("Where", own, t.Floats(nil, -math.MaxFloat32), z), row, false)
	margin := t.Op("Sub", other, label)
	if kind == Margin {
		return margin
	}
	sorted := t.largest(z, 3)
	return t.ratio(margin, t.Op("Sub", sorted(0), sorted(2)))
}

// targetedDLR adds nodes that compute the loss TargetedDLR of logits z. The arguments 'own' and 'target' are the names
// of the truth values that mark the label and the target of each row.
func (t *tape) targetedDLR(z, own, target string) string {
	margin := t.Op("Sub", t.marked(z, target), t.marked(z, own))
	sorted := t.largest(z, 4)
	mean := t.Op("Mul", t.Op("Add", sorted(2), sorted(3)), t.Floats(nil, .5))
	return t.ratio(margin, t.Op("Sub", sorted(0), mean))
}

// The method 'marked' adds nodes that select one element of each row of z. The argument 'mark' names a tensor of truth
// values that has the same shape as z. In each row, only the truth value of the selected element is true.
func (t *tape) marked(z, mark string) string {
	return t.reduce("ReduceSum", t.Op("Where", mark, z, t.Floats(nil, 0)), []int64{1}, false)
}

// ratio adds nodes that divide the argument 'margin' [E] by the argument 'span' [E, 1]. A small constant added to
// 'span' avoids a division by 0.
func (t *tape) ratio(margin, span string) string {
	return t.Op("Div", margin, t.reshape(t.Op("Add", span, t.Floats(nil, 1e-12)), []int64{-1}))
}

// The method 'largest' adds a node that finds the k largest elements of each row, in descending order. It returns a
// function. When this function is called with the number i, it adds a node that selects element i of each row (0 is the
// largest). The result of this node has the shape [E, 1].
func (t *tape) largest(z string, k int64) func(i int64) string {
	top := graph.Node("TopK", []string{z}, t.name(), graph.IntAttribute("axis", 1))
	top.Output = append(top.Output, t.name())
	if t.opset < 10 {
		top.Attribute = append(top.Attribute, graph.IntAttribute("k", k))
	} else {
		top.Input = append(top.Input, t.Ints(k))
	}
	t.Add(top)
	return func(i int64) string { return t.slice(top.Output[0], []int64{i}, []int64{i + 1}, []int64{1}) }
}
