package lipschitz

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// svd computes the largest singular value of a matrix with gonum, without SpectralNorm.
func svd(t *testing.T, rows, cols int, data []float64) float64 {
	t.Helper()
	var d mat.SVD
	if !d.Factorize(mat.NewDense(rows, cols, data), mat.SVDNone) {
		t.Fatal("no singular values")
	}
	return d.Values(nil)[0]
}

// The values come from numpy.linalg.norm(A, 2) of numpy 2, with A[i, j] = sin(7i² + 3j + 1).
func TestSpectralNormOfNumpy(t *testing.T) {
	for _, c := range []struct {
		rows, cols int
		want       float64
	}{
		{3, 3, 2.361123670735225},
		{5, 12, 3.8296280773368805},
		{40, 17, 16.014401886117962},
	} {
		data := make([]float64, c.rows*c.cols)
		for k := range data {
			i, j := float64(k/c.cols), float64(k%c.cols)
			data[k] = math.Sin(7*i*i + 3*j + 1)
		}
		if got := SpectralNorm(c.rows, c.cols, data); got < c.want*(1-1e-14) || got > c.want*1.002 {
			t.Errorf("%d×%d: %v, want %v", c.rows, c.cols, got, c.want)
		}
	}
}

// The bound is above the norm and near it, for any number of squarings. The matrices have many scales, and some have
// equal singular values.
func TestSpectralNorm(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for trial := range 60 {
		rows, cols := 1+r.IntN(20), 1+r.IntN(20)
		scale := math.Exp(100 * r.NormFloat64())
		data := make([]float64, rows*cols)
		for k := range data {
			data[k] = scale * r.NormFloat64()
			if trial%3 == 0 { // rank 1
				data[k] = scale * float64(k%cols+1) * float64(k/cols-3)
			}
		}
		want := svd(t, rows, cols, data)
		if got := SpectralNorm(rows, cols, data); got < want*(1-1e-13) || got > want*1.002 {
			t.Errorf("%d×%d: %v, want %v", rows, cols, got, want)
		}
		for k := range 5 {
			most := math.Pow(float64(min(rows, cols)), 1/math.Exp2(float64(k)+2))
			if got := (matrix{rows, cols, data}).norm(k); got < want*(1-1e-13) || got > want*most*(1+1e-12) {
				t.Errorf("%d×%d, %d squarings: %v, want %v", rows, cols, k, got, want)
			}
		}
	}
	identity := make([]float64, 50*50)
	for i := range 50 {
		identity[51*i] = 0.25
	}
	if got := SpectralNorm(50, 50, identity); got < 0.25 || got > 0.25*1.002 {
		t.Errorf("identity: %v", got)
	}
	for _, c := range []struct {
		x, want float64
	}{{0, 0}, {math.NaN(), math.Inf(1)}, {math.Inf(-1), math.Inf(1)}, {5e-324, 5e-324}} {
		if got := SpectralNorm(1, 2, []float64{0, c.x}); got < c.want || got > c.want*1.001 {
			t.Errorf("%v: %v, want %v", c.x, got, c.want)
		}
	}
	if got := SpectralNorm(1, 1, []float64{math.MaxFloat64}); got < math.MaxFloat64 {
		t.Errorf("largest number: %v", got)
	}
}

// The function 'rounding' must return the error bound γ_n of a sum of n products, which is slightly more than n·2⁻⁵³.
func TestRounding(t *testing.T) {
	for _, n := range []int{1, 100, 1e6} {
		if g := rounding(n); g < float64(n)*0x1p-53 || g > float64(n+3)*0x1.001p-53 {
			t.Errorf("γ_%d = %v", n, g)
		}
	}
	// For the rank-1 matrix of ones, every squaring is exact. So the bound exceeds the norm only because it allows for
	// rounding errors.
	ones := make([]float64, 64*64)
	for i := range ones {
		ones[i] = 1
	}
	if got := SpectralNorm(64, 64, ones); !(got > 64) || got > 64*(1+1e-10) {
		t.Errorf("ones: %v", got)
	}
}

// The function 'explicit' computes the matrix of a zero-padded convolution directly from the definition of a
// convolution.
func explicit(c Convolution, size, pad []int) (rows, cols int, data []float64) {
	axes := len(c.Kernel)
	out := make([]int, axes)
	for a := range out {
		out[a] = (size[a]+2*pad[a]-(c.Kernel[a]-1)*c.Dilations[a]-1)/c.Strides[a] + 1
	}
	places, positions, taps := product(size), product(out), product(c.Kernel)
	rows, cols = c.Groups*c.Out*positions, c.Groups*c.In*places
	data = make([]float64, rows*cols)
	for o := range c.Groups * c.Out {
		for i := range c.In {
			for p := range positions {
				for t := range taps {
					at, tap, place, inside := digits(p, out), digits(t, c.Kernel), 0, true
					for a := range axes {
						x := at[a]*c.Strides[a] + tap[a]*c.Dilations[a] - pad[a]
						inside = inside && x >= 0 && x < size[a]
						place = place*size[a] + x
					}
					if inside {
						channel := o/c.Out*c.In + i
						data[(o*positions+p)*cols+channel*places+place] += c.Weights[(o*c.In+i)*taps+t]
					}
				}
			}
		}
	}
	return rows, cols, data
}

