package certify

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/law"
)

// The function 'levels' returns two targets. In both targets, the bounds may fail with probability 0.004. In the first
// target, 0.004 is the field Level, and Alpha is larger. In the second target, 0.004 is Alpha. So the bounds must be
// equal, but the certificates state different alphas.
func levels() (leveled, plain Target) {
	leveled = Target{Alpha: 0.04, Level: 0.004, Sigma: 0.5}
	plain = leveled
	plain.Alpha, plain.Level = leveled.Level, 0
	return leveled, plain
}

// The function 'levels' returns two targets that spend the same failure probability on the bounds. For votes, both
// targets must give equal bounds. The test compares the bounds of every method, at a fixed n and at each checkpoint of
// a stopping rule.
func TestVotesSpendTheLevel(t *testing.T) {
	leveled, plain := levels()
	for _, method := range names(VoteMethods()) {
		for _, kind := range names(MarginKinds()) {
			leveled.Margin, plain.Margin = kind, kind
			p, q := VoteParams{leveled, method}, VoteParams{plain, method}
			v := Votes{N0: 1, Counts0: []int64{1, 0, 0}, N: 200, Counts: []int64{185, 10, 5}}
			got, err1 := mustVotes(t, p).Certify(v)
			want, err2 := mustVotes(t, q).Certify(v)
			if err1 != nil || err2 != nil || want.Radius == 0 {
				t.Fatalf("%+v (%v), %+v (%v)", got, err1, want, err2)
			}
			want.Alpha = leveled.Alpha
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%v, %v margin: %+v, want %+v", method, kind, got, want)
			}
			if method == Moutaouakil || method == ExactMargin {
				continue // these methods search at each checkpoint, which is too slow here
			}
			for _, rule := range []string{"radius>=0.3", "precision=0.1"} {
				stop, err := ParseStop(rule)
				if err != nil {
					t.Fatal(err)
				}
				a, err1 := NewStopping(p, stop, 1000)
				b, err2 := NewStopping(q, stop, 1000)
				if err1 != nil || err2 != nil {
					t.Fatal(err1, err2)
				}
				if !reflect.DeepEqual(a.Checkpoints(), b.Checkpoints()) {
					t.Errorf("%v, %s: checkpoints %v, want %v", method, rule, a.Checkpoints(), b.Checkpoints())
				}
				for _, c := range b.Checkpoints() {
					for share := 0.5; share <= 1; share += 0.05 {
						k := int64(share * float64(c.N))
						v := Votes{N0: 1, Counts0: []int64{1, 0, 0}, N: c.N, Counts: []int64{k, c.N - k, 0}}
						x, err1 := a.Next(v)
						y, err2 := b.Next(v)
						if x != y || err1 != nil || err2 != nil {
							t.Fatalf("%v, %s: after %v go on to %d, want %d (%v, %v)", method, rule, v.Counts, x, y, err1, err2)
						}
					}
				}
			}
		}
	}
}

// For scores, the two targets from the function 'levels' must give equal bounds. The test tries every MeanBound with
// every Combine, without intervals. Then it tries every confidence method with every band, and compares the intervals
// too.
func TestScoresSpendTheLevel(t *testing.T) {
	leveled, plain := levels()
	selection, _ := scoreSamples(50)
	rows, _ := scoreSamples(1500)
	check := func(name string, p ScoreParams) {
		t.Helper()
		run := func(target Target) (Certificate, []ConfidenceBound) {
			p.Target = target
			a := startScores(t, p, 50, 1500, 2)
			feed(t, a, selection, rows)
			cert, err := a.Certificate()
			if err != nil {
				t.Fatal(err)
			}
			return cert, a.Confidence(cert)
		}
		got, rows := run(leveled)
		want, wantRows := run(plain)
		if want.Radius == 0 || len(p.Confidence.Radii) != len(wantRows) {
			t.Fatalf("%s: %+v, %+v", name, want, wantRows)
		}
		want.Alpha *= leveled.Alpha / plain.Alpha
		for i := range wantRows {
			wantRows[i].Alpha = leveled.Alpha
		}
		if !near(got.Alpha, want.Alpha) {
			t.Errorf("%s: α %v, want %v", name, got.Alpha, want.Alpha)
		}
		if got.Alpha = want.Alpha; !reflect.DeepEqual(got, want) || !reflect.DeepEqual(rows, wantRows) {
			t.Errorf("%s: %+v, %+v\nwant %+v, %+v", name, got, rows, want, wantRows)
		}
	}
	for _, bound := range names(MeanBounds()) {
		for _, combine := range names(Combines()) {
			check(fmt.Sprint(bound, " ", combine), ScoreParams{Bound: bound, Combine: combine})
		}
	}
	for _, method := range names(ConfidenceMethods()) {
		for _, band := range names(Bands()) {
			check(fmt.Sprint(method, " ", band), ScoreParams{Confidence: ConfidenceParams{Radii: []float64{0, 0.1}, Method: method, Band: band}})
		}
	}
}

