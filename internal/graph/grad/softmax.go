package grad

import (
	"math"
	"slices"
)

// This file holds the rules of softmax and attention.

// softmax is the rule of Softmax and LogSoftmax. Let d be the gradient in the result y. The gradient in the input is
// y·(d − Σ d·y) for Softmax, and d − exp(y)·Σ d for LogSoftmax. Before operator set 13 both operators work on a matrix.
// In this matrix, each row holds all elements along the given axis and the axes after it.
func softmax(t *tape, n *node) error {
	y, ys := n.output(), t.shape(n.output())
	otherwise := int64(-1)
	if t.opset < 13 {
		otherwise = 1
	}
	along := axis(n.integer("axis", otherwise), len(ys))
	t.give(n, 0, func() string {
		d := n.d[0]
		matrix := t.opset < 13 && along < len(ys)-1
		if matrix {
			flat := []int64{product(ys[:along]), product(ys[along:])}
			d, y, along = t.reshape(d, flat), t.reshape(y, flat), 1
		}
		if n.GetOpType() == "Softmax" {
			d = t.softmaxSlope(d, y, int64(along))
		} else {
			d = t.Op("Sub", d, t.mul(t.Op("Exp", y), t.sum(d, int64(along))))
		}
		if matrix {
			d = t.reshape(d, ys)
		}
		return d
	})
	return nil
}

// softmaxSlope adds nodes that compute the gradient with respect to the input of a softmax along an axis. y is the
// softmax's result.
func (t *tape) softmaxSlope(d, y string, along int64) string {
	return t.mul(y, t.Op("Sub", d, t.sum(t.mul(d, y), along)))
}

// attention is the rule of P·V with P = softmax(s·Q·Kᵀ + mask), where s is a number. Q, K and V have the shape [batch,
// heads, length, size].
func attention(t *tape, n *node) error {
	q, k, v, mask := n.input(0), n.input(1), n.input(2), n.input(3)
	qs := t.shape(q)
	plain := len(qs) == 4 && n.integer("is_causal", 0) == 0 && n.float("softcap", 0) == 0 && n.input(4) == "" && n.input(5) == "" &&
		slices.Equal(qs[:2], t.shape(k)[:2])
	for _, d := range n.d[1:] {
		plain = plain && d == ""
	}
	if !plain {
		return n.refuse("no gradient is known for attention of this kind")
	}
	scale := n.float("scale", float32(1/math.Sqrt(float64(qs[3]))))
	products := t.scale(q, t.Op("MatMul", q, t.swapLast(k, 4)), scale)
	switch {
	case mask != "" && t.types[mask].IsFloat():
		products = t.Op("Add", products, mask)
	case mask != "":
		products = t.Op("Where", mask, products, t.numberFor(q, math.Inf(-1)))
	}
	p := t.Op("Softmax", products)
	ds := t.scale(q, t.softmaxSlope(t.Op("MatMul", n.d[0], t.swapLast(v, 4)), p, 3), scale)
	t.give(n, 0, func() string { return t.Op("MatMul", ds, k) })
	t.give(n, 1, func() string { return t.Op("MatMul", t.swapLast(ds, 4), q) })
	t.give(n, 2, func() string { return t.Op("MatMul", t.swapLast(p, 4), n.d[0]) })
	return nil
}
