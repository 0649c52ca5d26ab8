package runfolder

import (
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/smoothing"
)

// NoiseKind says in what arithmetic the noise is added.
type NoiseKind string

const (
	// Lattice draws integers and adds them to the integers of the data: what is certified
	// is what was run.
	Lattice NoiseKind = "lattice"
	// Float rounds x + σε to float32, for comparison: its certificates are idealised.
	Float NoiseKind = "float"
)

// NoiseKinds are all there are. Format 1 does not say which.
var NoiseKinds = choice.Of("noise", Lattice, Float).Optional().Describe(func(k NoiseKind) string {
	return map[NoiseKind]string{Lattice: "what is certified is what is run", Float: "idealised, for comparison"}[k]
})

func (k NoiseKind) String() string { return string(k) }

// MarshalText writes the name.
func (k NoiseKind) MarshalText() ([]byte, error) { return []byte(k), nil }

// UnmarshalText reads "lattice" or "float".
func (k *NoiseKind) UnmarshalText(text []byte) error { return NoiseKinds.Unmarshal(text, k) }

// Noise is what the noise of a run was, beside its law, its scale σ and the seed.
type Noise struct {
	// Distribution names the table with its parameters; empty for noise in floats.
	Distribution string `json:"distribution"`
	Step         string `json:"step"` // g of the lattice, a fraction
	// Table is the SHA-256 of the alias table, Entries its size.
	Table   string `json:"table"`
	Entries int    `json:"entries"`
	// Eta bounds what finite words cost: no mass is above 1 + Eta times its ideal.
	Eta float64 `json:"eta"`
	// Inputs says on which lattice the data are.
	Inputs string `json:"inputs"`
	// Quantised inputs are on no lattice: clamping them to [Low, High] and rounding them
	// is part of the classifier.
	Quantised bool    `json:"quantised,omitempty"`
	Low       float64 `json:"low,omitempty"`
	High      float64 `json:"high,omitempty"`
}

// arithmetic says for which noise the run's certificates hold. Format 1 had noise in
// floats alone.
func (r Run) arithmetic() certify.Arithmetic {
	if r.sealed() && r.Parameters.Noise == Lattice {
		return certify.Exact
	}
	return certify.Idealised
}

// draws is the most words that an example of the run can have taken.
func (r Run) draws() int64 {
	d := int64(1)
	for _, n := range r.Data.Shape {
		d *= int64(n)
	}
	return (r.Parameters.N0 + r.Parameters.N) * d
}

// Target is what the run certifies of each example at alpha: with what finite words leave
// of it.
func (r Run) Target(alpha float64) certify.Target {
	p := r.Parameters
	t := certify.Target{
		Law: p.Law, Margin: p.Margin, Class: p.Class, Alpha: alpha, Sigma: p.Sigma, Lipschitz: p.Lipschitz, Arithmetic: r.arithmetic(),
		Precision: p.Precision.String(),
	}
	if t.Arithmetic == certify.Exact {
		t.Level = smoothing.Deflate(alpha, r.Noise.Eta, r.draws())
	}
	return t
}
