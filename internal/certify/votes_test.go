package certify

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestValidateVotes(t *testing.T) {
	good := func() Votes {
		return Votes{Label: 1, N0: 3, Counts0: []int64{1, 2}, N: 10, Counts: []int64{4, 6}}
	}
	for _, c := range []struct {
		name string
		edit func(*Votes)
		want string
	}{
		{"good", func(*Votes) {}, ""},
		{"no label", func(v *Votes) { v.Label = UnknownLabel }, ""},
		{"no selection", func(v *Votes) { v.N0, v.Counts0 = 0, nil }, ""},
		{"sum", func(v *Votes) { v.Counts[0] = 5 }, "counts sum to 11 and n is 10"},
		{"sum 0", func(v *Votes) { v.Counts0[0] = 0 }, "counts0 sum to 2 and n0 is 3"},
		{"negative", func(v *Votes) { v.Counts = []int64{-4, 14} }, "class 0 has -4 votes"},
		{"overflow", func(v *Votes) { v.Counts = []int64{math.MaxInt64, math.MaxInt64} }, "of n = 10"},
		{"n", func(v *Votes) { v.N, v.Counts = 0, []int64{0, 0} }, "n is 0"},
		{"large n", func(v *Votes) { v.N = 1 << 41 }, "above"},
		{"one class", func(v *Votes) { v.Counts = []int64{10} }, "at least 2"},
		{"label", func(v *Votes) { v.Label = 2 }, "label 2"},
		{"low label", func(v *Votes) { v.Label = -2 }, "label -2"},
		{"classes", func(v *Votes) { v.Counts0 = []int64{1, 1, 1} }, "counts0 has 3 classes"},
		{"no counts0", func(v *Votes) { v.Counts0 = nil }, "counts0 has 0 classes"},
		{"no n0", func(v *Votes) { v.N0 = 0 }, "n0 is 0"},
		{"stop without share", func(v *Votes) { v.Stop = StopRule{stopAtRadius, 1} }, "alpha_share"},
		{"share without stop", func(v *Votes) { v.AlphaShare = 1 }, "without stop"},
	} {
		v := good()
		c.edit(&v)
		err := v.Validate()
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestClassNeedsItsVotes(t *testing.T) {
	v := Votes{Label: UnknownLabel, N: 2, Counts: []int64{1, 1}}
	if _, err := mustVotes(t, VoteParams{Target: Target{Alpha: 0.1, Class: Predicted}}).Certify(v); !errors.Is(err, ErrNoSelection) {
		t.Errorf("predicted class without selection: %v", err)
	}
	if _, err := mustVotes(t, VoteParams{Target: Target{Alpha: 0.1, Class: Label}}).Certify(v); !errors.Is(err, ErrNoLabel) {
		t.Errorf("label without label: %v", err)
	}
}

func TestVoteParams(t *testing.T) {
	for _, p := range []VoteParams{
		{Target: Target{Alpha: 0, Sigma: 1}}, {Target: Target{Alpha: 1, Sigma: 1}}, {Target: Target{Alpha: math.NaN(), Sigma: 1}}, {Target: Target{Alpha: 1e-200, Sigma: 1}},
		{Target: Target{Alpha: 0.1, Sigma: 0}}, {Target: Target{Alpha: 0.1, Sigma: math.Inf(1)}}, {Target: Target{Alpha: 0.1, Sigma: 1, Lipschitz: 2}},
		{Target: Target{Alpha: 0.1, Sigma: 1, Margin: FirstMargin, Lipschitz: -1}},
	} {
		if _, err := NewVoteCertifier(p); err == nil {
			t.Errorf("%+v is accepted", p)
		}
	}
}

// The predicted class is the class with the most votes of the selection samples, or the lowest such class in a tie. The
// votes of the estimation samples do not matter.
func TestPredictedClass(t *testing.T) {
	v := Votes{Label: 2, N0: 4, Counts0: []int64{0, 2, 2}, N: 100, Counts: []int64{0, 0, 100}}
	cert, err := mustVotes(t, VoteParams{Target: Target{Alpha: 0.001}}).Certify(v)
	if err != nil || cert.Prediction != Abstained || cert.Correct || cert.Radius != 0 || cert.Margin != 0 {
		t.Errorf("%+v, %v: want class 1 chosen and no certificate for it", cert, err)
	}
	v.Counts = []int64{0, 100, 0}
	cert, err = mustVotes(t, VoteParams{Target: Target{Alpha: 0.001}}).Certify(v)
	if err != nil || cert.Prediction != 1 || cert.Correct || !(cert.Radius > 1.5) {
		t.Errorf("%+v, %v: want class 1", cert, err)
	}
}

// Cohen et al. certify R = 3.8115σ at α = 0.001 from n = 100,000 votes, which are all for the same class. (Their
// Section 3.2.2 says that n = 10⁵ can certify at most "about 4σ".)
func TestClopperPearsonRadius(t *testing.T) {
	v := Votes{N: 100000, Counts: []int64{100000, 0, 0}}
	cert, err := mustVotes(t, VoteParams{Target: Target{Alpha: 0.001, Class: Label, Sigma: 0.5}, Method: ClopperPearson}).Certify(v)
	// p = 0.001^(1/100000), Φ⁻¹(p) = 3.81145…
	want := 0.5 * quantileNear(math.Exp(math.Log(0.001)/100000))
	if err != nil || cert.Radius > want || cert.Radius < want*(1-2e-9) {
		t.Errorf("radius %v, want %v (%v)", cert.Radius, want, err)
	}
}

func TestRadii(t *testing.T) {
	second := func(margin, sigma float64) float64 { return Target{Margin: SecondMargin, Sigma: sigma}.Radius(margin) }
	first := func(margin, sigma, lipschitz float64) float64 {
		return Target{Margin: FirstMargin, Sigma: sigma, Lipschitz: lipschitz}.Radius(margin)
	}
	for _, c := range []struct{ got, want float64 }{
		{second(3, 0.5), 0.75},
		{first(0.5, 2, 0), 2 * math.Sqrt(math.Pi/2) * 0.5},
		// For the first margin, p_A − p_B, Radius returns the larger of two radii: the radius of the law's theorem, and
		// the radius that follows from a known Lipschitz constant. They are equal if the Lipschitz constant is 1/(σ√π)
		// = 0.282. Of the next three cases, one has a constant below this number, and two have a constant above it.
		{first(0.5, 2, 0.28), 0.5 / (math.Sqrt2 * 0.28)},
		{first(0.5, 2, 0.29), 2 * math.Sqrt(math.Pi/2) * 0.5},
		{first(0.5, 2, 4), 2 * math.Sqrt(math.Pi/2) * 0.5},
		{second(0, 1), 0}, {second(-1, 1), 0}, {first(math.NaN(), 1, 0), 0},
	} {
		if c.got > c.want || c.got < c.want*(1-1e-8) {
			t.Errorf("radius %v, want %v rounded down", c.got, c.want)
		}
	}
	// The first margin never certifies a larger radius than the second margin: 2Φ⁻¹((1+m)/2) ≥ √(2π)·m.
	for m := 0.01; m < 1; m += 0.01 {
		if first(m, 1, 0) > second(2*quantileNear((1+m)/2), 1)*(1+1e-8) {
			t.Errorf("R1 of the first margin %v is above R2", m)
		}
	}
}

func TestRoundDown(t *testing.T) {
	for _, c := range []struct{ x, want float64 }{
		{1, 1}, {0.1234567899, 0.123456789}, {0.123456789, 0.123456789}, {-0.1234567891, -0.12345679}, {0, 0},
		{9.9999999999, 9.99999999}, {1.0000000001e-30, 1e-30}, {math.MaxFloat64, math.MaxFloat64},
	} {
		if got := RoundDown(c.x); got > c.x || (got != c.want && c.x < 1e300) {
			t.Errorf("RoundDown(%v) = %v, want %v", c.x, got, c.want)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100000 {
		x := (rng.Float64() - 0.5) * math.Pow(10, float64(rng.IntN(40)-20))
		down, up := RoundDown(x), RoundUp(x)
		if down > x || up < x || up-down > math.Abs(x)*2.1e-8 {
			t.Fatalf("%v is rounded to [%v, %v]", x, down, up)
		}
	}
}

func TestParseNames(t *testing.T) {
	for _, m := range names(VoteMethods()) {
		var got VoteMethod
		if err := got.UnmarshalText([]byte(m.String())); got != m || err != nil {
			t.Errorf("%v is read as %v (%v)", m, got, err)
		}
		if m.Sound() != (m != Moutaouakil) {
			t.Errorf("%v: sound %v", m, m.Sound())
		}
	}
	var got VoteMethod
	if err := got.UnmarshalText([]byte("cohen")); err == nil || !strings.Contains(err.Error(), "clopper-pearson") {
		t.Errorf("unknown method: %v", err)
	}
}

func scan(t testing.TB, s string, to any) {
	t.Helper()
	if _, err := fmt.Sscan(s, to); err != nil {
		t.Fatal(err)
	}
}

// mostSearched is the largest n for which the fuzzer searches for margins. The time of a search grows with the votes
// for other classes. At n = 200000 the four searches of an input take 25 s. The fuzzing engine, which runs instrumented
// code, allows only 10 s for each input.
const mostSearched = 5000

// Every method either refuses a line of votes.jsonl or certifies it with finite numbers.
func FuzzVotes(f *testing.F) {
	f.Add(`{"index":0,"label":7,"n0":10,"counts0":[0,10,0],"n":100,"counts":[1,95,4]}`, 0.001)
	f.Add(`{"label":0,"n":3,"counts":[3,0]}`, 0.9)
	f.Add(`{"n":1,"counts":[1,0,0],"n0":1,"counts0":[1,0,0],"stop":"radius>=1","alpha_share":0.25}`, 0.05)
	f.Add(`{"n":10,"counts":[5,-5,10]}`, 0.05)
	f.Add(`[1]`, 0.05)
	f.Fuzz(func(t *testing.T, line string, alpha float64) {
		var v Votes
		if json.Unmarshal([]byte(line), &v) != nil || v.Validate() != nil {
			t.Skip()
		}
		for _, method := range names(VoteMethods()) {
			if searched := method == ExactMargin || method == Moutaouakil; !searched || v.N <= mostSearched {
				checkCertificates(t, v, method, alpha)
			}
		}
	})
}

func checkCertificates(t *testing.T, v Votes, method VoteMethod, alpha float64) {
	t.Helper()
	for _, kind := range names(MarginKinds()) {
		c, err := NewVoteCertifier(VoteParams{Target: Target{Margin: kind, Alpha: alpha, Sigma: 1}, Method: method})
		if err != nil {
			t.Skip()
		}
		cert, err := c.Certify(v)
		if err != nil {
			t.Skip() // no selection
		}
		if _, err := json.Marshal(cert); err != nil || cert.Radius < 0 || (cert.Prediction == Abstained) != (cert.Radius == 0) {
			t.Fatalf("%v: %+v (%v)", method, cert, err)
		}
	}
}

// At α = 10⁻⁵⁰ the search meets probabilities that are subnormal or 0.
func TestCertificatesOfManyVotesAtTinyAlpha(t *testing.T) {
	v := Votes{N: 100000, Counts: []int64{49328, 36952, 13720}, N0: 1, Counts0: []int64{1, 0, 0}}
	for _, method := range []VoteMethod{ExactMargin, Moutaouakil} {
		checkCertificates(t, v, method, 1e-50)
	}
}
