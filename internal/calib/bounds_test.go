package calib

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// The function 'draw' returns n random pairs of a score and a label. Given the score s, the label is 1 with probability
// eta(s).
func draw(n int, seed uint64, score func(*rand.Rand) float64, eta func(float64) float64) *Sample {
	rng := rand.New(rand.NewPCG(seed, 77))
	s, y := make([]float64, n), make([]float64, n)
	for i := range s {
		s[i] = score(rng)
		if rng.Float64() < eta(s[i]) {
			y[i] = 1
		}
	}
	sample, err := NewSample(s, y)
	if err != nil {
		panic(err)
	}
	return sample
}

func uniform(rng *rand.Rand) float64 { return rng.Float64() }

func TestNewSample(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{0, 1, 2, 1000, 5000} {
		score, label := make([]float64, n), make([]float64, n)
		for i := range score {
			switch rng.IntN(4) {
			case 0:
				score[i] = float64(rng.IntN(2))
			case 1:
				score[i] = math.Copysign(0, -1)
			case 2:
				score[i] = math.Pow(rng.Float64(), 30)
			default:
				score[i] = rng.Float64()
			}
			label[i] = float64(rng.IntN(2))
		}
		s, err := NewSample(score, label)
		if err != nil {
			t.Fatal(err)
		}
		type pair struct{ s, y float64 }
		want := make([]pair, n)
		for i := range want {
			want[i] = pair{score[i] + 0, label[i]}
		}
		slices.SortFunc(want, func(a, b pair) int {
			if a.s != b.s {
				return int(math.Copysign(1, a.s-b.s))
			}
			return int(a.y - b.y)
		})
		for i, p := range s.packed {
			if got, y := unpack(p); got != want[i].s || float64(y) != want[i].y {
				t.Fatalf("n %d: %d-th is (%v, %v), want %v", n, i, got, y, want[i])
			}
		}
	}
	for _, tt := range []struct {
		score, label float64
		want         string
	}{
		{1.5, 0, "row 1: score 1.5 is outside [0, 1]"},
		{-1e-9, 0, "row 1: score -1e-09 is outside [0, 1]"},
		{math.NaN(), 0, "row 1: score NaN is outside [0, 1]"},
		{0.5, 2, "row 1: label 2 is not 0 or 1"},
		{0.5, math.NaN(), "row 1: label NaN is not 0 or 1"},
	} {
		_, err := NewSample([]float64{0, tt.score}, []float64{1, tt.label})
		var row *RowError
		if !errors.As(err, &row) || err.Error() != tt.want {
			t.Errorf("error %v, want %s", err, tt.want)
		}
	}
}

func TestAUROC(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	score, label := make([]float64, 300), make([]float64, 300)
	for i := range score {
		score[i] = math.Floor(rng.Float64()*20) / 20
		label[i] = float64(rng.IntN(2))
	}
	wins, pairs := 0.0, 0.0
	for i := range score {
		for j := range score {
			if label[i] == 1 && label[j] == 0 {
				pairs++
				switch {
				case score[i] > score[j]:
					wins++
				case score[i] == score[j]:
					wins += 0.5
				}
			}
		}
	}
	s, _ := NewSample(score, label)
	if got, err := s.AUROC(); err != nil || math.Abs(got-wins/pairs) > 1e-15 {
		t.Errorf("%v %v, want %v", got, err, wins/pairs)
	}
	one, _ := NewSample([]float64{.1, .2}, []float64{1, 1})
	if _, err := one.AUROC(); err == nil {
		t.Error("AUROC of one class")
	}
}

// The sizes of the folds differ by at most one. Over many seeds, each position of the sample is in a given fold about
// as often as every other position.
func TestAssignFolds(t *testing.T) {
	const n, k, seeds = 17, 5, 4000
	var at [n][k]int
	for seed := range uint64(seeds) {
		var size [k]int
		for i, f := range assignFolds(n, k, seed) {
			size[f]++
			at[i][f]++
		}
		if lo, hi := slices.Min(size[:]), slices.Max(size[:]); hi-lo > 1 {
			t.Fatalf("sizes %v", size)
		}
	}
	for i := range at {
		for f, count := range at[i] {
			p := float64((n+k-1-f)/k) / n // fold f holds ⌈(n−f)/k⌉ positions
			b := distuv.Binomial{N: seeds, P: p}
			if tail := min(b.CDF(float64(count)), 1-b.CDF(float64(count-1))); tail < 1e-6 {
				t.Errorf("position %d in fold %d: %d of %d, expected %.0f", i, f, count, seeds, p*seeds)
			}
		}
	}
}

