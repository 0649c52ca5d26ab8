package grad

import (
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/graph"
)

// This file holds the rules of reductions and of running sums.

// reduction is the gradient rule (see the type 'rule') of the operators that reduce an input over axes, such as sums,
// means and extremes.
func reduction(t *tape, n *node) error {
	x, xs := n.input(0), t.shape(n.input(0))
	axes, err := t.axes(n)
	if err != nil {
		return err
	}
	kept := slices.Clone(xs)
	for _, a := range axes {
		kept[a] = 1
	}
	t.give(n, 0, func() string {
		d, y := n.d[0], n.output()
		if n.integer("keepdims", 1) == 0 {
			d, y = t.reshape(d, kept), t.reshape(y, kept)
		}
		return t.reductionSlope(strings.TrimPrefix(n.GetOpType(), "Reduce"), x, y, d, axes)
	})
	return nil
}

// The method 'axes' returns the axes that a reduction runs over.
func (t *tape) axes(n *node) ([]int64, error) {
	rank := len(t.shape(n.input(0)))
	given, err := t.integers(n, 1)
	if a := n.attribute("axes"); a != nil {
		given = a.Ints
	}
	switch {
	case err != nil:
		return nil, err
	case len(given) == 0 && n.integer("noop_with_empty_axes", 0) != 0:
		return nil, nil
	case len(given) == 0:
		return upTo(rank), nil
	}
	axes := make([]int64, len(given))
	for i, a := range given {
		axes[i] = int64(axis(a, rank))
	}
	return axes, nil
}

// reductionSlope adds nodes that compute the gradient in x. The argument y is the reduction of x, and d is the gradient
// in y. Both y and d keep the reduced axes, with size 1.
func (t *tape) reductionSlope(kind, x, y, d string, axes []int64) string {
	xs := t.shape(x)
	switch kind {
	case "Mean":
		count := 1.
		for _, a := range axes {
			count *= float64(xs[a])
		}
		d = t.scale(x, d, 1/count)
	case "Max", "Min":
		return t.shareExtremes(x, y, d, axes)
	case "L1":
		return t.mul(d, t.Op("Sign", x))
	case "L2":
		return t.mul(d, t.Op("Div", x, y))
	case "SumSquare":
		return t.mul(d, t.scale(x, x, 2))
	case "Prod":
		return t.prodSlope(x, d, axes)
	case "LogSum": // y = ln Σx, so the slope is 1/e^y
		d = t.Op("Div", d, t.Op("Exp", y))
	case "LogSumExp":
		return t.mul(d, t.Op("Exp", t.Op("Sub", x, y)))
	}
	return t.expand(d, xs)
}

// prodSlope adds nodes that compute the gradient in x. For each element of x, this gradient is d times the product of
// the other elements. If one of the other elements is 0, the result is 0. Otherwise the nodes take the product of all
// elements of x that are not 0. If the element itself is not 0, the nodes then divide this product by the element.
func (t *tape) prodSlope(x, d string, axes []int64) string {
	null, one := t.equal(x, t.numberFor(x, 0)), t.numberFor(x, 1)
	nulls := t.Cast(null, t.floatType(x))
	rest := t.Op("Where", null, one, x)
	others := t.Op("Sub", t.sum(nulls, axes...), nulls)
	product := t.Op("Div", t.reduce("ReduceProd", rest, axes, true), rest)
	return t.masked(x, t.Op("Less", others, t.numberFor(x, .5)), t.mul(d, product))
}

// shareExtremes adds nodes that compute the gradient in x, where y is the maximum or minimum of x over the axes, and d
// is the gradient in y. The nodes divide d evenly among the elements of x that equal y, as PyTorch's amax does.
func (t *tape) shareExtremes(x, y, d string, axes []int64) string {
	mask := t.Cast(t.equal(x, y), t.floatType(x))
	return t.mul(mask, t.Op("Div", d, t.sum(mask, axes...)))
}

// cumSum is the rule of running sums. The gradient in the input is the running sum of d in the opposite direction,
// where d is the gradient in the result.
func cumSum(t *tape, n *node) error {
	t.give(n, 0, func() string {
		return t.Node("CumSum", []string{n.d[0], n.input(1)}, graph.IntAttribute("exclusive", n.integer("exclusive", 0)),
			graph.IntAttribute("reverse", 1-n.integer("reverse", 0)))
	})
	return nil
}

// topK moves the gradients to the indices in TopK's second output.
func topK(t *tape, n *node) error {
	x, xs := n.input(0), t.shape(n.input(0))
	t.give(n, 0, func() string {
		if len(n.Output) == 1 || n.Output[1] == "" {
			n.Output = []string{n.output(), t.name()}
		}
		along := axis(n.integer("axis", -1), len(xs))
		return t.scatter(t.zeros(t.floatType(x), xs), n.Output[1], n.d[0], int64(along), false)
	})
	return nil
}
