package admm

import (
	"context"
	"math"
	"math/rand/v2"
)

// DECESteps is the default number of ascent steps from each start.
const DECESteps = 1000

// The temperature τ of DECE falls from 0.01 to 10⁻⁶ (appendix M.2), by the same factor at every step. According to the
// paper, the learning rate and its schedule have no effect. The paper states neither this rate nor its schedule, so
// ascentRate and the default schedule are our choice.
const (
	firstTau    = 0.01
	lastTau     = 1e-6
	ascentRate  = 0.01 // default learning rate at the start
	ascentClip  = 1    // every step clamps each entry of the gradient of N·dECE to [−1, 1]
	softmaxTail = 40   // weights below e⁻⁴⁰ times the largest weight count as 0
)

// DECE runs gradient ascent on the differentiable calibration error of Bohdal et al. 2023, in the simplified form of
// Emde et al. 2025, appendix M (eq. 34). Soft bins replace the hard bins:
//
//	dECE = (1/N) Σ_m |Σ_n s_nm (c_n − z_n)|,
//	s_n = softmax((w z_n + b)/τ), w_m = m, b_m = −Σ_{k<m} β_k,
//
// where β are the inner edges. As τ → 0 the dECE becomes the ECE. After each step, DECE clamps each z_n to its
// interval. DECE does one run from each start, and does all runs in parallel. The random starts come last. A run
// returns the largest hard calibration error that it saw, at the start or after a step. DECE returns the best run, or
// the first of several equally good runs. If there is no start, it returns a NoStartError. In the Residuals that the
// Watch receives, DECE sets only three fields: Step, SoftECE (the dECE at the τ of the step) and ProjectedECE (the hard
// error).
func (p *Problem) DECE(ctx context.Context, par DECEParams, w Watch) (Estimate, error) {
	starts := par.StartsFrom(p.clean != nil)
	if len(starts)+par.Drawn() == 0 {
		return Estimate{}, NoStartError{}
	}
	par = par.Complete()
	return bestRun(len(starts)+par.Drawn(), func(run int) Estimate {
		switch k := run - len(starts); {
		case k < 0:
			return p.ascend(ctx, p.start(starts[run]), par, run, w)
		case k < par.Random:
			return p.ascend(ctx, p.randomStart(par.Seed, k), par, run, w)
		default:
			return p.ascend(ctx, p.gaussianStart(par.Seed, k), par, run, w)
		}
	}), nil
}

// gaussianStart draws each confidence from a normal distribution around the middle of its interval, and clamps the
// confidence to the interval.
func (p *Problem) gaussianStart(seed uint64, k int) []float64 {
	r := rand.New(rand.NewPCG(seed, uint64(k)))
	z := make([]float64, len(p.samples))
	for n, v := range p.samples {
		half := (v.Upper - v.Lower) / 2
		z[n] = clamp(v.Lower+half+half*r.NormFloat64(), v.Lower, v.Upper)
	}
	return z
}

// randomStart draws confidences uniformly from their intervals.
func (p *Problem) randomStart(seed uint64, k int) []float64 {
	r := rand.New(rand.NewPCG(seed, uint64(k)))
	z := make([]float64, len(p.samples))
	for n, v := range p.samples {
		z[n] = clamp(v.Lower+float64(r.Float64()*(v.Upper-v.Lower)), v.Lower, v.Upper)
	}
	return z
}

// ascend does one run of DECE, which starts from the confidences z. It changes z.
func (p *Problem) ascend(ctx context.Context, z []float64, par DECEParams, run int, w Watch) Estimate {
	n, m := len(p.samples), p.bins.Len()
	bestZ := append([]float64(nil), z...)
	top := p.ece(z)
	interrupted := false
	s := softBins{p: p, weight: make([]float64, n*m), first: make([]int, n), end: make([]int, n), gap: make([]float64, m),
		velocity: make([]float64, n)}
	rate := learningRate{schedule: par.Schedule, rate: par.Rate}
	for step := range par.Steps {
		if ctx.Err() != nil {
			interrupted = true
			break
		}
		t := float64(step) / float64(max(1, par.Steps-1))
		tau := firstTau * math.Pow(lastTau/firstTau, t)
		s.ascend(z, tau, rate.at(t), par.Momentum)
		ece := p.ece(z)
		rate.observe(ece)
		if ece > top {
			top = ece
			copy(bestZ, z)
		}
		r := Residuals{Step: step + 1, ProjectedECE: ece}
		if w.traces(r.Step) {
			r.SoftECE = s.gaps(z, tau) / float64(n)
		}
		w.step(run, r)
	}
	return Estimate{ECE: top, Confidences: bestZ, Interrupted: interrupted}
}

// softBins holds soft assignments s_nm. For sample n it keeps only the bins first[n] ≤ m < end[n]. The weights of the
// other bins are negligible.
type softBins struct {
	p          *Problem
	weight     []float64 // [N, M]
	first, end []int     // [N]
	gap        []float64 // [M] Σ_n s_nm (c_n − z_n)
	velocity   []float64 // [N] the last step divided by the learning rate
}

// learningRate computes the learning rate of DECE according to a Schedule.
type learningRate struct {
	schedule Schedule
	rate     float64
	top      float64 // largest calibration error so far
	idle     int     // steps since 'top' last grew or 'rate' last fell
}

// at(t) returns the learning rate when the share t of all steps is done.
func (l *learningRate) at(t float64) float64 {
	if l.schedule == Cosine {
		return l.rate * (1 + math.Cos(math.Pi*t)) / 2
	}
	return l.rate
}

// observe gets the calibration error of a step. If the schedule is Plateau, it divides the rate by ten after 11 steps
// in a row without a new largest error.
func (l *learningRate) observe(ece float64) {
	const patience, factor = 10, 0.1
	if l.idle++; ece > l.top {
		l.top, l.idle = ece, 0
	}
	if l.schedule == Plateau && l.idle > patience {
		l.rate, l.idle = l.rate*factor, 0
	}
}

// assign computes the soft assignments of sample n for the confidence x. The bin of x has the logit 0. For every other
// bin, each edge between x and the bin lowers the bin's logit by (distance from x to the edge)/τ.
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

// gaps(z, τ) computes the soft assignments and the field 'gap' for the confidences z, and returns N·dECE.
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

// gradient returns ∂(N·dECE)/∂z_n = Σ_m sign(gap_m) s_nm (−1 + (c_n − z_n)(m − Σ_k k s_nk)/τ). It uses the soft
// assignments and gaps that the method 'gaps' has computed.
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

func (s *softBins) ascend(z []float64, tau, rate, momentum float64) {
	s.gaps(z, tau)
	for n, v := range s.p.samples {
		s.velocity[n] = momentum*s.velocity[n] + clamp(s.gradient(n, z[n], tau), -ascentClip, ascentClip)
		z[n] = clamp(z[n]+rate*s.velocity[n], v.Lower, v.Upper)
	}
}
