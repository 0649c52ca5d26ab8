package dataset

import (
	"math"
	"strconv"
)

// The method 'rounding' returns upper bounds on ‖x − float32(x)‖ in L2 and in L1, for the numbers x of example i in the
// file.
func (d *Dataset) rounding(i int) (l2, l1 float64, err error) {
	if d.roundings == nil {
		return 0, 0, nil
	}
	misses := make([]float64, d.size())
	if _, err := d.roundings(i, misses); err != nil {
		return 0, 0, err
	}
	squares := 0.
	for _, m := range misses {
		squares += float64(m * m)
		l1 += m
	}
	if l1 == 0 {
		return 0, 0, nil
	}
	// For n values, the relative error of n products, n sums and one root is below (n+2)·2⁻⁵². The term 2⁻⁵⁰⁰ covers
	// squares that underflow.
	slack := 1 + float64(len(misses)+4)*0x1p-51
	return math.Sqrt(squares)*slack + 0x1p-500, l1 * slack, nil
}

// isNamed reports whether x is a usual spelling of the float32 v: v itself, its shortest decimal, or v with nine
// digits.
func isNamed(x float64, v float32) bool {
	for _, digits := range []int{-1, 9} {
		if name, _ := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', digits, 32), 64); x == name {
			return true
		}
	}
	return x == float64(v)
}

// miss32 returns a float32 that is at least |x − v|, for the float32 v nearest to x.
func miss32(x float64, v float32) float32 {
	miss := math.Abs(x - float64(v)) // exact, because x and v are close (Sterbenz)
	m := float32(miss)
	if float64(m) < miss {
		m = math.Nextafter32(m, math.MaxFloat32)
	}
	return m
}
