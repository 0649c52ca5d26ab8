package calib

import (
	"fmt"
	"math"
	"slices"
)

// Edge says to which bin a confidence belongs that lies on an edge.
type Edge int

const (
	UpperClosed Edge = iota // (lo, hi], the first bin also holds 0
	LowerClosed             // [lo, hi), the last bin also holds 1
)

// Bin is one bin of a reliability diagram. Empty bins have N = 0 and nothing
// else.
type Bin struct {
	Lower      float64 `json:"low"`
	Upper      float64 `json:"high"`
	N          int     `json:"n"`
	Weight     float64 `json:"weight"`     // share of all weight
	Confidence float64 `json:"confidence"` // weighted mean
	Accuracy   float64 `json:"accuracy"`   // weighted mean

	members []int
}

// EqualWidth sorts predictions into bins of equal width. Edge k is the float64
// nearest to k/bins.
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
		k := edge.bin(c, bins)
		out[k].members = append(out[k].members, i)
	}
	p.summarise(out)
	return out, nil
}

// bin compares with the edges themselves: c·bins is rounded.
func (e Edge) bin(c float64, bins int) int {
	k := min(int(c*float64(bins)), bins-1)
	at := func(k int) float64 { return float64(k) / float64(bins) }
	if e == LowerClosed {
		for k > 0 && c < at(k) {
			k--
		}
		for k < bins-1 && c >= at(k+1) {
			k++
		}
		return k
	}
	for k > 0 && c <= at(k) {
		k--
	}
	for k < bins-1 && c > at(k+1) {
		k++
	}
	return k
}

// EqualCount sorts predictions into at most that many bins of equal count: bin
// k ends at rank ⌈k·n/bins⌉ in ascending order of confidence, or, if equal
// confidences follow, after the last of them. So bins can be larger, and fewer,
// where confidences tie.
func EqualCount(p *Predictions, bins int) ([]Bin, error) {
	if bins < 1 {
		return nil, fmt.Errorf("%d bins, must be 1 or more", bins)
	}
	n := p.N()
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := p.Confidence[a], p.Confidence[b]; {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	var out []Bin
	for from, k := 0, 1; from < n; k++ {
		to := max((k*n+bins-1)/bins, from)
		if to == from {
			continue
		}
		for to < n && p.Confidence[order[to]] == p.Confidence[order[to-1]] {
			to++
		}
		out = append(out, Bin{Lower: p.Confidence[order[from]], Upper: p.Confidence[order[to-1]], members: order[from:to]})
		from = to
	}
	p.summarise(out)
	return out, nil
}

func (p *Predictions) summarise(bins []Bin) {
	total := 0.0
	for k := range bins {
		b := &bins[k]
		b.N = len(b.members)
		for _, i := range b.members {
			w := p.weight(i)
			b.Weight += w
			b.Confidence += (p.Confidence[i] - b.Confidence) * (w / b.Weight)
			b.Accuracy += w * indicator(p.Correct[i])
		}
		if b.N > 0 {
			b.Accuracy /= b.Weight
		}
		total += b.Weight
	}
	for k := range bins {
		bins[k].Weight /= total
	}
}

// ECE is the expected calibration error, Σ weight·|accuracy − confidence|
// (Naeini et al. 2015; Guo et al. 2017). It is an average over bins: errors of
// both signs within a bin cancel, so it can be far below the calibration error
// (bound that with TotalVariation, NadarayaWatson or Lipschitz), and noise in a
// bin does not, so for small samples it is too large.
func ECE(bins []Bin) float64 {
	sum := 0.0
	for _, b := range bins {
		sum += b.Weight * math.Abs(b.Accuracy-b.Confidence)
	}
	return sum
}

// MCE is the largest |accuracy − confidence| of a bin that is not empty.
func MCE(bins []Bin) float64 {
	worst := 0.0
	for _, b := range bins {
		if b.N > 0 {
			worst = max(worst, math.Abs(b.Accuracy-b.Confidence))
		}
	}
	return worst
}

// class is the binary problem "is it class k", with the probability of k as the
// confidence.
func (p *Predictions) class(k int) *Predictions {
	q := &Predictions{Weight: p.Weight, Confidence: make([]float64, p.N()), Correct: make([]bool, p.N())}
	for i := range q.Confidence {
		q.Confidence[i] = p.Probability[i*p.Classes+k]
		q.Correct[i] = p.Label[i] == k
	}
	return q
}

// ClasswiseECE is the mean over classes of the ECE of "is it class k" (Kull et
// al. 2019), and those of each class; nil if the probability vectors are not
// known.
func ClasswiseECE(p *Predictions, bins int, edge Edge) (mean float64, each []float64, err error) {
	for k := range p.Classes {
		b, err := EqualWidth(p.class(k), bins, edge)
		if err != nil {
			return 0, nil, err
		}
		e := ECE(b)
		each = append(each, e)
		mean += e / float64(p.Classes)
	}
	return mean, each, nil
}
