package certify

import (
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/binomial"
)

// trueMargin returns the margin of class 0 if the classes have the probabilities p.
func trueMargin(kind MarginKind, p []float64) float64 {
	b := 0.0
	for _, q := range p[1:] {
		b = math.Max(b, q)
	}
	return marginAt(kind, p[0], b)
}

// A world is an assumption about the number of other classes, which are the classes besides the class A and the
// runner-up. All votes that go neither to A nor to the runner-up go to the other classes.
type world int

const (
	oneMore world = iota // one other class besides A and the runner-up
	endless              // so many classes that no class gets two votes
	nWorlds
)

// The method 'bound' returns the bound on the margin if the votes of n samples are the outcome o.
func (w world) bound(c *VoteCertifier, n int64, o outcome) marginBound {
	other := o.x3
	if w == endless {
		other = min(other, 1)
	}
	return c.bound(observation{n: n, a: o.x1, b: max(o.x2, other), alpha: c.params.Alpha})
}

// failure returns the probability that the certificate claims a margin above the true margin. It sums the probabilities
// of all outcomes of n samples that lead to such a certificate. The rounding error of the sum is far below the
// tolerance 1e-9.
func (w world) failure(c *VoteCertifier, all []outcome, n int64, p []float64) (fail float64) {
	truth := trueMargin(c.params.Margin, p)
	if w == endless {
		truth = trueMargin(c.params.Margin, p[:2])
	}
	for _, o := range all {
		if b := w.bound(c, n, o); b.margin > 0 && (b.unbounded || b.margin > truth) {
			fail += o.probability(p[0], p[1])
		}
	}
	return fail
}

// leastFavourable searches for the probabilities (p_A, p_B, p_C) that make a method fail most often. For margins M that
// the method can report, the search tries probabilities whose true margin is just below M. Then every outcome for which
// the method reports M or more is a failure.
func (w world) leastFavourable(c *VoteCertifier, all []outcome, n int64, levels int) (worst float64, at []float64) {
	seen := map[float64]bool{}
	var margins []float64
	for _, o := range all {
		if b := w.bound(c, n, o); b.margin > 0 && !b.unbounded && !seen[b.margin] {
			seen[b.margin] = true
			margins = append(margins, b.margin)
		}
	}
	step := max(1, len(margins)/levels)
	for i := 0; i < len(margins); i += step {
		m := margins[i] * (1 - 1e-9)
		if c.params.Margin == FirstMargin && m >= 1 {
			continue
		}
		f := frontier{c.scale, m}
		for k := 1; k <= 24; k++ {
			q1, q2, _ := f.point(f.last() * float64(k) / 24)
			q1 /= lift
			if q1+q2 > 1 {
				q1 = 1 - q2
			}
			if w == oneMore && 1-q1-q2 > q2 {
				continue // the third class is more probable than the second, so it would be the runner-up
			}
			p := []float64{q1, q2, 1 - q1 - q2}
			if fail := w.failure(c, all, n, p); fail > worst {
				worst, at = fail, p
			}
		}
	}
	return worst, at
}

// The test computes the exact failure probabilities by summation, on a grid and at the least favourable distributions.
// For a sound method, all these probabilities must be at most α. The largest of them must be at least 0.3α for the
// method 'margin', and at least 1.5α for the method 'moutaouakil'.
func TestVoteCoverageExact(t *testing.T) {
	checkCoverage(t, []int64{5, 14, 24}, []float64{0.001, 0.05}, 40)
}

