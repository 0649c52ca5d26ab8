package admm

import (
	"context"
	"math"
)

// DECESteps is the number of ascent steps from each start.
const DECESteps = 1000

// The temperature falls from 0.01 to 10⁻⁶ (appendix M.2), by the same factor at
// every step. The paper found rate and schedule without effect and names none:
// these are ours.
const (
	firstTau    = 0.01
	lastTau     = 1e-6
	ascentRate  = 0.01 // at the start; falls to 0 along a half cosine
	ascentClip  = 1    // bound on each entry of the gradient of N·dECE
	softmaxTail = 40   // bins with less than e⁻⁴⁰ of the weight are left out
)

// DECE is gradient ascent on the differentiable calibration error of Bohdal et
// al. 2023 as simplified in Emde et al. 2025, appendix M (eq. 34): hard bins are
// replaced by soft ones,
//
//	dECE = (1/N) Σ_m |Σ_n s_nm (c_n − z_n)|,
//	s_n = softmax((w z_n + b)/τ), w_m = m, b_m = −Σ_{k<m} β_k,
//
// β the inner edges; as τ → 0 it becomes the ECE. z is clamped to its interval
// after each step. Like ADMM it keeps the best hard calibration error seen, so
// the result is never below the start. It is run from the clean and from the
// Brier confidences, and the better one returned.
func (p *Problem) DECE(ctx context.Context, steps int, progress func(steps int, ece float64)) Estimate {
	best := p.ascend(ctx, FromBrier, steps, progress)
	if p.clean != nil {
		interrupted := best.Interrupted
		if e := p.ascend(ctx, FromClean, steps, progress); e.ECE > best.ECE {
			best = e
		}
		best.Interrupted = interrupted || ctx.Err() != nil
	}
	return best
}

func (p *Problem) ascend(ctx context.Context, from Start, steps int, progress func(steps int, ece float64)) Estimate {
	n, m := len(p.samples), p.bins.Len()
	z := p.start(from)
	bestZ := append([]float64(nil), z...)
	top := p.ece(z)
	interrupted := false
	s := softBins{p: p, weight: make([]float64, n*m), first: make([]int, n), end: make([]int, n), gap: make([]float64, m)}
	for step := range steps {
		if ctx.Err() != nil {
			interrupted = true
			break
		}
		t := float64(step) / float64(max(1, steps-1))
		tau := firstTau * math.Pow(lastTau/firstTau, t)
		rate := ascentRate * (1 + math.Cos(math.Pi*t)) / 2
		s.ascend(z, tau, rate)
		ece := p.ece(z)
		if ece > top {
			top = ece
			copy(bestZ, z)
		}
		if progress != nil {
			progress(1, ece)
		}
	}
	return Estimate{ECE: top, Confidences: bestZ, Interrupted: interrupted}
}

// softBins are soft assignments s_nm, only those bins first[n] ≤ m < end[n] whose
// weight is not negligible.
type softBins struct {
	p          *Problem
	weight     []float64 // [N, M]
	first, end []int     // [N]
	gap        []float64 // [M] Σ_n s_nm (c_n − z_n)
}

// assign sets the weights of sample n at confidence x. Relative to the bin that x
// is in, the logit falls by (distance to the edge)/τ with each edge crossed.
func (s *softBins) assign(n int, x, tau float64) []float64 {
	m := s.p.bins.Len()
	edge := s.p.bins.Edges()
	w := s.weight[n*m : (n+1)*m]
	at := s.p.bins.Index(x)
	first, end := at, at+1
	w[at] = 1
	sum := 1.0
	for k, logit := at+1, 0.0; k < m; k++ {
		logit -= (edge[k] - x) / tau
		if logit < -softmaxTail {
			break
		}
		w[k] = math.Exp(logit)
		sum += w[k]
		end = k + 1
	}
	for k, logit := at-1, 0.0; k >= 0; k-- {
		logit -= (x - edge[k+1]) / tau
		if logit < -softmaxTail {
			break
		}
		w[k] = math.Exp(logit)
		sum += w[k]
		first = k
	}
	for k := first; k < end; k++ {
		w[k] /= sum
	}
	s.first[n], s.end[n] = first, end
	return w[first:end]
}

// gaps sets the soft assignments and returns N·dECE.
func (s *softBins) gaps(z []float64, tau float64) float64 {
	clear(s.gap)
	for n, x := range z {
		e := truth(s.p.samples[n]) - x
		for k, w := range s.assign(n, x, tau) {
			s.gap[s.first[n]+k] += w * e
		}
	}
	var sum float64
	for _, g := range s.gap {
		sum += math.Abs(g)
	}
	return sum
}

// gradient returns ∂(N·dECE)/∂z_n at the assignments that gaps has set:
// Σ_m sign(gap_m) s_nm (−1 + (c_n − z_n)(m − Σ_k k s_nk)/τ).
func (s *softBins) gradient(n int, x, tau float64) float64 {
	m := s.p.bins.Len()
	e := truth(s.p.samples[n]) - x
	first, end := s.first[n], s.end[n]
	w := s.weight[n*m+first : n*m+end]
	var mean float64
	for k, v := range w {
		mean += float64(k) * v
	}
	var grad float64
	for k, v := range w {
		d := v * (e*(float64(k)-mean)/tau - 1)
		switch g := s.gap[first+k]; {
		case g > 0:
			grad += d
		case g < 0:
			grad -= d
		}
	}
	return grad
}

func (s *softBins) ascend(z []float64, tau, rate float64) {
	s.gaps(z, tau)
	for n, v := range s.p.samples {
		grad := clamp(s.gradient(n, z[n], tau), -ascentClip, ascentClip)
		z[n] = clamp(z[n]+rate*grad, v.Lower, v.Upper)
	}
}
