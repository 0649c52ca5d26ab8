package selection

import "math"

// Correlation is the rank correlation between two measures over the rows that have both.
type Correlation struct {
	Of     [2]Measure `json:"of"`
	Models int        `json:"models"` // number of rows with both measures
	// Spearman and Kendall are nil if a measure is the same for all models, because they are then undefined.
	Spearman *float64 `json:"spearman,omitempty"`
	Kendall  *float64 `json:"kendall,omitempty"`
}

// fewest is the smallest number of models for which the function 'correlate' returns a rank correlation. For two models
// without ties, the rank correlation says nothing, because it is always 1 or −1.
const fewest = 3

// pairs lists the pairs of measures, as in figure 19 of Emde et al. 2025.
var pairs = [][2]Measure{{Accuracy, CBS}, {Accuracy, CCE}, {Radius, CBS}, {Radius, CCE}, {CBS, CCE}, {Accuracy, Radius}}

// correlate returns the rank correlations between the measures. It leaves out a pair of measures if fewer than 'fewest'
// rows have both of them.
func correlate(rows []Row) (all []Correlation) {
	for _, pair := range pairs {
		var x, y []float64
		for _, row := range rows {
			a, ok := pair[0].value(row)
			b, also := pair[1].value(row)
			if ok && also {
				x, y = append(x, a), append(y, b)
			}
		}
		if len(x) < fewest {
			continue
		}
		c := Correlation{Of: pair, Models: len(x)}
		if rho, ok := spearman(x, y); ok {
			c.Spearman = &rho
		}
		if tau, ok := kendall(x, y); ok {
			c.Kendall = &tau
		}
		all = append(all, c)
	}
	return all
}

// ratio returns numerator/√(x·y) for integers. It returns false if x or y is 0.
func ratio(numerator, x, y int) (float64, bool) {
	if x == 0 || y == 0 {
		return 0, false
	}
	if x == y { // avoids the rounding errors of the square root, so that equal orders give exactly 1
		return float64(numerator) / float64(x), true
	}
	return float64(numerator) / math.Sqrt(float64(x)*float64(y)), true
}

// spearman returns Spearman's rank correlation ρ: Pearson's correlation of the ranks, where tied values share the mean
// of their ranks (Spearman 1904). It returns false if all values of x or all values of y are equal.
func spearman(x, y []float64) (float64, bool) {
	a, b := centredRanks(x), centredRanks(y)
	var ab, aa, bb int
	for i := range a {
		ab += a[i] * b[i]
		aa += a[i] * a[i]
		bb += b[i] * b[i]
	}
	return ratio(ab, aa, bb)
}

// centredRanks returns 2·(rank − (n+1)/2) for each value. This is the number of smaller values minus the number of
// larger values. So it is an integer, even if tied values share a mean rank.
func centredRanks(x []float64) []int {
	ranks := make([]int, len(x))
	for i, v := range x {
		for _, w := range x {
			switch {
			case w < v:
				ranks[i]++
			case w > v:
				ranks[i]--
			}
		}
	}
	return ranks
}

// kendall returns Kendall's rank correlation τ-b: (C − D)/√((P − T_x)(P − T_y)). Of the P pairs of models, C are in the
// same order in x and in y, D are in opposite order, T_x are tied in x, and T_y are tied in y (Kendall 1945). It returns
// false if all values of x or all values of y are equal.
func kendall(x, y []float64) (float64, bool) {
	var balance, untiedX, untiedY int
	for i := range x {
		for j := range i {
			a, b := sign(x[i]-x[j]), sign(y[i]-y[j])
			balance += a * b
			untiedX += a * a
			untiedY += b * b
		}
	}
	return ratio(balance, untiedX, untiedY)
}

func sign(x float64) int {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}
