package calib

import (
	"errors"
	"fmt"
	"math"

	"github.com/rscert/rscert/internal/certify"
)

// MinTemperature and MaxTemperature stand for the limits T → 0 and T → ∞. If the likelihood has no maximum,
// FitTemperature returns one of them. For logits of usual size, the softmax is nearly one-hot at MinTemperature and
// nearly uniform at MaxTemperature.
const (
	MinTemperature = 1e-3
	MaxTemperature = 1e3
)

// TemperatureFit is the result of FitTemperature.
type TemperatureFit struct {
	Temperature float64
	NLL         float64 // mean NLL at Temperature
	// AtLimit is true if the NLL has no minimum. There are two cases. If Temperature is MinTemperature, the data are
	// separable: every true label has the largest logit, and the NLL falls as T falls. If Temperature is
	// MaxTemperature, the mean logit of the true labels is not above the mean logit of all classes. Then the NLL falls
	// as T grows, and no finite T is better than uniform probabilities.
	AtLimit bool
}

// FitTemperature finds T > 0 that minimises the mean negative log-likelihood of softmax(z/T) (Guo et al. 2017) for
// logits z [n×classes], row-major. This mean is convex in β = 1/T, with derivative mean(Σ_k p_k z_k − z_label) and
// second derivative mean(Var_p z). FitTemperature uses Newton's method in a bracket that shrinks at every step. If
// Newton's step would leave the bracket, FitTemperature bisects the bracket on a logarithmic scale instead. An error
// about a row is a *RowError.
func FitTemperature(logits []float64, classes int, label []int) (TemperatureFit, error) {
	if err := checkLogits(logits, classes, label); err != nil {
		return TemperatureFit{}, err
	}
	lo, hi := 1/MaxTemperature, 1/MinTemperature
	lowNLL, lowSlope, _ := nllAt(logits, classes, label, lo)
	highNLL, highSlope, _ := nllAt(logits, classes, label, hi)
	_, slopeAtZero, _ := nllAt(logits, classes, label, 0)
	switch {
	case lowSlope == 0 && highSlope == 0: // the NLL is convex, so it is constant between lo and hi: keep T = 1
		return TemperatureFit{1, highNLL, false}, nil
	case slopeAtZero >= 0: // the NLL is convex, so for β > 0 it is never below its value at β = 0
		return TemperatureFit{1 / lo, lowNLL, true}, nil
	case separable(logits, classes, label):
		return TemperatureFit{1 / hi, highNLL, true}, nil
	}
	// There is a minimum. Widen the bracket [lo, hi] until the slope changes its sign between lo and hi. If rounding
	// does not interfere, this happens before lo or hi leaves the range of float64.
	for ; lowSlope >= 0 && lo > 0x1p-1000; lo /= 64 {
		hi = lo
		_, lowSlope, _ = nllAt(logits, classes, label, lo/64)
	}
	for ; highSlope <= 0 && hi < 0x1p1000; hi *= 64 {
		lo = hi
		_, highSlope, _ = nllAt(logits, classes, label, hi*64)
	}
	return newtonNLL(logits, classes, label, lo, hi)
}

// checkLogits returns an error if the logits and labels do not define a likelihood. An error about a row is a
// *RowError.
func checkLogits(logits []float64, classes int, label []int) error {
	switch {
	case classes < 2:
		return fmt.Errorf("%d classes, must be 2 or more", classes)
	case len(label) == 0:
		return errNoRows
	case len(logits) != classes*len(label):
		return fmt.Errorf("%d logits for %d labels of %d classes", len(logits), len(label), classes)
	}
	for i, y := range label {
		if y < 0 || y >= classes {
			return &RowError{i, fmt.Sprintf("label %d is outside 0 to %d", y, classes-1)}
		}
		for _, z := range logits[i*classes : (i+1)*classes] {
			if math.IsNaN(z) || math.IsInf(z, 1) {
				return &RowError{i, fmt.Sprintf("logit %v is not a number below infinity", z)}
			}
		}
		if z := logits[i*classes+y]; math.IsInf(z, -1) {
			return &RowError{i, fmt.Sprintf("the logit of the label %d is %v", y, z)}
		}
	}
	return nil
}

// newtonNLL minimises the negative log-likelihood over β between lo and hi. It starts at β = 1 if 1 lies between lo and
// hi.
func newtonNLL(logits []float64, classes int, label []int, lo, hi float64) (TemperatureFit, error) {
	beta := 1.0
	if !(lo < beta && beta < hi) {
		beta = math.Sqrt(lo) * math.Sqrt(hi)
	}
	for range 2000 {
		nll, slope, curvature := nllAt(logits, classes, label, beta)
		if slope == 0 || hi-lo <= 0x1p-44*hi {
			return TemperatureFit{1 / beta, nll, false}, nil
		}
		if slope < 0 {
			lo = beta
		} else {
			hi = beta
		}
		next := beta - slope/curvature
		if !(next > lo && next < hi) {
			next = math.Sqrt(lo) * math.Sqrt(hi)
		}
		// Newton's method converges quadratically. So after such a small step, 'next' is as precise as the sums in
		// nllAt.
		if math.Abs(next-beta) <= 1e-12*beta {
			nll, _, _ := nllAt(logits, classes, label, next)
			return TemperatureFit{1 / next, nll, false}, nil
		}
		beta = next
	}
	return TemperatureFit{}, errors.New("the temperature did not converge")
}

// The function 'separable' reports whether every label has the largest logit of its row.
func separable(logits []float64, classes int, label []int) bool {
	for i, y := range label {
		row := logits[i*classes : (i+1)*classes]
		for _, z := range row {
			if z > row[y] {
				return false
			}
		}
	}
	return true
}

// nllAt returns the mean NLL at β = 1/T and its first two derivatives in β.
func nllAt(logits []float64, classes int, label []int, beta float64) (nll, slope, curvature float64) {
	for i, y := range label {
		z := logits[i*classes : (i+1)*classes]
		top := z[0]
		for _, x := range z {
			top = max(top, x)
		}
		// The sums use logits minus the largest logit, because the largest logit can be huge.
		var sum, first, second float64
		for _, x := range z {
			d := x - top
			if math.IsInf(d, -1) {
				continue // this class has probability 0 at every β
			}
			e := math.Exp(beta * d)
			sum += e
			first += e * d
			second += e * d * d
		}
		first /= sum
		at := z[y] - top
		nll += math.Log(sum) - beta*at
		slope += first - at
		curvature += second/sum - first*first
	}
	n := float64(len(label))
	return nll / n, slope / n, curvature / n
}

// Softmax returns the probabilities softmax(z/T) of logits [n×classes] (certify.Softmax).
func Softmax(logits []float64, classes int, temperature float64) []float64 {
	out := make([]float64, len(logits))
	certify.Softmax(logits, out, classes, temperature)
	return out
}

// Holdout marks the given share of n rows at random, at least one row and at most n−1. For a given n and a given share,
// the choice depends only on the seed.
func Holdout(n int, share float64, seed uint64) ([]bool, error) {
	if !(share > 0 && share < 1) {
		return nil, fmt.Errorf("holdout %v is outside (0, 1)", share)
	}
	if n < 2 {
		return nil, fmt.Errorf("%d rows are too few to hold some out: at least 2 are needed", n)
	}
	count := min(n-1, max(1, int(math.Round(share*float64(n)))))
	out := make([]bool, n)
	r := newStream(seed, streamHoldout)
	for i := range n { // samples without replacement, in order (Knuth's algorithm S)
		if r.uniformBelow(n-i) < count {
			out[i] = true
			count--
		}
	}
	return out, nil
}
