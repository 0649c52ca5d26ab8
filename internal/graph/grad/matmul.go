package grad

import (
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/graph"
)

// This file holds the rules of matrix products.

// matMul is the rule of Y = A·B. The gradients are dA = dY·Bᵀ and dB = Aᵀ·dY. If broadcasting repeats A or B, the
// gradient in the repeated matrix is the sum over its repetitions.
func matMul(t *tape, n *node) error {
	a, b, d := n.input(0), n.input(1), n.d[0]
	as, bs, ys := t.shape(a), t.shape(b), t.shape(n.output())
	if len(as) == 1 { // a vector on the left is a matrix with one row
		as = []int64{1, as[0]}
		ys = slices.Insert(slices.Clone(ys), max(0, len(bs)-2), 1)
	}
	if len(bs) == 1 { // a vector on the right is a matrix with one column
		bs = []int64{bs[0], 1}
		ys = append(slices.Clone(ys), 1)
	}
	if len(ys) != len(t.shape(n.output())) {
		d = t.reshape(d, ys)
	}
	matrix := func(v string, shape []int64) string {
		if len(t.shape(v)) < 2 {
			return t.reshape(v, shape)
		}
		return v
	}
	t.give(n, 0, func() string {
		da := t.Op("MatMul", d, t.swapLast(matrix(b, bs), len(bs)))
		have := append(slices.Clone(ys[:len(ys)-1]), as[len(as)-1])
		return t.reshapeIfVector(t.unbroadcast(da, have, as), a)
	})
	t.give(n, 1, func() string {
		db := t.Op("MatMul", t.swapLast(matrix(a, as), len(as)), d)
		have := append(slices.Clone(ys[:len(ys)-2]), bs[len(bs)-2], ys[len(ys)-1])
		return t.reshapeIfVector(t.unbroadcast(db, have, bs), b)
	})
	return nil
}

func (t *tape) reshapeIfVector(d, v string) string {
	if len(t.shape(v)) == 1 {
		return t.reshapeTo(d, v)
	}
	return d
}

// gemm is the rule of Y = α·A·B + β·C. The attributes transA and transB replace A and B by their transposes.
func gemm(t *tape, n *node) error {
	a, b, d := n.input(0), n.input(1), n.d[0]
	alpha, beta := n.float("alpha", 1), n.float("beta", 1)
	transA, transB := n.integer("transA", 0) != 0, n.integer("transB", 0) != 0
	t.give(n, 0, func() string {
		if transA {
			return t.gemm(a, b, d, transB, true, alpha)
		}
		return t.gemm(a, d, b, false, !transB, alpha)
	})
	t.give(n, 1, func() string {
		if transB {
			return t.gemm(b, d, a, true, transA, alpha)
		}
		return t.gemm(b, a, d, !transA, false, alpha)
	})
	t.give(n, 2, func() string {
		return t.unbroadcast(t.scale(n.input(2), d, beta), t.shape(n.output()), t.shape(n.input(2)))
	})
	return nil
}

// einsum is the gradient rule of the operator Einsum. It supports only equations in which no term has a letter twice.
// The gradient with respect to an input is computed by an Einsum, too. The first operand of this Einsum is the gradient
// with respect to the result. The other operands are the other inputs. In the equation, the letters of the input and
// the letters of the result change places.
func einsum(t *tape, n *node) error {
	equation := strings.ReplaceAll(n.text("equation", ""), " ", "")
	left, result, explicit := strings.Cut(equation, "->")
	terms := strings.Split(left, ",")
	if !explicit || strings.Contains(equation, ".") || slices.ContainsFunc(append(terms, result), repeats) {
		return n.refuse("no gradient is known for the equation '%s'", equation)
	}
	for k, term := range terms {
		in, values := []string{result}, []string{n.d[0]}
		for j, other := range terms {
			if j != k {
				in, values = append(in, other), append(values, n.input(j))
			}
		}
		if strings.Trim(term, strings.Join(in, "")) != "" { // a letter that occurs nowhere else in the equation
			return n.refuse("no gradient is known for the equation '%s'", equation)
		}
		t.give(n, k, func() string {
			return t.Node("Einsum", values, textAttribute("equation", strings.Join(in, ",")+"->"+term))
		})
	}
	return nil
}

// The function 'repeats' reports whether a term has a letter twice.
func repeats(term string) bool {
	for i, r := range term {
		if strings.ContainsRune(term[i+1:], r) {
			return true
		}
	}
	return false
}

// selection adds nodes for the gradient of an operator. This operator selects elements of v by their indices along an
// axis. The axis of v has the given size, and d is the gradient in the result of the operator. The added nodes compute
// the gradient in v. If the indices are consecutive, the nodes pad d with zeros. Otherwise the nodes multiply d by a
// matrix of zeros and ones.
func (t *tape) selection(v, d string, shape []int64, along int, indices []int64, size int64) string {
	consecutive := len(indices) > 0
	for i, at := range indices {
		consecutive = consecutive && at == indices[0]+int64(i)
	}
	if consecutive {
		before, after := make([]int64, len(shape)), make([]int64, len(shape))
		before[along], after[along] = indices[0], size-1-indices[len(indices)-1]
		return t.pad(v, d, before, after)
	}
	ones := make([]float64, int64(len(indices))*size)
	for i, at := range indices {
		ones[int64(i)*size+at] = 1
	}
	return t.productAlong(v, d, len(shape), along, t.numbers(v, []int64{int64(len(indices)), size}, ones...))
}

// productAlong adds nodes that multiply d by a matrix along an axis.
func (t *tape) productAlong(v, d string, rank, along int, matrix string) string {
	perm := upTo(rank)
	perm[along], perm[rank-1] = perm[rank-1], perm[along] // this permutation is its own inverse
	if t.types[v] == graph.Float16 {
		return t.Cast(t.transpose(t.Op("MatMul", t.transpose(t.Cast(d, graph.Float32), perm), t.Cast(matrix, graph.Float32)), perm), graph.Float16)
	}
	return t.transpose(t.Op("MatMul", t.transpose(d, perm), matrix), perm)
}
