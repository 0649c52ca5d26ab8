package calibrator

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/optimize"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/choice"
)

// allLogits returns the logits [N×Classes] of the data. If the argument 'before' is not nil, before.apply
// replaces the logits.
func (d Data) allLogits(before *Before) []float64 {
	m := Map{Input: d.Input, Columns: d.Columns, Classes: d.Classes, Before: before}
	out := make([]float64, d.N()*d.Classes)
	for i := range d.N() {
		m.logits(out[i*d.Classes:(i+1)*d.Classes], d.Values[i*d.Columns:(i+1)*d.Columns])
	}
	return out
}

func fitTemperature(d Data, _ Options) (Map, error) {
	fit, err := calib.FitTemperature(d.allLogits(nil), d.Classes, d.Label)
	if err != nil {
		return Map{}, err
	}
	return Map{Weight: []float64{1 / fit.Temperature}, Bias: make([]float64, d.Classes), AtLimit: fit.AtLimit}, nil
}

// maxMatrix is the largest number of weights in a matrix.
const maxMatrix = 1 << 20

// fitVector and fitMatrix use the penalty L2·(‖W − I‖² + ‖b‖²).
func fitVector(d Data, o Options) (Map, error) {
	return fitMultinomial(d, nil, ridge{o.L2, o.L2, o.L2, true}, d.Classes)
}

func fitMatrix(d Data, o Options) (Map, error) {
	return fitMultinomial(d, nil, ridge{o.L2, o.L2, o.L2, true}, d.Classes*d.Classes)
}

// Penalty chooses the penalty of Dirichlet calibration.
type Penalty string

// These are the penalties. In their formulas, W holds the weights and b holds the biases.
const (
	ODIR Penalty = "odir" // off-diagonal and intercept regularisation: L2·Σ_{i≠j}W_ij² + L2Bias·‖b‖²
	All  Penalty = "all"  // L2·(‖W‖² + ‖b‖²)
)

// Penalties lists the penalties under the names that a user types.
var Penalties = choice.Of("penalty", ODIR, All).Describe(func(p Penalty) string {
	return map[Penalty]string{ODIR: "the off-diagonal weights, and, with a separate penalty, the biases", All: "all weights and biases"}[p]
})

func (p Penalty) String() string { return string(p) }

// fitDirichlet fits softmax(W ln p + b) for probabilities p. The penalties are those of dirichletcal, the program of
// the method's authors. In that program, L2 has the name reg_lambda, and L2Bias has the name reg_mu. The penalty 'All'
// is its setting reg_mu = None. The fit has no reference row (ref_row = False). In the penalty ODIR, the authors' paper
// divides Σ_{i≠j}W_ij² by k(k−1) and ‖b‖² by k, where k is the number of classes.
func fitDirichlet(d Data, o Options) (Map, error) {
	r := ridge{off: o.L2, diagonal: o.L2, bias: o.L2}
	if o.Penalty == ODIR {
		r.diagonal, r.bias = 0, o.L2Bias
	}
	return fitMultinomial(d, &Before{Slope: 1}, r, d.Classes*d.Classes)
}

// fitStructuredVector and fitStructuredMatrix compute the same fits as SVSCalibrator and SMSCalibrator of probmetrics
// 1.3.0, the program by the authors of structured scaling. They use the defaults of probmetrics (penalty ridge, rho =
// tau = 1). Let there be n examples of k classes. The temperature T maximises the likelihood of softmax(z/T). Let q be
// a mixture of softmax(z/T) and the uniform distribution. The uniform distribution has the weight 1/(n+1) in this
// mixture. Both functions fit softmax(W ln q + b). The penalty is a sum of squares. The squares of W_ii − 1 and of the
// biases are multiplied by k/n, and the squares of W_ij, i ≠ j, by k(k−1)/n.
func fitStructuredVector(d Data, _ Options) (Map, error) { return fitStructured(d, d.Classes) }

func fitStructuredMatrix(d Data, _ Options) (Map, error) {
	return fitStructured(d, d.Classes*d.Classes)
}

func fitStructured(d Data, weights int) (Map, error) {
	fit, err := calib.FitTemperature(d.allLogits(nil), d.Classes, d.Label)
	if err != nil {
		return Map{}, err
	}
	n, k := float64(d.N()), float64(d.Classes)
	return fitMultinomial(d, &Before{1 / fit.Temperature, 1 / (n + 1)}, ridge{k / n, k * (k - 1) / n, k / n, true}, weights)
}

// fitMultinomial fits the weights W and the biases b of softmax(zW + b), where z is the result of allLogits(before).
// The fit minimises the mean negative log-likelihood plus the penalty. The argument 'weights' is the number of weights
// in W. The loss is convex.
func fitMultinomial(d Data, before *Before, r ridge, weights int) (Map, error) {
	switch {
	case !(r.off > 0) || math.IsInf(r.off, 0) || !(r.bias > 0) || math.IsInf(r.bias, 0):
		return Map{}, fmt.Errorf("L2 %v and %v must be positive: without them there may be no best map", r.off, r.bias)
	case weights > maxMatrix:
		return Map{}, fmt.Errorf("%d classes are too many for a full matrix: at most 1024; take vector", d.Classes)
	}
	z := d.allLogits(before)
	for i, x := range z {
		if math.IsInf(x, 0) {
			return Map{}, &calib.RowError{Row: i / d.Classes, Reason: fmt.Sprintf("logit %v: only temperature takes it", x)}
		}
	}
	l := likelihood{d: d, z: z, weights: weights, ridge: r}
	start := make([]float64, weights+d.Classes)
	for k := range d.Classes {
		start[l.diagonal(k)] = 1
	}
	result, err := optimize.Minimize(optimize.Problem{
		Func: func(x []float64) float64 { return l.value(nil, x) },
		Grad: func(gradient, x []float64) { l.value(gradient, x) },
	}, start, &optimize.Settings{GradientThreshold: 1e-8, MajorIterations: 5000}, &optimize.LBFGS{})
	// The code ignores an error if the gradient is small. The cause of the error is then that the line search found no
	// lower point. The current point is the minimum, up to the precision of float64.
	if err != nil && (result == nil || result.Gradient == nil || !small(result.Gradient)) {
		return Map{}, errors.Join(errors.New("the fit did not converge"), err)
	}
	if l.unbounded(result.X, result.F) {
		return Map{}, errUnbounded
	}
	return Map{Before: before, Weight: result.X[:weights:weights], Bias: result.X[weights:]}, nil
}

