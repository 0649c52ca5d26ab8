package certify

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/rscert/rscert/internal/law"
)

// runnerUp returns the largest count of any outcome except class a.
func runnerUp(v Votes, a int) int64 { return slices.Max(v.estimated().rivals(a, NoneAnswer)) }

// The values of R/σ come from an independent program. At t = 1 they are halves of the second margin.
func TestRanksReferenceValues(t *testing.T) {
	for _, c := range []struct {
		n, x1, x2        int64
		t                float64
		bonferroni, want float64
	}{
		{100, 90, 5, 1, .853056, .899546},
		{100, 80, 15, 2, .854916, .889381},
		{100, 60, 30, 2, .345924, .383505},
		{100, 60, 30, 3, .569294, .601799},
		{1000, 400, 500, 3, .355419, .364790},
		{1000, 250, 600, 5, .232988, .242941},
	} {
		for _, m := range []struct {
			method VoteMethod
			want   float64
		}{{Bonferroni, c.bonferroni}, {ExactMargin, c.want}} {
			v := mustVotes(t, VoteParams{Target: Target{Alpha: 0.001}, Method: m.method})
			b := v.bound(observation{n: c.n, a: c.x1, b: c.x2, alpha: 0.001, t: c.t})
			if got := b.margin / 2; got > m.want+6e-7 || got < m.want-1e-5 {
				t.Errorf("(%d; %d, %d; %v) by %s: ρ = %.6f, want %v", c.n, c.x1, c.x2, c.t, m.method, got, m.want)
			}
		}
	}
}

// For t = 1, the scale of type 'ranks' gives the usual second margin under every law.
func TestRanksOfOneAreTheMargin(t *testing.T) {
	for _, l := range law.Additives() {
		q := quantiles{l}
		s := &ranks{quantiles: q, t: 1, ends: map[float64][2]float64{}}
		for _, x := range [][2]float64{{0.9, 0.95}, {0.6, 0.7}, {0.999, 0.9999}, {0.3, 0.8}} {
			if got, want := s.margin(x[0], x[1]), q.margin(x[0], x[1]); math.Abs(got-want) > 1e-9 {
				t.Errorf("%s: margin %v at %v, want %v", l.Name(), got, x, want)
			}
		}
		for _, m := range []float64{0.1, 0.5, 1.3} {
			a1, a2 := s.end(m)
			b1, b2 := q.end(m)
			if math.Abs(a1-b1)+math.Abs(a2-b2) > 1e-9 {
				t.Errorf("%s: the frontier of %v ends at %v, %v; want %v, %v", l.Name(), m, a1, a2, b1, b2)
			}
			for _, y := range []float64{0.01, 0.2, 0.5} {
				y *= math.Sqrt(b2)
				a1, a2, as := s.point(m, y)
				b1, b2, bs := q.point(m, y)
				if math.Abs(a1-b1)+math.Abs(a2-b2) > 1e-9 || math.Abs(as-bs) > 1e-6*bs {
					t.Errorf("%s: point %v, %v, %v at %v; want %v, %v, %v", l.Name(), a1, a2, as, y, b1, b2, bs)
				}
			}
		}
	}
}

