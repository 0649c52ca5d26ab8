package calib

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/optimize"
)

// Features holds the features of N examples, row-major [N×D].
type Features struct {
	N, D   int
	Values []float64
}

func (f Features) row(i int) []float64 { return f.Values[i*f.D : (i+1)*f.D] }

// RatioFit configures EstimateRatios.
type RatioFit struct {
	Folds int // 2 to 255
	Seed  uint64
	Bound float64 // ratios above Bound are lowered to Bound
}

// Ratios are estimated density ratios of a target population with respect to a source population.
type Ratios struct {
	Weight  []float64 // weight of each row of the source sample, in [0, Bound]
	Clipped int       // number of weights that were lowered to Bound
	// The fields Before and After say how much the means of the features differ between source and target. To compute
	// each of the two, divide each feature's difference by the feature's standard deviation in both samples together.
	// The largest of these numbers, without signs, is the result. Before uses the unweighted means of the source, and
	// After uses the weighted means of the source.
	Before, After float64
}

// EstimateRatios estimates the density ratio dQ/dP from a sample of P (the source) and a sample of Q (the target). It
// estimates the ratio at the rows of the source. A logistic regression on the features tells the two samples apart. Let
// o(x) be the odds of the target according to this regression. By Bayes' rule, the ratio is o(x)·n_P/n_Q if the
// regression was fitted on n_P rows of P and n_Q rows of Q. The ratio of a row comes from a regression that was fitted
// without the row's fold.
//
// The regression is right only under two conditions. The logarithm of the ratio must be linear in the features, and the
// features must explain the whole difference between P and Q. No amount of data gives a bound on the error of the
// weights, because the ratio can be anything where the samples have no rows.
func EstimateRatios(source, target Features, o RatioFit) (Ratios, error) {
	switch {
	case source.D != target.D || source.D == 0:
		return Ratios{}, fmt.Errorf("%d and %d features, want the same positive number", source.D, target.D)
	case o.Folds < 2 || o.Folds > 255:
		return Ratios{}, fmt.Errorf("%d folds is outside 2 to 255", o.Folds)
	case source.N < o.Folds || target.N < o.Folds:
		return Ratios{}, fmt.Errorf("%d and %d rows are too few for %d folds", source.N, target.N, o.Folds)
	case !(o.Bound >= 1) || math.IsInf(o.Bound, 0):
		return Ratios{}, fmt.Errorf("weight bound %v is below 1 or not finite", o.Bound)
	}
	scale := standardise(source, target)
	r := Ratios{Weight: make([]float64, source.N)}
	ofSource, ofTarget := assignFolds(source.N, o.Folds, o.Seed), assignFolds(target.N, o.Folds, o.Seed+1)
	for k := range o.Folds {
		d := discriminator{scale: scale, folds: [2][]uint8{ofSource, ofTarget}, leaveOut: uint8(k), data: [2]Features{source, target}}
		beta, err := d.fit()
		if err != nil {
			return Ratios{}, err
		}
		for i, fold := range ofSource {
			if fold != uint8(k) {
				continue
			}
			w := math.Exp(min(d.logOdds(beta, source.row(i)), 700)) * d.count[0] / d.count[1]
			if w > o.Bound {
				w = o.Bound
				r.Clipped++
			}
			r.Weight[i] = w
		}
	}
	r.Before, r.After = imbalance(source, target, nil, scale), imbalance(source, target, r.Weight, scale)
	return r, nil
}

// A scaling maps each feature to mean 0 and standard deviation 1. A constant feature is only shifted.
type scaling struct{ mean, deviation []float64 }

// standardise computes the scaling from the rows of both samples together.
func standardise(samples ...Features) scaling {
	d := samples[0].D
	m := make([]moments, d)
	for _, f := range samples {
		for i := range f.N {
			for j, x := range f.row(i) {
				m[j].add(x)
			}
		}
	}
	s := scaling{make([]float64, d), make([]float64, d)}
	for j := range m {
		s.mean[j], s.deviation[j] = m[j].mean, math.Sqrt(m[j].variance())
		if s.deviation[j] == 0 {
			s.deviation[j] = 1
		}
	}
	return s
}

