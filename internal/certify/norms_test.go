package certify

import (
	"math"
	"testing"

	"github.com/rscert/rscert/internal/law"
)

// The test compares RadiusIn with two extreme perturbations. The first changes all coordinates by the same number, and
// the second changes only one coordinate.
func TestRadiusIn(t *testing.T) {
	const radius = 3.1
	for _, d := range []int{1, 4, 784} {
		s := Space{Dim: d, Span: 0.5}
		length := func(n law.Norm, coordinate float64, changed int) float64 {
			switch n {
			case law.LInf:
				return coordinate
			case law.L0:
				return float64(changed)
			}
			sum := 0.0
			for range changed {
				sum = n.Add(sum, coordinate)
			}
			return n.Length(sum)
		}
		for _, from := range []law.Norm{law.L2, law.L1} {
			for _, to := range []law.Norm{law.L2, law.L1, law.LInf} {
				got, err := s.RadiusIn(to, from, radius)
				if err != nil {
					t.Fatal(err)
				}
				// The test scales both perturbations. After the scaling, the length of each perturbation in the norm
				// 'to' equals the result of RadiusIn. In the norm 'from', the longer perturbation must then have the
				// length 3.1 (the constant 'radius').
				all, one := length(from, got/length(to, 1, d), d), length(from, got, 1)
				if far := max(all, one); far > radius*(1+1e-13) || far < radius*(1-1e-8) {
					t.Errorf("d = %d: %v in %s is %v in %s, and reaches %v", d, radius, from, got, to, far)
				}
			}
			k, err := s.RadiusIn(law.L0, from, radius)
			if err != nil || length(from, s.Span, int(k)) > radius || int(k) < d && length(from, s.Span, int(k)+1) <= radius || int(k) > d {
				t.Errorf("d = %d: %v in %s is %v coordinates (%v)", d, radius, from, k, err)
			}
		}
	}
	exact := Space{Dim: 100, Span: 1}
	// A change of four coordinates can have the length 2, which is the radius itself. Only smaller changes are
	// certified, so the result is three coordinates.
	if k, _ := exact.RadiusIn(law.L0, law.L2, 2); k != 3 {
		t.Errorf("R = 2: %v coordinates, want 3", k)
	}
	if got, _ := exact.RadiusIn(law.LInf, law.L2, math.MaxFloat64); got != math.MaxFloat64 {
		t.Errorf("an unbounded radius becomes %v", got)
	}
	for _, wrong := range []struct {
		s        Space
		to, from law.Norm
	}{{Space{Dim: 3}, law.L0, law.L2}, {Space{Dim: 3, Span: 1}, law.L2, law.LInf}, {Space{Span: 1}, law.LInf, law.L2}} {
		if got, err := wrong.s.RadiusIn(wrong.to, wrong.from, 1); err == nil {
			t.Errorf("%+v from %s to %s: %v", wrong.s, wrong.from, wrong.to, got)
		}
	}
}
