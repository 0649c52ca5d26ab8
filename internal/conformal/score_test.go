package conformal

import (
	"math"
	"testing"
)

// The test compares the scores of one example with scores computed by hand. The probabilities 0.5, 0.3 and 0.2 belong
// to the classes 1, 2 and 0.
func TestScores(t *testing.T) {
	p := []float64{0.2, 0.5, 0.3}
	const u = 0.25
	for _, tt := range []struct {
		scorer Scorer
		want   []float64
	}{
		{NewScorer(THR), []float64{0.2, 0.5, 0.3}},
		{NewScorer(APS), []float64{-(0.8 + u*0.2), -(u * 0.5), -(0.5 + u*0.3)}},
		{Scorer{Kind: RAPS, Penalty: 0.1, Free: 1}, []float64{-(0.8 + u*0.2 + 0.2), -(u * 0.5), -(0.5 + u*0.3 + 0.1)}},
		{NewScorer(RAPS), []float64{-(0.8 + u*0.2), -(u * 0.5), -(0.5 + u*0.3)}}, // no penalty for ranks up to 5
	} {
		got := tt.scorer.Scores(nil, p, u)
		for y, want := range tt.want {
			if math.Abs(got[y]-want) > 1e-15 {
				t.Errorf("%+v: class %d has %v, want %v", tt.scorer, y, got[y], want)
			}
			if one := tt.scorer.Score(p, y, u); one != got[y] {
				t.Errorf("%+v: Score gives %v, Scores %v", tt.scorer, one, got[y])
			}
		}
	}
	seven := []float64{0.3, 0.2, 0.15, 0.12, 0.1, 0.08, 0.05}
	if got, want := NewScorer(RAPS).Score(seven, 6, 0), -(0.95 + 2*DefaultPenalty); math.Abs(got-want) > 1e-15 {
		t.Errorf("RAPS of rank 7: %v, want %v", got, want)
	}
}

// Classes of equal probability must rank in the order of their numbers. A class whose probability is NaN must have the
// lowest score.
func TestScoresAtTheLimits(t *testing.T) {
	if got := NewScorer(APS).Scores(nil, []float64{0.5, 0.5}, 0); got[0] != 0 || got[1] != -0.5 {
		t.Errorf("ties: %v", got)
	}
	for _, kind := range ScoreKinds.Values() {
		got := NewScorer(kind).Scores(make([]float64, 0, 8), []float64{0.5, math.NaN()}, 0.5)
		if len(got) != 2 || !math.IsInf(got[1], -1) || math.IsInf(got[0], 0) {
			t.Errorf("%s: scores %v of a probability that is not a number", kind, got)
		}
		if kind.Random() != (kind != THR) {
			t.Errorf("%s: Random is %v", kind, kind.Random())
		}
	}
}

func TestChoices(t *testing.T) {
	for _, r := range Rules.Values() {
		if text, _ := r.MarshalText(); Rules.What(r) == "" || new(Rule).UnmarshalText(text) != nil {
			t.Errorf("rule %s has no help, or is not read back", r)
		}
	}
	for _, g := range Guarantees.Values() {
		if text, _ := g.MarshalText(); Guarantees.What(g) == "" || new(Guarantee).UnmarshalText(text) != nil {
			t.Errorf("guarantee %s has no help, or is not read back", g)
		}
	}
	for _, s := range ScoreKinds.Values() {
		if text, _ := s.MarshalText(); ScoreKinds.What(s) == "" || new(ScoreKind).UnmarshalText(text) != nil {
			t.Errorf("score %s has no help, or is not read back", s)
		}
	}
}
