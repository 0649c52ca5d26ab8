package conformal

import "github.com/rscert/rscert/internal/law"

// An Attack says by how much an adversary may change the inputs. The zero value is no attack.
type Attack struct {
	Law          law.Name `json:"law,omitempty"`           // law of the noise; it must be additive
	Norm         law.Norm `json:"norm"`                    // norm of the radii, set by NewDesign
	Scale        float64  `json:"scale,omitempty"`         // scale of the noise, for example σ; 0 if there is no noise
	Radius       float64  `json:"radius"`                  // radius of the attack on a query, in the norm of the law
	PoisonRadius float64  `json:"poison_radius,omitempty"` // radius by which each calibration input may have been moved
	Rounding     float64  `json:"rounding,omitempty"`      // distance between a query and its lattice point, g√D for L2
	Queries      int64    `json:"queries,omitempty"`       // Q resubmissions that are all covered; 0 means 1
}

// Shift returns ρ = (Radius + PoisonRadius + Rounding)/Scale.
func (a Attack) Shift() float64 {
	sum := a.Radius + a.PoisonRadius + a.Rounding
	if sum == 0 {
		return 0
	}
	return sum / a.Scale
}

func (a Attack) queries() int64 { return max(1, a.Queries) }
