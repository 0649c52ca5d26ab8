package grad

import (
	"slices"

	"github.com/rscert/rscert/internal/graph"
)

// This file holds the rules of recurrent layers. All states h[t] are outputs of the node, so a few products compute the
// gates of all steps at once. Only the steps backward in time are written one by one. The length of the sequence is a
// constant, as all sizes are.

// recurrence is one direction of a recurrent layer over T steps, B examples, I inputs and H states.
type recurrence struct {
	*tape
	n                         *node
	steps, batch, in, hidden  int64
	gates                     int64  // of the operator, each with H rows in the weights
	direction                 int64  // index of this direction
	backward                  bool   // it goes from the last step to the first
	x, w, r, inBias, outBias  string // [T, B, I], [gates·H, I], [gates·H, H], [gates·H] each
	states, before, first     string // h [T, B, H], the state before each step [T, B, H], the initial one [B, H]
	slopes, lastSlope, atCell string // gradients in h [T, B, H], in the last state [B, H], in the last cell; "" if none
}

// Numbers of the node's inputs.
const (
	recurrentX = iota
	recurrentW
	recurrentR
	recurrentB
	recurrentLengths
	recurrentH
	recurrentC // of LSTM
	recurrentP
)

// recurrent is the rule of a layer whose directions the function differentiates. It returns the gradients in the gates'
// sums over inputs [T, B, gates·H] and in the initial state [B, H] and cell.
func recurrent(gates int64, activations []string, slopes func(*recurrence) (sums, first, cell string)) rule {
	return func(t *tape, n *node) error {
		directions := t.shape(n.in(recurrentW))[0]
		if err := t.checkRecurrent(n, slices.Repeat(activations, int(directions))); err != nil {
			return err
		}
		if n.out() == "" { // the rule needs the states of all steps
			n.Output[0] = t.name()
		}
		var dx, firsts, cells []string
		for k := range directions {
			c := t.recurrenceOf(n, gates, k)
			sums, first, cell := slopes(c)
			dx = append(dx, c.Op("MatMul", sums, c.w))
			firsts, cells = append(firsts, c.unsqueeze(first)), append(cells, cell)
		}
		t.give(n, recurrentX, func() string {
			if len(dx) == 1 {
				return dx[0]
			}
			return t.Op("Sum", dx...)
		})
		t.give(n, recurrentH, func() string { return t.concat(firsts, 0) })
		t.give(n, recurrentC, func() string { return t.concat(cells, 0) })
		return nil
	}
}

// checkRecurrent refuses what the rules do not cover.
func (t *tape) checkRecurrent(n *node, activations []string) error {
	x := n.in(recurrentX)
	if lengths := n.in(recurrentLengths); lengths != "" {
		given, err := t.integers(n, recurrentLengths)
		if err != nil {
			return err
		}
		for _, length := range given {
			if length != t.shape(x)[0] {
				return n.refuse("no gradient is known for sequences of different lengths")
			}
		}
	}
	if n.in(recurrentP) != "" || n.integer("layout", 0) != 0 || n.attribute("clip") != nil || n.integer("input_forget", 0) != 0 {
		return n.refuse("no gradient is known for a layer of this kind")
	}
	if a := n.attribute("activations"); a != nil && !slices.Equal(n.texts("activations"), activations) {
		return n.refuse("no gradient is known for these activations")
	}
	return nil
}

// recurrenceOf adds the slices that one direction uses.
func (t *tape) recurrenceOf(n *node, gates, direction int64) *recurrence {
	x := n.in(recurrentX)
	xs := t.shape(x)
	c := &recurrence{
		tape: t, n: n, x: x, gates: gates, direction: direction,
		steps: xs[0], batch: xs[1], in: xs[2], hidden: t.shape(n.in(recurrentR))[2],
	}
	way := n.text("direction", "forward")
	c.backward = way == "reverse" || way == "bidirectional" && direction == 1
	rows := gates * c.hidden
	c.w = c.of(n.in(recurrentW), 0, []int64{rows, c.in})
	c.r = c.of(n.in(recurrentR), 0, []int64{rows, c.hidden})
	if b := n.in(recurrentB); b != "" {
		both := c.of(b, 0, []int64{2 * rows})
		c.inBias = t.slice(both, []int64{0}, []int64{rows}, []int64{0})
		c.outBias = t.slice(both, []int64{rows}, []int64{2 * rows}, []int64{0})
	} else {
		c.inBias = t.zeros(t.floatType(x), []int64{rows})
		c.outBias = c.inBias
	}
	c.first = c.initial(recurrentH)
	all := []int64{c.steps, c.batch, c.hidden}
	c.states = c.of(n.out(), 1, all)
	c.before = c.previous(c.states, c.first)
	if n.d[0] != "" {
		c.slopes = c.of(n.d[0], 1, all)
	}
	c.lastSlope, c.atCell = c.ofLast(1), c.ofLast(2)
	return c
}

