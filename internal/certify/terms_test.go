package certify

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/rscert/rscert/internal/law"
)

// Simulations of coverage cannot detect a wrong constant if a bound has slack. So these tests compute each bound again
// from its printed formula, with gonum's quantiles and plain sums instead of the package's code.

var phi, phiInv = distuv.UnitNormal.CDF, distuv.UnitNormal.Quantile

// The function 'near' reports whether two numbers are equal within a relative error of 1e-6.
func near(got, want float64) bool { return math.Abs(got-want) <= 1e-6*math.Abs(want)+1e-9 }

// clopperPearsonLow returns BetaInv(α; x, n−x+1).
func clopperPearsonLow(x, n int64, alpha float64) float64 {
	if x == 0 {
		return 0
	}
	return mathext.InvRegIncBeta(float64(x), float64(n-x+1), alpha)
}

// scoreSamples returns n rows of scores for two classes. The slice x holds the scores f_A of the first class, which are
// near 0.9.
func scoreSamples(n int) (rows []float32, x []float64) {
	r := rand.New(rand.NewPCG(11, 12))
	for range n {
		p := float32(1 - 0.25*r.Float64()*r.Float64())
		rows = append(rows, p, 1-p)
		x = append(x, float64(p))
	}
	return rows, x
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// The test computes the bounds on the confidence from their formulas. Half of α is for the certificate. A quarter of α
// is for each of the two bounds on the confidence.
func TestConfidenceTerms(t *testing.T) {
	const n, alpha, sigma, radius = 4000, 0.02, 0.5, 0.2
	selection, _ := scoreSamples(50)
	rows, x := scoreSamples(n)
	side := alpha / 4
	hoeffding := func(m, level float64) float64 { return m - math.Sqrt(math.Log(1/level)/(2*n)) }
	bounds := func(p ConfidenceParams) (lower, upper float64, cert Certificate) {
		p.Radii = []float64{radius}
		a := startScores(t, ScoreParams{Target: Target{Alpha: alpha, Sigma: sigma}, Bound: Hoeffding, Combine: BonferroniScores, Confidence: p}, 50, n, 2)
		feed(t, a, selection, rows)
		cert, err := a.Certificate()
		if err != nil {
			t.Fatal(err)
		}
		lower, upper = a.intervals[0].bounds(0)
		return lower, upper, cert
	}
	check := func(name string, got, want float64) {
		t.Helper()
		if !near(got, want) {
			t.Errorf("%s is %.9f, by its formula %.9f", name, got, want)
		}
	}

	lower, upper, cert := bounds(ConfidenceParams{Method: ConfidenceStandard, Bound: Hoeffding})
	check("standard, lower", lower, phi(phiInv(hoeffding(mean(x), side))-radius/sigma))
	check("standard, upper", upper, phi(phiInv(1-hoeffding(1-mean(x), side))+radius/sigma))
	// The certificate uses α/2: α/4 for the bound on the class and α/4 for the bound on the rival.
	check("p_A", cert.Bounds["p_a"], hoeffding(mean(x), alpha/4))
	check("p_B", cert.Bounds["p_b"], 1-hoeffding(mean(x), alpha/4))
	if cert.Alpha != alpha/2 {
		t.Errorf("the certificate's α is %v", cert.Alpha)
	}

	// The method 'cdf' bounds S(s) = P(f_A ≥ s) at each threshold s. Each of its two bounds on the mean score under
	// attack is a sum over the thresholds.
	atLeast := func(s float64) (k int64) {
		for _, v := range x {
			if v >= s {
				k++
			}
		}
		return k
	}
	cdf := func(low, high func(k int64) float64, every int) (lower, upper float64) {
		before := 0.0
		upper = 0
		highBefore := 1.0 // S(0) = 1
		for j := every - 1; j < len(thresholds); j += every {
			s, k := thresholds[j], atLeast(thresholds[j])
			if l := low(k); l > 0 {
				lower += (s - before) * phi(phiInv(l)-radius/sigma)
			}
			upper += (s - before) * min(phi(phiInv(min(highBefore, 1))+radius/sigma), 1)
			before, highBefore = s, high(k)
		}
		upper += (1 - before) * phi(phiInv(min(highBefore, 1))+radius/sigma)
		return lower, upper
	}
	width := math.Sqrt(math.Log(1/side) / (2 * n))
	wantLower, wantUpper := cdf(
		func(k int64) float64 { return float64(k)/n - width },
		func(k int64) float64 { return float64(k)/n + width }, 1)
	lower, upper, _ = bounds(ConfidenceParams{Method: ConfidenceCDF, Band: BandDKW})
	check("dkw, lower", lower, wantLower)
	check("dkw, upper", upper, wantUpper)

	const points = 127
	wantLower, wantUpper = cdf(
		func(k int64) float64 { return clopperPearsonLow(k, n, side/points) },
		func(k int64) float64 { return 1 - clopperPearsonLow(n-k, n, side/points) }, 2)
	lower, upper, _ = bounds(ConfidenceParams{Method: ConfidenceCDF, Band: BandBinomial})
	check("binomial, lower", lower, wantLower)
	check("binomial, upper", upper, wantUpper)

	// For the method 'tangent', the bound is C + ψ(1)·(the bound on the mean of ψ/ψ(1)). Here ψ and C are those for the
	// S_0 that the method chose.
	a := startScores(t, ScoreParams{Target: Target{Alpha: alpha, Sigma: sigma},
		Confidence: ConfidenceParams{Radii: []float64{radius}, Method: ConfidenceTangent, Bound: Hoeffding}}, 50, n, 2)
	feed(t, a, selection, rows)
	at := a.intervals[0].confidence.(*tangent).radii[0]
	psi := func(s *tangentSide) (m float64) {
		for _, v := range x {
			m += s.value(cell(v), v) / n
		}
		return m
	}
	lower, upper = a.intervals[0].bounds(0)
	check("tangent, lower", lower, at.low.constant+at.low.top*hoeffding(psi(&at.low), side))
	check("tangent, upper", upper, at.high.constant+at.high.top*(1-hoeffding(1-psi(&at.high), side)))
}

// ψ(1) is an integral of the slopes g′(S_0), and C is an integral of g(S_0) − S_0·g′(S_0) (see the type 'tangent'). The
// test recomputes both integrals by finite differences of g. It also checks that no tangent lies above g.
func TestTangentSide(t *testing.T) {
	const shift = 0.7
	g := func(p float64) float64 { return phi(phiInv(p) - shift) }
	s0 := make([]float64, len(thresholds)+1)
	for j := range s0 {
		s0[j] = 0.999 - 0.99*float64(j)/float64(len(s0))
	}
	side := newTangentSide(law.Gaussian, s0, -shift)
	top, constant := 0.0, 0.0
	for j, p := range s0 {
		const h = 1e-6
		slope := (g(p+h) - g(p-h)) / (2 * h)
		w := upperEdge(j) - lowerEdge(j)
		top += w * slope
		constant += w * (g(p) - p*slope)
		for _, q := range []float64{0.001, 0.1, 0.5, 0.9, 0.999} {
			if g(p)+(q-p)*side.slope[j] > g(q)+1e-12 {
				t.Fatalf("the tangent at %v is above g at %v", p, q)
			}
		}
	}
	if !near(side.top, top) || !near(side.constant, constant) {
		t.Errorf("ψ(1) = %v and C = %v, want %v and %v", side.top, side.constant, top, constant)
	}
}

// prplTerms is one version of the predictable plug-in empirical Bernstein bound. Its fields are the parts that differ
// between the versions.
type prplTerms struct {
	lambda func(variance, i float64) float64        // λ_i from σ̂²_{i−1} and i
	seen   int                                      // 1 if the formula of v_i contains μ̂_i, 0 if it contains μ̂_{i−1}
	width  func(penalty, sumLambda float64) float64 // half width from Σv_iψ_E(λ_i) and Σλ_i
}

// The method 'bound' evaluates the published formula after t samples, for each t at which the package evaluates the
// formula. It returns the largest result. It computes every sum anew for each t.
func (p prplTerms) bound(x []float64) float64 {
	// μ̂_j = (½ + Σ_{k≤j} X_k)/(j+1), σ̂²_j = (¼ + Σ_{k≤j} (X_k−μ̂_k)²)/(j+1).
	muHat := func(j int) float64 {
		s := 0.5
		for _, v := range x[:j] {
			s += v
		}
		return s / float64(j+1)
	}
	best := 0.0
	for t := 1; t <= len(x); t++ {
		if t%prplBlock != 0 && t != len(x) {
			continue
		}
		var sumLX, sumL, sumV float64
		for i := 1; i <= t; i++ {
			variance := 0.25
			for k := 1; k < i; k++ {
				d := x[k-1] - muHat(k)
				variance += d * d
			}
			lambda := min(p.lambda(variance/float64(i), float64(i)), 0.5)
			d := x[i-1] - muHat(i-1+p.seen)
			psiE := (-math.Log(1-lambda) - lambda) / 4
			sumLX += lambda * x[i-1]
			sumL += lambda
			sumV += 4 * d * d * psiE
		}
		best = max(best, sumLX/sumL-p.width(sumV, sumL))
	}
	return best
}

// prplVersions returns three formulas: that of prpl-eb, that of the confidence sequence, and that of Proposition 3 as
// Moutaouakil 2024 prints it.
func prplVersions(n, alpha float64) map[MeanBound]prplTerms {
	sequence := func(log float64) func(variance, i float64) float64 {
		return func(variance, i float64) float64 { return math.Sqrt(2 * log / (variance * i * math.Log(1+i))) }
	}
	return map[MeanBound]prplTerms{
		PrPlEB: {func(variance, _ float64) float64 { return math.Sqrt(2 * math.Log(1/alpha) / (n * variance)) }, 0,
			func(penalty, sum float64) float64 { return (math.Log(1/alpha) + penalty) / sum }},
		PrPlSequence: {sequence(math.Log(2 / alpha)), 0,
			func(penalty, sum float64) float64 { return (math.Log(2/alpha) + penalty) / sum }},
		MoutaouakilSequence: {sequence(math.Log(4 / alpha)), 1,
			func(penalty, sum float64) float64 { return math.Sqrt((2*math.Log(4/alpha) + penalty) / sum) }},
	}
}

func TestPrPlTerms(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{5, 16, 50, 300} {
		for range 4 {
			x := make([]float64, n)
			for i := range x {
				x[i] = 1 - r.Float64()*r.Float64()
			}
			for _, alpha := range []float64{0.3, 0.01} {
				for bound, formula := range prplVersions(float64(n), alpha) {
					got, want := boundMean(bound, x, alpha), formula.bound(x)
					if !near(got, want) {
						t.Errorf("%s, n = %d, α = %v: %v, by its formula %v", bound, n, alpha, got, want)
					}
					if n == 300 && want == 0 {
						t.Errorf("%s, α = %v: the test compares nothing", bound, alpha)
					}
				}
			}
		}
	}
}

// Samples that are all 1 give the largest possible margins. These margins must agree with Table 2 of Moutaouakil 2024
// (CS + Ours, first margin, α = 0.001, temperature 1). For n = 100 the table has certificates at margin 0.6 and none at
// 0.7. For n = 300 it has certificates at 0.8 and none at 0.9, and for n = 500 it has certificates at 0.9. With
// Bonferroni at α/10, it has certificates at 0.6 and none at 0.7 for n = 100.
func TestSequenceAgreesWithTable2(t *testing.T) {
	largest := func(n int, alpha float64) float64 {
		return boundMean(PrPlSequence, slices.Repeat([]float64{1}, n), alpha)
	}
	for _, c := range []struct {
		n         int
		from, end float64
	}{{100, 0.6, 0.7}, {300, 0.8, 0.9}, {500, 0.9, 1}} {
		if margin := 2*largest(c.n, 0.001) - 1; !(margin >= c.from && margin < c.end) {
			t.Errorf("n = %d: the largest margin is %v, want one from %v to %v", c.n, margin, c.from, c.end)
		}
	}
	if margin := 2*largest(100, 0.001/10) - 1; !(margin >= 0.6 && margin < 0.7) { // p_A and p_B are bounded at α/m each
		t.Errorf("with bonferroni: the largest margin is %v", margin)
	}
	if width := 1 - boundMean(MoutaouakilSequence, slices.Repeat([]float64{1}, 100), 0.001); width < 0.57 {
		t.Errorf("the half width as printed is %v, the comment says at least 0.57", width)
	}
}

// The test computes the bounds of Hoeffding and Bernstein from their formulas.
func TestMeanBoundTerms(t *testing.T) {
	_, x := scoreSamples(300)
	m, n := mean(x), 300.0
	v := 0.0
	for _, s := range x {
		v += (s - m) * (s - m) / (n - 1)
	}
	const alpha = 0.01
	if got, want := boundMean(Hoeffding, x, alpha), m-math.Sqrt(math.Log(1/alpha)/(2*n)); !near(got, want) {
		t.Errorf("hoeffding %v, want %v", got, want)
	}
	l := math.Log(2 / alpha)
	if got, want := boundMean(Bernstein, x, alpha), m-math.Sqrt(2*v*l/n)-7*l/(3*(n-1)); !near(got, want) {
		t.Errorf("bernstein %v, want %v", got, want)
	}
	l = math.Log(1 / alpha)
	if got, want := boundMean(MoutaouakilBernstein, x, alpha), m-math.Sqrt(2*v*l/n)-7*l/(3*(n-1)); !near(got, want) {
		t.Errorf("moutaouakil-bernstein %v, want %v", got, want)
	}
}

// The test computes the bounds from votes with gonum's beta quantile. The method 'bonferroni' bounds the class and the
// runner-up at α/2 each. The method 'clopper-pearson' bounds the class alone, at α.
func TestVoteTerms(t *testing.T) {
	const n, a, b, alpha = 500, 420, 50, 0.01
	v := Votes{Label: 0, N: n, Counts: []int64{a, b, n - a - b}}
	target := Target{Class: Label, Alpha: alpha, Sigma: 0.5}
	got, err := mustVotes(t, VoteParams{Target: target, Method: Bonferroni}).Certify(v)
	if err != nil {
		t.Fatal(err)
	}
	low, high := clopperPearsonLow(a, n, alpha/2), 1-clopperPearsonLow(n-b, n, alpha/2)
	if !near(got.Bounds["p_a"], low) || !near(got.Bounds["p_b"], high) || !near(got.Margin, phiInv(low)-phiInv(high)) || !near(got.Radius, 0.25*got.Margin) {
		t.Errorf("bonferroni %+v, want p_A %v, p_B %v", got, low, high)
	}
	got, err = mustVotes(t, VoteParams{Target: target, Method: BonferroniClasses}).Certify(v) // three classes
	if err != nil {
		t.Fatal(err)
	}
	low, high = clopperPearsonLow(a, n, alpha/3), 1-clopperPearsonLow(n-b, n, alpha/3)
	if !near(got.Bounds["p_a"], low) || !near(got.Bounds["p_b"], high) || !near(got.Margin, phiInv(low)-phiInv(high)) || !got.Sound {
		t.Errorf("bonferroni-classes %+v, want p_A %v, p_B %v", got, low, high)
	}
	got, err = mustVotes(t, VoteParams{Target: target, Method: ClopperPearson}).Certify(v)
	if err != nil {
		t.Fatal(err)
	}
	if low := clopperPearsonLow(a, n, alpha); !near(got.Bounds["p_a"], low) || !near(got.Radius, 0.5*phiInv(low)) {
		t.Errorf("clopper-pearson %+v, want p_A %v", got, low)
	}
}

// The runner-up in the estimation samples may differ from the runner-up in the selection samples. So the class A has
// two margins: one over each of these runners-up. The certificate bounds the smaller margin.
func TestRivalThatTheSelectionDidNotSee(t *testing.T) {
	repeat := func(row []float32, k int) (rows []float32) {
		for range k {
			rows = append(rows, row...)
		}
		return rows
	}
	for _, combine := range soundOnes(Combines()) {
		for _, kind := range names(MarginKinds()) {
			p := ScoreParams{Target: Target{Margin: kind, Alpha: 0.01, Sigma: 1}, Combine: combine}
			a := startScores(t, p, 20, 2000, 3)
			feed(t, a, repeat([]float32{0.75, 0.25, 0}, 20), repeat([]float32{0.5, 0, 0.5}, 2000))
			if cert, err := a.Certificate(); err != nil || cert.Prediction != Abstained {
				t.Errorf("%v, %v margin: %+v (%v), but classes 0 and 2 have the same mean", combine, kind, cert, err)
			}
		}
	}
}

// The vertex between two points of the frontier lies on or above the tangents at both points, so the polygon through
// the vertex covers the curve.
func TestPolygonCoversTheFrontier(t *testing.T) {
	for _, kind := range names(MarginKinds()) {
		for _, margin := range []float64{0.05, 0.5, 0.9} {
			f := frontier{scaleOf(kind), margin}
			for from := 0.02; from < 0.9; from += 0.08 {
				for _, step := range []float64{0.01, 0.05, 0.1} {
					y0, y1 := from*f.last(), (from+step)*f.last()
					q1, q2, slope := f.point(y0)
					q1n, q2n, slopeN := f.point(y1)
					v1, v2 := vertex(q1, q2, slope, q1n, q2n, slopeN)
					if !(v2 > q2 && v2 < q2n) {
						t.Fatalf("%v margin %v: the vertex is at %v, not between %v and %v", kind, margin, v2, q2, q2n)
					}
					for k := 1; k < 20; k++ {
						y := y0 + (y1-y0)*float64(k)/20
						curve, at, _ := f.point(y)
						// The variable 'over' is the q1 of the polygon's point whose q2 is 'at'.
						over := q1 + (v1-q1)*(at-q2)/(v2-q2)
						if at > v2 {
							over = q1n + (v1-q1n)*(q2n-at)/(q2n-v2)
						}
						if over < curve*(1-0x1p-39) { // the code lifts the polygon's points by 2⁻⁴⁰
							t.Errorf("%v margin %v: the polygon is at %v over q2 = %v, the frontier at %v", kind, margin, over, at, curve)
						}
					}
					// The numbers above1 and above2 are the values of the two tangents at v2. Unlike v1, they do not
					// contain the factor 'lift'.
					if above1, above2 := q1+slope*(v2-q2), q1n-slopeN*(q2n-v2); v1 < above1 || v1 < above2 {
						t.Errorf("%v margin %v: the vertex %v is below a tangent: %v, %v", kind, margin, v1, above1, above2)
					}
				}
			}
		}
	}
}

// The combination 'bonferroni-classes' bounds the mean score of each class separately, at level α/m. The runner-up is
// class 2. In most rows class 1 has a higher score than class 2. But class 2 has the larger mean score, so it also has
// the larger upper bound.
func TestBonferroniClassTerms(t *testing.T) {
	const n, alpha = 400, 0.02
	var rows []float32
	columns := make([][]float64, 4)
	for i := range n {
		row := []float32{0.75, 0.125, 0.0625, 0.0625}
		if i%10 == 0 {
			row = []float32{0, 0.125, 0.875, 0}
		}
		rows = append(rows, row...)
		for class, p := range row {
			columns[class] = append(columns[class], float64(p))
		}
	}
	for _, kind := range names(MarginKinds()) {
		target := Target{Margin: kind, Class: Label, Alpha: alpha, Sigma: 1}
		a := startScores(t, ScoreParams{Target: target, Bound: Hoeffding, Combine: BonferroniClassScores}, 0, n, 4)
		feed(t, a, nil, rows)
		got, err := a.Certificate()
		if err != nil {
			t.Fatal(err)
		}
		width := math.Sqrt(math.Log(4/alpha) / (2 * n)) // ln(1/(α/m)) with m = 4
		low, high := mean(columns[0])-width, 0.0
		for _, x := range columns[1:] {
			high = max(high, mean(x)+width)
		}
		want := low - high
		if kind == SecondMargin {
			want = phiInv(low) - phiInv(high)
		}
		if !near(got.Margin, want) || !near(got.Bounds["p_a"], low) || !near(got.Bounds["p_b"], high) || !got.Sound {
			t.Errorf("%v margin: %+v, want margin %v, p_A %v, p_B %v", kind, got, want, low, high)
		}
	}
}

// If confidence is to be certified, NewScoreCertifier must refuse every unsound MeanBound, both in
// ConfidenceParams.Bound and in ScoreParams.Bound.
func TestConfidenceNeedsASoundBound(t *testing.T) {
	for _, bound := range names(MeanBounds()) {
		p := ScoreParams{Target: Target{Alpha: 0.01, Sigma: 1}, Confidence: ConfidenceParams{Radii: []float64{0.1}, Bound: bound}}
		if _, err := NewScoreCertifier(p); (err == nil) != bound.Sound() {
			t.Errorf("confidence by %s: error %v", bound, err)
		}
		p = ScoreParams{Target: p.Target, Bound: bound, Confidence: ConfidenceParams{Radii: []float64{0.1}}}
		if _, err := NewScoreCertifier(p); (err == nil) != bound.Sound() {
			t.Errorf("class by %s: error %v", bound, err)
		}
	}
}
