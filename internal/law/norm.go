package law

import (
	"fmt"
	"math"
	"strings"
)

// Norm is a norm of perturbations.
type Norm int

const (
	// L2 is √Σδ². A record that names no norm is in it.
	L2 Norm = iota
	// L1 is Σ|δ|.
	L1
)

// norms are their names, in files and in prose.
var norms = [...]struct{ name, title string }{L2: {"l2", "L2"}, L1: {"l1", "L1"}}

func (n Norm) String() string { return norms[n].name }

// Title is the name in prose.
func (n Norm) Title() string { return norms[n].title }

// MarshalText writes the name.
func (n Norm) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads the name of a Norm.
func (n *Norm) UnmarshalText(text []byte) error {
	var known []string
	for i, norm := range norms {
		if string(text) == norm.name {
			*n = Norm(i)
			return nil
		}
		known = append(known, norm.name)
	}
	return fmt.Errorf("unknown norm %.40q (one of %s)", text, strings.Join(known, ", "))
}

// Add adds a coordinate x to a sum, of which Length makes the norm. Products and sums are not fused.
func (n Norm) Add(sum, x float64) float64 {
	if n == L1 {
		return sum + math.Abs(x)
	}
	return sum + float64(x*x)
}

// Length is the norm of the coordinates in a sum. The sum and it are off by less than d + 2 roundings, relatively, for
// d coordinates.
func (n Norm) Length(sum float64) float64 {
	if n == L1 {
		return sum
	}
	return math.Sqrt(sum)
}
