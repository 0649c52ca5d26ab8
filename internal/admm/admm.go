// Package admm searches for confidences that make the expected calibration error large (Emde et al. 2025). Each
// confidence must lie within its certified interval. The searches come from the literature. The error that a search
// finds is at most the true maximum, so it certifies nothing. Package calib computes the maximum exactly (calib.CCE).
//
// NewProblem takes the intervals and the bins. Each search returns an Estimate: a calibration error, and confidences
// with this error.
//
//   - Problem.ADMM does one run of the paper's Algorithm 1. Problem.Best returns the best of several runs, for example
//     of PaperGrid().Runs.
//   - Problem.DECE does gradient ascent on the differentiable calibration error.
//   - Problem.Brier takes the confidences with the largest Brier score.
//   - Problem.Adaptive searches for a large calibration error in bins of equal count.
//
// A Watch receives the progress and the Residuals of a search.
package admm

import (
	"context"
	"math"
	"slices"

	"github.com/rscert/rscert/internal/calib"
)

// These constants come from the paper (appendix G.2).
const (
	gradientClip   = 5   // each step clamps every entry of the gradient ∂L/∂a to [−5, 5]
	assignmentClip = 1.2 // each step clamps the assignment a: ‖a − ½‖∞ ≤ 1.2 ‖q₂ − ½‖∞
)

// Problem holds the intervals and the bins of a search. The task is to choose one confidence from each interval so that
// the calibration error is as large as possible.
type Problem struct {
	samples []calib.Bounded
	clean   []float64 // [N] or nil
	bins    calib.Bins
}

// NewProblem returns an error if calib.CheckBounded refuses the samples. It does not check the other arguments. The
// argument 'clean' [N] holds the observed confidences, or is nil if they are unknown. A search that starts from the
// observed confidences first clamps them to their intervals.
func NewProblem(samples []calib.Bounded, clean []float64, bins calib.Bins) (*Problem, error) {
	if err := calib.CheckBounded(samples); err != nil {
		return nil, err
	}
	return &Problem{samples, clean, bins}, nil
}

// start returns the confidences from which a search begins: either the clean confidences, clamped to their intervals,
// or the confidences with the largest Brier score.
func (p *Problem) start(s Start) []float64 {
	z := make([]float64, len(p.samples))
	for n, v := range p.samples {
		if s == FromClean && p.clean != nil {
			z[n] = clamp(p.clean[n], v.Lower, v.Upper)
		} else {
			z[n] = v.BrierConfidence()
		}
	}
	return z
}

func (p *Problem) ece(z []float64) float64 {
	return p.bins.ECE(z, func(n int) bool { return p.samples[n].Correct })
}

func clamp(x, lo, hi float64) float64 {
	if x < lo {
		return lo
	}
	if x > hi {
		return hi
	}
	return x
}

// Estimate is the largest calibration error that a search found. It is at most the true maximum and certifies nothing.
type Estimate struct {
	ECE         float64
	Confidences []float64 // [N], each confidence is in its interval; ECE is the calibration error of these confidences
	Interrupted bool      // the search was stopped early
}

// Brier returns the confidences with the largest Brier score, and their calibration error.
func (p *Problem) Brier() Estimate {
	z := p.start(FromBrier)
	return Estimate{ECE: p.ece(z), Confidences: z}
}

// Residuals describes the iterate after one step. For a step of ADMM, the fields from Confidence to Sphere say how far
// the iterate is from meeting the constraints of the optimisation problem (see Problem.ADMM). A field of type Norms
// describes a vector of deviations by its 1-norm and its ∞-norm. The paper's Figures 9 and 10 show these quantities
// (appendix G.1).
type Residuals struct {
	Step         int
	Rho          float64 // ρ of the step
	SoftECE      float64 // calibration error Σ_m |Σ_n e_nm a_nm|/N of the relaxed variables (symbols: see Problem.ADMM)
	ProjectedECE float64 // calibration error of the projected copy of the iterate (see Problem.ADMM)
	Confidence   Norms   // distance of each z_nm from [l′, u′], the part of sample n's interval that lies in bin m
	Binary       Norms   // distance of the assignment a from {0, 1}^NM
	Unique       Norms   // Cᵀa − 1: each sample should be in one bin
	Valid        Norms   // Kᵀa: assignments to bins out of reach; they should be 0
	Box          Norms   // distance of the assignment a from [0, 1]^NM
	Sphere       float64 // distance of a from the sphere with centre ½ and radius √(NM)/2
	Lagrangian   Lagrangian
	// Assignment holds the assignments a_nm of predictions n to bins m (see Problem.ADMM) for the first
	// TracedPredictions predictions, row-major (the paper's Figure 11).
	Assignment []float64
}

