package attack

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"
)

// smallestLinf returns the smallest max |d_i| over all d with w·d = gap and x + d in the box. It minimises τ by linear
// programming over d, τ and slack variables, subject to −τ ≤ d_i ≤ τ. It reports false if the box forbids every such d.
func smallestLinf(t *testing.T, threat Threat, x []float32, w []float64, gap float64) (float64, bool) {
	n := len(x)
	// The variables are τ and the parts p, q ≥ 0 of d = p − q. The rows are p_i + q_i ≤ τ, p_i ≤ high − x_i and q_i ≤
	// x_i − low.
	c := make([]float64, 2*n+1)
	c[2*n] = 1
	g, h := mat.NewDense(5*n+1, 2*n+1, nil), make([]float64, 5*n+1)
	a := mat.NewDense(1, 2*n+1, nil)
	for i := range x {
		a.Set(0, i, w[i])
		a.Set(0, n+i, -w[i])
		g.Set(i, i, 1)
		g.Set(i, n+i, 1)
		g.Set(i, 2*n, -1)
		g.Set(n+i, i, 1)
		h[n+i] = float64(threat.High) - float64(x[i])
		g.Set(2*n+i, n+i, 1)
		h[2*n+i] = float64(x[i]) - float64(threat.Low)
		g.Set(3*n+i, i, -1)
		g.Set(4*n+i, n+i, -1)
	}
	g.Set(5*n, 2*n, -1)
	cc, aa, bb := lp.Convert(c, g, h, a, []float64{gap})
	value, _, err := lp.Simplex(cc, aa, bb, 1e-12, nil)
	if err == lp.ErrInfeasible {
		return 0, false
	}
	if err != nil {
		t.Fatal(err)
	}
	return value, true
}

// dykstra projects x onto the intersection of the box and the hyperplane w·(z − x) = gap, by Dykstra's alternating
// projections. It returns the perturbation z − x.
func dykstra(threat Threat, x []float32, w []float64, gap float64) []float64 {
	square := 0.
	for _, v := range w {
		square += v * v
	}
	d, correction := make([]float64, len(x)), make([]float64, len(x))
	for range 20000 {
		along := 0.
		for i, v := range w {
			along += v * d[i]
		}
		for i, v := range w {
			d[i] += (gap - along) / square * v
			moved := d[i] + correction[i]
			d[i] = min(max(moved, float64(threat.Low)-float64(x[i])), float64(threat.High)-float64(x[i]))
			correction[i] = moved - d[i]
		}
	}
	return d
}

// TestTowards compares the results of the method 'towards' with a linear program for Linf and with Dykstra's algorithm
// for L2. The cases include boxes that clip some values, and boxes in which no perturbation reaches the hyperplane.
func TestTowards(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	forbidden := 0
	for trial := range 60 {
		x, w := make([]float32, 7), make([]float64, 7)
		most := 0.
		for i := range x {
			x[i], w[i] = rng.Float32(), 4*rng.Float64()-2
			most += math.Abs(w[i])
		}
		x[0], x[1], w[2] = 0, 1, 0 // two values at the ends of the box, and one with weight 0
		gap := (rng.Float64() - .5) * most * []float64{.3, .9, 1.4}[trial%3]
		linf, l2 := Threat{Linf, 1, 0, 1}, Threat{L2, 1, 0, 1}
		want, reached := smallestLinf(t, linf, x, w, gap)
		d := linf.towards(x, w, gap)
		checkTowards(t, x, w, gap, d, reached)
		if !reached {
			forbidden++
			continue
		}
		if got := Linf.length(d); math.Abs(got-want) > 1e-9 {
			t.Errorf("linf %v %v %g: norm %g, the linear program's %g", x, w, gap, got, want)
		}
		e := l2.towards(x, w, gap)
		checkTowards(t, x, w, gap, e, true)
		for i, v := range dykstra(l2, x, w, gap) {
			if math.Abs(v-e[i]) > 1e-5 {
				t.Errorf("l2 %v %v %g: %v, Dykstra's value %d is %g", x, w, gap, e, i, v)
			}
		}
	}
	if forbidden < 3 || forbidden > 30 {
		t.Errorf("%d of 60 hyperplanes miss the box", forbidden)
	}
}

// checkTowards checks that the perturbed input is in the box and on the hyperplane. If the hyperplane misses the box,
// w·d must be as close to 'gap' as the box allows.
func checkTowards(t *testing.T, x []float32, w []float64, gap float64, d []float64, reached bool) {
	t.Helper()
	along, corner := 0., 0.
	for i, v := range w {
		if z := float64(x[i]) + d[i]; z < -1e-15 || z > 1+1e-7 || v == 0 && d[i] != 0 {
			t.Errorf("%v %v %g: value %d goes to %g", x, w, gap, i, z)
		}
		along += v * d[i]
		if v*gap > 0 {
			corner += math.Abs(v) * (1 - float64(x[i]))
		} else {
			corner += math.Abs(v) * float64(x[i])
		}
	}
	if !reached {
		gap = math.Copysign(corner, gap)
	}
	if math.Abs(along-gap) > 1e-9 {
		t.Errorf("%v %v: w·d is %g, want %g", x, w, along, gap)
	}
}

// TestTowardsUnbounded: without a box, the method 'towards' returns gap·w/‖w‖² for L2 and gap·sign(w)/‖w‖₁ for Linf.
func TestTowardsUnbounded(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		norm Norm
		want []float64
	}{{Linf, []float64{-.5, .5, 0}}, {L2, []float64{-.6, .2, 0}}} {
		w := []float64{3, -1, 0}
		d := Threat{c.norm, 1, -inf, inf}.towards([]float32{5, -7, 1}, w, -2)
		for i := range d {
			if math.Abs(d[i]-c.want[i]) > 1e-15 {
				t.Errorf("%s: %v, want %v", c.norm, d, c.want)
			}
		}
	}
	if d := (Threat{Linf, 1, 0, 1}).towards([]float32{.5}, []float64{0}, 1); d[0] != 0 {
		t.Errorf("without a gradient: %v", d)
	}
}

func TestDual(t *testing.T) {
	g := []float32{3, -4, 0}
	if a, b := Linf.dual(g), L2.dual(g); a != 7 || b != 5 {
		t.Errorf("dual norms %g and %g, want 7 and 5", a, b)
	}
	if a, b := Linf.length([]float64{3, -4, 0}), L2.length([]float64{3, -4, 0}); a != 4 || b != 5 {
		t.Errorf("norms %g and %g, want 4 and 5", a, b)
	}
}
