package calib

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The tests of this file compute every term of the bounds of TotalVariation, Lipschitz and NadarayaWatson from its
// formula. They use plain code. They use only these computations of the package: the random numbers, the folds, the
// taut string, plugIn and kernelMass. (Other tests check plugIn and kernelMass, and compare the taut string with
// enumeration and with proxTV.) Coverage tests would not detect a wrong constant, because the bounds are slack.

// The function 'same' compares two numbers with a relative tolerance.
func same(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*math.Abs(want)) {
		t.Errorf("%s = %.17g, want %.17g", what, got, want)
	}
}

// sameTerms compares the names, the order and the values of terms.
func sameTerms(t *testing.T, what string, got, want Terms, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: terms %v, want %v", what, got, want)
	}
	for i := range want {
		if got[i].Name != want[i].Name {
			t.Fatalf("%s: terms %v, want %v", what, got, want)
		}
		same(t, what+": "+want[i].Name, got[i].Value, want[i].Value, tolerance)
	}
}

// meanVariance returns the mean and the variance with divisor n, in two passes.
func meanVariance(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x))
	}
	return mean, variance
}

// empiricalBernstein returns the empirical Bernstein radius (see bernstein) of the values x. They lie in an interval
// whose length is the argument 'width'.
func empiricalBernstein(x []float64, delta, width float64) float64 {
	n := float64(len(x))
	_, v := meanVariance(x)
	return math.Sqrt(2*v*math.Log(3/delta)/n) + 3*width*math.Log(3/delta)/n
}

func TestBernsteinIsTheFormula(t *testing.T) {
	// ln(3/0.05) = ln 60 is 4.094344562222101, so the first value is √(½ · 0.04094…) + 3 · 0.04094… .
	same(t, "BB", bernstein(100, 0.05, 0.25, 1), 0.14307942832954884+0.12283033686666302, 1e-12)
	same(t, "BB on [0, ½]", bernstein(100, 0.05, 0.25, 0.5), 0.14307942832954884+0.12283033686666302/2, 1e-12)
	same(t, "BB without variance", bernstein(100, 0.05, 0, 1), 0.12283033686666302, 1e-12)
	rng := rand.New(rand.NewPCG(40, 1))
	for _, n := range []int{1, 2, 57} {
		var m moments
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.Float64()
			m.add(x[i])
		}
		mean, variance := meanVariance(x)
		same(t, "mean", m.mean, mean, 1e-14)
		same(t, "variance", m.variance(), variance, 1e-12)
		same(t, "BB", bernstein(m.n, 0.01, m.variance(), 0.3), empiricalBernstein(x, 0.01, 0.3), 1e-12)
	}
	same(t, "roundoff", meanRoundoff(1000), 4*1000*math.Pow(2, -53), 0)
}

// The type 'scored' is a point of a sample.
type scored struct{ score, label float64 }

// foldOf splits a sample by hand into the points of fold k and the other points.
func foldOf(s *Sample, fold []uint8, k int) (train, valid []scored) {
	for i, p := range s.packed {
		x, y := unpack(p)
		if int(fold[i]) == k {
			valid = append(valid, scored{x, float64(y)})
		} else {
			train = append(train, scored{x, float64(y)})
		}
	}
	return train, valid
}

// meanTerms divides each term of a fold by the number of folds, and adds the result to the sum for the same term.
func meanTerms(sum, fold Terms, folds int) Terms {
	if sum == nil {
		for _, term := range fold {
			sum = append(sum, Term{term.Name, 0})
		}
	}
	for i := range fold {
		sum[i].Value += fold[i].Value / float64(folds)
	}
	return sum
}

