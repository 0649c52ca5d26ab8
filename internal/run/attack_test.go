package run

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/attack"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/grad"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/npy"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/warning"
)

// smallModel is a linear classifier with optional operators before and after it. It correctly classifies the examples
// that the method 'write' creates.
type smallModel struct {
	classes int
	before  string  // operator applied to 8·x; its result is divided by 8
	scale   float64 // scale of the logits; 0 means 1
	softmax bool
}

const smallValues = 12

// write writes the model as ONNX and 40 examples as npz.
func (m smallModel) write(t *testing.T) (model, data string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, uint64(m.classes)))
	w := make([]float32, smallValues*m.classes)
	for i := range w {
		w[i] = float32(rng.NormFloat64())
	}
	dir := t.TempDir()
	model, data = filepath.Join(dir, "model.onnx"), filepath.Join(dir, "data.npz")
	if err := os.WriteFile(model, m.onnx(t, w), 0o666); err != nil {
		t.Fatal(err)
	}
	const examples = 40
	x, y := make([]float32, examples*smallValues), make([]int64, examples)
	for i := range y {
		best := float32(0)
		for j := range smallValues {
			x[i*smallValues+j] = float32(rng.IntN(9)) / 8
		}
		for k := range m.classes {
			z := float32(0)
			for j := range smallValues {
				z += x[i*smallValues+j] * w[j*m.classes+k]
			}
			if k == 0 || z > best {
				y[i], best = int64(k), z
			}
		}
	}
	var archive bytes.Buffer
	a := npy.NewArchiveWriter(&archive)
	for _, err := range []error{npy.Write(a, "x", []int{examples, smallValues}, x), npy.Write(a, "y", []int{examples}, y), a.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(data, archive.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return model, data
}

func (m smallModel) onnx(t *testing.T, w []float32) []byte {
	t.Helper()
	b := graph.NewBuilder(graph.Numbered("v"))
	x := "x"
	if m.before != "" {
		x = b.Op("Div", b.Op(m.before, b.Op("Mul", x, b.Floats(nil, 8))), b.Floats(nil, 8))
	}
	z := b.Op("MatMul", x, b.Floats([]int64{smallValues, int64(m.classes)}, w...))
	if m.scale > 0 {
		z = b.Op("Mul", z, b.Floats(nil, float32(m.scale)))
	}
	if m.softmax {
		z = b.Node("Softmax", []string{z}, graph.IntAttribute("axis", 1))
	}
	rows := func(name string, n int) *onnxpb.ValueInfoProto {
		v := graph.FloatTensor(name, []int64{0, int64(n)})
		v.GetType().GetTensorType().Shape.Dim[0].Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "n"}
		return v
	}
	data, err := proto.Marshal(&onnxpb.ModelProto{
		IrVersion: proto.Int64(8), OpsetImport: []*onnxpb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(17)}},
		Graph: &onnxpb.GraphProto{
			Name: proto.String("g"), Node: b.Nodes, Input: []*onnxpb.ValueInfoProto{rows("x", smallValues)}, Output: []*onnxpb.ValueInfoProto{rows(z, m.classes)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// attackPlan writes a small model with its examples, and returns a plan to attack it.
func (m smallModel) attackPlan(t *testing.T, method attack.Method) AttackPlan {
	t.Helper()
	model, data := m.write(t)
	return planOf(model, data, method)
}

func planOf(model, data string, method attack.Method) AttackPlan {
	seed := uint64(3)
	return AttackPlan{
		Spec: spec.Spec{
			Model: model, Data: data, Threads: 2, FixedSeed: &seed,
			Conditions: spec.Conditions{Skip: 1, Shard: spec.Whole},
		},
		Threat: attack.Threat{Norm: attack.Linf, Epsilon: .15, Low: 0, High: 1}, Method: method, Loss: grad.CrossEntropy, Restarts: 1,
	}
}

func mustAttack(t *testing.T, p AttackPlan) *Attacked {
	t.Helper()
	r, err := Attack(t.Context(), p, new(said).console())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checksOf returns the field Check of each warning in an attack's result.
func checksOf(r *Attacked) (all []warning.Code) {
	for _, w := range r.Warnings {
		all = append(all, w.Check)
	}
	return all
}

// TestWarnings checks the warnings of attacks on small models. If an attack uses gradients, a model that hides its
// gradients must cause warnings. An ordinary model with enough classes must cause no warnings.
func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		name   string
		model  smallModel
		method attack.Method
		want   []warning.Code
	}{
		{"plain", smallModel{classes: 5}, attack.Sequence(attack.APGDCE, attack.APGDT, attack.Square), nil},
		{"rounded", smallModel{classes: 5, before: "Round"}, attack.Sequence(attack.APGDCE, attack.Square), []warning.Code{warning.ZeroGradients, warning.ScoresBetter}},
		{"rounded, one attack", smallModel{classes: 5, before: "Round"}, attack.PGD, []warning.Code{warning.ZeroGradients}},
		{"rounded, scores alone", smallModel{classes: 5, before: "Round"}, attack.Square, nil},
		{"softmax", smallModel{classes: 5, softmax: true}, attack.APGDCE, []warning.Code{warning.Probabilities}},
		{"saturated softmax", smallModel{classes: 5, softmax: true, scale: 1000}, attack.APGDCE, []warning.Code{warning.Probabilities, warning.ZeroGradients}},
		{"softmax, scores alone", smallModel{classes: 5, softmax: true}, attack.Square, nil},
		{"three classes", smallModel{classes: 3}, attack.Standard, []warning.Code{warning.FewClasses}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := c.model.attackPlan(t, c.method)
			r := mustAttack(t, p)
			if got := checksOf(r); !slices.Equal(got, c.want) {
				t.Errorf("checks %v, want %v", r.Warnings, c.want)
			}
			if r.Accuracy.Count != 40 {
				t.Fatalf("accuracy %d of 40", r.Accuracy.Count)
			}
			for _, w := range r.Warnings {
				switch w.Check {
				case warning.ZeroGradients:
					// The count of examples with gradients of zero may be below 40, because the random start alone can
					// break an example.
					if w.Examples != r.ZeroGradients || c.model.before == "Round" && w.Examples < 35 {
						t.Errorf("%d examples with gradients of zero, %d counted", w.Examples, r.ZeroGradients)
					}
				case warning.ScoresBetter:
					if w.Examples != r.Stages[1].Broken || r.Stages[0].Broken > w.Examples {
						t.Errorf("%d broken by scores; stages %+v", w.Examples, r.Stages)
					}
				}
			}
		})
	}
}

// TestStages runs a sequence of attacks. The result must count the examples that each attack broke, and name the attack
// that broke each example. The robust accuracy must count exactly the examples that no attack broke. The batch size and
// the number of threads must not change the result.
func TestStages(t *testing.T) {
	p := smallModel{classes: 5}.attackPlan(t, attack.Standard)
	p.Threat.Epsilon = .1
	r := mustAttack(t, p)
	by := make(map[attack.Method]int)
	for _, row := range r.Results {
		if row.Robust != (row.Attack == "") {
			t.Errorf("%+v", row)
		}
		by[row.Attack]++
	}
	standing := 40
	for _, s := range r.Stages {
		standing -= s.Broken
		if s.Broken != by[s.Attack] || s.Robust.Count != int64(standing) {
			t.Errorf("%+v, %d results, %d standing", s, by[s.Attack], standing)
		}
	}
	if r.Robust.Count != int64(standing) || by[attack.APGDCE] < 3 || standing < 3 {
		t.Errorf("%d robust, %v", r.Robust.Count, by)
	}
	if r.Attack != attack.Standard || r.Steps != 0 || r.Restarts != 0 || r.Loss != "" {
		t.Errorf("settings of a sequence: %+v", r)
	}
	p.Spec.Batch, p.Spec.Threads = 3, 1
	sameJSON(t, "other batches", mustAttack(t, p), r)
}

// TestPreset checks the settings of AutoAttack.
func TestPreset(t *testing.T) {
	p := planOf("", "", attack.Standard)
	stages, warnings, err := p.stages(10)
	want := []AttackStage{
		{Attack: attack.APGDCE, Loss: grad.CrossEntropy, Steps: 100, Restarts: 1},
		{Attack: attack.APGDT, Loss: grad.TargetedDLR, Steps: 100, Targets: 9, Restarts: 1},
		{Attack: attack.FABT, Loss: grad.Difference, Steps: 100, Targets: 9, Restarts: 1},
		{Attack: attack.Square, Steps: 5000, Restarts: 1},
	}
	if err != nil || len(warnings) > 0 || !slices.Equal(stages, want) {
		t.Errorf("%+v, %v, %v", stages, warnings, err)
	}
}

// TestAttackSettings checks that an attack refuses a setting that it would not use, and a model with too few classes
// for its loss.
func TestAttackSettings(t *testing.T) {
	for _, c := range []struct {
		name    string
		method  attack.Method
		change  func(*AttackPlan)
		message string
	}{
		{"momentum", attack.APGDCE, func(p *AttackPlan) { p.Momentum = .9 }, "momentum: is for attack pgd"},
		{"negative momentum", attack.PGD, func(p *AttackPlan) { p.Momentum = -1 }, "momentum -1: want at least 0"},
		{"targeted", attack.Square, func(p *AttackPlan) { p.Targeted = true }, "targeted: is for attack pgd"},
		{"steps of a preset", attack.Standard, func(p *AttackPlan) { p.Steps = 10 }, "steps: is for a single attack, attack standard is a sequence"},
		{"restarts of a sequence", "pgd,square", func(p *AttackPlan) { p.Restarts = 2 }, "restarts: is for a single attack"},
		{"twice", "standard,square", func(*AttackPlan) {}, "attack standard,square: square would run twice"},
		{"three classes", attack.APGDT, func(*AttackPlan) {}, "attack apgd-t: its loss needs 4 classes, and the model has 3"},
		{"sequence and three classes", "apgd-ce,apgd-t", func(*AttackPlan) {}, "attack apgd-t: its loss needs 4 classes"},
	} {
		p := smallModel{classes: 3}.attackPlan(t, c.method)
		c.change(&p)
		if _, err := Attack(t.Context(), p, new(said).console()); err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v, want %s", c.name, err, c.message)
		}
	}
	p := smallModel{classes: 2}.attackPlan(t, attack.APGDDLR)
	if _, err := Attack(t.Context(), p, new(said).console()); err == nil || !strings.Contains(err.Error(), "needs 3 classes, and the model has 2") {
		t.Errorf("two classes: %v", err)
	}
}