// TracedPredictions is the number of predictions in the field Residuals.Assignment. With 15 bins, this field holds 150
// assignments, as many as the paper's Figure 11 shows.
const TracedPredictions = 10

// Norms holds the 1-norm and the ∞-norm of a vector of deviations.
type Norms struct{ Sum, Max float64 }

func (r *Norms) add(d float64) {
	d = math.Abs(d)
	r.Sum += d
	r.Max = max(r.Max, d)
}

// ADMM runs Algorithm 1 of Emde et al. 2025 once. The algorithm applies the alternating direction method of multipliers
// to the mixed-integer program of eq. (6), relaxed to the augmented Lagrangian of eq. (27). The variables for each
// sample n and bin m are the confidence z_nm and the assignment a_nm. c_n is 1 for a correct prediction and 0
// otherwise, and e_nm is c_n − z_nm. l′ and u′ are the ends of the part of the sample's interval that lies in the bin.
//
//	L = −Σ_m |Σ_n e_nm a_nm|
//	    + λ₁ᵀ(a − q₁) + ρ/2 ‖a − q₁‖²       q₁ in the box [0, 1]
//	    + λ₂ᵀ(a − q₂) + ρ/2 ‖a − q₂‖²       q₂ on the sphere: a is binary if it is in the box and on the sphere
//	    + λ₃ᵀ(Cᵀa − 1) + ρ/2 ‖Cᵀa − 1‖²     one bin for each sample
//	    + λ₄ᵀ Kᵀa + ρ/2 ‖Kᵀa‖²              no bin that the sample cannot reach
//	    + λ₅ᵀ(z − g) + ρ/2 ‖z − g‖²         l′ ≤ g ≤ u′
//
// Each step of ADMM begins with a gradient step for the assignments a. Then it takes a gradient step for the
// confidences z. It computes q₁, q₂ and g by the closed forms of eqs. (28)–(30). Last, it takes a gradient ascent step
// of size ρ for each λ. The iteration starts with a = 1/M, q₁ = q₂ = a, and all λ = 0. Each z_nm starts at the start
// confidence of sample n (Params.Start), clamped to [l′, u′], and g = z. (The paper does not say how the iteration
// starts.) After each step ADMM projects a copy of (a, z). The copy puts each sample n into the reachable bin m with
// the largest a_nm, and clamps z_nm to the part of the interval that lies in this bin. ADMM returns the copy with the
// largest calibration error (appendix G.1). A step takes O(NM) time, and the state has 7NM numbers.
//
// Let l and u be the ends of a sample's interval. The paper calls a bin with the edges e_m and e_{m+1} out of reach if
// max(l, e_m) ≥ min(u, e_{m+1}). This rule leaves no bin for a sample with l = u. ADMM instead calls Bins.Index to find
// the bins of l and u. These two bins and all bins between them are in reach.
//
// ADMM calls the function 'watch' after each step, unless 'watch' is nil. The Residuals that 'watch' receives always
// hold Step and ProjectedECE. After every residualsEvery-th step, they also hold Rho, SoftECE, the distances, the
// Lagrangian and the assignments. If residualsEvery is 0, they never hold more than Step and ProjectedECE.
func (p *Problem) ADMM(ctx context.Context, par Params, residualsEvery int, watch func(Residuals)) Estimate {
	s := newState(p, par)
	best := Estimate{ECE: -1}
	bestZ := make([]float64, len(p.samples))
	rho := s.par.Rho
	for step := 1; step <= par.Steps; step++ {
		if ctx.Err() != nil {
			best.Interrupted = true
			break
		}
		next := min(rho*s.par.Growth, s.par.MaxRho)
		s.assign(rho)
		traced := watch != nil && residualsEvery > 0 && step%residualsEvery == 0
		var before multipliers
		if traced {
			before = s.multipliers()
		}
		ece := s.move(rho, next)
		// If the iteration has overflowed, ece is NaN and the comparison is false.
		if ece > best.ECE {
			best.ECE = ece
			bestZ, s.projected = s.projected, bestZ
		}
		if watch != nil {
			r := Residuals{Step: step, ProjectedECE: ece}
			if traced {
				r.Rho = rho
				s.residuals(&r)
				r.Lagrangian = s.lagrangian(rho, before)
				r.Assignment = slices.Clone(s.a[:min(TracedPredictions, s.n)*s.m])
			}
			watch(r)
		}
		rho = next
	}
	if best.ECE < 0 { // ctx ended before the first step
		bestZ = p.start(par.Start)
	}
	best.ECE, best.Confidences = p.ece(bestZ), bestZ
	return best
}