// The window sums of the smoother agree with direct sums over all training points.
func TestWindowsAreDirectSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	scores := map[string]func(*rand.Rand) float64{
		"uniform": uniform,
		"ends":    func(r *rand.Rand) float64 { return math.Abs(float64(r.IntN(2)) - math.Pow(r.Float64(), 6)) },
		"atoms":   func(r *rand.Rand) float64 { return math.Floor(r.Float64()*11) / 10 },
		"edge":    func(r *rand.Rand) float64 { return []float64{0.25, 0.35, 0.35 + 1e-9, 0.45}[r.IntN(4)] },
		"narrow":  func(r *rand.Rand) float64 { return 0.5 + 1e-7*r.Float64() },
	}
	for name, score := range scores {
		for _, h := range []float64{1e-4, 0.003, 0.1, 0.25} {
			train := draw(3000, rng.Uint64(), score, func(s float64) float64 { return s })
			points := draw(400, rng.Uint64(), func(r *rand.Rand) float64 {
				if r.IntN(2) == 0 {
					return r.Float64()
				}
				return score(r)
			}, func(float64) float64 { return 0 })
			sm := smoother{train: train.packed, h: h}
			sm.each(points.packed, func(i int, got *window) {
				s, _ := unpack(points.packed[i])
				var want window
				for _, p := range train.packed {
					x, y := unpack(p)
					u := (s - x) / h
					k := 1 - u*u
					if k < 0 {
						continue
					}
					want.n++
					want.k += k
					if u > 0 {
						want.left += k * u
					} else {
						want.right -= k * u
					}
					want.ku2 += k * u * u
					want.kk += k * k
					want.ky += k * float64(y)
				}
				// A point exactly on the edge of the window may be counted or left out, because its weight is 0.
				if math.Abs(got.n-want.n) > 0.5 && math.Abs(got.k-want.k) > 1e-9 {
					t.Fatalf("%s h %v s %v: %v points, want %v", name, h, s, got.n, want.n)
				}
				near := func(a, b float64) bool { return math.Abs(a-b) <= 2e-13*max(1, want.n) }
				if !near(got.k, want.k) || !near(got.left, want.left) || !near(got.right, want.right) ||
					!near(got.ku2, want.ku2) || !near(got.kk, want.kk) || !near(got.ky, want.ky) {
					t.Fatalf("%s h %v s %v: %+v, want %+v", name, h, s, *got, want)
				}
			})
		}
	}
}