func checkCoverage(t *testing.T, ns []int64, alphas []float64, levels int) {
	grid := [][]float64{
		{0.5, 0.5, 0}, {0.4, 0.3, 0.3}, {0.6, 0.4, 0}, {0.7, 0.2, 0.1}, {0.8, 0.1, 0.1}, {0.9, 0.1, 0}, {0.95, 0.04, 0.01}, {0.99, 0.005, 0.005},
	}
	for _, method := range names(VoteMethods()) {
		for _, kind := range names(MarginKinds()) {
			for _, alpha := range alphas {
				worst, n0 := 0.0, int64(0)
				var at []float64
				for _, n := range ns {
					c := mustVotes(t, VoteParams{Target: Target{Margin: kind, Alpha: alpha}, Method: method})
					all := outcomes(n)
					for w := range nWorlds {
						fail, p := w.leastFavourable(c, all, n, levels)
						for _, g := range grid {
							if f := w.failure(c, all, n, g); f > fail {
								fail, p = f, g
							}
						}
						if fail > worst {
							worst, at, n0 = fail, p, n
						}
					}
				}
				t.Logf("%v, %v margin, α = %v: fails with probability %.3gα at most (n = %d, p = %.4v)", method, kind, alpha, worst/alpha, n0, at)
				if method.Sound() && worst > alpha*(1+1e-9) {
					t.Errorf("%v, %v margin: fails with probability %v > α = %v at n = %d, p = %v", method, kind, worst, alpha, n0, at)
				}
				if method == ExactMargin && worst < 0.3*alpha {
					t.Errorf("%v, %v margin: fails with probability %v at most, far below α = %v: the search has no power", method, kind, worst, alpha)
				}
				if method == Moutaouakil && worst < 1.5*alpha {
					t.Errorf("%v, %v margin: no violation found (%v)", method, kind, worst)
				}
			}
		}
	}
}

// For large n, the sum over all outcomes takes too long, so this test simulates failures. In each case, an exact
// binomial test at level 1e-6 checks that the failure probability is at most α.
func TestVoteCoverageSimulated(t *testing.T) { simulateCoverage(t, 400, []int64{1000}) }

func simulateCoverage(t *testing.T, runs int64, ns []int64) {
	const alpha, level = 0.05, 1e-6
	rng := rand.New(rand.NewPCG(11, 12))
	for _, p := range [][]float64{
		{0.9, 0.05, 0.05}, {0.55, 0.45, 0}, {0.97, 0.01, 0.01, 0.01}, {0.4, 0.06, 0.06, 0.06, 0.06, 0.06, 0.06, 0.06, 0.06, 0.06}, {0.999, 0.001, 0},
	} {
		for _, n := range ns {
			for _, method := range soundOnes(VoteMethods()) {
				for _, kind := range names(MarginKinds()) {
					c := mustVotes(t, VoteParams{Target: Target{Margin: kind, Alpha: alpha}, Method: method})
					truth := trueMargin(kind, p)
					var failures int64
					for range runs {
						x := multinomial(rng, n, p)
						if b := c.bound(observation{n: n, a: x[0], b: runnerUp(Votes{Counts: x}, 0), alpha: alpha}); b.margin > 0 && b.margin > truth {
							failures++
						}
					}
					if tail := binomial.Tail(runs, failures, alpha); tail.Upper < level {
						t.Errorf("%v, %v margin, n = %d, p = %v: %d failures of %d; at α = %v that many have probability %v", method, kind, n, p, failures, runs, alpha, tail.Upper)
					}
				}
			}
		}
	}
}

// multinomial draws the votes of n samples, class by class. Given the counts of the earlier classes, each count has a
// binomial distribution. The function inverts this distribution, starting at its mode.
func multinomial(rng *rand.Rand, n int64, p []float64) []int64 {
	x := make([]int64, len(p))
	left, rest := n, 1.0
	for k, q := range p {
		if k == len(p)-1 || left == 0 {
			x[k] = left
			break
		}
		x[k] = binomialDraw(rng, left, math.Min(1, q/rest))
		left, rest = left-x[k], rest-q
	}
	return x
}

func binomialDraw(rng *rand.Rand, n int64, p float64) int64 {
	if p <= 0 || p >= 1 {
		return int64(p) * n
	}
	mode := int64(float64(n) * p)
	logp, _ := binomial.LogTerm(n, mode, p, 1-p)
	u := rng.Float64() - math.Exp(logp)
	lo, hi := mode, mode
	plo, phi := math.Exp(logp), math.Exp(logp)
	odds := p / (1 - p)
	for u > 0 {
		if lo > 0 {
			plo *= float64(lo) / (float64(n-lo+1) * odds)
			lo--
			if u -= plo; u <= 0 {
				return lo
			}
		}
		if hi < n {
			phi *= float64(n-hi) * odds / float64(hi+1)
			hi++
			if u -= phi; u <= 0 {
				return hi
			}
		}
		if plo < 1e-300 && phi < 1e-300 {
			break
		}
	}
	return mode
}

