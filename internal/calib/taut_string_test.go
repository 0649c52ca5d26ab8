package calib

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// solve runs the solver on weights w and means y and returns one value for each point.
func solve(w, y []float64, lambda float64) []float64 {
	t := tautString{lambda: lambda}
	cw, ca := 0.0, 0.0
	var path []piece
	for j := range w {
		cw += w[j]
		ca += float64(w[j] * y[j])
		if j == len(w)-1 {
			path = t.finish(cw, ca)
		} else {
			t.add(cw, ca)
		}
	}
	v := make([]float64, len(w))
	cw = 0
	k := 0
	for j := range w {
		cw += w[j]
		for path[k].end < cw {
			k++
		}
		v[j] = path[k].value
	}
	return v
}

func objective(w, y, v []float64, lambda float64) float64 {
	sum := 0.0
	for j := range v {
		sum += w[j] * (y[j] - v[j]) * (y[j] - v[j]) / 2
		if j > 0 {
			sum += lambda * math.Abs(v[j]-v[j-1])
		}
	}
	return sum
}

// enumerate finds the exact solution by trying all patterns of jumps. The solution is piecewise constant. So each of
// the 3^(m−1) patterns of jumps (up, down, none) gives the values of the pieces in closed form. The value of a piece is
// mean + λ(sign after − sign before)/weight. Every pattern yields some v, and the v with the smallest objective is the
// solution.
func enumerate(w, y []float64, lambda float64) []float64 {
	m := len(w)
	var best []float64
	bestValue := math.Inf(1)
	pattern := make([]int, m+1) // pattern[j] is the sign of the jump from v[j−1] to v[j]; 0 at both ends
	v := make([]float64, m)
	var visit func(j int)
	visit = func(j int) {
		if j < m {
			for pattern[j] = -1; pattern[j] <= 1; pattern[j]++ {
				visit(j + 1)
			}
			return
		}
		for from := 0; from < m; {
			to := from + 1
			for to < m && pattern[to] == 0 {
				to++
			}
			sw, sa := 0.0, 0.0
			for i := from; i < to; i++ {
				sw += w[i]
				sa += w[i] * y[i]
			}
			after := 0
			if to < m {
				after = pattern[to]
			}
			before := 0
			if from > 0 {
				before = pattern[from]
			}
			for i := from; i < to; i++ {
				v[i] = (sa + lambda*float64(after-before)) / sw
			}
			from = to
		}
		if o := objective(w, y, v, lambda); o < bestValue {
			bestValue = o
			best = append(best[:0], v...)
		}
	}
	visit(1)
	return best
}

func TestTautStringIsTheMinimum(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for range 3000 {
		m := 1 + rng.IntN(8)
		w, y := make([]float64, m), make([]float64, m)
		for j := range w {
			w[j] = float64(1 + rng.IntN(4))
			y[j] = float64(rng.IntN(int(w[j])+1)) / w[j]
		}
		lambda := rng.ExpFloat64()
		got, want := solve(w, y, lambda), enumerate(w, y, lambda)
		for j := range got {
			if math.Abs(got[j]-want[j]) > 1e-12 {
				t.Fatalf("w %v y %v λ %v: %v, want %v", w, y, lambda, got, want)
			}
		}
	}
}

// Let u_j = Σ_{i≤j} w_i(y_i − v_i). The solution is the only v with these three properties: |u_j| ≤ λ for every j, u_j
// = λ·sign(v_j − v_{j+1}) at every jump of v, and u_m = 0.
func TestTautStringKKT(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	shapes := map[string]func(x float64) float64{
		"flat":  func(float64) float64 { return 0.3 },
		"ramp":  func(x float64) float64 { return x },
		"steps": func(x float64) float64 { return math.Mod(math.Floor(x*7)*0.37, 1) },
		"wave":  func(x float64) float64 { return 0.5 + 0.5*math.Sin(40*x) },
		"sharp": func(x float64) float64 { return math.Round(x) },
	}
	for name, eta := range shapes {
		for _, ties := range []int{1, 5, 400} {
			for _, lambda := range []float64{0.4, 3, 25, 1e4} {
				const m = 4000
				w, y := make([]float64, m), make([]float64, m)
				for j := range w {
					w[j] = float64(1 + rng.IntN(ties))
					for range int(w[j]) {
						if rng.Float64() < eta(float64(j)/m) {
							y[j]++
						}
					}
					y[j] /= w[j]
				}
				if err := kkt(w, y, solve(w, y, lambda), lambda); err != nil {
					t.Fatalf("%s, ties %d, λ %v: %v", name, ties, lambda, err)
				}
			}
		}
	}
}

func kkt(w, y, v []float64, lambda float64) error {
	u := 0.0
	const eps = 1e-7
	for j := range v {
		u += w[j] * (y[j] - v[j])
		switch {
		case j == len(v)-1:
			if math.Abs(u) > eps {
				return fmt.Errorf("the dual ends at %v", u)
			}
		case math.Abs(u) > lambda+eps:
			return fmt.Errorf("dual %v at %d", u, j)
		// Values that are equal in exact arithmetic can differ here by one unit in the last place. So a difference of
		// at most 1e-9 does not count as a jump.
		case v[j] > v[j+1]+1e-9 && math.Abs(u-lambda) > eps, v[j] < v[j+1]-1e-9 && math.Abs(u+lambda) > eps:
			return fmt.Errorf("dual %v at the jump %v → %v", u, v[j], v[j+1])
		}
	}
	return nil
}