// The test computes the terms "gap" and "smoothing" of the bound from their formulas. It uses direct kernel sums
// without shortcuts, in O(n²).
func TestNadarayaWatsonFromTheFormula(t *testing.T) {
	sample := draw(600, 9, uniform, func(s float64) float64 { return s * s })
	cf := CrossFit{Delta: 0.1, Folds: 3, Seed: 4}
	const h = 0.1
	b1 := math.Tanh(1/h) / (2 * h)
	for _, kind := range []NadarayaWatsonKind{Repaired, SecondOrder, Printed} {
		power := 1.0
		if kind == Printed {
			power = 1.2
		}
		got, err := NadarayaWatson(sample, cf, h, kind)
		if err != nil {
			t.Fatal(err)
		}
		b2 := 0.5 * math.Pow(math.Tanh(1/h)/h, 2)
		if kind == Printed {
			b2 *= 3
		}
		fold := assignFolds(600, 3, 4)
		var gap, smoothing float64
		for k := range uint8(3) {
			part := sample.split(fold, k)
			sm := newSmoother(part.train, h, kind)
			kappa := sm.chooseKappa(len(part.valid), 0.1/3/4)
			var g, e float64
			for _, p := range part.valid {
				s, _ := unpack(p)
				var sw, swy, first, signed, second, squares float64
				for _, q := range part.train {
					x, y := unpack(q)
					w := max(0, 1-math.Pow((s-x)/sm.h, 2))
					if kind == Printed {
						w = math.Pow(w/kernelMass(x, sm.h), power) // TestKernelMass checks kernelMass by integration
					}
					sw += w
					swy += w * float64(y)
					first += w * math.Abs(s-x)
					signed += w * (x - s)
					second += w * (s - x) * (s - x)
					squares += w * w
				}
				bias := b1*first/sw + b2/2*second/sw
				if kind == SecondOrder {
					bias = min(b1*first/sw, b1*math.Abs(signed)/sw+b2/2*second/sw)
				}
				est, err := swy/sw, bias+math.Sqrt(squares/sw/sw)/2
				if kind != Printed && (squares/sw/sw > kappa || err >= max(s, 1-s)) {
					est, err = s, max(s, 1-s)
				}
				g += math.Abs(est - s)
				e += err
			}
			gap += g / float64(len(part.valid)) / 3
			smoothing += e / float64(len(part.valid)) / 3
		}
		if d := math.Abs(gap - got.Terms.Get("gap")); d > 1e-10 {
			t.Errorf("kind %d: gap %v, want %v", kind, got.Terms.Get("gap"), gap)
		}
		if d := math.Abs(smoothing - got.Terms.Get("smoothing")); d > 1e-10 {
			t.Errorf("kind %d: smoothing %v, want %v", kind, got.Terms.Get("smoothing"), smoothing)
		}
	}
}

// massByHand returns the integral, over [0, 1], of the kernel that is centred at x.
func massByHand(x, h float64) float64 {
	const steps = 20_000
	sum := 0.0
	for i := range steps {
		u := -1 + 2*(float64(i)+0.5)/steps
		if s := x + u*h; s >= 0 && s <= 1 {
			sum += 0.75 * (1 - u*u) * 2 / steps
		}
	}
	return sum
}

// plugIn returns the bandwidth that minimises the average of g over uniform scores. Here g is the bound on the
// smoother's error (see NadarayaWatson).
func TestPlugIn(t *testing.T) {
	for _, n := range []int{100, 10_000, 8_000_000} {
		for _, kind := range []NadarayaWatsonKind{Repaired, SecondOrder} {
			b1, b2 := derivatives(1.0 / 64)
			h := plugIn(b1, b2, n, kind)
			a := 3 * b1 / 8
			if kind == SecondOrder {
				a = 0
			}
			f := func(h float64) float64 { return a*h + b2/10*h*h + 1.15/(2*math.Sqrt(2*float64(n)))/math.Sqrt(h) }
			if f(h) > f(h*1.01) || f(h) > f(h*0.99) {
				t.Errorf("n %d kind %d: %v is not the minimum", n, kind, h)
			}
		}
	}
}

// The results of bucketSums agree with direct sums over the points and the pairs of points in each bucket.
func TestBucketSums(t *testing.T) {
	s := draw(500, 11, func(r *rand.Rand) float64 { return math.Sqrt(r.Float64()) }, func(s float64) float64 { return s })
	cells := s.cells()
	for _, b := range bucketCounts() {
		if fineCells%(b*shifts) != 0 {
			t.Fatalf("%d buckets do not divide", b)
		}
		for shift := range shifts {
			gotGap, gotSpread, gotNoise := bucketSums(cells, fineCells/b, shift*fineCells/b/shifts)
			groups := map[int][]uint64{}
			for _, p := range s.packed {
				x, _ := unpack(p)
				j := int(math.Floor(float64(b)*x + float64(shift)/shifts))
				groups[j] = append(groups[j], p)
			}
			var gap, spread, noise float64
			for _, group := range groups {
				diff := 0.0
				for _, p := range group {
					x, y := unpack(p)
					diff += x - float64(y)
					for _, q := range group {
						z, _ := unpack(q)
						spread += math.Abs(x-z) / float64(len(group))
					}
				}
				gap += math.Abs(diff)
				noise += math.Sqrt(float64(len(group)))
			}
			if math.Abs(gap-gotGap) > 1e-9 || math.Abs(spread-gotSpread) > 1e-9 || math.Abs(noise-gotNoise) > 1e-9 {
				t.Fatalf("B %d shift %d: %v %v %v, want %v %v %v", b, shift, gotGap, gotSpread, gotNoise, gap, spread, noise)
			}
		}
	}
}