// of adds this direction's part of v along an axis, in the given shape.
func (c *recurrence) of(v string, axis int64, shape []int64) string {
	part := c.tape.slice(v, []int64{c.direction}, []int64{c.direction + 1}, []int64{axis})
	return c.reshape(part, shape)
}

// initial adds an initial state, zeros unless input k gives one.
func (c *recurrence) initial(k int) string {
	shape := []int64{c.batch, c.hidden}
	if v := c.n.in(k); v != "" {
		return c.of(v, 0, shape)
	}
	return c.zeros(c.floatType(c.x), shape)
}

// ofLast adds the gradient in a final state, "" if there is none.
func (c *recurrence) ofLast(output int) string {
	if output >= len(c.n.d) || c.n.d[output] == "" {
		return ""
	}
	return c.of(c.n.d[output], 0, []int64{c.batch, c.hidden})
}

// previous adds what each step finds: the first value, then those that the earlier steps left.
func (c *recurrence) previous(all, first string) string {
	zero, end := []int64{0}, []int64{c.steps - 1}
	if c.backward {
		zero, end = []int64{1}, []int64{c.steps}
	}
	first = c.unsqueeze(first)
	if c.steps == 1 {
		return first
	}
	rest := c.tape.slice(all, zero, end, []int64{0})
	if c.backward {
		return c.concat([]string{rest, first}, 0)
	}
	return c.concat([]string{first, rest}, 0)
}

// unsqueeze gives a state [B, H] the shape of a step, [1, B, H].
func (c *recurrence) unsqueeze(v string) string { return c.reshape(v, []int64{1, c.batch, c.hidden}) }

func (t *tape) concat(parts []string, axis int64) string {
	return t.Node("Concat", parts, graph.IntAttribute("axis", axis))
}

// divided adds the parts of v of equal sizes along an axis. Split takes the sizes in other ways in older sets.
func (t *tape) divided(v string, count, size, axis int64) []string {
	parts := make([]string, count)
	for k := range parts {
		start := int64(k) * size
		parts[k] = t.slice(v, []int64{start}, []int64{start + size}, []int64{axis})
	}
	return parts
}

// bySteps adds the rows [B, …] of v [T, B, width], one a step, in the order in which the layer takes them.
func (c *recurrence) bySteps(v string, width int64) []string {
	all := c.divided(v, c.steps, 1, 0)
	for i := range all {
		all[i] = c.reshape(all[i], []int64{c.batch, width})
	}
	if c.backward {
		slices.Reverse(all)
	}
	return all
}

// joined adds the reverse of bySteps.
func (c *recurrence) joined(rows []string, width int64) string {
	rows = slices.Clone(rows)
	if c.backward {
		slices.Reverse(rows)
	}
	return c.reshape(c.concat(rows, 0), []int64{c.steps, c.batch, width})
}

// fromInputs adds W·x + b for all steps, fromStates R·h + b for the state h before each.
func (c *recurrence) fromInputs() string {
	return c.Op("Add", c.Op("MatMul", c.x, c.swapLast(c.w, 2)), c.inBias)
}

func (c *recurrence) fromStates() string {
	return c.Op("Add", c.Op("MatMul", c.before, c.swapLast(c.r, 2)), c.outBias)
}

// gateParts adds the parts of v [T, B, gates·H] by gate.
func (c *recurrence) gateParts(v string) []string { return c.divided(v, c.gates, c.hidden, 2) }

// oneMinus adds 1 − v, and bell adds v·(1 − v), the slope of a sigmoid with the value v.
func (c *recurrence) oneMinus(v string) string { return c.Op("Sub", c.like(c.x, 1), v) }

func (c *recurrence) bell(v string) string { return c.mul(v, c.oneMinus(v)) }

// tanhSlope adds 1 − v², the slope of tanh with the value v.
func (c *recurrence) tanhSlope(v string) string { return c.oneMinus(c.mul(v, v)) }

// walk goes through the steps from the last to the first with the gradient in the state [B, H] and returns the one in
// the initial state. step returns the gradient that it passes to the state before.
func (c *recurrence) walk(step func(k int64, d string) string) string {
	var given []string
	if c.slopes != "" {
		given = c.bySteps(c.slopes, c.hidden)
	}
	d := c.lastSlope
	for k := c.steps - 1; k >= 0; k-- {
		switch {
		case given != nil && d != "":
			d = c.Op("Add", d, given[k])
		case given != nil:
			d = given[k]
		case d == "":
			d = c.zeros(c.floatType(c.x), []int64{c.batch, c.hidden})
		}
		d = step(k, d)
	}
	return d
}

// rnnSlopes differentiates h = f(W·x + R·h₋ + b): the gradient in the sum is d·f′.
func rnnSlopes(c *recurrence) (sums, first, _ string) {
	factor := c.bySteps(c.tanhSlope(c.states), c.hidden)
	rows := make([]string, c.steps)
	first = c.walk(func(k int64, d string) string {
		rows[k] = c.mul(d, factor[k])
		return c.Op("MatMul", rows[k], c.r)
	})
	return c.joined(rows, c.hidden), first, ""
}

