package attack

import (
	"context"
	"math"
)

// Check is the name of a test for results that mislead. Most are those of AutoAttack (Croce & Hein 2020; its checks.py).
type Check string

// The checks.
const (
	// ZeroGradients: a step found a gradient of zero, so that it could not move the example.
	ZeroGradients Check = "zero-gradients"
	// ScoresBetter: an attack by scores alone broke examples that the attacks by gradients left standing.
	ScoresBetter Check = "scores-better"
	// RandomScores: the scores of the same inputs change from run to run.
	RandomScores Check = "random-scores"
	// Probabilities: the model returns probabilities, whose gradients vanish where it is sure.
	Probabilities Check = "probabilities"
	// FewClasses: an attack of a preset was left out because its loss needs more classes.
	FewClasses Check = "few-classes"
)

// Warning is a check that failed.
type Warning struct {
	Check    Check  `json:"check"`
	Examples int    `json:"examples,omitempty"` // that failed
	Text     string `json:"text"`
}

// scoresBetterShare is the share of examples that attacks by scores may break after those by gradients. AutoAttack
// takes it, too.
const scoresBetterShare = .002

// Flat counts the examples at which a gradient was zero.
func Flat(found []Found) (examples int) {
	for _, f := range found {
		if f.Flat > 0 {
			examples++
		}
	}
	return examples
}

// BrokenByScores counts the examples that attacks by scores alone broke after attacks by gradients had left them
// standing. warn reports whether they are more than .2 % of all: gradients then mislead. stages are the attacks that
// ran, in turn.
func BrokenByScores(found []Found, stages []Method) (examples int, warn bool) {
	after := make(map[Method]bool) // attacks by scores with attacks by gradients before them
	gradients := false
	for _, m := range stages {
		after[m] = gradients && !m.UsesGradients()
		gradients = gradients || m.UsesGradients()
	}
	for _, f := range found {
		if f.Adversarial != nil && after[f.By] {
			examples++
		}
	}
	return examples, float64(examples) > scoresBetterShare*float64(len(found))
}

// The check for random scores: how many examples it takes, and the change that it allows in scores divided by their
// Euclidean norm.
const (
	RandomExamples = 64
	randomChange   = 1e-4
)

// Random counts the examples whose scores, divided by their norm, change by more than 10⁻⁴ between two runs of the same
// batches. It takes the first 64 examples.
func (s *Search) Random(ctx context.Context, examples []Example) (changed int, err error) {
	var inputs [][]float32
	for _, x := range examples[:min(len(examples), RandomExamples)] {
		inputs = append(inputs, x.Values)
	}
	first, err := s.scores(ctx, inputs)
	if err != nil {
		return 0, err
	}
	second, err := s.scores(ctx, inputs)
	if err != nil {
		return 0, err
	}
	for i := range inputs {
		a, b := unit(first[i]), unit(second[i])
		square := 0.
		for k := range a {
			square += (a[k] - b[k]) * (a[k] - b[k])
		}
		if math.Sqrt(square) > randomChange {
			changed++
		}
	}
	return changed, nil
}

// unit returns scores divided by their Euclidean norm.
func unit(scores []float32) []float64 {
	u, square := make([]float64, len(scores)), 0.
	for k, v := range scores {
		u[k] = float64(v)
		square += u[k] * u[k]
	}
	for k := range u {
		u[k] /= math.Sqrt(square) + 1e-10
	}
	return u
}
