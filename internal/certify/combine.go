package certify

import (
	"math"

	"github.com/rscert/rscert/internal/law"
)

// Combine is a way to compute a bound on the margin from bounds on mean scores. The margin compares the mean score of
// the class A with the mean scores of its rivals.
type Combine string

const (
	// Directed is the method that bounds the mean of X^A − r·X^B. X^A is the score of A, and X^B is the score of a
	// rival. The selection samples determine the weight r ≥ 1. The certified margin is the smallest margin among all
	// pairs of means that satisfy this bound.
	Directed Combine = "directed"
	// Projected is the method 'Directed' with the fixed weight r = 1.
	Projected Combine = "projected"
	// BonferroniScores is the method that bounds the mean score of A and the mean score of each rival separately. Each
	// of these bounds may fail with probability α/2.
	BonferroniScores Combine = "bonferroni"
	// BonferroniClassScores is the method that bounds the mean score of each of the m classes separately, each at α/m
	// (Moutaouakil 2024, Algorithm 3). Each rival of A is a single class, so the rivals are known without selection
	// samples. The method is sound by the union bound over the m bounds.
	BonferroniClassScores Combine = "bonferroni-classes"
	// Taylor is not sound; see taylor.go.
	Taylor Combine = "taylor"
)

var combines = table[Combine, struct{}]{"combination", []entry[Combine, struct{}]{
	{name: Directed, sound: true, what: "bounds the mean of X^A − r·X^B, where X^A is the score of the class and X^B that of a rival; the selection samples choose the weight r", papers: "salman2019"},
	{name: Projected, sound: true, what: "bounds the mean of X^A − X^B, as 'directed' does with r = 1", papers: "salman2019"},
	{name: BonferroniScores, sound: true, what: "bounds the mean score of the class and the mean score of each rival separately, each at alpha/2", papers: "salman2019"},
	{name: BonferroniClassScores, sound: true, what: "bounds the mean score of each of the m classes separately, each at alpha/m (Algorithm 3 of Moutaouakil 2024)", papers: "moutaouakil2024"},
	{name: Taylor, what: "takes the formula as printed in Moutaouakil 2024, §5.3; not sound; it only reproduces the paper", papers: "moutaouakil2024"},
}}

// Combines describes all ways to bound the margin, the default first.
func Combines() []Row[Combine] { return combines.rows() }

func (c Combine) String() string { return string(c) }

// Sound reports whether the failure probability of c is at most α for every classifier.
func (c Combine) Sound() bool { return combines.sound(c) }

// The method 'separate' reports whether c bounds the mean score of A separately from the scores of the rivals.
func (c Combine) separate() bool {
	return c == BonferroniScores || c == BonferroniClassScores || c == Taylor
}

// MarshalText returns the name, or empty text if no name is set.
func (c Combine) MarshalText() ([]byte, error) { return []byte(c), nil }

// UnmarshalText parses the name of a Combine.
func (c *Combine) UnmarshalText(text []byte) error { return combines.parse(text, c) }

// A rival of the class A is either one other class B or a set of other classes. The score of a set is the largest score
// of its classes.
//
// The margin of A against each rival is bounded at level α, and the certificate is the least of these bounds. Let j* be
// the true runner-up. The certificate can fail only if the bound fails for the rival that is j* or contains j*. There
// are two reasons. First, j* does not depend on the samples. Second, if a set contains j*, the mean of the set's
// largest score is at least E X^{j*}. So each rival may use the whole of α, provided that the rivals are fixed before
// the estimation samples. There are two rivals. The first rival is the class B, the runner-up in the selection samples.
// The second rival is the set of all classes except A and B. This set leaves out B, because each further class raises
// the mean of the largest score.

// directedMargin returns a lower bound on the second margin Q(μ1) − Q(μ2) over all (μ1, μ2) ≥ 0 with μ1 + μ2 ≤ 1 and
//
//	(μ1 − rμ2 + r)/(1 + r) ≥ y,  r ≥ 1.
//
// Q and F are the quantile function and the distribution function of the noise. Among the pairs (μ1, μ2) with a margin
// of at most L > 0, μ1 − rμ2 is largest on the curve μ1 = F(z+L), μ2 = F(z), z ≤ −L/2. This maximum M(L), the law's
// Peak, grows with L. The bound is the L with M(L) = (1+r)y − r, or slightly less. For r = 1 the bound is 2Q(y). The
// method 'Projected' uses this bound with y = (1+ℓ)/2, where ℓ is a lower bound on the mean of X^A − X^B.
func directedMargin(l law.Additive, y, r float64) float64 {
	if r == 1 {
		m := 2 * law.Low(l, y)
		return m - math.Abs(m)*unit
	}
	value := (1+r)*y - r
	value -= 8 * (1 + r) * unit
	if !(value > 0) {
		return 0
	}
	lo, hi := 0.0, maxMargin
	for range 60 {
		mid := (lo + hi) / 2
		if l.Peak(mid, r) <= value {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// maxMargin is the largest margin that directedMargin returns for r > 1. law.Low returns quantiles. Under Gaussian
// noise, a second margin that comes from these quantiles for p < 1 is always below maxMargin. Under other noise, the
// code replaces larger margins by maxMargin. A lower bound on the margin stays a lower bound when it is lowered in this
// way.
const maxMargin = 80.0

// The function 'weight' chooses the weight r of the method 'Directed'. The arguments a and b hold the scores of A and
// of a rival in the selection samples. For each r the function computes the mean y and the variance v of the weighted
// scores (a_i − r·b_i + r)/(1 + r). From y and v it predicts the bound that n estimation samples would give: y − √(2v
// ln(1/α)/n) − y·ln(1/α)/n. The betting bound is close to this number. The function chooses the r whose predicted bound
// gives the largest margin. Every r gives a sound bound. An r below 1 never gives a larger margin, because μ2 ≤ 1−μ1.
// (At the true means μ1 and μ2, the best r is the slope of Q at μ2 divided by the slope of Q at μ1. This quotient is
// f(Q(μ1)) / f(Q(μ2)), where f is the density of the noise. The r that gives the largest bound usually differs from
// this quotient.)
func weight(l law.Additive, a, b []float64, n int64, alpha float64) float64 {
	best, bestMargin := 1.0, 0.0
	log := math.Log(1/alpha) / float64(n)
	for j := range weightSteps {
		r := math.Exp2(float64(j) / 2)
		var mean, m2 float64
		for i := range a {
			y := (a[i] - r*b[i] + r) / (1 + r)
			d := y - mean
			mean += d / float64(i+1)
			m2 += float64(d * (y - mean))
		}
		y := mean - math.Sqrt(2*m2/float64(len(a))*log) - mean*log
		if m := directedMargin(l, min(max(y, 0), 1), r); m > bestMargin*(1+1e-9) {
			best, bestMargin = r, m
		}
	}
	return best
}

// weightSteps is the number of weights tried: 1, √2, 2, … 2⁷.
const weightSteps = 15
