package calib

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// slowPartition cuts the sorted scores into about 2ᵏ bins. It computes every cut directly from the definition in the
// comment of cutLevels.
func slowPartition(scores []float64, k, finest int) [][2]int {
	n := len(scores)
	first := func(i int) int { return slices.Index(scores, scores[i]) }
	past := func(i int) int { return first(i) + occurrences(scores, scores[i]) }
	cuts := []int{0, n}
	for j := 1; j < 1<<k; j++ {
		at := j << (finest - k) * n / (1 << finest)
		a, b := first(at), past(at)
		if at-a > b-at {
			a = b
		}
		cuts = append(cuts, a)
	}
	for i := range scores {
		if c := occurrences(scores, scores[i]); c > 1 && c<<k >= n {
			cuts = append(cuts, first(i), past(i))
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var bins [][2]int
	for i := 1; i < len(cuts); i++ {
		bins = append(bins, [2]int{cuts[i-1], cuts[i]})
	}
	return bins
}

func occurrences(x []float64, v float64) int {
	c := 0
	for _, w := range x {
		if w == v {
			c++
		}
	}
	return c
}

// oddScores holds distributions of scores. "uniform" has no ties, "atoms" has seven values, and "heavy" has one
// frequent value. The scores of "coarse" lie on a grid, and small scores are more frequent.
var oddScores = map[string]func(*rand.Rand) float64{
	"uniform": uniform,
	"atoms":   func(r *rand.Rand) float64 { return float64(r.IntN(7)) / 6 },
	"heavy": func(r *rand.Rand) float64 {
		if r.IntN(3) > 0 {
			return 0.4
		}
		return r.Float64()
	},
	"coarse": func(r *rand.Rand) float64 { return math.Floor(60*math.Pow(r.Float64(), 3)) / 60 },
}

// The partitions agree with their definition. The moments of the bins agree with sums over points and pairs.
func TestPartitions(t *testing.T) {
	for name, law := range oddScores {
		for _, n := range []int{1, 2, 3, 4, 7, 8, 33, 200} {
			s := draw(n, uint64(n), law, func(x float64) float64 { return 0.2 + 0.5*x })
			scores, labels := unpackAll(s)
			visited := 0
			s.eachPartition(func(k int, bins []bin) {
				visited++
				want := slowPartition(scores, k, partitions(n)-1)
				if len(bins) != len(want) {
					t.Fatalf("%s n %d k %d: %d bins, want %d", name, n, k, len(bins), len(want))
				}
				for i, b := range bins {
					if b.from != want[i][0] || b.to != want[i][1] {
						t.Fatalf("%s n %d k %d: bin %d is [%d, %d), want %v", name, n, k, i, b.from, b.to, want[i])
					}
					checkMoments(t, &b, scores[b.from:b.to], labels[b.from:b.to])
				}
			})
			if visited != partitions(n) {
				t.Errorf("n %d: %d partitions, want %d", n, visited, partitions(n))
			}
		}
	}
	for n, want := range map[int]int{1: 1, 3: 1, 4: 1, 7: 1, 8: 2, 15: 2, 16: 3, 1000: 8, 10_000_000: 22} {
		if got := partitions(n); got != want {
			t.Errorf("%d partitions of %d points, want %d", got, n, want)
		}
	}
}

func unpackAll(s *Sample) (scores, labels []float64) {
	for _, p := range s.packed {
		x, y := unpack(p)
		scores, labels = append(scores, x), append(labels, float64(y))
	}
	return scores, labels
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func checkMoments(t *testing.T, b *bin, x, y []float64) {
	t.Helper()
	var m2, m3, m4, cross, pairs, labels float64
	mx, my := mean(x), mean(y)
	for i := range x {
		d := x[i] - mx
		m2 += d * d
		m3 += d * d * d
		m4 += d * d * d * d
		cross += d * (y[i] - my)
		labels += y[i]
		for j := range i {
			pairs += math.Abs(x[i] - x[j])
		}
	}
	tie := 0
	for i := range x {
		tie = max(tie, occurrences(x, x[i]))
	}
	n := float64(len(x))
	if tie != b.tie || b.n != n || b.labels != labels {
		t.Fatalf("tie %d, n %v, labels %v; want %d, %v, %v", b.tie, b.n, b.labels, tie, n, labels)
	}
	for _, c := range [][2]float64{{b.score, mx}, {b.m2, m2}, {b.m3, m3}, {b.m4, m4}, {b.cross, cross}, {b.pairs, pairs}} {
		if math.Abs(c[0]-c[1]) > 1e-12*n*n {
			t.Fatalf("moments %+v, want mean %v, %v, %v, %v, cross %v, pairs %v", *b, mx, m2, m3, m4, cross, pairs)
		}
	}
}

// slowLine fits a line in x to v by least squares and returns the residuals. If x hardly varies, the slope is 0.
func slowLine(x, v []float64) []float64 {
	mx, mv := mean(x), mean(v)
	var sxx, sxv float64
	for i := range x {
		sxx += (x[i] - mx) * (x[i] - mx)
		sxv += (x[i] - mx) * (v[i] - mv)
	}
	slope := 0.0
	if sxx >= float64(len(x))*0x1p-40 {
		slope = sxv / sxx
	}
	left := make([]float64, len(x))
	for i := range x {
		left[i] = v[i] - mv - slope*(x[i]-mx)
	}
	return left
}

func rms(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum / float64(len(x)))
}

func meanAbs(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Abs(v)
	}
	return sum / float64(len(x))
}

// slowLargest finds, by bisection, the largest calibration error c that the data do not refute. The argument 'a' is the
// A of oneStep. The local function 'exponent' returns the larger of the two exponents of oneStep. If the argument
// 'means' is false, it returns the second exponent. Each exponent is the largest value over a grid of λ.
func slowLargest(t *testing.T, a, brier, budget float64, means, sampleOnly bool) float64 {
	t.Helper()
	exponent := func(c float64) float64 {
		best := 0.0
		for k := range 800 {
			l := 40 * math.Pow(float64(k)/800, 3)
			scores := -math.Log(1 - c + c*math.Exp(-l))
			if sampleOnly {
				scores = l * c // the scores of the sample are given, so the |s_i − η_i| are fixed
			}
			best = max(best, -l*a-l*l/8+scores)
			if !means {
				continue
			}
			// The variable 'low' is the largest possible value of c − W* (see oneStep). It is 1+c, or 1 if the scores
			// are fixed. Of all distributions with this upper limit, mean 0 and variance v, a distribution on only two
			// values gives the smallest exponent.
			low, v := 1+c, brier-c*c
			if sampleOnly {
				low = 1
			}
			p := v / (v + low*low)
			best = max(best, l*(c-a)-math.Log(p*math.Exp(l*low)+(1-p)*math.Exp(-l*v/low)))
		}
		return best
	}
	lo, hi := a, math.Sqrt(brier)
	if hi > 1 {
		hi = 1
	}
	if exponent(hi*(1-1e-12)) < budget {
		return hi
	}
	for range 24 {
		if c := (lo + hi) / 2; exponent(c) < budget {
			lo = c
		} else {
			hi = c
		}
	}
	return hi
}

// slowKL finds, in smaller and smaller steps, the p > q with kl(q‖p) = budget.
func slowKL(q, budget float64) float64 {
	p := q
	for step := 0.1; step > 1e-13; step /= 2 {
		for p+step < 1 && q*math.Log(max(q, 1e-300)/(p+step))+(1-q)*math.Log((1-q)/(1-p-step)) <= budget {
			p += step
		}
	}
	return p
}

// The test computes every term of BinnedVariation and BinnedLipschitz from the formulas, in O(n²) for each partition.
func TestBinnedBoundsFromTheFormulas(t *testing.T) {
	const h = 0.15
	b1 := math.Tanh(1/h) / (2 * h)
	for name, law := range oddScores {
		for _, n := range []int{5, 60, 200} {
			s := draw(n, uint64(n), law, func(x float64) float64 { return x * x })
			scores, labels := unpackAll(s)
			brier := 0.0
			for i := range scores {
				brier += (scores[i] - labels[i]) * (scores[i] - labels[i]) / float64(n)
			}
			const delta, variation = 0.1, 2.5
			brier = slowKL(brier, math.Log(1/(0.1*delta))/float64(n))
			k := math.Floor(math.Log2(float64(n))) - 1
			bestV, bestL := math.Inf(1), math.Inf(1)
			var termsV, termsL [2]float64
			for level := range int(k) {
				var gap, smooth float64
				var weights []float64
				for _, b := range slowPartition(scores, level, int(k)-1) {
					x, y := scores[b[0]:b[1]], labels[b[0]:b[1]]
					m, share, spread, tie := mean(y), float64(len(x))/float64(n), 0.0, 0
					for i := range x {
						gap += math.Abs(x[i]-m) / float64(n)
						tie = max(tie, occurrences(x, x[i]))
						for j := range x {
							spread += math.Abs(x[i]-x[j]) / float64(len(x)*len(x))
						}
					}
					w := max(0.5, float64(tie)/float64(len(x)))
					weights = append(weights, share*2*w*(1-w))
					centred := make([]float64, len(x))
					for i := range x {
						centred[i] = x[i] - mean(x)
					}
					smooth += share * min(0.5, b1*spread, b1*rms(centred))
				}
				slices.Sort(weights)
				slices.Reverse(weights)
				weights = append(weights, 0, 0, 0)
				remainder := weights[0] + weights[1] + weights[2]/2
				if sum := gap + remainder; sum < bestV {
					bestV, termsV = sum, [2]float64{gap, remainder}
				}
				if sum := gap + smooth; sum < bestL {
					bestL, termsL = sum, [2]float64{gap, smooth}
				}
			}
			budget := math.Log(k/(0.9*delta)) / float64(n)
			v, err := BinnedVariation(s, delta, variation)
			if err != nil {
				t.Fatal(err)
			}
			l, err := BinnedLipschitz(s, delta, h)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				what      string
				got, want float64
			}{
				{"brier", v.Chosen.Get("brier"), brier},
				{"gap", v.Terms.Get("gap"), termsV[0]},
				{"variation", v.Terms.Get("variation"), termsV[1]},
				{"value", v.Value, min(1, max(bestV, slowLargest(t, bestV, brier, budget, true, false)))},
				{"of sample", v.OfSample, min(1, max(bestV, slowLargest(t, bestV, brier, budget, true, true)))},
				{"lipschitz gap", l.Terms.Get("gap"), termsL[0]},
				{"smoothness", l.Terms.Get("smoothness"), termsL[1]},
				{"lipschitz value", l.Value, min(1, max(bestL, slowLargest(t, bestL, brier, budget, true, false)))},
			} {
				if math.Abs(c.got-c.want) > 1e-5 {
					t.Errorf("%s n %d: %s %v, want %v", name, n, c.what, c.got, c.want)
				}
			}
		}
	}
}

