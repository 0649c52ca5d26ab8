package conformal

import (
	"fmt"
	"math"

	"github.com/rscert/rscert/internal/binomial"
)

// chooseBinCP prepares the rule of Zargarbashi & Bojchevski 2025. Let p_τ be the probability that a noisy score of an
// example reaches τ. The rule fixes a probability p. It replaces the scores of an example by one number, the largest τ
// with p_τ ≥ p. These numbers are exchangeable. So with probability 1 − a, a sufficiently low order statistic τ̂ of
// these numbers has p_τ̂ ≥ p for the query. A noisy score of the attacked query then reaches τ̂ with probability at
// least g(p). The probabilities p_τ are not known. So the rule spends a tenth of the level a on Clopper–Pearson bounds,
// with a union bound over the n examples and the query:
//
//   - η = spent/(n+1), where spent = a/10. The count t is the least count with P(Bin(m, p) ≥ t) ≤ η. Let S_i be the
//     t-th largest of the m scores of example i. With probability at least 1 − η, S_i is at most the largest τ with p_τ
//     ≥ p;
//   - t′ is the largest count with P(Bin(m′, g(p)) < t′) ≤ η/Q;
//   - τ̂ is the k-th smallest of the numbers S_i, where k = ⌊(n+1)(a−spent)⌋ − j, and j is the number of examples that
//     an adversary may replace.
//
// The rule is sound, but it needs this union bound. The theorem in the package comment needs no union bound. If m is so
// small that no count t exists, the sets hold all classes.
func (d *Design) chooseBinCP(p Params) error {
	if d.Guarantee != Marginal {
		return fmt.Errorf("rule %s: only the guarantee %s is defined", BinCP, Marginal)
	}
	if p.Need != 0 || p.QueryNeed != 0 {
		return fmt.Errorf("counts %d and %d: the rule %s computes its counts", p.Need, p.QueryNeed, BinCP)
	}
	if d.QueryM = p.Draws; d.QueryM == 0 {
		d.QueryM = DefaultDraws
	}
	if d.M = p.CalibrationDraws; d.M == 0 {
		d.M = d.QueryM
	}
	if d.Probability = p.Probability; d.Probability == 0 {
		d.Probability, _ = d.Attack.law().CDF(d.Shift / 2)
	}
	d.Spent = d.Miss / 10
	return nil
}

func (d *Design) checkBinCP() error {
	if !(d.Spent > 0 && d.Spent < d.Miss) || !(d.Probability >= 1e-6 && d.Probability <= 1-1e-6) {
		return fmt.Errorf("rule %s: spends %v of %v at probability %v", BinCP, d.Spent, d.Miss, d.Probability)
	}
	return nil
}

// binCPCounts returns t and t′ for n examples. The result t = m+1 means that no count t exists.
func (d *Design) binCPCounts(n int64) (t, need int64) {
	eta := d.Spent / float64(n+1) * (1 - 0x1p-50)
	for t = 1; t <= d.M && binomial.Tail(d.M, t, d.Probability).Upper > eta; t++ {
	}
	g := d.target()
	z := g.law.Quantile(d.Probability)
	for g.high(z) > d.Probability {
		z -= 0x1p-40 * (1 + math.Abs(z))
	}
	miss := g.attackedMiss(z)
	for need = d.QueryM; need > 0; need-- {
		if binomial.Tail(d.QueryM, d.QueryM-need+1, miss).Upper <= eta/float64(d.Attack.queries()) {
			break
		}
	}
	return t, need
}
