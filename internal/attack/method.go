package attack

import "github.com/rscert/rscert/internal/choice"

// Method is an attack.
type Method string

// The attacks.
const (
	// FGSM is one step of length Epsilon along the gradient (Goodfellow et al. 2015).
	FGSM Method = "fgsm"
	// PGD takes many steps along the gradient from a random start (Madry et al. 2018).
	PGD Method = "pgd"
	// Square changes random squares and uses scores alone (Andriushchenko et al. 2020).
	Square Method = "square"
)

// Methods lists all attacks.
var Methods = choice.Of("attack", FGSM, PGD, Square).Describe(func(m Method) string {
	return map[Method]string{FGSM: "one step along the gradient", PGD: "many steps, from random starts",
		Square: "random squares, without gradients, for linf"}[m]
})

func (m Method) String() string { return string(m) }

// MarshalText writes the method.
func (m Method) MarshalText() ([]byte, error) { return []byte(m), nil }

// UnmarshalText reads a method.
func (m *Method) UnmarshalText(text []byte) error { return Methods.Unmarshal(text, m) }

// UsesGradients reports whether the attack needs gradients.
func (m Method) UsesGradients() bool { return m != Square }