// The test computes the second-order bound of BinnedLipschitz from its formulas. slowLine gives the residuals of the
// labels and of a parabola. slowLargest gives the largest calibration error that the second exponent of oneStep does
// not refute.
func TestBinnedSecondOrderFromTheFormulas(t *testing.T) {
	const n, h, delta = secondOrderFrom, 1.0 / 64, 0.05
	b1, b2 := math.Tanh(1/h)/(2*h), math.Pow(math.Tanh(1/h)/h, 2)/2
	s := draw(n, 3, uniform, func(x float64) float64 { return x * x })
	scores, labels := unpackAll(s)
	got, err := BinnedLipschitz(s, delta, h)
	if err != nil || got.Chosen.Get("order") != 2 {
		t.Fatalf("%+v %v: want the second order", got, err)
	}
	k := partitions(n)
	best, terms := math.Inf(1), [2]float64{}
	for level := range k {
		var gap, smooth float64
		for j := range 1 << level { // no two scores are equal, so all bins are about equally full
			from, to := j*n>>level, (j+1)*n>>level
			x, y := scores[from:to], labels[from:to]
			squares, difference := make([]float64, len(x)), make([]float64, len(x))
			for i, left := range slowLine(x, y) {
				squares[i] = (x[i] - 0.5) * (x[i] - 0.5)
				difference[i] = x[i] - (y[i] - left)
			}
			centred := make([]float64, len(x))
			for i := range x {
				centred[i] = x[i] - mean(x)
			}
			gap += meanAbs(difference) * float64(len(x)) / n
			smooth += float64(len(x)) / n * min(0.5, b1*rms(centred), b2/2*rms(slowLine(x, squares)))
		}
		if gap+smooth < best {
			best, terms = gap+smooth, [2]float64{gap, smooth}
		}
	}
	brier := got.Chosen.Get("brier")
	budget := math.Log(2*float64(k)/(0.9*delta)) / n
	want := slowLargest(t, best, brier, budget, false, false)
	if math.Abs(got.Terms.Get("gap")-terms[0]) > 1e-8 || math.Abs(got.Terms.Get("smoothness")-terms[1]) > 1e-6 ||
		math.Abs(got.Value-want) > 1e-5 {
		t.Errorf("%+v, want gap and smoothness %v, value %v", got.Terms, terms, want)
	}
	if w := slowLargest(t, best, brier, budget, false, true); got.OfSample > w+1e-5 || got.OfSample < w/2 {
		t.Errorf("of sample %v, want %v or less", got.OfSample, w)
	}
}

