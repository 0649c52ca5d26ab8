package calib

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// deviationByHand computes the result of the function 'deviation' from its formula. It computes the bound for each λ of
// the grid λ₀, 2λ₀, 4λ₀, … up to 0.9, and returns the smallest bound. Here λ₀ = √(2·logInverse/n).
func deviationByHand(n int, a, squares, logInverse float64) float64 {
	grid := []float64{}
	for lambda := math.Sqrt(2 * logInverse / float64(n)); lambda <= 0.9; lambda *= 2 {
		grid = append(grid, lambda)
	}
	if len(grid) == 0 {
		grid = []float64{0.9}
	}
	best := math.Inf(1)
	for _, lambda := range grid {
		psi := -math.Log(1-lambda) - lambda
		best = min(best, a*(logInverse+math.Log(float64(len(grid)))+psi*squares/a/a)/lambda)
	}
	return best
}

func TestDeviationIsTheFormula(t *testing.T) {
	for _, n := range []int{1, 2, 7, 100, 12_345} {
		for _, x2 := range []float64{1, 0.3, 1e-4} {
			for _, l := range []float64{math.Log(2), math.Log(40), 30} {
				for _, weight := range []float64{1, 3} {
					a := min(1, weight/float64(n))
					squares := x2 * a / weight
					same(t, fmt.Sprint(n, x2, l, weight), deviation(n, a, squares, l), deviationByHand(n, a, squares, l), 1e-11)
				}
			}
		}
	}
	// If the smallest λ of the grid would exceed 0.9, the grid holds only 0.9.
	same(t, "n = 1", deviation(1, 1, 0.25, 5), (5+(-math.Log(0.1)-0.9)*0.25)/0.9, 1e-12)
}

// weightedPredictions returns goldenPredictions plus one prediction that is alone in its bin. The weights are unequal
// if the argument 'weighted' is true.
func weightedPredictions(weighted bool) *Predictions {
	p := goldenPredictions()
	p.Confidence, p.Correct = append(p.Confidence, 0.999), append(p.Correct, true)
	if weighted {
		p.Weight = make([]float64, p.N())
		for i := range p.Weight {
			p.Weight[i] = 0.5 + float64(i%7)
		}
	}
	return p
}

// sharesByHand returns three results: the share a_i of each member i in the total weight of all members, the largest
// share, and Σa_i²f(i)² over the members.
func sharesByHand(p *Predictions, members []int, f func(i int) float64) (share map[int]float64, a, squares float64) {
	share = map[int]float64{}
	total := 0.0
	for _, i := range members {
		share[i] = 1
		if p.Weight != nil {
			share[i] = p.Weight[i]
		}
		total += share[i]
	}
	for _, i := range members {
		share[i] /= total
		a = max(a, share[i])
		squares += math.Pow(share[i]*f(i), 2)
	}
	return share, a, squares
}

func allOf(p *Predictions) []int {
	members := make([]int, p.N())
	for i := range members {
		members[i] = i
	}
	return members
}

// membersOf returns the examples of a bin (lo, hi]. It need not treat the first bin separately, because no confidence
// is 0.
func membersOf(p *Predictions, b Bin) (members []int) {
	for i, c := range p.Confidence {
		if c > b.Lower && c <= b.Upper {
			members = append(members, i)
		}
	}
	return members
}

