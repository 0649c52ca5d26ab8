package calibrator

import (
	"errors"
	"fmt"
	"math"

	"github.com/rscert/rscert/internal/calib"
)

// The type 'binary' holds the data of a problem with two classes: class k, and all other classes together.
type binary struct {
	input Input
	s, d  []float64 // probability and log-odds of the class
	is    []bool
}

// The method 'ordered' returns the examples as predictions. The confidence of an example increases with its
// probability, or with its log-odds if the outputs are logits. Confidences lie in [0, 1].
func (b binary) ordered() *calib.Predictions {
	p := &calib.Predictions{Confidence: b.s, Correct: b.is}
	if b.input == Logits {
		p.Confidence = make([]float64, len(b.d))
		for i, d := range b.d {
			p.Confidence[i] = (d + maxOdds) / (2 * maxOdds)
		}
	}
	return p
}

// The method 'variable' takes a confidence that the method 'ordered' computed. It returns the probability or the
// log-odds of the example, rounded to float32.
func (b binary) variable(confidence float64) float64 {
	if b.input == Logits {
		confidence = confidence*(2*maxOdds) - maxOdds
	}
	return float64(float32(confidence))
}

// If there are two classes, eachClass calls the function 'fit' for class 1 only. Otherwise it calls 'fit' for each
// class.
func (d Data) eachClass(fit func(b binary) error) error {
	first, last := 0, d.Classes-1
	if d.Classes == 2 {
		first = 1
	}
	for k := first; k <= last; k++ {
		b := binary{d.Input, make([]float64, d.N()), make([]float64, d.N()), make([]bool, d.N())}
		for i, y := range d.Label {
			b.s[i], b.d[i] = odds(d.Input, d.Columns, d.Values[i*d.Columns:(i+1)*d.Columns], k)
			b.is[i] = y == k
		}
		if err := fit(b); err != nil {
			return fmt.Errorf("class %d: %w", k, err)
		}
	}
	return nil
}

// fitPlatt fits σ(a·d + b) for log-odds d. Of the examples, n₁ have the label 1 and n₀ have the label 0. The fit
// replaces the label 1 by (n₁+1)/(n₁+2), and the label 0 by 1/(n₀+2) (Platt 1999), so that the likelihood always has a
// maximum.
func fitPlatt(d Data, _ Options) (m Map, err error) {
	err = d.eachClass(func(b binary) error {
		var n [2]float64
		for _, is := range b.is {
			n[index(is)]++
		}
		target := [2]float64{1 / (n[0] + 2), (n[1] + 1) / (n[1] + 2)}
		x, err := fitLogistic(len(b.d), 2, func(row []float64, i int) float64 {
			row[0], row[1] = b.d[i], 1
			return target[index(b.is[i])]
		})
		if err == nil {
			m.Platt = append(m.Platt, PlattCurve{x[0], x[1]})
		}
		return err
	})
	return m, err
}

func index(is bool) int {
	if is {
		return 1
	}
	return 0
}

// fitBeta fits σ(a ln s − b ln(1−s) + c) for a probability s. A weight a or b below 0 would reverse the order of
// scores. If a weight is below 0, fitBeta sets it to 0 and fits the other parameters again. The program betacal of the
// method's authors does the same.
func fitBeta(d Data, _ Options) (m Map, err error) {
	err = d.eachClass(func(b binary) error {
		fit := func(useA, useB float64) ([]float64, error) {
			return fitLogistic(len(b.d), 3, func(row []float64, i int) float64 {
				row[0], row[1], row[2] = -useA*softplus(-b.d[i]), useB*softplus(b.d[i]), 1
				return float64(index(b.is[i]))
			})
		}
		x, err := fit(1, 1)
		if err == nil && x[0] < 0 {
			x, err = fit(0, 1)
		} else if err == nil && x[1] < 0 {
			x, err = fit(1, 0)
		}
		// the other weight, in the second fit, is below 0 too, so a constant is best
		if err == nil && (x[0] < 0 || x[1] < 0) {
			x, err = fit(0, 0)
		}
		if err == nil {
			m.Beta = append(m.Beta, BetaCurve{x[0], x[1], x[2]})
		}
		return err
	})
	return m, err
}

// fitLogistic maximises the likelihood of logistic regression. The argument 'row' is a function. It writes the features
// of example i into its first argument, and returns the label of the example, a number in [0, 1]. fitLogistic uses
// Newton's method and halves a step while the step would raise the loss. A feature that is always 0 gets the weight 0.
func fitLogistic(n, features int, row func(row []float64, i int) float64) ([]float64, error) {
	w := make([]float64, features)
	x := make([]float64, features)
	loss := func(w []float64) float64 {
		sum := 0.0
		for i := range n {
			y := row(x, i)
			z := dot(w, x)
			sum += softplus(z) - y*z
		}
		return sum
	}
	derivatives := func(w []float64) (gradient, hessian []float64) {
		gradient, hessian = make([]float64, features), make([]float64, features*features)
		for i := range n {
			y := row(x, i)
			addLogistic(gradient, hessian, x, y, sigmoid(dot(w, x)))
		}
		return gradient, hessian
	}
	current := loss(w)
	for range 200 {
		gradient, hessian := derivatives(w)
		step := solve(hessian, gradient)
		decrement := dot(step, gradient)
		if decrement <= 1e-15*(1+current) {
			break
		}
		scale, next, value := 1.0, make([]float64, features), 0.0
		for {
			for j := range w {
				next[j] = w[j] - scale*step[j]
			}
			if value = loss(next); value <= current {
				break
			}
			if scale /= 2; scale < 1e-10 { // a shorter step cannot lower the loss measurably
				return w, nil
			}
		}
		w, current = next, value
	}
	if current < 1e-6 { // the fitted probability of every label is nearly 1
		return nil, errSeparable
	}
	return w, nil
}

