package smoothing

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// A fit collects the p-values of many tests of one hypothesis. The hypothesis is that the noise follows its definition.
// The seeds are fixed, so every run has the same outcome. With random seeds, a perfect generator would fail with
// probability at most 1e-3. By Bonferroni's inequality, this holds for any number of tests, even if they are dependent.
type fit struct {
	names []string
	ps    []float64
}

func (f *fit) add(p float64, format string, args ...any) {
	f.names = append(f.names, fmt.Sprintf(format, args...))
	f.ps = append(f.ps, p)
}

// The method 'normal' adds the p-value of a two-sided test to f. The test is of a statistic z that follows N(0, 1)
// under the hypothesis.
func (f *fit) normal(z float64, format string, args ...any) {
	f.add(math.Erfc(math.Abs(z)/math.Sqrt2), format+fmt.Sprintf(": z = %.2f", z), args...)
}

func (f *fit) judge(t *testing.T) {
	t.Helper()
	least := 0
	for i, p := range f.ps {
		if !(p >= 0.001/float64(len(f.ps))) {
			t.Errorf("%s, p = %.3g, of %d tests", f.names[i], p, len(f.ps))
		}
		if p < f.ps[least] {
			least = i
		}
	}
	t.Logf("%d tests, the least p-value is %.3g: %s", len(f.ps), f.ps[least], f.names[least])
}

// The method 'distribution' tests the hypothesis that the numbers x are independent and follow N(0, 1). It sorts x.
func (f *fit) distribution(x []float32, name string) {
	n := float64(len(x))
	// Test the moments. x^k has mean E[x^k] and variance E[x^2k] − E[x^k]².
	var sum [5]float64
	for _, v := range x {
		p := float64(v)
		for k := 1; k <= 4; k++ {
			sum[k] += p
			p *= float64(v)
		}
	}
	mean, variance := [5]float64{0, 0, 1, 0, 3}, [5]float64{0, 1, 2, 15, 96}
	for k := 1; k <= 4; k++ {
		f.normal((sum[k]/n-mean[k])/math.Sqrt(variance[k]/n), "%s: moment %d", name, k)
	}
	// Apply the Kolmogorov–Smirnov test, with the tail of Kolmogorov's distribution.
	slices.Sort(x)
	d := 0.
	for i, v := range x {
		p := math.Erfc(-float64(v)/math.Sqrt2) / 2
		d = max(d, float64(i+1)/n-p, p-float64(i)/n)
	}
	f.add(kolmogorov(d*math.Sqrt(n)), "%s: Kolmogorov–Smirnov, √n·D = %.3f", name, d*math.Sqrt(n))
	// Test the tails. The counts are binomial.
	for _, c := range []float32{3, 4, 5, 6} {
		below, _ := slices.BinarySearch(x, -c)
		first, _ := slices.BinarySearch(x, math.Nextafter32(c, 9))
		b := distuv.Binomial{N: n, P: math.Erfc(float64(c)/math.Sqrt2) / 2}
		for _, count := range []int{below, len(x) - first} {
			lower, upper := b.CDF(float64(count)), 1.
			if count > 0 {
				upper = b.Survival(float64(count - 1))
			}
			f.add(min(1, 2*lower, 2*upper), "%s: %d values past %v", name, count, c)
		}
	}
}

// kolmogorov returns P(√n·D > x) for large n, where D is the Kolmogorov–Smirnov statistic of n numbers.
func kolmogorov(x float64) float64 {
	if x < 0.3 {
		return 1 // the series converges slowly here, and the value is above 1 − 1e-5
	}
	sum, sign := 0., 2.
	for k := 1.; k < 30; k++ {
		sum += sign * math.Exp(-2*k*k*x*x)
		sign = -sign
	}
	return sum
}

// The method 'uncorrelated' tests the hypothesis that x[i] and y[i] are independent. It uses the products xy,
// (x²−1)(y²−1), x(y²−1) and (x²−1)y. If the numbers are independent and follow N(0, 1), these products have mean 0 and
// variances 1, 4, 2 and 2.
func (f *fit) uncorrelated(x, y []float32, name string) {
	var xy, qq, xq, qy float64
	for i := range x {
		a, b := float64(x[i]), float64(y[i])
		qa, qb := a*a-1, b*b-1
		xy += a * b
		qq += qa * qb
		xq += a * qb
		qy += qa * b
	}
	n := math.Sqrt(float64(len(x)))
	f.normal(xy/n, "%s: correlation", name)
	f.normal(qq/(2*n), "%s: correlation of the squares", name)
	f.normal(xq/(math.Sqrt2*n), "%s: correlation with the squares", name)
	f.normal(qy/(math.Sqrt2*n), "%s: correlation of the squares with the values", name)
}

