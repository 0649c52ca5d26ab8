package conformal

import (
	"fmt"
	"math"

	"github.com/rscert/rscert/internal/law"
)

// An Attack says by how much an adversary may change the inputs. The zero value is no attack.
type Attack struct {
	Law          law.Name `json:"law,omitempty"`           // law of the noise; it must be additive
	Norm         law.Norm `json:"norm"`                    // norm of the radii, set by NewDesign
	Scale        float64  `json:"scale,omitempty"`         // scale of the noise, for example σ; 0 if there is no noise
	Radius       float64  `json:"radius"`                  // radius of the attack on a query, in the norm of the law
	PoisonRadius float64  `json:"poison_radius,omitempty"` // radius by which each calibration input may have been moved
	Rounding     float64  `json:"rounding,omitempty"`      // how far rounding to a lattice can move a query
	Queries      int64    `json:"queries,omitempty"`       // Q: the guarantee covers Q submissions per query; 0 means 1
}

// Shift returns ρ = (Radius + PoisonRadius + Rounding)/Scale, the distance in units of the scale. The proofs use ρ·(1 +
// 2⁻⁴⁸) instead of ρ. The difference covers the rounding errors of the radii, of their sum, of the scale, and of the
// quotient.
//
// The sum contains the poison radius for the following reason. Suppose that an adversary moved each calibration input
// by at most r_c, before anybody drew the secret noise of this input. Let p be the probability that a noisy score of
// the unmoved input reaches τ. The adversary raised p to at most F(Q(p) + r_c/σ), where F and Q are the law's
// distribution and quantile functions. So the counts of scores that reach τ are at most the corresponding counts of
// exchangeable examples that have the raised probabilities. The function g of the theorem must then undo two shifts:
// that of the calibration inputs and that of the query.
func (a Attack) Shift() float64 {
	sum := a.Radius + a.PoisonRadius + a.Rounding
	if sum == 0 {
		return 0
	}
	return sum / a.Scale
}

func (a Attack) queries() int64 { return max(1, a.Queries) }

// maxShift is the largest permitted ρ. For a larger ρ, g(p) is close to 0 for almost all p.
const maxShift = 12

func (a Attack) check() error {
	if _, err := law.Choices().Parse(string(a.Law)); err != nil {
		return fmt.Errorf("law %w", err)
	}
	if _, err := a.Law.Additive(); err != nil {
		return err
	}
	for _, c := range []struct {
		name  string
		value float64
	}{{"scale", a.Scale}, {"radius", a.Radius}, {"poison radius", a.PoisonRadius}, {"rounding", a.Rounding}} {
		if !(c.value >= 0) || math.IsInf(c.value, 1) {
			return fmt.Errorf("%s %v: want a finite number of 0 or more", c.name, c.value)
		}
	}
	switch shift := a.Shift(); {
	case math.IsInf(shift, 1):
		return fmt.Errorf("radius %v without noise: sets hold under attack only for a noisy model", a.Radius)
	case shift > maxShift:
		return fmt.Errorf("rho %.3g is the radius in units of the scale: want at most %d", shift, maxShift)
	case a.Queries < 0 || a.Queries > maxQueries:
		return fmt.Errorf("queries %d: want 1 to %d", a.Queries, maxQueries)
	}
	return nil
}

// claim returns the part of Design.Claim that says which attacks the guarantee covers.
func (a Attack) claim() string {
	norm := a.law().Norm().Title()
	text := ""
	if a.Radius > 0 {
		text += fmt.Sprintf(", for every attack within the %s radius %v", norm, a.Radius)
	}
	if a.PoisonRadius > 0 {
		text += fmt.Sprintf(", even if every calibration input was moved within the %s radius %v before its noise was drawn", norm, a.PoisonRadius)
	}
	return text
}

// law returns the law of the noise, or the Gaussian law if the attack names no additive law.
func (a Attack) law() law.Additive {
	l, err := a.Law.Additive()
	if err != nil {
		return law.Gaussian
	}
	return l
}
