package certify

import (
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
)

// The totals n and n0 include samples that vote for no class. The JSON states the number of these samples only if it is
// above 0.
func TestNoneIsInTheSums(t *testing.T) {
	v := Votes{Label: 1, N0: 4, Counts0: []int64{1, 2}, None0: 1, N: 10, Counts: []int64{4, 3}, None: 3}
	if err := v.Validate(); err != nil {
		t.Error(err)
	}
	for want, edit := range map[string]func(*Votes){
		"counts and none sum to 9 and n is 10":   func(v *Votes) { v.None = 2 },
		"counts sum to 7 and n is 10":            func(v *Votes) { v.None = 0 },
		"counts0 sum to 3 and n0 is 4":           func(v *Votes) { v.None0 = 0 },
		"counts0 and none0 sum to 5 and n0 is 4": func(v *Votes) { v.None0 = 2 },
		"none is -1":                             func(v *Votes) { v.None, v.Counts = -1, []int64{4, 7} },
		"none is 9223372036854775807":            func(v *Votes) { v.None = math.MaxInt64 },
		"counts0 has 0 classes":                  func(v *Votes) { v.N0, v.Counts0 = 0, nil },
	} {
		w := v
		edit(&w)
		if err := w.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q in it", w, err, want)
		}
	}
	line, err := json.Marshal(v)
	const want = `{"index":0,"label":1,"n0":4,"counts0":[1,2],"n":10,"counts":[4,3],"none0":1,"none":3}`
	if err != nil || string(line) != want {
		t.Errorf("%s (%v), want %s", line, err, want)
	}
	var read Votes
	if err := json.Unmarshal(line, &read); err != nil || !reflect.DeepEqual(read, v) {
		t.Errorf("read as %+v (%v)", read, err)
	}
	v.None0, v.None = 0, 0
	if line, _ := json.Marshal(v); strings.Contains(string(line), "none") {
		t.Errorf("%s", line)
	}
}

// Samples without an answer count as one more class. So the certificate stays the same if these samples become votes
// for an additional class.
func TestNoneIsARival(t *testing.T) {
	for _, row := range VoteMethods() {
		for _, kind := range names(MarginKinds()) {
			c := mustVotes(t, VoteParams{Target: Target{Margin: kind, Alpha: 0.01}, Method: row.Name})
			for _, v := range []Votes{
				{N0: 9, Counts0: []int64{5, 1, 0}, None0: 3, N: 200, Counts: []int64{150, 10, 0}, None: 40},
				{N0: 9, Counts0: []int64{5, 1, 0}, None0: 3, N: 200, Counts: []int64{150, 40, 0}, None: 10},
				{N0: 9, Counts0: []int64{5, 1, 0}, None0: 3, N: 200, Counts: []int64{90, 10, 0}, None: 100},
			} {
				got, err := c.Certify(v)
				if err != nil {
					t.Fatal(err)
				}
				as := v
				as.Counts0, as.None0 = append([]int64{}, 5, 1, 0, 3), 0
				as.Counts, as.None = append(append([]int64{}, v.Counts...), v.None), 0
				want, err := c.Certify(as)
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%v, %v margin, %+v: %+v, want %+v (%v)", row.Name, kind, v, got, want, err)
				}
			}
		}
	}
}

// "No class" is never the certified class. If most selection samples have no answer, the selected class is still the
// class with the most selection votes, or class 0 if there are no selection votes.
func TestNoneIsNeverCertified(t *testing.T) {
	c := mustVotes(t, VoteParams{Target: Target{Alpha: 0.01}})
	v := Votes{Label: UnknownLabel, N0: 100, Counts0: []int64{1, 9, 0}, None0: 90, N: 1000, Counts: []int64{0, 990, 0}, None: 10}
	if cert, err := c.Certify(v); err != nil || cert.Prediction != 1 {
		t.Errorf("%+v (%v), want class 1", cert, err)
	}
	v.Counts, v.None = []int64{0, 10, 0}, 990
	if cert, err := c.Certify(v); err != nil || cert.Prediction != Abstained {
		t.Errorf("%+v (%v), want nothing: nearly all vote for nobody", cert, err)
	}
	v.Counts0, v.None0 = []int64{0, 0, 0}, 100
	v.Counts, v.None = []int64{0, 0, 0}, 1000
	if cert, err := c.Certify(v); err != nil || cert.Prediction != Abstained || cert.Radius != 0 {
		t.Errorf("%+v (%v), want nothing: all vote for nobody", cert, err)
	}
}

// With two classes and samples without an answer, there are three outcomes. So p_B can be below 1−p_A. For every (p_A,
// p_B, p_none) of a grid, the test sums the probabilities of all counts whose certified margin is above the true
// margin. This sum must be at most α.
func TestNoneWithTwoClasses(t *testing.T) {
	const n, steps, alpha = 12, 20, 0.1
	for _, method := range soundOnes(VoteMethods()) {
		for _, kind := range names(MarginKinds()) {
			c := mustVotes(t, VoteParams{Target: Target{Margin: kind, Class: Label, Alpha: alpha}, Method: method})
			for a := 1; a < steps; a++ {
				for b := 0; a+b <= steps; b++ {
					p := []float64{float64(a) / steps, float64(b) / steps, float64(steps-a-b) / steps}
					truth := trueMargin(kind, p)
					var fail float64
					for x := int64(0); x <= n; x++ {
						for y := int64(0); x+y <= n; y++ {
							cert, err := c.Certify(Votes{Label: 0, N: n, Counts: []int64{x, y}, None: n - x - y})
							if err != nil {
								t.Fatal(err)
							}
							if cert.Margin > truth && cert.Prediction == 0 {
								ways := new(big.Int).Mul(new(big.Int).Binomial(n, x), new(big.Int).Binomial(n-x, y))
								w, _ := new(big.Float).SetInt(ways).Float64()
								fail += w * math.Pow(p[0], float64(x)) * math.Pow(p[1], float64(y)) * math.Pow(p[2], float64(n-x-y))
							}
						}
					}
					if fail > alpha*(1+1e-12) {
						t.Errorf("%v, %v margin: fails with probability %v at %v", method, kind, fail, p)
					}
				}
			}
		}
	}
}

