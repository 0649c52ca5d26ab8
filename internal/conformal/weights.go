package conformal

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"

	"github.com/rscert/rscert/internal/binomial"
)

// leastWeight limits negative weights: the least accepted weight is −leastWeight. Positive weights are at most 1.
const leastWeight = 1 << 20

// slackTolerance is the tolerance with which bestWeights computes the slack (see the function 'slackened').
const slackTolerance = 1e-7

// A population is a simple model of the examples. Let p be the probability that a noisy score of an example reaches the
// threshold. In the model, p has the distribution π = (1−2c)δ₁ + 2c·Unif: p is 1 with probability 1−2c, and otherwise
// uniform on [0, 1]. For small c, most examples have p = 1. The linear program maximises ∫B_w dπ, the mean of B_w over
// the examples. At the threshold τ̂ of the theorem, this mean is about 1−a. So if the field 'goal' is 1−a,
// proposeWeights chooses c so that the maximum of this mean equals 1−a. With a larger c, the mean could not reach 1−a.
// If 'goal' is 0, c does not change.
type population struct{ c, goal float64 }

// calibrationPopulation returns the population for the allowed miss probability 'miss', which is the level a of the
// theorem.
func calibrationPopulation(miss float64) population { return population{math.Min(miss, 0.5), 1 - miss} }

// bestWeights returns nondecreasing weights w(0), …, w(d) ≤ 1 with B_w ≤ (H∘g)^Q. A linear program proposes weights,
// and the function 'slackened' makes any proposal valid. So an error of the linear program can only lower the weights.
// If the linear program fails, the result is a line, the tangent of g (tangentWeights).
//
// If there is no attack and Q = 1, the best B_w is H itself. Let m′ be the number of noisy copies that are drawn for a
// query. In this case, if m′ is at most the argument 'degree', bestWeights returns weights with B_w = H. The reason for
// this condition is that these weights have the degree m′.
func bestWeights(g target, degree int, pop population) (best polynomial, slack float64, err error) {
	if g.shift == 0 && g.queries == 1 && g.draws <= int64(degree) {
		return step(g.need, g.draws), 0, nil
	}
	best, slack, err = slackened(newPolynomial(tangentWeights(g, pop.c)), g, slackTolerance)
	if err == nil {
		best = best.elevated(int64(degree))
	}
	w, c, failure := proposeWeights(g, degree, pop)
	if failure != nil {
		return best, slack, err
	}
	b, s, failure := slackened(newPolynomial(w), g, slackTolerance)
	if failure == nil && (err != nil || b.mean(c) > best.mean(c)) {
		return b, s, nil
	}
	return best, slack, err
}

// proposeWeights returns proposed weights, and the c of the population that it used. For fixed weights, ∫B_w dπ (see
// the type 'population') is a linear function of c, namely w(d) − 2c(w(d) − w̄). Here w̄ is the mean of the weights. So
// the maximum v(c) of ∫B_w dπ over the weights is convex in c. Therefore, after its first step, Newton's method
// approaches the solution c of v(c) = goal from below.
func proposeWeights(g target, degree int, pop population) (w []float64, c float64, err error) {
	const steps = 4
	p := newProgram(g, degree)
	c = pop.c
	for i := range steps {
		if w, err = p.maximise(c); err != nil {
			return nil, 0, err
		}
		mean := 0.0
		for _, x := range w {
			mean += x / float64(len(w))
		}
		last := w[degree]
		next := math.Min(0.5, math.Max(c/8, (last-pop.goal)/(2*(last-mean))))
		if pop.goal == 0 || !(math.Abs(next-c) > 1e-3*c) || i == steps-1 {
			break
		}
		c = next
	}
	return w, c, nil
}

// step returns the weights 1{k ≥ t} of degree m.
func step(t, m int64) polynomial {
	b := make(polynomial, m+1)
	for k := t; k <= m; k++ {
		b[k] = unitWeight
	}
	return b
}

// The function 'slackened' makes the weights b valid: it subtracts a slack from each weight. It returns the new weights
// and the slack. The slack exceeds the least possible slack by about twice the tolerance. Because of this margin, the
// method 'valid' can later prove more easily that the new weights are valid. The slack is never negative.
func slackened(b polynomial, g target, tolerance float64) (polynomial, float64, error) {
	if b[0] < -leastWeight*unitWeight {
		return nil, 0, fmt.Errorf("weights: w(0) = %v is below the limit %d", float64(b[0])/unitWeight, -leastWeight)
	}
	units := int64(math.Ceil(math.Max(0, b.excess(g, tolerance)+2*tolerance) * unitWeight))
	return b.lowered(units), float64(units) / unitWeight, nil
}

// A row is the constraint at one point: the coefficients of x, and the right side.
type row struct {
	coefficients []float64
	most         float64
}

func (r row) excess(x []float64) float64 {
	sum := -r.most
	for i, c := range r.coefficients {
		sum += c * x[i]
	}
	return sum
}

// The excess of a row is the left side of its constraint minus the right side. The function 'peaks' returns each row
// whose excess is a local maximum and is above a tolerance.
func peaks(rows []row, x []float64) []row {
	const tolerance = 1e-7
	var found []row
	before, now := math.Inf(-1), rows[0].excess(x)
	for i := range rows {
		after := math.Inf(-1)
		if i+1 < len(rows) {
			after = rows[i+1].excess(x)
		}
		if now > tolerance && now >= before && now > after {
			found = append(found, rows[i])
		}
		before, now = now, after
	}
	return found
}