// bettingByHand computes the interval of BrierEstimate without histograms. For a given m, it multiplies the factors 1 ±
// λ(x−m) of all examples, where x is the squared error of the example. Each end of the interval is the m at which the
// product is 2/α.
func bettingByHand(p *Predictions, alpha float64, seed uint64) (low, high float64) {
	n := p.N()
	last := 0
	for 16<<last <= n {
		last++
	}
	r := newStream(seed, streamRounds)
	rounds := make([][]float64, last+1)
	for i := range n {
		zeros := 0
		for u := r.next(); zeros < last && u>>(63-zeros)&1 == 0; {
			zeros++
		}
		x := p.Confidence[i]
		if p.Correct[i] {
			x = 1 - x
		}
		rounds[last-zeros] = append(rounds[last-zeros], x*x)
	}
	product := func(m, sign float64) float64 {
		seen, product := []float64{0.5}, 1.0
		variance := 0.25
		for _, round := range rounds {
			limit := 0.75 / m
			if sign < 0 {
				limit = 0.75 / (1 - m)
			}
			lambda := min(limit, math.Sqrt(2*math.Log(2/alpha)/(float64(n)*variance)))
			for _, x := range round {
				product *= 1 + sign*lambda*(x-m)
			}
			seen = append(seen, round...)
			mean, squares := 0.0, 0.25 // the first value of 'seen' counts as a variable with mean ½ and variance ¼
			for _, x := range seen {
				mean += x / float64(len(seen))
			}
			for k, x := range seen {
				if k > 0 {
					squares += x * x
				} else {
					squares += 0.25
				}
			}
			variance = squares/float64(len(seen)) - mean*mean
		}
		return product
	}
	root := func(sign, from, to float64) float64 { // the m at which the product is 2/α; at 'from' the product is larger
		for range 60 {
			if mid := (from + to) / 2; product(mid, sign) >= 2/alpha {
				from = mid
			} else {
				to = mid
			}
		}
		return from
	}
	return root(1, 0, 1), root(-1, 1, 0)
}

// accuracyByHand computes the interval of the accuracy. Without weights, this is the Clopper–Pearson interval, from
// quantiles of the beta distribution. With weights, it is the weighted accuracy plus and minus the result of
// deviationByHand for the failure probability α/2.
func accuracyByHand(p *Predictions, members []int, alpha float64) (low, high float64, method IntervalMethod) {
	share, a, squares := sharesByHand(p, members, p.residual)
	var x, acc float64
	for _, i := range members {
		if p.Correct[i] {
			x++
			acc += share[i]
		}
	}
	if p.Weight != nil {
		d := deviationByHand(len(members), a, squares, math.Log(2/alpha))
		return max(0, acc-d), min(1, acc+d), Martingale
	}
	n := float64(len(members))
	low, high = 0, 1
	if x > 0 {
		low = distuv.Beta{Alpha: x, Beta: n - x + 1}.Quantile(alpha / 2)
	}
	if x < n {
		high = distuv.Beta{Alpha: x + 1, Beta: n - x}.Quantile(1 - alpha/2)
	}
	return low, high, ClopperPearson
}

func sameEstimate(t *testing.T, what string, got, want Estimate, tolerance float64) {
	t.Helper()
	if got.Method != want.Method {
		t.Errorf("%s: method %s, want %s", what, got.Method, want.Method)
	}
	near(t, what, got.Value, want.Value, tolerance)
	near(t, what+" from", got.Lower, want.Lower, tolerance)
	near(t, what+" to", got.Upper, want.Upper, tolerance)
}

