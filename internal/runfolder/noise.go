package runfolder

import (
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

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
	if r.sealed() && r.Parameters.Noise == spec.Lattice {
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
	t := r.Parameters.Target(alpha)
	t.Arithmetic = r.arithmetic()
	if t.Arithmetic == certify.Exact {
		t.Level = smoothing.Deflate(alpha, r.Noise.Eta, r.draws())
	}
	return t
}

// Target is the target of certificates with these parameters at alpha, before the noise is known: in idealised
// arithmetic.
func (p Parameters) Target(alpha float64) certify.Target {
	return certify.Target{
		Law: p.Law, Margin: p.Margin, Class: p.Class, Alpha: alpha, Sigma: p.Sigma, Lipschitz: p.Lipschitz,
		Arithmetic: certify.Idealised, Precision: p.Precision.String(),
	}
}
