package lipschitz

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// Up is a factor that turns a computed positive number into an upper bound. It is large enough for the errors of a few
// roundings.
const Up = 1 + 0x1p-47

const (
	unit = 0x1p-53 // largest relative error of a rounding
	up   = Up
	// Numbers below the smallest normal float64 lose precision. The constant 'tiny' is larger than the sum of the
	// errors from this loss, for matrices of up to 2³² elements whose largest element is near 1.
	tiny = 0x1p-960
)

// matrix is a matrix of real numbers, stored row by row.
type matrix struct {
	rows, cols int
	data       []float64
}

// SpectralNorm returns an upper bound on the largest singular value ‖A‖₂ of a matrix that is stored row by row.
//
// Let M₀ be the smaller of AᵀA and AAᵀ, and ρ the spectral radius. Then ‖A‖₂² = ρ(M₀). For a symmetric matrix M of n
// rows, ρ(M) = ρ(M²)^½ ≤ ‖M²‖_F^½. So after k squarings M_{j+1} = M_j²,
//
//	‖A‖₂² ≤ ‖M_k‖_F^{1/2^k} ≤ n^{1/2^{k+1}}·‖A‖₂²
//
// for every k (Gram iteration; Delattre et al. 2023). A power iteration would give a lower bound instead.
//
// Rounding: let an inner product of n numbers be computed in float64, with the sums in any order. Its error is at most
// γ_n times the inner product of the absolute values, with γ_n = n·u/(1−n·u) and u = 2⁻⁵³ (Higham 2002, section 3.1).
// So the computed S = fl(M²) has ‖S−M²‖_F ≤ γ_n‖M‖_F², and ρ(M)² ≤ ρ(S) + γ_n‖M‖_F². S is symmetric, because one half
// of it is copied. These inequalities are applied to the squarings from the last to the first, and so give a bound for
// A. Scaling by powers of two is exact and prevents overflow.
func SpectralNorm(rows, cols int, data []float64) float64 {
	return matrix{rows, cols, data}.norm(squarings(min(rows, cols)))
}

// mostSquarings limits the number k of squarings. Apart from rounding errors, the bound on a norm is too large by at
// most the factor n^{1/2^{k+2}} for n rows. With mostSquarings, this factor is less than 1.002 for up to 3500 rows.
const mostSquarings = 10

// flopBudget limits the work for the squarings of one matrix.
const flopBudget = 2e11

// squarings returns the number of times to square a matrix of n rows (see SpectralNorm).
func squarings(n int) int {
	return int(min(mostSquarings, max(1, flopBudget/math.Pow(float64(n), 3))))
}

// norm returns an upper bound on the largest singular value. It computes this bound with k squarings of a Gram matrix.
func (a matrix) norm(k int) float64 {
	largest := 0.0
	for _, x := range a.data {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return math.Inf(1)
		}
		largest = max(largest, math.Abs(x))
	}
	if largest == 0 {
		return 0
	}
	scaled, exponent := a.scale(largest)
	return math.Ldexp(math.Sqrt(scaled.gramRadius(k))*up, exponent)
}

// scale divides the elements by a power of two, so that the largest absolute value is in [½, 1). Elements that become
// smaller than the smallest normal number are rounded; the constant 'tiny' covers their error.
func (a matrix) scale(largest float64) (scaled matrix, exponent int) {
	_, exponent = math.Frexp(largest)
	scaled = matrix{a.rows, a.cols, make([]float64, len(a.data))}
	for i, x := range a.data {
		scaled.data[i] = math.Ldexp(x, -exponent)
	}
	return scaled, exponent
}

// gramRadius returns an upper bound on ρ(AᵀA), which it computes with k squarings of the Gram matrix.
func (a matrix) gramRadius(k int) float64 {
	side, inner, product := a.cols, a.rows, blas.Trans
	if a.rows < a.cols {
		side, inner, product = a.rows, a.cols, blas.NoTrans
	}
	gram := symmetric(side, product, a)
	return gram.radius(k) + rounding(inner)*square(a.frobenius()) + tiny
}

// The function 'symmetric' returns AᵀA if 'product' is blas.Trans, and AAᵀ if 'product' is blas.NoTrans.
func symmetric(side int, product blas.Transpose, a matrix) matrix {
	out := matrix{side, side, make([]float64, side*side)}
	blas64.Syrk(product, 1, blas64.General{Rows: a.rows, Cols: a.cols, Stride: a.cols, Data: a.data}, 0,
		blas64.Symmetric{Uplo: blas.Upper, N: side, Stride: side, Data: out.data})
	for i := range side {
		for j := range i {
			out.data[i*side+j] = out.data[j*side+i]
		}
	}
	return out
}

// radius returns an upper bound on the spectral radius of a symmetric matrix. It computes the bound with k squarings of
// the matrix.
func (a matrix) radius(k int) float64 {
	if k == 0 {
		return a.frobenius()
	}
	largest := 0.0
	for _, x := range a.data {
		largest = max(largest, math.Abs(x))
	}
	if largest == 0 {
		return tiny
	}
	m, exponent := a.scale(largest)
	squared := symmetric(m.rows, blas.NoTrans, m).radius(k-1) + rounding(m.rows)*square(m.frobenius()) + tiny
	return math.Ldexp(math.Sqrt(squared)*up, exponent) + tiny
}

// frobenius returns an upper bound on the Frobenius norm.
func (a matrix) frobenius() float64 {
	sum := 0.0
	for _, x := range a.data {
		sum += x * x
	}
	return math.Sqrt(sum*(1+rounding(len(a.data)+2))) * up
}

func square(x float64) float64 { return x * x * up }

// rounding returns γ_n (see SpectralNorm), rounded up.
func rounding(n int) float64 { return float64(n+2) * unit / (1 - float64(n+2)*unit) * up }
