package grad

import (
	"slices"

	"github.com/rscert/rscert/internal/graph"
)

// This file holds the rules of recurrent layers. All states h[t] are outputs of the layer's node, so a few matrix
// products compute the gates of all steps at once. The gradient goes backward in time and needs separate nodes for each
// step. The cells of an LSTM also need separate nodes for each step, because the layer's node outputs only the last
// cell. The length of the sequence is a constant, like all sizes.

// recurrence is one direction of a recurrent layer over T steps, B examples, I inputs and H states.
type recurrence struct {
	*tape
	n                        *node
	steps, batch, in, hidden int64
	gates                    int64  // number of gates, each with H rows in the weights
	direction                int64  // index of this direction
	backward                 bool   // this direction goes from the last step to the first
	x, w, r, inBias, outBias string // shapes: x [T, B, I], w [gates·H, I], r [gates·H, H], biases [gates·H]
	// states: h after each step [T, B, H]; before: h before each step [T, B, H]; first: the initial state [B, H]
	states, before, first string
	// slopes, lastSlope and atCell are the gradients in h [T, B, H], in the last state [B, H] and in the last cell; ""
	// if none
	slopes, lastSlope, atCell string
}

// These are the positions of the inputs of RNN, LSTM and GRU nodes.
const (
	recurrentX = iota
	recurrentW
	recurrentR
	recurrentB
	recurrentLengths
	recurrentH
	recurrentC // only LSTM has this input
	recurrentP
)

