package grad

import (
	"math"

	"github.com/rscert/rscert/internal/graph"
)

// This file holds the derivatives of activation functions.

// activation adds nodes that compute d·f′(x), where y = f(x) and d is the gradient in y.
type activation func(t *tape, n *node, x, y, d string) string

var activations = map[string]activation{
	// The slope is 0 at 0. The result y of Relu is never negative, so its conversion to bool is true exactly where y is
	// positive. Computing this mask with the operator Sign takes five times as long.
	"Relu": func(t *tape, _ *node, _, y, d string) string { return t.masked(y, t.Cast(y, graph.Bool), d) },
	"Sigmoid": func(t *tape, _ *node, x, y, d string) string {
		return t.mul(d, t.mul(y, t.Op("Sub", t.numberFor(x, 1), y)))
	},
	"Tanh": func(t *tape, _ *node, x, y, d string) string {
		return t.mul(d, t.Op("Sub", t.numberFor(x, 1), t.mul(y, y)))
	},
	"LeakyRelu": func(t *tape, n *node, x, _, d string) string {
		return t.piecewise(x, d, t.scale(x, d, n.float("alpha", .01)))
	},
	"ThresholdedRelu": func(t *tape, n *node, x, _, d string) string {
		return t.masked(x, t.Op("Greater", x, t.numberFor(x, n.float("alpha", 1))), d)
	},
	"Elu": func(t *tape, n *node, x, y, d string) string { // below 0 the slope is α·eˣ = y + α
		return t.piecewise(x, d, t.mul(d, t.Op("Add", y, t.numberFor(x, n.float("alpha", 1)))))
	},
	"Selu": func(t *tape, n *node, x, y, d string) string { // below 0 the slope is γα·eˣ = y + γα
		gamma := n.float("gamma", 1.05070102214813232421875)
		below := t.Op("Add", y, t.numberFor(x, gamma*n.float("alpha", 1.67326319217681884765625)))
		return t.piecewise(x, t.scale(x, d, gamma), t.mul(d, below))
	},
	"Celu": func(t *tape, n *node, x, y, d string) string { // below 0 the slope is e^(x/α) = y/α + 1
		return t.piecewise(x, d, t.mul(d, t.Op("Add", t.scale(x, y, 1/n.float("alpha", 1)), t.numberFor(x, 1))))
	},
	"Softplus": func(t *tape, _ *node, x, _, d string) string { return t.mul(d, t.Op("Sigmoid", x)) },
	"Softsign": func(t *tape, _ *node, x, _, d string) string { // the slope is 1/(1+|x|)²
		one := t.Op("Add", t.Op("Abs", x), t.numberFor(x, 1))
		return t.Op("Div", d, t.mul(one, one))
	},
	"Mish": func(t *tape, _ *node, x, _, d string) string {
		// The slope is s + x·(1−s²)·sigmoid(x), where s = tanh(softplus(x)).
		s := t.Op("Tanh", t.Op("Softplus", x))
		rise := t.mul(t.mul(x, t.Op("Sigmoid", x)), t.Op("Sub", t.numberFor(x, 1), t.mul(s, s)))
		return t.mul(d, t.Op("Add", s, rise))
	},
	"Swish": func(t *tape, n *node, x, y, d string) string { // the slope is s + α·y·(1−s) with s = sigmoid(αx)
		alpha := n.float("alpha", 1)
		s := t.Op("Sigmoid", t.scale(x, x, alpha))
		return t.mul(d, t.Op("Add", s, t.scale(x, t.mul(y, t.Op("Sub", t.numberFor(x, 1), s)), alpha)))
	},
	"HardSigmoid": func(t *tape, n *node, x, y, d string) string {
		return t.maskedBetween(x, y, 0, 1, t.scale(x, d, n.float("alpha", .2)))
	},
	"HardSwish": func(t *tape, _ *node, x, _, d string) string { // the slope is x/3 + ½ for −3 < x < 3
		inside := t.maskedBetween(x, x, -3, 3, t.mul(d, t.Op("Add", t.scale(x, x, 1./3), t.numberFor(x, .5))))
		return t.Op("Add", inside, t.masked(x, t.Op("Not", t.Op("Less", x, t.numberFor(x, 3))), d))
	},
}

func activationSlope(t *tape, n *node, d string) string {
	return activations[n.GetOpType()](t, n, n.input(0), n.output(), d)
}

// piecewise adds nodes that choose between two arguments for each element: the argument 'above' if x > 0, and the
// argument 'below' otherwise.
func (t *tape) piecewise(x, above, below string) string {
	return t.Op("Where", t.Op("Greater", x, t.numberFor(x, 0)), above, below)
}

// maskedBetween adds nodes whose result is d where low < v < high, and 0 elsewhere.
func (t *tape) maskedBetween(x, v string, low, high float64, d string) string {
	return t.masked(x, t.Op("And", t.Op("Greater", v, t.numberFor(x, low)), t.Op("Less", v, t.numberFor(x, high))), d)
}

// gelu adds nodes that compute d·f′(x). Here f(x) is x·Φ(x), where Φ is the standard normal distribution function. If
// the attribute 'approximate' is "tanh", f(x) is the approximation of x·Φ(x) by tanh.
func gelu(t *tape, n *node, d string) string {
	x := n.input(0)
	half, one := t.numberFor(x, .5), t.numberFor(x, 1)
	if n.text("approximate", "none") == "tanh" { // f(x) is ½x(1+h) with h = tanh(u) and u = √(2/π)(x + c·x³)
		const c = .044715
		k := math.Sqrt(2 / math.Pi)
		xx := t.mul(x, x)
		h := t.Op("Tanh", t.mul(t.scale(x, x, k), t.Op("Add", one, t.scale(x, xx, c))))
		rise := t.mul(x, t.Op("Add", t.numberFor(x, k), t.scale(x, xx, 3*c*k))) // x·u′
		rise = t.mul(rise, t.Op("Sub", one, t.mul(h, h)))
		return t.mul(d, t.mul(half, t.Op("Add", t.Op("Add", one, h), rise)))
	}
	cdf := t.mul(half, t.Op("Add", one, t.Op("Erf", t.scale(x, x, math.Sqrt(.5)))))
	pdf := t.scale(x, t.Op("Exp", t.scale(x, t.mul(x, x), -.5)), 1/math.Sqrt(2*math.Pi))
	return t.mul(d, t.Op("Add", cdf, t.mul(x, pdf)))
}

func pRelu(t *tape, n *node) error {
	x, slope, d := n.input(0), n.input(1), n.d[0]
	t.give(n, 0, func() string { return t.piecewise(x, d, t.mul(d, slope)) })
	t.give(n, 1, func() string {
		return t.unbroadcast(t.piecewise(x, t.numberFor(x, 0), t.mul(d, x)), t.shape(n.output()), t.shape(slope))
	})
	return nil
}
