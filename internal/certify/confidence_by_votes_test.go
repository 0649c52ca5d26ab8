package certify

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// If the class is not the label, the interval of the class and the interval of the label each use a quarter of α. The
// test compares the two intervals with the intervals of two other examples. Each of these examples has only one
// interval and half of α. In the first example the class is the label. The second example has no label.
func TestIntervalsShareAlpha(t *testing.T) {
	const alpha = 0.02
	selection, _ := scoreSamples(50)
	rows, _ := scoreSamples(1500)
	radii := []float64{0, 0.1, 0.3}
	for _, method := range names(ConfidenceMethods()) {
		run := func(alpha float64, label, class int, certified bool) []ConfidenceBound {
			c, err := NewScoreCertifier(ScoreParams{
				Target: Target{Alpha: alpha, Sigma: 0.5}, ClassByVotes: true,
				Confidence: ConfidenceParams{Radii: radii, Method: method},
			})
			if err != nil {
				t.Fatal(err)
			}
			a, err := c.Start(ScoreExample{Label: label, Classes: 2, N0: 50, N: 1500})
			if err == nil {
				err = a.Selection(selection)
			}
			if err == nil {
				err = a.Choose(class)
			}
			if err == nil {
				err = a.Estimation(rows)
			}
			if err != nil {
				t.Fatal(err)
			}
			cert := Certificate{Prediction: Abstained}
			if certified {
				cert = Certificate{Prediction: class, Radius: 0.1}
			}
			return a.Confidence(cert)
		}
		same := func(got, want []ConfidenceBound) {
			t.Helper()
			if len(got) == 0 || len(got) != len(want) {
				t.Fatalf("%s: %d rows, want %d", method, len(got), len(want))
			}
			for i := range got {
				if got[i].Lower != want[i].Lower || got[i].Upper != want[i].Upper || got[i].Radius != want[i].Radius {
					t.Errorf("%s: %+v, want the bounds of %+v", method, got[i], want[i])
				}
			}
		}
		wrong := run(alpha, 1, 0, true)
		if !wrong[0].Certified || !wrong[1].Certified || wrong[2].Certified || wrong[0].Correct {
			t.Fatalf("%s: %+v", method, wrong)
		}
		same(wrong[:2], run(alpha/2, UnknownLabel, 0, true))
		same(wrong[2:], run(alpha/2, 1, 1, false)[2:])
		// The field Confidence is the confidence in the predicted class, even in a row that bounds the label's score.
		if x := run(alpha/2, UnknownLabel, 0, true)[0].Confidence; wrong[2].Confidence != x || wrong[2].Prediction != 0 {
			t.Errorf("%s: confidence %v of class %d, want %v of class 0", method, wrong[2].Confidence, wrong[2].Prediction, x)
		}
		// If the class is the label, its interval gets the whole share of α that is reserved for intervals.
		if a, b := run(alpha, 0, 0, true), run(alpha/2, 0, 0, true); !(a[0].Lower > b[0].Lower && a[0].Upper < b[0].Upper) {
			t.Errorf("%s: [%v, %v] at α, [%v, %v] at half of it", method, a[0].Lower, a[0].Upper, b[0].Lower, b[0].Upper)
		}
	}
}

// With ClassByVotes, the votes choose and certify the class. The scores neither choose nor certify it.
func TestClassByVotes(t *testing.T) {
	p := ScoreParams{Target: Target{Alpha: 0.01, Sigma: 0.5}, ClassByVotes: true}
	if _, err := NewScoreCertifier(p); err == nil {
		t.Error("no radii, no error")
	}
	p.Combine = Taylor // not sound, and not used with ClassByVotes
	p.Confidence.Radii = []float64{0.1}
	selection, _ := scoreSamples(20)
	estimation := selection
	a := startScores(t, p, 20, 20, 2)
	if err := a.Selection(selection); err != nil {
		t.Fatal(err)
	}
	if err := a.Estimation(estimation); err == nil {
		t.Error("estimation before the class is chosen, no error")
	}
	if err := a.Choose(2); err == nil {
		t.Error("class 2 of 2, no error")
	}
	if err := a.Choose(1); err != nil {
		t.Fatal(err)
	}
	if err := a.Estimation(estimation); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Certificate(); err == nil {
		t.Error("a certificate from scores, no error")
	}
	if row := a.Confidence(Certificate{Prediction: 1, Radius: 1})[0]; row.Prediction != 1 || !row.Certified {
		t.Errorf("%+v, want class 1", row)
	}
	if row := a.Confidence(Certificate{Prediction: 0, Radius: 1})[0]; row.Certified {
		t.Errorf("%+v: the certificate is of class 0", row)
	}
	if target := p.ClassTarget(); target.Alpha != 0.005 {
		t.Errorf("the class has α = %v of 0.01", target.Alpha)
	}
	p.ClassByVotes, p.Combine = false, Directed
	if err := startScores(t, p, 20, 20, 2).Choose(1); err == nil {
		t.Error("a class by votes for scores, no error")
	}
}

