package certify

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/binomial"
)

func mustVotes(t testing.TB, p VoteParams) *VoteCertifier {
	t.Helper()
	if p.Sigma == 0 {
		p.Sigma = 1
	}
	c, err := NewVoteCertifier(p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *VoteCertifier) marginOf(n, a, b int64) float64 {
	return c.bound(observation{n: n, a: a, b: b, alpha: c.params.Alpha}).margin
}

// The values come from direct summation, to four decimals (see TestMarginAgainstSummation). They hold for outcomes in
// the order of their bonferroni margins. The method uses this order, so that its result is never below the bonferroni
// margin. For the first margin, the order T = x1 − x2 would give 0.6281 and 0.3736.
func TestMarginReferenceValues(t *testing.T) {
	for _, c := range []struct {
		kind             MarginKind
		n, a, b          int64
		want, bonferroni float64
	}{
		{SecondMargin, 100, 100, 0, 3.0010, math.NaN()},
		{SecondMargin, 100, 99, 0, 2.9749, math.NaN()},
		{SecondMargin, 100, 90, 5, 1.7991, 1.7061},
		{SecondMargin, 100, 80, 15, 0.9834, 0.9007},
		{SecondMargin, 1000, 950, 30, 3.0815, 3.0527},
		{FirstMargin, 100, 90, 5, 0.6316, 0.6026},
		{FirstMargin, 100, 80, 15, 0.3771, 0.3465},
	} {
		got := mustVotes(t, VoteParams{Target: Target{Margin: c.kind, Alpha: 0.001}, Method: ExactMargin}).marginOf(c.n, c.a, c.b)
		if math.Abs(got-c.want) > 0.00006 {
			t.Errorf("%v margin of (%d; %d, %d) = %.5f, want %.4f", c.kind, c.n, c.a, c.b, got, c.want)
		}
		got = mustVotes(t, VoteParams{Target: Target{Margin: c.kind, Alpha: 0.001}, Method: Bonferroni}).marginOf(c.n, c.a, c.b)
		if math.Abs(got-c.bonferroni) > 0.00006 {
			t.Errorf("%v bonferroni margin of (%d; %d, %d) = %.5f, want %.4f", c.kind, c.n, c.a, c.b, got, c.bonferroni)
		}
	}
}

// An outcome is a pair (x1, x2) of counts of n samples, with its log multinomial coefficient.
type outcome struct {
	x1, x2, x3 int64
	logC       float64
}

func outcomes(n int64) (all []outcome) {
	lg := func(k int64) float64 { v, _ := math.Lgamma(float64(k) + 1); return v }
	for x1 := int64(0); x1 <= n; x1++ {
		for x2 := int64(0); x1+x2 <= n; x2++ {
			all = append(all, outcome{x1, x2, n - x1 - x2, lg(n) - lg(x1) - lg(x2) - lg(n-x1-x2)})
		}
	}
	return all
}

func (o outcome) probability(q1, q2 float64) float64 {
	q3 := 1 - q1 - q2
	l := o.logC
	for _, f := range []struct {
		x int64
		q float64
	}{{o.x1, q1}, {o.x2, q2}, {o.x3, q3}} {
		if f.x > 0 {
			if f.q <= 1e-15 {
				return 0
			}
			l += float64(f.x) * math.Log(f.q)
		}
	}
	return math.Exp(l)
}

func marginAt(kind MarginKind, q1, q2 float64) float64 {
	if kind == FirstMargin {
		return q1 - q2
	}
	return quantileNear(q1) - quantileNear(q2)
}

// The oracle follows the definition of the margin. It takes the largest L for which the event has a probability of at
// most α at every point of a grid on the frontier. To get this probability, it sums over all outcomes in the event.
func TestMarginAgainstSummation(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int64{10, 40} {
		all := outcomes(n)
		for _, kind := range names(MarginKinds()) {
			for range 12 {
				alpha := []float64{0.001, 0.05, 0.3}[rng.IntN(3)]
				a := n/2 + rng.Int64N(n/2+1)
				b := rng.Int64N(n - a + 1)
				if a <= b {
					continue
				}
				T := func(a, b int64) float64 {
					return scaleOf(kind).margin(binomial.LowerBound(a, n, alpha/2), binomial.LowerBound(n-b, n, alpha/2))
				}
				var in []outcome
				for _, o := range all {
					if T(o.x1, o.x2) >= T(a, b)-1e-9 {
						in = append(in, o)
					}
				}
				sup := func(L float64) (most float64) {
					f := frontier{scaleOf(kind), L}
					for i := 0; i <= 400; i++ {
						y := f.last() * float64(i) / 400
						q1, q2 := 0.0, 0.0
						if i > 0 || kind == FirstMargin {
							q1, q2, _ = f.point(y)
						}
						p := 0.0
						for _, o := range in {
							p += o.probability(q1, q2)
						}
						most = max(most, p)
					}
					return most
				}
				lo, hi := 1e-6, 8.0
				if kind == FirstMargin {
					hi = 1
				}
				if sup(lo) > alpha {
					lo = 0
				} else {
					for range 40 {
						if mid := (lo + hi) / 2; sup(mid) <= alpha {
							lo = mid
						} else {
							hi = mid
						}
					}
				}
				got := mustVotes(t, VoteParams{Target: Target{Margin: kind, Alpha: alpha}, Method: ExactMargin}).marginOf(n, a, b)
				if lo == 0 && got <= 0 {
					continue
				}
				// The grid may miss the point with the largest probability, so 'lo' may be slightly too large.
				if got > lo+1e-6 || got < lo-2e-3 {
					t.Errorf("%v margin of (%d; %d, %d) at α = %v is %.6f; by summation %.6f", kind, n, a, b, alpha, got, lo)
				}
			}
		}
	}
}

// The test compares the result of the method 'probability' with the sum over all outcomes.
func TestEventProbability(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int64{1, 2, 9, 60} {
		all := outcomes(n)
		for range 200 {
			a := rng.Int64N(n + 1)
			b := rng.Int64N(n - a + 1)
			kind := names(MarginKinds())[rng.IntN(2)]
			e := newEvent(bonferroniOrder(scaleOf(kind), n, 0.01), a, b)
			q1 := rng.Float64()
			q2 := rng.Float64() * (1 - q1)
			switch rng.IntN(5) {
			case 0:
				q2 *= 1e-9
			case 1:
				q2 = 1 - q1
			case 2:
				q1, q2 = 1-1e-7, q2*1e-7
			}
			want := 0.0
			for _, o := range all {
				if o.x1 >= e.threshold(o.x2, 0) {
					want += o.probability(q1, q2)
				}
			}
			got := e.probability(q1, q2)
			if got < want*(1-1e-11) || got > want*(1+1e-8)+1e-200 {
				t.Errorf("n = %d, (%d, %d), %v, q = (%v, %v): %v, want %v", n, a, b, kind, q1, q2, got, want)
			}
			if crude := e.crude(q1, q2); crude < math.Log(want)-1e-9 {
				t.Errorf("n = %d, (%d, %d), q = (%v, %v): crude bound %v below %v", n, a, b, q1, q2, crude, math.Log(want))
			}
		}
	}
}

// For n = 100,000 the method 'probability' takes thousands of steps. The test compares its result with a sum that
// computes each tail separately.
func TestEventProbabilityLarge(t *testing.T) {
	const n = 100000
	for _, c := range []struct {
		a, b   int64
		q1, q2 float64
	}{
		{93642, 5279, 0.9345, 0.054}, {49328, 36952, 0.492, 0.371}, {99990, 3, 0.99985, 5e-5}, {60000, 40000, 0.597, 0.402},
	} {
		e := newEvent(bonferroniOrder(scaleOf(SecondMargin), n, 0.001), c.a, c.b)
		mean, sd := n*c.q2, math.Sqrt(n*c.q2*(1-c.q2))
		var lo, hi float64
		for x2 := max(0, int64(mean-9*sd)); x2 <= int64(mean+9*sd)+9; x2++ {
			logw, err := binomial.LogTerm(n, x2, c.q2, 1-c.q2)
			s := binomial.Tail(n-x2, e.threshold(x2, c.a), c.q1/(1-c.q2))
			lo += math.Exp(logw-err) * s.Lower
			hi += math.Exp(logw+err) * s.Upper
		}
		if got := e.probability(c.q1, c.q2); got < lo*(1-1e-9) || got > hi*(1+1e-8)+1e-15 {
			t.Errorf("(%d, %d), q = (%v, %v): %v, want %v…%v", c.a, c.b, c.q1, c.q2, got, lo, hi)
		}
	}
}

// The method 'bridge' bounds P_q(event) for all q on the line between two nodes.
func TestBridgeBoundsTheLine(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const n = 80
	for range 300 {
		a := n/2 + rng.Int64N(n/2+1)
		b := rng.Int64N(n - a + 1)
		e := newEvent(bonferroniOrder(scaleOf(SecondMargin), n, 0.01), a, b)
		s := newSearch(e, scaleOf(SecondMargin), 0.01)
		node := func() node {
			q1 := rng.Float64()
			q2 := rng.Float64() * (1 - q1)
			q := [3]float64{q1, q2, 1 - q1 - q2}
			return struct {
				q    [3]float64
				logP float64
			}{q, math.Log(e.probability(q1, q2))}
		}
		A, B := node(), node()
		bound := s.bridge(A, B)
		for i := 0; i <= 20; i++ {
			w := float64(i) / 20
			var q [3]float64
			z := 0.0
			for k := range q {
				q[k] = math.Exp((1-w)*math.Log(A.q[k]) + w*math.Log(B.q[k]))
				z += q[k]
			}
			if p := math.Log(e.probability(q[0]/z, q[1]/z)); p > bound+1e-9 && p > -500 {
				t.Fatalf("between %v and %v at %v: ln P = %v above the bridge %v", A, B, w, p, bound)
			}
		}
	}
}

// The test takes a fine grid of distributions that all have the same margin. For each of them, it computes the
// probability of the event T ≥ T(x) (see exactMargin). If this probability is above α somewhere, the method 'prove'
// must reject the margin. It must accept margins slightly below the exact bound.
func TestProofAgreesWithGrid(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 40 {
		n := []int64{20, 100, 1000}[rng.IntN(3)]
		a := n/2 + 1 + rng.Int64N(n/2)
		b := rng.Int64N(n - a + 1)
		if b >= a {
			continue
		}
		kind := names(MarginKinds())[rng.IntN(2)]
		const alpha = 0.01
		s := newSearch(newEvent(bonferroniOrder(scaleOf(kind), n, alpha), a, b), scaleOf(kind), alpha)
		exact, slope := s.locate(leastMargin, 0)
		if !(exact > 0.01) {
			continue
		}
		for _, off := range []float64{-3, -0.1, -1e-4, 1e-4, 0.01} { // changes of ln P
			f := frontier{scaleOf(kind), exact + off/slope}
			if !(f.margin > leastMargin) || (kind == FirstMargin && f.margin >= 1) {
				continue
			}
			most := math.Inf(-1)
			for i := 1; i <= 1000; i++ {
				most = math.Max(most, s.value(f, float64(i)/1000))
			}
			proved := s.prove(f) < 0
			if proved && most > s.logAlpha {
				t.Errorf("(%d; %d, %d), %v margin %v: proved, but ln P − ln α = %v somewhere", n, a, b, kind, f.margin, most-s.logAlpha)
			}
			if !proved && off <= -1e-4 && most < s.logAlpha-1e-4 {
				t.Errorf("(%d; %d, %d), %v margin %v: not proved with ln P − ln α = %v", n, a, b, kind, f.margin, most-s.logAlpha)
			}
		}
	}
}

func TestMarginProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, kind := range names(MarginKinds()) {
		certifiers := map[float64][2]*VoteCertifier{}
		alphas := []float64{1e-9, 0.001, 0.01, 0.1}
		for _, alpha := range alphas {
			certifiers[alpha] = [2]*VoteCertifier{
				mustVotes(t, VoteParams{Target: Target{Margin: kind, Alpha: alpha}, Method: ExactMargin}),
				mustVotes(t, VoteParams{Target: Target{Margin: kind, Alpha: alpha}, Method: Bonferroni}),
			}
		}
		for range 60 {
			n := 1 + int64(math.Exp(rng.Float64()*math.Log(3000)))
			a := rng.Int64N(n + 1)
			b := rng.Int64N(n - a + 1)
			alpha := alphas[rng.IntN(len(alphas))]
			c := certifiers[alpha]
			m := c[0].marginOf(n, a, b)
			// The exact margin is monotone in α and in the two counts, but the search may return a slightly smaller
			// margin. The constant 'left' is the largest violation of monotonicity that the test accepts.
			const left = 1e-5
			if bonf := c[1].marginOf(n, a, b); m < bonf && bonf > 0 {
				t.Errorf("%v margin of (%d; %d, %d) at α = %v: %v is below bonferroni's %v", kind, n, a, b, alpha, m, bonf)
			}
			if m <= 0 {
				continue
			}
			for _, larger := range alphas {
				if other := certifiers[larger][0].marginOf(n, a, b); larger > alpha && other < m-left {
					t.Errorf("%v margin of (%d; %d, %d): %v at α = %v, %v at %v", kind, n, a, b, m, alpha, other, larger)
				}
			}
			if a+b < n {
				if other := c[0].marginOf(n, a+1, b); other < m-left {
					t.Errorf("%v margin at α = %v falls from (%d; %d, %d) %v to %v with a vote more", kind, alpha, n, a, b, m, other)
				}
				if other := c[0].marginOf(n, a, b+1); other > m+left {
					t.Errorf("%v margin at α = %v rises from (%d; %d, %d) %v to %v with a vote against", kind, alpha, n, a, b, m, other)
				}
			}
		}
	}
}