func TestIntervalsFromTheFormula(t *testing.T) {
	for _, weighted := range []bool{false, true} {
		for _, level := range []float64{0.9, 0.99} {
			p := weightedPredictions(weighted)
			n, alpha := p.N(), 1-level
			what := func(metric string) string { return fmt.Sprintf("%s, weighted %v, level %v", metric, weighted, level) }

			low, high, method := accuracyByHand(p, allOf(p), alpha)
			share, a, squares := sharesByHand(p, allOf(p), p.residual)
			acc, brier := 0.0, 0.0
			for i, s := range share {
				acc += s * indicator(p.Correct[i])
				brier += s * math.Pow(indicator(p.Correct[i])-p.Confidence[i], 2)
			}
			sameEstimate(t, what("accuracy"), AccuracyEstimate(p, level), Estimate{acc, low, high, method}, 1e-9)

			_, _, brierSquares := sharesByHand(p, allOf(p), func(i int) float64 {
				return math.Pow(indicator(p.Correct[i])-p.Confidence[i], 2)
			})
			if weighted {
				d := deviationByHand(n, a, brierSquares, math.Log(2/alpha))
				sameEstimate(t, what("Brier"), BrierEstimate(p, level, 1),
					Estimate{brier, max(0, brier-d), min(1, brier+d), Martingale}, 1e-12)
			} else {
				low, high := bettingByHand(p, alpha, 1)
				sameEstimate(t, what("Brier"), BrierEstimate(p, level, 1), Estimate{brier, low, high, Betting}, 2e-6)
			}

			// Most of the 400 bins are empty. So a formula that uses the number of all bins in place of the number of
			// nonempty bins gives another result.
			bins, err := EqualWidth(p, 400, UpperClosed)
			if err != nil {
				t.Fatal(err)
			}
			used := 0
			var ece float64
			var mce Estimate
			mce.Method = method
			for _, b := range bins {
				if len(membersOf(p, b)) > 0 {
					used++
				}
			}
			bands := Bands(p, bins, level)
			for k, b := range bins {
				members := membersOf(p, b)
				if len(members) == 0 {
					if bands[k] != [2]float64{0, 1} {
						t.Errorf("%s: empty bin has %v", what("band"), bands[k])
					}
					continue
				}
				sum, weight, conf := 0.0, 0.0, 0.0
				for _, i := range members {
					sum += share[i] * (indicator(p.Correct[i]) - p.Confidence[i])
					weight += share[i]
					conf += share[i] * p.Confidence[i]
				}
				ece += math.Abs(sum)
				conf /= weight
				low, high, _ := accuracyByHand(p, members, alpha)
				near(t, what("band from"), bands[k][0], low, 1e-9)
				near(t, what("band to"), bands[k][1], high, 1e-9)
				low, high, _ = accuracyByHand(p, members, alpha/float64(used))
				mce.Value = max(mce.Value, math.Abs(sum/weight))
				mce.Upper = max(mce.Upper, high-conf, conf-low)
				mce.Lower = max(mce.Lower, low-conf, conf-high)
			}
			if used == len(bins) || used < 50 {
				t.Fatalf("%d of %d bins are in use", used, len(bins))
			}
			sameEstimate(t, what("MCE"), MCEEstimate(p, bins, level), mce, 1e-9)
			few, _ := EqualWidth(p, 5, UpperClosed)
			mce = Estimate{Method: method}
			for _, b := range few {
				low, high, _ := accuracyByHand(p, membersOf(p, b), alpha/5)
				mce.Value = max(mce.Value, math.Abs(b.Accuracy-b.Confidence))
				mce.Upper = max(mce.Upper, high-b.Confidence, b.Confidence-low)
				mce.Lower = max(mce.Lower, low-b.Confidence, b.Confidence-high)
			}
			sameEstimate(t, what("MCE of 5"), MCEEstimate(p, few, level), mce, 1e-9)
			up := deviationByHand(n, a, squares, math.Log(2/alpha))
			down := deviationByHand(n, a, squares, math.Log(2/alpha)+float64(used)*math.Ln2)
			sameEstimate(t, what("ECE"), ECEEstimate(p, bins, level),
				Estimate{ece, max(0, ece-down), min(1, ece+up), Martingale}, 1e-11)
			ece = ECE(few)
			down = deviationByHand(n, a, squares, math.Log(2/alpha)+5*math.Ln2)
			sameEstimate(t, what("ECE of 5"), ECEEstimate(p, few, level),
				Estimate{ece, max(0, ece-down), min(1, ece+up), Martingale}, 1e-11)
		}
	}
}

