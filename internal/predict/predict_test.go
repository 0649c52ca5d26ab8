package predict

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestUnanimous checks how many votes the rule needs if all votes are for the same class. This number is the smallest n
// with C(2n, n)/2ⁿ ≥ 1/α. The number does not depend on the number of classes.
func TestUnanimous(t *testing.T) {
	for _, c := range []struct {
		alpha float64
		want  int64
	}{{1e-3, 13}, {1e-6, 24}, {1e-9, 34}} {
		for _, m := range []int{2, 3, 10, 1000} {
			l := NewLeader(m, c.alpha)
			for !l.Vote(m - 1) {
			}
			if l.Votes() != c.want || l.Answer() != m-1 {
				t.Errorf("alpha %g, %d classes: %d votes, answer %d, want %d votes", c.alpha, m, l.Votes(), l.Answer(), c.want)
			}
		}
		n := new(big.Int).Binomial(2*c.want, c.want)
		value, _ := new(big.Rat).SetFrac(n, new(big.Int).Lsh(big.NewInt(1), uint(c.want))).Float64()
		if !(value >= 1/c.alpha) {
			t.Errorf("alpha %g: %d votes give %g", c.alpha, c.want, value)
		}
	}
}

// The function 'direct' applies the sequential rule exactly as the comment of Leader describes it. It keeps one process
// for each outcome, and computes with big.Float.
func direct(m int, alpha float64, votes []int) (answer int, used int) {
	one := func(x float64) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(x) }
	counts, struck := make([]int64, m), make([]bool, m)
	e := make([]*big.Float, m)
	for i := range e {
		e[i] = one(1)
	}
	limit := new(big.Float).SetPrec(300).Quo(one(1), one(alpha))
	for used, k := range votes {
		factors := make([]*big.Float, m)
		for i := range m {
			j := -1
			for r := range m {
				if r != i && (j < 0 || counts[r] > counts[j]) {
					j = r
				}
			}
			factors[i] = one(1)
			if a, b := counts[j], counts[i]; a > b && (k == j || k == i) {
				sum := a + b + 1 + (a - b)
				if k == i {
					sum = a + b + 1 - (a - b)
				}
				factors[i] = new(big.Float).SetPrec(300).Quo(one(float64(sum)), one(float64(a+b+1)))
			}
		}
		counts[k]++
		left, last := 0, -1
		for i := range m {
			e[i].Mul(e[i], factors[i])
			struck[i] = struck[i] || e[i].Cmp(limit) >= 0
			if !struck[i] {
				left, last = left+1, i
			}
		}
		if left <= 1 {
			return last, used + 1
		}
	}
	return Abstained, len(votes)
}

func drawVotes(rng *rand.Rand, p []float64, n int) []int {
	votes := make([]int, n)
	for i := range votes {
		u := rng.Float64()
		for votes[i] < len(p)-1 && u >= p[votes[i]] {
			u -= p[votes[i]]
			votes[i]++
		}
	}
	return votes
}

// TestLeader compares the rule with its definition on random votes.
func TestLeader(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	answers := map[bool]int{}
	for range 400 {
		m := 2 + rng.IntN(5)
		p := make([]float64, m)
		total := 0.
		for i := range p {
			p[i] = rng.ExpFloat64()
			total += p[i]
		}
		for i := range p {
			p[i] /= total
		}
		alpha := math.Pow(10, -1-3*rng.Float64())
		votes := drawVotes(rng, p, 150)
		want, used := direct(m, alpha, votes)
		l := NewLeader(m, alpha)
		for _, k := range votes {
			l.Vote(k)
		}
		if l.Answer() != want || l.Votes() != int64(used) {
			t.Fatalf("%d classes, alpha %g, votes %v: answer %d after %d, want %d after %d", m, alpha, votes, l.Answer(), l.Votes(), want, used)
		}
		answers[want >= 0]++
	}
	if answers[true] < 50 || answers[false] < 50 {
		t.Errorf("answers and abstentions: %v, want 50 of each", answers)
	}
}

// TestLeaderMeans computes the mean number of votes in a simulation, and compares it with the mean in a separate
// simulation in Python. The two means must agree within four standard errors.
func TestLeaderMeans(t *testing.T) {
	for _, c := range []struct {
		m        int
		p1, p2   float64
		want     float64
		relative float64 // upper bound on the ratio of the standard deviation of the number of votes to the mean number
		runs     int
	}{{10, .9, .06, 20.6, .5, 4000}, {10, .7, .18, 54, .7, 3000}, {2, .55, .45, 1836, .9, 400}} {
		rng := rand.New(rand.NewPCG(3, 4))
		p := make([]float64, c.m)
		p[0], p[1] = c.p1, c.p2
		for i := 2; i < c.m; i++ {
			p[i] = (1 - c.p1 - c.p2) / float64(c.m-2)
		}
		total := 0.
		for range c.runs {
			l := NewLeader(c.m, 1e-3)
			for !l.Vote(drawVotes(rng, p, 1)[0]) {
			}
			total += float64(l.Votes())
		}
		mean := total / float64(c.runs)
		if slack := 4 * c.relative * c.want / math.Sqrt(float64(c.runs)); math.Abs(mean-c.want) > slack+.05 {
			t.Errorf("%d classes, p %g and %g: %.1f votes on average, want %g ± %.1f", c.m, c.p1, c.p2, mean, c.want, slack)
		}
	}
}

