package attack

import (
	"context"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/graph/grad"
)

// Method is the name of an attack or preset, or a comma-separated list of such names. Several names mean that the
// attacks run in sequence.
type Method string

// These are the attacks and the presets.
const (
	// FGSM is one step of length Epsilon along the gradient (Goodfellow et al. 2015).
	FGSM Method = "fgsm"
	// PGD takes many steps along the gradient from a random start (Madry et al. 2018).
	PGD Method = "pgd"
	// APGDCE is Auto-PGD on the cross-entropy (Croce & Hein 2020). Auto-PGD chooses the lengths of its steps itself.
	APGDCE Method = "apgd-ce"
	// APGDDLR is Auto-PGD on the difference-of-logits ratio (DLR).
	APGDDLR Method = "apgd-dlr"
	// APGDT is Auto-PGD on the targeted difference-of-logits ratio.
	APGDT Method = "apgd-t"
	// FAB looks for the smallest perturbation. It steps past the nearest boundary and back (Croce & Hein 2020, FAB).
	FAB Method = "fab"
	// FABT is FAB towards one class at a time.
	FABT Method = "fab-t"
	// Square changes random squares and uses only scores (Andriushchenko et al. 2020).
	Square Method = "square"
	// Standard is AutoAttack's preset 'standard' (Croce & Hein 2020).
	Standard Method = "standard"
	// ACE changes the confidence of examples but not their class (Emde et al. 2025, equation 2).
	ACE Method = "ace"
	// PGDConf maximises the confidence in a wrong class (Stutz et al. 2020).
	PGDConf Method = "pgd-conf"
	// APGDConf uses Auto-PGD to maximise the confidence in a wrong class.
	APGDConf Method = "apgd-conf"
	// APGDConfT uses Auto-PGD to maximise the confidence in one wrong class after another.
	APGDConfT Method = "apgd-conf-t"
	// SquareConf uses random squares to maximise the confidence in a wrong class.
	SquareConf Method = "square-conf"
	// AAConf is the AutoAttack of Stutz et al., which attacks confidences.
	AAConf Method = "aa-conf"
)

// mostTargets is the largest number of classes that a targeted attack aims at. AutoAttack uses the same number.
const mostTargets = 9

// definition describes an attack or a preset. Each attack and each preset has one definition.
type definition struct {
	name      Method
	what      string    // a line of help
	gradients bool      // the attack uses gradients
	loss      grad.Loss // the loss that the attack raises; "": the user chooses, or the attack uses no gradients
	targets   int       // number of classes that the attack aims at; 0: none
	norms     []Norm
	steps     int // number of steps if the user gives none
	run       func(*Search, context.Context, []*target) error
	preset    []Stage // the attacks of a preset; a preset leaves the field 'run' nil
	// confidence is true if the attack changes confidences. Such an attack also attacks examples that the classifier
	// already gets wrong.
	confidence bool
}

// Stage is one attack in a sequence of attacks.
type Stage struct {
	Method Method
	Steps  int // 0 means the method's default
}

var both = []Norm{Linf, L2}

var definitions = []definition{
	{name: FGSM, what: "takes one step along the gradient", gradients: true, norms: both, steps: 1, run: (*Search).climb},
	{name: PGD, what: "takes many steps along gradients, from random starts", gradients: true, norms: both, steps: 40, run: (*Search).climb},
	{name: APGDCE, what: "maximises the cross-entropy by Auto-PGD, that is, PGD with automatic step sizes", gradients: true, loss: grad.CrossEntropy,
		norms: both, steps: 100, run: (*Search).autoClimb},
	{name: APGDDLR, what: "maximises the loss DLR ('difference of logits ratio') by Auto-PGD", gradients: true, loss: grad.DLR,
		norms: both, steps: 100, run: (*Search).autoClimb},
	{name: APGDT, what: "runs Auto-PGD towards up to nine wrong classes in turn", gradients: true, loss: grad.TargetedDLR, targets: mostTargets,
		norms: both, steps: 100, run: (*Search).autoClimb},
	{name: FAB, what: "looks for the smallest perturbation: it goes past the nearest class boundary, then back towards the example", gradients: true, loss: grad.Difference,
		norms: both, steps: 100, run: (*Search).fab},
	{name: FABT, what: "works like fab, but aims at up to nine wrong classes in turn", gradients: true, loss: grad.Difference, targets: mostTargets,
		norms: both, steps: 100, run: (*Search).fab},
	{name: Square, what: "changes random squares of the input, without gradients", norms: both, steps: 1000, run: (*Search).square},
	{name: Standard, what: "runs AutoAttack: apgd-ce, apgd-t, fab-t and square in turn", preset: []Stage{{APGDCE, 100}, {APGDT, 100}, {FABT, 100}, {Square, 5000}}},
	{name: ACE, what: "makes the calibration worse: it changes confidences but keeps every predicted class", gradients: true, loss: grad.CrossEntropy,
		norms: both, steps: 100, run: (*Search).ace, confidence: true},
	{name: PGDConf, what: "maximises the confidence in a wrong class by PGD", gradients: true, loss: grad.Confidence,
		norms: both, steps: 1000, run: (*Search).raise, confidence: true},
	{name: APGDConf, what: "maximises the confidence in a wrong class by Auto-PGD", gradients: true, loss: grad.Confidence,
		norms: both, steps: 1000, run: (*Search).autoRaise, confidence: true},
	{name: APGDConfT, what: "works like apgd-conf, but aims at up to nine wrong classes in turn", gradients: true, loss: grad.CrossEntropy, targets: mostTargets,
		norms: both, steps: 1000, run: (*Search).autoRaise, confidence: true},
	{name: SquareConf, what: "maximises the confidence in a wrong class by random squares, without gradients", norms: both, steps: 5000, run: (*Search).squareRaise, confidence: true},
	{name: AAConf, what: "runs AutoAttack for confidences: apgd-conf, apgd-conf-t and square-conf in turn; keeps the best input",
		preset: []Stage{{APGDConf, 1000}, {APGDConfT, 1000}, {SquareConf, 5000}}},
}