func TestBoundsRefuse(t *testing.T) {
	s := draw(9, 1, uniform, uniform01)
	good := CrossFit{Delta: 0.05, Folds: 4, Seed: 1}
	tests := []struct {
		name string
		call func() (Bound, error)
		want string
	}{
		{"few rows", func() (Bound, error) { return TotalVariation(s, CrossFit{0.05, 5, 1}, 1) }, "9 rows are too few for 5 folds: at least 10 are needed"},
		{"delta", func() (Bound, error) { return TotalVariation(s, CrossFit{0, 4, 1}, 1) }, "delta 0 is outside (0, 1)"},
		{"folds", func() (Bound, error) { return TotalVariation(s, CrossFit{0.05, 1, 1}, 1) }, "1 folds is outside 2 to 255"},
		{"variation", func() (Bound, error) { return TotalVariation(s, good, -1) }, "variation -1 is negative or not finite"},
		{"bandwidth", func() (Bound, error) { return NadarayaWatson(s, good, 0, Repaired) }, "bandwidth 0 is not positive"},
		{"lipschitz bandwidth", func() (Bound, error) { return Lipschitz(s, 0.05, math.NaN()) }, "bandwidth NaN is not positive"},
		{"no rows", func() (Bound, error) { return Lipschitz(&Sample{}, 0.05, 1) }, "no rows"},
	}
	for _, tt := range tests {
		if _, err := tt.call(); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

func uniform01(s float64) float64 { return s }

// Extreme but legal inputs give bounds in (0, 1]. A bound is the sum of its terms, or 1 if the sum is larger. No term
// is negative or infinite.
func TestBoundsOnOddSamples(t *testing.T) {
	samples := map[string]*Sample{
		"smallest":  draw(4, 1, uniform, uniform01),
		"all zero":  draw(50, 1, func(*rand.Rand) float64 { return 0 }, func(float64) float64 { return 0 }),
		"all one":   draw(50, 1, func(*rand.Rand) float64 { return 1 }, func(float64) float64 { return 1 }),
		"one class": draw(50, 1, uniform, func(float64) float64 { return 1 }),
		"both ends": draw(50, 1, func(r *rand.Rand) float64 { return float64(r.IntN(2)) }, uniform01),
		"tiny":      draw(50, 1, func(r *rand.Rand) float64 { return 1e-300 * r.Float64() }, uniform01),
		"one distant": draw(51, 1, func(r *rand.Rand) float64 {
			if r.IntN(50) == 0 {
				return 1
			}
			return 0.1
		}, uniform01),
	}
	for name, s := range samples {
		for _, h := range []float64{1e-6, 1.0 / 64, 1, 1e6} {
			for method, bound := range boundsOf(s, CrossFit{0.05, 2, 3}, h, 1) {
				b, err := bound()
				if err != nil {
					t.Fatalf("%s %s h %v: %v", name, method, h, err)
				}
				if !(b.Value > 0 && b.Value <= 1) || b.Value != min(1, b.Sum()) {
					t.Errorf("%s %s h %v: %+v", name, method, h, b)
				}
				for _, term := range b.Terms {
					if !(term.Value >= 0) || math.IsInf(term.Value, 0) {
						t.Errorf("%s %s h %v: %s = %v", name, method, h, term.Name, term.Value)
					}
				}
			}
		}
	}
}

func boundsOf(s *Sample, cf CrossFit, h, variation float64) map[string]func() (Bound, error) {
	bounds := map[string]func() (Bound, error){}
	for _, m := range BoundMethods {
		bounds[m.Name] = func() (Bound, error) { return m.Compute(s, BoundParams{cf, variation, h, equalWeights(s)}) }
	}
	return bounds
}
