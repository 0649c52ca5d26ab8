package attack

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func near(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(a, b float64) bool { return math.Abs(a-b) <= 1e-12 })
}

// TestBump compares bump with equation 2 of the paper for h1 ≥ h2: η_rs = Σ_{k=0}^{M} 1/(n+1−k)² with n = ⌊h1/2⌋ and M
// = n − max(|r−⌊h1/2⌋−1|, |s−⌊h2/2⌋−1|). In the paper the indices r and s start at 1.
func TestBump(t *testing.T) {
	for _, c := range [][2]int{{1, 1}, {3, 3}, {5, 2}, {7, 7}, {6, 3}, {4, 4}} {
		h1, h2 := c[0], c[1]
		n, norm := h1/2, 0.
		var want, turned []float64
		for r := 1; r <= h1; r++ {
			for s := 1; s <= h2; s++ {
				m, sum := n-int(max(math.Abs(float64(r-h1/2-1)), math.Abs(float64(s-h2/2-1)))), 0.
				for k := 0; k <= m; k++ {
					sum += 1 / math.Pow(float64(n+1-k), 2)
				}
				want = append(want, sum)
				norm += sum * sum
			}
		}
		for i := range want {
			want[i] /= math.Sqrt(norm)
		}
		for s := range h2 {
			for r := range h1 {
				turned = append(turned, want[r*h2+s])
			}
		}
		if got := bump(h1, h2); !near(got, want) {
			t.Errorf("%d×%d: %v, want %v", h1, h2, got, want)
		}
		if got := bump(h2, h1); !near(got, turned) {
			t.Errorf("%d×%d: %v, want %v", h2, h1, got, turned)
		}
	}
	// A calculation by hand gives 5/4 for the centre and 1/4 for each of its eight neighbours, all divided by the norm
	// √(25/16 + 8/16).
	if got := bump(3, 3); math.Abs(got[4]-1.25/math.Sqrt(33./16)) > 1e-12 || math.Abs(got[0]-.25/math.Sqrt(33./16)) > 1e-12 {
		t.Errorf("3×3: %v", got)
	}
}

// TestTwoBumps: the upper ⌊h/2⌋ rows hold a bump, and the other rows hold a negative bump. Each bump has the norm 1/√2.
func TestTwoBumps(t *testing.T) {
	for _, c := range [][2]int{{5, 5}, {4, 3}, {3, 7}} {
		height, width := c[0], c[1]
		var want []float64
		for _, v := range bump(height/2, width) {
			want = append(want, v/math.Sqrt2)
		}
		for _, v := range bump(height-height/2, width) {
			want = append(want, -v/math.Sqrt2)
		}
		if got := twoBumps(height, width); !near(got, want) {
			t.Errorf("%d×%d: %v, want %v", height, width, got, want)
		}
	}
	if got := twoBumps(1, 1); !near(got, []float64{-1}) {
		t.Errorf("1×1: %v", got)
	}
}

func newL2Walk(shape []int, epsilon float64) (*Search, *walk) {
	inf, n := float32(math.Inf(1)), 1
	for _, d := range shape {
		n *= d
	}
	s := &Search{Threat: Threat{L2, epsilon, -inf, inf}, Method: Square, Shape: shape, Steps: 100, Seed: 5}
	return s, s.newWalk(&target{Example: Example{Values: make([]float32, n)}, found: new(Found)})
}

// TestForm checks that the two bumps lie side by side as often as they lie one above the other, if the window has room
// for both arrangements.
func TestForm(t *testing.T) {
	_, w := newL2Walk([]int{1, 9, 9}, 1)
	across, upright := 0, twoBumps(5, 5)
	turned := transpose(upright, 5)
	for range 400 {
		switch got := w.form(5, 5); {
		case near(got, turned):
			across++
		case !near(got, upright):
			t.Fatalf("%v is neither", got)
		}
	}
	if across < 150 || across > 250 || near(turned, upright) {
		t.Errorf("%d of 400 side by side", across)
	}
	for range 20 {
		if got := w.form(1, 4); !near(got, twoBumps(4, 1)) {
			t.Errorf("a flat window: %v", got)
		}
		if got := w.form(4, 1); !near(got, twoBumps(4, 1)) {
			t.Errorf("a narrow window: %v", got)
		}
	}
}

// TestWindow: if the image has room, the sides of a window are odd and at least 3. In a smaller image, no side of a
// window is longer than the same side of the image. Within these limits, the window's area is near the given share of
// the image.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		shape         []int
		share         float64
		height, width int
	}{
		{[]int{1, 28, 28}, .8, 25, 25}, {[]int{1, 28, 28}, .4, 19, 19}, {[]int{3, 32, 32}, .8 / 512, 3, 3},
		{[]int{1, 5, 5}, 1, 5, 5}, {[]int{1, 2, 2}, .1, 2, 2}, {[]int{1, 4, 4}, 1, 4, 4},
		{[]int{784}, .1, 1, 78}, {[]int{30, 1}, .5, 15, 1}, {[]int{6}, .01, 1, 3},
	} {
		_, w := newL2Walk(c.shape, 1)
		if height, width := w.window(c.share); height != c.height || width != c.width {
			t.Errorf("%v, share %g: %d×%d, want %d×%d", c.shape, c.share, height, width, c.height, c.width)
		}
	}
}