// imbalance compares the weighted mean of each feature in the source with its mean in the target. It returns the
// largest difference over the features, in standard deviations of the feature.
func imbalance(source, target Features, weight []float64, s scaling) float64 {
	most := 0.0
	for j := range s.mean {
		var sum, total, other float64
		for i := range source.N {
			w := 1.0
			if weight != nil {
				w = weight[i]
			}
			sum += w * source.row(i)[j]
			total += w
		}
		for i := range target.N {
			other += target.row(i)[j]
		}
		most = max(most, math.Abs(sum/total-other/float64(target.N))/s.deviation[j])
	}
	return most
}

// A discriminator is a logistic regression that tells the target from the source. It is fitted on the rows of all folds
// but one.
type discriminator struct {
	scale    scaling
	data     [2]Features // source, target
	folds    [2][]uint8
	leaveOut uint8
	count    [2]float64 // number of rows of the source, and of the target, on which the regression is fitted
}

// logOdds returns the logarithm of the odds that x is from the target population. The argument 'beta' holds the
// coefficients of the scaled features and, as its last element, the constant.
func (d *discriminator) logOdds(beta, x []float64) float64 {
	sum := beta[len(x)]
	for j, v := range x {
		sum += beta[j] * (v - d.scale.mean[j]) / d.scale.deviation[j]
	}
	return sum
}

// fit minimises the mean negative log-likelihood plus ‖β‖²/2n. Here β holds the coefficients of the features, but not
// the constant, and n is the number of rows on which the regression is fitted. The penalty keeps β finite if a
// hyperplane separates the samples.
func (d *discriminator) fit() ([]float64, error) {
	d.count = [2]float64{}
	for k, folds := range d.folds {
		for _, f := range folds {
			d.count[k] += indicator(f != d.leaveOut)
		}
	}
	start := make([]float64, len(d.scale.mean)+1)
	start[len(d.scale.mean)] = math.Log(d.count[1] / d.count[0])
	result, err := optimize.Minimize(optimize.Problem{
		Func: func(beta []float64) float64 { return d.loss(nil, beta) },
		Grad: func(gradient, beta []float64) { d.loss(gradient, beta) },
	}, start, &optimize.Settings{GradientThreshold: 1e-8, MajorIterations: 5000}, &optimize.LBFGS{})
	if err == nil || result != nil && result.Gradient != nil && allBelow(result.Gradient, 1e-5) {
		// an error with a gradient near 0 means only that the line search reached the precision of float64
		return result.X, nil
	}
	return nil, errors.Join(errors.New("the logistic regression did not converge"), err)
}

func allBelow(x []float64, limit float64) bool {
	for _, v := range x {
		if !(math.Abs(v) < limit) {
			return false
		}
	}
	return true
}

// loss returns the penalised mean negative log-likelihood, and writes its gradient to the argument 'gradient' unless
// 'gradient' is nil.
func (d *discriminator) loss(gradient, beta []float64) float64 {
	clear(gradient)
	n, sum := d.count[0]+d.count[1], 0.0
	for k, f := range d.data {
		sign := 1 - 2*float64(k) // +1 for the source, −1 for the target
		for i := range f.N {
			if d.folds[k][i] == d.leaveOut {
				continue
			}
			x := f.row(i)
			z := sign * d.logOdds(beta, x)
			sum += softplus(z) / n
			if gradient == nil {
				continue
			}
			g := sign / (1 + math.Exp(-z)) / n
			for j, v := range x {
				gradient[j] += g * (v - d.scale.mean[j]) / d.scale.deviation[j]
			}
			gradient[len(x)] += g
		}
	}
	for j, b := range beta[:len(beta)-1] {
		sum += b * b / (2 * n)
		if gradient != nil {
			gradient[j] += b / n
		}
	}
	return sum
}

// softplus returns ln(1 + eᶻ).
func softplus(z float64) float64 { return max(z, 0) + math.Log1p(math.Exp(-math.Abs(z))) }
