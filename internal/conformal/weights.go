package conformal

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"

	"github.com/rscert/rscert/internal/binomial"
)

// leastWeight limits the absolute value of weights.
const leastWeight = 1 << 20

// slackTolerance is how far the subtracted slack may be above the least slack.
const slackTolerance = 1e-8

// bestWeights returns nondecreasing weights w(0), …, w(d) ≤ 1 with B_w ≤ (H∘g)^Q. They nearly maximise the mean of B_w
// over the distribution of polynomial.mean. A linear program proposes weights, and slackened makes any proposal valid.
// So an error of the linear program can only lower the weights. If it fails, the tangent of RCP1 remains.
func bestWeights(g target, degree int, miss float64) (best polynomial, slack float64, err error) {
	proposals := [][]float64{tangentWeights(g, degree, miss)}
	w, err := solveWeights(g, degree, miss)
	if err == nil {
		proposals = append(proposals, w)
	}
	for _, w := range proposals {
		b, s, err := slackened(newPolynomial(w), g)
		if err == nil && (best == nil || b.mean(miss) > best.mean(miss)) {
			best, slack = b, s
		}
	}
	if best == nil {
		return nil, 0, errors.New("weights: no weights are proved for this attack")
	}
	return best, slack, nil
}

// slackened returns b minus the least slack that makes b valid, and the slack. It adds twice the tolerance, so that a
// later proof (valid) need not be as fine. The slack is never negative.
func slackened(b polynomial, g target) (polynomial, float64, error) {
	if b[0] < -leastWeight*one {
		return nil, 0, fmt.Errorf("weights: w(0) = %v is below the limit %d", float64(b[0])/one, -leastWeight)
	}
	excess, err := b.excess(g, slackTolerance)
	if err != nil {
		return nil, 0, err
	}
	units := int64(math.Ceil(math.Max(0, excess+2*slackTolerance) * one))
	return b.lowered(units), float64(units) / one, nil
}

// valid reports whether B_w ≤ (H∘g)^Q is proved.
func (b polynomial) valid(g target) bool {
	excess, err := b.excess(g, slackTolerance)
	return err == nil && excess <= 0
}

// solveWeights proposes weights by a linear program. The variables are x_0 = −w(0) ≥ 0 and the increments x_i = w(i) −
// w(i−1) ≥ 0. With T_i(p) = P(Bin(d, p) ≥ i), B_w(p) = Σ_{i≥1} x_i·T_i(p) − x_0. The constraints B_w ≤ (H∘g)^Q hold at a
// few points. Each round adds the points where the solution violates the inequality most, and drops points that do not
// matter (an exchange method as for semi-infinite programs).
func solveWeights(g target, degree int, miss float64) ([]float64, error) {
	const fine, rounds = 4000, 15
	program := newProgram(g, degree, miss)
	grid := make([]float64, fine+1)
	for i := range grid {
		grid[i] = -7 + (14+g.shift)*float64(i)/fine
	}
	rows := make([]row, 0, 4*degree)
	for i := range 2*degree + 8 {
		rows = append(rows, program.row(-5+(10+g.shift)*float64(i)/float64(2*degree+7)))
	}
	rows = append(rows, program.row(math.Inf(1)))
	values := make([]row, len(grid))
	for i, z := range grid {
		values[i] = program.row(z)
	}
	var x []float64
	for range rounds {
		next, err := program.solve(rows)
		if err != nil {
			return nil, err
		}
		x = next
		rows = slices.DeleteFunc(rows, func(r row) bool { return r.excess(x) < -1e-2 })
		worst := peaks(values, x)
		if len(worst) == 0 {
			break
		}
		rows = append(rows, worst...)
	}
	return program.weights(x), nil
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

// peaks returns the rows at local maxima of the excess that are above a tolerance.
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

// A program is the linear program of solveWeights.
type program struct {
	target
	degree int
	costs  []float64 // negative objective, for x_0, …, x_d
}

func newProgram(g target, degree int, miss float64) program {
	share := math.Min(1, 2*miss)
	costs := make([]float64, degree+1)
	costs[0] = 1
	for i := 1; i <= degree; i++ {
		costs[i] = -((1 - share) + share*float64(degree-i+1)/float64(degree+1))
	}
	return program{g, degree, costs}
}

func (p program) row(z float64) row {
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

// solve returns x. Each constraint gets a slack variable, and the slack variables are the first basis. The right sides
// are raised by different small numbers, because the simplex method can cycle at degenerate vertices.
func (p program) solve(rows []row) ([]float64, error) {
	n := p.degree + 1
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.most, b.most) })
	a := mat.NewDense(len(rows), n+len(rows), nil)
	b := make([]float64, len(rows))
	basis := make([]int, len(rows))
	for i, r := range rows {
		for j, c := range r.coefficients {
			a.Set(i, j, c)
		}
		a.Set(i, n+i, 1)
		b[i] = r.most + 1e-9*(1+math.Mod(float64(i)*math.Phi, 1))
		basis[i] = n + i
	}
	costs := append(slices.Clone(p.costs), make([]float64, len(rows))...)
	_, x, err := lp.Simplex(costs, a, b, 1e-10, basis)
	if err != nil {
		return nil, err
	}
	return x[:n], nil
}

func (p program) weights(x []float64) []float64 {
	w := make([]float64, p.degree+1)
	w[0] = -x[0]
	for i := 1; i <= p.degree; i++ {
		w[i] = math.Min(1, w[i-1]+x[i])
	}
	return w
}

// chooseWeights finds weights for t′ of m′ draws. Without a given t′, it takes t′ ≈ m′·F(−ρ/2), as for counts.
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
	b, slack, err := bestWeights(d.target(), int(min(int64(degree), d.M)), d.Miss)
	if err != nil {
		return err
	}
	d.Weights, d.Degree, d.Slack = b.weights(), b.degree(), slack
	return nil
}
