package attack

import "math"

// Altered is an input that an attack on the classifier's confidence has found.
type Altered struct {
	Values     []float32
	Class      int
	Confidence float64 // probability of Class
	Distance   float64 // distance from the example, rounded up
}

// alteredBy returns a candidate as an altered input. The argument 'scores' holds the classifier's scores for the
// candidate.
func (s *Search) alteredBy(t *target, candidate []float32, class int, scores []float32) (Altered, error) {
	distance, err := s.allowed(t, candidate)
	return Altered{candidate, class, s.confidence(scores), distance}, err
}

// smallest is the smallest normal float32. It replaces every smaller probability, because the logarithm of 0 would be
// infinite.
const smallest = 0x1p-126

// logit returns the logit of class k. The scores are logits or probabilities.
func logit(scores []float32, k int, probabilities bool) float64 {
	if probabilities {
		return math.Log(max(float64(scores[k]), smallest))
	}
	return float64(scores[k])
}

// crossEntropy returns −ln softmax(z)_y for the logits z. The result is accurate even if it is tiny.
func crossEntropy(scores []float32, y int, probabilities bool) float64 {
	own, most := logit(scores, y, probabilities), 0.
	if math.IsInf(own, -1) { // class y has the score −∞, that is, the probability 0
		return math.Inf(1)
	}
	for k := range scores {
		most = max(most, logit(scores, k, probabilities)-own)
	}
	rest := 0.
	for k := range scores {
		if k != y {
			rest += math.Exp(logit(scores, k, probabilities) - own - most)
		}
	}
	return most + math.Log1p(math.Exp(-most)-1+rest)
}

func (s *Search) crossEntropy(scores []float32, y int) float64 {
	return crossEntropy(scores, y, s.Probabilities)
}

// confidence returns the probability of the most probable class.
func (s *Search) confidence(scores []float32) float64 {
	best := 0
	for k, v := range scores {
		if v > scores[best] {
			best = k
		}
	}
	if s.Probabilities {
		return min(max(float64(scores[best]), 0), 1)
	}
	return math.Exp(-s.crossEntropy(scores, best))
}
