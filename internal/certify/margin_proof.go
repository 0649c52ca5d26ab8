package certify

import (
	"math"

	"github.com/rscert/rscert/internal/binomial"
)

// The method 'prove' tries to show that P_q(event) ≤ α at every point of the frontier f. If it succeeds, it returns −1.
// Otherwise it returns the y of a point, and the inequality may fail near this point.
//
// The proof has two parts. First, the event's probability rises with q1 and falls with q2. So its probability at the
// corner (b, a) bounds its probability at all points with q1 ≤ b and q2 ≥ a. This part covers both ends of the
// frontier. Second, between the ends, a polygon lies above the frontier. The vertices of the polygon are points c_0,
// c_1, … on the frontier, and a point V between each c_i and c_{i+1}. Each V is above the tangents at its two
// neighbours. Such a polygon exists because q1 is concave in q2. For each point of the frontier, one edge has a point
// with the same q2. This point of the edge has a larger q1 than the point of the frontier. So its probability is
// larger, too.
//
// Along an edge, q1 = a + b·q2 with a, b ≥ 0. In the natural parameters u_i = ln(q_i/q3) this equation is e^u1 =
// ((a+b)e^u2 + a)/(1−a). By this equation u1 is a convex function of u2. Draw the straight line between the ends in
// natural parameters. At each u2, the u1 of this line is at least the u1 of the edge. So the point on this line has a
// larger q1 and smaller q2 and q3, and therefore a larger probability. The points of this line are q ∝ A^{1−t}·B^t,
// where A and B are the ends of the edge and 0 ≤ t ≤ 1. On this line Hölder's inequality bounds the probability by the
// probabilities at A and B (see bridge).
func (s *search) prove(f frontier) (bad float64) {
	n := s.event.order.n
	endQ1, endQ2 := f.end()
	end := math.Sqrt(endQ2)
	t := s.event.threshold(0, n)
	if t > n {
		return -1 // no outcome is in the event
	}
	y := f.reach(binomial.LowerBound(t, n, s.alpha))
	if y >= end {
		return -1
	}
	if y <= 0 {
		return 0
	}
	q1, q2, slope := f.point(y)
	p := position{node: s.node(q1, q2), y: y, slope: slope, stride: end / 64}
	for range 1 << 16 {
		gap := s.logAlpha - p.logP
		if !(gap > 0) {
			return p.y
		}
		// Estimate how much ln P grows if q1 rises to its value at the end of the frontier. If the growth is small
		// enough, test whether P ≤ α at the corner. The corner is the point with this q1 and the q2 of p.
		sd := math.Sqrt(p.q[0]*math.Max(0, 1-p.q[0])/float64(n)) + 1/float64(n)
		if (endQ1-p.q[0])/sd*(1+math.Sqrt(-2*p.logP)) < 2*gap && s.logP(endQ1, p.q[1]) <= s.logAlpha {
			return -1
		}
		next, worse := s.advance(f, p, end)
		if next == nil {
			return worse
		}
		p = *next
	}
	return p.y
}

// position is the point c_i of the frontier that the method 'prove' has reached.
type position struct {
	node
	y, slope float64
	stride   float64 // length of the last step, in y
	trend    float64 // change of ln P per unit of distance
}

// advance returns the next point of the frontier. The polygon proves P ≤ α up to this point. If advance finds no such
// point, it returns nil and the y of a point. Near this y, P ≤ α may fail.
func (s *search) advance(f frontier, c position, end float64) (next *position, worse float64) {
	worse = c.y
	for ease := 0.85; ease > 1e-3; ease /= 2.5 {
		reach := 2 * reachable(ease*(s.logAlpha-c.logP), c.trend)
		y, q1n, q2n, slopeN := s.stride(f, c.node, c.y, end, c.stride, reach)
		q1v, q2v := vertex(c.q[0], c.q[1], c.slope, q1n, q2n, slopeN)
		if !(q2v > c.q[1] && q2n > q2v) || q1v+q2v >= 1 || q1n+q2n >= 1 {
			continue
		}
		v := s.node(q1v, q2v)
		if v.logP >= s.logAlpha {
			worse = math.Sqrt(q2v)
			continue
		}
		from := c.node
		if !convex(from, v) { // Laplace noise: if the edge lies on a line through 0, raise the q1 of its start
			from = s.node(c.q[0]*lift*lift, c.q[1])
		}
		if !convex(from, v) || s.bridge(from, v) > s.logAlpha {
			continue
		}
		d := s.node(q1n, q2n)
		if d.logP >= s.logAlpha {
			worse = y
			continue
		}
		if !convex(v, d) || s.bridge(v, d) > s.logAlpha {
			continue
		}
		trend := (d.logP - c.logP) / distance(s.event.order.n, c.q, d.q)
		return &position{node: d, y: y, slope: slopeN, stride: y - c.y, trend: trend}, 0
	}
	return nil, worse
}

