package certify

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rscert/rscert/internal/binomial"
)

// exactBetting computes the betting bound directly from its formula. The constant c in this formula is the larger of ¾
// and chernoffFraction. exactBetting keeps all samples. It tests one candidate mean m at a time: it computes the
// capital, and compares the capital with 1/α after every block. It finds the bound by bisection over m.
func exactBetting(samples []float64, alpha float64) float64 {
	n := float64(len(samples))
	rejects := func(m float64) bool {
		c := math.Max(0.75, chernoffFraction(m, math.Log(1/alpha)/n))
		logK, sum, dev := 0.0, 0.5, 0.25
		for i, x := range samples {
			t := float64(i + 1)
			lambda := math.Sqrt(2 * math.Log(1/alpha) / (n * dev / t))
			logK += math.Log1p(math.Min(lambda, c/m) * (x - m))
			if logK >= math.Log(1/alpha) && ((i+1)%bettingBlock == 0 || i+1 == len(samples)) {
				return true
			}
			sum += x
			dev += (x - sum/(t+1)) * (x - sum/(t+1))
		}
		return false
	}
	lo, hi := 0.0, 1.0
	for range 40 {
		if mid := (lo + hi) / 2; rejects(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// boundMean returns a lower bound at level 1−α on the mean of the distribution of the samples.
func boundMean(bound MeanBound, samples []float64, alpha float64) float64 {
	s := meanBounds.do(bound)(int64(len(samples)), alpha)()
	for _, x := range samples {
		s.add(x)
	}
	return s.lower()
}

// The list 'distributions' holds distributions on [0,1] and their means. The tests draw samples from them.
var distributions = []struct {
	name string
	mean float64
	draw func(r *rand.Rand) float64
}{
	{"all 1", 1, func(*rand.Rand) float64 { return 1 }},
	{"two-point 0.999", 0.999, bernoulli(0.999)},
	{"two-point 0.9", 0.9, bernoulli(0.9)},
	{"two-point 0.5", 0.5, bernoulli(0.5)},
	{"two-point 0.01", 0.01, bernoulli(0.01)},
	{"near 1", 0.99, func(r *rand.Rand) float64 { return math.Pow(r.Float64(), 1.0/99) }},
	{"near 0", 0.01, func(r *rand.Rand) float64 { return 1 - math.Pow(r.Float64(), 1.0/99) }},
	{"uniform", 0.5, func(r *rand.Rand) float64 { return r.Float64() }},
	{"atoms and between", 0.94, func(r *rand.Rand) float64 {
		switch u := r.Float64(); {
		case u < 0.9:
			return 1
		case u < 0.92:
			return 0
		default:
			return r.Float64()
		}
	}},
}

func bernoulli(p float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 {
		if r.Float64() < p {
			return 1
		}
		return 0
	}
}

// The type 'prepared' is a bound on a mean for fixed n and α. The function 'start' begins a new sequence of samples.
type prepared struct {
	n     int64
	start func() lowerMean
}

func prepare(bound MeanBound, n int64, alpha float64) prepared {
	return prepared{n, meanBounds.do(bound)(n, alpha)}
}

func draw(r *rand.Rand, n int, from func(*rand.Rand) float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = from(r)
	}
	return x
}

// failuresAllowed returns the smallest k ≥ ⌊trials·p⌋ with P(Bin(trials, p) > k) ≤ 10⁻⁶. More than k failures refute
// the claim that a bound fails with probability ≤ p.
func failuresAllowed(trials int64, p float64) int64 {
	k := int64(float64(trials) * p)
	for binomial.Tail(trials, k+1, p).Upper > 1e-6 {
		k++
	}
	return k
}

// Every bound fails with probability ≤ α on every distribution. One level is as large as α = 0.3, because at a small α
// the slack of a bound could hide a mistake in the bound.
func TestMeanBoundCoverage(t *testing.T) {
	trials := int64(1000)
	if testing.Short() {
		trials = 200
	}
	for _, n := range []int{5, 60} {
		for _, alpha := range []float64{0.3, 0.02} {
			allowed := failuresAllowed(trials, alpha)
			for _, d := range distributions {
				failures := map[MeanBound]int64{}
				levels := map[MeanBound]prepared{}
				for _, b := range names(MeanBounds()) {
					levels[b] = prepare(b, int64(n), alpha)
				}
				r := rand.New(rand.NewPCG(uint64(n), 7))
				for range trials {
					samples := draw(r, n, d.draw)
					for _, b := range names(MeanBounds()) {
						s := levels[b].start()
						for _, x := range samples {
							s.add(x)
						}
						if s.lower() > d.mean {
							failures[b]++
						}
					}
				}
				for _, b := range names(MeanBounds()) {
					if failures[b] > allowed {
						t.Errorf("%s: %s, n = %d: %d of %d bounds are above the mean, α = %v allows %d", b, d.name, n, failures[b], trials, alpha, allowed)
					}
				}
			}
		}
	}
}

// Betting fails if the order of the samples is chosen after they are seen. The coverage test detects this failure.
func TestCoverageNeedsOrder(t *testing.T) {
	const trials, n, alpha = 200, 60, 0.02
	r := rand.New(rand.NewPCG(1, 1))
	var failures int64
	for range trials {
		samples := draw(r, n, bernoulli(0.5))
		slices.SortFunc(samples, func(a, b float64) int { return cmp.Compare(b, a) })
		if boundMean(Betting, samples, alpha) > 0.5 {
			failures++
		}
	}
	if failures <= failuresAllowed(trials, alpha) {
		t.Errorf("%d of %d failures with sorted samples do not refute α = %v", failures, trials, alpha)
	}
}

// The betting bound of the package uses a grid of candidate means m. It is only slightly below the bound of
// exactBetting, which needs no grid. It can be above the bound of exactBetting, but only because all m in an interval
// of the grid share one bet.
func TestBettingAgainstExact(t *testing.T) {
	for _, d := range distributions {
		for _, n := range []int{50, 1000, 20000} {
			if n > 1000 && testing.Short() {
				continue
			}
			samples := draw(rand.New(rand.NewPCG(3, uint64(n))), n, d.draw)
			const alpha = 0.001
			exact, grid := exactBetting(samples, alpha), boundMean(Betting, samples, alpha)
			var mean float64
			for _, x := range samples {
				mean += x / float64(n)
			}
			if width, exactWidth := mean-grid, mean-exact; width > 1.03*exactWidth+1e-6 || width < 0.98*exactWidth-1e-6 {
				t.Errorf("%s, n = %d: width %.8f on the grid, %.8f exactly", d.name, n, width, exactWidth)
			}
		}
	}
}

// If all samples are 1, no bound can be above the Clopper–Pearson bound α^{1/n}. The betting bound comes near α^{1/n}.
func TestBettingAllOnes(t *testing.T) {
	for _, n := range []int{100, 1000, 100000} {
		samples := draw(nil, n, func(*rand.Rand) float64 { return 1 })
		best := -math.Expm1(math.Log(0.001) / float64(n))
		for _, b := range []MeanBound{Betting, Chernoff, STaR} {
			if w := 1 - boundMean(b, samples, 0.001); w < best || w > 1.12*best {
				t.Errorf("%s, n = %d: 1 − bound = %v, best possible %v", b, n, w, best)
			}
		}
	}
}

// The bound Chernoff is at least Hoeffding's KL bound, except for the second-order loss from the grid.
func TestChernoffAgainstKL(t *testing.T) {
	for _, d := range distributions[:6] {
		for _, n := range []int{100, 3000} {
			samples := draw(rand.New(rand.NewPCG(5, uint64(n))), n, d.draw)
			var mean float64
			for _, x := range samples {
				mean += x / float64(n)
			}
			lo, hi := 0.0, mean // lo and hi enclose the m with n·KL(mean‖m) = ln(1/α)
			for range 60 {
				m := (lo + hi) / 2
				kl := 0.0
				if mean > 0 {
					kl += mean * math.Log(mean/m)
				}
				if mean < 1 {
					kl += (1 - mean) * math.Log((1-mean)/(1-m))
				}
				if kl*float64(n) >= math.Log(1000) {
					lo = m
				} else {
					hi = m
				}
			}
			if got := boundMean(Chernoff, samples, 0.001); mean > 0.3 && mean-got > 1.02*(mean-lo)+1e-9 {
				t.Errorf("%s, n = %d: width %v, KL %v", d.name, n, mean-got, mean-lo)
			}
		}
	}
}

// The reference values of the Hoeffding and Bernstein bounds were computed from their formulas to 30 digits, with the
// calculator bc.
func TestMeanBoundReference(t *testing.T) {
	samples := make([]float64, 200)
	for i := range samples {
		samples[i] = float64(i%4) / 3 // mean ½, V = (5/36)·200/199
	}
	l := math.Log(2 / 0.01)
	for _, c := range []struct {
		bound MeanBound
		want  float64
	}{
		{Hoeffding, 0.5 - math.Sqrt(math.Log(100)/400)},
		{Bernstein, 0.5 - math.Sqrt(2*5.0/36*200/199*l/200) - 7*l/(3*199)},
	} {
		if got := boundMean(c.bound, samples, 0.01); got > c.want || got < c.want-1e-10 {
			t.Errorf("%s: %v, want %v or just under", c.bound, got, c.want)
		}
	}
}

// Bounds stay in [0, 1]. They grow with α, at least roughly (see the comment below).
func TestMeanBoundProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, d := range distributions {
		samples := draw(r, 400, d.draw)
		for _, b := range names(MeanBounds()) {
			last := -1.0
			for _, alpha := range []float64{1e-50, 1e-6, 1e-3, 0.05, 0.5} {
				got := boundMean(b, samples, alpha)
				if !(got >= 0 && got <= 1) {
					t.Errorf("%s, %s, α = %v: %v", b, d.name, alpha, got)
				}
				// The bets of prpl-eb and star depend on α, so their bounds are only roughly monotone in α. The check
				// omits star. For every other bound it allows a decrease of 0.02.
				if b != STaR && got < last-0.02 {
					t.Errorf("%s, %s: %v at α = %v, %v at a smaller one", b, d.name, got, alpha, last)
				}
				last = got
			}
		}
	}
}

func FuzzMeanBounds(f *testing.F) {
	f.Add([]byte{255, 255, 255, 0}, 0.01)
	f.Add([]byte{0}, 0.5)
	f.Fuzz(func(t *testing.T, data []byte, alpha float64) {
		if len(data) == 0 || !(alpha >= binomial.MinLevel && alpha <= 0.5) {
			return
		}
		samples := make([]float64, len(data))
		var mean float64
		for i, b := range data {
			samples[i] = float64(b) / 255
			mean += samples[i] / float64(len(data))
		}
		for _, b := range names(MeanBounds()) {
			got := boundMean(b, samples, alpha)
			if !(got >= 0 && got <= 1) {
				t.Fatalf("%s: %v", b, got)
			}
			// The lower bounds of the methods Hoeffding and Bernstein are at most the mean of all samples. The other
			// bounds may be larger, because they use every prefix of the samples, and a prefix can have a larger mean.
			if (b == Hoeffding || b == Bernstein) && got > mean+1e-12 {
				t.Fatalf("%s: %v is above the samples' mean %v", b, got, mean)
			}
		}
	})
}

func BenchmarkMeanBound(b *testing.B) {
	const n = 100000
	for _, d := range distributions {
		if d.name != "near 1" && d.name != "uniform" && d.name != "atoms and between" {
			continue
		}
		samples := draw(rand.New(rand.NewPCG(1, 2)), n, d.draw)
		for _, bound := range names(MeanBounds()) {
			l := prepare(bound, n, 0.001)
			b.Run(bound.String()+"/"+d.name, func(b *testing.B) {
				for b.Loop() {
					s := l.start()
					for _, x := range samples {
						s.add(x)
					}
					s.lower()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/sample")
			})
		}
	}
}