// state is an ADMM iterate. Arrays over (n, m) are row-major [N, M].
//
// The state does not keep q₁, q₂ and g, because pullA and pullZ hold everything that the next step needs to know about
// them.
type state struct {
	*Problem
	par         Params
	n, m        int
	first, last []int32   // [N] first and last reachable bin
	a, z        []float64 // [N, M]
	l1, l2, l5  []float64 // [N, M] λ₁, λ₂, λ₅
	l3, l4      []float64 // [N]
	pullA       []float64 // [N, M] λ₁ + λ₂ − ρ(q₁ + q₂), with the ρ of the next step
	pullZ       []float64 // [N, M] λ₅ − ρg, with the ρ of the next step
	gap         []float64 // [M] Σ_n e_nm a_nm
	sign        []float64 // [M] sign of gap
	square      float64   // ‖λ₂/ρ + a − ½‖²
	reach       float64   // ‖q₂ − ½‖∞
	projected   []float64 // [N] the projected copy's confidences
	// [M] per bin: the sum of c_n − z_n over the samples that the projected copy puts into the bin
	hard  []float64
	below []float64 // [M] largest float64 in bin m
}

func newState(p *Problem, par Params) *state {
	par = par.complete()
	n, m := len(p.samples), p.bins.Len()
	cells := func() []float64 { return make([]float64, n*m) }
	s := &state{
		Problem: p, par: par, n: n, m: m,
		first: make([]int32, n), last: make([]int32, n),
		a: cells(), z: cells(), l1: cells(), l2: cells(), l5: cells(), pullA: cells(), pullZ: cells(),
		l3: make([]float64, n), l4: make([]float64, n),
		gap: make([]float64, m), sign: make([]float64, m), hard: make([]float64, m), below: make([]float64, m),
		projected: make([]float64, n),
	}
	for k := range m {
		s.below[k] = math.Nextafter(p.bins.Edges()[k+1], 0)
	}
	s.below[m-1] = 1
	uniform := 1 / float64(m)
	// s.reach is ‖q₂ − ½‖∞ and limits how far an assignment can be from ½. It starts at 0.5, the value for binary
	// assignments. If M > 1, the initial assignments 1/M give a smaller ‖q₂ − ½‖∞ than 0.5. If M is small, this smaller
	// value would keep the assignments near ½.
	s.reach = 0.5
	for i, x := range p.start(par.Start) {
		v := p.samples[i]
		s.first[i], s.last[i] = int32(p.bins.Index(v.Lower)), int32(p.bins.Index(v.Upper))
		for k := range m {
			lo, hi := s.limits(i, k)
			c := i*m + k
			s.a[c], s.z[c] = uniform, clamp(x, lo, hi)
			s.pullA[c] = -2 * par.Rho * uniform
			s.pullZ[c] = -par.Rho * s.z[c]
			s.gap[k] += (truth(v) - s.z[c]) * uniform
		}
	}
	return s
}

func truth(v calib.Bounded) float64 {
	if v.Correct {
		return 1
	}
	return 0
}

// limits returns l′ and u′, the ends of the part of sample n's interval that lies in bin m. Both are 0 if the bin is
// out of reach.
func (s *state) limits(n, m int) (lo, hi float64) {
	if m < int(s.first[n]) || m > int(s.last[n]) {
		return 0, 0
	}
	v := s.samples[n]
	return max(v.Lower, s.bins.Edges()[m]), min(v.Upper, s.below[m])
}

// takeSigns sets the field 'sign' to the signs of the field 'gap'. Then it sets 'gap' to zeros for the next sum.
func (s *state) takeSigns() {
	for k, g := range s.gap {
		switch {
		case g > 0:
			s.sign[k] = 1
		case g < 0:
			s.sign[k] = -1
		default:
			s.sign[k] = 0
		}
		s.gap[k] = 0
	}
}

// assign takes the gradient step for the assignments (the field 'a').
func (s *state) assign(rho float64) {
	s.takeSigns()
	m, rate := s.m, s.par.RateA
	lowest, highest := 0.5-assignmentClip*s.reach, 0.5+assignmentClip*s.reach
	inverse := 1 / rho
	var square float64
	sign, gap := s.sign[:m], s.gap[:m]
	for n, v := range s.samples {
		from, to := n*m, (n+1)*m
		a, z, pull, l2 := s.a[from:to][:m], s.z[from:to][:m], s.pullA[from:to][:m], s.l2[from:to][:m]
		first, last := int(s.first[n]), int(s.last[n])
		var all, outside float64
		for k, x := range a {
			all += x
			if k < first || k > last {
				outside += x
			}
		}
		unique := s.l3[n] + rho*(all-1)
		valid := s.l4[n] + rho*outside
		c := truth(v)
		for k := range m {
			e := c - z[k]
			grad := unique + pull[k] + 2*rho*a[k] - e*sign[k]
			if k < first || k > last {
				grad += valid
			}
			x := clamp(a[k]-rate*clamp(grad, -gradientClip, gradientClip), lowest, highest)
			a[k] = x
			gap[k] += e * x
			d := l2[k]*inverse + x - 0.5
			square += d * d
		}
	}
	s.square = square
}

