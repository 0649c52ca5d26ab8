package calib

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// logChoose returns ln C(m, k).
func logChoose(m, k float64) float64 {
	a, _ := math.Lgamma(m + 1)
	b, _ := math.Lgamma(k + 1)
	c, _ := math.Lgamma(m - k + 1)
	return a - b - c
}

// slowStatistic returns the statistic X_b that the comment of BinnedQuadratic defines.
func slowStatistic(m, score, ones float64) float64 {
	x := math.Pow(m*score-ones, 2) / m
	if m > 1 {
		x -= ones * (m - ones) / (m * (m - 1))
	}
	return x
}

// slowLogMean computes ln A_b(q) as a sum over every possible number of ones.
func slowLogMean(m, score, lambda, q float64) float64 {
	var logs []float64
	for ones := 0.0; ones <= m; ones++ {
		if q == 0 && ones > 0 || q == 1 && ones < m {
			continue
		}
		l := logChoose(m, ones) - lambda*slowStatistic(m, score, ones)
		if ones > 0 {
			l += ones * math.Log(q)
		}
		if ones < m {
			l += (m - ones) * math.Log1p(-q)
		}
		logs = append(logs, l)
	}
	return logMean(logs) + math.Log(float64(len(logs)))
}

// atomBin returns a bin of m equal scores.
func atomBin(m int, score, lambda float64) quadraticBin {
	s := draw(m, 1, func(*rand.Rand) float64 { return score }, uniform01)
	b := newBin(s.packed, 0, m, 0)
	return newQuadraticBin(s, &b, lambda, 0.5)
}

// The expectation of X_b is m·g² − var(η)·m/(m−1). The test computes the expectation as a sum over all possible labels.
func TestQuadraticStatisticIsUnbiased(t *testing.T) {
	etas := []float64{0.1, 0.9, 0.4, 0.7, 0}
	m := float64(len(etas))
	want, expected := m*math.Pow(0.3-mean(etas), 2), 0.0
	for _, e := range etas {
		want -= math.Pow(e-mean(etas), 2) / (m - 1)
	}
	b := atomBin(5, 0.3, 1)
	for labels := range 1 << len(etas) {
		p, ones := 1.0, 0.0
		for i, e := range etas {
			if labels>>i&1 == 1 {
				p *= e
				ones++
			} else {
				p *= 1 - e
			}
		}
		expected += p * b.statistic(ones)
	}
	same(t, "E X", expected, want, 1e-12)
	for ones := range 5 {
		same(t, "increment", b.increment(float64(ones)), b.statistic(float64(ones)+1)-b.statistic(float64(ones)), 1e-9)
		same(t, "statistic", b.statistic(float64(ones)), slowStatistic(5, 0.3, float64(ones)), 1e-12)
	}
}

// logMean is an upper bound on ln A_b(q), and exceeds ln A_b(q) by at most 1e-7.
func TestQuadraticLogMean(t *testing.T) {
	for _, m := range []int{1, 2, 5, 40, 3000} {
		for _, score := range []float64{0, 0.003, 0.4, 1} {
			for _, lambda := range []float64{0.1, 1, 8} {
				b := atomBin(m, score, lambda)
				for _, q := range []float64{0, 1e-9, 0.01, 0.3, 0.77, 1 - 1e-6, 1} {
					got, want := b.logMean(q), slowLogMean(float64(m), score, lambda, q)
					if got < want-1e-8 || got > want+1e-7 {
						t.Errorf("m %d, score %v, λ %v, q %v: %v, want %v", m, score, lambda, q, got, want)
					}
				}
			}
		}
	}
}

