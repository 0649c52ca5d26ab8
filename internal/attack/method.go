package attack

import (
	"context"
	"slices"

	"github.com/rscert/rscert/internal/choice"
)

// Method is the name of an attack.
type Method string

// The attacks.
const (
	// FGSM is one step of length Epsilon along the gradient (Goodfellow et al. 2015).
	FGSM Method = "fgsm"
	// PGD takes many steps along the gradient from a random start (Madry et al. 2018).
	PGD Method = "pgd"
	// Square changes random squares and uses scores alone (Andriushchenko et al. 2020).
	Square Method = "square"
	// ACE changes confidences and keeps every class (Emde et al. 2025, equation 2).
	ACE Method = "ace"
	// PGDConf maximises the confidence in a wrong class (Stutz et al. 2020).
	PGDConf Method = "pgd-conf"
)

// definition says what an attack is, needs and does. An attack is one file and one definition.
type definition struct {
	name      Method
	what      string // a line of help
	gradients bool   // it uses gradients
	norms     []Norm
	steps     int // where the user gives none
	run       func(*Search, context.Context, []*target) error
	// confidence: it changes confidences. It also attacks the examples that are wrong already.
	confidence bool
}

var definitions = []definition{
	{name: FGSM, what: "one step along the gradient", gradients: true, norms: []Norm{Linf, L2}, steps: 1, run: (*Search).climb},
	{name: PGD, what: "many steps, from random starts", gradients: true, norms: []Norm{Linf, L2}, steps: 40, run: (*Search).climb},
	{name: Square, what: "random squares, without gradients, for linf", norms: []Norm{Linf}, steps: 1000, run: (*Search).square},
	{name: ACE, what: "changes confidences and keeps every class, to harm calibration", gradients: true, norms: []Norm{Linf, L2},
		steps: 100, run: (*Search).ace, confidence: true},
	{name: PGDConf, what: "maximises the confidence in a wrong class", gradients: true, norms: []Norm{Linf, L2},
		steps: 1000, run: (*Search).raise, confidence: true},
}

// Methods lists all attacks.
var Methods = choice.Of("attack", names()...).Describe(func(m Method) string { return m.definition().what })

func names() []Method {
	all := make([]Method, len(definitions))
	for i, d := range definitions {
		all[i] = d.name
	}
	return all
}

// definition returns the attack's definition. The method must be one of Methods.
func (m Method) definition() definition {
	return definitions[slices.IndexFunc(definitions, func(d definition) bool { return d.name == m })]
}

func (m Method) String() string { return string(m) }

// MarshalText writes the method.
func (m Method) MarshalText() ([]byte, error) { return []byte(m), nil }

// UnmarshalText reads a method.
func (m *Method) UnmarshalText(text []byte) error { return Methods.Unmarshal(text, m) }

// UsesGradients reports whether the attack needs gradients.
func (m Method) UsesGradients() bool { return m.definition().gradients }

// Norms returns the norms in which the attack can bound a perturbation.
func (m Method) Norms() []Norm { return m.definition().norms }

// DefaultSteps is the number of steps or queries of an attack whose user gives none.
func (m Method) DefaultSteps() int { return m.definition().steps }

// ChangesConfidence reports whether the attack changes confidences. Found.Confidence and Found.Altered are then set.
func (m Method) ChangesConfidence() bool { return m.definition().confidence }