// TestLeaderExact enumerates all sequences of votes up to a maximum length. For two classes, it draws random sequences
// instead. In each case the probabilities of the two most probable classes are equal or nearly equal. The rule must
// then name a wrong class with probability at most alpha. The test adds up the exact probabilities of the enumerated
// sequences, so the only error in these cases is rounding.
func TestLeaderExact(t *testing.T) {
	const budget = 40
	for _, c := range []struct {
		p     []float64
		alpha float64
	}{{[]float64{.5, .5}, .05}, {[]float64{.52, .48}, .1}, {[]float64{.4, .4, .2}, .2}, {[]float64{.34, .33, .33}, .3}, {[]float64{.3, .25, .25, .2}, .4}} {
		n := budget
		if len(c.p) > 2 {
			n = 12 - 2*len(c.p) + 4
		}
		wrong := wrongAnswers(c.p, c.alpha, n)
		if wrong > c.alpha {
			t.Errorf("p %v, alpha %g: wrong with probability %g", c.p, c.alpha, wrong)
		}
		if wrong == 0 {
			t.Errorf("p %v, alpha %g: never wrong, the test shows nothing", c.p, c.alpha)
		}
	}
}

// wrongAnswers returns the probability that the rule names one of the classes 1, 2, …. Class 0 is the most probable
// class.
func wrongAnswers(p []float64, alpha float64, budget int) float64 {
	if len(p) == 2 {
		return wrongOfTwo(p, alpha, budget)
	}
	var walk func(votes []int, probability float64) float64
	walk = func(votes []int, probability float64) float64 {
		l := NewLeader(len(p), alpha)
		for _, k := range votes {
			if l.Vote(k) {
				if l.Answer() > 0 {
					return probability
				}
				return 0
			}
		}
		if len(votes) == budget {
			return 0
		}
		total := 0.
		for k, q := range p {
			total += walk(append(votes[:len(votes):len(votes)], k), probability*q)
		}
		return total
	}
	return walk(nil, 1)
}

// wrongOfTwo estimates the result of wrongAnswers for two classes by sampling, because there are too many sequences to
// enumerate. It returns the sampled frequency minus five standard errors.
func wrongOfTwo(p []float64, alpha float64, budget int) float64 {
	rng := rand.New(rand.NewPCG(5, 6))
	const runs = 40000
	wrong := 0.
	for range runs {
		l := NewLeader(2, alpha)
		for _, k := range drawVotes(rng, p, budget) {
			if l.Vote(k) {
				break
			}
		}
		if l.Answer() == 1 {
			wrong++
		}
	}
	share := wrong / runs
	return max(share-5*math.Sqrt(share*(1-share)/runs), 0)
}

// TestFixedExact sums the probabilities of all counts for which the fixed rule names a wrong class. The sum must be at
// most alpha. In at least one case the sum must be more than alpha/2; otherwise the rule would be needlessly strict.
func TestFixedExact(t *testing.T) {
	tight := 0.
	for _, p := range [][]float64{{.5, .5}, {.51, .49}, {.34, .33, .33}, {.3, .3, .2, .2}, {.26, .25, .25, .24}, {.45, .45, .1}} {
		for _, n := range []int64{5, 12, 40} {
			for _, alpha := range []float64{.001, .02, .1, .3} {
				if len(p) == 4 && n > 20 {
					continue
				}
				wrong := 0.
				eachCount(len(p), n, func(counts []int64) {
					if k := Fixed(counts, alpha); k > 0 && p[k] < p[0] {
						wrong += multinomial(counts, p)
					}
				})
				if wrong > alpha {
					t.Errorf("p %v, n %d, alpha %g: wrong with probability %g", p, n, alpha, wrong)
				}
				tight = max(tight, wrong/alpha)
			}
		}
	}
	if tight < .5 {
		t.Errorf("the rule is wrong at most %.2f alpha: alpha is wasted, or the test is slack", tight)
	}
}

func eachCount(m int, n int64, visit func([]int64)) {
	counts := make([]int64, m)
	var fill func(k int, left int64)
	fill = func(k int, left int64) {
		if k == m-1 {
			counts[k] = left
			visit(counts)
			return
		}
		for c := int64(0); c <= left; c++ {
			counts[k] = c
			fill(k+1, left-c)
		}
	}
	fill(0, n)
}

func multinomial(counts []int64, p []float64) float64 {
	log, n := 0., int64(0)
	for k, c := range counts {
		g, _ := math.Lgamma(float64(c + 1))
		log += float64(c)*math.Log(p[k]) - g
		n += c
	}
	g, _ := math.Lgamma(float64(n + 1))
	return math.Exp(log + g)
}

// TestFixed checks single decisions against exact tails, such as 2·P(Bin(10, ½) ≥ 10) = 2/1024.
func TestFixed(t *testing.T) {
	for _, c := range []struct {
		counts []int64
		alpha  float64
		want   int
	}{
		{[]int64{10, 0}, 1. / 1024 * 1.0001, 0}, {[]int64{10, 0}, 1. / 1024 * .9999, Abstained},
		{[]int64{0, 0, 10}, 2. / 1024 * 2 / 3 * 1.0001, 2}, {[]int64{0, 0, 10}, 2. / 1024 * 2 / 3 * .9999, Abstained},
		{[]int64{0, 0}, .5, Abstained}, {[]int64{5, 5}, .5, Abstained}, {[]int64{3, 9, 90}, .001, 2}, {[]int64{1, 1}, .6, Abstained}, {[]int64{0, 1}, .6, 1},
	} {
		if got := Fixed(c.counts, c.alpha); got != c.want {
			t.Errorf("%v at %g: %d, want %d", c.counts, c.alpha, got, c.want)
		}
	}
}
