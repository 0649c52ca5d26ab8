package calib

import (
	"math"
	"slices"

	"github.com/rscert/rscert/internal/binomial"
)

// quadraticBin is a bin of BinnedQuadratic.
type quadraticBin struct {
	m, score float64 // number of scores and their mean s̄
	share    float64 // p
	variance float64 // of the scores
	spread   float64 // e_b
	lambda   float64
	squares  float64 // ωκ
	observed float64 // X_b
	knot     [5]float64
	distance [5]float64 // f_b at the knots
	cells    peakCells  // from 0 to 1
}

// quadraticPoint holds u_b(q) and ln A_b(q), both rounded up.
type quadraticPoint struct{ q, value, logA float64 }

func newQuadraticBin(s *Sample, from *bin, lambda, kappa float64) quadraticBin {
	b := quadraticBin{m: from.n, share: from.n / float64(s.N()), score: from.score, variance: from.m2 / from.n, spread: from.deviation() / from.n,
		lambda: lambda, squares: squaresWeight(kappa)}
	b.observed = b.statistic(from.labels)
	lo, _ := unpack(s.packed[from.from])
	hi, _ := unpack(s.packed[from.to-1])
	for k := range b.knot {
		b.knot[k] = lo + (hi-lo)*float64(k)/float64(len(b.knot)-1)
	}
	b.knot[len(b.knot)-1] = hi
	for _, p := range s.packed[from.from:from.to] {
		score, _ := unpack(p)
		for k, q := range b.knot {
			b.distance[k] += math.Abs(score-q) / from.n
		}
	}
	// The next lines choose the values of q at which the cells begin and end. N is the number of labels that are 1. The
	// values of q are about evenly spaced near the values of N/m that are likely for a calibrated classifier, and wider
	// apart elsewhere. They are placed by the angle arcsin √q, because arcsin √(N/m) has a standard deviation of about
	// 1/(2√m) for all q.
	centre, unit := math.Asin(math.Sqrt(b.score)), 0.5/math.Sqrt(b.m)
	angles := []float64{centre}
	for z := 0.5; z*unit < math.Pi/2; z = max(z+0.5, 1.4*z) {
		angles = append(angles, centre-z*unit, centre+z*unit)
	}
	slices.Sort(angles)
	last := b.point(0)
	for _, a := range angles {
		if q := min(1, math.Pow(math.Sin(a), 2)); a > 0 && a < math.Pi/2 && q > last.q && q < 1 {
			at := b.point(q)
			b.cells.list = append(b.cells.list, b.cell(last, at))
			last = at
		}
	}
	b.cells.list = append(b.cells.list, b.cell(last, b.point(1)))
	return b
}

func (b *quadraticBin) point(q float64) quadraticPoint {
	return quadraticPoint{q, b.value(q), b.logMean(q)}
}

// statistic returns X_b(N).
func (b *quadraticBin) statistic(ones float64) float64 {
	d := b.m*b.score - ones
	x := d * d / b.m
	if b.m > 1 {
		x -= ones * (b.m - ones) / (b.m * (b.m - 1))
	}
	return x
}

// increment returns X_b(N+1) − X_b(N).
func (b *quadraticBin) increment(ones float64) float64 {
	x := (1 - 2*(b.m*b.score-ones)) / b.m
	if b.m > 1 {
		x -= (b.m - 2*ones - 1) / (b.m * (b.m - 1))
	}
	return x
}

