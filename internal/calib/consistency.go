package calib

import (
	"errors"
	"math"
	"sort"

	"github.com/rscert/rscert/internal/binomial"
)

// Consistency holds bands for the accuracies of bins. Suppose that every example is correct with a probability equal to
// its confidence, independently of the others. Then all accuracies lie in their bands with probability at least Level.
type Consistency struct {
	Level   float64
	Bands   [][2]float64 // one band for each bin; [0, 1] for an empty bin
	Outside int          // number of bins whose accuracy lies outside its band
}

// ConsistencyBands returns consistency bands (Bröcker & Smith 2007). Under the hypothesis of CalibrationTest, the
// probability that all accuracies lie in their bands is at least the argument 'level'. If an accuracy lies outside its
// band, the data reject this hypothesis at the significance level 1 − 'level'.
//
// Given the confidences, the numbers S_m of correct examples in the bins are independent. Under the hypothesis, the
// mean of S_m is n_m p, where n_m is the number of examples in bin m and p is their mean confidence. For a ≤ n_m p ≤ b,
//
//	P(S_m < a) ≤ P(Bin(n_m, p) < a),  P(S_m > b) ≤ P(Bin(n_m, p) > b)
//
// (Hoeffding 1956, theorem 4), with equality if all confidences of the bin are equal. For a number β, the band of a bin
// is the shortest [a, b]/n_m such that each of the two binomial tails is at most β/2. The bins are independent, so all
// accuracies lie in their bands with a probability of at least Π_m(1 − both tails of bin m). ConsistencyBands takes the
// largest β for which this product is at least 'level'. The field Level of the result is this product.
func ConsistencyBands(p *Predictions, bins []Bin, level float64) (Consistency, error) {
	if p.Weight != nil {
		return Consistency{}, errors.New("consistency bands are for examples without weights")
	}
	// Let M be the number of bins that are not empty. By the union bound, the bands for β = (1−level)/M have a Level of
	// at least 'level'.
	low, high := (1-level)/float64(max(1, occupied(bins))), 1.0
	best := consistencyAt(bins, low)
	for range 50 {
		mid := math.Sqrt(low * high)
		if next := consistencyAt(bins, mid); next.Level >= level {
			low, best = mid, next
		} else {
			high = mid
		}
	}
	return best, nil
}

// consistencyAt returns the bands for a given β.
func consistencyAt(bins []Bin, beta float64) Consistency {
	c := Consistency{Level: 1, Bands: make([][2]float64, len(bins))}
	for k, b := range bins {
		c.Bands[k] = [2]float64{0, 1}
		if b.N == 0 {
			continue
		}
		n := int64(b.N)
		below := func(a int64) float64 { return binomial.Tail(n, n-a+1, 1-b.Confidence).Upper } // P(Bin < a)
		above := func(x int64) float64 { return binomial.Tail(n, x+1, b.Confidence).Upper }     // P(Bin > x)
		mean := float64(n) * b.Confidence
		most := int(math.Floor(mean))
		first := int64(most - sort.Search(most, func(i int) bool { return below(int64(most-i)) <= beta/2 }))
		least := int64(math.Ceil(mean))
		last := least + int64(sort.Search(int(n-least), func(i int) bool { return above(least+int64(i)) <= beta/2 }))
		c.Bands[k] = [2]float64{float64(first) / float64(n), float64(last) / float64(n)}
		c.Level *= 1 - below(first) - above(last)
		if b.correct < first || b.correct > last {
			c.Outside++
		}
	}
	return c
}
