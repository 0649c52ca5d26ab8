package runfolder

import (
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/smoothing"
)

// NoiseKind is the arithmetic in which noise is added.
type NoiseKind string

const (
	// Lattice draws integers and adds them to the integers of the data. Certificates hold exactly for the computed
	// classifier.
	Lattice NoiseKind = "lattice"
	// Float rounds x + σε to float32, for comparison; its certificates hold for idealised noise.
	Float NoiseKind = "float"
)

// NoiseKinds lists all kinds. Format 1 does not record the kind.
var NoiseKinds = choice.Of("noise", Lattice, Float).Optional().Describe(func(k NoiseKind) string {
	return map[NoiseKind]string{Lattice: "what is certified is what is run", Float: "idealised, for comparison"}[k]
})

func (k NoiseKind) String() string { return string(k) }

// MarshalText returns the name.
func (k NoiseKind) MarshalText() ([]byte, error) { return []byte(k), nil }

// UnmarshalText reads "lattice" or "float".
func (k *NoiseKind) UnmarshalText(text []byte) error { return NoiseKinds.Unmarshal(text, k) }

// Noise describes the noise of a run, besides its law, scale σ and seed.
type Noise struct {
	// Distribution names the table and its parameters; empty for noise in floats.
	Distribution string `json:"distribution"`
	Step         string `json:"step"` // g of the lattice, a fraction
	// Table is the SHA-256 of the alias table, Entries its size.
	Table   string `json:"table"`
	Entries int    `json:"entries"`
	// Eta bounds the effect of finite words: no mass is above 1 + Eta times its ideal.
	Eta float64 `json:"eta"`
	// Inputs describes the lattice of the data.
	Inputs string `json:"inputs"`
	// Quantised inputs lie on no lattice: clamping them to [Low, High] and rounding them is part of the classifier.
	Quantised bool    `json:"quantised,omitempty"`
	Low       float64 `json:"low,omitempty"`
	High      float64 `json:"high,omitempty"`
}

// arithmetic returns the noise for which the run's certificates hold. Format 1 had only noise in floats.
func (r Run) arithmetic() certify.Arithmetic {
	if r.sealed() && r.Parameters.Noise == Lattice {
		return certify.Exact
	}
	return certify.Idealised
}

// draws returns the largest possible number of words for an example of the run.
func (r Run) draws() int64 {
	d := int64(1)
	for _, n := range r.Data.Shape {
		d *= int64(n)
	}
	return (r.Parameters.N0 + r.Parameters.N) * d
}

// Target returns the target of each example at alpha, less the part that finite words use.
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