func TestLevels(t *testing.T) {
	for _, tt := range []struct {
		alpha, level float64
		want         string
	}{
		{0.1, 0, ""}, {0.1, 0.1, ""}, {0.1, 1e-9, ""}, {0.1, 0.100001, "level 0.100001 is outside [0, alpha = 0.1]"},
		{0.1, -1e-9, "level -1e-09 is outside"}, {0.1, math.NaN(), "level NaN is outside"},
		{0.1, math.SmallestNonzeroFloat64, "alpha 5e-324 is below"},
	} {
		_, err := NewVoteCertifier(VoteParams{Target: Target{Alpha: tt.alpha, Level: tt.level, Sigma: 1}})
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("level %v of alpha %v: %v, want %q", tt.level, tt.alpha, err, tt.want)
		}
	}
}

// Rounding the input enlarges a perturbation by at most a known distance. The certificate subtracts this distance from
// the radius, not from the margin, and records the distance.
func TestQuantisationIsTakenOff(t *testing.T) {
	for _, kind := range names(MarginKinds()) {
		target := Target{Margin: kind, Alpha: 0.001, Sigma: 0.5}
		certifier := mustVotes(t, VoteParams{Target: target})
		v := Votes{N0: 1, Counts0: []int64{1, 0, 0}, N: 1000, Counts: []int64{950, 30, 20}}
		whole, err := certifier.Certify(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range []float64{1e-12, 1e-6, 0.001, 0.123456789123, whole.Radius / 2, whole.Radius * 0.999999, whole.Radius * 1.000001, 1e6} {
			v.Quantisation = q
			cert, err := certifier.Certify(v)
			if err != nil {
				t.Fatal(err)
			}
			// The radius is rounded down twice, each time to nine digits.
			if want := max(0, whole.Radius-q); cert.Radius < 0 || cert.Radius > want*(1+2e-8) || cert.Radius < want-2.1e-8*whole.Radius {
				t.Errorf("%v margin: radius %v less %v is %v", kind, whole.Radius, q, cert.Radius)
			}
			if cert.Quantisation != q || cert.Margin != whole.Margin || cert.Prediction != 0 {
				t.Errorf("%v margin, %v taken off: %+v", kind, q, cert)
			}
		}
	}
	for _, tt := range []struct{ radius, quantisation, most float64 }{
		{1, 0.5, 0.5}, {0.3, 0.1, 0.2}, {0.2, 0.3, 0}, {0.7, 0.1, 0.6}, {1, 0.9, 0.1}, {0.25, 0.25, 0},
	} {
		// The function lessQuantisation subtracts float64 numbers. Each number differs from its decimal in the table by
		// at most 2⁻⁵⁴.
		got := lessQuantisation(tt.radius, tt.quantisation)
		if got > tt.most || got < tt.most-1e-8 || tt.most > 0 && got == tt.most {
			t.Errorf("%v less %v is %v, want a little under %v", tt.radius, tt.quantisation, got, tt.most)
		}
	}
	if got := lessQuantisation(0.1234567891234, 0); got != 0.1234567891234 {
		t.Errorf("nothing taken off is %v", got)
	}
	// A summary states the largest quantisation of its certificates.
	if s := summarize([]Certificate{{Quantisation: 0.1}, {Quantisation: 0.3}, {Quantisation: 0.2}}, nil); s.Quantisation != 0.3 {
		t.Errorf("summary: %v", s.Quantisation)
	}
	// The field Arithmetic of a summary is Exact if it is Exact in all certificates of the summary.
	for _, tt := range []struct{ a, b, want Arithmetic }{{Exact, Exact, Exact}, {Exact, Idealised, Idealised}, {Idealised, Exact, Idealised}} {
		if s := summarize([]Certificate{{Arithmetic: tt.a}, {Arithmetic: tt.b}}, nil); s.Arithmetic != tt.want {
			t.Errorf("summary of %v and %v: %v", tt.a, tt.b, s.Arithmetic)
		}
	}
}

// If inputs are rounded, an attack of radius r moves the rounded input by up to r + q, where q is the quantisation. The
// intervals are computed for radius r + q, and the rows state r.
func TestIntervalsOfRoundedInputs(t *testing.T) {
	const q = 0.03
	radii := []float64{0, 0.1, 0.2}
	wider := make([]float64, len(radii))
	for i, r := range radii {
		wider[i] = math.Nextafter(r+q, 1)
	}
	selection, _ := scoreSamples(50)
	samples, _ := scoreSamples(1500)
	for _, method := range names(ConfidenceMethods()) {
		run := func(radii []float64, q float64) (rows []ConfidenceBound) {
			c, err := NewScoreCertifier(ScoreParams{Target: Target{Alpha: 0.01, Sigma: 0.5}, Confidence: ConfidenceParams{Radii: radii, Method: method}})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the first example must not change the certifier
				a, err := c.Start(ScoreExample{Classes: 2, N0: 50, N: 1500, Quantisation: q})
				if err != nil {
					t.Fatal(err)
				}
				feed(t, a, selection, samples)
				cert, err := a.Certificate()
				if err != nil {
					t.Fatal(err)
				}
				if rows = a.Confidence(cert); len(rows) != len(radii) {
					t.Fatalf("%d rows, certificate %+v", len(rows), cert)
				}
			}
			return rows
		}
		p := ScoreParams{Target: Target{Alpha: 0.01, Sigma: 0.5}, Confidence: ConfidenceParams{Radii: radii, Method: method}}
		a := startScores(t, p, 50, 1500, 2)
		a.example.Quantisation = q
		if attack := a.attackParams().Confidence.Radii; !slices.Equal(attack, wider) {
			t.Errorf("radii %v, want %v", attack, wider)
		}
		got, want := run(radii, q), run(wider, 0)
		for i, row := range got {
			if row.Radius != radii[i] || row.Lower != want[i].Lower || row.Upper != want[i].Upper {
				t.Errorf("%v: %+v, want the bounds of radius %v: %+v", method, row, wider[i], want[i])
			}
		}
	}
}