// formulaSamples returns four samples: one with uniform scores, one with many ties and the scores 0 and 1, one with
// gaps between the scores, and one with only two different scores. In the last sample most points have the lower score.
// At the higher score the smoother has small weights but a large bias.
func formulaSamples() map[string]*Sample {
	return map[string]*Sample{
		"uniform": draw(150, 41, uniform, func(s float64) float64 { return s * s }),
		"ties": draw(150, 42, func(r *rand.Rand) float64 { return math.Floor(r.Float64()*12) / 11 },
			func(s float64) float64 { return 1 - s }),
		"gaps": draw(150, 43, func(r *rand.Rand) float64 {
			switch r.IntN(8) {
			case 0:
				return r.Float64()
			case 1, 2, 3:
				return 0.3
			}
			return 0.9 + r.Float64()/10
		}, func(s float64) float64 { return s }),
		"beside an atom": draw(150, 45, func(r *rand.Rand) float64 {
			if r.IntN(20) == 0 {
				return 0.301
			}
			return 0.3
		}, func(s float64) float64 { return s }),
	}
}

func TestTotalVariationFromTheFormula(t *testing.T) {
	for name, s := range formulaSamples() {
		for _, v := range []float64{0, 1, 3.5} {
			cf := CrossFit{Delta: 0.1, Folds: 3, Seed: 4}
			got, err := TotalVariation(s, cf, v)
			if err != nil {
				t.Fatal(err)
			}
			delta := 0.1 / 3 / 4 // δ₁ … δ₄ of each fold
			fold := assignFolds(s.N(), 3, 4)
			var terms, chosen Terms
			for k := range 3 {
				train, valid := foldOf(s, fold, k)
				n := float64(len(train))
				t1 := math.Sqrt(0.5 * math.Log(4/delta))
				t2 := math.Ceil(math.Sqrt(n/8*math.Log(4*(n-1)/delta))*1048576) / 1048576
				fit := denoise(s.split(fold, uint8(k)).train, t2)
				// The slice 'at' holds η̂ at every training point. At a validation point, η̂ equals its value at the
				// nearest training point to the left.
				var at []float64
				for _, p := range fit.path {
					for float64(len(at)) < p.end {
						at = append(at, p.value)
					}
				}
				var gap []float64
				for _, p := range valid {
					value := at[0]
					for i, q := range train {
						if q.score <= p.score {
							value = at[i]
						}
					}
					gap = append(gap, math.Abs(p.score-value))
				}
				vHat := 0.0
				for i := 1; i < len(at); i++ {
					vHat += math.Abs(at[i] - at[i-1])
				}
				mean, _ := meanVariance(gap)
				tvb := math.Sqrt((2*t1*t1 + 2*t1*math.Sqrt(t1*t1+4*t2*v) + 4*t2*v) / n)
				ptb := (v+vHat)*math.Sqrt(math.Log(2/delta)/(2*n)) + math.Sqrt(math.Log(2/delta)/(2*n))
				terms = meanTerms(terms, Terms{{"gap", mean}, {"bernstein", empiricalBernstein(gap, delta, 1)},
					{"denoising", tvb}, {"transfer", ptb}}, 3)
				chosen = meanTerms(chosen, Terms{{"lambda", t2 / n}, {"variation", vHat}, {"pieces", float64(len(fit.path))}}, 3)
			}
			terms = append(terms, Term{"rounding", 1e-12 + 4*150*math.Pow(2, -53)})
			what := fmt.Sprintf("%s, V = %v", name, v)
			sameTerms(t, what, got.Terms, terms, 1e-11)
			sameTerms(t, what, got.Chosen, chosen, 1e-11)
			if got.Delta != 0.1 || !got.Sound {
				t.Errorf("%s: %+v", what, got)
			}
		}
	}
}

// dyadicAbove rounds up by less than 2⁻²⁰.
func TestDyadicAbove(t *testing.T) {
	for _, x := range []float64{0, 1, 1.0 / 3, math.Pi, 1 + 0x1p-20, 1 + 0x1p-21, 100.1} {
		y := dyadicAbove(x)
		if y < x || y-x >= 0x1p-20 || y*(1<<20) != math.Trunc(y*(1<<20)) {
			t.Errorf("%v above %v", y, x)
		}
	}
}