// For a large sample that is far from calibrated, the lower ends of the intervals are above 0.
func TestECEEstimateBelowFromTheFormula(t *testing.T) {
	const n = 4000
	p := &Predictions{Confidence: make([]float64, n), Correct: make([]bool, n)}
	for i := range n {
		p.Confidence[i] = 0.6 + 0.4*(float64(i)+0.5)/n
	}
	bins, err := EqualWidth(p, 10, UpperClosed)
	if err != nil {
		t.Fatal(err)
	}
	var ece, squares float64
	for _, c := range p.Confidence {
		ece += c / n
		squares += c * c / n / n
	}
	l := math.Log(2 / 0.05)
	want := Estimate{ece, ece - deviationByHand(n, 1.0/n, squares, l+4*math.Ln2),
		ece + deviationByHand(n, 1.0/n, squares, l), Martingale}
	sameEstimate(t, "ECE", ECEEstimate(p, bins, 0.95), want, 1e-10)
	if want.Lower < 0.5 || want.Upper > 1 {
		t.Errorf("the interval %v is cut off", want)
	}
}

func TestClasswiseEstimateFromTheFormula(t *testing.T) {
	logits, m, label := goldenLogits()
	for range 5 { // with many examples, both ends of the interval lie inside (0, 1)
		logits, label = append(logits, logits...), append(label, label...)
	}
	p, err := TopLabel(Softmax(logits, m, 2), m, label)
	if err != nil {
		t.Fatal(err)
	}
	n := len(label)
	squares := 0.0
	for i, y := range label {
		sum := 0.0
		for k := range m {
			sum += math.Abs(indicator(k == y)-p.Probability[i*m+k]) / float64(m)
		}
		squares += sum * sum / float64(n) / float64(n)
	}
	value, _, err := ClasswiseECE(p, 6, UpperClosed)
	if err != nil {
		t.Fatal(err)
	}
	l := math.Log(2 / 0.1)
	want := Estimate{value, value - deviationByHand(n, 1/float64(n), squares, l+float64(6*m)*math.Ln2),
		value + deviationByHand(n, 1/float64(n), squares, l), Martingale}
	got, err := ClasswiseEstimate(p, 6, UpperClosed, 0.9)
	if err != nil || want.Lower <= 0 || want.Upper >= 1 {
		t.Fatal(got, err, want)
	}
	sameEstimate(t, "classwise ECE", got, want, 1e-10)
}

// bcaByHand computes the BCa interval of Efron 1987 for a weighted mean of groups.
func bcaByHand(x, w []float64, value, level float64, r *splitMix) (low, high float64) {
	n := len(x)
	// The acceleration is the skewness of the jackknife influence values, divided by 6√n.
	var sx, sw, mean float64
	for g := range x {
		sx += x[g]
		sw += w[g]
	}
	jack := make([]float64, n)
	for g := range x {
		jack[g] = (sx - x[g]) / (sw - w[g])
		mean += jack[g] / float64(n)
	}
	var m2, m3 float64
	for _, j := range jack {
		m2 += math.Pow(mean-j, 2)
		m3 += math.Pow(mean-j, 3)
	}
	a := m3 / math.Pow(m2, 1.5) / 6
	means := make([]float64, 2000)
	below := 0.0
	for b := range means {
		var sx, sw float64
		for range n {
			g := r.uniformBelow(n)
			sx += x[g]
			sw += w[g]
		}
		means[b] = sx / sw
		if means[b] < value {
			below += 1.0 / 2000
		} else if means[b] == value {
			below += 0.5 / 2000
		}
	}
	slices.Sort(means)
	normal := distuv.Normal{Mu: 0, Sigma: 1}
	z0 := normal.Quantile(below)
	quantile := func(prob float64) float64 {
		z := z0 + normal.Quantile(prob)
		return means[int(2000*normal.CDF(z0+z/(1-a*z)))]
	}
	return quantile((1 - level) / 2), quantile((1 + level) / 2)
}