// A program is the linear program of bestWeights. The variables are x_0 = −w(0) ≥ 0 and the increments x_i = w(i) −
// w(i−1) ≥ 0. Let T_i(p) = P(Bin(d, p) ≥ i). Then B_w(p) = Σ_{i≥1} x_i·T_i(p) − x_0. The program imposes the
// constraints B_w ≤ (H∘g)^Q at a few points only.
type program struct {
	target
	degree int
	rows   []row // current constraints
	grid   []row // constraints at many points, to find violated ones
}

func newProgram(g target, degree int) *program {
	const fine = 4000
	p := &program{target: g, degree: degree}
	for i := range degree/2 + 12 {
		p.rows = append(p.rows, p.row(-5+(10+g.shift)*float64(i)/float64(degree/2+11)))
	}
	p.rows = append(p.rows, p.row(math.Inf(1)))
	for i := range fine + 1 {
		p.grid = append(p.grid, p.row(-7+(14+g.shift)*float64(i)/fine))
	}
	return p
}

// maximise returns weights that nearly maximise ∫B_w dπ for π = (1−2c)δ₁ + 2c·Unif. Each round adds the points where
// the solution violates the inequality most, and drops the points whose constraints are far from binding. This is an
// exchange method for semi-infinite programs. The constraint at p = 1 stays, because it bounds the objective.
func (p *program) maximise(c float64) ([]float64, error) {
	const rounds = 15
	costs := make([]float64, p.degree+1) // the coefficients of −∫B_w dπ
	costs[0] = 1
	for i := 1; i <= p.degree; i++ {
		costs[i] = -((1 - 2*c) + 2*c*float64(p.degree-i+1)/float64(p.degree+1))
	}
	var x []float64
	for range rounds {
		next, err := p.solve(costs)
		if err != nil {
			return nil, err
		}
		x = next
		p.rows = slices.DeleteFunc(p.rows, func(r row) bool { return r.most < 1 && r.excess(x) < -1e-2 })
		worst := peaks(p.grid, x)
		if len(worst) == 0 {
			break
		}
		p.rows = append(p.rows, worst...)
	}
	return p.weights(x), nil
}

func (p *program) row(z float64) row {
	r := row{make([]float64, p.degree+1), 1}
	prob := 1.0
	if !math.IsInf(z, 1) {
		prob, _ = p.law.CDF(z)
		r.most = p.value(z)
	}
	r.coefficients[0] = -1
	for i := 1; i <= p.degree; i++ {
		r.coefficients[i] = binomial.Tail(int64(p.degree), int64(i), prob).Upper
	}
	return r
}

// solve returns the variables x of the program that minimise costs·x under the current constraints. Each constraint
// gets a slack variable, and the slack variables are the first basis. solve raises the right sides by different small
// numbers, because the simplex method can cycle at degenerate vertices.
func (p *program) solve(costs []float64) ([]float64, error) {
	n := p.degree + 1
	slices.SortStableFunc(p.rows, func(a, b row) int { return cmp.Compare(a.most, b.most) })
	a := mat.NewDense(len(p.rows), n+len(p.rows), nil)
	b := make([]float64, len(p.rows))
	basis := make([]int, len(p.rows))
	for i, r := range p.rows {
		for j, c := range r.coefficients {
			a.Set(i, j, c)
		}
		a.Set(i, n+i, 1)
		b[i] = r.most + 1e-9*(1+math.Mod(float64(i)*math.Phi, 1))
		basis[i] = n + i
	}
	costs = append(slices.Clone(costs), make([]float64, len(p.rows))...)
	_, x, err := lp.Simplex(costs, a, b, 1e-10, basis)
	if err != nil {
		return nil, err
	}
	return x[:n], nil
}

func (p *program) weights(x []float64) []float64 {
	w := make([]float64, p.degree+1)
	w[0] = -x[0]
	for i := 1; i <= p.degree; i++ {
		w[i] = math.Min(1, w[i-1]+x[i])
	}
	return w
}

// chooseWeights chooses m, m′, t′ and the weights. If the caller does not give t′, chooseWeights takes t′ ≈ m′·F(−ρ/2),
// where F is the distribution function of the noise law.
func (d *Design) chooseWeights(p Params) error {
	d.Rule = Weights
	d.QueryM = max(1, p.Draws)
	d.M = p.CalibrationDraws
	if d.M == 0 {
		d.M = max(d.QueryM, DefaultDegree)
	}
	if p.Need != 0 {
		return fmt.Errorf("count t = %d: the rule %s has no such count", p.Need, Weights)
	}
	if d.QueryT = p.QueryNeed; d.QueryT == 0 {
		share, _ := d.Attack.law().CDF(-d.Shift / 2)
		d.QueryT = min(max(1, int64(math.Round(share*float64(d.QueryM+1)))), d.QueryM)
	}
	degree := p.Degree
	if degree == 0 {
		degree = DefaultDegree
	}
	b, slack, err := bestWeights(d.target(), int(min(int64(degree), d.M)), calibrationPopulation(d.Miss))
	if err != nil {
		return err
	}
	d.Weights, d.Degree, d.Slack = b.weights(), b.degree(), slack
	return nil
}
