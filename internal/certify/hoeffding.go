package certify

import "math"

// hoeffding computes the lower bound mean − √(ln(1/α)/2n) (Hoeffding 1963, Theorem 2). The samples are independent and
// in [0,1]; their distributions may differ.
type hoeffding struct {
	n     int64
	alpha float64
	sum   float64
}

func startHoeffding(n int64, alpha float64) func() lowerMean {
	return func() lowerMean { return &hoeffding{n: n, alpha: alpha} }
}

func (h *hoeffding) add(x float64) { h.sum += x }

func (h *hoeffding) lower() float64 {
	n := float64(h.n)
	// The computed sum of n numbers ≤ 1 is within n²·unit of the exact sum.
	return inUnit(h.sum/n-math.Sqrt(math.Log(1/h.alpha)/(2*n)), (n+8)*unit)
}