func TestLipschitzFromTheFormula(t *testing.T) {
	counts := []float64{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
		1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768}
	const delta = 0.07
	buckets := map[float64]bool{}
	for name, s := range formulaSamples() {
		n := float64(s.N())
		points, _ := foldOf(s, make([]uint8, s.N()), 1)
		for _, h := range []float64{1, 1.0 / 16, 1.0 / 400} {
			l := 1 / (2 * h)
			labels := math.Sqrt(math.Log(1/(delta/(2*120))) / 2 / n)
			scores := math.Sqrt(math.Log(2/delta) / 2 / n)
			best := math.Inf(1)
			var terms, chosen Terms
			for _, b := range counts {
				for shift := range 4 {
					groups := map[int][]scored{}
					for _, p := range points {
						j := int(math.Floor(b*min(p.score, 1-1e-9) + float64(shift)/4))
						groups[j] = append(groups[j], p)
					}
					var gap, spread, noise float64
					for _, j := range slices.Sorted(maps.Keys(groups)) {
						group, diff := groups[j], 0.0
						for _, p := range group {
							diff += p.score - p.label
							for _, q := range group {
								spread += math.Abs(p.score-q.score) / float64(len(group))
							}
						}
						gap += math.Abs(diff)
						noise += math.Sqrt(float64(len(group))) / 2
					}
					gap, spread, noise = gap/n, (1+l)*spread/n, noise/n
					if gap+spread+noise < best-1e-13 {
						best = gap + spread + noise
						terms = Terms{{"gap", gap}, {"spread", spread}, {"noise", noise}, {"labels", labels}, {"scores", scores},
							{"rounding", 8 * n * math.Pow(2, -53) * (1 + l)}}
						chosen = Terms{{"buckets", b}, {"shift", float64(shift) / 4}}
					}
				}
			}
			got, err := Lipschitz(s, delta, h)
			if err != nil {
				t.Fatal(err)
			}
			what := fmt.Sprintf("%s, h = %v", name, h)
			same(t, what, got.Sum(), terms[3].Value+terms[4].Value+terms[5].Value+best, 1e-11)
			// The other samples have several best partitions, and rounding decides which one Lipschitz uses.
			if name == "uniform" {
				sameTerms(t, what, got.Terms, terms, 1e-11)
				sameTerms(t, what, got.Chosen, chosen, 1e-11)
			}
			for i, term := range got.Terms[3:] {
				same(t, what+": "+term.Name, term.Value, terms[3+i].Value, 1e-12)
			}
			buckets[got.Chosen.Get("buckets")] = true
			if got.Delta != delta || !got.Sound {
				t.Errorf("%s: %+v", what, got)
			}
		}
	}
	// If several partitions give the same bound, Lipschitz chooses the first.
	one := draw(1, 44, uniform, uniform01)
	if got, err := Lipschitz(one, delta, 1); err != nil || got.Chosen.Get("buckets") != 1 || got.Chosen.Get("shift") != 0 {
		t.Errorf("one point: %+v, %v", got, err)
	}
	if len(buckets) < 3 {
		t.Errorf("only %v buckets were chosen", buckets)
	}
}

// kernelSums holds what the smoother computes at a score: the number of points in the window, η̂, Σw², the bound on the
// bias, and whether the window is usable. The weights w add up to 1. The function sumKernel computes these values from
// all training points.
type kernelSums struct {
	n, estimate, squares, bias float64
	usable                     bool
}

func sumKernel(train []scored, s, h, b1, b2 float64, kind NadarayaWatsonKind) kernelSums {
	var n, sw, swy, first, signed, second, squares float64
	for _, q := range train {
		w := 1 - math.Pow((s-q.score)/h, 2)
		if w <= 0 {
			continue
		}
		n++
		sw += w
		swy += w * q.label
		first += w * math.Abs(s-q.score)
		signed += w * (q.score - s)
		second += w * (s - q.score) * (s - q.score)
		squares += w * w
	}
	bias := b1*first/sw + b2/2*second/sw
	if kind == SecondOrder {
		bias = min(b1*first/sw, b1*math.Abs(signed)/sw+b2/2*second/sw)
	}
	return kernelSums{n, swy / sw, squares / sw / sw, bias, n > 0 && sw >= n/100}
}