// For certificates that come from scores, Agrees must check that every condition (method, alpha, law and others) agrees
// with the run.
func TestAgrees(t *testing.T) {
	p := ScoreParams{Target: Target{Margin: FirstMargin, Alpha: 0.02, Sigma: 0.5, Lipschitz: 3, Arithmetic: Exact, Level: 0.0199}, Bound: Hoeffding,
		Confidence: ConfidenceParams{Radii: []float64{0.1}}}
	c, err := NewScoreCertifier(p)
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Start(ScoreExample{Classes: 2, N0: 50, N: 1500, Quantisation: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	selection, _ := scoreSamples(50)
	rows, _ := scoreSamples(1500)
	feed(t, a, selection, rows)
	own, err := a.Certificate()
	if err != nil || own.Radius == 0 {
		t.Fatal(own, err)
	}
	for _, tt := range []struct {
		name   string
		change func(*Certificate)
		want   string
	}{
		{"its own", func(*Certificate) {}, ""},
		{"a smaller radius", func(c *Certificate) { c.Radius /= 2 }, ""},
		{"abstained", func(c *Certificate) { c.Prediction, c.Correct, c.Radius, c.Margin = Abstained, false, 0, 0 }, ""},
		{"method", func(c *Certificate) { c.Method = "betting+directed" }, "its method is betting+directed"},
		{"soundness", func(c *Certificate) { c.Sound = false }, "its method is hoeffding+directed (sound: false)"},
		{"norm", func(c *Certificate) { c.Norm = law.L1 }, "it is of gaussian noise in the l1 norm"},
		{"law", func(c *Certificate) { c.Law = "laplace" }, "it is of laplace noise"},
		{"alpha of the run", func(c *Certificate) { c.Alpha = 0.02 }, "its alpha is 0.02, the run's 0.01"},
		{"less alpha", func(c *Certificate) { c.Alpha = 0.001 }, "its alpha is 0.001"},
		{"margin kind", func(c *Certificate) { c.MarginKind = SecondMargin }, "its margin is the second"},
		{"lipschitz", func(c *Certificate) { c.Lipschitz = 1 }, "its margin is the first (lipschitz 1)"},
		{"arithmetic", func(c *Certificate) { c.Arithmetic = Idealised }, "its arithmetic is idealised"},
		{"radius", func(c *Certificate) { c.Radius *= 1 + 1e-6 }, "its radius"},
		{"margin", func(c *Certificate) { c.Margin *= 1 - 1e-6 }, "its radius"},
		{"quantisation", func(c *Certificate) { c.Quantisation *= 1.01 }, "its radius"},
		{"sigma", func(c *Certificate) { c.Sigma = 1 }, "the run has no certificate with its sigma"},
		{"deterministic", func(c *Certificate) { c.Deterministic = true }, "the run has no certificate with its deterministic"},
		{"steps", func(c *Certificate) { c.Steps = new(int64) }, "the run has no certificate with its steps"},
		{"rank", func(c *Certificate) { c.TopK = 3 }, "the run has no certificate with its top_k"},
		{"none mode", func(c *Certificate) { c.None = NoneSafe }, "the run has no certificate with its none_mode"},
		{"rejection", func(c *Certificate) { c.RejectBelow = 0.5 }, "the run has no certificate with its reject_below"},
		{"contest", func(c *Certificate) { c.Contest = "t=1" }, "the run has no certificate with its contest"},
		{"stop", func(c *Certificate) { c.Stop = StopRule{stopAtRadius, 2} }, "the run has no certificate with its stop"},
		{"unbounded", func(c *Certificate) { c.Unbounded = true }, "the run has no certificate with its unbounded"},
		{"sampled", func(c *Certificate) { c.Sampled = 10 }, "the run has no certificate with its sampled"},
		{"composition", func(c *Certificate) { c.Composition = "agree" }, "the run has no certificate with its composition"},
		{"members", func(c *Certificate) { c.Members = make([]MemberCertificate, 1) }, "the run has no certificate with its members"},
		{"correct", func(c *Certificate) { c.Correct = !c.Correct }, "the run has no certificate with its correct"},
		{"a radius of no class", func(c *Certificate) { c.Prediction, c.Correct = Abstained, false }, "the run has no certificate with its margin, radius"},
		{"no samples", func(c *Certificate) { c.N = 0 }, "its n is 0"},
		{"radius added", func(c *Certificate) { c.Quantisation = -1 }, "its n is 1500, its quantisation -1"},
		// nothing is subtracted from the radius if the inputs of the dataset lie on the lattice
		{"nothing taken off", func(c *Certificate) { c.Quantisation = 0; c.Radius += 0.01 }, ""},
	} {
		cert := own
		tt.change(&cert)
		if err := c.Agrees(cert); (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// AgreesWith compares a certificate with the votes of its example.
func TestAgreesWith(t *testing.T) {
	a := startScores(t, ScoreParams{Target: Target{Alpha: 0.01, Sigma: 0.5}}, 50, 1500, 2)
	selection, _ := scoreSamples(50)
	rows, _ := scoreSamples(1500)
	feed(t, a, selection, rows)
	own, err := a.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	votes := Votes{Index: own.Index, Label: own.Label, N: 1500, Counts: []int64{1000, 500}}
	for _, tt := range []struct {
		name   string
		change func(*Certificate)
		want   string
	}{
		{"its own", func(*Certificate) {}, ""},
		{"index", func(c *Certificate) { c.Index++ }, "it is of example"},
		{"label", func(c *Certificate) { c.Label++ }, "it is of example"},
		{"n", func(c *Certificate) { c.N = 1_000_000 }, "its n is 1000000, that of its votes 1500"},
		{"quantisation", func(c *Certificate) { c.Quantisation, c.Radius = 0.01, c.Radius/2 }, "its quantisation is 0.01, that of its votes 0"},
		{"class", func(c *Certificate) { c.Prediction, c.Correct = 2, false }, "its prediction 2 is not one of the 2 classes"},
		{"a condition", func(c *Certificate) { c.Sigma = 1 }, "the run has no certificate with its sigma"},
	} {
		cert := own
		tt.change(&cert)
		if err := a.certifier.AgreesWith(votes, cert); (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// For p near 1, Φ changes by less than its rounding error. Even then the result of shiftDown is below Φ(Φ⁻¹(p) −
// shift).
func TestShiftDownIsBelow(t *testing.T) {
	for _, p := range []float64{0.99, 0.999, 1 - 0x1p-12, 1 - 0x1p-20, 1 - 0x1p-30, 1 - 0x1p-40} {
		for _, shift := range []float64{0, 1e-3, 0.1, 1, 3} {
			tail, e := normalCDF(shift - quantileHigh(p)) // the upper tail, where floats are precise
			if got, most := shiftDown(law.Gaussian, p, shift), 1-tail*(1-2*e); got > most || got < most-1e-9 {
				t.Errorf("shiftDown(%v, %v) = %v, want a little under %v", p, shift, got, most)
			}
		}
	}
}

// Rows that sum to 1 or less are used as they are. Rows that sum to more than 1 are divided by their sum.
func TestRowsBelowOneStand(t *testing.T) {
	for _, tt := range []struct {
		row  []float32
		want float64 // the mean score of class 0
	}{{[]float32{0.9, 0.095}, 0.9}, {[]float32{0.9, 0.1}, 0.9}, {[]float32{0.903, 0.105}, 0.903 / 1.008}, {[]float32{0, 0}, 0}} {
		p := ScoreParams{Target: Target{Class: Label, Alpha: 0.01, Sigma: 1}, Bound: Hoeffding, Combine: BonferroniScores}
		a := startScores(t, p, 0, 1000, 2)
		for range 1000 {
			if err := a.Estimation(tt.row); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.Certificate(); err != nil {
			t.Fatal(err)
		}
		low := tt.want - math.Sqrt(math.Log(1/0.005)/2000)
		if got := a.bound().bounds["p_a"]; tt.want > 0 && !near(got, low) || tt.want == 0 && got != 0 {
			t.Errorf("scores %v: p_A ≥ %v, want %v", tt.row, got, low)
		}
	}
}

// bridge takes two nodes, each with a distribution. It returns an upper bound on the maximum of Hölder's bounds for the
// distributions between these two (see search.bridge). The result is never below the maximum and not far above it, even
// if the maximum lies between an end and the middle.
func TestBridgeIsTheTop(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	s := newSearch(newEvent(bonferroniOrder(scaleOf(SecondMargin), 1000, 0.001), 800, 150), scaleOf(SecondMargin), 0.001)
	inside := 0
	for range 200 {
		point := func() node {
			q2 := 0.1 + 0.1*r.Float64()
			q1 := 0.7 + 0.08*r.Float64()
			return node{[3]float64{q1, q2, 1 - q1 - q2}, -20 * r.Float64()}
		}
		a, b := point(), point()
		top, at := math.Inf(-1), 0.0
		for k := range 501 {
			u := float64(k) / 500
			z := 0.0
			for i := range a.q {
				z += math.Pow(a.q[i], 1-u) * math.Pow(b.q[i], u)
			}
			if v := (1-u)*a.logP + u*b.logP - 1000*math.Log(z); v > top {
				top, at = v, u
			}
		}
		got := s.bridge(a, b)
		if got < top-1e-9 {
			t.Fatalf("bridge is %v, the bound at %v is %v", got, at, top)
		}
		if at > 0.05 && at < 0.95 {
			inside++
			if got > top+1e-3 {
				t.Errorf("bridge is %v, the top at %v only %v", got, at, top)
			}
		}
	}
	if inside < 20 {
		t.Errorf("only %d tops lie inside", inside)
	}
}