// With two classes the method "margin" gives the Clopper–Pearson margin, not the bonferroni margin.
func TestTwoClasses(t *testing.T) {
	votes := Votes{N0: 1, Counts0: []int64{1, 0}, N: 100, Counts: []int64{90, 10}}
	var margins []float64
	for _, m := range []VoteMethod{Bonferroni, ExactMargin, ClopperPearson} {
		cert, err := mustVotes(t, VoteParams{Target: Target{Alpha: 0.001}, Method: m}).Certify(votes)
		if err != nil {
			t.Fatal(err)
		}
		margins = append(margins, cert.Margin)
	}
	if !(margins[0] < margins[1] && margins[1] == margins[2]) {
		t.Errorf("bonferroni, margin, clopper-pearson of 90:10 votes: %v", margins)
	}
}

func TestMoutaouakil(t *testing.T) {
	for _, c := range []struct {
		kind      MarginKind
		n, a, b   int64
		unbounded bool
	}{
		{SecondMargin, 100, 100, 0, true}, {SecondMargin, 100, 99, 1, false}, {FirstMargin, 100, 100, 0, false},
	} {
		b := mustVotes(t, VoteParams{Target: Target{Margin: c.kind, Alpha: 0.001}, Method: Moutaouakil}).bound(observation{n: c.n, a: c.a, b: c.b, alpha: 0.001})
		if b.unbounded != c.unbounded {
			t.Errorf("%v margin of (%d; %d, %d): unbounded %v", c.kind, c.n, c.a, c.b, b.unbounded)
		}
		if c.a == c.n && b.margin != 1 {
			t.Errorf("%v margin of x1 = n: %v, want the largest possible", c.kind, b.margin)
		}
		if sound := mustVotes(t, VoteParams{Target: Target{Margin: c.kind, Alpha: 0.001}, Method: ExactMargin}).marginOf(c.n, c.a, c.b); c.a < c.n && b.margin <= sound {
			t.Errorf("%v margin of (%d; %d, %d): %v, the sound one is %v", c.kind, c.n, c.a, c.b, b.margin, sound)
		}
	}
}