func (k kernelSums) error() float64 { return k.bias + math.Sqrt(k.squares)/2 }

// bestKappa chooses the κ of NadarayaWatson by trying the powers 2⁻⁵⁰, 2⁻⁴⁹, …, 2⁰.
func bestKappa(train []scored, valid int, delta, h, b1, b2 float64, kind NadarayaWatsonKind) float64 {
	step := (len(train) + 4095) / 4096
	var some []scored
	for i := step / 2; i < len(train); i += step {
		some = append(some, train[i])
	}
	at := make([]kernelSums, len(some))
	for i, p := range some {
		at[i] = sumKernel(train, p.score, h, b1, b2, kind)
	}
	best, least := 0.0, math.Inf(1)
	for k := 50; k >= 0; k-- {
		kappa := math.Pow(2, -float64(k))
		saved := 0.0
		for i, p := range some {
			if at[i].usable && at[i].squares <= kappa {
				saved += max(0, max(p.score, 1-p.score)-at[i].error())
			}
		}
		c2 := 2/float64(len(train)) + 3*kappa*math.Log(3/delta)/float64(valid/2)
		if cost := math.Sqrt(math.Log(1/delta)*c2/2) - saved/float64(len(some)); cost < least-1e-12 {
			best, least = kappa, cost
		}
	}
	return best
}

func TestNadarayaWatsonTermsFromTheFormula(t *testing.T) {
	for name, s := range formulaSamples() {
		for _, h := range []float64{1, 0.1, 1.0 / 64, 1e-3} {
			for _, kind := range []NadarayaWatsonKind{Repaired, SecondOrder, Printed} {
				cf := CrossFit{Delta: 0.3, Folds: 2, Seed: 7}
				got, err := NadarayaWatson(s, cf, h, kind)
				if err != nil {
					t.Fatal(err)
				}
				b1, b2 := math.Tanh(1/h)/(2*h), 0.5*math.Pow(math.Tanh(1/h)/h, 2)
				if kind == Printed {
					b2 *= 3 // the paper's bound on |η″| is three times this b2
				}
				fold := assignFolds(s.N(), 2, 7)
				var terms, chosen Terms
				rounding := 0.0
				for k := range 2 {
					train, valid := foldOf(s, fold, k)
					wide := plugIn(b1, b2, len(train), kind)
					var f, c Terms
					if kind == Printed {
						f, c = printedTerms(train, valid, 0.3/2/2, wide, b1, b2, newStream(7, streamPrinted+uint64(k)*256))
					} else {
						f, c = repairedTerms(train, valid, 0.3/2/4, wide, b1, b2, kind, newStream(7, streamPairs+uint64(k)*256))
					}
					terms, chosen = meanTerms(terms, f, 2), meanTerms(chosen, c, 2)
					m := 1024 + float64(len(train))/1024
					rounding = max(rounding, 5e5*m*math.Pow(2, -53)*(1+b1*wide+b2*wide*wide/2))
				}
				terms = append(terms, Term{"rounding", rounding})
				what := fmt.Sprintf("%s, h = %v, kind %d", name, h, kind)
				sameTerms(t, what, got.Terms, terms, 1e-9) // 1e-9, because the smoother's sums of powers lose digits
				sameTerms(t, what, got.Chosen, chosen, 1e-11)
				if got.Delta != 0.3 || got.Sound != (kind != Printed) {
					t.Errorf("%s: %+v", what, got)
				}
			}
		}
	}
}