// The method 'peak' returns an upper bound on the maximum of the function q ↦ u_b(q) + price·ln A_b(q). The result is
// at least as large as every value of the function on a fine grid, and at most slightly larger than the largest of
// these values.
func TestQuadraticPeak(t *testing.T) {
	for name, law := range oddScores {
		for _, n := range []int{4, 30, 300} {
			for _, lambda := range []float64{0.3, 2} {
				for _, price := range []float64{1e-4, 0.01, 0.5} {
					s := draw(n, uint64(n), law, uniform01)
					whole := newBin(s.packed, 0, n, 0)
					b := newQuadraticBin(s, &whole, lambda, 0.3)
					scores, _ := unpackAll(s)
					omega := (-math.Log(0.7) - 0.3) / 0.09
					largest := math.Inf(-1)
					for k := range 1001 {
						q := math.Pow(math.Sin(math.Pi/2*float64(k)/1000), 2)
						distance, square := 0.0, 0.0
						for _, x := range scores {
							distance += math.Abs(x-q) / float64(n)
							square += (x - q) * (x - q) / float64(n)
						}
						largest = max(largest, distance+omega*0.3*square+price*slowLogMean(float64(n), mean(scores), lambda, q))
					}
					const tolerance = 1e-4
					got := b.peak(price, tolerance)
					// Between two knots, distanceFrom may exceed f_b. The test allows a quarter of the distance between
					// the knots for this excess.
					slack := (scores[n-1] - scores[0]) / 16
					if got < largest-1e-9 || got > largest+tolerance+slack+1e-6 {
						t.Errorf("%s n %d λ %v price %v: %v, largest on the grid %v", name, n, lambda, price, got, largest)
					}
					if again := b.peak(price, tolerance); again > got+1e-12 || again < largest-1e-9 {
						t.Errorf("%s: the second call returns %v after %v", name, again, got)
					}
				}
			}
		}
	}
}

// poissonBinomial returns the distribution of the number of ones among independent labels. The argument 'etas' holds
// the probabilities of a one.
func poissonBinomial(etas []float64) []float64 {
	p := []float64{1}
	for _, e := range etas {
		p = append(p, 0)
		for k := len(p) - 1; k >= 0; k-- {
			p[k] *= 1 - e
			if k > 0 {
				p[k] += p[k-1] * e
			}
		}
	}
	return p
}

// The test checks step 2 of BinnedQuadratic: if the labels have unequal probabilities, E φ is at most exp(ρ·m·var/2)
// times A_b(η̄). In at least one of the random cases, ln(E φ/A_b(η̄)) must be at least 0.7·(ρ·m·var/2).
func TestQuadraticUnequalProbabilities(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	nearest := 0.0
	for range 3000 {
		m := 2 + rng.IntN(60)
		score, lambda := rng.Float64(), math.Exp2(4*rng.Float64()-3)
		etas := make([]float64, m)
		at, width := rng.Float64(), rng.Float64()
		for i := range etas {
			etas[i] = min(1, max(0, at+width*(math.Round(rng.Float64())-0.5)))
		}
		q, variance := mean(etas), 0.0
		for _, e := range etas {
			variance += (e - q) * (e - q) / float64(m)
		}
		if variance == 0 {
			continue
		}
		unequal := 0.0
		for k, p := range poissonBinomial(etas) {
			unequal += p * math.Exp(-lambda*slowStatistic(float64(m), score, float64(k)))
		}
		b := atomBin(m, score, lambda)
		need := math.Log(unequal) - slowLogMean(float64(m), score, lambda, min(1, q))
		have := b.curvature() * float64(m) * variance / 2
		if need > have+1e-9 {
			t.Fatalf("m %d, score %v, λ %v, %v: the logarithm grows by %v > %v", m, score, lambda, etas, need, have)
		}
		nearest = max(nearest, need/have)
	}
	if nearest < 0.7 {
		t.Errorf("the bound is never nearer than %v", nearest)
	}
}

// The test checks the inequality of step 4 of BinnedQuadratic. At d = 1, both sides must be equal. The test also
// compares κ with known values.
func TestQuadraticPopulationStep(t *testing.T) {
	for _, kappa := range []float64{0.01, 0.3, 0.75} {
		w := squaresWeight(kappa) // ωκ
		for d := 0.0; d <= 1; d += 1.0 / 64 {
			if math.Exp(-kappa*d-w*kappa*d*d) > 1-kappa*d+1e-15 {
				t.Errorf("κ %v: fails at %v", kappa, d)
			}
		}
		same(t, "equality at 1", math.Exp(-kappa-w*kappa), 1-kappa, 1e-8)
	}
	for n, want := range map[float64]float64{100: 0.75, 10_000: 10 * math.Pow(10, -1.2), 1e6: 10 * math.Pow(10, -1.8)} {
		same(t, "κ", quadraticKappa(n), want, 1e-12)
	}
}

