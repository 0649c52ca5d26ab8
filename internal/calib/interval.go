package calib

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/rscert/rscert/internal/binomial"
)

// Estimate is a metric with a two-sided confidence interval. An undefined Value, Lower or Upper is NaN or infinite.
type Estimate struct {
	Value, Lower, Upper float64
	Method              IntervalMethod
}

// IntervalMethod says how an interval was computed, and so how far to trust the interval.
type IntervalMethod string

const (
	// ClopperPearson intervals are exact for independent examples.
	ClopperPearson IntervalMethod = "clopper-pearson"
	// Martingale intervals hold for every sample size (see the function 'deviation').
	Martingale IntervalMethod = "martingale"
	// Betting intervals hold for every number of independent, identically distributed examples.
	Betting IntervalMethod = "betting"
	// Bootstrap intervals cover the true value with a probability that differs from the level by O(1/n). They are too
	// short for small n and for heavy tails.
	Bootstrap IntervalMethod = "bca-bootstrap"
)

// deviation returns a bound on how far a weighted mean of independent x_i ∈ [−1, 1] can lie below its expectation. Let
// a_i ≥ 0 be the share of x_i in the total weight, so that Σa_i = 1. Let a = max a_i and squares = Σa_i²x_i². With
// probability ≥ 1 − exp(−logInverse),
//
//	Σ a_i(E[x_i] − x_i) ≤ a·(logInverse + ln J + ψ(λ)·squares/a²)/λ
//
// for all λ in a grid of J values, where ψ(λ) = −ln(1−λ) − λ. So deviation returns the smallest right-hand side. The
// bound follows from the inequality exp(λY − ψ(λ)Y²) ≤ 1 + λY, which holds for Y ≥ −1 and 0 ≤ λ < 1 (Fan, Grama & Liu
// 2015, Lemma 4.1). Here Y = −a_i x_i/a. The bound depends on each x_i only through x_i². So if all |x_i| are known,
// one bound is valid for every pattern of signs of the x_i. Successive λ of the grid have the ratio 2. The grid depends
// only on n and logInverse.
func deviation(n int, a, squares, logInverse float64) float64 {
	const most = 0.9
	lambda := math.Sqrt(2 * logInverse / float64(n)) // the best λ if every x² is 1 and all a_i are equal
	j := max(1, 1+int(math.Floor(math.Log2(most/lambda))))
	lambda = min(lambda, most)
	l := logInverse + math.Log(float64(j))
	best := math.Inf(1)
	for range j {
		psi := -math.Log1p(-lambda) - lambda
		best = min(best, a*(l+psi*squares/(a*a))/lambda)
		lambda *= 2
	}
	return best
}

// The method 'shares' returns max a_i and Σa_i²f(i)² over the examples, where a_i is the share of example i in the
// total weight.
func (p *Predictions) shares(f func(i int) float64) (a, squares float64) {
	total := 0.0
	for i := range p.Confidence {
		total += p.weight(i)
	}
	for i := range p.Confidence {
		share := p.weight(i) / total
		x := share * f(i)
		a = max(a, share)
		squares += x * x
	}
	return a, squares
}

func clamp01(x float64) float64 { return min(1, max(0, x)) }

// AccuracyEstimate returns the accuracy with an interval. Without weights the interval is exact. With weights the
// accuracy is the known mean confidence plus the mean of correct − confidence. The function 'deviation' bounds the
// error of this mean.
func AccuracyEstimate(p *Predictions, level float64) Estimate {
	return p.shareEstimate(p.answersRight, func(i int) float64 {
		if p.Quantity == ClassOneQuantity {
			return max(p.Confidence[i], 1-p.Confidence[i])
		}
		return p.Confidence[i]
	}, level)
}

// PrevalenceEstimate returns the share of the examples for which Correct is true, and an interval for this share. For
// class-1 predictions this is the share of label 1.
func PrevalenceEstimate(p *Predictions, level float64) Estimate {
	return p.shareEstimate(func(i int) bool { return p.Correct[i] },
		func(i int) float64 { return p.Confidence[i] }, level)
}

// shareEstimate returns the share of the examples for which the function 'is' returns true, and an interval for this
// share. The function 'guess' returns a guess of the probability that 'is' returns true for an example. If the examples
// have weights, a good guess makes the interval shorter.
func (p *Predictions) shareEstimate(is func(i int) bool, guess func(i int) float64, level float64) Estimate {
	all := make([]Bin, 1)
	for i := range p.Confidence {
		all[0].add(guess(i), is(i), p.weight(i))
	}
	finishBins(all)
	low, high, method := all[0].accuracyInterval(p.Weight != nil, 1-level)
	return Estimate{all[0].Accuracy, low, high, method}
}

// accuracyInterval returns the interval at level 1−α for P(correct) among the examples of the bin.
func (b *Bin) accuracyInterval(weighted bool, alpha float64) (low, high float64, method IntervalMethod) {
	if !weighted {
		n := int64(b.N)
		return binomial.LowerBound(b.correct, n, alpha/2), binomial.UpperBound(b.correct, n, alpha/2), ClopperPearson
	}
	d := deviation(b.N, b.largest/b.total, b.squares/(b.total*b.total), math.Log(2/alpha))
	return clamp01(b.Accuracy - d), clamp01(b.Accuracy + d), Martingale
}