func repairedTerms(train, valid []scored, delta, h, b1, b2 float64, kind NadarayaWatsonKind,
	r *splitMix) (terms, chosen Terms) {
	kappa := bestKappa(train, len(valid), delta, h, b1, b2, kind)
	n := len(valid)
	gap, smoothing, squares := make([]float64, n), make([]float64, n), make([]float64, n)
	unused := 0.0
	for i, p := range valid {
		trivial := max(p.score, 1-p.score)
		at := sumKernel(train, p.score, h, b1, b2, kind)
		if at.usable && at.squares <= kappa && at.error() < trivial {
			gap[i], smoothing[i], squares[i] = math.Abs(at.estimate-p.score), at.error(), at.squares
		} else {
			smoothing[i] = trivial
			unused++
		}
	}
	// The test forms disjoint random pairs: it repeatedly draws two of the remaining points.
	left := make([]int, n)
	for i := range left {
		left[i] = i
	}
	take := func() int {
		j := r.uniformBelow(len(left))
		i := left[j]
		left[j] = left[len(left)-1]
		left = left[:len(left)-1]
		return i
	}
	var overlap []float64
	for len(left) > 1 {
		i, j := take(), take()
		q := 0.0
		if math.Abs(valid[i].score-valid[j].score) < 2*h {
			q = math.Sqrt(squares[i] * squares[j])
		}
		overlap = append(overlap, q)
	}
	mean, _ := meanVariance(overlap)
	c2 := mean + empiricalBernstein(overlap, delta, kappa)
	gaps, _ := meanVariance(gap)
	errors, _ := meanVariance(smoothing)
	return Terms{{"gap", gaps}, {"gap_bernstein", empiricalBernstein(gap, delta, 1)},
			{"smoothing", errors}, {"smoothing_bernstein", empiricalBernstein(smoothing, delta, 1)},
			{"repair", math.Sqrt(0.5 * math.Log(1/delta) * c2)}},
		Terms{{"bandwidth", h}, {"kappa", kappa}, {"unused", unused / float64(n)}}
}

func printedTerms(train, valid []scored, delta, h, b1, b2 float64, r *splitMix) (terms, chosen Terms) {
	most := min(len(valid), max(5000, (len(train)+len(valid))/20), 15_000)
	var some []scored
	for i, p := range valid {
		if r.uniformBelow(len(valid)-i) < most-len(some) {
			some = append(some, p)
		}
	}
	var gap, smoothing []float64
	unused := 0.0
	for _, p := range some {
		var weights, labels, distances []float64
		total := 0.0
		for _, q := range train {
			d := math.Abs(p.score - q.score)
			if d >= h {
				continue
			}
			z := kernelMass(q.score, h) // TestKernelMass checks kernelMass by integration
			w := math.Exp(1.2 * math.Log((1-d*d/h/h)/z))
			weights, labels, distances = append(weights, w), append(labels, q.label), append(distances, d)
			total += w
		}
		if total == 0 {
			unused++
			estimate, d, ties := nearestByHand(train, p.score)
			gap = append(gap, math.Abs(estimate-p.score))
			smoothing = append(smoothing, b1*d+b2*d*d/2+0.5/math.Sqrt(ties))
			continue
		}
		var estimate, g, squares float64
		for i, w := range weights {
			w /= total
			estimate += w * labels[i]
			g += w * (b1*distances[i] + b2*distances[i]*distances[i]/2)
			squares += w * w
		}
		gap = append(gap, math.Abs(estimate-p.score))
		smoothing = append(smoothing, g+math.Sqrt(squares)/2)
	}
	bound := b1*h + b2*h*h/2 + 0.5
	gaps, _ := meanVariance(gap)
	errors, _ := meanVariance(smoothing)
	return Terms{{"gap", gaps}, {"gap_bernstein", empiricalBernstein(gap, delta, 1)},
			{"smoothing", errors}, {"smoothing_bernstein", empiricalBernstein(smoothing, delta, bound)}},
		Terms{{"bandwidth", h}, {"validation", float64(len(some))}, {"unused", unused / float64(len(some))}}
}

