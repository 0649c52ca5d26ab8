package calib

import (
	"fmt"

	"github.com/rscert/rscert/internal/fixedpoint"
)

// MaxBins is the largest number of bins. With at most MaxBins bins, every edge except 0 is 2⁻¹¹ or more, and is
// therefore exact in package fixedpoint.
const MaxBins = 2048

// Bins are M bins of equal width on [0, 1]. Bin m is [e_m, e_{m+1}); the last bin is closed. The edge e_m is the
// float64 quotient float64(m)/float64(M). The method Index alone decides which bin a confidence lies in. It compares
// the confidence with these edges.
type Bins struct {
	edge []float64 // the M+1 edges
}

// NewBins returns m bins.
func NewBins(m int) (Bins, error) {
	if m < 1 || m > MaxBins {
		return Bins{}, fmt.Errorf("%d bins: must be 1 to %d", m, MaxBins)
	}
	edge := make([]float64, m+1)
	for k := range edge {
		edge[k] = float64(k) / float64(m)
	}
	return Bins{edge}, nil
}

// Edges returns e_0 … e_M. The caller must not change them.
func (b Bins) Edges() []float64 { return b.edge }

// Len returns the number of bins M.
func (b Bins) Len() int { return len(b.edge) - 1 }

// Index returns the bin of x, where 0 ≤ x ≤ 1.
//
// If the confidence of a sample can lie anywhere in [l, u], the sample reaches (can fall into) the bins Index(l) to
// Index(u). These are the bins m with l < e_{m+1} and u ≥ e_m; the last bin needs only u ≥ e_m, because it is closed.
func (b Bins) Index(x float64) int {
	last := b.Len() - 1
	k := min(int(x*float64(len(b.edge)-1)), last) // may be off by one, because x·M rounds
	for x < b.edge[k] {
		k--
	}
	for k < last && x >= b.edge[k+1] {
		k++
	}
	return k
}

// ECE returns the expected calibration error of confidences z with correctness c,
//
//	(1/N) Σ_m | Σ_{n in bin m} (c_n − z_n) |,
//
// rounded down. Each z is first rounded down to a multiple of 2⁻⁶³, which leaves it in its bin. The sums are exact, so
// the order of the samples does not matter.
func (b Bins) ECE(z []float64, correct func(n int) bool) float64 {
	return b.WeightedECE(z, correct, RowWeights{})
}

// WeightedECE returns the expected calibration error with weights, Σ_m|Σ_{n in bin m} w_n(c_n − z_n)|/Σw_n, rounded
// down.
func (b Bins) WeightedECE(z []float64, correct func(n int) bool, w RowWeights) float64 {
	gap := make([]fixedpoint.Sum, b.Len())
	for n, x := range z {
		g := &gap[b.Index(x)]
		if correct(n) {
			*g = g.Add(fixedpoint.Product(w.of(n), fixedpoint.One))
		}
		*g = g.Sub(fixedpoint.Product(w.of(n), fixedpoint.Floor(x)))
	}
	var total fixedpoint.Sum
	for _, g := range gap {
		total = total.Add(g.Abs())
	}
	return max(0, w.meanDown(total, len(z)))
}