// TestAutoIsStronger attacks the bundled model in both norms. Auto-PGD must break more digits than PGD.
func TestAutoIsStronger(t *testing.T) {
	const digits = 40
	robust := func(norm attack.Norm, epsilon float64, method attack.Method) int64 {
		p := planOf("../../testdata/mnist-cnn.onnx", "../../testdata/mnist", method)
		p.Spec.Max, p.Threat.Norm, p.Threat.Epsilon = digits, norm, epsilon
		return mustAttack(t, p).Robust.Count
	}
	for norm, epsilon := range map[attack.Norm]float64{attack.Linf: .3, attack.L2: 2} {
		if pgd, auto := robust(norm, epsilon, attack.PGD), robust(norm, epsilon, attack.APGDCE); auto >= pgd {
			t.Errorf("%s: apgd-ce leaves %d of %d, pgd %d", norm, auto, digits, pgd)
		}
	}
}

// TestClasses checks which classes the gradient passes to a loss. A loss of two classes gets the label and the target
// of each example, a targeted loss gets the target, and any other loss gets the label.
func TestClasses(t *testing.T) {
	labels, targets := []int64{1, 2}, []int64{3, 4}
	for _, c := range []struct {
		objective grad.Objective
		want      []int64
	}{
		{grad.Objective{Loss: grad.CrossEntropy}, []int64{1, 2}},
		{grad.Objective{Loss: grad.CrossEntropy, Targeted: true}, []int64{3, 4}},
		{grad.Objective{Loss: grad.TargetedDLR}, []int64{1, 3, 2, 4}},
		{grad.Objective{Loss: grad.Difference}, []int64{1, 3, 2, 4}},
	} {
		if got := (&fedGradients{objective: c.objective}).classes(labels, targets); !slices.Equal(got, c.want) {
			t.Errorf("%+v: classes %v, want %v", c.objective, got, c.want)
		}
	}
}
