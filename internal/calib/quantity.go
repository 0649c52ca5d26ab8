package calib

import (
	"fmt"

	"github.com/rscert/rscert/internal/choice"
)

// Quantity says which event the confidence is about. The confidence estimates the probability of this event.
type Quantity int

// These are the quantities of Predictions.
const (
	TopLabelQuantity Quantity = iota // the classifier's answer is right
	ClassOneQuantity                 // the confidence is about the event that the label is 1; there are two classes
)

// Quantities lists every Quantity.
var Quantities = choice.Of("quantity", TopLabelQuantity, ClassOneQuantity).Describe(func(q Quantity) string {
	return [...]string{
		TopLabelQuantity: "the confidence of the classifier's answer", ClassOneQuantity: "the score of class 1, if there are two classes",
	}[q]
})

// String returns the quantity's name, for example "top-label".
func (q Quantity) String() string {
	return [...]string{TopLabelQuantity: "top-label", ClassOneQuantity: "class-1"}[q]
}

// scoreName returns the word that error messages use for a value of Predictions.Confidence.
func (q Quantity) scoreName() string {
	if q == ClassOneQuantity {
		return "score"
	}
	return "confidence"
}

// MarshalText implements encoding.TextMarshaler.
func (q Quantity) MarshalText() ([]byte, error) { return []byte(q.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (q *Quantity) UnmarshalText(text []byte) error { return Quantities.Unmarshal(text, q) }

// ClassOne makes predictions from the probabilities of class 1 in a problem of two classes. The classifier's answer is
// the more probable label, or 0 if both are equally probable. An error about a row is a *RowError.
func ClassOne(score []float64, label []int) (*Predictions, error) {
	p := &Predictions{Quantity: ClassOneQuantity, Confidence: score, Correct: make([]bool, len(label))}
	for i, y := range label {
		if y != 0 && y != 1 {
			return nil, &RowError{i, fmt.Sprintf("label %d is outside 0 to 1", y)}
		}
		p.Correct[i] = y == 1
	}
	return p, nil
}

// answersRight reports whether the classifier's answer for example i is right.
func (p *Predictions) answersRight(i int) bool {
	if p.Quantity == ClassOneQuantity {
		return (p.Confidence[i] > 0.5) == p.Correct[i]
	}
	return p.Correct[i]
}

// Answers returns the confidence in each of the classifier's answers, and whether the answer is right. It works for
// either Quantity.
func (p *Predictions) Answers() (confidence []float64, right []bool) {
	if p.Quantity == TopLabelQuantity {
		return p.Confidence, p.Correct
	}
	confidence, right = make([]float64, p.N()), make([]bool, p.N())
	for i, c := range p.Confidence {
		confidence[i], right[i] = max(c, 1-c), p.answersRight(i)
	}
	return confidence, right
}