// move completes a step: it takes the gradient step for the confidences z, solves eqs. (28)–(30) for q₁, q₂ and g, and
// updates the multipliers λ. It returns the calibration error of the projected copy of (a, z) (see Problem.ADMM).
func (s *state) move(rho, next float64) (ece float64) {
	s.takeSigns()
	m, rate := s.m, s.par.RateZ
	inverse := 1 / rho
	// q₂ − ½ = shrink·(λ₂/ρ + a − ½), eq. (29).
	shrink := 0.0
	if s.square > 0 {
		shrink = math.Sqrt(float64(s.n)*float64(m)/s.square) / 2
	}
	var reach float64
	sign, gap, hard := s.sign[:m], s.gap[:m], s.hard[:m]
	for n, v := range s.samples {
		from, to := n*m, (n+1)*m
		a, z := s.a[from:to][:m], s.z[from:to][:m]
		l1, l2, l5 := s.l1[from:to][:m], s.l2[from:to][:m], s.l5[from:to][:m]
		pullA, pullZ := s.pullA[from:to][:m], s.pullZ[from:to][:m]
		edge, below := s.bins.Edges()[:m], s.below[:m]
		first, last := int(s.first[n]), int(s.last[n])
		c := truth(v)
		var all, outside float64
		top, topAt := math.Inf(-1), first
		for k := range m {
			x := a[k]
			all += x
			var lo, hi float64
			if k < first || k > last {
				outside += x
			} else {
				lo, hi = overlap(v, edge[k], below[k])
				if x > top {
					top, topAt = x, k
				}
			}

			y := z[k] - rate*(x*sign[k]+pullZ[k]+rho*z[k])
			z[k] = y
			gap[k] += (c - y) * x
			g := l5[k]*inverse + y
			q := clamp(g, lo, hi)
			l5[k] = rho * (g - q)
			pullZ[k] = l5[k] - next*q

			b := l1[k]*inverse + x
			q1 := clamp(b, 0, 1)
			d := l2[k]*inverse + x - 0.5
			q2 := shrink * d
			if distance := math.Abs(q2); distance > reach {
				reach = distance
			}
			l1[k] = rho * (b - q1)
			l2[k] = rho * (d - q2)
			pullA[k] = l1[k] + l2[k] - next*(q1+q2+0.5)
		}
		s.l3[n] += rho * (all - 1)
		s.l4[n] += rho * outside
		x := clamp(z[topAt], max(v.Lower, edge[topAt]), min(v.Upper, below[topAt]))
		s.projected[n] = x
		hard[topAt] += c - x
	}
	s.reach = reach
	for k, g := range hard {
		ece += math.Abs(g)
		hard[k] = 0
	}
	return ece / float64(s.n)
}

// overlap returns the ends of the part of v's interval that lies in the bin from low to high.
func overlap(v calib.Bounded, low, high float64) (float64, float64) {
	if v.Lower > low {
		low = v.Lower
	}
	if v.Upper < high {
		high = v.Upper
	}
	return low, high
}

// The method 'residuals' sets the relaxed calibration error and the distances in r. It computes the error (SoftECE)
// from the values in s.gap. It computes the distances of the values in s.a and s.z from the constraints.
func (s *state) residuals(r *Residuals) {
	for _, g := range s.gap {
		r.SoftECE += math.Abs(g) / float64(s.n)
	}
	var square float64
	for n := range s.n {
		var all, outside float64
		for k := range s.m {
			x, y := s.a[n*s.m+k], s.z[n*s.m+k]
			lo, hi := s.limits(n, k)
			r.Confidence.add(y - clamp(y, lo, hi))
			r.Binary.add(min(math.Abs(x), math.Abs(x-1)))
			r.Box.add(x - clamp(x, 0, 1))
			square += (x - 0.5) * (x - 0.5)
			all += x
			if k < int(s.first[n]) || k > int(s.last[n]) {
				outside += x
			}
		}
		r.Unique.add(all - 1)
		r.Valid.add(outside)
	}
	r.Sphere = math.Abs(math.Sqrt(square) - math.Sqrt(float64(s.n)*float64(s.m))/2)
}