// The function 'recurrent' returns the rule of a recurrent layer. The function 'slopes' differentiates one direction of
// the layer. The first result of 'slopes' is the gradient in the arguments of the gates' activations. This gradient has
// the shape [T, B, gates·H]. The other two results of 'slopes' are the gradients in the initial state [B, H] and in the
// initial cell [1, B, H].
func recurrent(gates int64, activations []string, slopes func(*recurrence) (sums, first, cell string)) rule {
	return func(t *tape, n *node) error {
		directions := t.shape(n.input(recurrentW))[0]
		if err := t.checkRecurrent(n, slices.Repeat(activations, int(directions))); err != nil {
			return err
		}
		if n.output() == "" { // the rule needs the states of all steps
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

// checkRecurrent refuses layers that the rules do not cover.
func (t *tape) checkRecurrent(n *node, activations []string) error {
	x := n.input(recurrentX)
	if lengths := n.input(recurrentLengths); lengths != "" {
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
	if n.input(recurrentP) != "" || n.integer("layout", 0) != 0 || n.attribute("clip") != nil || n.integer("input_forget", 0) != 0 {
		return n.refuse("no gradient is known for a layer of this kind")
	}
	if a := n.attribute("activations"); a != nil && !slices.Equal(n.texts("activations"), activations) {
		return n.refuse("no gradient is known for these activations")
	}
	return nil
}

// recurrenceOf adds nodes that select one direction's parts of the layer's inputs and outputs.
func (t *tape) recurrenceOf(n *node, gates, direction int64) *recurrence {
	x := n.input(recurrentX)
	xs := t.shape(x)
	c := &recurrence{
		tape: t, n: n, x: x, gates: gates, direction: direction,
		steps: xs[0], batch: xs[1], in: xs[2], hidden: t.shape(n.input(recurrentR))[2],
	}
	way := n.text("direction", "forward")
	c.backward = way == "reverse" || way == "bidirectional" && direction == 1
	rows := gates * c.hidden
	c.w = c.part(n.input(recurrentW), 0, []int64{rows, c.in})
	c.r = c.part(n.input(recurrentR), 0, []int64{rows, c.hidden})
	if b := n.input(recurrentB); b != "" {
		both := c.part(b, 0, []int64{2 * rows})
		c.inBias = t.slice(both, []int64{0}, []int64{rows}, []int64{0})
		c.outBias = t.slice(both, []int64{rows}, []int64{2 * rows}, []int64{0})
	} else {
		c.inBias = t.zeros(t.floatType(x), []int64{rows})
		c.outBias = c.inBias
	}
	c.first = c.initial(recurrentH)
	all := []int64{c.steps, c.batch, c.hidden}
	c.states = c.part(n.output(), 1, all)
	c.before = c.previous(c.states, c.first)
	if n.d[0] != "" {
		c.slopes = c.part(n.d[0], 1, all)
	}
	c.lastSlope, c.atCell = c.ofLast(1), c.ofLast(2)
	return c
}

// The method 'part' adds nodes that take this direction's part of v along an axis and reshape this part to the given
// shape.
func (c *recurrence) part(v string, axis int64, shape []int64) string {
	part := c.tape.slice(v, []int64{c.direction}, []int64{c.direction + 1}, []int64{axis})
	return c.reshape(part, shape)
}

// The method 'initial' adds nodes that select this direction's part of input k, which is the initial state or the
// initial cell. If the node has no input k, the result consists of zeros.
func (c *recurrence) initial(k int) string {
	shape := []int64{c.batch, c.hidden}
	if v := c.n.input(k); v != "" {
		return c.part(v, 0, shape)
	}
	return c.zeros(c.floatType(c.x), shape)
}

// ofLast adds nodes that select this direction's part of a gradient. This gradient belongs to an output of the node,
// either the last state or the last cell. It returns "" if there is no gradient.
func (c *recurrence) ofLast(output int) string {
	if output >= len(c.n.d) || c.n.d[output] == "" {
		return ""
	}
	return c.part(c.n.d[output], 0, []int64{c.batch, c.hidden})
}

// The method 'previous' adds nodes that compute the layer's state, or the cell of an LSTM, before each step. For the
// first step, this value is the argument 'first'. For any other step, it is the value after the previous step, taken
// from the argument 'all'.
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

// The method 'divided' adds nodes that cut v along an axis into parts. The argument 'count' is the number of parts, and
// the argument 'size' is the size of each part along the axis. None of the nodes is a Split node, because older
// operator sets pass the sizes to Split in another way.
func (t *tape) divided(v string, count, size, axis int64) []string {
	parts := make([]string, count)
	for k := range parts {
		start := int64(k) * size
		parts[k] = t.slice(v, []int64{start}, []int64{start + size}, []int64{axis})
	}
	return parts
}

// bySteps adds nodes that cut v [T, B, width] into one matrix [B, width] per step. The matrices are in the order of
// this direction's steps, so for a backward direction the matrix of the last index comes first.
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

// The method 'joined' adds nodes that join the matrices of all steps into one tensor [T, B, width]. The matrices must
// be in the order of bySteps.
func (c *recurrence) joined(rows []string, width int64) string {
	rows = slices.Clone(rows)
	if c.backward {
		slices.Reverse(rows)
	}
	return c.reshape(c.concat(rows, 0), []int64{c.steps, c.batch, width})
}

// fromInputs adds nodes that compute W·x + b for all steps. fromStates adds nodes that compute R·h + b, where h is the
// state before each step.
func (c *recurrence) fromInputs() string {
	return c.Op("Add", c.Op("MatMul", c.x, c.swapLast(c.w, 2)), c.inBias)
}

func (c *recurrence) fromStates() string {
	return c.Op("Add", c.Op("MatMul", c.before, c.swapLast(c.r, 2)), c.outBias)
}

// gateParts adds nodes that cut v [T, B, gates·H] into one part per gate.
func (c *recurrence) gateParts(v string) []string { return c.divided(v, c.gates, c.hidden, 2) }

// oneMinus adds a node that computes 1 − v. bell adds nodes that compute v·(1 − v), the slope of a sigmoid whose value
// is v.
func (c *recurrence) oneMinus(v string) string { return c.Op("Sub", c.numberFor(c.x, 1), v) }

func (c *recurrence) bell(v string) string { return c.mul(v, c.oneMinus(v)) }

// tanhSlope adds nodes that compute 1 − v², the slope of a tanh whose value is v.
func (c *recurrence) tanhSlope(v string) string { return c.oneMinus(c.mul(v, v)) }

// The method 'walk' goes through the steps from the last to the first. It keeps d [B, H], the gradient in the current
// state. For each step, it calls the function 'step', which gets d and returns the gradient in the state before this
// step. The result of 'walk' is the gradient in the initial state.
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

// rnnSlopes differentiates h = f(W·x + R·h₋ + b), where h₋ is the state before the step and f is tanh. The gradient in
// the sum W·x + R·h₋ + b is d·f′, where d is the gradient in h.
func rnnSlopes(c *recurrence) (sums, first, _ string) {
	factor := c.bySteps(c.tanhSlope(c.states), c.hidden)
	rows := make([]string, c.steps)
	first = c.walk(func(k int64, d string) string {
		rows[k] = c.mul(d, factor[k])
		return c.Op("MatMul", rows[k], c.r)
	})
	return c.joined(rows, c.hidden), first, ""
}

// lstmSlopes differentiates c = f·c₋ + i·g and h = o·tanh(c), where c₋ is the cell before the step. The gates i, o and
// f have the form σ(…), and g has the form tanh(…). Let d be the gradient in h. The gradient e in the cell c is the sum
// of d·o·(1 − tanh²c) and the gradient that comes from later steps. The gradients in the sums inside i, o, f and g are
// then e·g·i(1−i), d·tanh(c)·o(1−o), e·c₋·f(1−f) and e·i·(1−g²).
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

// gruSlopes differentiates h = (1 − z)·n + z·h₋, where h₋ is the state before the step and the gates are z = σ(…) and r
// = σ(…). If the attribute 'linear_before_reset' is 0, n = tanh(W·x + R·(r·h₋) + b). Otherwise n = tanh(W·x + r·(R·h₋ +
// b)). Here W·x includes the bias of the input.
func gruSlopes(c *recurrence) (sums, first, _ string) {
	in := c.gateParts(c.fromInputs())
	out := c.gateParts(c.fromStates())
	z, r := c.Op("Sigmoid", c.Op("Add", in[0], out[0])), c.Op("Sigmoid", c.Op("Add", in[1], out[1]))
	linear := c.n.integer("linear_before_reset", 0) != 0
	rows := c.divided(c.r, 3, c.hidden, 0) // the rows of R for each gate
	reset := c.mul(r, out[2])
	if !linear {
		bias := c.tape.slice(c.outBias, []int64{2 * c.hidden}, []int64{3 * c.hidden}, []int64{0})
		reset = c.Op("Add", c.Op("MatMul", c.mul(r, c.before), c.swapLast(rows[2], 2)), bias)
	}
	n := c.Op("Tanh", c.Op("Add", in[2], reset))
	keep := c.bySteps(z, c.hidden)
	toZ := c.bySteps(c.mul(c.Op("Sub", c.before, n), c.bell(z)), c.hidden)
	toN := c.bySteps(c.mul(c.oneMinus(z), c.tanhSlope(n)), c.hidden)
	// Let dn be the gradient in the argument of n's tanh. If 'linear' is true, the gradient in the argument of the
	// sigmoid of r is dn·toR.
	toR := c.mul(out[2], c.bell(r))
	if !linear {
		// The gradient in the argument of r's σ is toR times the gradient in r·h₋.
		toR = c.mul(c.before, c.bell(r))
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