// The proof of a bound needs four properties. The frontier is concave. The method 'point' returns the derivative of the
// frontier as the slope. The frontier ends where q1 + q2 = 1. The method 'reach' takes a probability and returns the
// parameter y = √q2 of a point on the frontier. The q1 of this point is at most the given probability.
func TestRanksFrontier(t *testing.T) {
	for _, l := range law.Additives() {
		for _, factor := range []float64{0.5, 1, 2, 5} {
			s := &ranks{quantiles: quantiles{l}, t: factor}
			for _, m := range []float64{0.05, 0.4, 1.1} {
				e1, e2 := s.end(m)
				if sum := e1 + e2; sum < 1 || sum > 1+1e-6 {
					t.Fatalf("%s, t = %v: the frontier of %v ends at %v + %v", l.Name(), factor, m, e1, e2)
				}
				previous, last := math.Inf(1), 0.0
				for u := 0.02; u < 1; u += 0.02 {
					y := u * math.Sqrt(e2)
					q1, q2, slope := s.point(m, y)
					if slope > previous*(1+1e-9) || q1 < last {
						t.Fatalf("%s, t = %v, margin %v: slope %v after %v at q2 = %v", l.Name(), factor, m, slope, previous, q2)
					}
					previous, last = slope, q1
					const h = 1e-6
					up, q2up, _ := s.point(m, y*(1+h))
					down, q2down, _ := s.point(m, y*(1-h))
					kink := l.Name() == law.Laplace.Name() && math.Abs(slope-(up-down)/(q2up-q2down)) < 2*slope
					if d := (up - down) / (q2up - q2down); math.Abs(d-slope) > 1e-3*slope && !kink {
						t.Errorf("%s, t = %v, margin %v, q2 = %v: slope %v, difference quotient %v", l.Name(), factor, m, q2, slope, d)
					}
					if r1, _, _ := s.point(m, s.reach(m, q1)); r1 > q1 {
						t.Errorf("%s, t = %v, margin %v: reach of %v gives %v", l.Name(), factor, m, q1, r1)
					}
				}
			}
		}
	}
}

var normal = distuv.UnitNormal

// contestRadius solves t·Φ(Φ⁻¹(p)−ρ) = Φ(Φ⁻¹(q)+ρ) for ρ.
func contestRadius(p, q, t float64) float64 {
	lo, hi := -50.0, 50.0
	for range 200 {
		rho := (lo + hi) / 2
		if t*normal.CDF(normal.Quantile(p)-rho) > normal.CDF(normal.Quantile(q)+rho) {
			lo = rho
		} else {
			hi = rho
		}
	}
	return lo
}

// For every (p_A, p_S, t), one classifier shows that no radius above half the margin is valid. The input of this
// classifier is one real number. The classifier answers A on the left part of the line. On the right part S it answers
// one of t classes. (For t = ½, the test only compares the probability of A with twice the probability of S.) At a
// distance equal to the radius, A and the t classes are all equally probable. At a slightly smaller distance, A is more
// probable than the least probable of the t classes.
func TestRanksAreTight(t *testing.T) {
	for _, c := range []struct{ a, s, t float64 }{{.8, .15, 2}, {.5, .4, 3}, {.25, .6, 5}, {.9, .05, 1}, {.95, .02, .5}} {
		rho := (&ranks{quantiles: quantiles{law.Gaussian}, t: c.t}).margin(c.a, 1-c.s) / 2
		endA, startS := normal.Quantile(c.a), normal.Quantile(1-c.s)
		if endA > startS {
			t.Fatalf("%+v: no such classifier", c)
		}
		at := func(shift float64) (a, each float64) {
			return normal.CDF(endA - shift), (1 - normal.CDF(startS-shift)) / c.t
		}
		if a, each := at(rho * (1 - 1e-6)); a <= each {
			t.Errorf("%+v: at %v·(1−10⁻⁶) class A has %v, a class of S %v", c, rho, a, each)
		}
		if a, each := at(rho * (1 + 1e-6)); a > each {
			t.Errorf("%+v: the radius %v is not the largest: beyond it class A has %v, a class of S %v", c, rho, a, each)
		}
	}
}

// compositions lists all ways to divide n votes among m outcomes.
func compositions(n int64, m int) (all [][]int64) {
	if m == 1 {
		return [][]int64{{n}}
	}
	for x := int64(0); x <= n; x++ {
		for _, rest := range compositions(n-x, m-1) {
			all = append(all, append([]int64{x}, rest...))
		}
	}
	return all
}

