package conformal

import (
	"fmt"
	"math"
)

// Exchangeability describes the number of misses of one Cell. It compares this number with the distribution of the
// number of misses for exchangeable examples and queries. Let S_i be the t-th largest score of example i (see the
// comment on the method thresholds.rank). Suppose that the threshold is the k-th smallest S_i of n examples, and that a
// query misses exactly if its own number S is below the threshold. Then the number of misses of N queries is BetaBin(N;
// k, n+1−k), or stochastically smaller if scores are tied. This follows from the beta distribution of the coverage
// (Vovk 2012).
//
// With Design.OwnRange the number of misses is stochastically at most BetaBin(N; k+2, n−1−k), even if every query
// outside the range of the calibration data misses. Proof: the probability that a query is inside the range depends on
// the calibration data. This probability is a Beta(n−1, 2) variable. A query inside the range is exchangeable with the
// n − 2 examples that are not at an end of the range. The probability that such a query is covered is at least a
// Beta(n−1−k, k) variable, which is independent of the first variable. The product of the two variables is a
// Beta(n−1−k, k+2) variable.
//
// A rule that defends against attacks gives larger sets, and therefore fewer misses. With such a rule, only TooMany is
// the p-value of a valid test.
type Exchangeability struct {
	Label    *int    `json:"label,omitempty"`
	Group    string  `json:"group,omitempty"`
	N        int64   `json:"n"`         // queries
	Misses   int64   `json:"misses"`    // observed
	Expected float64 `json:"expected"`  // mean number of misses: N·k/(n+1), or N·(k+2)/(n+1) with OwnRange
	TooMany  float64 `json:"p_misses"`  // P(BetaBin ≥ misses)
	TooFew   float64 `json:"p_covered"` // P(BetaBin ≤ misses)
	TwoSided float64 `json:"p"`         // min(1, 2·min(TooMany, TooFew))
	Exact    bool    `json:"exact"`     // the rule does not enlarge the sets, so TooFew and TwoSided are valid p-values too
	Meaning  string  `json:"meaning"`
}

// exchangeability returns a comparison for every Cell that has queries and whose threshold has a rank. If the rule uses
// weights, thresholds have a rank only for m = m′ = 1.
func (e *Evaluator) exchangeability() []Exchangeability {
	p := e.predictor
	var list []Exchangeability
	for _, c := range p.Cells {
		t := e.all
		switch p.Guarantee {
		case Label:
			t = e.classes[*c.Label]
		case Group:
			if t = (tally{}); e.groups[c.Group] != nil {
				t = *e.groups[c.Group]
			}
		}
		if c.K < 1 || t.n == 0 {
			continue
		}
		k := c.K
		if p.OwnRange {
			k += RangeRanks
		}
		x := compareMisses(t.n, t.n-t.covered, k, c.N)
		x.Label, x.Group = c.Label, c.Group
		x.Exact = p.unenlarged()
		x.Meaning = x.meaning()
		list = append(list, x)
	}
	return list
}

// TooManyMisses returns the smallest p-value of the tests for too many misses, times the number of tests. The result
// 'known' is false if there is no such test.
func (v *Evaluation) TooManyMisses() (p float64, known bool) {
	least := 1.
	for _, x := range v.Exchangeability {
		least = min(least, x.TooMany)
	}
	return min(1, least*float64(len(v.Exchangeability))), len(v.Exchangeability) > 0
}

// The method 'unenlarged' reports whether the rule treats a query like a calibration example. If so, the number of
// misses has the distribution in the comment on the type Exchangeability.
func (d *Design) unenlarged() bool {
	same := d.M == d.QueryM && d.T == d.QueryT || d.M == 1 && d.QueryM == 1
	return same && d.Attack.queries() == 1 && d.Rule != BinCP && !d.OwnRange
}

// compareMisses compares the number of misses with its distribution for exchangeable queries. The threshold has the
// rank k among n examples.
func compareMisses(queries, misses, k, n int64) Exchangeability {
	x := Exchangeability{
		N: queries, Misses: misses, Expected: float64(queries) * float64(k) / float64(n+1),
		TooMany: betaBinomialTail(queries, misses, k, n+1-k), TooFew: 1,
	}
	if misses < queries {
		x.TooFew = math.Max(0, 1-betaBinomialTail(queries, misses+1, k, n+1-k))
	}
	x.TwoSided = math.Min(1, 2*math.Min(x.TooMany, x.TooFew))
	return x
}

// The constant 'suspicious' is a limit for p-values. If TooMany is below this limit, the field Meaning reports a
// violated assumption. If Exact is true, the same holds for TooFew.
const suspicious = 0.01

func (x Exchangeability) meaning() string {
	switch {
	case x.TooMany < suspicious:
		return fmt.Sprintf("queries miss their class more often than exchangeable queries would (p = %.2g): these queries come from another "+
			"distribution than the calibration examples, or the attack is larger than stated", x.TooMany)
	case !x.Exact:
		return "no sign of a broken assumption; fewer misses are expected, because the sets are enlarged for attacks"
	case x.TooFew < suspicious:
		return fmt.Sprintf("queries miss their class less often than exchangeable queries would (p = %.2g): these queries are easier than "+
			"the calibration examples, or many scores are tied", x.TooFew)
	}
	return "the number of misses agrees with exchangeable examples and queries"
}

// betaBinomialTail returns P(X ≥ x) for X = BetaBin(n; a, b) with integers a, b ≥ 1. X is Bin(n, P) for a beta variable
// P, so
//
//	P(X = j) = C(n,j)·B(j+a, n−j+b)/B(a, b).
//
// The code sums P(X = j) from j = x. It multiplies each term by P(X = j+1)/P(X = j) to get the next term.
func betaBinomialTail(n, x, a, b int64) float64 {
	if x <= 0 {
		return 1
	}
	mode := float64(n) * float64(a) / float64(a+b)
	if float64(x) < mode {
		return math.Max(0, 1-betaBinomialTail(n, n-x+1, b, a)) // 1 − P(X ≤ x−1), with n−X = BetaBin(n; b, a)
	}
	term := math.Exp(logBetaBinomial(n, x, a, b))
	sum := 0.0
	for j := x; j <= n && term > 0; j++ {
		sum += term
		term *= float64(n-j) / float64(j+1) * float64(j+a) / float64(n-j-1+b)
	}
	return math.Min(1, sum)
}

// logBetaBinomial returns ln P(X = x), which is the logarithm of C(x+a−1, x)·C(n−x+b−1, n−x)/C(n+a+b−1, n).
func logBetaBinomial(n, x, a, b int64) float64 {
	return logChoose(x+a-1, x) + logChoose(n-x+b-1, n-x) - logChoose(n+a+b-1, n)
}
