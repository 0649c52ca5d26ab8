package calib

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/dsp/fourier"
)

// SmoothCurve is the result of SmoothECE.
type SmoothCurve struct {
	ECE float64 // smECE, which equals the bandwidth
	// Accuracy[j] is the accuracy at the confidence j/(len(Accuracy)−1), by kernel regression with the bandwidth ECE.
	// Density[j] is the density of the confidences at the same point.
	Accuracy, Density []float64
}

// SmoothECE returns the smooth calibration error of Błasiok & Nakkiran (2023),
//
//	smECE_σ = ∫₀¹ |(1/n) Σ_i (correct_i − c_i) K_σ(t, c_i)| dt,
//
// where K_σ is the Gaussian of width σ reflected at 0 and 1. The result is smECE_σ at the σ with smECE_σ = σ. This σ
// exists because smECE_σ falls as σ grows (their Theorem 9). This error needs no bins and is continuous in the
// confidences. The code computes on a grid of smoothGrid cells. If the result is below about 3/smoothGrid, the width of
// a grid cell influences it.
//
// On the grid, an example is split between both ends of its cell. The reflected kernel is diagonal in the cosine
// transform, with eigenvalues exp(−(πkσ)²/2). An example with confidence 0 or 1 has the same weight as any other
// example. (But the literal definition in the paper halves this weight.)
func SmoothECE(p *Predictions) SmoothCurve {
	s := newGridSmoother(p)
	lo, hi := 0.0, 1.0
	for range 40 {
		if mid := (lo + hi) / 2; s.ece(mid) > mid {
			lo = mid
		} else {
			hi = mid
		}
	}
	return s.curve(hi)
}

const smoothGrid = 1 << 13

// gridSmoother holds three cosine transforms on the grid: of the residuals, of the right answers and of the weights.
type gridSmoother struct {
	dct             *fourier.DCT
	residual, right []float64
	weight          []float64
	work            []float64
}

func newGridSmoother(p *Predictions) *gridSmoother {
	nodes := smoothGrid + 1
	s := &gridSmoother{dct: fourier.NewDCT(nodes), work: make([]float64, nodes),
		residual: make([]float64, nodes), right: make([]float64, nodes), weight: make([]float64, nodes)}
	total := 0.0
	for i, c := range p.Confidence {
		at := c * smoothGrid
		k := min(int(at), smoothGrid-1)
		w := p.weight(i)
		far := w * (at - float64(k))
		total += w
		s.weight[k] += w - far
		s.weight[k+1] += far
		r := p.residual(i)
		s.residual[k] += r * (w - far)
		s.residual[k+1] += r * far
		if p.Correct[i] {
			s.right[k] += w - far
			s.right[k+1] += far
		}
	}
	for _, x := range [][]float64{s.residual, s.right, s.weight} {
		x[0] *= 2 // at an end, the node and its reflection coincide
		x[smoothGrid] *= 2
		s.dct.Transform(x, x)
		for k := range x {
			x[k] /= 2 * total // the inverse transform multiplies by 2·smoothGrid; a cell is 1/smoothGrid wide
		}
	}
	return s
}

// The method 'smooth' smooths a function on the grid by the kernel of width σ. The argument 'transform' is the cosine
// transform of the function. The method writes the values of the smoothed function at the nodes to dst.
func (s *gridSmoother) smooth(dst, transform []float64, sigma float64) {
	for k, x := range transform {
		f := math.Pi * float64(k) * sigma
		s.work[k] = x * math.Exp(-f*f/2)
	}
	s.dct.Transform(dst, s.work)
}

// ece returns smECE_σ, by the trapezoid rule.
func (s *gridSmoother) ece(sigma float64) float64 {
	at := make([]float64, smoothGrid+1)
	s.smooth(at, s.residual, sigma)
	sum := (math.Abs(at[0]) + math.Abs(at[smoothGrid])) / 2
	for _, x := range at[1:smoothGrid] {
		sum += math.Abs(x)
	}
	return sum / smoothGrid
}

func (s *gridSmoother) curve(sigma float64) SmoothCurve {
	c := SmoothCurve{sigma, make([]float64, smoothGrid+1), make([]float64, smoothGrid+1)}
	s.smooth(c.Accuracy, s.right, sigma)
	s.smooth(c.Density, s.weight, sigma)
	for j, d := range c.Density {
		c.Accuracy[j] = clamp01(c.Accuracy[j] / max(d, math.SmallestNonzeroFloat64))
	}
	return c
}

// Points returns the regression at evenly spaced confidences, about 'count' of them. It omits points where the density
// is below a thousandth of its maximum, because too few examples determine the regression at these points.
func (c SmoothCurve) Points(count int) (confidence, accuracy []float64) {
	most := slices.Max(c.Density)
	for j := 0; j < len(c.Accuracy); j += max(1, (len(c.Accuracy)-1)/count) {
		if c.Density[j] >= most/1000 {
			confidence = append(confidence, float64(j)/float64(len(c.Accuracy)-1))
			accuracy = append(accuracy, c.Accuracy[j])
		}
	}
	return confidence, accuracy
}