// TestGather compares the change of one channel with the result of algorithm 3 of the paper. The test computes this
// result with masks. The other channel must not change.
func TestGather(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct{ into, from rectangle }{
		{rectangle{0, 1, 3, 3}, rectangle{2, 2, 3, 3}}, {rectangle{0, 0, 3, 3}, rectangle{3, 3, 3, 3}}, {rectangle{2, 1, 3, 3}, rectangle{2, 1, 3, 3}},
	} {
		_, w := newL2Walk([]int{2, 6, 7}, 1)
		d := make([]float64, 84)
		for i := range d {
			d[i] = rng.NormFloat64()
		}
		form := twoBumps(3, 3)
		in := func(r rectangle, i int) bool {
			row, column := i/7-6, i%7 // row and column of value i in channel 1
			return row >= r.row && row < r.row+3 && column >= r.column && column < r.column+3
		}
		nu, both := 0., 0.
		for i := 42; i < 84; i++ {
			if in(c.into, i) {
				nu += d[i] * d[i]
			}
			if in(c.into, i) || in(c.from, i) {
				both += d[i] * d[i]
			}
		}
		candidates := make([][]float64, 0, 2)
		for _, rho := range []float64{-1, 1} {
			want, length, k := slices.Clone(d), 0., 0
			for i := 42; i < 84; i++ {
				if in(c.from, i) {
					want[i] = 0
				}
				if in(c.into, i) {
					want[i] = rho*form[k] + d[i]/math.Sqrt(nu)
					length += want[i] * want[i]
					k++
				}
			}
			for i := 42; i < 84; i++ {
				if in(c.into, i) {
					want[i] *= math.Sqrt((both + .7) / length)
				}
			}
			candidates = append(candidates, want)
		}
		seen := [2]int{}
		for range 40 {
			got := slices.Clone(d)
			w.gather(got, 1, c.into, c.from, form, .7)
			switch {
			case near(got, candidates[0]):
				seen[0]++
			case near(got, candidates[1]):
				seen[1]++
			default:
				t.Fatalf("%v: %v is not algorithm 3", c, got)
			}
		}
		if seen[0] < 8 || seen[1] < 8 {
			t.Errorf("signs drawn %v times", seen)
		}
	}
}

// TestTile: the first perturbation has norm ε. It consists of 5 rows of 5 tiles in the middle of the image. In each
// channel, a tile is a positive or a negative multiple of twoBumps.
func TestTile(t *testing.T) {
	s, w := newL2Walk([]int{3, 28, 28}, 2)
	x := w.tile(s)
	if d := s.Distance(x, w.Values); math.Abs(d-2) > 1e-6 {
		t.Errorf("norm %g, want 2", d)
	}
	scale, signs := 2/math.Sqrt(75), 0.
	for row := range 28 {
		for column := range 28 {
			inside := row >= 1 && row < 26 && column >= 1 && column < 26
			if v := x[w.offset(0, row, column)]; (v != 0) != inside {
				t.Fatalf("row %d, column %d: %g", row, column, v)
			}
		}
	}
	upright := twoBumps(5, 5)
	turned := transpose(upright, 5)
	for k := range 25 {
		for c := range 3 {
			got := make([]float64, 0, 25)
			for _, i := range w.offsets(c, rectangle{1 + k/5*5, 1 + k%5*5, 5, 5}) {
				got = append(got, float64(x[i])/scale)
			}
			form := upright
			if math.Abs(got[2]) > math.Abs(got[10])+1e-6 == (math.Abs(turned[2]) > math.Abs(turned[10])) {
				form = turned
			}
			sign := math.Copysign(1, got[0]*form[0])
			signs += sign
			for j := range got {
				if math.Abs(got[j]-sign*form[j]) > 1e-5 {
					t.Fatalf("tile %d, channel %d: %v, want ± %v", k, c, got, form)
				}
			}
		}
	}
	if math.Abs(signs) > 40 {
		t.Errorf("signs of 75 tiles sum to %g", signs)
	}
}

// TestProposeL2: after a query, the perturbation has norm ε. The query changes at most as many values as two windows
// hold together.
func TestProposeL2(t *testing.T) {
	for _, shape := range [][]int{{3, 20, 20}, {20, 20, 3}, {60}, {12, 5}} {
		s, w := newL2Walk(shape, 3)
		w.best = w.propose(s, 0)
		for i := range w.best { // so that the perturbation is shorter than ε
			w.best[i] /= 2
		}
		changed := 0
		x := w.propose(s, 60)
		for i := range x {
			if x[i] != w.best[i] {
				changed++
			}
		}
		if d := s.Distance(x, w.Values); math.Abs(d-3) > 1e-5 {
			t.Errorf("%v: norm %g, want 3", shape, d)
		}
		height, width := w.window(share(60, s.Steps))
		if most := 2 * height * width * w.channels; changed == 0 || changed > most {
			t.Errorf("%v: %d changes, want 1 to %d", shape, changed, most)
		}
	}
}
