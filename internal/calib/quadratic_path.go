package calib

import "math"

// quadraticPath sharpens step 5 of BinnedQuadratic. Think of the worst η in the dual bound of step 5 as the choice of
// an adversary. The adversary chooses η̄_b in each bin independently of the other bins. In addition, the adversary may
// add jumps to η, with a total variation of V. But an η that follows the scores uses up variation, so that little
// variation remains for jumps. quadraticPath maximises over paths instead. A path is one function η over all bins.
// Steps 1 to 4 remain unchanged. If steps 1 and 4 hold, then the dual bound of step 5 and the bound of quadraticPath
// both hold. So no union bound is needed.
//
// Let v_b be the range of η over these scores: the last score before bin b, and the scores of bin b. (For the first bin
// there is no score before it.) Then ΣTV_b ≥ Σv_b, where TV_b is the variation of η from the last score before bin b to
// the last score of the bin. Let r = w_b + v_b, where w_b is the range of the scores in the bin. The differences d_i
// lie in an interval of length r and have the mean g. So
//
//	mean_b|d| ≤ |g| + min(f_b(η̄) − |g| + e_b·v_b, (r−|g|)₊²/(2r)).
//
// The first argument of this min comes from step 3 of BinnedQuadratic. Proof for the second argument: |·| is convex.
// So, for an interval [a, a+r] with a ≤ 0 ≤ a+r, mean_b|d| is largest if all d_i are at the ends of the interval. Then
// mean_b|d| = −a + (g−a)(2a+r)/r. This is largest at a = (g−r)/2, where it is (g²+r²)/(2r) = |g| + (r−|g|)²/(2r). If
// |g| ≥ r, all d_i have one sign and mean_b|d| = |g|. ∎
//
// For every μ ≥ 0 and ν ≥ 0, steps 1 to 4 and ΣTV_b ≤ V give
//
//	CE ≤ μ(X + x/λ) + ln(1/δ_b)/(nκ) + νV + max_η Σ_b {F_b(η̄_b) + E_b(η̄_b, v_b) − ν·TV_b}
//	F_b(q) = p[|q−s̄| + ωκ((q−s̄)² + sd_b²)] + (μ/λ) ln A_b(q)
//	E_b(q, v) = p·min(f_b(q) − |q−s̄| + e_b·v, (r−|q−s̄|)₊²/(2r)) + ωκ·p[(sd_b+v√(e_b/2))² − sd_b²] + (μ/λ)ρ·m·e_b·v²/4.
//
// The maximum over η is bounded on a lattice of step ε. For u in [0, ε) let k_i = ⌊(η_i−u)/ε⌋. If u is uniform, then
// E|k_i−k_j|·ε = |η_i−η_j|. So the mean over u of ε·TV(k) is TV(η). Put ε·TV(k) in place of TV(η), and take the maximum
// over u as well as η. This maximum is at least as large as the original maximum, which has TV(η) and is over η alone.
// Take the last score before a bin and the scores of the bin. At these scores, let i be the smallest k and j the
// largest k. From here on, i and j are values of k and not indices. Then v_b ≤ (j−i+1)ε, η̄_b is in [lε, (l+2)ε] for an
// integer l from i to j, and the variation costs at least ν(j−i)ε. What remains is a maximum over integers. Dynamic
// programming finds this maximum exactly. The state is the integer k at the last score of a bin. In each bin, a path
// goes from a state k to a state k' through the integers from i to j, which include k and k'.
//
// The states of bin b are a window of integers around s̄_b. If a path leaves the window, each of its states outside is
// replaced by the nearest state of the window. This does not increase the variation of the path, but it can lower the
// v_b. A lower v_b is allowed: ν is at least as large as every slope of E_b in v, so E_b − ν·v_b decreases in v_b. The
// lowest state and the highest state of the window stand for everything beyond the window. At these two states, F_b is
// the maximum over all q beyond the window. A state in the window of the next bin may lie beyond the window of this
// bin. A path reaches such a state from the lowest or the highest state of this window, whichever is nearer.
//
// Every step and every size of the window give a valid bound. The step has 24 significant bits, so that multiples of
// the step are exact.
type quadraticPath struct {
	dual *quadraticDual
	step float64 // ε
	bins []pathBin
}

// pathBin holds the states of a bin: the integers low, low+1, …. State k stands for q in [kε, (k+2)ε].
type pathBin struct {
	bin          *quadraticBin
	low          int
	width        float64     // w_b
	cells        []peakCells // cell j is [(low+j)ε, (low+j+1)ε]
	below, above peakCells   // for the values of q below all cells, and for the values of q above all cells
	near         []float64   // for each state: the least |q−s̄| over the values q of the state
	spread       []float64   // for each state: the largest f_b(q) − |q−s̄| over the values q of the state
	peak         []float64   // the largest F_b of a state, for the current price μ/λ
}

