package conformal

import (
	"fmt"
	"math"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/law"
)

// A countPair is a pair of counts t → t′. An example counts as covered if t of its m scores reach the threshold. The
// set of a query includes a class if t′ of the m′ scores reach the threshold.
type countPair struct{ t, need int64 }

// A pairSearch looks for the best pair t → t′ among the pairs whose claim is proved (see the type 'pairClaim'). Let p
// be the probability that a noisy score reaches the threshold. If p = t′/(m′+1), the set of the query includes the
// class with probability about ½. If p = t/(m+1), calibration counts the example as covered with probability about ½.
// The gap of a pair is Q(t/(m+1)) − Q(t′/(m′+1)), where Q is the quantile function of the law. So the pair behaves as
// if the attack's shift were equal to this gap. The true shift is ρ. The t-th and t′-th largest scores vary least if
// t/(m+1) ≥ ½ ≥ t′/(m′+1). So among the pairs with this property, the pair with the least gap is the best. The search
// considers other pairs only if it can prove none of these. For m = m′, the pairs t → t′ and m+1−t′ → m+1−t have equal
// gaps. Of these two, the pair with the smaller t is better. The search itself needs no proof, because it returns only
// a pair that is proved.
type pairSearch struct {
	law     law.Additive
	shift   float64
	m       int64
	draws   int64 // m′
	queries int64
	best    countPair // zero before a pair is found
}

// bestPair returns the best pair of counts whose claim is proved (see pairSearch for the claims and for what 'best'
// means). If a field of the argument 'fixed' is not 0, the pair must have this count.
func (s pairSearch) bestPair(fixed countPair) (countPair, bool) {
	s.search(fixed, countPair{(s.m + 2) / 2, 1}, countPair{s.m, (s.draws + 1) / 2})
	if s.best.t == 0 {
		s.search(fixed, countPair{1, 1}, countPair{s.m, s.draws})
	}
	return s.best, s.best.t > 0
}

// search tries the pairs whose counts lie between the counts of the argument 'least' and the counts of the argument
// 'most'. It starts at t/m ≈ F(ρ/2), where the best pair usually lies.
func (s *pairSearch) search(fixed, least, most countPair) {
	if fixed.t > 0 {
		least.t, most.t = fixed.t, fixed.t
	}
	if fixed.need > 0 {
		least.need, most.need = fixed.need, fixed.need
	}
	p, _ := s.law.CDF(s.shift / 2)
	centre := min(max(int64(math.Ceil(p*float64(s.m))), least.t), most.t)
	for _, t := range outward(centre, least.t, most.t) {
		s.try(t, least.need, most.need)
	}
}

// try looks for the largest t′, from 'lowest' to 'highest', for which the pair t → t′ is proved and is better than the
// best pair so far.
func (s *pairSearch) try(t, lowest, highest int64) {
	for ; lowest <= highest && !s.better(countPair{t, lowest}); lowest++ {
	}
	// The claim about the pair t → t′ becomes stronger as t′ grows. Bisection with the coarse test finds the largest t′
	// for which the claim may hold.
	for low := lowest - 1; low < highest; {
		mid := low + (highest-low+1)/2
		if s.claim(t, mid).refutedCoarsely() {
			highest = mid - 1
		} else {
			low = mid
		}
	}
	// The code tries to prove the claim for t′ = highest, and then for up to 8 smaller t′. With far more than 1,000
	// draws, some proofs fail because tails are below the range of float64.
	const tries = 8
	for need := highest; need >= max(lowest, highest-tries); need-- {
		if s.claim(t, need).prove() == proved {
			s.best = countPair{t, need}
			return
		}
	}
}

func (s *pairSearch) claim(t, need int64) pairClaim {
	return pairClaim{newTarget(s.law, s.shift, s.draws, need, s.queries), s.m, t}
}

// The method 'better' reports whether the pair, once proved, would be better than the best pair so far.
func (s *pairSearch) better(p countPair) bool {
	if s.best.t == 0 {
		return true
	}
	const equal = 1e-9 // far above the rounding of a gap, far below the differences between gaps
	if a, b := s.gap(p), s.gap(s.best); math.Abs(a-b) > equal {
		return a < b
	}
	return p.t < s.best.t
}

func (s *pairSearch) gap(p countPair) float64 {
	return s.law.Quantile(float64(p.t)/float64(s.m+1)) - s.law.Quantile(float64(p.need)/float64(s.draws+1))
}

// The function 'outward' returns the numbers from 'first' to 'last', ordered by their distance from 'centre'.
func outward(centre, first, last int64) []int64 {
	order := []int64{centre}
	for d := int64(1); d <= max(centre-first, last-centre); d++ {
		if centre-d >= first {
			order = append(order, centre-d)
		}
		if centre+d <= last {
			order = append(order, centre+d)
		}
	}
	return order
}

// chooseCount finds the best proved pair t → t′.
func (d *Design) chooseCount(p Params) error {
	d.Rule = Count
	if d.QueryM = p.Draws; d.QueryM == 0 {
		d.QueryM = DefaultDraws
		if d.Attack.Scale == 0 {
			d.QueryM = 1
		}
	}
	if d.M = p.CalibrationDraws; d.M == 0 {
		d.M = d.QueryM
	}
	s := pairSearch{law: d.Attack.law(), shift: d.Shift, m: d.M, draws: d.QueryM, queries: d.Attack.queries()}
	best, ok := s.bestPair(countPair{p.Need, p.QueryNeed})
	if !ok {
		return hint.New(fmt.Sprintf("rule %s: no pair of counts is proved for %d draws per query, %d draws per calibration example and rho = %.4g", Count, d.QueryM, d.M, d.Shift),
			"take more draws, a smaller radius, or the rule weights")
	}
	d.T, d.QueryT = best.t, best.need
	return nil
}