// addLogistic adds the contribution of one example to the gradient and the Hessian of the loss. The example has
// features x, label y and probability p.
func addLogistic(gradient, hessian, x []float64, y, p float64) {
	for j, a := range x {
		gradient[j] += (p - y) * a
		for k, b := range x {
			hessian[j*len(x)+k] += p * (1 - p) * a * b
		}
	}
}

var errSeparable = errors.New("the likelihood has no maximum: a threshold on the score separates the labels; take platt, or more data")

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

// The function 'solve' solves hx = g for a small positive semidefinite h by Gaussian elimination. Before the
// elimination, it adds a small number to the diagonal of h. This number changes the Newton steps but not their limit.
func solve(h, g []float64) []float64 {
	n := len(g)
	a, x := append([]float64(nil), h...), append([]float64(nil), g...)
	most := 0.0
	for j := range n {
		most = max(most, h[j*n+j])
	}
	for j := range n {
		a[j*n+j] += 1e-10*most + math.SmallestNonzeroFloat64
	}
	for j := range n {
		for i := j + 1; i < n; i++ {
			f := a[i*n+j] / a[j*n+j]
			for k := j; k < n; k++ {
				a[i*n+k] -= f * a[j*n+k]
			}
			x[i] -= f * x[j]
		}
	}
	for j := n - 1; j >= 0; j-- {
		for k := j + 1; k < n; k++ {
			x[j] -= a[j*n+k] * x[k]
		}
		x[j] /= a[j*n+j]
	}
	return x
}

// fitIsotonic fits a nondecreasing function of the probability, or of the log-odds if the outputs are logits. Isotonic
// regression divides the examples into pools of neighbours, and gives all examples of a pool the same value. As in
// scikit-learn, the function is linear between two neighbouring pools. It is constant below the first pool and above
// the last pool.
func fitIsotonic(d Data, _ Options) (m Map, err error) {
	err = d.eachClass(func(b binary) error {
		x, y := calib.Rank(b.ordered()).Isotonic()
		for k := range x {
			x[k] = b.variable(x[k])
		}
		m.Steps = append(m.Steps, interpolate(x, y))
		return nil
	})
	return m, err
}

// interpolate returns the piecewise linear function through the points. If several points have the same x, it keeps the
// last of them.
func interpolate(x, y []float64) (c StepCurve) {
	for k, at := range x {
		if n := len(c.At); n > 0 && c.At[n-1] == at {
			c.Value[n-1] = y[k]
			continue
		}
		c.At, c.Value, c.Slope = append(c.At, at), append(c.Value, y[k]), append(c.Slope, 0)
	}
	for k := range len(c.At) - 1 {
		c.Slope[k] = (c.Value[k+1] - c.Value[k]) / (c.At[k+1] - c.At[k])
	}
	return c
}

// fitHistogram fits a map that is constant in bins of equal count. An edge between two bins is halfway between the
// largest value of the lower bin and the smallest value of the upper bin.
func fitHistogram(d Data, o Options) (m Map, err error) {
	err = d.eachClass(func(b binary) error {
		bins, err := calib.EqualCount(b.ordered(), o.Bins)
		if err != nil {
			return err
		}
		var c StepCurve
		for k, bin := range bins {
			at := b.variable(bin.Lower)
			if k > 0 {
				at = b.variable(bins[k-1].Upper + (bin.Lower-bins[k-1].Upper)/2)
			}
			c.At, c.Value, c.Slope = append(c.At, at), append(c.Value, bin.Accuracy), append(c.Slope, 0)
		}
		m.Steps = append(m.Steps, c)
		return nil
	})
	return m, err
}

// The method 'finite' reports whether all parameters are finite numbers.
func (m Map) finite() bool {
	all := append(append([]float64(nil), m.Weight...), m.Bias...)
	for _, p := range m.Platt {
		all = append(all, p.A, p.B)
	}
	for _, b := range m.Beta {
		all = append(all, b.A, b.B, b.C)
	}
	for _, s := range m.Steps {
		all = append(append(append(all, s.At...), s.Value...), s.Slope...)
	}
	for _, v := range m.VennAbers {
		all = append(append(append(all, v.At...), v.P0...), v.P1...)
	}
	for _, x := range all {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}