// Three cases are means of values from a skewed distribution. One has no weights, one has weights, and one has weights
// and more examples than groups. In the case with n = 132, many resampled means are equal to the mean.
func TestBootstrapFromTheFormula(t *testing.T) {
	for _, tt := range []struct {
		n              int
		weighted, ties bool // 'ties' means that many resampled means are equal to the mean of the original sample
	}{{130, false, false}, {300, true, false}, {132, false, true}, {5000, true, false}} {
		n, weighted := tt.n, tt.weighted
		rng := rand.New(rand.NewPCG(44, uint64(n)))
		p := &Predictions{Confidence: make([]float64, n), Correct: make([]bool, n)}
		x := make([]float64, n)
		for i := range x {
			x[i] = math.Exp(2 * rng.NormFloat64())
			if tt.ties {
				x[i] = []float64{-1, -1, 2}[i%3]
			}
			if weighted {
				p.Weight = append(p.Weight, 0.1+rng.ExpFloat64())
			}
		}
		got := p.bootstrapMean(func(i int) float64 { return x[i] }, 0.9, 5)
		// The next lines deal the examples to the groups.
		r := newStream(5, streamBootstrap)
		gx, gw := make([]float64, min(n, 4096)), make([]float64, min(n, 4096))
		var sx, sw float64
		for i := range n {
			w := 1.0
			if weighted {
				w = p.Weight[i]
			}
			g := i
			if n > 4096 {
				g = r.uniformBelow(4096)
			}
			gx[g] += w * x[i]
			gw[g] += w
			sx += w * x[i]
			sw += w
		}
		low, high := bcaByHand(gx, gw, sx/sw, 0.9, r)
		what := fmt.Sprintf("%+v", tt)
		if got.Method != Bootstrap {
			t.Errorf("%s: %s", what, got.Method)
		}
		near(t, what, got.Value, sx/sw, 1e-12)
		same(t, what+" from", got.Lower, low, 1e-11)
		same(t, what+" to", got.Upper, high, 1e-11)
	}
	// If all terms are equal, there is no interval.
	halves := &Predictions{Confidence: slices.Repeat([]float64{0.5}, 150), Correct: make([]bool, 150)}
	if e := NLLEstimate(halves, 0.9, 1); !math.IsNaN(e.Lower) || !math.IsNaN(e.Upper) {
		t.Errorf("equal terms: %+v", e)
	}
	// If the effective number of examples is below 100, there is no interval.
	for _, c := range []struct {
		n      int
		weight []float64
		there  bool
	}{
		{1, nil, false}, {99, nil, false}, {100, nil, true},
		{150, append(slices.Repeat([]float64{1}, 99), slices.Repeat([]float64{1e-9}, 51)...), false},
		{150, append(slices.Repeat([]float64{1}, 101), slices.Repeat([]float64{1e-9}, 49)...), true},
	} {
		p := &Predictions{Correct: make([]bool, c.n), Weight: c.weight}
		for i := range c.n {
			p.Confidence = append(p.Confidence, float64(i%50+1)/60)
		}
		e := NLLEstimate(p, 0.9, 1)
		if there := !math.IsNaN(e.Lower) && !math.IsNaN(e.Upper); there != c.there || (e.Method == Bootstrap) != c.there {
			t.Errorf("%d examples: %+v", c.n, e)
		}
	}
}

// JointBands divides 1−level among the bins that are not empty.
func TestJointBands(t *testing.T) {
	p := drawPredictions(200, 1, func(r *rand.Rand) float64 { return 0.5 * r.Float64() }, uniform01)
	bins, err := EqualWidth(p, 10, UpperClosed)
	if err != nil {
		t.Fatal(err)
	}
	got, want, single := JointBands(p, bins, 0.9), Bands(p, bins, 0.98), Bands(p, bins, 0.9) // five bins are not empty
	for k := range bins {
		for end := range 2 {
			if math.Abs(got[k][end]-want[k][end]) > 1e-9 {
				t.Errorf("bin %d: %v, want %v", k, got[k], want[k])
			}
		}
		if bins[k].N > 0 && !(got[k][0] < single[k][0] && got[k][1] > single[k][1]) {
			t.Errorf("bin %d: %v is not wider than %v", k, got[k], single[k])
		}
	}
	if got := JointBands(p, make([]Bin, 2), 0.9); got[0] != [2]float64{0, 1} {
		t.Errorf("empty bins: %v", got)
	}
}
