package dataset

import (
	"math"
	"slices"
	"strconv"
)

// rounding bounds ‖x − float32(x)‖₂ from above for the numbers x that the file holds of example i.
func (d *Dataset) rounding(i int) (float64, error) {
	if d.roundings == nil {
		return 0, nil
	}
	misses := make([]float64, d.size())
	if _, err := d.roundings(i, misses); err != nil {
		return 0, err
	}
	sum := 0.
	for _, m := range misses {
		sum += float64(m * m)
	}
	if sum == 0 && slices.Max(misses) == 0 {
		return 0, nil
	}
	// n products, n sums and one root are off by less than (n+2)·2⁻⁵²; 2⁻⁵⁰⁰ covers squares that underflow.
	return math.Sqrt(sum)*(1+float64(len(misses)+4)*0x1p-51) + 0x1p-500, nil
}

// isNamed reports whether x is how a program writes the float32 v: v itself, its shortest decimal or its nine digits.
func isNamed(x float64, v float32) bool {
	for _, digits := range []int{-1, 9} {
		if name, _ := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', digits, 32), 64); x == name {
			return true
		}
	}
	return x == float64(v)
}

// miss32 bounds |x − v| from above by a float32, for the float32 v nearest to x.
func miss32(x float64, v float32) float32 {
	miss := math.Abs(x - float64(v)) // exact: the two are near each other
	m := float32(miss)
	if float64(m) < miss {
		m = math.Nextafter32(m, math.MaxFloat32)
	}
	return m
}