// The test draws calibration functions η with limited derivatives. constantRemainder and variationRemainder bound the
// deviation of the η_i from their mean. lineRemainder bounds the deviation of the η_i from their least-squares line. If
// η is a parabola, the deviation from the line is nearly equal to lineRemainder.
func TestRemaindersHold(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	const b1, b2 = 30.0, 2000.0
	tightest := 0.0
	for trial := range 400 {
		n := 2 + rng.IntN(40)
		width := math.Pow(10, -3*rng.Float64())
		s := draw(n, uint64(trial), func(r *rand.Rand) float64 { return 0.5 * (1 + width*oddScores["coarse"](r)) }, uniform01)
		scores, _ := unpackAll(s)
		whole := newBin(s.packed, 0, n, 0)
		// The test makes an η with |η″| ≤ b2 and |η′| ≤ b1 on a fine grid. η″ is b2 or −b2, and its sign changes at
		// random. η′ is the integral of η″, and each step clips it to [−b1, b1].
		const steps = 2000
		eta := make([]float64, steps+1)
		slope, sign := b1*(2*rng.Float64()-1), 1.0
		if trial%4 == 0 {
			slope = -b2 * width / 8 // η is a single parabola if |η′| stays below b1
		}
		for i := 1; i <= steps; i++ {
			if trial%4 > 0 && rng.IntN(200) == 0 {
				sign = -sign
			}
			slope = min(b1, max(-b1, slope+sign*b2*0.5*width/steps))
			eta[i] = eta[i-1] + slope*0.5*width/steps
		}
		at := make([]float64, n)
		for i, x := range scores {
			u := (x - 0.5) / (0.5 * width) * steps
			k := min(int(u), steps-1)
			at[i] = eta[k] + (u-float64(k))*(eta[k+1]-eta[k])
		}
		lo, hi := slices.Min(at), slices.Max(at)
		if hi-lo > 1 {
			continue // no shift moves this η into [0, 1]
		}
		centred := make([]float64, n)
		for i := range at {
			centred[i] = at[i] - mean(at)
		}
		if got, most := meanAbs(centred), whole.constantRemainder(b1); got > most*(1+1e-9)+1e-9 {
			t.Fatalf("trial %d: deviation %v > %v", trial, got, most)
		}
		if got, most := meanAbs(centred), variationRemainder([]bin{whole}, hi-lo)/float64(n); got > most*(1+1e-9)+1e-12 {
			t.Fatalf("trial %d: deviation %v > %v by variation", trial, got, most)
		}
		if whole.narrow() {
			continue
		}
		left, most := rms(slowLine(scores, at)), whole.lineRemainder(b1, b2)
		// η is linear between the points of a grid; the tolerance allows for the error of this grid
		if left > most*(1+1e-3)+1e-9 {
			t.Fatalf("trial %d: a line leaves %v > %v", trial, left, most)
		}
		tightest = max(tightest, left/most)
	}
	if tightest < 0.95 {
		t.Errorf("the bound on what a line leaves is never nearer than %v", tightest)
	}
}

// Both exponents of oneStep increase in c. The second exponent is at least Hoeffding's exponent for variables of range
// √2.
func TestExponents(t *testing.T) {
	for _, a := range []float64{0, 0.01, 0.2, 0.5} {
		for _, brier := range []float64{0.02, 0.25, 0.9} {
			last1, last2 := 0.0, 0.0
			for c := a; c < min(1, math.Sqrt(brier)); c += 0.003 {
				e1, e2 := bennettExponent(c-a, brier-c*c, 1+c), mixedExponent(a, c)
				if e1 < last1*(1-1e-9) || e2 < last2*(1-1e-9) {
					t.Fatalf("a %v, β %v: an exponent falls at %v", a, brier, c)
				}
				if e2 < (c-a)*(c-a)*(1-1e-9) {
					t.Fatalf("a %v, c %v: exponent %v is below Hoeffding's %v", a, c, e2, (c-a)*(c-a))
				}
				last1, last2 = e1, e2
			}
		}
	}
}