// All scores of a row without an answer are 0. The logit −∞ is valid and masks a class.
func TestSoftmaxOfNone(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct{ logits, want []float32 }{
		{[]float32{-inf, 0, 0}, []float32{0, 0.5, 0.5}},
		{[]float32{-inf, -inf, -80}, []float32{0, 0, 1}},
		{[]float32{nan, 0, 0}, []float32{0, 0, 0}},
		{[]float32{0, 0, nan}, []float32{0, 0, 0}},
		{[]float32{0, inf, 0}, []float32{0, 0, 0}},
		{[]float32{-inf, -inf, -inf}, []float32{0, 0, 0}},
	} {
		got := []float32{9, 9, 9, 9, 9, 9}
		Softmax(append(c.logits, 0, 0, -inf), got, 3, 2) // the next row is not changed
		if !reflect.DeepEqual(got, append(c.want, 0.5, 0.5, 0)) {
			t.Errorf("softmax of %v is %v, want %v", c.logits, got, c.want)
		}
		if none := IsNone(c.logits); none != (c.want[1]+c.want[2] == 0) {
			t.Errorf("%v is no answer: %v", c.logits, none)
		}
	}
	probs := []float32{0.25, 0.75, nan, 1, 0, inf, 1, 0}
	ClearNone(probs, 2)
	if want := []float32{0.25, 0.75, 0, 0, 0, 0, 1, 0}; !reflect.DeepEqual(probs, want) {
		t.Errorf("%v, want %v", probs, want)
	}
	probs = []float32{0, 0, 0.25, 0.75}
	Retemper(probs, 2, 0.5)
	if want := []float32{0, 0, 0.1, 0.9}; math.Abs(float64(probs[2]-want[2])) > 1e-6 || probs[0] != 0 || probs[1] != 0 {
		t.Errorf("at temperature ½: %v, want %v", probs, want)
	}
}

// Missing answers make the mean scores sum to less than 1, so the largest mean score may be below 1/m. A bound may
// assume only that the sum is at most 1.
func TestConfidenceOfScoresThatAreOftenNone(t *testing.T) {
	answers := func(k, n int) []float32 { // n rows: k have the scores {1, 0}, the rest have no answer
		rows := make([]float32, 2*n)
		for i := range k {
			rows[2*(i*n/k)] = 1
		}
		return rows
	}
	for _, row := range ConfidenceMethods() {
		p := ScoreParams{Target: Target{Alpha: 0.001, Sigma: 1}}
		p.Confidence = ConfidenceParams{Radii: []float64{0, 0.01}, Method: row.Name}
		a := startScores(t, p, 100, 2000, 2)
		feed(t, a, answers(25, 100), answers(500, 2000))
		cert, err := a.Certificate()
		if err != nil || cert.Prediction != 0 || !(cert.Radius > 0.01) {
			t.Fatalf("%v: %+v (%v), want class 0", row.Name, cert, err)
		}
		for _, b := range a.Confidence(cert) {
			if b.Lower > 0.25 || b.Upper < 0.25 || b.Confidence != 0.25 {
				t.Errorf("%v: %+v, the mean score is 0.25", row.Name, b)
			}
		}
	}
}

// If the noise is random, "no class" wins ties. If the noise is not random, "no class" loses ties. In the mode
// NoneIgnore, "no class" does not count. The votes of a splitting run that stopped early do not determine the answer.
func TestVoteRule(t *testing.T) {
	stop, err := ParseStop("radius>=0.1")
	if err != nil {
		t.Fatal(err)
	}
	tie, silent := Votes{Label: 1, N: 8, Counts: []int64{0, 4}, None: 4}, Votes{Label: 1, N: 8, Counts: []int64{1, 2}, None: 5}
	none := Votes{Label: 0, N: 8, Counts: []int64{0, 0}, None: 8}
	for _, c := range []struct {
		rule VoteRule
		want [3]int
	}{{VoteRule{}, [3]int{Abstained, Abstained, Abstained}}, {VoteRule{None: NoneIgnore}, [3]int{1, 1, Abstained}},
		{VoteRule{Deterministic: true}, [3]int{1, Abstained, Abstained}}} {
		if got := [3]int{c.rule.Answer(tie), c.rule.Answer(silent), c.rule.Answer(none)}; got != c.want {
			t.Errorf("%+v answers %v, want %v", c.rule, got, c.want)
		}
	}
	for _, deterministic := range []bool{false, true} {
		a := Accuracy{VoteRule: VoteRule{Deterministic: deterministic}}
		a.Add(Votes{Label: 1, N: 8, Counts: []int64{0, 8}})
		a.Add(Votes{Label: 1, N: 4, Counts: []int64{0, 4}, Stop: stop})
		if share, ok := a.SmoothedShare(); ok == deterministic || ok && share != 1 {
			t.Errorf("deterministic %v: smoothed accuracy %v, %v", deterministic, share, ok)
		}
	}
}
