package grad

import (
	"slices"

	"github.com/rscert/rscert/internal/graph"
)

// This file holds the rules of operators that move or repeat values.

// The rule 'reshape' gives the gradient the shape of the input.
func reshape(t *tape, n *node) error {
	t.give(n, 0, func() string { return t.reshapeTo(n.d[0], n.input(0)) })
	return nil
}

// The rule 'transpose' moves the gradient's axes back.
func transpose(t *tape, n *node) error {
	rank := len(t.shape(n.input(0)))
	perm := upTo(rank)
	slices.Reverse(perm)
	if a := n.attribute("perm"); a != nil {
		perm = a.Ints
	}
	back := make([]int64, rank)
	for to, from := range perm {
		back[from] = int64(to)
	}
	t.give(n, 0, func() string { return t.transpose(n.d[0], back) })
	return nil
}

// The rule 'expand' sums the gradient over the repetitions.
func expand(t *tape, n *node) error {
	t.give(n, 0, func() string { return t.unbroadcast(n.d[0], t.shape(n.output()), t.shape(n.input(0))) })
	return nil
}

// The rule 'tile' sums the gradient over the copies. The copies are whole: along each axis, one copy of the input ends
// before the next one begins.
func tile(t *tape, n *node) error {
	xs := t.shape(n.input(0))
	times, err := t.integers(n, 1)
	if err != nil {
		return err
	}
	t.give(n, 0, func() string {
		var split, copies []int64
		for i, size := range xs {
			copies = append(copies, int64(len(split)))
			split = append(split, times[i], size)
		}
		return t.reshape(t.sum(t.reshape(n.d[0], split), copies...), xs)
	})
	return nil
}

// depthToSpace moves the gradients in each block of pixels back into channels.
func depthToSpace(t *tape, n *node) error {
	k, xs := n.integer("blocksize", 1), t.shape(n.input(0))
	t.give(n, 0, func() string {
		if n.text("mode", "DCR") == "DCR" {
			return t.Node("SpaceToDepth", []string{n.d[0]}, graph.IntAttribute("blocksize", k))
		}
		blocks := t.reshape(n.d[0], []int64{xs[0], xs[1] / (k * k), xs[2], k, xs[3], k})
		return t.reshape(t.transpose(blocks, []int64{0, 1, 3, 5, 2, 4}), xs)
	})
	return nil
}

func spaceToDepth(t *tape, n *node) error {
	t.give(n, 0, func() string {
		return t.Node("DepthToSpace", []string{n.d[0]}, graph.IntAttribute("blocksize", n.integer("blocksize", 1)))
	})
	return nil
}
