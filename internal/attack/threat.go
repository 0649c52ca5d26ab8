// Package attack searches for small perturbations that make a classifier's answer wrong. The share of inputs that no
// attack breaks is an upper bound on robust accuracy, because another attack may break more inputs.
//
// The package checks that the norm of every perturbation, rounded up, is at most Epsilon. For every success, it runs
// the classifier on the perturbed input to confirm the success. Results depend on the classifier, the examples, the
// threat and the seed, but not on the size of batches.
package attack

import (
	"math"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/param"
)

// Norm measures a perturbation.
type Norm string

// These are the norms.
const (
	Linf Norm = "linf" // largest change of any value
	L2   Norm = "l2"   // Euclidean norm
)

// Norms lists all norms.
var Norms = choice.Of("norm", Linf, L2)

func (n Norm) String() string { return string(n) }

// MarshalText writes the norm.
func (n Norm) MarshalText() ([]byte, error) { return []byte(n), nil }

// UnmarshalText reads a norm.
func (n *Norm) UnmarshalText(text []byte) error { return Norms.Unmarshal(text, n) }

// Threat says which perturbed inputs x′ an attack may use: ‖x′ − x‖ is at most Epsilon, and each value of x′ is in the
// box from Low to High.
type Threat struct {
	Norm      Norm
	Epsilon   float64
	Low, High float32
}

// Check returns an error unless Epsilon is positive and finite, and Low is below High.
func (t Threat) Check() error {
	switch {
	case !(t.Epsilon > 0) || math.IsInf(t.Epsilon, 0):
		return param.Errorf("%s %v: want a number above 0", param.Epsilon, t.Epsilon)
	case !(t.Low < t.High):
		return param.Errorf("%s %v,%v: want LOW,HIGH with LOW below HIGH", param.Box, t.Low, t.High)
	}
	return nil
}

// Outside returns the first value of x that is outside the box. The result 'found' is false if there is no such value.
func (t Threat) Outside(x []float32) (value float32, found bool) {
	for _, v := range x {
		if !(v >= t.Low && v <= t.High) {
			return v, true
		}
	}
	return 0, false
}

// Distance returns ‖a − x‖, rounded up: the result is never below the exact norm of the difference of these float32
// numbers. For Linf the result is exact if a float64 can hold the largest difference exactly.
func (t Threat) Distance(a, x []float32) float64 {
	if t.Norm == L2 {
		sum := 0.
		for i := range x {
			d := float64(a[i]) - float64(x[i])
			sum += d * d
		}
		// Each difference, square and partial sum is off by at most a factor 1 ± 2⁻⁵³.
		slack := 1 + float64(len(x)+8)*0x1p-52
		return math.Nextafter(math.Sqrt(sum*slack), math.Inf(1)) * sign(sum)
	}
	most := 0.
	for i := range x {
		most = max(most, magnitude(float64(a[i]), float64(x[i])))
	}
	return most
}

// sign returns 0 if the argument 'sum' is 0, and 1 otherwise. As a factor in Distance, it makes the distance of equal
// inputs 0.
func sign(sum float64) float64 {
	if sum == 0 {
		return 0
	}
	return 1
}

// magnitude returns |a − b|. If a float64 cannot hold this number exactly, magnitude rounds it up.
func magnitude(a, b float64) float64 {
	d := a - b
	back := d - a
	if (a-(d-back))-(b+back) != 0 { // the left side is exactly the rounding error of d (Knuth's two-sum)
		return math.Nextafter(math.Abs(d), math.Inf(1))
	}
	return math.Abs(d)
}

// Project moves a, in place, to a nearby input that the threat allows. First it moves each value of a into the box.
// Then it moves a towards x until the Distance between a and x is at most Epsilon. The input x must be in the box.
func (t Threat) Project(a, x []float32) {
	for i, v := range a {
		if v != v {
			v = x[i]
		}
		a[i] = min(max(v, t.Low), t.High)
	}
	if t.Norm == Linf {
		for i, v := range a {
			a[i] = t.nearest(v, x[i])
		}
		return
	}
	far := t.Distance(a, x)
	if far <= t.Epsilon {
		return
	}
	whole := append([]float32(nil), a...)
	// Rounding to float32 may make the perturbation longer than Epsilon again. The loop therefore shrinks the factor
	// until the perturbation is short enough. With the factor 0 the result is x itself.
	for shrink, less := 1., 0x1p-22; ; shrink, less = shrink-less, 2*less {
		factor := max(0, shrink) * t.Epsilon / far
		for i := range a {
			a[i] = min(max(float32(float64(x[i])+factor*(float64(whole[i])-float64(x[i]))), t.Low), t.High)
		}
		if t.Distance(a, x) <= t.Epsilon {
			return
		}
	}
}

// nearest returns the number nearest to v among the numbers at most Epsilon away from x.
func (t Threat) nearest(v, x float32) float32 {
	if magnitude(float64(v), float64(x)) <= t.Epsilon {
		return v
	}
	v = float32(float64(x) + math.Copysign(t.Epsilon, float64(v)-float64(x)))
	for magnitude(float64(v), float64(x)) > t.Epsilon {
		v = math.Nextafter32(v, x)
	}
	return v
}