// The test compares the published log of Cohen et al. (σ = 0.25, n = 100,000, α = 0.01) with the votes that Jia et al.
// got from the same network on the same images. The noise samples differ, so the radii differ by sampling error. If the
// log and the votes of Jia et al. both certify an image, the two estimates of p_A must agree. The logged radius r gives
// p̲ = Φ(r/σ). p̲ determines the number of votes that Cohen et al. saw, up to the rounding of r to three digits. A
// two-sample test compares the two estimates by the normal approximation. The test of one image is two-sided with z =
// 4.06, so its level is 4.9e-5. The level for all 500 images together is at most 0.025. An allowance of 3 votes covers
// the error of the approximation near p = 1.
func TestClopperPearsonAgreesWithCohenLog(t *testing.T) {
	votes := realVotes(t)
	log, err := os.ReadFile("../../../shared/data/cohen2019/cifar10-resnet110-sigma0.25.tsv")
	if err != nil {
		t.Skip("needs ../shared: ", err)
	}
	const sigma, alpha, n = 0.25, 0.01, 100000
	c := mustVotes(t, VoteParams{Target: Target{Class: Label, Alpha: alpha, Sigma: sigma}, Method: ClopperPearson})
	radii := []float64{0, 0.25, 0.5, 0.75}
	ours, theirs := make([]int, len(radii)), make([]int, len(radii))
	compared := 0
	for i, line := range strings.Split(strings.TrimSpace(string(log)), "\n")[1:] {
		var index, label, predict, correct int
		var radius float64
		fields := strings.Fields(line)
		for k, to := range []any{&index, &label, &predict, &radius, &correct} {
			scan(t, fields[k], to)
		}
		v := votes[i]
		if v.Index != index {
			t.Fatalf("line %d is image %d, the votes are of %d", i+2, index, v.Index)
		}
		if v.N != n || v.Label != label {
			t.Fatalf("image %d: %d votes, label %d; the log says label %d", index, v.N, v.Label, label)
		}
		cert, err := c.Certify(v)
		if err != nil {
			t.Fatal(err)
		}
		for k, r := range radii {
			if cert.Correct && cert.Radius >= r {
				ours[k]++
			}
			if correct == 1 && radius >= r {
				theirs[k]++
			}
		}
		if !cert.Correct || correct != 1 {
			continue
		}
		compared++
		// estimate approximates the number of votes whose Clopper–Pearson bound is Φ(r/σ). This number lies about z
		// standard deviations above n·Φ(r/σ), where z is the 1 − α quantile of the standard normal distribution.
		estimate := func(r float64) float64 {
			p := 0.5 * math.Erfc(-r/sigma/math.Sqrt2)
			z := -quantileNear(alpha)
			x := p * n
			for range 50 {
				x = p*n + z*math.Sqrt(math.Max(x, 1)*math.Max(1, n-x)/n) + 1
				x = math.Min(x, n)
			}
			return x
		}
		lo, hi := estimate(math.Max(0, radius*(1-0.5e-2)-1e-4)), estimate(radius*(1+0.5e-2)+1e-4)
		x := float64(v.Counts[label])
		distance := math.Max(0, math.Max(lo-x, x-hi))
		pooled := (x + (lo+hi)/2) / (2 * n)
		sd := math.Sqrt(2 * n * pooled * math.Max(1.0/n, 1-pooled))
		if distance > 4.06*sd+3 {
			t.Errorf("image %d: %v votes; Cohen's radius %v means %.0f…%.0f, %v apart (sd %.0f)", index, x, radius, lo, hi, distance, sd)
		}
	}
	if compared < 300 {
		t.Errorf("only %d images could be compared", compared)
	}
	for k, r := range radii {
		// The two counts can differ for two reasons. First, the true radius of an image may be within sampling error of
		// r. Few of the 500 images have such a radius. Second, this test certifies the label, but Cohen et al. certify
		// the class with the most votes of n0 = 100 samples. Near p_A = ½ they may choose a wrong class. This matters
		// only at r = 0.
		if diff := ours[k] - theirs[k]; diff > 6 || diff < -6 {
			t.Errorf("certified at %v: %d of our images, %d of Cohen's", r, ours[k], theirs[k])
		}
	}
	t.Logf("certified at %v: ours %v, Cohen's log %v, of 500; %d radii compared", radii, ours, theirs, compared)
}