// TestMarginManyOthers checks that the margin equals the bonferroni margin if the votes for other classes are too many
// for the search. If the other classes have few votes, the margin must be larger than the bonferroni margin.
func TestMarginManyOthers(t *testing.T) {
	margin := mustVotes(t, VoteParams{Target: Target{Alpha: 0.001, Class: Label}, Method: ExactMargin})
	bonferroni := mustVotes(t, VoteParams{Target: Target{Alpha: 0.001, Class: Label}, Method: Bonferroni})
	for _, c := range []struct {
		n, others int64
		searched  bool
	}{{1 << 24, 1000, true}, {1 << 40, mostOthers + 1, false}, {1 << 40, 1 << 38, false}, {1 << 21, mostOthers + 1, false}} {
		v := Votes{N: c.n, Counts: []int64{c.n - c.others, c.others - 3, 3}}
		m, err1 := margin.Certify(v)
		b, err2 := bonferroni.Certify(v)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if m.Radius < b.Radius || (m.Radius > b.Radius) != c.searched {
			t.Errorf("n = %d, %d others: radius %v, bonferroni %v", c.n, c.others, m.Radius, b.Radius)
		}
	}
}

func TestEqualCountsOnce(t *testing.T) {
	c := mustVotes(t, VoteParams{Target: Target{Alpha: 0.001, Class: Label}, Method: ExactMargin})
	for range 3 {
		if _, err := c.Certify(Votes{N: 50, Counts: []int64{45, 3, 2}}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Certify(Votes{N: 50, Label: 2, Counts: []int64{2, 3, 45}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.known) != 1 || len(c.orders) != 1 {
		t.Errorf("%d bounds and %d orders for equal counts", len(c.known), len(c.orders))
	}
}

// realVotes returns the votes of Cohen et al.'s ResNet-110 on 500 CIFAR-10 images, σ = 0.25, n = 100,000 (Jia et al.
// 2020).
func realVotes(t testing.TB) (votes []Votes) {
	t.Helper()
	data, err := os.ReadFile("../../../shared/data/cifar10-votes/resnet110-sigma0.25-n100000.txt")
	if err != nil {
		t.Skip("needs ../shared: ", err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		v := Votes{Index: 20 * i, Counts: make([]int64, 10)}
		fields := strings.Fields(line)
		for k := range v.Counts {
			scan(t, fields[k], &v.Counts[k])
			v.N += v.Counts[k]
		}
		scan(t, fields[10], &v.Label)
		votes = append(votes, v)
	}
	return votes
}

// The test takes every tenth example of the real votes. If the example is certified, the bound of the method "margin"
// is strictly above the bonferroni margin. So the search proves its margin, and the method does not fall back to the
// bonferroni margin.
func TestMarginOnRealVotes(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	margin := mustVotes(t, VoteParams{Target: Target{Alpha: 0.001}, Method: ExactMargin})
	bonf := mustVotes(t, VoteParams{Target: Target{Alpha: 0.001}, Method: Bonferroni})
	certified := 0
	for i, v := range realVotes(t) {
		if i%10 != 0 {
			continue
		}
		a, b := v.Counts[v.Label], runnerUp(v, v.Label)
		m, f := margin.marginOf(v.N, a, b), bonf.marginOf(v.N, a, b)
		if f > 0 {
			certified++
			if !(m > f) {
				t.Errorf("example %d, (%d; %d, %d): margin %v, bonferroni %v", v.Index, v.N, a, b, m, f)
			}
		}
	}
	if certified < 30 {
		t.Errorf("%d of 50 certified", certified)
	}
}

// BenchmarkMargin measures the time per example over all real votes. The time includes computing the scores s(k) that
// the type 'order' uses. Examples with equal counts share one search.
func BenchmarkMargin(b *testing.B) {
	votes := realVotes(b)
	for _, n := range []int64{1000, 100000} {
		b.Run(fmt.Sprint("n=", n), func(b *testing.B) {
			examples := 0
			for b.Loop() {
				c := mustVotes(b, VoteParams{Target: Target{Alpha: 0.001, Class: Label}, Method: ExactMargin})
				rng := rand.New(rand.NewPCG(1, 1))
				for _, v := range votes {
					if v.N < n {
						continue
					}
					if n < v.N {
						v = subsample(rng, v, n)
					}
					if _, err := c.Certify(v); err != nil {
						b.Fatal(err)
					}
					examples++
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(examples), "ms/example")
		})
	}
}

// subsample draws n of v's votes without replacement.
func subsample(rng *rand.Rand, v Votes, n int64) Votes {
	out := v
	out.N, out.Counts = n, make([]int64, len(v.Counts))
	left := append([]int64(nil), v.Counts...)
	total := v.N
	for range n {
		r := rng.Int64N(total)
		for k := range left {
			if r < left[k] {
				left[k]--
				out.Counts[k]++
				break
			}
			r -= left[k]
		}
		total--
	}
	return out
}
