package calib

import (
	"fmt"
	"math"
)

// TotalVariation returns an upper bound on the calibration error of a classifier whose calibration function has total
// variation at most V (Ciosek et al. 2025, Proposition 1). With probability ≥ 1−δ, for any distribution of scores
// (atoms included),
//
//	CE ≤ mean_valid |s − η̂(s)| + BB(|valid|, δ4, ·) + TVB + PTB
//	t1  = √(½ ln(4/δ1)),  t2 = √((n/8) ln(4(n−1)/δ1)),  n = |train|
//	TVB = √((2t1² + 2t1√(t1²+4t2V) + 4t2V)/n)
//	PTB = (V + V̂)√(ln(2/δ2)/2n) + √(ln(2/δ3)/2n)
//
// BB is the radius of the empirical Bernstein bound, which the function bernstein returns. The bound is cross-fitted:
// each of K folds has the share δ/K, and each of δ1 … δ4 is a quarter of δ/K.
//
// η̂ minimises (1/2n)‖y − v‖² + (t2/n)‖Dv‖₁, where y holds the training labels in ascending order of score, and Dv
// holds the differences v_{j+1} − v_j. The minimum is over v that are functions of the score. So equal scores share one
// value, and together they are one point whose weight is their number. Lemma 4 of the paper stays true, because η̂ and
// η are both functions of the score. The noise bound of the lemma concerns the unmerged labels. So n, also in t2, is
// the number of labels and not the number of distinct scores. The code rounds t2 up, because the lemma holds only if
// the factor of ‖Dv‖₁ is at least t2/n.
//
// Between two neighbouring training scores, η̂ has the same value as at the lower of the two. Below the first training
// score, η̂ has the same value as at the first. Corollary 2 of the paper holds for every extension that does not depend
// on the validation set and has the variation V̂ = Σ|v_{j+1} − v_j|. A step function with one jump between neighbouring
// training scores is such an extension.
//
// If η is monotone, V = 1 is enough. No data can confirm that the total variation is at most V. This is an assumption.
func TotalVariation(s *Sample, cf CrossFit, variation float64) (Bound, error) {
	if err := cf.check(s.N()); err != nil {
		return Bound{}, err
	}
	if !(variation >= 0) || math.IsInf(variation, 0) {
		return Bound{}, fmt.Errorf("variation %v is negative or not finite", variation)
	}
	delta := cf.partShare()
	terms, chosen := cf.run(s, func(part split, _ int) (terms, chosen Terms) {
		n := float64(len(part.train))
		t1 := math.Sqrt(math.Log(4/delta) / 2)
		t2 := cf.noiseLimit(len(part.train))
		fit := denoise(part.train, t2)

		var gap moments
		values := fit.evaluator()
		for _, p := range part.valid {
			score, _ := unpack(p)
			gap.add(math.Abs(score - values.value(p)))
		}
		root := math.Sqrt(t1*t1 + 4*t2*variation)
		tvb := math.Sqrt((2*t1*t1 + 2*t1*root + 4*t2*variation) / n)
		vHat := fit.variation()
		transfer := (variation+vHat)*math.Sqrt(math.Log(2/delta)/(2*n)) + math.Sqrt(math.Log(2/delta)/(2*n))
		return Terms{
				{"gap", gap.mean},
				{"bernstein", bernstein(gap.n, delta, gap.variance(), 1)},
				{"denoising", tvb},
				{"transfer", transfer},
			}, Terms{
				{"lambda", t2 / n},
				{"variation", vHat},
				{"pieces", float64(len(fit.path))},
			}
	})
	// 1e-12 is more than the rounding error of η̂. Each value of η̂ has an error of a few units in the last place
	// (tautString).
	return newBound(terms, chosen, cf.Delta, 1e-12+meanRoundoff(s.N()), true)
}

// noiseLimit returns t2 of TotalVariation. The argument 'train' is the number of training labels.
func (cf CrossFit) noiseLimit(train int) float64 {
	n := float64(train)
	return dyadicAbove(math.Sqrt(n / 8 * math.Log(4*(n-1)/cf.partShare())))
}

// partShare returns a quarter of the failure probability of one fold.
func (cf CrossFit) partShare() float64 { return cf.Delta / float64(cf.Folds) / 4 }

// dyadicAbove rounds x up to a multiple of 2⁻²⁰. For up to 2³² labels, a sum of labels plus or minus a multiple of 2⁻²⁰
// is exact in float64.
func dyadicAbove(x float64) float64 { return math.Ceil(x*(1<<20)) / (1 << 20) }

// The type 'denoised' is η̂ on training points. The j-th training point, counted from 1, has the value of the first
// piece with end ≥ j.
type denoised struct {
	train []uint64
	path  []piece
}

// denoise fits η̂ to points in ascending order of score.
func denoise(train []uint64, lambda float64) denoised {
	t := tautString{lambda: lambda}
	sum := 0.0
	for i, p := range train {
		sum += float64(p & 1)
		switch {
		case i+1 == len(train):
			return denoised{train, t.finish(float64(i+1), sum)}
		case p>>1 != train[i+1]>>1:
			t.add(float64(i+1), sum)
		}
	}
	return denoised{}
}

func (d denoised) variation() float64 {
	sum := 0.0
	for k := 1; k < len(d.path); k++ {
		sum += math.Abs(d.path[k].value - d.path[k-1].value)
	}
	return sum
}

// evaluator evaluates η̂ at points in ascending order.
type evaluator struct {
	denoised
	below int // number of training points whose score is at most the score in the last call of the method 'value'
	k     int
}

func (d denoised) evaluator() *evaluator { return &evaluator{denoised: d} }

func (e *evaluator) value(p uint64) float64 {
	for e.below < len(e.train) && e.train[e.below]>>1 <= p>>1 {
		e.below++
	}
	for e.path[e.k].end < float64(e.below) {
		e.k++
	}
	return e.path[e.k].value
}
