package calibrator

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/optimize"

	"github.com/rscert/rscert/internal/calib"
)

// allLogits returns the logits [N×Classes] of the data.
func (d Data) allLogits() []float64 {
	m := Map{Input: d.Input, Columns: d.Columns, Classes: d.Classes}
	out := make([]float64, d.N()*d.Classes)
	for i := range d.N() {
		m.logits(out[i*d.Classes:(i+1)*d.Classes], d.Values[i*d.Columns:(i+1)*d.Columns])
	}
	return out
}

func fitTemperature(d Data, _ Options) (Map, error) {
	fit, err := calib.FitTemperature(d.allLogits(), d.Classes, d.Label)
	if err != nil {
		return Map{}, err
	}
	return Map{Weight: []float64{1 / fit.Temperature}, Bias: make([]float64, d.Classes), AtLimit: fit.AtLimit}, nil
}

func fitVector(d Data, o Options) (Map, error) { return fitMultinomial(d, o, d.Classes) }

// maxMatrix is the largest number of parameters of matrix scaling.
const maxMatrix = 1 << 20

func fitMatrix(d Data, o Options) (Map, error) {
	if d.Classes*d.Classes > maxMatrix {
		return Map{}, fmt.Errorf("%d classes are too many for a full matrix: at most 1024; take vector", d.Classes)
	}
	return fitMultinomial(d, o, d.Classes*d.Classes)
}

// fitMultinomial fits softmax(zW + b) for logits z. It minimises the mean negative log-likelihood plus L2·(‖W − I‖² +
// ‖b‖²) over the weights W and the biases b. The argument weights is the number of weights in W. The loss is convex,
// and with L2 > 0 it has exactly one minimum.
func fitMultinomial(d Data, o Options, weights int) (Map, error) {
	if !(o.L2 > 0) || math.IsInf(o.L2, 0) {
		return Map{}, fmt.Errorf("L2 %v must be positive: without it there may be no best map", o.L2)
	}
	z := d.allLogits()
	for i, x := range z {
		if math.IsInf(x, 0) {
			return Map{}, &calib.RowError{Row: i / d.Classes, Reason: fmt.Sprintf("logit %v: only temperature takes it", x)}
		}
	}
	l := likelihood{d: d, z: z, weights: weights, l2: o.L2}
	start := make([]float64, weights+d.Classes)
	for k := range d.Classes {
		start[l.diagonal(k)] = 1
	}
	result, err := optimize.Minimize(optimize.Problem{
		Func: func(x []float64) float64 { return l.value(nil, x) },
		Grad: func(gradient, x []float64) { l.value(gradient, x) },
	}, start, &optimize.Settings{GradientThreshold: 1e-8, MajorIterations: 5000}, &optimize.LBFGS{})
	// If the line search finds no lower point, the current point is the minimum, up to the precision of float64.
	if err != nil && (result == nil || result.Gradient == nil || !small(result.Gradient)) {
		return Map{}, errors.Join(errors.New("the fit did not converge"), err)
	}
	return Map{Weight: result.X[:weights:weights], Bias: result.X[weights:]}, nil
}

func small(gradient []float64) bool {
	for _, g := range gradient {
		if !(math.Abs(g) < 1e-5) {
			return false
		}
	}
	return true
}

// likelihood is the function that fitMultinomial minimises. The argument of this function holds the weights followed by
// the biases.
type likelihood struct {
	d       Data
	z       []float64
	weights int
	l2      float64
}

// diagonal returns the index of the weight from class k to class k.
func (l likelihood) diagonal(k int) int {
	if l.weights == l.d.Classes {
		return k
	}
	return k*l.d.Classes + k
}

// value returns the loss at x: the mean negative log-likelihood plus the penalty. Unless the slice gradient is nil,
// value writes the gradient to it.
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
		if j < l.weights && (l.weights == k || j%(k+1) == 0) {
			w--
		}
		penalty += w * w
		if gradient != nil {
			gradient[j] += 2 * l.l2 * w
		}
	}
	return sum/float64(n) + l.l2*penalty
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