// lstmSlopes differentiates c = f·c₋ + i·g, h = o·tanh(c) with the gates i, o, f = σ(…), g = tanh(…). With the gradient
// d in h and e in c, which gains d·o·(1 − tanh²c), those in the gates' sums are e·g·i(1−i), d·tanh(c)·o(1−o),
// e·c₋·f(1−f) and e·i·(1−g²).
func lstmSlopes(c *recurrence) (sums, first, cell string) {
	parts := c.gateParts(c.Op("Add", c.fromInputs(), c.fromStates()))
	i, o, f, g := c.Op("Sigmoid", parts[0]), c.Op("Sigmoid", parts[1]), c.Op("Sigmoid", parts[2]), c.Op("Tanh", parts[3])
	forget, gain := c.bySteps(f, c.hidden), c.bySteps(c.mul(i, g), c.hidden)
	cells, state := make([]string, c.steps), c.initial(recurrentC)
	start := state
	for k := range cells {
		state = c.Op("Add", c.mul(forget[k], state), gain[k])
		cells[k] = state
	}
	all := c.joined(cells, c.hidden)
	height, earlier := c.Op("Tanh", all), c.previous(all, start)
	toCell := c.bySteps(c.mul(o, c.tanhSlope(height)), c.hidden)
	factors := c.bySteps(c.concat([]string{
		c.mul(g, c.bell(i)), c.mul(height, c.bell(o)), c.mul(earlier, c.bell(f)), c.mul(i, c.tanhSlope(g)),
	}, 2), 4*c.hidden)
	rows, e := make([]string, c.steps), c.atCell
	first = c.walk(func(k int64, d string) string {
		rise := c.mul(d, toCell[k])
		if e != "" {
			rise = c.Op("Add", e, rise)
		}
		rows[k] = c.mul(c.concat([]string{rise, d, rise, rise}, 1), factors[k])
		e = c.mul(rise, forget[k])
		return c.Op("MatMul", rows[k], c.r)
	})
	return c.joined(rows, 4*c.hidden), first, c.unsqueeze(e)
}

// gruSlopes differentiates h = (1 − z)·n + z·h₋ with z, r = σ(…) and n = tanh(W·x + r·(R·h₋ + b)), or with
// linear_before_reset = 0, n = tanh(W·x + R·(r·h₋) + b).
func gruSlopes(c *recurrence) (sums, first, _ string) {
	in := c.gateParts(c.fromInputs())
	out := c.gateParts(c.fromStates())
	z, r := c.Op("Sigmoid", c.Op("Add", in[0], out[0])), c.Op("Sigmoid", c.Op("Add", in[1], out[1]))
	linear := c.n.integer("linear_before_reset", 0) != 0
	rows := c.divided(c.r, 3, c.hidden, 0) // of R, by gate
	reset := c.mul(r, out[2])
	if !linear {
		bias := c.tape.slice(c.outBias, []int64{2 * c.hidden}, []int64{3 * c.hidden}, []int64{0})
		reset = c.Op("Add", c.Op("MatMul", c.mul(r, c.before), c.swapLast(rows[2], 2)), bias)
	}
	n := c.Op("Tanh", c.Op("Add", in[2], reset))
	keep := c.bySteps(z, c.hidden)
	toZ := c.bySteps(c.mul(c.Op("Sub", c.before, n), c.bell(z)), c.hidden)
	toN := c.bySteps(c.mul(c.oneMinus(z), c.tanhSlope(n)), c.hidden)
	toR := c.mul(out[2], c.bell(r)) // of the gradient in n's sum
	if !linear {
		toR = c.mul(c.before, c.bell(r)) // of the gradient in r·h₋
	}
	slopeR, gate := c.bySteps(toR, c.hidden), c.bySteps(r, c.hidden)
	zr := c.tape.slice(c.r, []int64{0}, []int64{2 * c.hidden}, []int64{0})
	all := make([]string, c.steps)
	first = c.walk(func(k int64, d string) string {
		dz, dn := c.mul(d, toZ[k]), c.mul(d, toN[k])
		passed := c.mul(d, keep[k])
		var dr, through string
		if linear {
			dr, through = c.mul(dn, slopeR[k]), c.Op("MatMul", c.mul(dn, gate[k]), rows[2])
		} else {
			inner := c.Op("MatMul", dn, rows[2])
			dr, through = c.mul(inner, slopeR[k]), c.mul(inner, gate[k])
		}
		all[k] = c.concat([]string{dz, dr, dn}, 1)
		return c.Op("Sum", passed, through, c.Op("MatMul", c.concat([]string{dz, dr}, 1), zr))
	})
	return c.joined(all, 3*c.hidden), first, ""
}
