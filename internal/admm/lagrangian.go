package admm

import (
	"math"
	"slices"
)

// Lagrangian holds the terms of the augmented Lagrangian, eq. (27) of Emde et al. 2025, after a step of ADMM. All
// variables and multipliers have their values from the end of the step. ρ has the value that the step used. If a
// constraint is met, its term is 0. The paper's Figure 9 shows these terms.
type Lagrangian struct {
	Objective  float64 // −Σ_m |Σ_n e_nm a_nm|
	Box        float64 // λ₁ᵀ(a − q₁) + ρ/2 ‖a − q₁‖²
	Sphere     float64 // λ₂ᵀ(a − q₂) + ρ/2 ‖a − q₂‖²
	Unique     float64 // λ₃ᵀ(Cᵀa − 1) + ρ/2 ‖Cᵀa − 1‖²
	Valid      float64 // λ₄ᵀ Kᵀa + ρ/2 ‖Kᵀa‖²
	Confidence float64 // λ₅ᵀ(z − g) + ρ/2 ‖z − g‖²
}

// Value returns the augmented Lagrangian.
func (l Lagrangian) Value() float64 {
	return l.Objective + l.Box + l.Sphere + l.Unique + l.Valid + l.Confidence
}

// multipliers holds λ₁, λ₂ and λ₅ before the update that ends a step.
type multipliers struct{ l1, l2, l5 []float64 }

func (s *state) multipliers() multipliers {
	return multipliers{slices.Clone(s.l1), slices.Clone(s.l2), slices.Clone(s.l5)}
}

// lagrangian returns the terms after a step. The state does not keep q₁, q₂ and g, so lagrangian computes the
// deviations a − q₁, a − q₂ and z − g from the multipliers. A step updates each multiplier by λ ← λ + ρd, where d is
// the deviation. So d is the change of λ, divided by ρ.
func (s *state) lagrangian(rho float64, before multipliers) (l Lagrangian) {
	for _, g := range s.gap {
		l.Objective -= math.Abs(g)
	}
	term := func(lambda, d float64) float64 { return lambda*d + rho/2*d*d }
	for c := range s.a {
		l.Box += term(s.l1[c], (s.l1[c]-before.l1[c])/rho)
		l.Sphere += term(s.l2[c], (s.l2[c]-before.l2[c])/rho)
		l.Confidence += term(s.l5[c], (s.l5[c]-before.l5[c])/rho)
	}
	for n := range s.n {
		var all, outside float64
		for k := range s.m {
			x := s.a[n*s.m+k]
			all += x
			if k < int(s.first[n]) || k > int(s.last[n]) {
				outside += x
			}
		}
		l.Unique += term(s.l3[n], all-1)
		l.Valid += term(s.l4[n], outside)
	}
	return l
}
