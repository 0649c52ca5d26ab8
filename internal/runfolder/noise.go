package runfolder

import (
	"math/big"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// Noise describes the noise of a run, except its law, its scale σ and its seed.
type Noise struct {
	// Distribution names the noise table and the table's parameters. It is empty for noise in floats.
	Distribution string `json:"distribution"`
	Step         string `json:"step"` // step of the lattice, as a fraction
	// Table is the SHA-256 of the alias table. Entries is the table's size.
	Table   string `json:"table"`
	Entries int    `json:"entries"`
	// Eta bounds the rounding of the noise's probabilities. They are rounded because the random words have finite
	// length. A rounded probability is at most 1 + Eta times its ideal value.
	Eta float64 `json:"eta"`
	// Inputs describes the lattice of the data.
	Inputs string `json:"inputs"`
	// Quantised means that the data do not lie on a lattice. The classifier clamps each value to [Low, High] and rounds
	// it to the lattice whose step is Step.
	Quantised bool    `json:"quantised,omitempty"`
	Low       float64 `json:"low,omitempty"`
	High      float64 `json:"high,omitempty"`
	// Columns describes the lattices of the columns, if each column has its own scale. Step is then empty, and Eta is
	// the largest Eta of the columns' tables.
	Columns []NoiseColumn `json:"columns,omitempty"`
}

// arithmetic returns certify.Exact if the run's certificates hold for noise on a lattice, and certify.Idealised for
// noise in floats. Runs in format 1 (Run.Schema) had only noise in floats.
func (r Run) arithmetic() certify.Arithmetic {
	if r.sealed() && r.Parameters.Noise == spec.Lattice {
		return certify.Exact
	}
	return certify.Idealised
}

// draws returns the maximum number of random words that the noise of an example takes.
func (r Run) draws() int64 { return (r.Parameters.N0 + r.Parameters.N) * r.noisyInputs() }

// Target returns the run's certification target for the failure probability alpha. For noise on a lattice, the target's
// level is alpha times a factor below 1 (see smoothing.Deflate), because the random words of the noise have finite
// length.
func (r Run) Target(alpha float64) certify.Target {
	t := r.Parameters.Target(alpha)
	t.Arithmetic = r.arithmetic()
	if t.Law.Deterministic() {
		t.Step, _ = new(big.Rat).SetString(r.Noise.Step) // nil if Noise.Step is not a number; certification then fails
		return t
	}
	if inputs, err := dataset.ParseLattice(r.Noise.Inputs); err == nil && t.Law.Law().Norm() == law.L1 && !t.Scaled && !r.Noise.Quantised {
		t.Step = inputs.Step // the lattice of the noise can be finer than the lattice of the inputs
	}
	if t.Arithmetic == certify.Exact {
		t.Level = smoothing.Deflate(alpha, r.Noise.Eta, r.draws())
	}
	return t
}

// Target returns the certification target for these parameters at alpha. Its Arithmetic is certify.Idealised, because
// the noise of the run is not known yet.
func (p Parameters) Target(alpha float64) certify.Target {
	return certify.Target{
		Law: p.Law, Margin: p.Margin, Class: p.Class, Alpha: alpha, Sigma: p.Sigma, Lipschitz: p.Lipschitz, Scaled: p.Scaled(),
		Arithmetic: certify.Idealised, Precision: p.Precision.String(),
		Claim: p.Claim(),
	}
}

// Inputs returns the number of values of an input.
func (r Run) Inputs() int64 {
	d := int64(1)
	for _, n := range r.Data.Shape {
		d *= int64(n)
	}
	return d
}

// Space returns the space of the run's inputs. It sets Span, the largest possible change of one value, in two cases:
// the data are images with integer values, or the classifier clamps each value. For other data, Span is 0. The values 0
// and 1 in a table also have the form k/255 of bytes (k = 0 and k = 255), but only by chance. So Span is 0 for tables,
// too.
func (r Run) Space() certify.Space {
	s := certify.Space{Dim: int(r.Inputs())}
	if r.Noise.Quantised {
		s.Span = r.Noise.High - r.Noise.Low
		return s
	}
	switch l, err := dataset.ParseLattice(r.Noise.Inputs); {
	case err != nil, len(r.Data.Shape) != 3:
	case l.Kind == dataset.ByteLattice, l.Kind == dataset.WordLattice:
		s.Span = 1
	}
	return s
}
