package calib

import (
	"fmt"
	"math"
)

// WeightedVariation returns an upper bound on the calibration error of a population Q. The data are pairs (s, y) from a
// population P, and each pair has a weight w = dQ/dP. Then
//
//	CE_Q = E_Q|s − η_Q(s)| = E_P|g(s)|,  g(s) = E_P[w(s−y) | s],  η_Q(s) = E_P[wy | s]/E_P[w | s],
//
// and the assumption is that η_Q has total variation at most V. This η_Q differs from P(y=1|s) under P. Let w ≤ W. With
// probability ≥ 1−δ,
//
//	CE_Q ≤ min_k A_k + t,
//	A_k = Σ_b|(1/n)Σ_{i∈b} w_i(s_i−y_i)| + ½[Σ_b p_b·ω⁺_b·width_b + V·max_b p_b·ω⁺_b].
//
// The partitions k are those of BinnedVariation. A bin b has a share p_b of the scores. width_b is the largest score of
// the bin minus its smallest score. ω⁺_b is an upper bound on the mean of E[w|s] over the bin's scores. The second part
// of A_k leaves out the bins with a single score value.
//
// Proof. Let g_i = g(s_i) = ω_i·d_i with ω_i = E[w|s_i] ≥ 0 and d_i = s_i − η_Q(s_i). In a bin, d varies by at most D =
// width_b + V_b, where V_b is the variation of η_Q in the bin. If some d_i are positive and some are negative, let a be
// the largest d_i and a′ the largest −d_i. Then a + a′ ≤ D. Let ω₊ be the sum of the ω_i with g_i > 0, and ω₋ the sum
// of the other ω_i. The sum of the positive g_i is at most ω₊a, and the sum of the absolute values of the negative g_i
// is at most ω₋a′. So Σ|g_i| − |Σg_i| ≤ 2·min(ω₊a, ω₋a′) ≤ 2ω₊ω₋D/(ω₊+ω₋) ≤ ½(ω₊+ω₋)D. Add up the differences Σ|g_i| −
// |Σg_i| of all bins. Because ΣV_b ≤ V, their sum is at most n times the second part of A_k.
//
// F(z) = Σ_b|(1/n)Σ_{i∈b} z_i| is convex. Its subgradient at g has the coefficients h_i/n. The h_i depend on the scores
// alone, and |h_i| ≤ 1. If z_i is w_i(s_i−y_i), then A_k ≥ (1/n)Σ[|g_i| + h_i(z_i−g_i)]. As in oneStep, the worst h_i
// is ±1. The variables |g| ± (z−g) have the mean CE_Q and are at least −W, and the mean of their squares is E z². So
// z/W takes the place of s−y in oneStep: β is E z²/W², and W times the result of oneStep bounds CE_Q. (The second
// exponent of oneStep needs two more facts, which both hold: given s, the range of z/W is at most 1, and |g|/W ≤ 1.)
//
// Failure probabilities: δ₂ = δ/10 for β, δ₃ = δ/10 for all ω⁺_b of all partitions together, and δ₁ = 0.8δ for oneStep.
// Each ω⁺_b is a kl bound. Its level is δ₃ divided by the total number of bins of all partitions.
//
// With sensitivity Γ > 1, only ŵ/Γ ≤ w ≤ Γŵ is known. Then ΓW takes the place of W, and the code replaces each part of
// the bound by its largest value for such w. In a bin, |Σw_i(s_i−y_i)| is largest if w_i = Γŵ_i for all residuals of
// one sign and w_i = ŵ_i/Γ for all residuals of the other sign.
func WeightedVariation(s *WeightedSample, delta, variation float64) (Bound, error) {
	if err := s.check(delta); err != nil {
		return Bound{}, err
	}
	if !(variation >= 0) || math.IsInf(variation, 0) {
		return Bound{}, fmt.Errorf("variation %v is negative or not finite", variation)
	}
	if err := s.checkRatios(); err != nil {
		return Bound{}, err
	}
	cells := 0
	s.eachPartition(func(_ int, bins []bin) { cells += len(bins) })
	step := s.oneStep(delta)
	var best weightedCandidate
	least := math.Inf(1)
	s.eachPartition(func(_ int, bins []bin) {
		c := s.candidate(bins, variation, math.Log(float64(cells)/(meanWeightShare*delta))*(1+1e-9))
		if c.sum() < least {
			best, least = c, c.sum()
		}
	})
	top := s.top()
	terms := Terms{{"gap", top * best.gap}, {"width", top * best.width}, {"variation", top * best.variation},
		{"concentration", top * max(0, step.population(best.sum(), true)-best.sum())}}
	chosen := Terms{{"bins", float64(best.bins)}, {"second_moment", top * top * step.brier}}
	return newBound(terms, chosen, delta, top*binnedRoundoff(step.n), true)
}

const meanWeightShare = 0.1 // δ₃/δ

// oneStep returns the concentration step of WeightedVariation. It has the type oneStep, and z/(ΓW) takes the place of
// s−y.
func (s *WeightedSample) oneStep(delta float64) oneStep {
	n, squares := float64(s.N()), 0.0
	s.each(0, s.N(), func(share, residual float64) { squares += share * residual * share * residual })
	return oneStep{
		n:      n,
		brier:  klAbove(squares/n+meanRoundoff(s.N()), math.Log(1/(brierShare*delta))/n),
		budget: math.Log(float64(partitions(s.N()))/((1-brierShare-meanWeightShare)*delta)) / n * (1 + 1e-9),
	}
}

// A weightedCandidate holds the terms of A_k for one partition. Each term is divided by ΓW.
type weightedCandidate struct {
	gap, width, variation float64
	bins                  int
}

func (c weightedCandidate) sum() float64 { return c.gap + c.width + c.variation }

// candidate returns A_k/ΓW for the partition into these bins (see WeightedVariation for A_k, Γ and W). The kl bound on
// the mean weight of a bin uses the argument 'budget' divided by the number of scores in the bin.
func (s *WeightedSample) candidate(bins []bin, variation, budget float64) weightedCandidate {
	c := weightedCandidate{bins: len(bins)}
	least := 1 / (s.sensitivity * s.sensitivity) // smallest w/(Γŵ)
	n := float64(s.N())
	for i := range bins {
		b := &bins[i]
		over, under, weight := 0.0, 0.0, 0.0
		s.each(b.from, b.to, func(share, residual float64) {
			weight += share
			if residual > 0 {
				over += share * residual
			} else {
				under -= share * residual
			}
		})
		c.gap += max(over-least*under, under-least*over) / n
		if b.tie == b.to-b.from {
			continue
		}
		heavy := b.n / n * klAbove(min(1, weight/b.n+meanRoundoff(s.N())), budget/b.n)
		first, _ := unpack(s.packed[b.from])
		last, _ := unpack(s.packed[b.to-1])
		c.width += heavy * (last - first) / 2
		c.variation = max(c.variation, variation*heavy/2)
	}
	return c
}