// Bands returns an interval for the accuracy of each bin. Each interval by itself holds with a probability of at least
// the argument 'level'. The intervals need not hold simultaneously. An empty bin has the interval [0, 1].
func Bands(p *Predictions, bins []Bin, level float64) [][2]float64 {
	out := make([][2]float64, len(bins))
	for k, b := range bins {
		out[k] = [2]float64{0, 1}
		if b.N > 0 {
			out[k][0], out[k][1], _ = b.accuracyInterval(p.Weight != nil, 1-level)
		}
	}
	return out
}

// JointBands returns an interval for the accuracy of each bin, as Bands does. But all intervals of JointBands hold
// simultaneously, with a probability of at least the argument 'level' (Bonferroni). Each of the M bins that are not
// empty gets the level 1 − (1−level)/M.
func JointBands(p *Predictions, bins []Bin, level float64) [][2]float64 {
	used := 0
	for _, b := range bins {
		if b.N > 0 {
			used++
		}
	}
	return Bands(p, bins, 1-(1-level)/float64(max(1, used)))
}

// ECEEstimate returns the ECE of the bins. Its interval is for θ, the ECE in which each outcome is replaced by its
// probability given the confidence:
//
//	θ = Σ_m |D_m|,  D_m = Σ_{i∈m} a_i(P(correct_i) − confidence_i).
//
// Here a_i is the share of example i in the total weight, and α is 1 − level. The plain ECE exceeds θ on average,
// because noise does not cancel within the absolute values. A percentile bootstrap adds the same noise again, and its
// interval almost always misses a θ near 0. The interval of ECEEstimate is valid for every n and θ, even if the bins
// depend on the confidences. The proof writes |D_m| = s_m D_m with signs s_m = ±1. D̂_m is the observed D_m, in which
// the outcomes replace the probabilities.
//
//   - above: θ = Σs_m D_m for one fixed s, and Σs_m D̂_m ≤ ECE for every s. So θ ≤ ECE + d. Here d is the bound that
//     the function 'deviation' gives for the mean of the signed residuals ±(correct − confidence), at the failure
//     probability α/2.
//   - below: ECE = Σs_m D̂_m for the observed s, and Σs_m D_m ≤ θ for every s. So θ ≥ ECE − d′. The bound d′ must hold
//     for every pattern s. M nonempty bins have 2^M patterns, so d′ is the bound of the function 'deviation' at
//     (α/2)/2^M.
func ECEEstimate(p *Predictions, bins []Bin, level float64) Estimate {
	ece := ECE(bins)
	a, squares := p.shares(p.residual)
	return signsEstimate(ece, p.N(), a, squares, occupied(bins), level)
}

func occupied(bins []Bin) int {
	n := 0
	for _, b := range bins {
		if b.N > 0 {
			n++
		}
	}
	return n
}

func signsEstimate(value float64, n int, a, squares float64, signs int, level float64) Estimate {
	l := math.Log(2 / (1 - level))
	return Estimate{
		Value:  value,
		Lower:  max(0, value-deviation(n, a, squares, l+float64(signs)*math.Ln2)),
		Upper:  min(1, value+deviation(n, a, squares, l)),
		Method: Martingale,
	}
}

// MCEEstimate returns the MCE of the bins and an interval for the largest |P(correct | bin) − mean confidence| over
// nonempty bins. The intervals of the accuracies hold simultaneously: each one fails with probability at most
// (1−level)/M for M nonempty bins.
func MCEEstimate(p *Predictions, bins []Bin, level float64) Estimate {
	e := Estimate{Value: MCE(bins), Method: ClopperPearson}
	used := occupied(bins)
	for _, b := range bins {
		if b.N == 0 {
			continue
		}
		low, high, method := b.accuracyInterval(p.Weight != nil, (1-level)/float64(used))
		e.Method = method
		e.Upper = max(e.Upper, high-b.Confidence, b.Confidence-low)
		e.Lower = max(e.Lower, low-b.Confidence, b.Confidence-high)
	}
	return e
}

// ClasswiseEstimate returns the mean of ClasswiseECE with an interval. It computes the interval in the same way as
// ECEEstimate. The residual of an example is the mean over classes k of ±(1{label = k} − p_k). A pattern of signs has
// one sign for each bin of each class.
func ClasswiseEstimate(p *Predictions, bins int, edge Edge, level float64) (Estimate, error) {
	value, _, err := ClasswiseECE(p, bins, edge)
	if err != nil {
		return Estimate{}, err
	}
	a, squares := p.shares(func(i int) float64 {
		// For every pattern of signs, the absolute value of the residual is at most
		// ((1−p_y) + Σ_{k≠y} p_k)/classes, where y is the label.
		sum := 0.0
		for k, x := range p.Probability[i*p.Classes : (i+1)*p.Classes] {
			sum += math.Abs(indicator(k == p.Label[i]) - x)
		}
		return sum / float64(p.Classes)
	})
	return signsEstimate(value, p.N(), a, squares, bins*p.Classes, level), nil
}

