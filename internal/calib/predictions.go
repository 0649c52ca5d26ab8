package calib

import (
	"errors"
	"fmt"
	"math"
)

// Predictions are a classifier's answers to n examples. For each example they hold the confidence in the answer and
// whether the answer is right. For ClassOneQuantity, Confidence is the probability of class 1, and Correct says whether
// the label is 1. More metrics are defined if Probability and Label are given.
type Predictions struct {
	Quantity   Quantity
	Confidence []float64 // [n], in [0, 1]
	Correct    []bool    // [n]
	Weight     []float64 // [n], positive; nil for equal weights

	// Probability is [n×Classes], row-major, and Label is [n]. Both are nil if unknown.
	Probability []float64
	Classes     int
	Label       []int

	// Index holds the index of each row's example. It is nil if unknown.
	Index []float64
}

// N returns the number of examples.
func (p *Predictions) N() int { return len(p.Confidence) }

// TopLabel makes predictions from probability vectors and the true labels. The slice of the probabilities is row-major
// [n×classes]. The classifier's answer is the most probable label, or the first of several equally probable labels.
// Each vector must sum to 1 within the tolerance of SumToOne. An error about a row is a *RowError.
func TopLabel(probability []float64, classes int, label []int) (*Predictions, error) {
	if classes < 2 {
		return nil, fmt.Errorf("%d classes, must be 2 or more", classes)
	}
	if len(probability) != classes*len(label) {
		return nil, fmt.Errorf("%d probabilities for %d labels of %d classes", len(probability), len(label), classes)
	}
	p := &Predictions{Probability: probability, Classes: classes, Label: label,
		Confidence: make([]float64, len(label)), Correct: make([]bool, len(label))}
	for i, y := range label {
		if y < 0 || y >= classes {
			return nil, &RowError{i, fmt.Sprintf("label %d is outside 0 to %d", y, classes-1)}
		}
		row := probability[i*classes : (i+1)*classes]
		sum, top := 0.0, 0
		for k, x := range row {
			if !(x >= 0 && x <= 1) {
				return nil, OutsideUnit(i, "probability", x)
			}
			sum += x
			if x > row[top] {
				top = k
			}
		}
		if !SumToOne(sum, classes) {
			return nil, &RowError{i, fmt.Sprintf("probabilities sum to %.6g, not 1", sum)}
		}
		p.Confidence[i] = row[top]
		p.Correct[i] = top == y
	}
	return p, nil
}

// SumToOne reports whether the argument 'sum' can be the sum of the probabilities of all classes. Each probability may
// be rounded to 4 digits or to float16.
func SumToOne(sum float64, classes int) bool {
	const tolerance = 1e-3
	return math.Abs(sum-1) <= tolerance*math.Sqrt(float64(classes))
}

// Check returns an error that wraps a *RowError for the first value that is out of range.
func (p *Predictions) Check() error {
	if p.N() == 0 {
		return errNoRows
	}
	if len(p.Correct) != p.N() || (p.Weight != nil && len(p.Weight) != p.N()) {
		return errors.New("columns differ in length")
	}
	for i, c := range p.Confidence {
		if !(c >= 0 && c <= 1) {
			return OutsideUnit(i, p.Quantity.scoreName(), c)
		}
		if p.Weight != nil && (!(p.Weight[i] > 0) || math.IsInf(p.Weight[i], 0)) {
			return &RowError{i, fmt.Sprintf("weight %v is not positive", p.Weight[i])}
		}
	}
	return nil
}

func (p *Predictions) weight(i int) float64 {
	if p.Weight == nil {
		return 1
	}
	return p.Weight[i]
}

// residual returns correct − confidence.
func (p *Predictions) residual(i int) float64 { return indicator(p.Correct[i]) - p.Confidence[i] }

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// meanOf returns the weighted mean of f over the examples. It corrects the sum of the terms for rounding errors
// (Kahan).
func (p *Predictions) meanOf(f func(i int) float64) float64 {
	var sum, lost, total float64
	for i := range p.Confidence {
		w := p.weight(i)
		total += w
		x := w * f(i)
		if math.IsInf(x, 0) {
			return x
		}
		x -= lost
		next := sum + x
		lost = (next - sum) - x
		sum = next
	}
	return sum / total
}

// Accuracy returns the weighted share of right answers.
func (p *Predictions) Accuracy() float64 {
	return p.meanOf(func(i int) float64 { return indicator(p.answersRight(i)) })
}

// MeanConfidence returns the weighted mean of the confidence.
func (p *Predictions) MeanConfidence() float64 {
	return p.meanOf(func(i int) float64 { return p.Confidence[i] })
}

// TopLabelBrier returns the mean of (confidence − correct)².
func (p *Predictions) TopLabelBrier() float64 { return p.meanOf(p.brierTerm) }

func (p *Predictions) brierTerm(i int) float64 { r := p.residual(i); return r * r }

// TopLabelNLL returns the mean of −ln(confidence) for right answers and −ln(1−confidence) for wrong answers. It is +Inf
// if an outcome had probability 0.
func (p *Predictions) TopLabelNLL() float64 { return p.meanOf(p.topLabelNLLTerm) }

func (p *Predictions) topLabelNLLTerm(i int) float64 {
	if p.Correct[i] {
		return -math.Log(p.Confidence[i])
	}
	return -math.Log1p(-p.Confidence[i])
}

// NLL returns the mean of −ln p_label over the probability vectors. It is NaN if the vectors are unknown, and +Inf if a
// true label has probability 0.
func (p *Predictions) NLL() float64 {
	if p.Probability == nil {
		return math.NaN()
	}
	return p.meanOf(p.nllTerm)
}

func (p *Predictions) nllTerm(i int) float64 {
	return -math.Log(p.Probability[i*p.Classes+p.Label[i]])
}
