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
	// FAB steps past the nearest boundary and back, for the smallest perturbation (Croce & Hein 2020b).
	FAB Method = "fab"
	// FABTargeted is FAB towards one class at a time.
	FABTargeted Method = "fab-t"
	// Square changes random squares and uses scores alone (Andriushchenko et al. 2020).
	Square Method = "square"
)

// definition says what an attack is, needs and does. An attack is one file and one definition.
type definition struct {
	name      Method
	what      string // a line of help
	gradients bool   // it uses gradients
	norms     []Norm
	steps     int // where the user gives none
	run       func(*Search, context.Context, []*target) error
}

var definitions = []definition{
	{FGSM, "one step along the gradient", true, []Norm{Linf, L2}, 1, (*Search).climb},
	{PGD, "many steps, from random starts", true, []Norm{Linf, L2}, 40, (*Search).climb},
	{FAB, "smallest perturbation: past the nearest boundary and back", true, []Norm{Linf, L2}, 100, (*Search).fab},
	{FABTargeted, "fab towards each of the 9 likeliest other classes", true, []Norm{Linf, L2}, 100, (*Search).fabTargeted},
	{Square, "random squares, without gradients", false, []Norm{Linf, L2}, 1000, (*Search).square},
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

// UsesDifferences reports whether the attack's gradients are of differences of two logits, not of a loss.
func (m Method) UsesDifferences() bool { return m == FAB || m == FABTargeted }

// Norms returns the norms in which the attack can bound a perturbation.
func (m Method) Norms() []Norm { return m.definition().norms }

// DefaultSteps is the number of steps or queries of an attack whose user gives none.
func (m Method) DefaultSteps() int { return m.definition().steps }
