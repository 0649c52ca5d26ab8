package calib

import (
	"fmt"
	"math"
)

// Edge decides which bin holds a confidence that lies on an edge.
type Edge int

// A bin includes either its upper or its lower edge.
const (
	UpperClosed Edge = iota // bin is (lo, hi]; the first bin also holds 0
	LowerClosed             // bin is [lo, hi); the last bin also holds 1
)

// Bin is one bin of a reliability diagram. In an empty bin, all fields except the edges Lower and Upper are 0.
type Bin struct {
	Lower      float64 `json:"low"`
	Upper      float64 `json:"high"`
	N          int     `json:"n"`
	Weight     float64 `json:"weight"`     // share of all weight
	Confidence float64 `json:"confidence"` // weighted mean confidence
	Accuracy   float64 `json:"accuracy"`   // weighted mean accuracy

	correct int64   // number of correct examples, whatever their weight
	total   float64 // Σw
	largest float64 // max w
	squares float64 // Σw²(correct − confidence)²
}

// add puts an example into the bin. Until finishBins is called, Confidence and Accuracy hold sums.
func (b *Bin) add(confidence float64, correct bool, w float64) {
	b.N++
	b.total += w
	b.Confidence += w * confidence
	r := -confidence
	if correct {
		b.correct++
		b.Accuracy += w
		r++
	}
	b.largest = max(b.largest, w)
	b.squares += w * w * r * r
}

// finishBins sets the field Weight of each bin to the bin's share of all weight. It divides the sums in Confidence and
// Accuracy by the total weight of the bin, so that these two fields hold means.
func finishBins(bins []Bin) {
	total := 0.0
	for _, b := range bins {
		total += b.total
	}
	for k := range bins {
		b := &bins[k]
		b.Weight = b.total / total
		if b.N > 0 {
			b.Confidence /= b.total
			b.Accuracy /= b.total
		}
	}
}

// EqualWidth sorts predictions into bins of equal width. Edge k is the float64 nearest to k/bins.
func EqualWidth(p *Predictions, bins int, edge Edge) ([]Bin, error) {
	if bins < 1 {
		return nil, fmt.Errorf("%d bins, must be 1 or more", bins)
	}
	out := make([]Bin, bins)
	for k := range out {
		out[k].Lower = float64(k) / float64(bins)
		out[k].Upper = float64(k+1) / float64(bins)
	}
	for i, c := range p.Confidence {
		out[edge.bin(c, bins)].add(c, p.Correct[i], p.weight(i))
	}
	finishBins(out)
	return out, nil
}

// bin returns the number of the bin that holds c. Bins are numbered from 0. It compares c with the edges themselves,
// because the product c·bins is rounded.
func (e Edge) bin(c float64, bins int) int {
	k := min(int(c*float64(bins)), bins-1)
	edge := func(k int) float64 { return float64(k) / float64(bins) }
	if e == LowerClosed {
		for k > 0 && c < edge(k) {
			k--
		}
		for k < bins-1 && c >= edge(k+1) {
			k++
		}
		return k
	}
	for k > 0 && c <= edge(k) {
		k--
	}
	for k < bins-1 && c > edge(k+1) {
		k++
	}
	return k
}

// EqualCount sorts predictions into bins that hold about equally many predictions. The argument 'bins' is the largest
// number of bins. The confidences are ranked in ascending order, and bin k ends at rank ⌈k·n/bins⌉. All examples with
// the same confidence as the last example of a bin are in this bin. So ties can make bins larger and the number of bins
// smaller.
func EqualCount(p *Predictions, bins int) ([]Bin, error) { return Rank(p).EqualCount(bins) }

// ECE returns the expected calibration error, Σ weight·|accuracy − confidence| (Naeini et al. 2015; Guo et al. 2017).
// Errors of opposite signs within a bin cancel, so the ECE can be far below the calibration error. TotalVariation,
// NadarayaWatson and Lipschitz bound the calibration error itself. The noise of different bins does not cancel, so the
// ECE of a small sample is too large.
func ECE(bins []Bin) float64 {
	sum := 0.0
	for _, b := range bins {
		sum += b.Weight * math.Abs(b.Accuracy-b.Confidence)
	}
	return sum
}

// MCE returns the largest |accuracy − confidence| of a bin that is not empty.
func MCE(bins []Bin) float64 {
	worst := 0.0
	for _, b := range bins {
		if b.N > 0 {
			worst = max(worst, math.Abs(b.Accuracy-b.Confidence))
		}
	}
	return worst
}

// classBins returns the equal-width bins of the binary problem "is it class k" for each class k. The confidence is the
// probability of class k.
func (p *Predictions) classBins(bins int, edge Edge) ([][]Bin, error) {
	if bins < 1 {
		return nil, fmt.Errorf("%d bins, must be 1 or more", bins)
	}
	out := make([][]Bin, p.Classes)
	for k := range out {
		out[k] = make([]Bin, bins)
	}
	for i, y := range p.Label {
		w := p.weight(i)
		for k, x := range p.Probability[i*p.Classes : (i+1)*p.Classes] {
			out[k][edge.bin(x, bins)].add(x, k == y, w)
		}
	}
	for k := range out {
		finishBins(out[k])
	}
	return out, nil
}

// ClasswiseECE returns the ECE of the binary problem "is it class k" for each class k, and the mean over classes (Kull
// et al. 2019). The result 'each' is nil if the probability vectors are unknown.
func ClasswiseECE(p *Predictions, bins int, edge Edge) (mean float64, each []float64, err error) {
	all, err := p.classBins(bins, edge)
	for _, b := range all {
		e := ECE(b)
		each = append(each, e)
		mean += e / float64(p.Classes)
	}
	return mean, each, err
}
