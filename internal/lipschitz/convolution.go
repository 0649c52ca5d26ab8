package lipschitz

import (
	"container/heap"
	"math"
)

// Convolution describes a convolution with zero padding, or its transpose. Padding and the sizes of the input do not
// matter for the bound.
type Convolution struct {
	Out, In   int // number of output channels and number of input channels, both per group
	Groups    int
	Kernel    []int // size on each spatial axis
	Strides   []int
	Dilations []int
	// Weights holds Groups·Out blocks of In·ΠKernel numbers.
	Weights []float64
	// Single says that the output has only one position. Then no two windows overlap.
	Single bool
}

// Norm returns an upper bound on the norm of the convolution as a linear map from L2 to L2, for every size of the input
// and every zero padding. For each group, Norm computes two bounds and takes the smaller one. The result is the largest
// of these numbers over all groups.
//
// First bound. Let r be an upper bound on the number of windows in which an input position occurs. Cutting out the
// windows multiplies the squared norm by at most r. On an axis with k taps, stride s and dilation d, position i occurs
// once for each tap t < k with t·d ≡ i (mod s). There are at most ⌈k·gcd(s,d)/s⌉ such taps. The number r is the product
// of these limits over all axes. The convolution then multiplies each window with the matrix W of Out rows. So the norm
// is at most √r·‖W‖₂.
//
// Second bound. A convolution of stride s on an axis is the same as a convolution of stride 1 on s times as many
// channels: position j·s+r of channel c becomes position j of channel (c, r). This rearrangement keeps the norm. A tap
// t with t·d = q·s + r becomes tap q. Extend the input by zeros to all integer positions. The convolution with zero
// padding is a part of the convolution on all integer positions. By Parseval's theorem, the convolution on all
// positions has the norm sup_ω ‖Ŵ(ω)‖₂ with Ŵ(ω) = Σ_q W_q e^{iω·q}. For unit vectors u and v, p(ω) = u*Ŵ(ω)v has the
// frequencies 0 to Q−1 on an axis with Q taps, so |p|² is a real trigonometric polynomial of degree Q−1. On such an
// axis, let ω₀ be the point at which |p|² has its maximum M. Near ω₀, |p|² ≥ M·cos((Q−1)(ω−ω₀)) (M. Riesz). A grid of N
// > 2(Q−1) equidistant points has a point within π/N of ω₀. So each axis contributes one factor cos(π(Q−1)/N):
//
//	sup_ω ‖Ŵ(ω)‖₂² ≤ max_grid ‖Ŵ(ω)‖₂² / Π cos(π(Q−1)/N).
//
// The complex matrix Ŵ becomes the real matrix [Re −Im; Im Re], which has the same norm. Ŵ(−ω) is the conjugate of
// Ŵ(ω), so half of the grid is enough. At each point ω of the grid, Norm squares a Gram matrix to get a bound. Norm
// stops squaring at a point when the bound there is below the final bound at another point.
//
// The transposed convolution is the adjoint map, which has the same norm.
func (c Convolution) Norm() float64 {
	worst := 0.0
	taps := product(c.Kernel)
	size := c.Out * c.In * taps
	for g := range c.Groups {
		w := c.Weights[g*size : (g+1)*size]
		bound := math.Sqrt(c.overlap()) * SpectralNorm(c.Out, c.In*taps, w) * up
		if grid := c.grid(); grid != nil {
			bound = min(bound, c.symbol(w, grid))
		}
		worst = max(worst, bound)
	}
	return worst
}

// overlap returns an upper bound r on the number of windows in which an input position occurs (see the first bound in
// Norm).
func (c Convolution) overlap() float64 {
	r := 1.0
	if c.Single {
		return r
	}
	for a, k := range c.Kernel {
		g := gcd(c.Strides[a], c.Dilations[a])
		r *= float64((k*g + c.Strides[a] - 1) / c.Strides[a])
	}
	return r
}

// dilation returns the value that the second bound (see Norm) uses as the dilation on an axis. If the stride is 1, the
// result is 1: at stride 1, a dilation only stretches the frequencies and does not change the norm.
func (c Convolution) dilation(axis int) int {
	if c.Strides[axis] == 1 {
		return 1
	}
	return c.Dilations[axis]
}

// polyTaps returns the number Q of taps on an axis (see Norm).
func (c Convolution) polyTaps(axis int) int {
	return (c.Kernel[axis]-1)*c.dilation(axis)/c.Strides[axis] + 1
}

const (
	gridBudget   = 2e11    // limits the work for the Gram matrices of a grid
	symbolBudget = 1 << 26 // limits the number of elements of Ŵ(ω)
)

// grid returns the number of grid points on each axis: 16, 8 or 4 times the degree Q−1 (see Norm), but at least 1. It
// takes the finest of these three grids that gridBudget allows. It returns nil if no grid is allowed or if Ŵ(ω) has
// more than symbolBudget elements.
func (c Convolution) grid() []int {
	cols := float64(c.In)
	for _, s := range c.Strides {
		cols *= float64(s)
	}
	if cols*float64(c.Out) > symbolBudget {
		return nil
	}
	side, other := 2*min(float64(c.Out), cols), 2*max(float64(c.Out), cols)
	for _, m := range []int{16, 8, 4} {
		points, grid := 1.0, make([]int, len(c.Kernel))
		for a := range grid {
			grid[a] = max(1, m*(c.polyTaps(a)-1))
			points *= float64(grid[a])
		}
		if points*side*side*other <= gridBudget {
			return grid
		}
	}
	return nil
}

