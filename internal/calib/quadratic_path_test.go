package calib

import (
	"math"
	"math/rand/v2"
	"testing"
)

// pathFixture draws a sample of a calibrated classifier. It returns the sample, its quadraticDual and its
// quadraticPath, and the minimum of the dual bound.
func pathFixture(t *testing.T, n int, seed uint64, law func(*rand.Rand) float64, variation float64) (*Sample, *quadraticDual, *quadraticPath, dualPoint) {
	t.Helper()
	s := draw(n, seed, law, uniform01)
	x := math.Log(10)
	plan := s.planQuadratic(x, variation)
	d := newQuadraticDual(s, plan, x, variation)
	plain := d.minimise()
	return s, d, newQuadraticPath(d, plain.mu), plain
}

// scoresOf returns the scores of each bin of the dual bound.
func scoresOf(s *Sample, d *quadraticDual) [][]float64 {
	scores, _ := unpackAll(s)
	var out [][]float64
	for i := range d.bins {
		m := int(d.bins[i].m)
		out = append(out, scores[:m])
		scores = scores[m:]
	}
	return out
}

// The test computes the bound from the formulas in the comment of quadraticPath, with plain sums. To find the maximum
// over paths of integers, it tries every range of integers and every state in each range. This plain computation does
// not limit the states of a bin to a window (see quadraticPath).
func TestQuadraticPathFromTheFormulas(t *testing.T) {
	for name, law := range oddScores {
		for _, variation := range []float64{0.3, 1} {
			const n = 24
			s, d, _, plain := pathFixture(t, n, 5, law, variation)
			mu := 0.9 * plain.mu
			path := newPathLattice(d, 1./64, 64) // the window of every bin holds all states
			got, narrow := path.at(mu), newPathLattice(d, 1./64, 16).at(mu)
			price := mu / d.lambda
			omega := (-math.Log1p(-d.kappa) - d.kappa) / d.kappa // ωκ
			// number of states; the states are the integers −1, 0, …
			states := int(1/path.step) + 2
			value := make([]float64, states)
			nu, observed := 0.0, 0.0
			type slowBin struct {
				from              *quadraticBin
				x                 []float64
				sd, e, rho, width float64
			}
			var bins []slowBin
			for i, x := range scoresOf(s, d) {
				b := &d.bins[i]
				m, tie, variance := float64(len(x)), 0, 0.0
				for _, a := range x {
					variance += math.Pow(a-mean(x), 2) / m
					tie = max(tie, occurrences(x, a))
				}
				w := max(0.5, float64(tie)/m)
				one := slowBin{b, x, math.Sqrt(variance), 2 * w * (1 - w), 0, x[len(x)-1] - x[0]}
				if m > 1 {
					inverse := math.Exp(d.lambda / (m - 1))
					one.rho = 2 * (inverse - 1) * (inverse + math.Sqrt(inverse*inverse-1))
				}
				if one.e > 0 {
					nu = max(nu, m/n*(0.5+omega*(2*one.sd*math.Sqrt(one.e/2)+one.e))+price*one.rho*m*one.e/2)
				}
				bins = append(bins, one)
				observed += b.observed
			}
			for _, b := range bins {
				m := float64(len(b.x))
				peak, near, spread := make([]float64, states), make([]float64, states), make([]float64, states)
				for k := range states {
					peak[k], near[k] = math.Inf(-1), math.Inf(1)
					for j := range 17 { // index k is the state k−1, which stands for q from (k−1)ε to (k+1)ε
						q := (float64(k-1) + float64(j)/8) * path.step
						if q < 0 || q > 1 {
							continue
						}
						g := math.Abs(q - mean(b.x))
						peak[k] = max(peak[k], m/n*(g+omega*(g*g+b.sd*b.sd))+price*slowLogMean(m, mean(b.x), d.lambda, q))
					}
					lo, hi := max(0, float64(k-1)*path.step), min(1, float64(k+1)*path.step)
					q := min(hi, max(lo, mean(b.x)))
					near[k] = math.Abs(q - mean(b.x))
					spread[k] = b.from.distanceFrom(q) - near[k] // distanceFrom has its own test, TestQuadraticPeak
				}
				value = slowPathStep(value, path.step, nu, func(k int, v float64) float64 {
					r, moved := b.width+v, b.sd+v*math.Sqrt(b.e/2)
					return peak[k] + m/n*min(spread[k]+b.e*v, math.Pow(max(0, r-near[k]), 2)/(2*r)) +
						omega*m/n*(moved*moved-b.sd*b.sd) + price*b.rho*m*b.e*v*v/4
				})
			}
			most := math.Inf(-1)
			for _, v := range value {
				most = max(most, v)
			}
			want := mu*observed + price*d.x + nu*variation + most
			// The test takes the largest F_b on a grid of q. This value is a little below the true maximum.
			if got.sum < want-1e-6 || got.sum > want+0.002 {
				t.Errorf("%s, variation %v: %v, want %v", name, variation, got.sum, want)
			}
			if narrow.sum < got.sum-1e-4 {
				t.Errorf("%s, variation %v: narrow windows give %v < %v", name, variation, narrow.sum, got.sum)
			}
			same(t, "ν·V", got.jumps, nu*variation, 1e-6)
		}
	}
}