func multinomialProbability(x []int64, p []float64) float64 {
	n, l := int64(0), 0.0
	for i, k := range x {
		if k > 0 && p[i] == 0 {
			return 0
		}
		if k > 0 {
			l += float64(k) * math.Log(p[i])
		}
		f, _ := math.Lgamma(float64(k) + 1)
		l -= f
		n += k
	}
	f, _ := math.Lgamma(float64(n) + 1)
	return math.Exp(l + f)
}

// The method 'truth' returns the true radius of a contest. The slice p holds the probabilities of A, of the other
// classes and of silence, in this order. A rank contest leaves out some rivals, and the selection samples determine
// these rivals. This method does not know the selection samples. So it leaves out the most probable rivals, because
// this choice gives the largest radius.
func (c Claim) truth(contest string, p []float64) float64 {
	others := slices.Clone(p[1:])
	silence := others[len(others)-1]
	if c.None != NoneAnswer {
		others = others[:len(others)-1]
	}
	slices.Sort(others)
	slices.Reverse(others)
	switch contest {
	case silenceTest:
		return contestRadius(silence, others[0], 1)
	case groupTest:
		return contestRadius(p[0]+silence, others[0], 0.5)
	case classTest, "":
		return contestRadius(p[0], others[0], 1)
	}
	var t int
	if _, err := fmt.Sscanf(contest, "t=%d", &t); err != nil {
		panic(err)
	}
	u, sum := c.TopK-t, 0.0
	for _, q := range others[u : u+t] {
		sum += q
	}
	return contestRadius(p[0], math.Min(sum, 1), float64(t))
}

// The grid holds vectors p of outcome probabilities. For each p, the probability of a wrong certificate must be at most
// α. The test enumerates all possible counts of the selection votes and of the estimation votes. With the method
// ExactMargin, this probability must be at least leastBad·α for some p. Otherwise the test has no power.
func TestClaimCoverage(t *testing.T) {
	const alpha = 0.05
	for _, c := range []struct {
		Claim
		classes  int
		n0, n    int64
		steps    int
		leastBad float64
	}{
		{Claim{TopK: 2}, 3, 3, 14, 10, 0.2},
		{Claim{TopK: 2, None: NoneIgnore}, 4, 0, 9, 8, 0.05},
		{Claim{None: NoneIgnore}, 2, 0, 18, 20, 0.3},
		{Claim{None: NoneSafe}, 3, 3, 14, 10, 0.2},
		{Claim{None: NoneSafe, TopK: 1}, 2, 4, 18, 20, 0.3},
	} {
		for _, method := range []VoteMethod{ExactMargin, Bonferroni} {
			worst := worstFailure(t, c.Claim, method, c.classes, c.n0, c.n, c.steps, alpha)
			t.Logf("%s by %s: fails with probability %.3gα at most", c.Says(), method, worst/alpha)
			if worst > alpha*(1+1e-9) {
				t.Errorf("%s by %s: fails with probability %v > %v", c.Says(), method, worst, alpha)
			}
			if method == ExactMargin && worst < c.leastBad*alpha {
				t.Errorf("%s by %s: fails with probability %v at most: the test has no power", c.Says(), method, worst)
			}
		}
	}
}

