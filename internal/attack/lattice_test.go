package attack

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

var bytesLattice = Lattice{Step: big.NewRat(1, 255), Low: 0, High: 255}

// stepsOf returns (moved − x)/Step. It checks that 'moved' and x are on the lattice and between the ends of the
// lattice.
func stepsOf(t *testing.T, l Lattice, moved, x []float32) []int64 {
	t.Helper()
	k := make([]int64, len(x))
	for i, v := range moved {
		at := l.Index(v)
		if l.Value(at) != v || at < l.Low || at > l.High {
			t.Fatalf("value %v is no lattice point from %d to %d", v, l.Low, l.High)
		}
		k[i] = int64(at - l.Index(x[i]))
	}
	return k
}

// squares returns Step²·Σk².
func squares(l Lattice, k []int64) *big.Rat {
	sum := new(big.Rat)
	for _, v := range k {
		sum.Add(sum, new(big.Rat).SetInt64(v*v))
	}
	sum.Mul(sum, l.Step)
	return sum.Mul(sum, l.Step)
}

func squareOf(v float64) *big.Rat {
	r := new(big.Rat).SetFloat64(v)
	return r.Mul(r, r)
}

// dot returns Σ k·direction.
func dot(k []int64, direction []float64) (sum float64) {
	for i, v := range k {
		sum += float64(v) * direction[i]
	}
	return sum
}

// digitLike returns an input with as many values as an MNIST digit, most of them 0. It also returns a random direction.
// If the argument 'tails' is 0, the values of the direction are normally distributed. If 'tails' is positive, a few
// values are much larger than the others, as in a gradient.
func digitLike(rng *rand.Rand, tails float64) (x []float32, direction []float64) {
	for range 784 {
		k := 0
		if rng.IntN(5) == 0 {
			k = rng.IntN(256)
		}
		x = append(x, bytesLattice.Value(k))
		direction = append(direction, rng.NormFloat64()*math.Exp(tails*rng.NormFloat64()))
	}
	return x, direction
}

// TestMove: in exact arithmetic, no moved input is farther from the original input than the radius. The distance that
// Move returns is the exact distance, rounded up to a float64. At radius .0625, the test also computes the inner
// product of the perturbation and the direction. It compares this inner product with an upper bound that ignores the
// lattice. Move reaches at least 95 % of the bound for a direction with a few large values. If the values of the
// direction are normally distributed, Move reaches at least 90 %. Plain rounding would reach only 50 %; the test does
// not check this.
func TestMove(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, radius := range []float64{1e-3, 1. / 255, .01, .0625, .3, 1, 2.5, 40} {
		for i := range 10 {
			tails := 1.5 * float64(i%2)
			x, direction := digitLike(rng, tails)
			moved, distance := bytesLattice.Move(x, direction, radius)
			k := stepsOf(t, bytesLattice, moved, x)
			exact := squares(bytesLattice, k)
			if exact.Cmp(squareOf(radius)) > 0 || distance > radius {
				t.Fatalf("radius %v: moved by %v", radius, distance)
			}
			if below := math.Nextafter(distance, 0); squareOf(distance).Cmp(exact) < 0 || distance > 0 && squareOf(below).Cmp(exact) >= 0 {
				t.Fatalf("radius %v: distance %v is not the exact one rounded up", radius, distance)
			}
			if radius != .0625 {
				continue
			}
			norm := 0. // squared norm of the direction, without the values that point out of the box
			for i, u := range direction {
				if v := bytesLattice.Index(x[i]); u > 0 && v < 255 || u < 0 && v > 0 {
					norm += u * u
				}
			}
			if kept := dot(k, direction) / 255 / (math.Sqrt(norm) * radius); !(kept >= .9+.1/3*tails && kept <= 1) {
				t.Errorf("tails %v: %.1f %% of the inner product remain", tails, 100*kept)
			}
		}
	}
}

