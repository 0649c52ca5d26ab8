package calib

import (
	"context"
	"fmt"
	"slices"
)

// BoundPlan says which bounds on the calibration error of one sample to compute.
type BoundPlan struct {
	Methods []BoundMethod // methods of the upper bounds
	Lower   LowerMethod   // method of the lower bound
	Curve   bool          // true: also compute the calibration curve with its bounds
	// If Joint is set, all bounds share Params.Delta evenly. By the union bound, all of them then hold at once with
	// probability ≥ 1 − Delta. Otherwise each bound by itself holds with probability ≥ 1 − Delta.
	Joint  bool
	Params BoundParams
	Done   func(bound string) // called after each bound except the curve; may be nil
}

// ErrorBounds are the results of a BoundPlan.
type ErrorBounds struct {
	Upper    map[string]Bound // keyed by the name of the method
	Lower    LowerBound       // computed by the method BoundPlan.Lower
	Weighted *LowerBound      // from WeightedLower, if a method uses the weights of all rows
	Estimate float64          // from EstimateError, without a guarantee
	Curve    []CurvePoint
}

// BoundMethodError is the error of a method that could not compute its bound.
type BoundMethodError struct {
	Method string
	Err    error
}

func (e *BoundMethodError) Error() string { return fmt.Sprintf("%s: %v", e.Method, e.Err) }

// Unwrap returns Err.
func (e *BoundMethodError) Unwrap() error { return e.Err }

// Parts returns the number of bounds that Compute computes. Each method counts as one bound, and the lower bound is one
// more. If a method uses the weights of all rows, Compute also computes WeightedLower, which counts as one more bound.
// The curve is one more if Curve is set. It counts once, because its bounds hold in all bins together.
func (p BoundPlan) Parts() int {
	parts := len(p.Methods) + 1
	if p.usesWeights() {
		parts++
	}
	if p.Curve {
		parts++
	}
	return parts
}

// usesWeights reports whether a method uses the weights of all rows.
func (p BoundPlan) usesWeights() bool {
	return slices.ContainsFunc(p.Methods, func(m BoundMethod) bool { return m.Assumption == BoundedWeightedVariation })
}

// Compute computes the bounds. If an upper bound cannot be computed, the error is a *BoundMethodError. When ctx is
// cancelled, Compute stops before the next bound.
func (p BoundPlan) Compute(ctx context.Context, s *Sample) (ErrorBounds, error) {
	params, done := p.Params, p.Done
	if p.Joint {
		params.Delta /= float64(p.Parts())
	}
	if done == nil {
		done = func(string) {}
	}
	found := ErrorBounds{Upper: make(map[string]Bound)}
	for _, m := range p.Methods {
		if err := ctx.Err(); err != nil {
			return found, err
		}
		b, err := m.Compute(s, params)
		if err != nil {
			return found, &BoundMethodError{m.Name, err}
		}
		found.Upper[m.Name] = b
		done(m.Name)
	}
	var err error
	if found.Lower, err = p.Lower.Compute(s, params.Delta, params.Seed); err != nil {
		return found, err
	}
	found.Estimate = EstimateError(s)
	done(p.Lower.String())
	if p.usesWeights() {
		weighted, err := WeightedLower(params.Weighted, params.Delta, params.Seed)
		if err != nil {
			return found, err
		}
		found.Weighted = &weighted
		done("betting-weighted")
	}
	if p.Curve {
		found.Curve, err = Curve(s, params.Delta)
	}
	return found, err
}