// The test computes the bound of BinnedQuadratic from the formulas in the comment of that function. It takes the
// partition, λ and μ that the function chose, and uses plain sums and a grid for the maximum over q.
func TestBinnedQuadraticFromTheFormulas(t *testing.T) {
	const delta = 0.1
	for name, law := range oddScores {
		for _, variation := range []float64{0, 0.4, 2.5} {
			const n = 120
			s := draw(n, 11, law, uniform01)
			scores, labels := unpackAll(s)
			got, err := BinnedQuadratic(s, delta, variation)
			if err != nil {
				t.Fatal(err)
			}
			lambda, mu := got.Chosen.Get("lambda"), got.Chosen.Get("mu")
			kappa := math.Min(0.75, 10*math.Pow(n, -0.3))
			omega := (-math.Log(1-kappa) - kappa) / (kappa * kappa)
			gap := mu * math.Log(1/(0.97*delta)) / lambda
			var jumps []float64
			finest := partitions(n) - 1
			for k := range finest + 1 {
				if bins := slowPartition(scores, k, finest); float64(len(bins)) == got.Chosen.Get("bins") {
					for _, b := range bins {
						g, j := slowQuadraticBin(scores[b[0]:b[1]], labels[b[0]:b[1]], n, lambda, mu, kappa*omega, min(1, variation))
						gap += g
						jumps = append(jumps, j)
					}
					break
				}
			}
			slices.Sort(jumps)
			slices.Reverse(jumps)
			jumps = append(jumps, 0, 0, 0)
			jump := jumps[0]
			if variation > 1 {
				jump = jumps[0] + jumps[1] + jumps[2]/2
			}
			r := got.OfSample + math.Log(1/(0.03*delta))/(n*kappa)
			scale := (1 - math.Exp(-kappa*r)) / (kappa * r)
			for _, c := range []struct {
				what            string
				got, want, over float64
			}{
				// the last number is the allowed excess over the exact value: the method 'peak' may return more than
				// the maximum over q, and distanceFrom may return more than f_b
				{"gap", got.Terms.Get("gap") / scale, gap, 0.01 * gap},
				{"variation", got.Terms.Get("variation") / scale, jump, 1e-6},
				{"population", got.Terms.Get("population") / scale, math.Log(1/(0.03*delta)) / (n * kappa), 1e-6},
				{"value", got.Value, (1 - math.Exp(-kappa*r)) / kappa, 1e-6},
				{"of sample", got.OfSample, min(1, gap+jump), 0.01*gap + 1e-6},
			} {
				if c.got < c.want-1e-6 || c.got > c.want+c.over+1e-9 {
					t.Errorf("%s, variation %v: %s %v, want %v", name, variation, c.what, c.got, c.want)
				}
			}
		}
	}
}

// slowQuadraticBin returns the summands of a bin: μX_b + max_q {u_b + (μ/λ) ln A_b}, and J_b(v).
func slowQuadraticBin(x, y []float64, n, lambda, mu, squares, v float64) (gap, jump float64) {
	m, tie := float64(len(x)), 0
	variance := 0.0
	for i := range x {
		variance += math.Pow(x[i]-mean(x), 2) / m
		tie = max(tie, occurrences(x, x[i]))
	}
	w := max(0.5, float64(tie)/m)
	e := 2 * w * (1 - w)
	most := math.Inf(-1)
	for k := range 1001 {
		q := math.Pow(math.Sin(math.Pi/2*float64(k)/1000), 2)
		f := 0.0
		for i := range x {
			f += math.Abs(x[i]-q) / m
		}
		most = max(most, m/n*(f+squares*(math.Pow(q-mean(x), 2)+variance))+mu/lambda*slowLogMean(m, mean(x), lambda, q))
	}
	inverse := math.Exp(lambda / (m - 1))
	rho := 2 * (inverse - 1) * math.Exp(math.Log(inverse+math.Sqrt(inverse*inverse-1)))
	jump = m/n*(e*v+squares*(math.Pow(math.Sqrt(variance)+v*math.Sqrt(e/2), 2)-variance)) + mu/lambda*rho*m*e*v*v/4
	return mu*slowStatistic(m, mean(x), mean(y)*m) + most, jump
}