// These constants set the size of the lattice. Let g be the |η̄−s̄| that maximises a normal approximation of F_b. The
// step ε is g/pathSteps. The window reaches from pathWindow·g below s̄ to pathWindow·g above s̄.
const (
	pathSteps  = 28.0
	pathWindow = 5.0
)

// newQuadraticPath returns a quadraticPath. It chooses the step of the lattice for values of μ near the argument mu.
func newQuadraticPath(d *quadraticDual, mu float64) *quadraticPath {
	n := d.bins[0].m / d.bins[0].share
	typical := min(0.25, 1/(2*mu*n)) // the g that maximises p·g − μmg², where p is the bin's share and m = p·n
	return newPathLattice(d, float64(float32(typical/pathSteps)), int(pathSteps*pathWindow))
}

// newPathLattice returns a quadraticPath on a lattice with the given step. The window of each bin reaches from 'half'
// steps below s̄ to 'half' steps above s̄.
func newPathLattice(d *quadraticDual, step float64, half int) *quadraticPath {
	p := &quadraticPath{dual: d, step: step}
	for i := range d.bins {
		p.bins = append(p.bins, newPathBin(&d.bins[i], step, half))
	}
	return p
}

func newPathBin(b *quadraticBin, step float64, half int) pathBin {
	centre := int(b.score / step)
	low, high := max(-1, centre-half), min(int(1/step), centre+half)
	p := pathBin{bin: b, low: low, width: b.knot[len(b.knot)-1] - b.knot[0], peak: make([]float64, high-low+1)}
	last := b.pathPoint(max(0, float64(low)*step))
	p.below = b.beyond(last, -2*step)
	for j := low; j <= high+1; j++ {
		next := last
		if q := min(1, float64(j+1)*step); q > last.q {
			next = b.pathPoint(q)
			p.cells = append(p.cells, peakCells{list: []peakCell{b.cell(last, next)}})
		} else {
			p.cells = append(p.cells, peakCells{})
		}
		if j > low {
			from := max(0, float64(j-1)*step)
			q := min(next.q, max(from, b.score))
			distance := math.Abs(q - b.score)
			p.near = append(p.near, distance)
			p.spread = append(p.spread, max(0, b.distanceFrom(q)-distance))
		}
		last = next
	}
	p.above = b.beyond(last, 2*step)
	return p
}

// pathPoint returns the two terms of F_b at q (see the type quadraticPath). The second term is returned without its
// factor μ/λ.
func (b *quadraticBin) pathPoint(q float64) quadraticPoint {
	d := q - b.score
	return quadraticPoint{q, b.share * (math.Abs(d) + b.squares*(d*d+b.variance)), b.logMean(q)}
}

// The method 'beyond' returns neighbouring cells of growing width. The cells start at the point 'from'. They go down to
// 0 if the argument 'width' is negative, and up to 1 otherwise.
func (b *quadraticBin) beyond(from quadraticPoint, width float64) peakCells {
	var cells peakCells
	for from.q > 0 && width < 0 || from.q < 1 && width > 0 {
		to := b.pathPoint(min(1, max(0, from.q+width)))
		if width > 0 {
			cells.list = append(cells.list, b.cell(from, to))
		} else {
			cells.list = append([]peakCell{b.cell(to, from)}, cells.list...)
		}
		from, width = to, 1.3*width
	}
	return cells
}

// setPrice computes the largest F_b of each state for the price μ/λ.
func (p *pathBin) setPrice(price, tolerance float64) {
	b := p.bin
	last := b.peakOf(&p.cells[0], b.pathPoint, price, tolerance)
	for k := range p.peak {
		next := b.peakOf(&p.cells[k+1], b.pathPoint, price, tolerance)
		p.peak[k] = max(last, next)
		last = next
	}
	top := len(p.peak) - 1
	p.peak[0] = max(p.peak[0], b.peakOf(&p.below, b.pathPoint, price, tolerance))
	p.peak[top] = max(p.peak[top], b.peakOf(&p.above, b.pathPoint, price, tolerance))
}

// steepest returns an upper bound on the slope of E_b in v.
func (b *quadraticBin) steepest(price float64) float64 {
	if b.spread == 0 {
		return 0
	}
	s := b.share/2 + b.squares*b.share*(2*math.Sqrt(b.variance*b.spread/2)+b.spread)
	if b.m > 1 {
		s += price * b.curvature() * b.m * b.spread / 2
	}
	return s
}