// The method 'uniform' tests the hypothesis that all cells are equally likely. The argument 'counts' holds the number
// of values in each cell.
func (f *fit) uniform(counts []int, name string) {
	n := 0
	for _, c := range counts {
		n += c
	}
	mean := float64(n) / float64(len(counts))
	chi2 := 0.
	for _, c := range counts {
		chi2 += (float64(c) - mean) * (float64(c) - mean) / mean
	}
	d := distuv.ChiSquared{K: float64(len(counts) - 1)}
	f.add(2*min(d.CDF(chi2), d.Survival(chi2)), "%s: χ² = %.1f over %d cells", name, chi2, len(counts))
}

// fitGaussians tests 16·samples·3072 values from the streams of two seeds, four neighbouring examples and both phases.
// It tests all values together, the values within a stream, and pairs of values from different streams.
func fitGaussians(f *fit, samples int) {
	const d = 3 * 32 * 32
	size := samples * d
	all := make([]float32, 0, 16*size)
	var streams [][]float32
	var names []string
	for seed := uint64(1); seed <= 2; seed++ {
		for example := range 4 {
			for phase := Selection; phase <= Estimation; phase++ {
				s := NewStream(seed, example, phase)
				x := all[len(all) : len(all)+size]
				all = all[:len(all)+size]
				for i := range samples {
					s.Fill(x[i*d:(i+1)*d], int64(i))
				}
				streams = append(streams, x)
				names = append(names, fmt.Sprintf("seed %d example %d %v", seed, example, phase))
			}
		}
	}
	for i, x := range streams {
		for j := range i {
			f.uncorrelated(x, streams[j], names[i]+" and "+names[j])
		}
	}
	// The following loop tests pairs all[i] and all[i+lag]. The lags cover neighbouring coordinates, neighbouring
	// channels and neighbouring samples. If all values are independent, the products of different pairs are
	// uncorrelated.
	for _, lag := range []int{1, 2, 3, 4, 5, 8, 32, d / 3, d, 2 * d, d + 1} {
		f.uncorrelated(all[:len(all)-lag], all[lag:], fmt.Sprint("lag ", lag))
	}
	// boxMuller makes the values in pairs. Test whether the two values of a pair are independent. Then test whether the
	// last value of a pair and the first value of the next pair are independent.
	half := len(all)/2 - 1
	x, y, z := make([]float32, half), make([]float32, half), make([]float32, half)
	for i := range x {
		x[i], y[i], z[i] = all[2*i], all[2*i+1], all[2*i+2]
	}
	f.uncorrelated(x, y, "within a pair")
	f.uncorrelated(y, z, "across pairs")
	// The squared radius of a pair must be exponentially distributed, and its direction must be uniformly distributed.
	arcs := make([]int, 1024)
	rings := make([]int, 1024)
	both := make([]int, 1024)
	for i := range x {
		a := math.Atan2(float64(y[i]), float64(x[i]))/(2*math.Pi) + .5
		u := math.Exp(-(float64(x[i])*float64(x[i]) + float64(y[i])*float64(y[i])) / 2)
		arcs[min(int(a*1024), 1023)]++
		rings[min(int(u*1024), 1023)]++
		both[min(int(a*32), 31)*32+min(int(u*32), 31)]++
	}
	f.uniform(arcs, "direction of a pair")
	f.uniform(rings, "radius of a pair")
	f.uniform(both, "direction and radius of a pair")
	f.distribution(all, "all")
}

// fitAcross tests three series of n noise values for each of two coordinates. In the first series only the sample
// varies, in the second only the example, and in the third only the seed. The second and the third series use sample 0.
// In sample 0, the counter of the first word is 0, so this word depends only on the key.
func fitAcross(f *fit, n int) {
	x := make([]float32, n)
	series := func(name string, value func(i int) float32) {
		for i := range x {
			x[i] = value(i)
		}
		f.uncorrelated(x[:n-1], x[1:], name)
		f.distribution(x, name)
	}
	var g [8]float32
	s := NewStream(3, 0, Estimation)
	for c := range 2 {
		series(fmt.Sprintf("coordinate %d of all samples", 6+c), func(i int) float32 {
			s.Fill(g[:], int64(i))
			return g[6+c]
		})
		series(fmt.Sprintf("coordinate %d of all examples", c), func(i int) float32 {
			NewStream(3, i, Estimation).Fill(g[:2], 0)
			return g[c]
		})
		series(fmt.Sprintf("coordinate %d of all seeds", c), func(i int) float32 {
			NewStream(uint64(i), 0, Estimation).Fill(g[:2], 0)
			return g[c]
		})
	}
}