var errUnbounded = errors.New("the likelihood has no maximum: the probabilities separate the labels, or a class has no label; " +
	"take structured-matrix, penalise all weights, or take more data")

// The method 'unbounded' reports whether the loss seems to have no minimum. This can happen only if weights on the
// diagonal have no penalty, because they can then grow for ever. The argument x is the best point that was found, and
// 'lowest' is the loss at x. The method computes the loss at points far from x, where weights on the diagonal are 100
// times as large or larger. The loss is convex, so it is clearly higher there if x is near a minimum. If it is hardly
// higher, the loss seems to have no minimum. At one of these points, all weights on the diagonal are larger than at x.
// At each other point, only one weight is larger: the weight of a class without labels.
func (l likelihood) unbounded(x []float64, lowest float64) bool {
	if l.ridge.diagonal > 0 {
		return false
	}
	scaled := func(classes []int, to float64) float64 {
		y, largest := slices.Clone(x), 0.0
		for _, k := range classes {
			largest = max(largest, math.Abs(x[l.diagonal(k)]))
		}
		for _, k := range classes {
			y[l.diagonal(k)] *= to * max(1, 1/max(largest, tiny))
		}
		return l.value(nil, y)
	}
	// The second condition excludes weights that do not influence the loss. Such weights always satisfy the first
	// condition, even if the loss has a minimum.
	far := func(classes ...int) bool {
		return scaled(classes, 100) < lowest+1e-6 && scaled(classes, 0) > lowest+1e-6
	}
	var all []int
	for k := range l.d.Classes {
		all = append(all, k)
		if !slices.Contains(l.d.Label, k) && far(k) {
			return true
		}
	}
	return far(all...)
}

func small(gradient []float64) bool {
	for _, g := range gradient {
		if !(math.Abs(g) < 1e-5) {
			return false
		}
	}
	return true
}

// ridge holds the three factors of a penalty: one for the diagonal elements of W, one for the other elements of W, and
// one for the biases. Each factor multiplies the sum of the squares of these elements or biases. If the field
// 'identity' is set, the elements are those of W − I instead of W.
type ridge struct {
	diagonal, off, bias float64
	identity            bool
}

// likelihood is the function that fitMultinomial minimises. The argument of this function holds the weights followed by
// the biases.
type likelihood struct {
	d       Data
	z       []float64
	weights int
	ridge   ridge
}

// The penalty on the parameter x_j is weight·(x_j − centre)². The method 'penalty' returns this weight and this centre.
func (l likelihood) penalty(j int) (weight, centre float64) {
	switch {
	case j >= l.weights:
		return l.ridge.bias, 0
	case l.weights == l.d.Classes || j%(l.d.Classes+1) == 0:
		return l.ridge.diagonal, float64(index(l.ridge.identity))
	}
	return l.ridge.off, 0
}

// The method 'diagonal' returns the index of W_kk among the parameters.
func (l likelihood) diagonal(k int) int {
	if l.weights == l.d.Classes {
		return k
	}
	return k*l.d.Classes + k
}

// value returns the loss at x: the mean negative log-likelihood plus the penalty. If the slice 'gradient' is not nil,
// the method also writes the gradient of the loss to this slice.
func (l likelihood) value(gradient, x []float64) float64 {
	k, n := l.d.Classes, l.d.N()
	m := Map{Classes: k, Weight: x[:l.weights], Bias: x[l.weights:]}
	clear(gradient)
	sum, p := 0.0, make([]float64, k)
	for i, y := range l.d.Label {
		z := l.z[i*k : (i+1)*k]
		sum += m.negativeLog(p, z, y)
		if gradient == nil {
			continue
		}
		p[y]--
		for j, r := range p {
			r /= float64(n)
			gradient[l.weights+j] += r
			if l.weights == k {
				gradient[j] += r * z[j]
				continue
			}
			for i, x := range z {
				gradient[i*k+j] += r * x
			}
		}
	}
	penalty := 0.0
	for j, w := range x {
		weight, centre := l.penalty(j)
		penalty += weight * (w - centre) * (w - centre)
		if gradient != nil {
			gradient[j] += 2 * weight * (w - centre)
		}
	}
	return sum/float64(n) + penalty
}

// negativeLog returns −ln softmax(zW + b)_y for the logits z and the label y. It also writes the softmax to p.
func (m Map) negativeLog(p, z []float64, y int) float64 {
	m.affine(p, z)
	top := math.Inf(-1)
	for _, x := range p {
		top = max(top, x)
	}
	sum, at := 0.0, p[y]-top
	for j, x := range p {
		p[j] = math.Exp(x - top)
		sum += p[j]
	}
	for j := range p {
		p[j] /= sum
	}
	return math.Log(sum) - at
}