// slowPathStep extends all paths by one bin. (A path is a sequence of integers. The argument 'value' holds, for each
// integer, the largest value of a path that ends there.) For each range of integers, it adds the largest gain in the
// range to the largest earlier value in the range, and subtracts ν times the variation. The result for a state is the
// largest of these sums over all ranges that contain the state.
func slowPathStep(value []float64, step, nu float64, gain func(k int, v float64) float64) []float64 {
	next := make([]float64, len(value))
	for k := range next {
		next[k] = math.Inf(-1)
	}
	for from := range value {
		for to := from; to < len(value); to++ {
			reach, best := math.Inf(-1), math.Inf(-1)
			for k := from; k <= to; k++ {
				reach, best = max(reach, value[k]), max(best, gain(k, min(1, float64(to-from+1)*step)))
			}
			for k := from; k <= to; k++ {
				next[k] = max(next[k], best+reach-nu*float64(to-from)*step)
			}
		}
	}
	return next
}

// Take any scores and labels, and any η with a variation of at most V. Then the dual objective at η is at most the path
// bound. As η, the test tries shifted scores, stairs, jumps and waves. All of them are random.
func TestQuadraticPathIsAboveEveryPath(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	nearest := 0.0
	for name, law := range map[string]func(*rand.Rand) float64{"uniform": uniform, "heavy": oddScores["heavy"]} {
		for _, variation := range []float64{0.5, 1, 1.5} {
			s, d, path, plain := pathFixture(t, 3000, 7, law, variation)
			at := path.at(plain.mu)
			bins := scoresOf(s, d)
			for range 60 {
				eta := randomPath(rng, bins, variation, 1/(2*plain.mu*3000))
				objective, total, last := plain.mu*(d.observed+d.x/d.lambda), 0.0, math.NaN()
				for i, x := range bins {
					b := &d.bins[i]
					for k, e := range eta[i] {
						difference := math.Abs(x[k] - e)
						objective += (difference + squaresWeight(d.kappa)*difference*difference) / 3000
						if !math.IsNaN(last) {
							total += math.Abs(e - last)
						}
						last = e
					}
					mgf := 0.0
					for k, p := range poissonBinomial(eta[i]) {
						mgf += p * math.Exp(-d.lambda*slowStatistic(b.m, b.score, float64(k)))
					}
					objective += plain.mu / d.lambda * math.Log(mgf)
				}
				if total > variation+1e-9 {
					t.Fatalf("%s: the path has variation %v > %v", name, total, variation)
				}
				if objective > at.sum+1e-9 {
					t.Errorf("%s, variation %v: %v above the bound %v", name, variation, objective, at.sum)
				}
				nearest = max(nearest, objective/at.sum)
			}
		}
	}
	t.Logf("largest objective over the bound: %.3f", nearest)
	if nearest < 0.8 {
		t.Errorf("the bound is never nearer than %.3f", nearest)
	}
}