// FuzzTautString checks that the solution is optimal for every input. Each byte stands for a tie, which is a group of
// labels with equal scores. The lower four bits are the number of labels minus 1. The upper four bits are the number of
// ones, limited to the number of labels.
func FuzzTautString(f *testing.F) {
	f.Add([]byte{0x01, 0x11, 0x2f, 0xff}, 1.5)
	f.Add([]byte("0000111100110101"), 0.3)
	f.Add([]byte("1\x05\xff"), 1.2) // two slopes that differ only by rounding
	f.Fuzz(func(t *testing.T, ties []byte, lambda float64) {
		if len(ties) == 0 || !(lambda > 1e-3 && lambda < 1e6) {
			return
		}
		w, y := make([]float64, len(ties)), make([]float64, len(ties))
		for j, b := range ties {
			w[j] = float64(1 + b&15)
			y[j] = min(1, float64(b>>4)/w[j])
		}
		if err := kkt(w, y, solve(w, y, lambda), lambda); err != nil {
			t.Fatal(err)
		}
	})
}

// denoise treats equal scores as one point. The weight of the point is the number of these scores, and its value is the
// mean label.
func TestDenoiseMergesTies(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	const n = 2000
	score, label := make([]float64, n), make([]float64, n)
	for i := range score {
		score[i] = math.Floor(rng.Float64()*40) / 40
		label[i] = float64(rng.IntN(2))
	}
	s, err := NewSample(score, label)
	if err != nil {
		t.Fatal(err)
	}
	var w, y []float64
	for i := 0; i < n; {
		key, count, sum := s.packed[i]>>1, 0.0, 0.0
		for ; i < n && s.packed[i]>>1 == key; i++ {
			count++
			sum += float64(s.packed[i] & 1)
		}
		w, y = append(w, count), append(y, sum/count)
	}
	fit := denoise(s.packed, 3)
	want := solve(w, y, 3)
	at := fit.evaluator()
	j := 0
	for i, p := range s.packed {
		if i > 0 && p>>1 != s.packed[i-1]>>1 {
			j++
		}
		if got := at.value(p); math.Abs(got-want[j]) > 1e-12 {
			t.Fatalf("tie %d: %v, want %v", j, got, want[j])
		}
	}
	variation := 0.0
	for j := 1; j < len(want); j++ {
		variation += math.Abs(want[j] - want[j-1])
	}
	if math.Abs(variation-fit.variation()) > 1e-12 {
		t.Errorf("variation %v, want %v", fit.variation(), variation)
	}
}

// Between two neighbouring training scores, η̂ has the same value as at the lower of the two.
func TestEvaluatorExtension(t *testing.T) {
	train, _ := NewSample([]float64{.2, .2, .5, .8}, []float64{0, 0, 1, 1})
	fit := denoise(train.packed, 0.01)
	points, _ := NewSample([]float64{.1, .2, .4, .5, .79, .8, .9}, make([]float64, 7))
	low, high := fit.path[0].value, fit.path[len(fit.path)-1].value
	if !(low < 0.1 && high > 0.9) {
		t.Fatalf("path %v", fit.path)
	}
	at := fit.evaluator()
	for i, want := range []float64{low, low, low, high, high, high, high} {
		if got := at.value(points.packed[i]); got != want {
			t.Errorf("point %d: %v, want %v", i, got, want)
		}
	}
}

// The numbers come from proxTV 3.2.1 (prox_tv.tv1_1d, Barbero & Sra), printed with 15 digits. Each pair {length, value}
// is one constant piece of a solution.
func TestTautStringAgreesWithProxTV(t *testing.T) {
	const labels = "000000000000011110001111010111100110001110111111101101111111"
	tests := []struct {
		lambda float64
		pieces [][2]float64
	}{
		{0.3, [][2]float64{{13, 0.0230769230769231}, {4, 0.85}, {3, 0.2}, {4, 0.85}, {3, 0.533333333333333}, {4, 0.85}, {2, 0.3}, {2, 0.7},
			{3, 0.2}, {3, 0.8}, {1, 0.6}, {7, 0.914285714285714}, {1, 0.6}, {2, 0.7}, {1, 0.6}, {7, 0.957142857142857}}},
		{1.5, [][2]float64{{13, 0.115384615384615}, {7, 0.571428571428572}, {18, 0.611111111111111}, {4, 0.75}, {18, 0.805555555555556}}},
		{4, [][2]float64{{13, 0.307692307692308}, {7, 0.571428571428572}, {18, 0.611111111111111}, {22, 0.681818181818182}}},
	}
	w, y := make([]float64, len(labels)), make([]float64, len(labels))
	for j, c := range labels {
		w[j], y[j] = 1, float64(c-'0')
	}
	for _, tt := range tests {
		v := solve(w, y, tt.lambda)
		j := 0
		for _, p := range tt.pieces {
			for range int(p[0]) {
				if math.Abs(v[j]-p[1]) > 1e-12 {
					t.Fatalf("λ %v: v[%d] = %v, want %v", tt.lambda, j, v[j], p[1])
				}
				j++
			}
		}
		if j != len(v) {
			t.Fatalf("λ %v: %d values, want %d", tt.lambda, len(v), j)
		}
	}
}