// Methods lists all attacks and presets.
var Methods = choice.Of("attack", names()...).Describe(func(m Method) string { return m.definition().what })

func names() []Method {
	all := make([]Method, len(definitions))
	for i, d := range definitions {
		all[i] = d.name
	}
	return all
}

// definition returns the definition of an attack or a preset. The method must be one of Methods or a SmoothedMethod.
// The definition of a SmoothedMethod holds only the name.
func (m Method) definition() definition {
	i := slices.IndexFunc(definitions, func(d definition) bool { return d.name == m })
	if i < 0 {
		return definition{name: m} // the method is a SmoothedMethod
	}
	return definitions[i]
}

func (m Method) String() string { return string(m) }

// MarshalText writes the method.
func (m Method) MarshalText() ([]byte, error) { return []byte(m), nil }

// UnmarshalText reads a method, a sequence of methods or a SmoothedMethod.
func (m *Method) UnmarshalText(text []byte) error {
	if _, err := SmoothedMethods.Parse(string(text)); err == nil {
		*m = Method(text)
		return nil
	}
	for name := range strings.SplitSeq(string(text), ",") {
		var one Method
		if err := Methods.Unmarshal([]byte(name), &one); err != nil {
			return err
		}
	}
	*m = Method(text)
	return nil
}

// Sequence returns the method that runs the given methods in turn, each on the examples that the earlier methods did
// not break.
func Sequence(methods ...Method) Method {
	names := make([]string, len(methods))
	for i, m := range methods {
		names[i] = string(m)
	}
	return Method(strings.Join(names, ","))
}

// Stages returns the attacks that the method runs in turn. If the method is a single attack, Stages returns only this
// attack.
func (m Method) Stages() (all []Stage) {
	for name := range strings.SplitSeq(string(m), ",") {
		d := Method(name).definition()
		if d.preset == nil {
			d.preset = []Stage{{Method: d.name}}
		}
		all = append(all, d.preset...)
	}
	return all
}

// Single reports whether the method is one attack, not a sequence of several.
func (m Method) Single() bool { return len(m.Stages()) == 1 }

// UsesGradients reports whether the method needs gradients.
func (m Method) UsesGradients() bool {
	return slices.ContainsFunc(m.Stages(), func(s Stage) bool { return s.Method.definition().gradients })
}

// Loss returns the loss that a single attack raises, or "" if the attack uses no gradients. The argument 'chosen' is
// the user's choice. Loss returns this choice only if the attack has no loss of its own. For a targeted attack (the
// argument 'targeted' is true), it returns TargetedDLR in place of the choice DLR.
func (m Method) Loss(chosen grad.Loss, targeted bool) grad.Loss {
	d := m.definition()
	switch {
	case !d.gradients:
		return ""
	case d.loss != "":
		return d.loss
	case chosen == grad.DLR && targeted:
		return grad.TargetedDLR
	}
	return chosen
}

// Targets returns the number of classes that a single attack aims at, or 0 if the attack is not targeted.
func (m Method) Targets() int { return m.definition().targets }

// Norms returns the norms in which the method can bound a perturbation.
func (m Method) Norms() []Norm {
	return slices.DeleteFunc(slices.Clone(Norms.Values()), func(n Norm) bool {
		return slices.ContainsFunc(m.Stages(), func(s Stage) bool { return !slices.Contains(s.Method.definition().norms, n) })
	})
}

// DefaultSteps is the number of steps or queries of a single attack if the user gives none.
func (m Method) DefaultSteps() int { return m.definition().steps }

// ChangesConfidence reports whether the method changes confidences. Such a method sets Found.Confidence and
// Found.Altered.
func (m Method) ChangesConfidence() bool {
	return slices.ContainsFunc(m.Stages(), func(s Stage) bool { return s.Method.definition().confidence })
}