// The method 'at' returns the bound for μ.
func (p *quadraticPath) at(mu float64) dualPoint {
	d := p.dual
	price, nu := mu/d.lambda, 0.0
	for i := range p.bins {
		b := &p.bins[i]
		b.setPrice(price, 0.1*b.bin.share*d.tolerance)
		nu = max(nu, b.bin.steepest(price)*(1+1e-9))
	}
	value := make([]float64, len(p.bins[0].peak))
	var search pathSearch
	for i := range p.bins {
		if i > 0 {
			value = p.bins[i].enter(value, p.bins[i-1].low)
		}
		search.advance(&p.bins[i], value, price, nu, p.step)
	}
	most := math.Inf(-1)
	for _, v := range value {
		most = max(most, v)
	}
	at := dualPoint{mu: mu, gap: mu*d.observed + price*d.x + most, jumps: nu * d.variation}
	at.sum = at.gap + at.jumps
	return at
}

// minimise computes the bound for a few values of μ and returns the smallest of these bounds. The argument mu is the
// best μ of the dual bound without paths. The best μ with paths is a little smaller.
func (p *quadraticPath) minimise(mu float64) dualPoint {
	best := p.at(mu)
	for _, factor := range []float64{0.9, 0.8} {
		at := p.at(factor * mu)
		if at.sum >= best.sum {
			break
		}
		best = at
	}
	return best
}

// The method 'enter' returns, for each state of bin p, the largest value of a path that is in this state at the last
// score before the bin. The argument 'value' holds the largest values for the states of the previous bin. The argument
// 'low' is the lowest state of the previous bin.
func (p *pathBin) enter(value []float64, low int) []float64 {
	entered := make([]float64, len(p.peak))
	high := low + len(value) - 1
	for k := range entered {
		z := p.low + k
		entered[k] = value[min(high, max(low, z))-low]
	}
	for j, v := range value { // states outside the window of p
		k := min(len(entered)-1, max(0, low+j-p.low))
		entered[k] = max(entered[k], v)
	}
	return entered
}

// pathSearch holds the arrays that the method 'advance' uses in every call.
type pathSearch struct {
	gain, reach []float64
	row         []float64
	rows        [][]float64
	queue       []int
}

// The method 'advance' extends all paths by one bin. Before the call, value[i] is the largest value of the paths that
// end in state i at the last score before the bin. After the call, it holds the largest value of a path up to the last
// score of the bin.
func (s *pathSearch) advance(p *pathBin, value []float64, price, nu, step float64) {
	n := len(value)
	s.gain, s.queue = append(s.gain[:0], value...), append(s.queue[:0], make([]int, n)...)
	s.reach = append(s.reach[:0], value...)
	if len(s.row) < n*(n+1)/2 {
		s.row = make([]float64, n*(n+1)/2)
	}
	s.rows = s.rows[:0]
	rest := s.row
	for length := 1; length <= n; length++ {
		v := min(1, float64(length)*step)
		p.gains(s.gain, v)
		common := p.bin.excess(price, v) - nu*float64(length-1)*step
		row := rest[:n-length+1]
		rest = rest[n-length+1:]
		if length > 1 { // reach[i] becomes the maximum of the values i to i+length−1
			for i := range row {
				s.reach[i] = max(s.reach[i], value[i+length-1])
			}
		}
		s.slidingMaxima(length, row)
		for i := range row {
			row[i] += common + s.reach[i]
		}
		s.rows = append(s.rows, row)
	}
	// A path in a range may end in any state of the range. So the loop passes the value of each range on to two shorter
	// ranges: the range without the first state, and the range without the last state. At the end, the ranges are
	// single states.
	for length := n - 1; length >= 1; length-- {
		longer, row := s.rows[length], s.rows[length-1]
		for i, v := range longer {
			row[i], row[i+1] = max(row[i], v), max(row[i+1], v)
		}
	}
	copy(value, s.rows[0])
}

// For each state, the method 'gains' adds two summands: the largest F_b, and the part of E_b that depends on q. It
// writes the sum to the slice 'gain'.
func (p *pathBin) gains(gain []float64, v float64) {
	r, share, e := p.width+v, p.bin.share, p.bin.spread
	for k := range gain {
		over := max(0, r-p.near[k])
		gain[k] = p.peak[k] + share*min(p.spread[k]+e*v, over*over/(2*r))
	}
}

// excess returns the part of E_b that does not depend on q.
func (b *quadraticBin) excess(price, v float64) float64 {
	sd := math.Sqrt(b.variance)
	moved := sd + v*math.Sqrt(b.spread/2)
	x := b.squares * b.share * (moved*moved - b.variance)
	if b.m > 1 {
		x += price * b.curvature() * b.m * b.spread * v * v / 4
	}
	return x
}

// slidingMaxima sets row[i] to the maximum of the gains i to i+length−1.
func (s *pathSearch) slidingMaxima(length int, row []float64) {
	first, end := 0, 0 // the queue holds states with decreasing gains
	for k, g := range s.gain {
		for end > first && s.gain[s.queue[end-1]] <= g {
			end--
		}
		s.queue[end] = k
		end++
		if s.queue[first] <= k-length {
			first++
		}
		if i := k - length + 1; i >= 0 {
			row[i] = s.gain[s.queue[first]]
		}
	}
}