// BrierEstimate returns the mean of (confidence − correct)². Its terms are in [0, 1]. Without weights the interval
// comes from MeanInterval. With weights it comes from the function 'deviation'.
func BrierEstimate(p *Predictions, level float64, seed uint64) Estimate {
	return p.boundedEstimate(p.TopLabelBrier(), p.brierTerm, 1, level, seed)
}

// boundedEstimate adds an interval to the argument 'value', which must be the weighted mean of f. Each f(i) must lie in
// [0, most].
func (p *Predictions) boundedEstimate(
	value float64, f func(i int) float64, most, level float64, seed uint64,
) Estimate {
	if p.Weight == nil {
		low, high := MeanInterval(p.N(), func(i int) float64 { return f(i) / most }, 1-level, seed)
		return Estimate{value, min(value, most*low), max(value, most*high), Betting}
	}
	a, squares := p.shares(func(i int) float64 { return f(i) / most })
	d := most * deviation(p.N(), a, squares, math.Log(2/(1-level)))
	return Estimate{value, max(0, value-d), min(most, value+d), Martingale}
}

// MinBootstrap is the smallest effective number of examples with which NLLEstimate returns an interval. If wrong
// answers with high confidence are rare, a smaller sample often contains no such answer. Then its bootstrap interval
// misses the true NLL far too often.
const MinBootstrap = 100

// NLLEstimate returns the NLL and a bootstrap interval. If the probability vectors are unknown, it uses TopLabelNLL in
// place of the NLL. The NLL is a mean of unbounded terms, so no interval can be exact. There is no interval if the
// effective number of examples is below MinBootstrap.
func NLLEstimate(p *Predictions, level float64, seed uint64) Estimate {
	if p.Probability == nil {
		return p.bootstrapMean(p.topLabelNLLTerm, level, seed)
	}
	return p.bootstrapMean(p.nllTerm, level, seed)
}

const (
	bootstrapGroups    = 4096
	bootstrapResamples = 2000
)

// bootstrapMean returns the weighted mean of f with the BCa bootstrap interval (Efron 1987): percentiles of resampled
// means, shifted for bias and skewness. If there are more than bootstrapGroups examples, bootstrapMean deals them at
// random to bootstrapGroups groups and resamples the groups. The mean is a ratio of sums over groups, so the cost of a
// resample does not grow with n. If all terms are equal, there is no interval.
func (p *Predictions) bootstrapMean(f func(i int) float64, level float64, seed uint64) Estimate {
	e := Estimate{p.meanOf(f), math.NaN(), math.NaN(), Bootstrap}
	size := float64(p.N())
	if p.Weight != nil {
		size = EffectiveSize(p.Weight)
	}
	if size < MinBootstrap {
		e.Method = ""
		return e
	}
	if math.IsInf(e.Value, 0) || math.IsNaN(e.Value) {
		return e
	}
	r := newStream(seed, streamBootstrap)
	n := p.N()
	groups := min(n, bootstrapGroups)
	group := func(i int) int { return i }
	if n > groups {
		group = func(int) int { return r.uniformBelow(groups) }
	}
	x, w := make([]float64, groups), make([]float64, groups)
	var sumX, sumW float64
	for i := range n {
		g, wi := group(i), p.weight(i)
		// The sums add deviations from the mean, so that resampled means lose no digits.
		xi := wi * (f(i) - e.Value)
		x[g] += xi
		w[g] += wi
		sumX += xi
		sumW += wi
	}
	// A jackknife over the groups estimates the acceleration of the BCa interval.
	var m2, m3, mean float64
	jack := make([]float64, groups)
	for g := range jack {
		if groups > 1 {
			jack[g] = (sumX - x[g]) / (sumW - w[g])
		}
		mean += jack[g] / float64(groups)
	}
	for _, t := range jack {
		d := mean - t
		m2 += d * d
		m3 += d * d * d
	}
	if !(m2 > 0) {
		return e
	}
	acceleration := m3 / (6 * math.Pow(m2, 1.5))

	means := make([]float64, bootstrapResamples)
	below := 0.0
	for b := range means {
		var sx, sw float64
		for range groups {
			g := r.uniformBelow(groups)
			sx += x[g]
			sw += w[g]
		}
		means[b] = sx / sw
		switch {
		case means[b] < 0:
			below++
		case means[b] == 0:
			below += 0.5
		}
	}
	slices.Sort(means)
	below = min(bootstrapResamples-0.5, max(0.5, below))
	z0 := distuv.UnitNormal.Quantile(below / bootstrapResamples)
	quantile := func(prob float64) float64 {
		z := z0 + distuv.UnitNormal.Quantile(prob)
		rank := distuv.UnitNormal.CDF(z0+z/(1-acceleration*z)) * bootstrapResamples
		return e.Value + means[min(bootstrapResamples-1, max(0, int(rank)))]
	}
	e.Lower, e.Upper = quantile((1-level)/2), quantile((1+level)/2)
	return e
}
