package law

import (
	"math"
	"strings"

	"github.com/rscert/rscert/internal/choice"
)

// Norm is a norm of perturbations.
type Norm int

const (
	// L2 is the norm √Σδ². A file that names no norm means L2.
	L2 Norm = iota
	// L1 is the norm Σ|δ|.
	L1
	// LInf is the norm max |δ|. No law certifies in this norm, but a radius in L2 or L1 implies a radius in LInf.
	LInf
	// L0 is the number of coordinates that change. No law certifies in this norm.
	L0
)

// Norms lists all norms.
var Norms = choice.Of("norm", L2, L1, LInf, L0)

// String returns the name that files use.
func (n Norm) String() string { return [...]string{L2: "l2", L1: "l1", LInf: "linf", L0: "l0"}[n] }

// Title returns the name as it is written in sentences, for example "L∞".
func (n Norm) Title() string {
	if n == LInf {
		return "L∞"
	}
	return strings.ToUpper(n.String())
}

// MarshalText returns the name.
func (n Norm) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText parses the name of a Norm.
func (n *Norm) UnmarshalText(text []byte) error { return Norms.Unmarshal(text, n) }

// Add adds the contribution of a coordinate x to a sum. Length computes the norm from the sum of all contributions. Add
// must be called only for L1 and L2. For L2, Add rounds x² before it adds x² to the sum, so that all platforms get the
// same result.
func (n Norm) Add(sum, x float64) float64 {
	if n == L1 {
		return sum + math.Abs(x)
	}
	return sum + float64(x*x)
}

// Length returns the L1 or L2 norm, given the sum of the contributions of all coordinates. For d coordinates, the
// relative error of the norm is less than the error of d + 2 roundings.
func (n Norm) Length(sum float64) float64 {
	if n == L1 {
		return sum
	}
	return math.Sqrt(sum)
}