// fitWords tests n words from each of three series. The first series holds the words of one sample. The second series
// holds the first word of each sample of an example. The third series holds the first word of each example.
func fitWords(f *fit, n int) {
	s := NewStream(4, 7, Selection)
	words := make([]uint32, 4096)
	var w [2]uint32
	sample := uint64(5)
	for name, word := range map[string]func(i int) uint32{
		"words of a sample": func(i int) uint32 {
			if i%len(words) == 0 {
				s.words(words, sample*weyl+uint64(i))
			}
			return words[i%len(words)]
		},
		"first word of all samples": func(i int) uint32 {
			s.words(w[:], uint64(i)*weyl)
			return w[0]
		},
		"first word of all examples": func(i int) uint32 {
			NewStream(4, i, Selection).words(w[:], 0)
			return w[0]
		},
	} {
		var bytes [4][]int
		for k := range bytes {
			bytes[k] = make([]int, 256)
		}
		var serial [2][]int
		for k := range serial {
			serial[k] = make([]int, 1<<16)
		}
		var ones [32]int
		before := word(0)
		for i := 1; i <= n; i++ {
			v := word(i)
			for k := range bytes {
				bytes[k][v>>(8*k)&255]++
			}
			for k := range ones {
				ones[k] += int((v^before)>>k) & 1
			}
			if i%2 == 1 { // the pairs are disjoint
				serial[0][v>>24<<8|before>>24]++
				serial[1][v&255<<8|before&255]++
			}
			before = v
		}
		for k := range bytes {
			f.uniform(bytes[k], fmt.Sprintf("%s: byte %d", name, k))
		}
		f.uniform(serial[0], name+": high bytes of neighbours")
		f.uniform(serial[1], name+": low bytes of neighbours")
		for k, c := range ones {
			f.normal((2*float64(c)-float64(n))/math.Sqrt(float64(n)), "%s: changes of bit %d", name, k)
		}
	}
}

// TestNoiseFit tests about 10⁷ Gaussians. TestAuditNoiseFit makes the same tests with more than 10⁸ Gaussians.
func TestNoiseFit(t *testing.T) {
	samples, n := 208, 500_000
	if testing.Short() {
		samples, n = 20, 50_000
	}
	var f fit
	fitGaussians(&f, samples)
	fitAcross(&f, n)
	fitWords(&f, 2*n)
	f.judge(t)
}

// The tests must detect noise that is slightly wrong.
func TestNoiseFitFindsFaults(t *testing.T) {
	const n = 1_000_000
	for name, spoil := range map[string]func(x []float32){
		"scaled by 1.005": func(x []float32) {
			for i := range x {
				x[i] *= 1.005
			}
		},
		"shifted by 0.006": func(x []float32) {
			for i := range x {
				x[i] += 0.006
			}
		},
		"cut at 4": func(x []float32) {
			for i := range x {
				x[i] = min(max(x[i], -4), 4)
			}
		},
		"the sum of twelve uniforms": func(x []float32) {
			words := make([]uint32, 12)
			for i := range x {
				NewStream(9, i, Selection).words(words, 0)
				x[i] = -6
				for _, w := range words {
					x[i] += float32(w) / (1 << 32)
				}
			}
		},
		"correlated by 0.01 with the next": func(x []float32) {
			for i := range x[1:] {
				x[i] = 0.99995*x[i] + 0.01*x[i+1]
			}
		},
		"one stream in a hundred used twice": func(x []float32) {
			for i := 100; i+100 <= len(x); i += 10000 {
				copy(x[i:i+100], x[i-100:i])
			}
		},
	} {
		x := make([]float32, n)
		NewStream(8, 0, Selection).Fill(x, 0)
		spoil(x)
		var f fit
		f.uncorrelated(x[:n-1], x[1:], name)
		f.uncorrelated(x[:n-100], x[100:], name)
		f.distribution(x, name)
		if least := slices.Min(f.ps); least > 0.001/float64(len(f.ps)) {
			t.Errorf("%s: not found out, the least p-value is %g", name, least)
		}
	}
}