// symbol computes the second of the two bounds in the comment on Norm, for the weights of one group.
func (c Convolution) symbol(w []float64, grid []int) float64 {
	factor := 1.0
	for a, n := range grid {
		if degree := c.polyTaps(a) - 1; degree > 0 {
			factor /= math.Cos(math.Pi*float64(degree)/float64(n)) * (1 - 8*unit)
		}
	}
	points := frequencies{c: c, w: w, grid: grid}
	for index := range product(grid) {
		if at := digits(index, grid); !mirrored(at, grid) {
			points.queue = append(points.queue, frequency{at: at, bound: math.Inf(1), level: -1})
		}
	}
	return points.largest() * math.Sqrt(factor) * up
}

// The function 'mirrored' reports whether the point −ω of the grid comes before the point ω in row-major order. The
// argument 'at' holds the position of ω on each axis.
func mirrored(at, grid []int) bool {
	for a, n := range grid {
		switch mirror := (n - at[a]) % n; {
		case mirror < at[a]:
			return true
		case mirror > at[a]:
			return false
		}
	}
	return false
}

// levels holds the numbers of squarings, in the order in which the method 'largest' tries them.
var levels = []int{1, 4, mostSquarings}

// frequency is a point of the grid with an upper bound on ‖Ŵ(ω)‖₂.
type frequency struct {
	at    []int
	bound float64
	level int // index in the list 'levels'; −1 if there is no bound yet
}

// frequencies is a heap of points, with the largest bound first.
type frequencies struct {
	c     Convolution
	w     []float64
	grid  []int
	queue []frequency
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (f *frequencies) Len() int { return len(f.queue) }

// Less implements heap.Interface.
func (f *frequencies) Less(i, j int) bool { return f.queue[i].bound > f.queue[j].bound }

// Swap implements heap.Interface.
func (f *frequencies) Swap(i, j int) { f.queue[i], f.queue[j] = f.queue[j], f.queue[i] }

// Push implements heap.Interface.
func (f *frequencies) Push(x any) { f.queue = append(f.queue, x.(frequency)) }

// Pop implements heap.Interface.
func (f *frequencies) Pop() any {
	last := f.queue[len(f.queue)-1]
	f.queue = f.queue[:len(f.queue)-1]
	return last
}

// The method 'largest' returns the largest of the points' bounds. It repeatedly takes the point with the largest bound
// and lowers this bound by more squarings. It stops when the point with the largest bound has reached the last entry of
// 'levels'.
func (f *frequencies) largest() float64 {
	for heap.Init(f); ; heap.Fix(f, 0) {
		top := &f.queue[0]
		if top.level == len(levels)-1 {
			return top.bound
		}
		top.level++
		m, err := f.c.transform(f.w, top.at, f.grid)
		top.bound = min(top.bound, m.norm(min(levels[top.level], squarings(min(m.rows, m.cols))))+err)
	}
}

// transform returns the matrix Ŵ(ω) of the second bound (see Norm) as a real matrix, and a bound on the norm of its
// rounding error.
func (c Convolution) transform(w []float64, at, grid []int) (m matrix, err float64) {
	residues, taps := product(c.Strides), product(c.Kernel)
	rows, cols := c.Out, c.In*residues
	m = matrix{2 * rows, 2 * cols, make([]float64, 4*rows*cols)}
	absolute := make([]float64, rows*cols) // sum of |w| for each element of Ŵ(ω)
	for t := range taps {
		residue, cos, sin := c.phase(t, at, grid)
		for o := range c.Out {
			for i := range c.In {
				x, col := w[(o*c.In+i)*taps+t], i*residues+residue
				m.data[o*2*cols+col] += x * cos
				m.data[(rows+o)*2*cols+col] += x * sin
				absolute[o*cols+col] += math.Abs(x)
			}
		}
	}
	for o := range rows {
		for i := range cols {
			m.data[(rows+o)*2*cols+cols+i] = m.data[o*2*cols+i]
			m.data[o*2*cols+cols+i] = -m.data[(rows+o)*2*cols+i]
		}
	}
	// cos and sin have an error of at most 2⁻⁴⁶ each. A sum of n = `taps` products has an error of at most γ_n times
	// the sum of |w| (see SpectralNorm for γ_n). The real matrix holds each complex element twice, but its spectral
	// norm equals the spectral norm of the complex matrix. So the Frobenius norm of the complex errors bounds the norm
	// of the real matrix's error.
	relative := (math.Exp2(-46) + rounding(taps)) * math.Sqrt2
	return m, matrix{rows, cols, absolute}.frobenius() * relative * up
}

// phase returns the residue r of a tap, and the cosine and the sine of ω·q. The second bound in the comment of Norm
// defines r and q.
func (c Convolution) phase(tap int, at, grid []int) (residue int, cos, sin float64) {
	turns := 0.0 // ω·q/2π
	for a, t := range digits(tap, c.Kernel) {
		position := t * c.dilation(a)
		residue = residue*c.Strides[a] + position%c.Strides[a]
		turns += float64(position/c.Strides[a]*at[a]%grid[a]) / float64(grid[a])
	}
	sin, cos = math.Sincos(2 * math.Pi * (turns - math.Floor(turns)))
	return residue, cos, sin
}

// digits converts an index in row-major order into one position for each axis.
func digits(index int, sizes []int) []int {
	at := make([]int, len(sizes))
	for a := len(sizes) - 1; a >= 0; a-- {
		at[a] = index % sizes[a]
		index /= sizes[a]
	}
	return at
}

func product(sizes []int) int {
	p := 1
	for _, n := range sizes {
		p *= n
	}
	return p
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