func worstFailure(t *testing.T, claim Claim, method VoteMethod, classes int, n0, n int64, steps int, alpha float64) (worst float64) {
	certifier := mustVotes(t, VoteParams{Target: Target{Alpha: alpha, Class: Label, Claim: claim}, Method: method})
	type outcome struct {
		x0, x   []int64
		radius  float64
		contest string
	}
	var all []outcome
	firsts := [][]int64{nil}
	if n0 > 0 {
		firsts = compositions(n0, classes+1)
	}
	for _, x0 := range firsts {
		for _, x := range compositions(n, classes+1) {
			v := Votes{N0: n0, N: n, Counts: x[:classes], None: x[classes]}
			if n0 > 0 {
				v.Counts0, v.None0 = x0[:classes], x0[classes]
			}
			cert, err := certifier.Certify(v)
			if err != nil {
				t.Fatal(err)
			}
			if cert.Prediction != Abstained {
				all = append(all, outcome{x0, x, cert.Radius, cert.Contest})
			}
		}
	}
	for _, x := range compositions(int64(steps), classes+1) {
		p := make([]float64, len(x))
		for i, k := range x {
			p[i] = float64(k) / float64(steps)
		}
		truths := map[string]float64{}
		fail := 0.0
		chance0, chance := map[*int64]float64{}, map[*int64]float64{}
		probability := func(known map[*int64]float64, x []int64) float64 {
			q, ok := known[&x[0]]
			if !ok {
				q = multinomialProbability(x, p)
				known[&x[0]] = q
			}
			return q
		}
		for _, o := range all {
			truth, ok := truths[o.contest]
			if !ok {
				truth = claim.truth(o.contest, p)
				truths[o.contest] = truth
			}
			if o.radius <= truth {
				continue
			}
			q := probability(chance, o.x)
			if o.x0 != nil {
				q *= probability(chance0, o.x0)
			}
			fail += q
		}
		worst = max(worst, fail)
	}
	return worst
}

// It would be wrong to compute a bound only from the samples with an answer, and to divide the votes by the number of
// these samples. In this example, the two classes have the probabilities .02 and .001, and silence has .979. The second
// class can overtake the first at a distance of .5182σ, but the wrong bound is 1.6684σ. In the mode NoneIgnore, the
// radius of the certificate must be at most .5182σ.
func TestIgnoredSilenceIsNoConditioning(t *testing.T) {
	flips := contestRadius(0.02, 0.001, 1)
	conditional := normal.Quantile(0.02 / 0.021)
	if math.Abs(flips-.5182) > 1e-4 || math.Abs(conditional-1.6684) > 1e-4 {
		t.Fatalf("the answer changes at %v, the conditional formula claims %v", flips, conditional)
	}
	for _, method := range []VoteMethod{ExactMargin, Bonferroni} {
		for _, classes := range []int{2, 5} {
			v := Votes{N: 40000, Counts: make([]int64, classes), None: 39160}
			v.Counts[0], v.Counts[1] = 800, 40
			cert, err := mustVotes(t, VoteParams{Target: Target{Alpha: 0.001, Class: Label, Claim: Claim{None: NoneIgnore}}, Method: method}).Certify(v)
			if err != nil || cert.Prediction != 0 || cert.Radius > flips || cert.Radius < 0.35 {
				t.Errorf("%s, %d classes: %+v (%v); the answer changes at %v", method, classes, cert, err, flips)
			}
		}
	}
}

// The reference values are second margins in the mode NoneIgnore. An independent program computed them.
func TestIgnoreReferenceValues(t *testing.T) {
	for _, c := range []struct {
		n, a, b          int64
		bonferroni, want float64
	}{{100, 60, 5, .806205, .907769}, {100, 30, 2, .223034, .317784}, {1000, 600, 50, 1.547809, 1.571106}} {
		for _, m := range []struct {
			method VoteMethod
			want   float64
		}{{Bonferroni, c.bonferroni}, {ExactMargin, c.want}} {
			for _, counts := range [][]int64{{c.a, c.b}, {c.a, 0, c.b, 0}} {
				v := Votes{N: c.n, Counts: counts, None: c.n - c.a - c.b}
				cert, err := mustVotes(t, VoteParams{Target: Target{Alpha: 0.001, Class: Label, Claim: Claim{None: NoneIgnore}}, Method: m.method}).Certify(v)
				if err != nil || cert.Margin > m.want+6e-7 || cert.Margin < m.want-2e-5 {
					t.Errorf("%v of %d by %s: margin %v, want %v (%v)", counts, c.n, m.method, cert.Margin, m.want, err)
				}
			}
		}
	}
}