// The function 'vertex' takes two points of the frontier and returns the point V between them. The q2 of V is half way
// between the q2 values of the two points, and V lies above the tangents at both points.
func vertex(q1, q2, slope, q1n, q2n, slopeN float64) (q1v, q2v float64) {
	q2v = (q2 + q2n) / 2
	return math.Max(q1+slope*(q2v-q2), q1n-slopeN*(q2n-q2v)) * lift, q2v
}

// The function 'convex' reports whether the edge q1 = a + b·q2 from A to B has a, b ≥ 0. In theory a and b are never
// negative, but rounding of the ends can make them negative.
func convex(A, B node) bool {
	rise, run := B.q[0]-A.q[0], B.q[1]-A.q[1]
	return rise >= 0 && A.q[0]*run >= rise*A.q[1]*(1+8*unit)
}

// The function 'reachable' approximates how long a line from a node may be. On this line, ln P must not rise by more
// than the argument 'gap'. The argument 'trend' is the change of ln P per unit of distance.
func reachable(gap, trend float64) float64 {
	if trend <= 0 {
		return math.Sqrt(8 * gap)
	}
	if d := 2 * (math.Sqrt(2*gap) - trend); d > 2*trend {
		return d
	}
	return gap / trend
}

// stride returns the point of f whose distance from the node c is about the argument 'reach'. The argument y is the
// value of the frontier's parameter y at the node c. The argument 'last' is the length of the last step in y. stride
// uses it as the first guess of the new step. The step is at most three quarters of the remaining range of y.
func (s *search) stride(f frontier, c node, y, end, last, reach float64) (next, q1, q2, slope float64) {
	most := 0.75 * (end - y)
	step := math.Min(last, most)
	for range 6 {
		q1, q2, _ := f.point(y + step)
		d := distance(s.event.order.n, c.q, [3]float64{q1, q2, math.Max(0, 1-q1-q2)})
		ratio := reach / d
		if ratio > 0.9 && ratio < 1.1 || step == most && ratio > 1 {
			break
		}
		step = math.Min(most, step*math.Min(math.Max(ratio, 0.05), 20))
	}
	q1, q2, slope = f.point(y + step)
	return y + step, q1, q2, slope
}

// distance returns √(8n(1−ρ)) with ρ = Σ√(a_i b_i). This number approximates the distance between n samples of the
// distribution a and n samples of the distribution b. Its unit is one standard deviation.
func distance(n int64, a, b [3]float64) float64 {
	var d float64
	for i := range a {
		r := math.Sqrt(a[i]) - math.Sqrt(b[i])
		d += r * r
	}
	return 2 * math.Sqrt(float64(n)*d)
}

// bridge returns an upper bound on ln P_q(event) over all q = A^{1−t}·B^t/Z(t), Z(t) = Σ A_i^{1−t}B_i^t, 0 ≤ t ≤ 1. By
// Hölder's inequality
//
//	P_q(event) = Z⁻ⁿ Σ_{x in event} P_A(x)^{1−t} P_B(x)^t ≤ Z⁻ⁿ P_A^{1−t} P_B^t.
//
// The log of the right side is a concave function of t, because ln Z is convex. So every tangent of this function is an
// upper bound. The method uses a tangent at a point near the maximum.
func (s *search) bridge(A, B node) float64 {
	n := float64(s.event.order.n)
	var ratio [3]float64
	slack := 0.0
	for i := range ratio {
		if !(A.q[i] > 0 && B.q[i] > 0) {
			return math.Inf(1)
		}
		ratio[i] = math.Log(B.q[i] / A.q[i])
		if math.Abs(ratio[i]) < 0.5 {
			ratio[i] = math.Log1p((B.q[i] - A.q[i]) / A.q[i])
		}
		// The next two lines add bounds on rounding errors to 'slack'. The errors come from Expm1 below and from q3 =
		// 1−q1−q2.
		slack += n * unit * (16*A.q[i]*math.Abs(ratio[i]) + 4)
		slack += n * unit * 4 * math.Expm1(math.Abs(ratio[i]))
	}
	rise := B.logP - A.logP
	t := 0.5
	var value, slope float64
	for i := 0; ; i++ {
		var lack, first, second float64 // 1−Z, and the first two derivatives of ln Z
		for i, l := range ratio {
			lack += A.q[i] * (t*math.Expm1(l) - math.Expm1(t*l))
			w := A.q[i] * math.Exp(t*l)
			first += w * l
			second += w * l * l
		}
		z := 1 - lack
		first /= z
		second = second/z - first*first
		value = A.logP + t*rise - n*math.Log1p(-lack)
		slope = rise - n*first
		if i == 3 || !(second > 0) {
			break
		}
		t = math.Min(1, math.Max(0, t+slope/(n*second)))
	}
	return value + math.Max(slope*(1-t), -slope*t) + slack + 1e-12*math.Abs(value)
}