// logMean returns an upper bound on ln A_b(q), where A_b(q) = Σ_N Bin(N; m, q)·e^{−λX_b(N)}. Because X_b is convex, the
// ratio of neighbouring terms decreases in N. So the sum runs from the largest term in both directions until a
// geometric series bounds the remaining terms.
func (b *quadraticBin) logMean(q float64) float64 {
	if q <= 0 || q >= 1 {
		return -b.lambda * b.statistic(q*b.m)
	}
	odds := q / (1 - q)
	step := func(ones float64) float64 { return -b.lambda * b.increment(ones) }
	lo, hi := 0.0, b.m // after the loop, the largest term of A_b(q) is the term for N = lo
	for hi-lo > 0.5 {
		mid := math.Floor((lo + hi) / 2)
		if mid < b.m && math.Log((b.m-mid)/(mid+1)*odds)+step(mid) > 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	mode := lo
	curve := 1.0 // the ratio of e^{−λ·ΔX} at N+1 to e^{−λ·ΔX} at N, where ΔX = X_b(N+1) − X_b(N)
	if b.m > 1 {
		curve = math.Exp(-2 * b.lambda / (b.m - 1))
	}
	up, upSteps := remainder(math.Exp(step(mode)), curve, b.m-mode, func(i float64) float64 {
		return (b.m - mode - i) / (mode + i + 1) * odds
	})
	down, downSteps := remainder(math.Exp(-step(mode-1)), curve, mode, func(i float64) float64 {
		return (mode - i) / ((b.m - mode + i + 1) * odds)
	})
	sum, steps := 1+up+down, upSteps+downSteps
	logp, absErr := binomial.LogTerm(int64(b.m), int64(mode), q, 1-q)
	x := b.lambda * b.statistic(mode)
	// Each step multiplies the variable 'factor' by a rounded number, so after k steps the term has a relative error of
	// order k²·2⁻⁵³. X_b is the difference of two numbers that are at most m, so λX_b has an error of order λm·2⁻⁵³.
	return logp - x + math.Log(sum) + absErr + 1e-12 + 0x1p-50*((1+b.lambda)*steps*steps+b.lambda*b.m)
}

// remainder adds up the terms of logMean on one side of the largest term. It returns an upper bound on their sum, and
// the number of terms that it computed. The argument 'count' is the number of all terms on this side, computed or not.
// Each term is divided by the largest term. The ratio of term i+1 to term i is ratio(i)·factor·curveⁱ, which decreases
// in i.
func remainder(factor, curve, count float64, ratio func(i float64) float64) (sum, steps float64) {
	term := 1.0
	for ; steps < count; factor *= curve {
		r := ratio(steps) * factor
		term *= r
		sum += term
		steps++
		if rest := term * r; r < 1 && rest < 1e-13*(1-r) {
			return sum + rest/(1-r), steps
		}
	}
	return sum, steps
}

// distanceFrom returns an upper bound on f_b(q) = mean|s_i−q|. It interpolates linearly between the values of f_b at
// b.knot. f_b is convex, so the interpolated value is at least f_b(q). For q outside the range of the scores, f_b(q) is
// |s̄−q|.
func (b *quadraticBin) distanceFrom(q float64) float64 {
	last := len(b.knot) - 1
	if q <= b.knot[0] || q >= b.knot[last] {
		return math.Abs(b.score - q)
	}
	k := 1
	for q > b.knot[k] {
		k++
	}
	w := (q - b.knot[k-1]) / (b.knot[k] - b.knot[k-1])
	return b.distance[k-1] + w*(b.distance[k]-b.distance[k-1])
}

// jump returns J_b(v) of BinnedQuadratic, where the argument 'price' is μ/λ.
func (b *quadraticBin) jump(price, v float64) float64 {
	sd := math.Sqrt(b.variance)
	moved := sd + v*math.Sqrt(b.spread/2)
	j := b.share*b.spread*v + b.squares*b.share*(moved*moved-b.variance)
	if b.m > 1 {
		j += price * b.curvature() * b.m * b.spread * v * v / 4
	}
	return j
}

// curvature returns ρ of BinnedQuadratic.
func (b *quadraticBin) curvature() float64 {
	inverse := math.Exp(b.lambda / (b.m - 1)) // 1/r
	return 2 * math.Expm1(b.lambda/(b.m-1)) * math.Exp(math.Acosh(inverse))
}

// The method 'value' returns an upper bound on u_b(q). This bound is convex in q, and it equals u_b(q) at the knots and
// outside the range of the scores.
func (b *quadraticBin) value(q float64) float64 {
	d := q - b.score
	return b.share * (b.distanceFrom(q) + b.squares*(d*d+b.variance))
}

// The method 'peak' returns an upper bound on the maximum over q of u_b(q) + price·ln A_b(q) (see peakOf).
func (b *quadraticBin) peak(price, tolerance float64) float64 {
	return b.peakOf(&b.cells, b.point, price, tolerance)
}

// peakCells are neighbouring cells of a bin in ascending order of q.
type peakCells struct {
	list  []peakCell
	peaks []float64 // for each cell, the upper bound on u(q) + price·ln A_b(q) in this cell, at the current price
}

// peakOf returns an upper bound on the largest value of u(q) + price·ln A_b(q) for q in the cells. The function 'point'
// gives u and ln A_b. In each step, it divides the cell with the largest bound. It stops when this bound is at most the
// largest value found plus the tolerance. It stops earlier if there are mostCells cells or if the cell is as narrow as
// float64s allow. The bound is valid in these cases too. If there are no cells, the result is −∞.
func (b *quadraticBin) peakOf(in *peakCells, point func(q float64) quadraticPoint, price, tolerance float64) float64 {
	const mostCells = 400
	found := math.Inf(-1)
	in.peaks = in.peaks[:0]
	for i := range in.list {
		most, _ := in.list[i].peak(price, b.m)
		in.peaks = append(in.peaks, most)
		found = max(found, in.list[i].low(price), in.list[i].high(price))
	}
	for len(in.list) > 0 {
		worst := 0
		for i, most := range in.peaks {
			if most > in.peaks[worst] {
				worst = i
			}
		}
		c, most := in.list[worst], in.peaks[worst]
		if most <= found+tolerance || len(in.list) >= mostCells {
			return most
		}
		_, q := c.peak(price, b.m)
		if margin := 0.1 * (c.to.q - c.from.q); q < c.from.q+margin || q > c.to.q-margin {
			q = (c.from.q + c.to.q) / 2
		}
		if q <= c.from.q || q >= c.to.q { // the cell is as narrow as float64s allow
			return most
		}
		mid := point(q)
		left, right := b.cell(c.from, mid), b.cell(mid, c.to)
		in.list[worst] = left
		in.list = slices.Insert(in.list, worst+1, right)
		found = max(found, left.high(price))
		in.peaks[worst], _ = left.peak(price, b.m)
		above, _ := right.peak(price, b.m)
		in.peaks = slices.Insert(in.peaks, worst+1, above)
	}
	return math.Inf(-1)
}

// A peakCell is the range of q between two neighbouring quadraticPoints of a bin. It also holds bounds on u_b and ln
// A_b in this range.
//
// u_b is convex, so it is below its chord. Put θ = ln(q/(1−q)). Then ln A_b(q) = ln Z(θ) + m ln(1−q), where Z(θ) = Σ_N
// C(m, N)φ(N)e^{θN} and φ(N) = e^{−λX_b(N)}. ln Z is convex in θ with a slope from 0 to m, so it is below its chord
// too. With the slope β of this chord,
//
//	ln A_b(q) ≤ level + β ln(q/base) + (m−β) ln((1−q)/(1−base)).
//
// Here base is the value of q at one end of the cell, and level is an upper bound on ln A_b there. In a cell that
// begins at q = 0, the code takes β = 0 and the base at the upper end, because ln Z increases. In a cell that ends at q
// = 1, it takes β = m and the base at the lower end, because ln Z − mθ decreases.
type peakCell struct {
	from, to          quadraticPoint
	slope             float64 // of the chord of u_b
	beta, base, level float64
}

func (b *quadraticBin) cell(from, to quadraticPoint) peakCell {
	c := peakCell{from: from, to: to, slope: (to.value - from.value) / (to.q - from.q), base: to.q, level: to.logA}
	switch {
	case from.q <= 0:
	case to.q >= 1:
		c.beta, c.base, c.level = b.m, from.q, from.logA
	default:
		ones, zeros := math.Log(to.q/from.q), math.Log1p((from.q-to.q)/(1-from.q))
		c.beta = min(b.m, max(0, (to.logA-from.logA-b.m*zeros)/(ones-zeros)))
		c.base = from.q
		// Because c.beta is clipped and rounded, the two ends of the cell can require different levels. The code takes
		// the larger one. So the bound on ln A_b holds at both ends of the cell.
		c.level = max(from.logA, to.logA-c.beta*ones-(b.m-c.beta)*zeros)
	}
	return c
}

// The methods 'low' and 'high' return u_b + price·ln A_b at the lower and at the upper end of the cell.
func (c *peakCell) low(price float64) float64  { return c.from.value + price*c.from.logA }
func (c *peakCell) high(price float64) float64 { return c.to.value + price*c.to.logA }

// The method 'peak' returns an upper bound on u_b(q) + price·ln A_b(q) in the cell, and a q near the peak of this
// bound. Multiply the bound on ln A_b by price, and add the bound on u_b. The sum is concave in q, so it is below each
// of its tangents.
func (c *peakCell) peak(price, m float64) (most, at float64) {
	at = min(c.to.q, max(c.from.q, concavePeak(c.slope, price, c.beta, m)))
	h, tilt := c.from.value+(at-c.from.q)*c.slope+price*c.level, c.slope
	ones, zeros := 0.0, 0.0
	if c.beta > 0 {
		ones = c.beta * math.Log(at/c.base)
		tilt += price * c.beta / at
	}
	if c.beta < m {
		zeros = (m - c.beta) * math.Log1p((c.base-at)/(1-c.base))
		tilt -= price * (m - c.beta) / (1 - at)
	}
	most = h + price*(ones+zeros) + max(0, tilt*(c.to.q-at), tilt*(c.from.q-at))
	return most + price*(1e-12+0x1p-49*(math.Abs(ones)+math.Abs(zeros))), at // the last term bounds the rounding
}

// concavePeak returns the q in (0, 1) at which slope + price(β/q − (m−β)/(1−q)) is 0. This is a root of slope·q² +
// (price·m − slope)q − price·β.
func concavePeak(slope, price, beta, m float64) float64 {
	a, b, c := slope, price*m-slope, price*beta
	root := math.Sqrt(max(0, b*b+4*a*c)) // the roots are real, so only rounding can give less than 0
	if b >= 0 {
		return 2 * c / (b + root)
	}
	return (root - b) / (2 * a)
}