// votesFor returns P(f_0 ≥ ½) at u = δ. This is the share of votes for class 0, because class 0 wins ties.
func (s stepModel) votesFor(delta, sigma float64) float64 {
	for k, l := range s.levels {
		if float32(l) < 0.5 {
			continue
		}
		if k == 0 {
			return 1
		}
		p, _ := normalCDF((delta - s.edges[k-1]) / sigma)
		return p
	}
	return 0
}

// rowFails reports whether the statement of a row is wrong.
func (s stepModel) rowFails(b ConfidenceBound, sigma float64) bool {
	bounded := b.Label
	if b.Certified {
		bounded = b.Prediction
		least := s.votesFor(-b.Radius, sigma)
		if b.Prediction == 1 {
			least = 1 - s.votesFor(b.Radius, sigma)
		}
		if least <= 0.5 {
			return true
		}
	}
	low, high := s.smoothed(-b.Radius, sigma), s.smoothed(b.Radius, sigma)
	if bounded == 1 {
		low, high = 1-high, 1-low
	}
	return b.Lower > low+1e-7 || b.Upper < high-1e-7 // scores are float32
}

// The votes choose the class, and the scores of the same samples bound the confidence in this class. At each radius the
// row is wrong with probability ≤ α, whether it concerns the class or the label.
func TestConfidenceByVotesCoverage(t *testing.T) {
	trials := int64(300)
	if testing.Short() {
		trials = 60
	}
	const alpha, sigma, n0, n = 0.4, 0.5, 3, 40
	allowed := failuresAllowed(trials, alpha)
	models := append(slices.Clone(stepModels), // in the added models the votes are near a tie
		stepModel{"a tie at 0.1", []float64{0.1, 0.95}, []float64{-0.1}}, stepModel{"a tie", []float64{0.4, 0.6}, []float64{0}})
	certifiedWrong, stated := 0, map[bool]int{}
	for _, method := range everyConfidence() {
		scores := ScoreParams{Target: Target{Alpha: alpha, Sigma: sigma}, ClassByVotes: true, Confidence: method}
		c, err := NewScoreCertifier(scores)
		if err != nil {
			t.Fatal(err)
		}
		votes, err := NewVoteCertifier(VoteParams{Target: scores.ClassTarget()})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range models {
			for label := range 2 {
				r := rand.New(rand.NewPCG(1, uint64(label)))
				failures := make([]int64, len(confidenceRadii))
				for range trials {
					for i, b := range s.rowsByVotes(t, c, votes, r, label, n0, n) {
						stated[b.Certified]++
						if b.Certified && !b.Correct {
							certifiedWrong++
						}
						if s.rowFails(b, sigma) {
							failures[i]++
						}
					}
				}
				if k := slices.Max(failures); k > allowed {
					t.Errorf("%v, %s, label %d: %d of %d rows fail, α allows %d", method, s.name, label, k, trials, allowed)
				}
			}
		}
	}
	if certifiedWrong == 0 || stated[true] == 0 || stated[false] == 0 {
		t.Errorf("%d rows of wrong classes, %v certified or not: want some of each", certifiedWrong, stated)
	}
}

// rowsByVotes samples the model, certifies its class by votes and bounds its scores.
func (s stepModel) rowsByVotes(t testing.TB, c *ScoreCertifier, v *VoteCertifier, r *rand.Rand, label, n0, n int) []ConfidenceBound {
	t.Helper()
	votes := Votes{Label: label, N0: int64(n0), N: int64(n)}
	rows := func(k int, counts *[]int64) []float32 {
		*counts = make([]int64, 2)
		out := make([]float32, 2*k)
		for i := range k {
			f := float32(s.score(c.params.Sigma * r.NormFloat64()))
			out[2*i], out[2*i+1] = f, 1-f
			(*counts)[argMaxScore([]float64{float64(f), float64(1 - f)}, -1)]++ // class 0 wins at ½
		}
		return out
	}
	a, err := c.Start(ScoreExample{Label: label, Classes: 2, N0: int64(n0), N: int64(n)})
	if err == nil {
		err = a.Selection(rows(n0, &votes.Counts0))
	}
	if err == nil {
		err = a.Choose(argMax(votes.Counts0))
	}
	if err == nil {
		err = a.Estimation(rows(n, &votes.Counts))
	}
	var cert Certificate
	if err == nil {
		cert, err = v.Certify(votes)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a.Confidence(cert)
}
