package runfolder

import (
	"errors"
	"fmt"
	"math"
	"math/big"

	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// NoiseColumn is the lattice of a column. All its fields are empty for a column without noise.
type NoiseColumn struct {
	Step string `json:"step,omitempty"` // as a fraction
	// Quantised means that the column's values do not lie on a lattice. The classifier clamps each value to [Low, High]
	// and rounds it to the lattice whose step is Step.
	Quantised bool    `json:"quantised,omitempty"`
	Low       float64 `json:"low,omitempty"`
	High      float64 `json:"high,omitempty"`
}

// ScaleData identifies the data from which the scales of the columns were computed.
type ScaleData struct {
	File   string  `json:"file"`
	SHA256 string  `json:"sha256"`
	Kind   string  `json:"kind"`  // "std": the scales come from standard deviations
	Sigma  float64 `json:"sigma"` // the scale of a column is Sigma times the column's standard deviation
}

// validateColumns checks the scales of the columns.
func (r Run) validateColumns() error {
	columns := r.Parameters.SigmaColumns
	if len(columns) == 0 {
		if len(r.Noise.Columns) > 0 {
			return errors.New("its noise has columns, and its parameters have no sigma-columns")
		}
		return nil
	}
	seen := map[string]bool{}
	for _, c := range columns {
		if !(c.Sigma >= 0) || math.IsInf(c.Sigma, 1) || seen[c.Name] {
			return fmt.Errorf("the sigma %v of the column %.60q is not valid, or the column has two", c.Sigma, c.Name)
		}
		seen[c.Name] = true
	}
	switch n := int64(len(columns)); {
	case r.Parameters.Sigma != 1:
		return fmt.Errorf("sigma is %v, and 1 with sigma-columns", r.Parameters.Sigma)
	case r.Parameters.Noise != spec.Lattice || len(r.Noise.Columns) != len(columns):
		return errors.New("it does not record the lattice of each column")
	case r.Inputs()%n != 0:
		return fmt.Errorf("%d columns do not divide %d values", n, r.Inputs())
	case r.Parameters.Noisy() == 0:
		return errors.New("no column has noise")
	}
	return nil
}

// noisyInputs returns how many values of an input get noise.
func (r Run) noisyInputs() int64 {
	p := r.Parameters
	if !p.Scaled() {
		return r.Inputs()
	}
	return r.Inputs() / int64(len(p.SigmaColumns)) * int64(p.Noisy())
}

// ColumnTables computes the tables of the columns' noise. It also checks the recorded steps.
func (r Run) ColumnTables() (smoothing.ColumnTables, error) {
	columns := r.Parameters.SigmaColumns
	l, err := r.Parameters.Law.Additive()
	if err != nil {
		return nil, err
	}
	scales, steps := make([]float64, len(columns)), make([]*big.Rat, len(columns))
	for i, c := range columns {
		n := r.Noise.Columns[i]
		if scales[i] = c.Sigma; c.Sigma == 0 {
			if n != (NoiseColumn{}) {
				return nil, fmt.Errorf("the column %q has no noise, but a lattice", c.Name)
			}
			continue
		}
		step, ok := new(big.Rat).SetString(n.Step)
		switch {
		case !ok || step.Sign() <= 0:
			return nil, fmt.Errorf("the step of the column %q is %q", c.Name, n.Step)
		case !n.Quantised:
			steps[i] = step
		case step.Cmp(new(big.Rat).SetFloat64(smoothing.ColumnStep(l, c.Sigma))) != 0:
			return nil, fmt.Errorf("the step of the column %q is %s, which is not that of its sigma %v", c.Name, n.Step, c.Sigma)
		}
	}
	return smoothing.NewColumnTables(l, scales, steps)
}
