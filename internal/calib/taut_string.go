package calib

// tautString solves weighted total-variation denoising in one dimension:
//
//	minimise ½ Σ w_j (a_j/w_j − v_j)² + λ Σ |v_{j+1} − v_j|
//
// The input is the cumulative sums W_0 = 0, W_1, … of the weights w_j and the cumulative sums A_0 = 0, A_1, … of the
// a_j. The cumulative sum of the solution is a shortest path from (0, 0) to the last point (W, A). Between the ends,
// the height of the path at W_j is within λ of A_j (Davies & Kovac 2001). The funnel algorithm finds the path (Lee &
// Preparata 1984). The algorithm has two convex chains, one of points (W_j, A_j + λ) and one of points (W_j, A_j − λ).
// Each point enters a chain once and leaves it at most once, so the time is linear.
//
// Between the ends, each vertex of the path is a point (W_j, A_j + λ) or (W_j, A_j − λ). So each value of the solution
// is a difference of heights divided by a difference of widths. If the inputs are exact, only this division rounds.
type tautString struct {
	lambda       float64
	apex         knot
	upper, lower chain // convex chains; both begin at the apex and end at the last points added
	path         []piece
}

// A knot is a vertex: x is the cumulative weight, y the cumulative sum.
type knot struct{ x, y float64 }

// A piece is an interval on which the solution is constant. The field 'value' is the solution on the interval. The
// field 'end' is the cumulative weight at the right end of the interval.
type piece struct{ end, value float64 }

func slope(a, b knot) float64 { return (b.y - a.y) / (b.x - a.x) }

// A chain is a queue of knots. Each knot has the slope of the segment that ends in it.
type chain struct {
	knots  []knot
	slopes []float64
	head   int
}

func (c *chain) empty() bool { return c.head == len(c.knots) }

func (c *chain) push(k knot, slope float64) {
	c.knots = append(c.knots, k)
	c.slopes = append(c.slopes, slope)
}

func (c *chain) popBack() {
	c.knots = c.knots[:len(c.knots)-1]
	c.slopes = c.slopes[:len(c.slopes)-1]
	if c.empty() {
		c.knots, c.slopes, c.head = c.knots[:0], c.slopes[:0], 0
	}
}

// popFront drops the first knot. The slope of the next segment remains valid, because that segment starts at the new
// first knot.
func (c *chain) popFront() {
	c.head++
	if c.empty() {
		c.knots, c.slopes, c.head = c.knots[:0], c.slopes[:0], 0
	}
}

func (t *tautString) emit(to knot, value float64) {
	if k := len(t.path); k > 0 && t.path[k-1].value == value {
		t.path[k-1].end = to.x
		return
	}
	t.path = append(t.path, piece{to.x, value})
}

// addUpper appends p to the upper chain. Before this, it removes knots from the end of the chain, so that the slopes of
// the chain ascend. If the straight line from the apex to p passes below the lower chain, the path must first follow
// the lower chain. It leaves this chain at the first knot from which the straight line to p does not pass below the
// chain.
func (t *tautString) addUpper(p knot) {
	c := &t.upper
	for !c.empty() && c.slopes[len(c.slopes)-1] >= slope(c.knots[len(c.knots)-1], p) {
		c.popBack()
	}
	if c.empty() {
		for !t.lower.empty() && t.lower.slopes[t.lower.head] >= slope(t.apex, p) {
			t.advance(&t.lower)
		}
		c.push(p, slope(t.apex, p))
		return
	}
	c.push(p, slope(c.knots[len(c.knots)-1], p))
}

// addLower mirrors addUpper.
func (t *tautString) addLower(p knot) {
	c := &t.lower
	for !c.empty() && c.slopes[len(c.slopes)-1] <= slope(c.knots[len(c.knots)-1], p) {
		c.popBack()
	}
	if c.empty() {
		for !t.upper.empty() && t.upper.slopes[t.upper.head] <= slope(t.apex, p) {
			t.advance(&t.upper)
		}
		c.push(p, slope(t.apex, p))
		return
	}
	c.push(p, slope(c.knots[len(c.knots)-1], p))
}

// advance moves the apex, the point where both chains start, to the first knot of c.
func (t *tautString) advance(c *chain) {
	k := c.knots[c.head]
	t.emit(k, c.slopes[c.head])
	t.apex = k
	c.popFront()
}

// add takes the next point (W_j, A_j). The method 'finish' takes the last point.
func (t *tautString) add(w, a float64) {
	t.addUpper(knot{w, a + t.lambda})
	t.addLower(knot{w, a - t.lambda})
}

// finish takes the last point and returns the solution.
func (t *tautString) finish(w, a float64) []piece {
	t.addUpper(knot{w, a})
	for !t.upper.empty() {
		t.advance(&t.upper)
	}
	return t.path
}