// randomPath returns the values of a random η. The variation of η is at most the argument 'limit'. η differs from the
// score by at most three times the argument 'distance', except at a jump and after the variation has reached the limit.
func randomPath(rng *rand.Rand, bins [][]float64, limit, distance float64) [][]float64 {
	width := distance * 4 * rng.Float64()
	shift := distance * (4*rng.Float64() - 2)
	kind := rng.IntN(4)
	jump, size := rng.Float64(), rng.Float64()
	out := make([][]float64, len(bins))
	left, last := limit, math.NaN()
	for i, x := range bins {
		for _, s := range x {
			e := s + shift
			switch kind {
			case 1: // stairs
				e = (math.Floor(s/width)+0.5)*width + shift/4
			case 2: // a jump up and back
				if math.Abs(s-jump) < 0.01 {
					e += size
				}
			case 3: // a wave around the score
				e = s + shift*math.Sin(40*size*s)
			}
			e = min(1, max(0, e))
			if !math.IsNaN(last) {
				step := min(left, max(-left, e-last))
				e = last + step
				left -= math.Abs(step)
			}
			left, last = max(0, left), e
			out[i] = append(out[i], e)
		}
	}
	return out
}

// The simulation checks that the path bound holds for hostile laws. The samples may have fewer than pathFrom scores.
// For so few scores, BinnedQuadratic does not use the path bound.
func TestQuadraticPathCoverage(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	checkPathCoverage(t, []int{60}, 16)
}

func checkPathCoverage(t *testing.T, sizes []int, trials int) {
	t.Helper()
	for _, delta := range []float64{0.5, 0.05} {
		worst := 0.0
		for _, n := range sizes {
			for _, l := range pairLaws() {
				missed := 0
				for trial := range uint64(trials) {
					s := draw(n, trial+1, l.draw, l.eta)
					x := math.Log(1 / ((1 - quadraticScores) * delta))
					d := newQuadraticDual(s, s.planQuadratic(x, l.variation), x, l.variation)
					mu := d.minimise().mu
					r := newQuadraticPath(d, mu).minimise(mu).sum + math.Log(1/(quadraticScores*delta))/(float64(n)*d.kappa)
					if r*d.scale(r) < l.truth-1e-9 {
						missed++
					}
				}
				worst = max(worst, float64(missed)/float64(trials)/delta)
				if tooMany(missed, trials, delta) {
					t.Errorf("%s, n %d, δ %v: false in %d of %d samples", l.name, n, delta, missed, trials)
				}
			}
		}
		t.Logf("δ = %v: worst share of false statements over δ: %.2f", delta, worst)
	}
}

// The multiples of the lattice step are exact in float64. For nearly calibrated scores, the path bound is below the
// dual bound of step 5 of BinnedQuadratic.
func TestQuadraticPathGains(t *testing.T) {
	_, d, path, plain := pathFixture(t, 10_000, 1, uniform, 1)
	for _, k := range []int{3, 1001, 123_457} {
		if math.FMA(float64(k), path.step, -float64(k)*path.step) != 0 {
			t.Errorf("%d steps are not exact", k)
		}
	}
	if got := path.minimise(plain.mu); got.sum > 0.93*plain.sum {
		t.Errorf("%v, plain %v", got.sum, plain.sum)
	}
	same(t, "step 4 at 0", d.scale(0), 1, 0)
	for _, r := range []float64{-0.1, 0.2, 1} { // step 4: CE ≤ (1−e^{−κR})/κ
		same(t, "step 4", r*d.scale(r), (1-math.Exp(-d.kappa*r))/d.kappa, 1e-12)
	}
}