// bestMove tries all k with Σk² ≤ budget on a small lattice. It returns the largest Σ k·direction.
func bestMove(l Lattice, at []int, direction []float64, budget int64) float64 {
	if len(at) == 0 {
		return 0
	}
	best := math.Inf(-1)
	for to := l.Low; to <= l.High; to++ {
		k := int64(to - at[0])
		if k*k <= budget {
			best = max(best, float64(k)*direction[0]+bestMove(l, at[1:], direction[1:], budget-k*k))
		}
	}
	return best
}

// TestMoveBest compares Move with all lattice points in a few dimensions. The best sum Σ k·direction exceeds Move's sum
// by at most the largest |direction_i|. In at least 80 % of the cases, Move reaches the best sum.
func TestMoveBest(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	l := Lattice{Step: big.NewRat(1, 4), Low: -3, High: 4}
	const cases = 500
	best := 0
	for range cases {
		d, radius := 1+rng.IntN(4), .05+1.5*rng.Float64()
		at, x, direction := make([]int, d), make([]float32, d), make([]float64, d)
		largest := 0.
		for i := range d {
			at[i] = l.Low + rng.IntN(l.High-l.Low+1)
			x[i], direction[i] = l.Value(at[i]), rng.NormFloat64()
			largest = max(largest, math.Abs(direction[i]))
		}
		moved, _ := l.Move(x, direction, radius)
		got, want := dot(stepsOf(t, l, moved, x), direction), bestMove(l, at, direction, int64(16*radius*radius))
		if got < want-largest || got > want+1e-9 {
			t.Fatalf("x %v, direction %v, radius %v: %v, the best is %v", at, direction, radius, got, want)
		}
		if got > want-1e-9 {
			best++
		}
	}
	if best < cases*8/10 {
		t.Errorf("best in %d of %d cases", best, cases)
	}
}

// TestFill: the unit with the largest ratio of gain to cost comes first. Here the ratio 1/1 is larger than 2.5/3.
func TestFill(t *testing.T) {
	all := []mover{{place: 0, gain: 2.5, units: 1, room: 5}, {place: 1, gain: 1, room: 5}}
	if used := fill(all, 4); used != 2 || all[0].units != 1 || all[1].units != 1 {
		t.Errorf("used %d of 4: %+v", used, all)
	}
}

func TestMoveExtremes(t *testing.T) {
	x := []float32{0, 1, bytesLattice.Value(7)}
	for _, c := range []struct {
		direction []float64
		radius    float64
		want      []int
		distance  float64
	}{
		{[]float64{0, 0, 0}, 1, []int{0, 255, 7}, 0},
		{[]float64{1, 1, 1}, 0, []int{0, 255, 7}, 0},
		{[]float64{-1, 1, math.NaN()}, 1, []int{0, 255, 7}, 0}, // these directions leave the box, or are NaN
		{[]float64{1, -1, 1}, math.Inf(1), []int{255, 0, 255}, math.Sqrt(2*255*255+248*248) / 255},
		{[]float64{0, 0, -1e-300}, 1, []int{0, 255, 0}, 7. / 255},
		{[]float64{1e300, 0, 0}, 2.5 / 255, []int{2, 255, 7}, 2. / 255},
	} {
		moved, distance := bytesLattice.Move(x, c.direction, c.radius)
		var got []int
		for _, v := range moved {
			got = append(got, bytesLattice.Index(v))
		}
		if !slices.Equal(got, c.want) || math.Abs(distance-c.distance) > 1e-12 {
			t.Errorf("direction %v, radius %v: %v at %v, want %v at %v", c.direction, c.radius, got, distance, c.want, c.distance)
		}
	}
}

func TestLatticeWithin(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		low, high float32
		want      [2]int
	}{
		{0, 1, [2]int{0, 255}}, {-inf, inf, [2]int{0, 255}}, {.1, .9, [2]int{26, 229}},
		{bytesLattice.Value(3), bytesLattice.Value(100), [2]int{3, 100}}, {-1, .0001, [2]int{0, 0}},
	} {
		if l := bytesLattice.Within(Threat{L2, 1, c.low, c.high}); l.Low != c.want[0] || l.High != c.want[1] {
			t.Errorf("box %v,%v: from %d to %d, want %v", c.low, c.high, l.Low, l.High, c.want)
		}
	}
}