// Three contests can prove the claim "A or silence". The selection samples choose one of them. For the same estimation
// votes, each contest gives a different radius.
func TestSafeReferenceValues(t *testing.T) {
	certifier := mustVotes(t, VoteParams{Target: Target{Alpha: 0.001, Class: Label, Claim: Claim{None: NoneSafe}}})
	for _, c := range []struct {
		contest string
		n0      int64
		counts0 []int64
		none0   int64
		want    float64
	}{
		{classTest, 0, nil, 0, .5589},
		{classTest, 100, []int64{95, 5, 0}, 0, .5589},
		{silenceTest, 100, []int64{1, 1, 0}, 98, 1.0194},
		{groupTest, 100, []int64{30, 2, 3}, 65, 1.2329},
	} {
		v := Votes{N0: c.n0, None0: c.none0, N: 1000, Counts: []int64{300, 20, 20, 10}, None: 650}
		if c.counts0 != nil {
			v.Counts0 = append(slices.Clone(c.counts0), 0)
		}
		cert, err := certifier.Certify(v)
		if err != nil || cert.Contest != c.contest || math.Abs(cert.Radius-c.want) > 6e-5 || cert.None != NoneSafe || cert.Prediction != 0 {
			t.Errorf("%+v (%v), want the contest %s and the radius %v", cert, err, c.contest, c.want)
		}
	}
}