// slowBentkus computes the bound of bentkusTail on a grid of τ, from all probabilities of the binomial variable B.
func slowBentkus(n int, t, v, c float64) float64 {
	p := v / (c*c + v)
	x := float64(n) * t
	prob := make([]float64, n+1)
	for j := range prob {
		prob[j] = math.Exp(logChoose(float64(n), float64(j)) + float64(j)*math.Log(p) + float64(n-j)*math.Log1p(-p))
	}
	least := 1.0
	for k := 1; k <= 4000; k++ {
		tau := x - 8*float64(n)*(t+v/c)*math.Pow(float64(k)/4000, 2)
		sum := 0.0
		for j := range prob {
			if at := float64(j)*(c+v/c) - float64(n)*v/c; at > tau {
				sum += (at - tau) * (at - tau) * prob[j]
			}
		}
		least = min(least, sum/math.Pow(x-tau, 2))
	}
	return least
}

func TestBentkusTail(t *testing.T) {
	for _, n := range []int{1, 3, 50, 400} {
		for _, c := range []float64{1, 1.3, 2} {
			for _, v := range []float64{0.01, 0.2, 0.9} {
				for _, z := range []float64{0.5, 1, 2, 4} {
					shift := z * math.Sqrt(v/float64(n))
					if shift > c {
						continue
					}
					got, want := bentkusTail(n, shift, v, c), slowBentkus(n, shift, v, c)
					hoeffding := math.Exp(-float64(n) * bennettExponent(shift, v, c))
					if got < want*(1-1e-3) || got > want*(1+1e-6) || got > hoeffding*(1+1e-9) {
						t.Errorf("n %d, c %v, v %v, t %v: %v, want %v; Hoeffding %v", n, c, v, shift, got, want, hoeffding)
					}
				}
			}
		}
	}
	if got := bentkusTail(10, 0, 0.1, 1); got != 1 {
		t.Errorf("at 0: %v", got)
	}
	if got := bentkusTail(10, 0.1, 0, 1); got != 0 {
		t.Errorf("without variance: %v", got)
	}
	// For a t above the largest possible mean, the bound is at most the probability of the largest possible mean.
	if got := bentkusTail(3, 5, 0.5, 1); got > math.Pow(1./3, 3)*(1+1e-8) {
		t.Errorf("beyond the largest mean: %v", got)
	}
}

// The test computes BinnedBentkus from its formulas.
func TestBinnedBentkusFromTheFormulas(t *testing.T) {
	const delta, variation, n = 0.1, 1, 200
	for name, law := range oddScores {
		s := draw(n, 5, law, func(x float64) float64 { return x * x })
		scores, labels := unpackAll(s)
		brier := 0.0
		for i := range scores {
			brier += math.Pow(scores[i]-labels[i], 2) / n
		}
		brier = slowKL(brier, math.Log(1/(0.1*delta))/n)
		k := partitions(n)
		total := 0.0
		for j := range k {
			total += 1 / (1 + math.Pow(float64(j)-math.Log2(2.5*math.Pow(n, 1./3)), 2))
		}
		want := 1.0
		for j := range k {
			a, remainder := 0.0, 0.0
			for _, b := range slowPartition(scores, j, k-1) {
				x, y := scores[b[0]:b[1]], labels[b[0]:b[1]]
				tie := 0
				for i := range x {
					a += math.Abs(x[i]-mean(y)) / n
					tie = max(tie, occurrences(x, x[i]))
				}
				w := max(0.5, float64(tie)/float64(len(x)))
				remainder = max(remainder, float64(len(x))/n*2*w*(1-w))
			}
			a += variation * remainder
			level := 0.9 * delta / (1 + math.Pow(float64(j)-math.Log2(2.5*math.Pow(n, 1./3)), 2)) / total
			lo, hi := a, math.Sqrt(brier)
			for range 40 {
				c := (lo + hi) / 2
				// mixedExponent has its own test, TestExponents.
				if math.Min(math.Exp(-n*mixedExponent(a, c)), bentkusTail(n, c-a, brier-c*c, 1+c)) > level {
					lo = c
				} else {
					hi = c
				}
			}
			want = min(want, hi)
		}
		got, err := BinnedBentkus(s, delta, variation)
		if err != nil {
			t.Fatal(err)
		}
		same(t, name, got.Value, want, 1e-6)
	}
}

