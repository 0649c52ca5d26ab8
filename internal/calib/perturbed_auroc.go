package calib

import (
	"errors"
	"fmt"
	"math"
)

// PerturbedAUROC says how a bandwidth of Sech changes the area under the ROC curve.
type PerturbedAUROC struct {
	Bandwidth float64 `json:"bandwidth"`
	// After is the mean AUROC of the perturbed scores over the repeats. SD is the standard deviation of the AUROC over
	// the repeats. With only one repeat, SD is 0.
	After float64 `json:"after"`
	SD    float64 `json:"sd"`
	// With probability ≥ 1 − δ, the interval from Low to High contains the change of the AUROC in the population. This
	// holds for any number of rows.
	Low  float64 `json:"change_low"`
	High float64 `json:"change_high"`
}

// AUROCAfter perturbs the original scores with k as often as the argument 'repeats' says, and measures the AUROC each
// time. Repeat 0 uses k.Seed, and every other repeat uses another seed. The random numbers also depend on the row
// number. The first score has the row number firstRow.
//
// The interval is computed as follows. The AUROC is the mean of r(i, j) over the positives i and the negatives j. Here
// r is 1, ½ or 0 if the score of i is above, at or below the score of j (see ranking). Match the positives and the
// negatives at random into as many disjoint pairs as possible. Given the labels, the pairs are independent and
// identically distributed. For each pair, take r after the perturbation minus r before it, averaged over the repeats.
// This difference lies in [−1, 1], and its mean is the change of the AUROC. The betting interval of MeanInterval
// encloses this mean. The interval is narrow if the perturbation reverses few pairs. An interval that uses every pair
// of a positive and a negative would be narrower, but only asymptotically valid.
func AUROCAfter(score, label []float64, k Sech, firstRow, repeats int, delta float64) (PerturbedAUROC, error) {
	out := PerturbedAUROC{Bandwidth: k.Bandwidth}
	if err := errors.Join(checkBandwidth(k.Bandwidth), checkDelta(delta)); err != nil {
		return out, err
	}
	if repeats < 1 {
		return out, fmt.Errorf("%d repeats: at least 1 is needed", repeats)
	}
	pairs := matchLabels(label, k.Seed)
	change := make([]float64, len(pairs))
	for p, pair := range pairs {
		change[p] = -ranking(score[pair[0]], score[pair[1]])
	}
	perturbed := make([]float64, len(score))
	var found moments
	for r := range repeats {
		draw := k
		if r > 0 {
			draw.Seed = mix64(k.Seed ^ mix64(uint64(r)))
		}
		for i, s := range score {
			perturbed[i] = draw.Perturb(s, firstRow+i)
		}
		sample, err := NewSample(perturbed, label)
		if err != nil {
			return out, err
		}
		after, err := sample.AUROC()
		if err != nil {
			return out, err
		}
		found.add(after)
		for p, pair := range pairs {
			change[p] += ranking(perturbed[pair[0]], perturbed[pair[1]]) / float64(repeats)
		}
	}
	out.After = found.mean
	if repeats > 1 {
		out.SD = math.Sqrt(found.variance() * float64(repeats) / float64(repeats-1))
	}
	const rounding = 1e-9 // rounding error of the mean
	low, high := MeanInterval(len(pairs), func(p int) float64 { return clamp01((change[p] + 1) / 2) }, delta, k.Seed)
	out.Low, out.High = max(-1, 2*low-1-rounding), min(1, 2*high-1+rounding)
	return out, nil
}

// ranking returns 1, ½ or 0 if the score of the positive is above, at or below the score of the negative.
func ranking(positive, negative float64) float64 {
	switch {
	case positive > negative:
		return 1
	case positive == negative:
		return 0.5
	}
	return 0
}

// matchLabels returns random disjoint pairs. Each pair holds a row with label 1 and a row with label 0.
func matchLabels(label []float64, seed uint64) [][2]int {
	var rows [2][]int
	for i, y := range label {
		k := int(indicator(y == 1))
		rows[k] = append(rows[k], i)
	}
	r := newStream(seed, streamMatches)
	pairs := make([][2]int, min(len(rows[0]), len(rows[1])))
	for p := range pairs {
		for k := range rows {
			j := p + r.uniformBelow(len(rows[k])-p)
			rows[k][p], rows[k][j] = rows[k][j], rows[k][p]
		}
		pairs[p] = [2]int{rows[1][p], rows[0][p]}
	}
	return pairs
}