// Only the selection samples determine which classes a rank contest leaves out.
func TestRankContest(t *testing.T) {
	v := Votes{N0: 100, Counts0: []int64{50, 25, 25, 0, 0}, N: 1000, Counts: []int64{500, 20, 300, 140, 40}}
	claim := Claim{TopK: 3}
	got, err := claim.contest(v, 0)
	// Classes 1 and 2 have the most selection votes of all rivals. So the contest leaves them out, whatever their
	// estimation votes are. Of the remaining rivals, class 3 has the most estimation votes.
	if want := (contest{500, 140, 1, "t=1"}); err != nil || got != want {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
	v.Counts0, v.N0 = nil, 0
	if got, err = claim.contest(v, 0); err != nil || got != (contest{500, 480, 3, "t=3"}) {
		t.Errorf("without selection samples: %+v (%v)", got, err)
	}
	v.Counts, v.None = []int64{500, 100, 100, 60, 40}, 200
	if got, _ := claim.contest(v, 0); got.rival != 400 {
		t.Errorf("silence has a rank: %+v, want 400 votes of the rivals", got)
	}
	claim.None = NoneIgnore
	if got, _ := claim.contest(v, 0); got.rival != 260 {
		t.Errorf("silence is ignored: %+v, want 260 votes of the rivals", got)
	}
	claim.TopK = 5
	if _, err := claim.contest(v, 0); err == nil {
		t.Error("the first 5 of 5 classes are certified")
	}
}

// With these votes, a larger TopK gives a larger radius under Gaussian noise. CertifyAtLeast must agree with Certify.
func TestMoreRanksCertifyMore(t *testing.T) {
	v := Votes{N0: 100, Counts0: []int64{60, 20, 10, 5, 5}, N: 1000, Counts: []int64{600, 200, 100, 50, 50}}
	last := -1.0
	for k := 1; k <= 4; k++ {
		for _, l := range law.Additives() {
			c := mustVotes(t, VoteParams{Target: Target{Law: law.Of(l), Alpha: 0.001, Claim: Claim{TopK: k}}})
			cert, err := c.Certify(v)
			again, err2 := c.CertifyAtLeast(v, cert.Margin)
			if err != nil || err2 != nil || cert.Prediction != 0 || again.Radius < cert.Radius || again.Contest != cert.Contest {
				t.Fatalf("%s, k = %d: %+v, then %+v (%v, %v)", l.Name(), k, cert, again, err, err2)
			}
			if more, _ := c.CertifyAtLeast(v, cert.Margin*1.01); more.Radius > cert.Radius*1.0001 {
				t.Errorf("%s, k = %d: radius %v is proved, the largest is %v", l.Name(), k, more.Radius, cert.Radius)
			}
			if most := c.params.LargestRadius(v.N); cert.Radius > most {
				t.Errorf("%s, k = %d: radius %v above the largest possible %v", l.Name(), k, cert.Radius, most)
			}
			if l == law.Gaussian {
				if cert.Radius <= last || (cert.TopK != 0) != (k > 1) {
					t.Errorf("k = %d: radius %v after %v, top_k %d", k, cert.Radius, last, cert.TopK)
				}
				last = cert.Radius
			}
		}
	}
}

func TestClaimsRefused(t *testing.T) {
	for want, p := range map[string]VoteParams{
		"method clopper-pearson": {Target: Target{Claim: Claim{TopK: 2}}, Method: ClopperPearson},
		"method moutaouakil":     {Target: Target{Claim: Claim{None: NoneIgnore}}, Method: Moutaouakil},
		"second margin":          {Target: Target{Margin: FirstMargin, Claim: Claim{None: NoneSafe}}},
		"silence has no rank":    {Target: Target{Claim: Claim{TopK: 2, None: NoneSafe}}},
		"top_k is -1":            {Target: Target{Claim: Claim{TopK: -1}}},
		"reject_below is 1.5":    {Target: Target{Claim: Claim{RejectBelow: 1.5}}},
		"want answer, ignore":    {Target: Target{Claim: Claim{None: "maybe"}}},
	} {
		p.Alpha, p.Sigma = 0.001, 1
		if _, err := NewVoteCertifier(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := NewScoreCertifier(ScoreParams{Target: Target{Alpha: 0.001, Sigma: 1, Claim: Claim{TopK: 2}}}); err == nil {
		t.Error("scores certify ranks")
	}
}

// Sampling for the claim that A is among the first k classes can also stop early. The certificate then uses only the
// share of α that belongs to the checkpoint where sampling stopped.
func TestStoppingForRanks(t *testing.T) {
	p := VoteParams{Target: Target{Alpha: 0.001, Sigma: 1, Class: Label, Claim: Claim{TopK: 3}}}
	s := mustStop(t, p, "radius>=1", 100000)
	v := Votes{N0: 100, Counts0: []int64{97, 1, 1, 1, 0}, Counts: make([]int64, 5)}
	for {
		next, err := s.Next(v)
		if err != nil {
			t.Fatal(err)
		}
		if next == v.N {
			break
		}
		v.N = next
		v.Counts[1], v.Counts[2] = next/100, next/100
		v.Counts[0] = next - 2*(next/100)
	}
	if err := s.Mark(&v); err != nil {
		t.Fatal(err)
	}
	cert, err := mustVotes(t, p).Certify(v)
	if err != nil || cert.Radius < 1 || v.N > 1000 {
		t.Errorf("%d samples, %+v (%v)", v.N, cert, err)
	}
}

// Confidence is the largest entry of the softmax.
func TestConfidence(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, row := range [][]float32{{1, 2, 3}, {0, 0, 0}, {-inf, 5, 4}, {100, -100, 3}} {
		for _, temperature := range []float64{0.5, 1, 3} {
			in, probs := make([]float64, len(row)), make([]float64, len(row))
			for i, z := range row {
				in[i] = float64(z)
			}
			Softmax(in, probs, len(row), temperature)
			if got, want := Confidence(row, temperature), slices.Max(probs); got != want {
				t.Errorf("%v at temperature %v: %v, want %v", row, temperature, got, want)
			}
		}
	}
	for _, row := range [][]float32{{0, inf}, {float32(math.NaN()), 0}, {-inf, -inf}} {
		if got := Confidence(row, 1); got != 0 {
			t.Errorf("%v: confidence %v, want 0", row, got)
		}
	}
}