func TestKernelMass(t *testing.T) {
	for _, c := range [][2]float64{{0, 0.1}, {1, 0.25}, {0.5, 0.25}, {0.03, 0.1}, {0.99, 0.1}, {0.2, 0.9}} {
		if got, want := kernelMass(c[0], c[1]), massByHand(c[0], c[1]); math.Abs(got-want) > 1e-4 {
			t.Errorf("%v: %v, want %v", c, got, want)
		}
	}
	if kernelMass(0.5, 0.1) != 1 || math.Abs(kernelMass(0, 0.1)-0.5) > 1e-15 {
		t.Error("the mass is not 1 inside or not ½ at the edge")
	}
}

func TestPrintedValidation(t *testing.T) {
	for _, c := range [][3]int{{100, 500, 100}, {6000, 30_000, 5000}, {40_000, 200_000, 10_000}, {200_000, 1_000_000, 15_000}} {
		if got := printedValidation(c[0], c[1]); got != c[2] {
			t.Errorf("%d of %d: %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

// nearestByHand returns the mean label at the nearest training score. Of two equally near scores, it takes the lower
// score.
func nearestByHand(train []scored, s float64) (estimate, distance, ties float64) {
	at, distance := 0.0, math.Inf(1)
	for _, q := range train {
		if d := math.Abs(q.score - s); d < distance {
			at, distance = q.score, d
		}
	}
	for _, q := range train {
		if q.score == at {
			estimate += q.label
			ties++
		}
	}
	return estimate / ties, distance, ties
}

func TestNearest(t *testing.T) {
	s, err := NewSample([]float64{0.25, 0.25, 0.25, 0.5, 0.75, 0.75}, []float64{1, 1, 0, 1, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	train, _ := foldOf(s, make([]uint8, 6), 1)
	sm := smoother{train: s.packed}
	for _, x := range []float64{0, 0.2, 0.25, 0.3, 0.375, 0.376, 0.5, 0.6, 0.625, 0.7, 0.75, 0.8, 1} {
		a, b, c := sm.nearest(x)
		if d, e, f := nearestByHand(train, x); a != d || b != e || c != f {
			t.Errorf("nearest to %v: %v %v %v, want %v %v %v", x, a, b, c, d, e, f)
		}
	}
}

// The numbers of SplitMix64 with seed 1234567 are published.
func TestSplitMix(t *testing.T) {
	r := splitMix(1234567)
	for _, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431} {
		if got := r.next(); got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
	// Take the first 100 numbers of each of the streams streamFolds to streamHoldout, for three seeds. All these
	// numbers are distinct.
	seen := map[uint64]bool{}
	for seed := range uint64(3) {
		for stream := streamFolds; stream <= streamHoldout; stream++ {
			r := newStream(seed, stream)
			for range 100 {
				seen[r.next()] = true
			}
		}
	}
	if len(seen) != 3*5*100 {
		t.Errorf("%d numbers of 1500 are distinct", len(seen))
	}
	// The results for a seed never change.
	if got := assignFolds(12, 3, 1); !slices.Equal(got, goldenFolds) {
		t.Errorf("folds %v, want %v", got, goldenFolds)
	}
}

var goldenFolds = []uint8{2, 1, 2, 2, 1, 1, 0, 0, 2, 1, 0, 0}

// A window is usable only if its kernel values add up to at least a hundredth of the largest possible sum. An estimate
// that rounding moved out of [0, 1] is moved back to the nearer limit.
func TestWindow(t *testing.T) {
	for _, tt := range []struct {
		w    window
		want bool
	}{{window{}, false}, {window{n: 100, k: 0.99}, false}, {window{n: 100, k: 1}, true}, {window{n: 1, k: 1}, true}} {
		if got := tt.w.usable(); got != tt.want {
			t.Errorf("%+v: %v", tt.w, got)
		}
	}
	for ky, want := range map[float64]float64{-0.5: 0, 0: 0, 1: 0.5, 2: 1, 2.5: 1} {
		if got := (window{k: 2, ky: ky}).estimate(); got != want {
			t.Errorf("%v of 2: %v, want %v", ky, got, want)
		}
	}
}