// slowBest computes BinnedBest from its definition: the largest value of CE that neither BinnedQuadratic nor
// BinnedBentkus refutes. Each range of values has its own division of δ between the two bounds. The function 'value'
// returns the field Value or the field OfSample of a bound.
func slowBest(t *testing.T, s *Sample, delta float64, value func(Bound) float64) float64 {
	t.Helper()
	n := float64(s.N())
	limits := []float64{1.75 * math.Pow(n, -0.4), 4 * math.Pow(n, -0.4), 1}
	shares := []float64{0.8, 0.5, 0.05} // share of δ for BinnedQuadratic
	switch {
	case n < 300:
		limits, shares = limits[2:], shares[2:]
	case n < 50_000:
		limits, shares = limits[1:], shares[1:]
	}
	largest, low := 0.0, 0.0
	for k, limit := range limits {
		q, err1 := BinnedQuadratic(s, shares[k]*delta, 1)
		b, err2 := BinnedBentkus(s, (1-shares[k])*delta, 1)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if not := min(value(q), value(b), limit); not > low {
			largest = not
		}
		low = limit
	}
	return largest
}

// The test compares BinnedBest with slowBest. It also checks that BinnedBest is on average near the true error. The
// field 'most' limits the mean distance of the bound from the true error. Its values are close to the distances in
// docs/calibration-error.md.
func TestBinnedBest(t *testing.T) {
	square := func(x float64) float64 { return x * x }
	near := func(x float64) float64 { return min(1, x+0.045) }
	for _, c := range []struct {
		name      string
		n, trials int
		eta       func(float64) float64
		truth     float64
		most      float64 // largest allowed mean of (bound − truth)
	}{
		{"calibrated", 100, 4, uniform01, 0, 0.32},
		{"calibrated", 1000, 8, uniform01, 0, 0.106},
		{"calibrated", 10_000, 4, uniform01, 0, 0.0335},
		{"calibrated", 100_000, 1, uniform01, 0, 0.0120},
		{"square", 10_000, 2, square, 1. / 6, 0.0145},
		// the bound is in the lower of the two ranges that slowBest uses for this n
		{"shifted", 10_000, 2, near, 0.045 - 0.045*0.045/2, 0.024},
	} {
		if testing.Short() && c.n > 1000 {
			continue
		}
		best, plain := 0.0, 0.0
		for trial := range uint64(c.trials) {
			s := draw(c.n, trial+1, uniform, c.eta)
			got, err := BinnedBest(s, 0.05, 1)
			if err != nil {
				t.Fatal(err)
			}
			v, err := BinnedVariation(s, 0.05, 1)
			if err != nil {
				t.Fatal(err)
			}
			same(t, c.name, got.Value, slowBest(t, s, 0.05, func(b Bound) float64 { return b.Value }), 0)
			same(t, c.name+" of sample", got.OfSample, slowBest(t, s, 0.05, func(b Bound) float64 { return b.OfSample }), 0)
			if sum := min(1, got.Sum()); got.Value != sum || got.Delta != 0.05 || !got.Sound {
				t.Errorf("%s: %+v", c.name, got)
			}
			best += (got.Value - c.truth) / float64(c.trials)
			plain += (v.Value - c.truth) / float64(c.trials)
		}
		t.Logf("%s n %d: gap %.4f, binned-tv %.4f", c.name, c.n, best, plain)
		if best > c.most || best > plain+0.0002 {
			t.Errorf("%s n %d: gap %.4f, want ≤ %v and at most 0.0002 above binned-tv's %.4f", c.name, c.n, best, c.most, plain)
		}
	}
}

func TestBinnedQuadraticErrors(t *testing.T) {
	s := draw(10, 1, uniform, uniform01)
	for name, bound := range map[string]func(*Sample, float64, float64) (Bound, error){
		"bentkus": BinnedBentkus, "quadratic": BinnedQuadratic, "best": BinnedBest} {
		for _, c := range []struct {
			s                *Sample
			delta, variation float64
		}{{&Sample{}, 0.1, 1}, {s, 0, 1}, {s, 0.1, -1}, {s, 0.1, math.Inf(1)}, {s, 0.1, math.NaN()}} {
			if _, err := bound(c.s, c.delta, c.variation); err == nil {
				t.Errorf("%s accepts δ %v, variation %v, n %d", name, c.delta, c.variation, c.s.N())
			}
		}
	}
}
