package attack

import (
	"context"
	"math"

	"github.com/rscert/rscert/internal/warning"
)

// Warning says that the results of an attack may mislead, because they failed a check. AutoAttack makes the same checks
// (Croce & Hein 2020, checks.py).
type Warning struct {
	Check    warning.Code `json:"check"`
	Examples int          `json:"examples,omitempty"` // number of examples that failed the check
	Text     string       `json:"text"`
}

// scoresBetterShare is the limit on the share of examples that an attack by scores broke after attacks by gradients had
// failed. It is a share of all examples. A larger share causes a warning. AutoAttack uses the same limit.
const scoresBetterShare = .002

// Flat counts the examples with at least one step whose gradient was zero or not finite (Found.Flat).
func Flat(found []Found) (examples int) {
	for _, f := range found {
		if f.Flat > 0 {
			examples++
		}
	}
	return examples
}

// BrokenByScores counts the examples that an attack by scores broke. An example counts only if an attack by gradients
// ran before and did not break it. The argument 'stages' lists the attacks in the order in which they ran. The result
// 'warn' is true if the count is more than 0.2 % of all examples.
func BrokenByScores(found []Found, stages []Method) (examples int, warn bool) {
	after := make(map[Method]bool) // true for each attack by scores that ran after an attack by gradients
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

// These are the constants of Random.
const (
	RandomExamples = 64   // number of examples
	randomChange   = 1e-4 // if scores change by at most this share of their norm, the change counts as rounding
)

// Random runs the classifier twice on the first 64 examples. It divides each example's scores by their Euclidean norm.
// It counts the examples for which the normalised scores of the two runs are more than 10⁻⁴ apart.
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

// unit returns the scores, divided by their Euclidean norm.
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
