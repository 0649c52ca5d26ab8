package calib

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// LooksCopied reports whether rows with equal scores have equal labels so often that the rows are hardly independent.
// For example, some rows may be copies. All bounds, intervals and tests need independent rows.
//
// Rows with equal scores form a set; consider the sets of at least two rows. Let η_g be the probability of label 1 in
// set g. If the labels are independent, two rows of set g have different labels with probability 2η_g(1−η_g). A row of
// g and a row of the next set g′ have different labels with probability η_g(1−η_g′) + η_g′(1−η_g) = η_g(1−η_g) +
// η_g′(1−η_g′) + (η_g−η_g′)². Add up each of these two probabilities over the sets. The two sums differ by at most
// Σ(η_g−η_g′)² plus the largest 2η_g(1−η_g). Σ(η_g−η_g′)² is at most the total variation of η. If the sum over pairs
// within sets is far below the sum over pairs of neighbouring sets, the rows are probably not independent. For example,
// some rows may be copies. LooksCopied allows a total variation of 10. It compares the two sums by a binomial test at
// level 10⁻⁶, as if they were counts. It does not detect copies if all copied rows have the same label.
func LooksCopied(s *Sample) bool {
	const variation, level = 10, 1e-6
	within, across := s.disagreements()
	across -= variation + 1
	if across <= within {
		return false
	}
	total := distuv.Binomial{N: math.Ceil(within + across), P: 0.5}
	return total.CDF(math.Ceil(within)) < level
}

// disagreements returns two sums over sets of rows. A set consists of all rows with the same score, if there are at
// least two such rows. Each sum has one term for each set: the share of pairs in which the two rows have different
// labels. In the sum 'within', both rows of a pair come from the set. In the sum 'across', one row comes from the set,
// and the other row comes from the set before it.
func (s *Sample) disagreements() (within, across float64) {
	before := math.NaN()
	for a := 0; a < s.N(); {
		b, ones := a, 0.0
		for ; b < s.N() && s.packed[b]>>1 == s.packed[a]>>1; b++ {
			ones += float64(s.packed[b] & 1)
		}
		if m := float64(b - a); m > 1 {
			share := ones / m
			within += 2 * ones * (m - ones) / (m * (m - 1))
			if !math.IsNaN(before) {
				across += share*(1-before) + before*(1-share)
			}
			before = share
		}
		a = b
	}
	return within, across
}