// For every size and padding, the bound is above the norm of the explicit matrix. For large inputs, it is near this
// norm.
func TestConvolutionNorm(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	for _, c := range []struct {
		name string
		Convolution
		size, pad []int
		near      float64 // largest allowed ratio of the bound to the norm
	}{
		{"3×3", Convolution{Out: 3, In: 2, Groups: 1, Kernel: []int{3, 3}, Strides: []int{1, 1}, Dilations: []int{1, 1}}, []int{12, 12}, []int{1, 1}, 1.08},
		{"1×1", Convolution{Out: 3, In: 4, Groups: 1, Kernel: []int{1, 1}, Strides: []int{1, 1}, Dilations: []int{1, 1}}, []int{3, 3}, []int{0, 0}, 1.003},
		{"stride 2", Convolution{Out: 4, In: 2, Groups: 1, Kernel: []int{3, 3}, Strides: []int{2, 2}, Dilations: []int{1, 1}}, []int{15, 15}, []int{1, 1}, 1.1},
		{"stride 3 on one axis, dilation 2", Convolution{Out: 2, In: 2, Groups: 1, Kernel: []int{3, 4}, Strides: []int{3, 1}, Dilations: []int{2, 2}}, []int{14, 18}, []int{2, 0}, 1.25},
		{"stride above the kernel", Convolution{Out: 2, In: 2, Groups: 1, Kernel: []int{2}, Strides: []int{3}, Dilations: []int{1}}, []int{20}, []int{0}, 1.01},
		{"patches", Convolution{Out: 5, In: 2, Groups: 1, Kernel: []int{4, 4}, Strides: []int{4, 4}, Dilations: []int{1, 1}}, []int{8, 8}, []int{0, 0}, 1.003},
		{"groups", Convolution{Out: 2, In: 3, Groups: 2, Kernel: []int{5}, Strides: []int{1}, Dilations: []int{1}}, []int{40}, []int{2}, 1.03},
		{"dilation 3", Convolution{Out: 2, In: 2, Groups: 1, Kernel: []int{3}, Strides: []int{1}, Dilations: []int{3}}, []int{60}, []int{3}, 1.03},
		{"stride 2, dilation 2", Convolution{Out: 2, In: 2, Groups: 1, Kernel: []int{3}, Strides: []int{2}, Dilations: []int{2}}, []int{60}, []int{0}, 1.03},
		{"one position", Convolution{Out: 3, In: 2, Groups: 1, Kernel: []int{4, 4}, Strides: []int{1, 1}, Dilations: []int{1, 1}, Single: true}, []int{4, 4}, []int{0, 0}, 1.003},
	} {
		for trial := range 4 {
			c.Weights = make([]float64, c.Groups*c.Out*c.In*product(c.Kernel))
			for k := range c.Weights {
				c.Weights[k] = r.NormFloat64()
				if trial == 0 { // with equal weights, ‖Ŵ(ω)‖₂ is largest at ω = 0
					c.Weights[k] = 1
				}
			}
			rows, cols, data := explicit(c.Convolution, c.size, c.pad)
			want, got := svd(t, rows, cols, data), c.Norm()
			near := c.near
			if trial == 0 { // equal weights nearly attain the bound only if most positions are far from the edges
				near = max(near, 1.3)
			}
			if got < want*(1-1e-12) || got > want*near {
				t.Errorf("%s: %v, the explicit matrix has %v (ratio %v)", c.name, got, want, got/want)
			}
		}
	}
}

// The bound from a grid must not be below the norm of the convolution. It may exceed the norm by a factor that depends
// on the number of grid points. At each frequency ω, the real matrix that 'transform' returns must have the norm |Ŵ(ω)|
// (see Norm).
func TestConvolutionGrid(t *testing.T) {
	c := Convolution{Out: 1, In: 1, Groups: 1, Kernel: []int{3}, Strides: []int{1}, Dilations: []int{1}, Weights: []float64{1, 2, -0.5}}
	sup := 0.0
	for k := range 100_000 {
		w := 2 * math.Pi * float64(k) / 100_000
		sup = max(sup, math.Hypot(1+2*math.Cos(w)-0.5*math.Cos(2*w), 2*math.Sin(w)-0.5*math.Sin(2*w)))
	}
	for _, n := range []int{5, 6, 8, 16, 32} {
		got, most := c.symbol(c.Weights, []int{n}), 1/math.Sqrt(math.Cos(2*math.Pi/float64(n)))
		if got < sup || got > sup*most*1.002 {
			t.Errorf("grid %d: %v, the norm is %v", n, got, sup)
		}
	}
	for k := range 7 {
		m, err := c.transform(c.Weights, []int{k}, []int{7})
		w := 2 * math.Pi * float64(k) / 7
		want := math.Hypot(1+2*math.Cos(w)-0.5*math.Cos(2*w), 2*math.Sin(w)-0.5*math.Sin(2*w))
		if got := svd(t, 2, 2, m.data); math.Abs(got-want) > 1e-13 || err < 1e-14 || err > 1e-12 {
			t.Errorf("frequency %d: %v ± %v, want %v", k, got, err, want)
		}
	}
}
