package grad

import (
	"math"

	"github.com/rscert/rscert/internal/graph"
)

// This file holds the rules of operators that apply a function to each element of their input. It also holds the rules
// of operators that combine several inputs element by element, such as Add, Mul, Max and Where.

// The function 'unary' returns the rule of an operator with one input. The argument 'gradient' is a function that adds
// the nodes for the gradient in this input.
func unary(gradient func(t *tape, n *node, d string) string) rule {
	return func(t *tape, n *node) error {
		t.give(n, 0, func() string { return gradient(t, n, n.d[0]) })
		return nil
	}
}

// slope adds nodes that compute d·f′(x), where y = f(x) and d is the gradient in y.
type slope func(t *tape, x, y, d string) string

// The table 'functions' maps each operator to the derivative of its function.
var functions = map[string]slope{
	"Neg":        func(t *tape, _, _, d string) string { return t.Op("Neg", d) },
	"Abs":        func(t *tape, x, _, d string) string { return t.mul(d, t.Op("Sign", x)) },
	"Exp":        func(t *tape, _, y, d string) string { return t.mul(d, y) },
	"Log":        func(t *tape, x, _, d string) string { return t.Op("Div", d, x) },
	"Sqrt":       func(t *tape, x, y, d string) string { return t.Op("Div", t.scale(x, d, .5), y) },
	"Reciprocal": func(t *tape, _, y, d string) string { return t.Op("Neg", t.mul(d, t.mul(y, y))) },
	"Erf": func(t *tape, x, _, d string) string { // the slope is 2/√π·exp(−x²)
		return t.mul(t.scale(x, d, 2/math.Sqrt(math.Pi)), t.Op("Exp", t.Op("Neg", t.mul(x, x))))
	},
	"Sin": func(t *tape, x, _, d string) string { return t.mul(d, t.Op("Cos", x)) },
	"Cos": func(t *tape, x, _, d string) string { return t.Op("Neg", t.mul(d, t.Op("Sin", x))) },
	"Tan": func(t *tape, x, y, d string) string { return t.mul(d, t.Op("Add", t.mul(y, y), t.numberFor(x, 1))) },
	"Atan": func(t *tape, x, _, d string) string {
		return t.Op("Div", d, t.Op("Add", t.mul(x, x), t.numberFor(x, 1)))
	},
	"Sinh": func(t *tape, x, _, d string) string { return t.mul(d, t.Op("Cosh", x)) },
	"Cosh": func(t *tape, x, _, d string) string { return t.mul(d, t.Op("Sinh", x)) },
}

func functionSlope(t *tape, n *node, d string) string {
	return functions[n.GetOpType()](t, n.input(0), n.output(), d)
}

// The function 'flat' returns the gradient of a step function. It is zero everywhere, as in PyTorch.
func flat(t *tape, n *node, d string) string { return t.mul(d, t.numberFor(n.input(0), 0)) }

// The rule 'cast' passes gradients between floating-point types. It refuses conversions to integers, because they have
// no useful gradient. With a gradient of zero, attacks would fail, and the model would look robust.
func cast(t *tape, n *node) error {
	from, to := t.types[n.input(0)], t.types[n.output()]
	if !to.IsFloat() {
		return n.refuse("values are rounded to %s and have no gradient", to)
	}
	t.give(n, 0, func() string { return t.Cast(n.d[0], t.floatType(n.input(0))) })
	if !from.IsFloat() && from != graph.Bool {
		return n.refuse("values of type %s have no gradient", from)
	}
	return nil
}

// clip is the rule of min(max(x, low), high). The slope is 1 from low to high, including both limits, as in PyTorch's
// clamp. So an image's pixels at 0 or 1 keep their gradients.
func clip(t *tape, n *node) error {
	x := n.input(0)
	low, high := n.input(1), n.input(2)
	if a := n.attribute("min"); a != nil {
		low = t.numberFor(x, float64(a.GetF()))
	}
	if a := n.attribute("max"); a != nil {
		high = t.numberFor(x, float64(a.GetF()))
	}
	t.give(n, 0, func() string {
		d := n.d[0]
		if low != "" {
			d = t.masked(x, t.Op("Not", t.Op("Less", x, low)), d)
		}
		if high != "" {
			d = t.masked(x, t.Op("Not", t.Op("Greater", x, high)), d)
		}
		return d
	})
	return nil
}

// arithmetic is the rule of Add, Sub, Mul, Div and Pow. These operators broadcast their inputs.
func arithmetic(t *tape, n *node) error {
	for k := range n.Input {
		t.give(n, k, func() string {
			return t.unbroadcast(t.factorOf(n, k), t.shape(n.output()), t.shape(n.input(k)))
		})
	}
	return nil
}

// factorOf adds nodes that compute the gradient with respect to input k of a node. The node's operator is a function of
// two numbers. This gradient has the shape of the function's result. If the node broadcasts the input, so that elements
// of the input are repeated, the caller must sum the gradient over the repetitions.
func (t *tape) factorOf(n *node, k int) string {
	a, b, y, d := n.input(0), n.input(1), n.output(), n.d[0]
	second := k == 1
	switch op := n.GetOpType(); {
	case op == "Sub" && second:
		return t.Op("Neg", d)
	case op == "Mul" && second:
		return t.mul(d, a)
	case op == "Mul":
		return t.mul(d, b)
	case op == "Div" && second: // the slope is −y/b
		return t.Op("Neg", t.Op("Div", t.mul(d, y), b))
	case op == "Div":
		return t.Op("Div", d, b)
	case op == "Pow" && second: // the slope is y·ln a
		return t.mul(d, t.mul(y, t.Op("Log", a)))
	case op == "Pow": // the slope is b·a^(b−1)
		if t.types[b] != t.types[a] {
			b = t.Cast(b, t.floatType(a))
		}
		return t.mul(d, t.mul(b, t.Op("Pow", a, t.Op("Sub", b, t.numberFor(a, 1)))))
	}
	return d
}

func sumOrMean(t *tape, n *node) error {
	for k, v := range n.Input {
		t.give(n, k, func() string {
			d := n.d[0]
			if n.GetOpType() == "Mean" {
				d = t.scale(v, d, 1/float64(len(n.Input)))
			}
			return t.unbroadcast(d, t.shape(n.output()), t.shape(v))
		})
	}
	return nil
}

// maxOrMin is the rule of Max and Min. It divides a gradient evenly among the inputs that equal the extreme, as
// PyTorch's maximum does.
func maxOrMin(t *tape, n *node) error {
	y := n.output()
	masks := make([]string, len(n.Input))
	for k, v := range n.Input {
		masks[k] = t.Cast(t.equal(v, y), t.floatType(y))
	}
	share := t.Op("Div", n.d[0], t.Op("Sum", masks...))
	for k, v := range n.Input {
		t.give(n, k, func() string { return t.unbroadcast(t.mul(share, masks[k]), t.shape(y), t.shape(v)) })
	}
	return nil
}

// whereRule is the rule of the operator Where. It adds further Where nodes and does not multiply by the mask, because 0
// times an infinite gradient would be NaN.
func whereRule(t *tape, n *node) error {
	y, zero := n.output(), t.numberFor(n.output(), 0)
	t.give(n, 1, func() string {
		return t.unbroadcast(t.Op("Where", n.input(0), n.d[0], zero), t.shape(y), t.shape(n.input(1)))
	})
	t.give(n, 2, func() string {
		return t.unbroadcast(t.Op("Where", n.input(0), zero, n.d[0]), t.shape(y), t.shape(n.input(2)))
	})
	return nil
}
