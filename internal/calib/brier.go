package calib

import "math"

// Decomposition holds the terms of a Brier score (Murphy 1973; Stephenson, Coelho & Jolliffe 2008 for the last term):
//
//	Brier = Reliability − Resolution + Uncertainty + Within
//
// For bin m, share_m is the bin's share of the weight, accuracy_m its mean accuracy, and confidence_m its mean
// confidence. The symbol 'accuracy' without an index is the accuracy of all examples. Reliability is Σ share_m
// (accuracy_m − confidence_m)². Resolution is Σ share_m (accuracy_m − accuracy)². Uncertainty is accuracy(1−accuracy).
// Within is the part that comes from differences between the confidences in a bin; it is 0 if the confidences in each
// bin are equal.
type Decomposition struct {
	Reliability float64 `json:"reliability"`
	Resolution  float64 `json:"resolution"`
	Uncertainty float64 `json:"uncertainty"`
	Within      float64 `json:"within_bins"`
}

// DecomposeBrier splits a Brier score into its terms. The argument 'brier' is the Brier score of a set of predictions,
// and the argument 'bins' holds the bins of the same predictions.
func DecomposeBrier(bins []Bin, brier float64) Decomposition {
	var d Decomposition
	d.add(bins)
	d.Within = brier - (d.Reliability - d.Resolution + d.Uncertainty)
	return d
}

func (d *Decomposition) add(bins []Bin) {
	accuracy := 0.0
	for _, b := range bins {
		accuracy += b.Weight * b.Accuracy
	}
	for _, b := range bins {
		if b.N > 0 {
			d.Reliability += b.Weight * (b.Accuracy - b.Confidence) * (b.Accuracy - b.Confidence)
			d.Resolution += b.Weight * (b.Accuracy - accuracy) * (b.Accuracy - accuracy)
		}
	}
	d.Uncertainty += accuracy * (1 - accuracy)
}

// MulticlassBrier returns the mean of Σ_k (p_k − 1{label = k})², which is in [0, 2] (Brier 1950). It returns NaN if the
// probability vectors are not known.
func (p *Predictions) MulticlassBrier() float64 {
	if p.Probability == nil {
		return math.NaN()
	}
	return p.meanOf(p.multiclassBrierTerm)
}

func (p *Predictions) multiclassBrierTerm(i int) float64 {
	sum := 0.0
	for k, x := range p.Probability[i*p.Classes : (i+1)*p.Classes] {
		d := x - indicator(k == p.Label[i])
		sum += d * d
	}
	return sum
}

// MulticlassBrierEstimate returns MulticlassBrier with an interval and a decomposition. The decomposition is a sum over
// the classes k. Each summand is the decomposition of the binary problem "is it class k" over equal-width bins.
func MulticlassBrierEstimate(
	p *Predictions, bins int, edge Edge, level float64, seed uint64,
) (Estimate, Decomposition, error) {
	// TopLabel tolerates vectors that sum to 1.001, so the score of a vector can slightly exceed 2.
	e := p.boundedEstimate(p.MulticlassBrier(), func(i int) float64 { return min(2, p.multiclassBrierTerm(i)) },
		2, level, seed)
	classes, err := p.classBins(bins, edge)
	if err != nil {
		return Estimate{}, Decomposition{}, err
	}
	var d Decomposition
	for _, b := range classes {
		d.add(b)
	}
	d.Within = e.Value - (d.Reliability - d.Resolution + d.Uncertainty)
	return e, d, nil
}
